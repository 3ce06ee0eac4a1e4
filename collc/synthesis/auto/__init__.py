"""Chooses among the other synthesizers by demand and network."""

from collc.synthesis.auto.synthesizer import auto

__all__ = ["auto"]
