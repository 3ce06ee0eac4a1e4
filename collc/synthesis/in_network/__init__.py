"""Reductions in switches."""

from collc.synthesis.in_network.synthesizer import in_network

__all__ = ["in_network"]
