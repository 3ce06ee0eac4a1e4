"""Throughput-optimal trees (ForestColl)."""

from collc.synthesis.forest.synthesizer import forest

__all__ = ["forest"]
