"""Chunks of few holders, spread rarest first."""

from collc.synthesis.swarm.way import swarm

__all__ = ["swarm"]
