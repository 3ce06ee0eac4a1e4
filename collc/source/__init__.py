"""Reads `.coll` programs: parsing, static checks of names and types, elaboration to networks and demands."""
