"""Reads the traces of all ranks, within limits, and names the file and the node of everything that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.reading import at_most
from collc.base.wording import plural
from collc.chakra.schema import NodeType
from collc.chakra.traces import Traces, shown_name, trace_path
from collc.kernels.compiled import runs_compiled, version_of
from collc.kernels.trace_nodes import (
    CUT_MESSAGE,
    CUT_OFF,
    FINE,
    LARGE_MESSAGE,
    LONG_LENGTH,
    MISSING,
    NO_METADATA,
    SIZE,
    SOURCE,
    TAG,
    TARGET,
    TOO_MANY,
    WHOLE,
    WORDS,
    NodeColumns,
    read_nodes,
)
from collc.ten.arrays import BoolArray, Int64Array

MAX_BYTES: Final = 256 << 20
"""Of one file."""

MAX_MESSAGE: Final = 1 << 20
"""Bytes of one node."""

MAX_NODES: Final = 10_000_000
MAX_DEPENDENCIES: Final = 50_000_000
MAX_RANKS: Final = 65_536

_LARGEST: Final = 2**62

_LARGEST_TAG: Final = 2**31 - 1
"""ASTRA-sim's tags are signed numbers of 32 bits."""

_BYTE_TIME: Final = 0.6
"""Microseconds of plain Python for a byte of a trace."""

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
    files = [trace_path(prefix, rank) for rank in ranks]
    contents = [_bytes_of(path) for path in files]
    nodes = _parse(files, contents)
    empty = np.flatnonzero(nodes.counts == 0)
    if len(empty):
        raise SourceError(Diagnostic("X0504", f"{files[empty[0]]} has no node; ASTRA-sim needs one for every rank"))
    _check(prefix, contents, nodes)
    return _as_traces(prefix, contents, nodes)


def first_node_attributes(path: Path) -> tuple[int, dict[int, int]]:
    """(type, attributes) of the only node of a file: the whole numbers by `trace_nodes.SIZE` and so on.

    (0, {}) if there are more nodes or none. Raises SourceError (X0501, X0502, X0508).
    """
    nodes = _parse([path], [_bytes_of(path)])
    if len(nodes.id) != 1:
        return 0, {}
    values: list[int] = nodes.values[0].tolist()
    return int(nodes.kind[0]), {number: values[number] for number in np.flatnonzero(nodes.given[0] == WHOLE).tolist()}


def _limit_error(path: Path, what: str) -> SourceError:
    return SourceError(Diagnostic("X0508", f"{path} has {what}"))


