"""Schedules of Cayley graphs: that of one NPU, moved to all others."""

from collc.synthesis.symmetric.group import find_group
from collc.synthesis.symmetric.synthesizer import representative, symmetric

__all__ = ["find_group", "representative", "symmetric"]
