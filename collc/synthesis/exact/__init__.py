"""Fewest steps and Pareto points by Z3."""

from collc.synthesis.exact.synthesizer import NoShorter, exact
from collc.synthesis.exact.tree_sums import exact_sums

__all__ = ["NoShorter", "exact", "exact_sums"]
