"""Schedules of Cayley graphs: what one NPU sends is planned, and the translations of that plan serve all others."""

from collc.synthesis.symmetric.group import find_group
from collc.synthesis.symmetric.synthesizer import representative, symmetric

__all__ = ["find_group", "representative", "symmetric"]
