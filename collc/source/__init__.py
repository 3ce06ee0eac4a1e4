"""Reads `.coll` programs: parsing, static checks of names and types, elaboration to networks and demands."""

from collc.source.elaboration.elaborate import load_program

__all__ = ["load_program"]
