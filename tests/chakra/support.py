"""Traces written field by field, apart from the package's schema."""

from __future__ import annotations

from pathlib import Path

Node = tuple[int, int, dict[str, int], list[int]]
"""Id, type, attributes and data dependencies."""

COMP, SEND, RECV, COLL = 4, 5, 6, 7
METADATA = b"\x0a\x050.0.4"


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    return varint(number << 3 | 2) + varint(len(value)) + value


def messages_of(path: Path) -> list[bytes]:
    """The messages of a file: the metadata, and the nodes."""
    data, found = path.read_bytes(), []
    while data:
        length, shift = 0, 0
        while data[0] > 127:
            length, shift, data = length | (data[0] & 127) << shift, shift + 7, data[1:]
        length |= data[0] << shift
        found.append(data[1 : 1 + length])
        data = data[1 + length :]
    return found


def node_bytes(node: Node) -> bytes:
    number, kind, values, waits = node
    found = field(1, number) + field(2, b"n%d" % number) + field(3, kind)
    found += field(5, b"".join(map(varint, waits))) if waits else b""
    for name, value in values.items():
        if name == "duration":
            found += field(7, value)
        else:
            found += field(10, field(1, name.encode()) + field(9 if name == "comm_size" else 7, value))
    return found


def file_bytes(nodes: list[Node], metadata: bytes = METADATA) -> bytes:
    return b"".join(varint(len(part)) + part for part in (metadata, *map(node_bytes, nodes)))


def send(number: int, to: int, size: int = 1000, tag: int = 0, after: list[int] | None = None) -> Node:
    return number, SEND, {"comm_size": size, "comm_dst": to, "comm_tag": tag}, after or []


def receive(number: int, source: int, size: int = 1000, tag: int = 0, after: list[int] | None = None) -> Node:
    return number, RECV, {"comm_size": size, "comm_src": source, "comm_tag": tag}, after or []


def compute(number: int, micros: int = 0, after: list[int] | None = None) -> Node:
    return number, COMP, {"duration": micros}, after or []


def write(folder: Path, ranks: list[list[Node]], name: str = "algo") -> Path:
    """Write the traces of all ranks; returns their prefix."""
    folder.mkdir(exist_ok=True)
    for rank, nodes in enumerate(ranks):
        (folder / f"{name}.{rank}.et").write_bytes(file_bytes(nodes))
    return folder / name


NETWORK = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 500.0 ]\n"
