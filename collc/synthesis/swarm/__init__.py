"""Chunks of few holders, spread rarest first."""

from collc.synthesis.swarm.synthesizer import swarm

__all__ = ["swarm"]
