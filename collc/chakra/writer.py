"""Chakra traces as bytes: protobuf messages of the schema 0.0.4, as its own library writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np

from collc.chakra.schema import VERSION, NodeType
from collc.chakra.traces import Traces


class ValueField(IntEnum):
    """Fields of AttributeProto for a value."""

    INT32 = 7
    INT64 = 9
    BOOL = 27


def varint(value: int) -> bytes:
    """A number of at least 0, 7 bits in each byte."""
    rest = bytearray()
    while value > 127:
        rest.append(value & 127 | 128)
        value >>= 7
    return bytes([*rest, value])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a message: a number, or bytes (a text, a message, or numbers behind one another)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


@cache
def attribute(name: str, kind: ValueField, value: int) -> bytes:
    """A field of a node: an attribute with a number."""
    return field(10, field(1, name.encode()) + field(kind, value))


def node_bytes(
    number: int,
    name: str,
    kind: int,
    controls: bytes = b"",
    data: bytes = b"",
    micros: int = 0,
    attributes: bytes = b"",
) -> bytes:
    """A node. controls, data: ids of nodes that it depends on, behind one another. What is 0 or empty is left out."""
    head = field(1, number) if number else b""
    waits = (field(4, controls) if controls else b"") + (field(5, data) if data else b"")
    return head + field(2, name.encode()) + field(3, kind) + waits + (field(7, micros) if micros else b"") + attributes


def write_trace(path: Path, nodes: Iterable[bytes]) -> None:
    """Write a trace: the metadata and nodes, each after its length."""
    messages = (field(1, VERSION.encode()), *nodes)
    path.write_bytes(b"".join(varint(len(message)) + message for message in messages))


def write_traces(prefix: Path, traces: Traces, names: list[str]) -> None:
    """Write the files PREFIX.<rank>.et. Sends depend on compute nodes that wait by control, on others by data."""
    for rank in range(traces.ranks):
        write_trace(prefix.with_name(f"{prefix.name}.{rank}.et"), _nodes_of(traces, names, rank))


def _nodes_of(traces: Traces, names: list[str], rank: int) -> Iterator[bytes]:
    first, last = (int(traces.first[rank + k]) for k in range(2))
    begin, end = (int(row) for row in np.searchsorted(traces.after, [first, last]))
    before: list[int] = traces.before[begin:end].tolist()
    offsets: list[int] = np.searchsorted(traces.after[begin:end], np.arange(first, last + 1)).tolist()
    columns = traces.id, traces.kind, traces.size, traces.peer, traces.tag, traces.duration
    rows = zip(*(column[first:last].tolist() for column in columns), strict=True)
    waits = [False] * (last - first)
    for place, (number, kind, size, peer, tag, micros) in enumerate(rows):
        name, needed = names[first + place], before[offsets[place] : offsets[place + 1]]
        waits[place] = name.startswith("wait until")
        clocks = [row for row in needed if waits[row - first] and kind == NodeType.SEND]
        controls = b"".join(varint(int(traces.id[row])) for row in clocks)
        data = b"".join(varint(int(traces.id[row])) for row in needed if row not in clocks)
        attributes = b""
        if kind != NodeType.COMP:
            end_name = "comm_dst" if kind == NodeType.SEND else "comm_src"
            sent = attribute("comm_size", ValueField.INT64, size) + attribute(end_name, ValueField.INT32, peer)
            attributes = sent + field(10, field(1, b"comm_tag") + field(ValueField.INT32, tag))
        yield node_bytes(number, name, kind, controls=controls, data=data, micros=micros, attributes=attributes)
