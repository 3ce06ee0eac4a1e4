"""The examples of docs/language.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```coll(?: fails (E\d{4}))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A program, its first line in the page, and the code of its error, if it must fail."""

    line: int
    text: str
    code: str | None

    def __str__(self) -> str:
        return f"line{self.line}"


def examples(page: Path = ROOT / "docs" / "language.md") -> list[Example]:
    """All ```coll blocks; those that must fail are marked ```coll fails E0210."""
    text = page.read_text(encoding="utf-8")
    return [Example(text.count("\n", 0, m.start(2)) + 1, m.group(2), m.group(1)) for m in BLOCK.finditer(text)]
