"""Reductions made in switches."""

from collc.synthesis.in_network.synthesizer import adds_up, in_network

__all__ = ["adds_up", "in_network"]
