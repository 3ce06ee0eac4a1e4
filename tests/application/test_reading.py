"""The reader of programs, imports, workloads and .ten files."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.base.diagnostics import SourceError, SourceFile, Span
from collc.base.reading import read_text

AT = Span(SourceFile("p.coll", 'import "x.coll"'), 7, 15)


@pytest.mark.parametrize("at", [None, AT])
def test_unreadable_files_are_reported_with_their_position(tmp_path: Path, at: Span | None) -> None:
    (tmp_path / "large").write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "latin").write_bytes("höher".encode("latin-1"))
    for name, code, text in (
        ("nothing", "E0701", "there is no file NAME"),
        (".", "E0701", "NAME is not a file"),
        ("a\0b", "E0701", "there is no file NAME"),
        ("large", "E0801", "NAME has more than 1 MiB"),
        ("latin", "E0705", "NAME is not UTF-8 text (byte 1)"),
    ):
        with pytest.raises(SourceError) as caught:
            read_text(tmp_path / name, "NAME", limit=2**20, at=at)
        (message,) = caught.value.diagnostics
        assert (message.code, message.message, message.span) == (code, text, at)
        assert message.hint


def test_a_text_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes("é\r\n".encode() * 2)
    assert read_text(path, limit=8) == SourceFile(str(path), "é\r\né\r\n")
