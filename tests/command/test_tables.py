"""Tables on the terminal: columns side by side, in several lines, or as lists."""

from __future__ import annotations

import re
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from collc.base.tables import Table
from collc.command.terminal import table_text

REMARKS: Final = Table(
    ("algorithm", "time", "remark"),
    [("ring", "1.5ms", "the reduction of chunk 0 passes npu[0], which has a part"), ("direct", "20us", "")],
)


def test_the_widest_column_of_a_table_takes_several_lines() -> None:
    assert table_text(REMARKS, 80).splitlines() == [
        "algorithm   time    remark",
        "----------------------------------------------------------------------------",
        "ring        1.5ms   the reduction of chunk 0 passes npu[0], which has a part",
        "direct      20us",
    ]
    assert table_text(REMARKS, 50).splitlines()[2:] == [
        "ring        1.5ms   the reduction of chunk 0",
        "                    passes npu[0], which has a",
        "                    part",
        "direct      20us",
    ]


@given(width=st.integers(0, 100), cells=st.lists(st.tuples(*[st.text("ab c", max_size=40)] * 3), min_size=1))
def test_a_table_has_all_words_and_no_line_is_too_wide(width: int, cells: list[tuple[str, str, str]]) -> None:
    text = table_text(Table(("one", "two words", "three"), cells), width)
    if "---" in text:
        assert all(len(line) <= width for line in text.splitlines())
    words = [word for word in text.split() if not re.fullmatch("-+|one|two|words|three", word)]
    assert sorted(words) == sorted(word for row in cells for cell in row for word in cell.split())


def test_a_narrow_table_is_lists_without_empty_cells() -> None:
    assert table_text(REMARKS, 24) == (
        "algorithm   ring\ntime        1.5ms\n"
        "remark      the reduction of chunk 0 passes npu[0], which has a part\n\n"
        "algorithm   direct\ntime        20us"
    )
