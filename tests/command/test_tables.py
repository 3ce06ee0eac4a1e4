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
    """A line is too wide only for a word that is, which may have an indent of 6."""
    text = table_text(Table(("one", "two words", "three"), cells), width)
    longest = max(map(len, ["words:", *(word for row in cells for cell in row for word in cell.split())]))
    assert all(len(line) <= max(width, 6 + longest) for line in text.splitlines())
    words = [word for word in text.split() if not re.fullmatch("-+|(one|two|words|three):?", word)]
    assert sorted(words) == sorted(word for row in cells for cell in row for word in cell.split())


def test_the_widest_columns_of_a_narrow_table_stand_below_its_rows() -> None:
    """With the remarks beside them, rows of 24 characters would have room for no word of these."""
    assert table_text(REMARKS, 24).splitlines() == [
        "algorithm   time",
        "-----------------",
        "ring        1.5ms",
        "   remark: the reduction",
        "      of chunk 0 passes",
        "      npu[0], which has",
        "      a part",
        "direct      20us",
    ]


def test_a_comparison_in_80_columns_keeps_its_grid() -> None:
    """Names, times, rates and shares of `collc compare` side by side; long remarks did make lists of all rows."""
    row = ("recursive_halving_doubling", "597.00256us", "149.584GB/s", "100.00 %", "12.36 x", "too few NPUs " * 9)
    titles = ("algorithm", "time", "bus bandwidth", "of ideal", "against this", "remark")
    lines = table_text(Table(titles, [row, (*row[:5], "")]), 80).splitlines()
    assert [line for line in lines if line.startswith("recursive")] == [
        "recursive_halving_doubling   597.00256us   149.584GB/s    100.00 %   12.36 x",
    ] * 2
    assert max(map(len, lines)) <= 80
