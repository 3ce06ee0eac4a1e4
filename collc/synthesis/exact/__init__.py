"""Exact search with Z3: schedules with the fewest steps, and Pareto points."""

from collc.synthesis.exact.synthesizer import NoShorter, exact
from collc.synthesis.exact.tree_sums import exact_sums

__all__ = ["NoShorter", "exact", "exact_sums"]
