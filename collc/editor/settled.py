"""What need not be checked again after an edit: statements that are as they were, and so is all that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from collc.source.parsing import syntax as s
from collc.source.scopes import Declaration, FileScope


def settle(files: Mapping[Path, FileScope], before: Mapping[Path, FileScope]) -> bool:
    """Enter in the files of a program which statements cannot have errors; returns whether any are found.

    before: its files when it had no errors, as they are in `files`: the program first. A statement has none now if its
    text is one of before, and it names no declaration that came, went or changed, or that names such a one.
    """
    (program, *others), (known, *known_others) = files.values(), before.values()
    if files.keys() != before.keys() or any(a.source != b.source for a, b in zip(others, known_others, strict=True)):
        return False
    settled = _settled_texts(_by_text(program), _by_text(known))
    for file in others:
        file.settled = frozenset(file.statements)
    # What is read from other files, and what is made of it, is read again.
    again = s.Workload | s.PriceTable | s.Design
    program.settled = frozenset(n for n in program.statements if n.span.text in settled and not isinstance(n, again))
    return bool(settled)


def _by_text(file: FileScope) -> dict[str, s.Statement]:
    return {node.span.text: node for node in file.statements}


def _settled_texts(new: dict[str, s.Statement], old: dict[str, s.Statement]) -> dict[str, s.Statement]:
    """The statements that are in both, and name nothing that is not."""
    settled = {text: node for text, node in new.items() if text in old}
    changed = [node for text, node in (old | new).items() if text not in settled]
    for node in changed:
        if not isinstance(node, Declaration):
            return {}  # an import or an `if` may change what any name means
        name = node.name.name
        reached = [text for text in settled if name in _words(text)]
        changed += [settled.pop(text) for text in reached]
    return settled


@lru_cache(maxsize=1 << 14)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))
