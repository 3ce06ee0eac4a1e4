"""The standard library as `collc std` shows it: a list with one line a declaration, and the source of one."""

from __future__ import annotations

from dataclasses import dataclass

from collc.base.diagnostics import Diagnostic, SourceFile, UsageError
from collc.base.resources import standard_library
from collc.base.wording import did_you_mean
from collc.source.parsing.parse import parse
from collc.source.parsing.syntax import (
    Algorithm,
    Collective,
    Parameter,
    PriceTable,
    Statement,
    TopologyTemplate,
    Workload,
)

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
    found: list[StandardEntry] = []
    for module, path in standard_library().items():
        file = SourceFile(path.name, path.read_text(encoding="utf-8"))
        declarations = (s for s in parse(file).statements if isinstance(s, Declaration))
        found += [_entry(f"std.{module}", declaration, file) for declaration in declarations]
    return found


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


def _entry(module: str, statement: Declaration, file: SourceFile) -> StandardEntry:
    comment, start = _comment_above(file.text, statement.span.start)
    summary = comment[0].removeprefix("#").strip() if comment else ""
    name = statement.name.name
    return StandardEntry(module, name, _signature(statement), summary, file.text[start : statement.span.end])


def _comment_above(text: str, start: int) -> tuple[list[str], int]:
    """The lines of the comment that ends just above a position, and the position at which the comment begins."""
    lines: list[str] = []
    while start > 0:
        above = text.rfind("\n", 0, start - 1) + 1
        line = text[above : start - 1]
        if not line.startswith("#"):
            break
        lines.insert(0, line)
        start = above
    return lines, start


def _signature(statement: Statement) -> str:
    match statement:
        case TopologyTemplate() | Collective():
            return f"{statement.name.name}({', '.join(_parameter(p) for p in statement.parameters or ())})"
        case Algorithm():
            return f"{statement.implements.function.name} using {statement.name.name}"
        case Workload():
            return f"{statement.name.name} ({', '.join(argument.span.text for argument in statement.arguments)})"
        case PriceTable():
            return statement.name.name
        case _:
            return ""


def _parameter(parameter: Parameter) -> str:
    default = parameter.default
    if default is None:
        return parameter.name.name
    return f"{parameter.name.name} = {default.span.text}"
