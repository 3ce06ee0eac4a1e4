"""The operations of steps (docs/msccl-contract.md, section 3)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np


class StepKind(IntEnum):
    """Operations, the attribute `type` of a step; the value is the row in the tables below."""

    S = 0
    R = 1
    RCS = 2
    RRS = 3
    RRC = 4
    RRCS = 5
    CPY = 6
    RE = 7
    NOP = 8


STEP_KINDS: Final[dict[str, StepKind]] = {kind.name.lower(): kind for kind in StepKind}
SENDS: Final = np.array([True, False, True, True, False, True, False, False, False])
RECEIVES: Final = np.array([False, True, True, True, True, True, False, False, False])
READS_SOURCE: Final = np.array([True, False, False, True, True, True, True, True, False])
"""Reads its local source slots."""
READS_TARGET: Final = np.array([False] * 7 + [True, False])
"""Reads its destination slots (before it writes them)."""
WRITES: Final = np.array([False, True, True, False, True, True, True, True, False])
"""Writes its destination slots."""
