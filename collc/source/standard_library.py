"""The standard library: its declarations, as 'collc std' shows them, and the names of its algorithms."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.resources import standard_library
from collc.base.wording import did_you_mean, phrase
from collc.source.parsing.parse import parse_library
from collc.source.parsing.syntax import Algorithm, Collective, PriceTable, TopologyTemplate, Workload

Declaration = TopologyTemplate | Collective | Algorithm | Workload | PriceTable


@dataclass(frozen=True, slots=True)
class StandardEntry:
    """One declaration of the standard library.

    module: "std.topologies". name: "ring". signature: the name with its parameters, or `COLLECTIVE using NAME` for an
    algorithm. summary: the first line of the comment above the declaration. source: its text with that comment.
    """

    module: str
    name: str
    signature: str
    summary: str
    source: str


def std_entries() -> list[StandardEntry]:
    """All declarations of the standard library, by module, in the order of the files."""
    trees = {module: parse_library(module) for module in standard_library()}
    return [
        _entry(f"std.{module}", declaration, tree.source.text)
        for module, tree in trees.items()
        for declaration in tree.statements
        if isinstance(declaration, Declaration)
    ]


def std_source(name: str) -> str:
    """The source, with comments, of the declarations that a name denotes.

    name: `ring`, `topologies.ring` or `std.topologies.ring`, or a module such as `std.topologies`, whose whole text is
    returned. All declarations of that name are returned. Raises UsageError if there is none.
    """
    whole = standard_library().get(name.removeprefix("std."))
    if whole is not None:
        return whole.read_text(encoding="utf-8").rstrip("\n")
    entries = std_entries()
    module, _, short = name.rpartition(".")
    module = f"std.{module.removeprefix('std.')}" if module else ""
    chosen = [e for e in entries if e.name == short and module in ("", e.module)]
    if not chosen:
        hint = did_you_mean(short, (e.name for e in entries), "'collc std' lists what there is")
        raise UsageError(Diagnostic("U0114", f"the standard library has no '{name}'", hint=hint))
    blocks: list[str] = []
    for number, entry in enumerate(chosen):
        if number == 0 or chosen[number - 1].module != entry.module:
            blocks.append(f"# {entry.module}")
        blocks.append(entry.source)
    return "\n\n".join(blocks)


def _entry(module: str, statement: Declaration, text: str) -> StandardEntry:
    name, end = statement.name.name, statement.span.end
    comment = re.search(r"(?:^#.*\n)*\Z", text[: statement.span.start], re.MULTILINE)
    above = comment[0] if comment else ""
    summary = above.partition("\n")[0].removeprefix("#").strip()
    return StandardEntry(module, name, _signature(statement), summary, above + text[statement.span.start : end])


def _signature(statement: Declaration) -> str:
    name = statement.name.name
    match statement:
        case TopologyTemplate() | Collective():
            parameters = ((p.name.name, p.default) for p in statement.parameters or ())
            texts = (name if default is None else f"{name} = {default.span.text}" for name, default in parameters)
            return f"{name}({', '.join(texts)})"
        case Algorithm():
            return f"{statement.implements.function.name} using {name}"
        case Workload():
            return f"{name} ({', '.join(argument.span.text for argument in statement.arguments)})"
        case PriceTable():
            return name


@cache
def textbook_names(kind: str | None = None) -> tuple[str, ...]:
    """The algorithms of `std.algorithms` that implement a standard collective ("all_reduce"), in order of declaration.

    kind: None for those of all collectives.
    """
    algorithms = (node for node in parse_library("algorithms").statements if isinstance(node, Algorithm))
    names = (node.name.name for node in algorithms if kind in (None, node.implements.function.name))
    return tuple(dict.fromkeys(names))


def synthesizer_hint(name: str, synthesizers: Iterable[str], algorithms: Iterable[str] = ()) -> str:
    """What to try if no synthesizer has a name: the name of an algorithm goes after `using`.

    algorithms: of a program, besides the ones of the standard library.
    """
    if name in (*algorithms, *textbook_names()):
        return f"'{name}' is an algorithm: write it after the collective, as in run ... using {name}"
    return did_you_mean(name, synthesizers, f"there are {phrase(synthesizers)}")
