"""Names of nodes: they say which chunk is sent, received or reduced, so that the result can be checked."""

from __future__ import annotations

import re
from typing import Final

from collc.chakra.schema import NodeType

_VERBS: Final = {NodeType.SEND: "send", NodeType.RECV: "receive", NodeType.COMP: "reduce"}
_NAME: Final = re.compile(r"(send|receive|reduce) (\d+:\w+(?:\[[\d, ]+\])?) (?:to|from) \d+")


def node_name(kind: NodeType, chunk: str, peer: int) -> str:
    """The name of a node: `send 0:x[3, 0] to 4`."""
    return f"{_VERBS[kind]} {chunk} {'to' if kind == NodeType.SEND else 'from'} {peer}"


def chunk_in(name: str, kind: int) -> str | None:
    """The chunk that the name of a node of a type says; None where it says none."""
    match = _NAME.fullmatch(name)
    return match[2] if match and match[1] == _VERBS.get(NodeType(kind)) else None
