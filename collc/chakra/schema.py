"""The parts of Chakra's schema 0.0.4 that custom collectives use."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

REDUCTION_NS: Final = 1
"""What ASTRA-sim takes for a compute node without a duration."""

VERSION: Final = "0.0.4"
"""The version of the schema that collc writes."""


class NodeType(IntEnum):
    """What a node does."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    SEND = 5
    RECV = 6
    COLL = 7


class CollectiveType(IntEnum):
    """`comm_type` of a node that runs a whole collective."""

    ALL_REDUCE = 0
    ALL_GATHER = 2
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
