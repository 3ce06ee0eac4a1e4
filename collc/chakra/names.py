"""Names of nodes: they say which chunk is sent, received or reduced, so that the result can be checked."""

from __future__ import annotations

import re
from typing import Final

from collc.chakra.schema import NodeType

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
    """The chunk that the name of a node of a type says; None where it says none."""
    match = _NAME.fullmatch(name) or _RELAY.fullmatch(name)
    return match[2] if match and _KINDS[match[1]] == kind else None


def origin_in(name: str) -> int:
    """The rank from which came what a node relays; -1 where it sends what its rank holds."""
    match = _RELAY.fullmatch(name)
    return int(match[3]) if match else -1


def is_kept(name: str) -> bool:
    """Whether a rank only keeps what a node receives."""
    return name.startswith("keep ")
