"""The structure of a file: its symbols, what can be folded, ranges for selection, and links to other files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collc.base.diagnostics import SourceFile, Span
from collc.editor.uses import Declaring, children, flat, symbol_of
from collc.editor.workspace import Workspace
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.table import load_table
from collc.source.parsing.tokens import COMMENT
from collc.source.scopes import Declaration


@dataclass(frozen=True, slots=True)
class Outline:
    """A declaration. kind: as of a Symbol. detail: its head. span: all of it. inner: what its body declares."""

    name: str
    kind: str
    detail: str
    span: Span
    place: Span
    inner: tuple[Outline, ...] = ()


def outline(tree: s.File) -> list[Outline]:
    """The declarations of a file, those in `if`s included, each with those of its body."""
    return [_item(node) for node in flat(tree.statements) if isinstance(node, Declaration)]


_INNER: Final = (s.Parameter, s.DeviceDeclaration, s.Use, s.PartDeclaration, s.ChunkDeclaration, s.Let)
"""What is shown of bodies."""


def _item(node: Declaring) -> Outline:
    symbol = symbol_of(node)
    name = node.chunk.name if isinstance(node, s.ChunkDeclaration) else node.name
    inner = tuple(_item(part) for part in flat(children(node)) if isinstance(part, _INNER))
    return Outline(symbol.name, symbol.kind, head_of(node.span), node.span, name.span, inner)


def head_of(span: Span) -> str:
    """A declaration in one line, without its body."""
    return " ".join(span.text.partition("{")[0].split()) if "{" in span.text else " ".join(span.text.split())


def folds(source: SourceFile) -> list[tuple[int, int, bool]]:
    """The first and last lines, from 0, of what can be folded, and whether it is a comment: brackets and comments."""
    ranges: list[tuple[int, int, bool]] = []
    lines, line, counted = list[int](), 0, 0
    first = last = -1
    for token in load_table().scanner.scan(source.text, comments=True):
        line += source.text.count("\n", counted, token.start)
        counted = token.start
        if token.kind == COMMENT and last == line - 1 >= 0:
            last = line
        else:
            ranges += [(first, last, True)] if last > first else []
            first = last = line if token.kind == COMMENT else -1
        if token.kind in ("{", "(", "["):
            lines.append(line)
        elif token.kind in ("}", ")", "]") and lines and line > (start := lines.pop()):
            ranges.append((start, line - 1, False))
    return ranges


def selections(tree: s.File, offset: int) -> list[Span]:
    """The nodes around a position, the innermost first, and the file."""
    spans = [Span(tree.source, 0, len(tree.source.text))]
    nodes: Iterator[ex.Node] = iter(tree.statements)
    while (node := next((n for n in nodes if n.span.start <= offset <= n.span.end), None)) is not None:
        if spans[-1] != node.span:
            spans.append(node.span)
        nodes = children(node)
    return spans[::-1]


def links(workspace: Workspace, path: Path) -> list[tuple[Span, Path]]:
    """The files that a program names: what it imports, and workloads in files."""
    file = workspace.scope(path)
    imports = [(node.what.span, workspace.path_of(imported.source)) for imported, node in file.imports]
    named = [node.path for node in file.statements if isinstance(node, s.Workload) and node.path is not None]
    return [*imports, *((name.span, path.parent / name.value) for name in named if "\0" not in name.value)]
