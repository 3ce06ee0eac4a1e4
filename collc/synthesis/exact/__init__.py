"""Exact search with Z3: schedules with the fewest steps, and Pareto points."""

from collc.synthesis.exact.sums import exact_sums
from collc.synthesis.exact.synthesizer import exact

__all__ = ["exact", "exact_sums"]
