"""Cases for vscode-tmgrammar-test: all programs with lines that say what each part is, as `scopes` has it.

`python -m tests.editor.textmate_cases FOLDER` writes them; .ci/run gives them to Visual Studio Code's own engine.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from tests.editor.test_colours import GRAMMAR, PROGRAMS, scopes


def annotated(text: str, name: str) -> str:
    """A program as a case: below each line, a line for each part of it."""
    lines = [f'# SYNTAX TEST "{GRAMMAR["scopeName"]}" "{name}"']
    parts: dict[int, list[str]] = defaultdict(list)
    for start, end, scope in scopes(text):
        column = start - text.rfind("\n", 0, start) - 1
        marks = " " * (column - 1) + "^" * (end - start) if column else f"<{'-' * (end - start)}"
        parts[text.count("\n", 0, start)] += [f"#{marks} {scope}"] if scope else []
    for number, line in enumerate(text.splitlines()):
        lines += [line, *parts[number]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in PROGRAMS:
        (folder / path.name).write_text(annotated(path.read_text(), path.name))
