"""What an NPU can send, receive and read from memory, whatever its links carry, and the time that messages cost it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

MEMORY_TRAFFIC: Final = {"baseline": Fraction(3, 2), "offload": Fraction(1, 2)}
"""Bytes that an NPU reads from memory for each byte that it sends in an All-Reduce, by mode (Rashidi et al., ACE, ISCA
2021). A schedule has the numbers of its demand (graph/memory_traffic.py); these are for networks without a schedule.

baseline: kernels on the NPU itself. A Reduce-Scatter reads two bytes to send one, an All-Gather one. offload: a
collective engine beside the network reads each byte of the buffer once, and sends nearly two on a large ring.
"""

DEFAULT_MODE: Final = "baseline"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Rates at which an NPU can send, receive, and use its memory, in bytes per second; None: no limit.

    overhead: picoseconds for which each message occupies its sender, and its receiver, beside its bytes. launch:
    picoseconds until the NPU takes part in a collective.
    mode: a key of MEMORY_TRAFFIC; without a rate of memory it has no effect. traffic: bytes read from memory for each
    byte sent; None: as MEMORY_TRAFFIC says.
    """

    inject: Fraction | None = None
    eject: Fraction | None = None
    memory: Fraction | None = None
    mode: str = DEFAULT_MODE
    traffic: Fraction | None = None
    overhead: int = 0
    launch: int = 0

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit on what it sends or receives."""
        return (self.inject, self.eject, self.memory) != (None, None, None) or self.overhead > 0

    @property
    def fed_by_memory(self) -> Fraction | None:
        """Bytes per second that its memory allows it to send."""
        return None if self.memory is None else self.memory / (self.traffic or MEMORY_TRAFFIC[self.mode])

    @property
    def send(self) -> Fraction | None:
        """Bytes per second that it can send over all its links together."""
        return least(self.inject, self.fed_by_memory)

    @property
    def receive(self) -> Fraction | None:
        """Bytes per second that it can receive over all its links together."""
        return self.eject

    def tighter(self, other: Endpoint) -> Endpoint:
        """The lower of each rate and the longer of each time of both.

        Of the memories it is the one that allows less to be sent, with its mode.
        """
        first, second = self.fed_by_memory, other.fed_by_memory
        of_memory = other if first is None or (second is not None and second < first) else self
        return Endpoint(
            least(self.inject, other.inject),
            least(self.eject, other.eject),
            of_memory.memory,
            of_memory.mode,
            of_memory.traffic,
            max(self.overhead, other.overhead),
            max(self.launch, other.launch),
        )

    def send_limit(self, name: str) -> str:
        """What sets `send`, in words, for the NPU with a name: `the memory of gpu[0]`."""
        by_memory = self.fed_by_memory is not None and self.fed_by_memory == self.send
        return f"the memory of {name}" if by_memory else f"the injection of {name}"

    def receive_limit(self, name: str) -> str:
        """What sets `receive`, in words, for the NPU with a name."""
        return f"the ejection of {name}"


def least(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    """The lower of two rates, None: no limit."""
    return min((rate for rate in (first, second) if rate is not None), default=None)
