"""The network of a TEN module: devices and links, as arrays with one row per device or link."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.base.tables import html_table
from collc.base.units import format_time, serialization_time, shown_rate
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, group_positions
from collc.ten.endpoint import Endpoint

MOST_DEVICES: Final = 10_000_000
MOST_LINKS: Final = 10_000_000
"""Of a network in a file."""


@dataclass(frozen=True, slots=True)
class LinkKind:
    """Latency and bandwidth of links; links with equal ones share a kind.

    latency: picoseconds. bandwidth: bytes per second. Both None if only the shape is known
    (a design's topology); there are no schedules on such a network.
    overhead: picoseconds for which each message occupies the link, beside its bytes.
    """

    latency: int | None
    bandwidth: Fraction | None
    overhead: int = 0


def occupation_time(size: int, kind: LinkKind) -> int:
    """Picoseconds for which a message of some bytes occupies a link with a bandwidth."""
    assert kind.bandwidth is not None
    return kind.overhead + serialization_time(size, kind.bandwidth)


@dataclass(frozen=True, slots=True)
class DeviceFamily:
    """An array of devices declared together: `npu gpu[2, 8]` is ("gpu", (2, 8), first, (8, 1)).

    The device with indices i has the number first + sum(i * strides). A single device has shape (). labels: what the
    machine calls the devices, in row-major order, `host/device` if the host is known; () for no labels.
    """

    name: str
    shape: tuple[int, ...]
    first: int
    strides: tuple[int, ...]
    labels: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of devices."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    def label(self, device: int) -> str:
        """The name of one of its devices: `gpu[1, 3]`."""
        if not self.shape:
            return self.name
        return f"{self.name}[{', '.join(map(str, self.index(device)))}]"

    def index(self, device: int) -> list[int]:
        """The indices of one of its devices."""
        rest = device - self.first
        index = [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda a: -self.strides[a]):
            index[axis], rest = divmod(rest, self.strides[axis])
        return index

    def real_name(self, device: int) -> str:
        """The label of one of its devices, "" if it has none."""
        if not self.labels:
            return ""
        number = 0
        for index, size in zip(self.index(device), self.shape, strict=True):
            number = number * size + index
        return self.labels[number]


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a Cartesian product: `kind` of factor ("ring", ...) and NPUs along it."""

    kind: str
    size: int


@dataclass(frozen=True, eq=False)
class Network:
    """Devices and links.

    Devices are numbered NPUs first (0 .. npu_count - 1, in order of declaration), then switches.
    A removed device keeps its number; its links are removed and the others are renumbered in order.

    families: names of all devices, by first number, NPUs before switches.
    present: bool[devices]; False for removed devices.
    buffers: int64[switches]; chunks that a switch can hold at once, -1 for no limit.
    multicast, reduces: bool[switches].
    source, target: int32[links]; device numbers.
    kind: int32[links]; rows of `kinds`.
    axes, link_axis: dimensions of a product, and int8[links] with the dimension of each link
        (-1: none); axes is () if the network is not a product.
    unwound: whether direct links replace all switches, so that there are none.
    removed: int32[any, 2], source and target of each link that was removed, for pictures; a `.ten` file has none.
    endpoint, endpoint_kinds: int32[npus], rows of `endpoint_kinds`; both empty if no NPU has limits or a launch.
    """

    name: str
    npu_count: int
    families: tuple[DeviceFamily, ...]
    present: BoolArray
    buffers: Int64Array
    multicast: BoolArray
    reduces: BoolArray
    source: Int32Array
    target: Int32Array
    kind: Int32Array
    kinds: tuple[LinkKind, ...]
    axes: tuple[Axis, ...] = ()
    link_axis: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    unwound: bool = False
    endpoint: Int32Array = field(default_factory=lambda: np.empty(0, np.int32))
    endpoint_kinds: tuple[Endpoint, ...] = ()
    removed: Int32Array = field(default_factory=lambda: np.empty((0, 2), np.int32))

    @property
    def device_count(self) -> int:
        """NPUs and switches, removed ones included."""
        return len(self.present)

    @property
    def has_switches(self) -> bool:
        """Whether links lead to switches."""
        return bool((self.target >= self.npu_count).any())

    @property
    def has_limited_buffers(self) -> bool:
        """Whether a switch can hold only a limited number of chunks at once."""
        return bool((self.buffers >= 0).any())

    @property
    def has_endpoints(self) -> bool:
        """Whether NPUs have limits on what they send, receive or read."""
        return any(kind.is_limited for kind in self.endpoint_kinds)

    @property
    def launch(self) -> int:
        """Picoseconds from a call until all NPUs that are there take part.

        Schedules, bounds and simulations begin then; what is reported to people has the launch once.
        """
        if not self.endpoint_kinds:
            return 0
        used: list[int] = np.unique(self.endpoint[self.npus]).tolist()
        return max((self.endpoint_kinds[row].launch for row in used), default=0)

    def endpoint_of(self, device: int) -> Endpoint:
        """The limits of a device; a switch has none."""
        if device >= len(self.endpoint):
            return Endpoint()
        return self.endpoint_kinds[int(self.endpoint[device])]

    @property
    def switch_count(self) -> int:
        """Switches, removed ones included."""
        return len(self.present) - self.npu_count

    @property
    def link_count(self) -> int:
        """Links; each direction counts."""
        return len(self.source)

    @cached_property
    def npus(self) -> Int32Array:
        """int32: the NPUs that are present, in order. The position of one is its rank."""
        return np.flatnonzero(self.present[: self.npu_count]).astype(np.int32)

    @cached_property
    def kinds_in_use(self) -> Int64Array:
        """int64, ascending: the kinds that links have."""
        return np.flatnonzero(np.bincount(self.kind))

    @cached_property
    def out_links(self) -> tuple[Int32Array, Int32Array]:
        """Links by source as (offsets int32[devices + 1], links int32[links])."""
        return group_positions(self.source, self.device_count)

    @cached_property
    def in_links(self) -> tuple[Int32Array, Int32Array]:
        """Links by target as (offsets int32[devices + 1], links int32[links])."""
        return group_positions(self.target, self.device_count)

    def __repr__(self) -> str:
        switches = int(self.present[self.npu_count :].sum())
        between = f", {switches} switches" if switches else ""
        return f"<Network {self.name}: {len(self.npus)} NPUs{between}, {self.link_count} links>"

    def _repr_html_(self) -> str:
        """A row for each kind of link, for notebooks."""
        counts = np.bincount(self.kind, minlength=len(self.kinds)).tolist()
        rows = [
            (
                str(count),
                "-" if kind.latency is None else format_time(kind.latency),
                "-" if kind.bandwidth is None else shown_rate(kind.bandwidth),
            )
            for kind, count in zip(self.kinds, counts, strict=True)
        ]
        return html_table(("links", "latency", "bandwidth"), rows, [repr(self)])

    def is_switch(self, device: int) -> bool:
        """Whether a device is a switch."""
        return device >= self.npu_count

    def device_name(self, device: int) -> str:
        """The name of a device as in its program: `gpu[0, 3]`, `spine`."""
        row = bisect_right(self._first_devices, device) - 1
        return self.families[row].label(device) if row >= 0 else f"npu {device}"

    def real_name(self, device: int) -> str:
        """What the machine calls a device, `host/device` if the host is known; "" if no label says it."""
        row = bisect_right(self._first_devices, device) - 1
        return self.families[row].real_name(device) if row >= 0 else ""

    @cached_property
    def has_labels(self) -> bool:
        """Whether devices have labels."""
        return any(family.labels for family in self.families)

    def shown_name(self, device: int) -> str:
        """The name of a device for people, with its label: `node[0].gpu[3] (host7/GPU3)`."""
        name, real = self.device_name(device), self.real_name(device)
        return f"{name} ({real})" if real else name

    def shown_link(self, link: int) -> str:
        """The ends of a link for people, with their labels."""
        return f"{self.shown_name(int(self.source[link]))} -> {self.shown_name(int(self.target[link]))}"

    @cached_property
    def _first_devices(self) -> list[int]:
        return [family.first for family in self.families]

    def link_name(self, link: int) -> str:
        """`gpu[0, 3] -> spine`."""
        return f"{self.device_name(int(self.source[link]))} -> {self.device_name(int(self.target[link]))}"

    def occupancy(self, sizes: Int64Array) -> Int64Array:
        """int64[kinds, sizes]: picoseconds for which a chunk of each size (bytes) occupies a link of each kind.

        Raises ValueError if a kind has no bandwidth, OverflowError if a time does not fit in 64 bits.
        """
        rows: list[list[int]] = []
        for kind in self.kinds:
            if kind.bandwidth is None:
                raise ValueError(f"links of {self.name} have no bandwidth")
            rows.append([occupation_time(int(size), kind) for size in sizes])
        return np.array(rows, np.int64).reshape(len(self.kinds), len(sizes))

    @cached_property
    def latencies(self) -> Int64Array:
        """int64[kinds]: latency in picoseconds.

        Raises ValueError if a kind has no latency.
        """
        latencies = [kind.latency for kind in self.kinds if kind.latency is not None]
        if len(latencies) < len(self.kinds):
            raise ValueError(f"links of {self.name} have no latency")
        return np.array(latencies, np.int64)

    def reverse(self) -> Network:
        """The network with every link reversed; link numbers stay."""
        return replace(self, source=self.target, target=self.source)
