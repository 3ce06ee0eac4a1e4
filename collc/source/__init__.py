"""From .coll text to a Program: parsing, names and types, elaboration."""

from collc.source.elaboration.elaborate import check_program, load_program

__all__ = ["check_program", "load_program"]