def _bytes_of(path: Path) -> bytes:
    """The contents of a file. Raises SourceError X0501, X0508."""
    try:
        with path.open("rb") as file:
            data = at_most(file, MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(Diagnostic("X0501", f"cannot read {path}: {error.strerror or error}")) from error
    if len(data) > MAX_BYTES:
        raise _limit_error(path, f"more than {MAX_BYTES >> 20} MiB")
    return data


@dataclass(frozen=True, eq=False)
class _Nodes:
    """n nodes of all ranks, in the order of the files.

    counts: int64[ranks], nodes of each rank. values, given: int64[n, 5], the attributes as in `NodeColumns`, whose
    other columns are int64[n], and int64[dependencies].
    """

    counts: Int64Array
    id: Int64Array
    kind: Int64Array
    duration: Int64Array
    values: Int64Array
    given: Int64Array
    name: Int64Array
    name_end: Int64Array
    waits: Int64Array
    needed: Int64Array
    controls: Int64Array

    @property
    def rank(self) -> Int64Array:
        """int64[n]."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def _parse(files: list[Path], contents: list[bytes]) -> _Nodes:
    """The nodes of files. Raises SourceError X0502, X0508."""
    compiled = runs_compiled(read_nodes, int(_BYTE_TIME * sum(map(len, contents))))
    kernel, longest = version_of(read_nodes, compiled), max(map(len, contents))

    most, needed, widths = min(longest // 2 + 1, MAX_NODES), min(longest, MAX_DEPENDENCIES), (1, 1, 1, 5, 5, 1, 1, 1)
    rooms: Any = [np.empty(room, np.int64) for room in (*(most * width for width in widths), needed, needed)]
    columns = NodeColumns(*(rooms if compiled else ([0] * len(room) for room in rooms)))
    parts: list[list[Int64Array]] = []
    counts: list[int] = []
    nodes_left, waits_left = MAX_NODES, MAX_DEPENDENCIES
    for path, content in zip(files, contents, strict=True):
        text, words = (_letters(row) if compiled else row for row in (content, WORDS))
        count, waits, ending, position = kernel(text, words, columns, MAX_MESSAGE)
        nodes_left, waits_left = nodes_left - count, waits_left - waits
        if ending == TOO_MANY or min(nodes_left, waits_left) < 0:
            many_nodes = nodes_left < 0 or count == len(columns.id)
            what, limit = ("nodes", MAX_NODES) if many_nodes else ("dependencies", MAX_DEPENDENCIES)
            raise _limit_error(path, f"too many {what}, with those of all ranks more than {limit}")
        if ending != FINE:
            raise _damage(path, ending, position)
        lengths = [*(count * width for width in widths), waits, waits]
        parts.append([np.array(column[:length], np.int64) for column, length in zip(columns, lengths, strict=True)])
        counts.append(count)
    joined = [np.concatenate(rows) for rows in zip(*parts, strict=True)]
    joined[3:5] = (rows.reshape(-1, 5) for rows in joined[3:5])
    return _Nodes(np.array(counts, np.int64), *joined)


def _letters(text: bytes) -> Any:  # noqa: ANN401
    """Bytes as compiled code takes them."""
    return np.frombuffer(text, np.uint8)


def _damage(path: Path, ending: int, position: int) -> SourceError:
    """The error about the message at which `read_nodes` has ended."""
    if ending == LARGE_MESSAGE:
        return _limit_error(path, f"a message of more than {MAX_MESSAGE >> 20} MiB at byte {position}")
    what = {
        CUT_OFF: f"the file is cut off at byte {position}",
        LONG_LENGTH: f"at byte {position}, the length of a message is too long",
        CUT_MESSAGE: f"the file is cut off: the message at byte {position} is longer than what is there",
        NO_METADATA: "the file does not begin with the metadata of a Chakra trace",
    }.get(ending, f"the message at byte {position} is not a node")
    hint = "check that the file is a complete Chakra trace"
    return SourceError(Diagnostic("X0502", f"{path}: {what}", hint=hint))


def _check(prefix: Path, contents: list[bytes], nodes: _Nodes) -> None:
    """Raise SourceError X0503, X0504 about the first node that is wrong."""
    size, source, target, tag = (nodes.values[:, number] for number in (SIZE, SOURCE, TARGET, TAG))
    whole, sends = nodes.given == WHOLE, nodes.kind == NodeType.SEND
    messages, rank, ranks = sends | (nodes.kind == NodeType.RECV), nodes.rank, len(nodes.counts)
    peer = np.where(sends, target, source)
    known = sends & whole[:, TARGET] | ~sends & whole[:, SOURCE]

    def kind_of(node: int) -> str:
        kind = int(nodes.kind[node])
        return next((known.name for known in NodeType if known == kind), str(kind))

    def end_of(node: int) -> str:
        return f"{'comm_dst' if sends[node] else 'comm_src'} is {peer[node] if known[node] else 'missing'}"

    def tag_of(node: int) -> str:
        return "missing" if nodes.given[node, TAG] == MISSING else str(tag[node]) if whole[node, TAG] else "no number"

    checks: list[tuple[BoolArray, str, Callable[[int], str]]] = [
        (~np.isin(nodes.kind, _ALLOWED), "X0503", lambda node: f"nodes of type {kind_of(node)} cannot be simulated"),
        (
            (nodes.id < 0) | (nodes.id >= _LARGEST) | (nodes.duration < 0) | (nodes.duration >= 2**42),
            "X0504",
            lambda _: "its id or duration is out of range",
        ),
        (
            messages & ~(whole[:, SIZE] & (size > 0) & (size < _LARGEST)),
            "X0504",
            lambda _: "comm_size is missing, or not a positive number of bytes",
        ),
        (
            messages & ~(known & (peer >= 0) & (peer < ranks) & (peer != rank)),
            "X0504",
            lambda node: f"{end_of(node)}, not another of the {ranks} ranks",
        ),
        (
            messages & ~(whole[:, TAG] & (tag >= 0) & (tag <= _LARGEST_TAG)),
            "X0504",
            lambda node: f"comm_tag is {tag_of(node)}, not a whole number from 0 to {_LARGEST_TAG}",
        ),
    ]
    for wrong, code, message in checks:
        if wrong.any():
            node = int(np.flatnonzero(wrong)[0])
            name = shown_name(contents[int(rank[node])][int(nodes.name[node]) : int(nodes.name_end[node])])
            shown = f"{trace_path(prefix, int(rank[node]))}: node {nodes.id[node]}" + (f" ({name})" if name else "")
            workload = "this is a workload, which names a collective; give the traces of its algorithm"
            types = "a custom collective has compute, send and receive nodes only"
            hint = "" if code != "X0503" else workload if nodes.kind[node] == NodeType.COLL else types
            raise SourceError(Diagnostic(code, f"{shown}: {message(node)}", hint=hint))


def _as_traces(prefix: Path, contents: list[bytes], nodes: _Nodes) -> Traces:
    """The nodes by rank and id. Raises SourceError X0505."""
    rank, first = nodes.rank, np.append(0, np.cumsum(nodes.counts))
    order = np.lexsort((nodes.id, rank))
    ids = nodes.id[order]
    twice = np.flatnonzero((ids[1:] == ids[:-1]) & (rank[1:] == rank[:-1]))
    if len(twice):
        node = int(order[twice[0] + 1])
        message = f"{trace_path(prefix, int(rank[node]))}: node {nodes.id[node]}: there are two nodes with this id"
        raise SourceError(Diagnostic("X0505", message))
    row = np.empty(len(order), np.int64)
    row[order] = np.arange(len(order))
    waiting = np.repeat(np.arange(len(order)), nodes.waits)
    before = _rows_of(ids, first, rank[waiting], nodes.needed)
    unknown = np.flatnonzero(before < 0)
    if len(unknown):
        node = int(waiting[unknown[0]])
        what = f"node {nodes.id[node]} depends on node {nodes.needed[unknown[0]]}, which is not in the file"
        raise SourceError(Diagnostic("X0505", f"{trace_path(prefix, int(rank[node]))}: {what}"))
    sends = nodes.kind == NodeType.SEND
    messages = sends | (nodes.kind == NodeType.RECV)
    peer = np.where(messages, np.where(sends, nodes.values[:, TARGET], nodes.values[:, SOURCE]), -1)
    size, tag = (np.where(messages, nodes.values[:, number], 0) for number in (SIZE, TAG))
    after = row[waiting]
    kept = _first_of_equals(after, nodes.controls, before)
    return Traces(
        prefix=prefix,
        first=first,
        id=ids,
        place=(order - first[rank]).astype(np.int32),
        kind=nodes.kind[order].astype(np.int8),
        size=size[order],
        peer=peer[order].astype(np.int32),
        tag=tag[order],
        duration=nodes.duration[order],
        before=before[kept].astype(np.int32),
        after=after[kept].astype(np.int32),
        contents=tuple(contents),
        name=nodes.name[order],
        name_end=nodes.name_end[order],
    )


def _rows_of(ids: Int64Array, first: Int64Array, rank: Int64Array, wanted: Int64Array) -> Int64Array:
    """int64[m]: the rows of nodes with ids in ranks; -1 for those that are not there. ids: ascending in each rank."""
    last = first[1:] - 1
    row = first[rank] + np.clip(wanted, 0, (last - first[:-1])[rank])
    wrong = ids[row] != wanted
    for here in np.flatnonzero(np.bincount(rank[wrong])).tolist():  # ids that do not count from 0
        mine = np.flatnonzero(wrong & (rank == here))
        place = np.searchsorted(ids[first[here] : first[here + 1]], wanted[mine])
        row[mine] = np.minimum(first[here] + place, last[here])
    return np.where(ids[row] == wanted, row, -1)


def _first_of_equals(after: Int64Array, controls: Int64Array, before: Int64Array) -> Int64Array:
    """int64: the dependencies, each once, node after node, those on data first: as ASTRA-sim meets them."""
    order = np.lexsort((controls, after))
    several = np.flatnonzero(np.bincount(after, minlength=1)[after[order]] > 1)
    rows = order[several]
    equal = np.lexsort((before[rows], after[rows]))
    ones, others = rows[equal[:-1]], rows[equal[1:]]
    again = several[equal[1:][(after[ones] == after[others]) & (before[ones] == before[others])]]
    return np.delete(order, again)
