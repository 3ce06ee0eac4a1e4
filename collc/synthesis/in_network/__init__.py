"""Reductions in switches."""

from collc.synthesis.in_network.synthesizer import has_reducing_switch, in_network

__all__ = ["has_reducing_switch", "in_network"]
