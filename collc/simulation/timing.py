"""How long a message takes on a link: exact picoseconds, or ASTRA-sim's truncated nanoseconds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from collc.base.units import serialization_time
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel


class Timing(ABC):
    """Durations of a message on its links. Its results are in units of `unit` picoseconds.

    aware: links carry one message at a time, and messages queue. Otherwise each message arrives as if it were alone:
    after the latencies of all its links and the time that its bytes take on the slowest (ASTRA-sim's
    congestion-unaware model).
    packet: bytes that a device must have before it sends a message on; 0: all of it (store-and-forward).
    issues_at_once: whether what becomes free at some moment starts before the other events of that moment, as in
    ASTRA-sim; otherwise all happens in the order of ranks.
    """

    unit: ClassVar[int]
    issues_at_once: ClassVar[bool]
    aware: bool
    packet: int = 0

    @abstractmethod
    def hop(self, size: int, kind: LinkKind) -> tuple[int, int]:
        """How long `size` bytes occupy a link, and how long they take to its other end."""

    def time_alone(self, size: int, kinds: Sequence[LinkKind]) -> int:
        """How long `size` bytes take over links of these kinds if nothing else is on them.

        That is as long as over one link with the sums of the latencies and overheads and the smallest bandwidth.
        """
        rates = [_rates(kind) for kind in kinds]
        latency, bandwidth = sum(latency for latency, _ in rates), min(bandwidth for _, bandwidth in rates)
        return self.hop(size, LinkKind(latency, bandwidth, sum(kind.overhead for kind in kinds)))[1]


def _rates(kind: LinkKind) -> tuple[int, Fraction]:
    """Latency in picoseconds and bandwidth. Raises ValueError if a link has none."""
    if kind.latency is None or kind.bandwidth is None:
        raise ValueError("a link has no bandwidth or latency")
    return kind.latency, kind.bandwidth


@dataclass(frozen=True, slots=True)
class ExactTiming(Timing):
    """Whole picoseconds, rounded up, as the times of schedules are.

    model: when a link is free again. instances: bytes are given for this many messages together, each of which is
    sent by itself.
    """

    unit: ClassVar[int] = 1
    issues_at_once: ClassVar[bool] = False
    model: LinkModel = LinkModel.PIPELINED
    instances: int = 1
    aware: bool = True
    packet: int = 0

    def hop(self, size: int, kind: LinkKind) -> tuple[int, int]:
        """See Timing."""
        latency, bandwidth = _rates(kind)
        sent = kind.overhead + serialization_time(size, bandwidth * self.instances)
        return self.model.busy(sent, sent + latency), sent + latency


@dataclass(frozen=True, slots=True)
class AstraTiming(Timing):
    """Nanoseconds computed in floating point and truncated, as the analytical network of ASTRA-sim 2.0 does."""

    unit: ClassVar[int] = 1000
    issues_at_once: ClassVar[bool] = True
    aware: bool = True

    def hop(self, size: int, kind: LinkKind) -> tuple[int, int]:
        """See Timing."""
        latency, bandwidth = _rates(kind)
        taken = kind.overhead / 1000 + size / float(bandwidth / 10**9)
        return int(taken), int(latency / 1000 + taken)
