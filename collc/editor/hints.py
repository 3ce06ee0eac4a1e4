"""What editors show besides the text: the kinds of its words, and values that it does not say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from collc.base.diagnostics import SourceFile
from collc.editor.describe import network_in_words, value_of
from collc.editor.uses import Resolver, callee_parameters, children, symbol_of
from collc.editor.workspace import Workspace
from collc.source.elaboration.topology_values import Topology
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.table import load_table
from collc.source.parsing.tokens import COMMENT, FLOAT, INT, NAME, QUANTITY, STRING

TOKEN_KINDS: Final = {
    "keyword": "keyword",
    "comment": "comment",
    "string": "string",
    "number": "number",
    "module": "namespace",
    "topology": "class",
    "collective": "interface",
    "algorithm": "method",
    "schedule": "function",
    "design": "function",
    "workload": "struct",
    "price table": "struct",
    "function": "function",
    "type": "type",
    "parameter": "parameter",
    "loop variable": "parameter",
    "npu": "property",
    "switch": "property",
    "copies": "property",
    "attribute": "property",
    "option": "property",
    "label": "property",
    "synthesizer": "enumMember",
    "kind of file": "enumMember",
}
"""The protocol's kinds of tokens, by kinds of symbols; others are variables."""

MODIFIERS: Final = ("declaration", "defaultLibrary", "readonly")
"""The protocol's modifiers of tokens: a declaration, a name of the language or its library, a constant."""

_LITERALS: Final = {COMMENT: "comment", STRING: "string", INT: "number", FLOAT: "number", QUANTITY: "number"}


def tokens(source: SourceFile, names: Resolver) -> Iterator[tuple[int, int, str, tuple[bool, ...]]]:
    """The words, numbers, strings and comments of a file: start, end, kind, and whether it has each of MODIFIERS."""
    table = load_table()
    uses = {use.span.start: use for use in names.uses}
    for token in table.scanner.scan(source.text, comments=True):
        kind, modifiers = _LITERALS.get(token.kind, ""), (False, False, False)
        if token.kind == NAME:
            use = uses.get(token.start)
            if use is not None:
                symbol = use.symbol
                library = symbol.place is None or symbol.place.file.name.startswith("std/")
                kind = TOKEN_KINDS.get(symbol.kind, "variable")
                modifiers = use.declares, library, symbol.kind == "constant"
            elif token.text in table.keywords:
                kind = "keyword"
            else:
                kind = "property" if source.text[token.end : token.end + 1] == ":" else "variable"
        if kind:
            yield token.start, token.end, kind, modifiers


def inlay_hints(programs: Workspace, path: Path) -> Iterator[tuple[int, str, bool]]:
    """Texts to show at offsets, and whether each is the name of an argument, which stands before its value.

    What a topology consists of stands behind its name; the chunks of a run behind its collective.
    """
    for node in programs.tree(path).statements:
        if isinstance(node, s.TopologyInstance | s.TopologyTemplate):
            value = value_of(programs, path, symbol_of(node))
            if value is not None and isinstance(value.data, Topology):
                yield node.name.span.end, network_in_words(value.data.network, diameter=False), False
        elif isinstance(node, s.ScheduleDeclaration):
            yield from _chunks(programs, path, node)
    names = programs.names(path)
    callees = {use.span.start: use.symbol for use in names.uses}
    waiting: list[ex.Node] = [*programs.tree(path).statements]
    for node in waiting:
        waiting.extend(children(node))
        if isinstance(node, ex.Call) and node.function.span.start in callees:
            parameters = callee_parameters(callees[node.function.span.start].node)
            for parameter, argument in zip(parameters, node.arguments, strict=False):
                if argument.name is None and argument.value.span.text != parameter.name.name:
                    yield argument.span.start, f"{parameter.name.name}:", True


def _chunks(programs: Workspace, path: Path, node: s.ScheduleDeclaration) -> Iterator[tuple[int, str, bool]]:
    """The chunks of each run of a schedule without loops, if the last check built it."""
    checked = programs.last_values(path)
    said = () if checked is None else checked.chunks.get(node.name.name, ())
    runs = [part for part in node.body if isinstance(part, s.RunStatement)]
    if len(runs) == len(said):
        ends = (statement.collective.function.span.end for statement in runs)
        yield from ((end, chunks, False) for end, chunks in zip(ends, said, strict=True))
