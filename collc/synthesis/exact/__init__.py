"""Fewest steps and Pareto points by Z3."""

from collc.synthesis.exact.sums import exact_sums
from collc.synthesis.exact.synthesizer import NoShorter, exact

__all__ = ["NoShorter", "exact", "exact_sums"]
