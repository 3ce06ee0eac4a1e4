"""The topology that a file is about: the one that none of its other topologies uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, cast

from collc.source.parsing.expressions import Call, Identifier, Name, Node
from collc.source.parsing.syntax import TopologyInstance, TopologyTemplate
from collc.source.scopes import FileScope


def sole_topologies(file: FileScope) -> list[str]:
    """The names of the topologies without parameters that no other topology of the file uses."""
    declared = [node for node in file.declared("topology") if isinstance(node, TopologyInstance | TopologyTemplate)]
    used = {name for node in declared for name in _names(node) if name != node.name.name}
    return [
        node.name.name
        for node in declared
        if node.name.name not in used and not (isinstance(node, TopologyTemplate) and node.parameters is not None)
    ]


def _names(node: Node) -> Iterator[str]:
    """The names that a part of the syntax tree refers to."""
    match node:
        case Name(name=name) | Call(function=Identifier(name=name)):
            yield name
        case _:
            pass
    for field in fields(node):
        value: Any = getattr(node, field.name)
        for part in cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,):
            if isinstance(part, Node):
                yield from _names(part)
