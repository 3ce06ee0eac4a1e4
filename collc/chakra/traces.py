"""The traces of all ranks, as arrays with one row per node, and the names of nodes.

Names say which chunk is sent, received or reduced, so that the result can be checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.chakra.schema import NodeType
from collc.ten.arrays import Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class Traces:
    """Nodes of all ranks, by rank and then by id.

    prefix: the files are PREFIX.<rank>.et. first: int64[ranks + 1], the first node of each rank. id: int64[nodes].
    place: int32[nodes], the number of a node in its file. kind: int8[nodes], a NodeType. size: int64[nodes], bytes of a
    message. peer: int32[nodes], the rank at its other end. tag: int64[nodes]. duration: int64[nodes], microseconds.
    before, after: int32[dependencies], nodes of one rank; `after` waits for `before`. contents: the bytes of the files;
    () if nodes have no names. name, name_end: int64[nodes], bytes of its file between which is the name.
    """

    prefix: Path
    first: Int64Array
    id: Int64Array
    place: Int32Array
    kind: NDArray[np.int8]
    size: Int64Array
    peer: Int32Array
    tag: Int64Array
    duration: Int64Array
    before: Int32Array
    after: Int32Array
    contents: tuple[bytes, ...]
    name: Int64Array
    name_end: Int64Array

    @property
    def ranks(self) -> int:
        """Ranks; each has a file."""
        return len(self.first) - 1

    def __len__(self) -> int:
        return len(self.id)

    def rank_of(self, node: int) -> int:
        """The rank of a node."""
        return int(np.searchsorted(self.first, node, "right")) - 1

    def name_of(self, node: int) -> str:
        """The name of a node, "" if it has none."""
        return shown_name(self.contents[self.rank_of(node)][self.name[node] : self.name_end[node]])

    @cached_property
    def names(self) -> list[str]:
        """The names of all nodes."""
        spans: list[tuple[int, int]] = list(zip(self.name.tolist(), self.name_end.tolist(), strict=True))
        return [
            shown_name(content[begin:end])
            for rank, content in enumerate(self.contents)
            for begin, end in spans[self.first[rank] : self.first[rank + 1]]
        ]

    def label(self, node: int) -> str:
        """A node in messages: its file, id and name."""
        name = self.name_of(node)
        return f"{trace_path(self.prefix, self.rank_of(node))}: node {self.id[node]}" + (f" ({name})" if name else "")


def shown_name(text: bytes) -> str:
    """A name as messages show it: its first 200 characters."""
    return text.decode("utf-8", "replace")[:200]


def trace_path(prefix: Path, rank: int) -> Path:
    """The file of one rank."""
    return prefix.with_name(f"{prefix.name}.{rank}.et")


_VERBS: Final = {NodeType.SEND: "send", NodeType.RECV: "receive", NodeType.COMP: "reduce"}
_KINDS: Final = {verb: kind for kind, verb in _VERBS.items()} | {"relay": NodeType.SEND, "keep": NodeType.RECV}
_NAME: Final = re.compile(r"(send|receive|reduce|keep) (\d+:\w+(?:\[[\d, ]+\])?) (?:to|from) \d+")
_RELAY: Final = re.compile(r"(relay) (\d+:\w+(?:\[[\d, ]+\])?) from (\d{1,9}) to \d+")


def node_name(kind: NodeType, chunk: str, peer: int, origin: int = -1, *, kept: bool = False) -> str:
    """The name of a node: `send 0:x[3, 0] to 4`, or `relay 0:x[3, 0] from 2 to 4` of what came last from `origin`,
    without what the rank holds. kept: `keep 0:x[3, 0] from 2`, a receive that the rank does not add or store.
    """
    if origin >= 0:
        return f"relay {chunk} from {origin} to {peer}"
    verb = "keep" if kept else _VERBS[kind]
    return f"{verb} {chunk} {'to' if kind == NodeType.SEND else 'from'} {peer}"


def chunk_in(name: str, kind: int) -> str | None:
    """The chunk that the name of a node of a type says; None if it says none."""
    match = _NAME.fullmatch(name) or _RELAY.fullmatch(name)
    return match[2] if match and _KINDS[match[1]] == kind else None


def origin_in(name: str) -> int:
    """The rank from which came what a node relays; -1 if it sends what its rank holds."""
    match = _RELAY.fullmatch(name)
    return int(match[3]) if match else -1


def is_kept(name: str) -> bool:
    """Whether a rank only keeps what a node receives."""
    return name.startswith("keep ")
