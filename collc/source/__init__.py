"""From .coll text to a Program: parsing, names and types, elaboration."""
