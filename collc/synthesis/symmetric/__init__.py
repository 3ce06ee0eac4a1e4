"""Schedules by symmetry: what one NPU sends is planned, and the translations of that plan serve all others."""

from collc.synthesis.symmetric.cluster import is_cluster
from collc.synthesis.symmetric.group import find_group
from collc.synthesis.symmetric.synthesizer import (
    factored_schedule,
    is_repairable,
    is_symmetric,
    representative,
    symmetric,
    symmetric_module,
)

__all__ = [
    "factored_schedule",
    "find_group",
    "is_cluster",
    "is_repairable",
    "is_symmetric",
    "representative",
    "symmetric",
    "symmetric_module",
]
