"""The work of one attempt of pccl."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.synthesis.conditions import Conditions

TARGET_WORK: Final = 10
LINKS: Final = 6
"""Work for each target, and links that its search looks at in the work of 1."""


def attempt_work(conditions: Conditions) -> int:
    """The work of planning some conditions once, as WorkMeter counts it."""
    network = conditions.task.network
    degree = network.link_count / max(1, network.device_count)
    wanting = np.diff(conditions.wanting_offsets).astype(np.float64)
    grown = np.minimum(wanting * (wanting + 1) / 2 * degree, wanting * network.link_count)
    return int(TARGET_WORK * wanting.sum() + grown.sum() / LINKS)
