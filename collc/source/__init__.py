"""From .coll text to a Program: parsing, names and types, elaboration."""

from collc.source.elaboration.elaborate import load_program

__all__ = ["load_program"]
