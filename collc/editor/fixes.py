"""Quick fixes: what the hint of a message proposes, as edits. Each is tried, and those that do not help are dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceFile, Span
from collc.editor.completion import import_edit
from collc.editor.references import Edit, apply_edits
from collc.editor.uses import callee_parameters
from collc.editor.workspace import Workspace
from collc.source.parsing import syntax as s
from collc.source.parsing.parse import parse_partly

_VALUES: Final = {"int": "1", "float": "1.0", "bool": "false", "bytes": "1MiB", "time": "1us", "rate": "50GB/s"}
"""A value of each type, for an argument that is missing."""

_UNITS: Final = {"size": ("MiB", "KiB"), "time": ("us", "ms"), "rate": ("GB/s", "GiB/s")}

Fix = tuple[str, list[Edit]]
"""What a fix does, in words, and its edits."""

_REPLACEMENTS: Final[tuple[tuple[str, Callable[[re.Match[str], str], str]], ...]] = (
    (r"write '([^']+)' without parentheses", lambda hint, _: hint[1]),
    (r"write '([^']+[^.'])'", lambda hint, wrong: hint[1] + " " * wrong.startswith("!")),
    (r"write ([\w.]+\(\.\.\.\))", lambda hint, _: hint[1].replace("...", "")),
    (r'write "\.\.\."', lambda _, wrong: '"' + wrong.strip("'\u2018\u2019") + '"'),
    (r"write ([<>=]+)$", lambda hint, wrong: re.sub(r"[<>=]+", hint[1], wrong, count=1)),
    (
        r"write time [<>=]+ (.+), or another unit|write param (.+)$|write chunks: (\d+),",
        lambda hint, _: hint[hint.lastindex or 0],
    ),
    (r"write (\d+\.\.\S+)", lambda hint, _: hint[1]),
    (r"call it '(\w+)'", lambda hint, _: hint[1]),
    (r"is (\S+\.npus)$", lambda hint, _: hint[1]),
    (r"'//' is the division", lambda _, wrong: re.sub(r" ?/ ?", " // ", wrong, count=1)),
    (r"ceil\(\.\.\.\) rounds up", lambda _, wrong: f"ceil({wrong})"),
    (r"a string ends on its line", lambda _, wrong: wrong.rstrip() + '"'),
    (r"a comment begins with '#'", lambda _, __: "#"),
    (r"need no '.'|without '\$'|^remove it|write an ordinary space", lambda hint, _: " " * ("space" in hint[0])),
)
"""The form of a hint, and the text that it proposes in place of the one at the message."""


def fixes(programs: Workspace, path: Path, message: Diagnostic) -> list[Fix]:
    """The fixes of a message about a file, those that remove it."""
    span = message.span
    if span is None or programs.path_of(span.file) != path:
        return []
    return [fix for fix in _proposals(programs, path, message) if _helps(programs, path, message, fix[1])]


def _helps(programs: Workspace, path: Path, message: Diagnostic, edits: list[Edit]) -> bool:
    text = programs.source(path).text
    after, wrong = apply_edits(text, edits), (message.code, message.message)
    if message.code < "E02":
        before, left = _syntax_errors(text), _syntax_errors(after)
        return len(left) <= len(before) and left.count(wrong) < before.count(wrong)
    messages = programs.with_texts({path: after}).check(path).messages
    said = [(each.code, each.message) for each in programs.check(path).messages]
    left = [(each.code, each.message) for each in messages]
    return left.count(wrong) < said.count(wrong) and not any(code < "E02" for code, _ in left)


def _syntax_errors(text: str) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in parse_partly(SourceFile("", text))[1]]


def _proposals(programs: Workspace, path: Path, message: Diagnostic) -> Iterator[Fix]:
    span, hint = message.span, message.hint
    assert span is not None

    def replacement(text: str, start: int = span.start, end: int = span.end) -> Fix:
        shown = span.file.text[start:end]
        title = f"remove '{shown}'" if not text.strip() else f"write '{text.strip()}'"
        return title, [Edit(path, start, end, text)]

    if near := re.search(r"did you mean '([^']+)'\?", hint):
        for wrong in re.findall(r"['\"]([^'\"]+)['\"]", message.message):
            if (place := span.text.find(wrong)) >= 0:
                yield replacement(near[1], span.start + place, span.start + place + len(wrong))
    if module := re.search(r"add: import (std\.\w+)", hint):
        place, text = import_edit(programs, path, module[1])
        yield f"import {module[1]}", [Edit(path, place.start, place.end, text)]
    yield from _around(programs, path, span, hint)
    if pair := re.search(r"with '(.)', not '(.)'", message.message):
        yield replacement(pair[1])
    if missing := re.search(r"an? '(.)' is missing before this", hint):
        before = len(span.file.text[: span.start].rstrip())
        yield replacement(missing[1], before, before)
    if (closing := re.fullmatch(r"write '([)\]}])'", hint)) and message.notes and message.notes[0].span is not None:
        before = len(span.file.text[: message.notes[0].span.start].rstrip())
        yield replacement(closing[1], before, before)
        return
    if unit := re.search(r"a (size|time|rate) needs a unit", hint):
        yield from (replacement(span.text + name) for name in _UNITS[unit[1]])
    for pattern, proposed in _REPLACEMENTS:
        if match := re.search(pattern, hint):
            yield replacement(proposed(match, span.text))
            break
    if needs := re.search(r"also needs (.+)", message.message):
        yield from _missing_arguments(programs, path, message, re.split(r", | and ", needs[1]))


def _around(programs: Workspace, path: Path, span: Span, hint: str) -> Iterator[Fix]:
    """Another keyword before a place, or a statement at the end of the declaration around it."""
    text = span.file.text
    kind, written = re.match(r"write '(npu|switch) ", hint), re.search(r"\w+\s+\Z", text[: span.start])
    if kind and written:
        yield f"write '{kind[1]}'", [Edit(path, written.start(), span.start, f"{kind[1]} ")]
    if statement := re.fullmatch(r"add: ((?!import).*[^.])", hint):
        for node in programs.tree(path).statements:
            if node.span.start <= span.start < node.span.end and node.span.text.endswith("}"):
                end = node.span.end - 1
                added = f"    {statement[1]}\n" if text[:end].endswith("\n") else f" {statement[1]} "
                yield f"add {statement[1]}", [Edit(path, end, end, added)]


def _missing_arguments(programs: Workspace, path: Path, message: Diagnostic, needed: list[str]) -> Iterator[Fix]:
    """The missing arguments of a call, each with a value of its type."""
    span = message.span
    use = programs.names(path).at(span.start) if span is not None else None
    if span is None or use is None or not span.text.endswith(")"):
        return
    types = {p.name.name: p.type.name for p in callee_parameters(use.symbol.node) if p.type is not None}
    outer = [n for n in programs.tree(path).statements if n.span.start <= span.start < n.span.end]
    group = f"{outer[0].topology.span.text}.npus" if outer and isinstance(outer[0], s.ScheduleDeclaration) else "[]"
    values = _VALUES | {"group": group, "string": '""', "list": "[]"}
    added = ", ".join(f"{name}: {values.get(types.get(name, ''), '1')}" for name in needed)
    end = span.end - 1
    comma = "" if span.file.text[:end].rstrip().endswith(("(", ",")) else ", "
    yield f"add {added}", [Edit(path, end, end, comma + added)]
