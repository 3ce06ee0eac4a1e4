"""The link models: how long a transfer occupies its link (docs/ten.md). Options, files and times derive from them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collc.ten.arrays import Int64Array

    Time = TypeVar("Time", int, Int64Array)


class LinkModel(StrEnum):
    """When a link is free again after a transfer; the chunk arrives size/bandwidth and a latency after the start.

    frees: when the link is free, in words. waits_for_arrival: whether it is free when the chunk has arrived.
    STORE: TACOS, PCCL. PIPELINED: ASTRA-sim.
    """

    frees: str
    waits_for_arrival: bool

    STORE = "store", "after the chunk arrived", True
    PIPELINED = "pipelined", "after the chunk was sent", False

    def __new__(cls, name: str, frees: str, waits_for_arrival: bool) -> LinkModel:
        """The record of one model."""
        model = str.__new__(cls, name)
        model._value_, model.frees, model.waits_for_arrival = name, frees, waits_for_arrival
        return model

    def busy(self, sent: Time, total: Time) -> Time:
        """How long a transfer occupies its link. sent: size/bandwidth. total: sent and the latency."""
        return total if self.waits_for_arrival else sent
