"""Exact search with Z3: schedules with the fewest steps, and Pareto points."""

from collc.synthesis.exact.sums import exact_sums
from collc.synthesis.exact.synthesizer import NoShorter, exact

__all__ = ["NoShorter", "exact", "exact_sums"]
