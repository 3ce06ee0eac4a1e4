"""Reads the traces of all ranks, within limits, and names the file and the node of everything that is wrong."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.reading import at_most
from collc.base.wording import plural
from collc.chakra.schema import Node, NodeType, Schema, schema
from collc.chakra.traces import Traces, trace_path

MAX_BYTES: Final = 256 << 20
"""Of one file."""

MAX_MESSAGE: Final = 1 << 20
"""Bytes of one node."""

MAX_NODES: Final = 10_000_000
MAX_DEPENDENCIES: Final = 50_000_000
MAX_RANKS: Final = 65_536
MAX_NAME: Final = 200
"""Characters of a name that are kept."""

_LARGEST: Final = 2**62

_ALLOWED: Final = (NodeType.COMP, NodeType.SEND, NodeType.RECV)


def trace_ranks(prefix: Path) -> list[int]:
    """The ranks that have a file, in order. Raises nothing: a folder that cannot be read has none."""
    pattern = re.compile(re.escape(prefix.name) + r"\.(0|[1-9]\d{0,8})\.et")
    try:
        matches = [pattern.fullmatch(path.name) for path in prefix.parent.iterdir()]
    except OSError:
        return []
    return sorted(int(match[1]) for match in matches if match)


def read_traces(prefix: Path) -> Traces:
    """The traces of all ranks. Raises SourceError (X0501 to X0505, X0508)."""
    ranks = trace_ranks(prefix)
    if not ranks:
        hint = "give the files' common name, without the rank: DIR/algo for DIR/algo.0.et, DIR/algo.1.et, ..."
        raise SourceError(Diagnostic("X0501", f"there is no trace {trace_path(prefix, 0)}", hint=hint))
    missing = next((rank for rank, present in enumerate(ranks) if rank != present), None)
    if missing is not None:
        message = f"there are traces of {plural(len(ranks), 'rank')}, up to rank {ranks[-1]}, but not of rank {missing}"
        raise SourceError(Diagnostic("X0501", f"{trace_path(prefix, missing)} is missing: {message}"))
    if len(ranks) > MAX_RANKS:
        raise _limit_error(prefix, f"{len(ranks)} ranks, more than {MAX_RANKS}")
    reader = _Reader(prefix, len(ranks))
    for rank in ranks:
        reader.read(rank)
    return reader.as_traces()


def _limit_error(path: Path, what: str) -> SourceError:
    return SourceError(Diagnostic("X0508", f"{path} has {what}"))


def _damaged_error(path: Path, what: str) -> SourceError:
    return SourceError(Diagnostic("X0502", f"{path}: {what}", hint="check that the file is a complete Chakra trace"))


def messages_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """(position in bytes, bytes) of each message of a file. Raises SourceError (X0501, X0502, X0508)."""
    try:
        with path.open("rb") as file:
            data = at_most(file, MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(Diagnostic("X0501", f"cannot read {path}: {error.strerror or error}")) from error
    if len(data) > MAX_BYTES:
        raise _limit_error(path, f"more than {MAX_BYTES >> 20} MiB")
    position = 0
    while position < len(data):
        begin, length, shift = position, 0, 0
        while True:
            if position == len(data):
                raise _damaged_error(path, f"the file is cut off at byte {position}")
            byte = data[position]
            position, length, shift = position + 1, length | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
            if shift > 28:
                raise _damaged_error(path, f"at byte {begin}, the length of a message is too long")
        if length > MAX_MESSAGE:
            raise _limit_error(path, f"a message of {length} bytes at byte {begin}, more than {MAX_MESSAGE >> 20} MiB")
        if position + length > len(data):
            rest = len(data) - position
            raise _damaged_error(
                path, f"the file is cut off: the message at byte {begin} has {length} bytes, {rest} are there"
            )
        yield begin, data[position : position + length]
        position += length


_COLUMNS: Final = {
    "id": "q",
    "kind": "b",
    "size": "q",
    "peer": "i",
    "tag": "q",
    "duration": "q",
    "before": "i",
    "after": "i",
}
"""Columns of `Traces` with the types of their numbers."""


class _Reader:
    """The nodes read so far, rank after rank. columns: by name."""

    def __init__(self, prefix: Path, ranks: int) -> None:
        self.prefix: Path = prefix
        self.ranks: int = ranks
        self.schema: Schema = schema()
        self.first: list[int] = [0]
        self.names: list[str] = []
        self.columns: dict[str, array[int]] = {name: array(kind) for name, kind in _COLUMNS.items()}

    def read(self, rank: int) -> None:
        """Read the file of one rank."""
        path = trace_path(self.prefix, rank)
        rows: dict[int, tuple[tuple[int, ...], str, list[int]]] = {}
        messages = messages_of(path)
        self._check_metadata(path, next(messages, None))
        node = self.schema.node()
        for begin, data in messages:
            try:
                node.ParseFromString(data)
            except self.schema.decode_error as error:
                raise _damaged_error(path, f"the message at byte {begin} is not a node") from error
            if node.id in rows:
                raise self._node_error(path, node, "X0505", "there are two nodes with this id")
            if len(self.names) + len(rows) >= MAX_NODES:
                raise _limit_error(path, f"too many nodes, with those of all ranks more than {MAX_NODES}")
            needed = sorted({*node.data_deps, *node.ctrl_deps})
            rows[node.id] = self._row(path, rank, node), node.name[:MAX_NAME], needed
        if not rows:
            raise SourceError(Diagnostic("X0504", f"{path} has no node; ASTRA-sim needs one for every rank"))
        self._add(path, rows)

    def _check_metadata(self, path: Path, message: tuple[int, bytes] | None) -> None:
        metadata = self.schema.metadata()
        try:
            metadata.ParseFromString(message[1] if message is not None else b"")
        except self.schema.decode_error:
            metadata.version = ""
        if not metadata.version:
            raise _damaged_error(path, "the file does not begin with the metadata of a Chakra trace")

    def _row(self, path: Path, rank: int, node: Node) -> tuple[int, int, int, int, int]:
        """(kind, size, peer, tag, duration) of a node. Raises SourceError X0503, X0504."""
        kind = node.type
        if kind not in _ALLOWED:
            name = next((known.name for known in NodeType if known == kind), str(kind))
            hint = "a custom collective has compute, send and receive nodes only"
            if kind == NodeType.COLL:
                hint = "this is a workload, which names a collective; give the traces of its algorithm"
            raise self._node_error(path, node, "X0503", f"nodes of type {name} cannot be simulated", hint)
        if node.id >= _LARGEST or node.duration_micros >= 2**42:
            raise self._node_error(path, node, "X0504", "its id or duration is out of range")
        if kind == NodeType.COMP:
            return kind, 0, -1, 0, node.duration_micros
        values = _whole_numbers(node)
        end = "comm_dst" if kind == NodeType.SEND else "comm_src"
        size, peer, tag = values.get("comm_size", 0), values.get(end, -1), values.get("comm_tag", 0)
        if not 0 < size < _LARGEST:
            raise self._node_error(path, node, "X0504", "comm_size is missing, or not a positive number of bytes")
        if not 0 <= peer < self.ranks or peer == rank:
            what = "missing" if end not in values else f"{peer}"
            raise self._node_error(path, node, "X0504", f"{end} is {what}, not another of the {self.ranks} ranks")
        if not -_LARGEST < tag < _LARGEST:
            raise self._node_error(path, node, "X0504", "comm_tag is out of range")
        return kind, size, peer, tag, 0

    def _add(self, path: Path, rows: dict[int, tuple[tuple[int, ...], str, list[int]]]) -> None:
        """Add the nodes of a rank, in order of id."""
        number = {node: len(self.names) + k for k, node in enumerate(sorted(rows))}
        before, after = self.columns["before"], self.columns["after"]
        for node, row in number.items():
            values, name, needed = rows[node]
            for column, value in zip(("id", "kind", "size", "peer", "tag", "duration"), (node, *values), strict=True):
                self.columns[column].append(value)
            self.names.append(name)
            for dependency in needed:
                if dependency not in number:
                    message = f"{path}: node {node} depends on node {dependency}, which is not in the file"
                    raise SourceError(Diagnostic("X0505", message))
                before.append(number[dependency])
                after.append(row)
        if len(before) > MAX_DEPENDENCIES:
            raise _limit_error(path, f"too many dependencies, with those of all ranks more than {MAX_DEPENDENCIES}")
        self.first.append(len(self.names))

    @staticmethod
    def _node_error(path: Path, node: Node, code: str, what: str, hint: str = "") -> SourceError:
        name = f" ({node.name[:MAX_NAME]})" if node.name else ""
        return SourceError(Diagnostic(code, f"{path}: node {node.id}{name}: {what}", hint=hint))

    def as_traces(self) -> Traces:
        """All nodes as arrays."""
        columns: dict[str, Any] = {name: np.array(column, column.typecode) for name, column in self.columns.items()}
        return Traces(prefix=self.prefix, first=np.array(self.first, np.int64), names=tuple(self.names), **columns)


def _whole_numbers(node: Node) -> dict[str, int]:
    """The attributes of a node whose values are whole numbers."""
    values: dict[str, int] = {}
    for attribute in node.attr:
        value = attribute.int64_val or attribute.int32_val or attribute.uint64_val or attribute.uint32_val
        if value or attribute.WhichOneof("value") not in (None, "bool_val", "string_val"):
            values[attribute.name] = value
    return values
