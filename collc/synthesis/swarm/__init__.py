"""The synthesizer `swarm`: rarest-first spreading of chunks that few NPUs hold (broadcast, reduce and the like)."""

from collc.synthesis.swarm.synthesizer import swarm

__all__ = ["swarm"]
