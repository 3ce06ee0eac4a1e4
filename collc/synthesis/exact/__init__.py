"""Fewest steps and Pareto points by Z3."""

from collc.synthesis.exact.sums import exact_sums
from collc.synthesis.exact.way import exact

__all__ = ["exact", "exact_sums"]
