"""Algorithms written by hand, laid out on the links of a network."""

from collc.synthesis.fixed.layout import lay_out

__all__ = ["lay_out"]
