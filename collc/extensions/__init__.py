"""What can be added to collc: one table for each kind of extension, one record for each extension.

Everything else (the language, `--help`, passes, Python's keywords, tables of the documents) derives from these tables.
The records are light: they import what runs when it runs. docs/extending.md has recipes.
"""
