"""Tables: columns that say how a row is shown to people and which values it has in JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table whose rows are objects.

    title: the heading for people; "" for a column of JSON only. key: the name in JSON; "" for a column for people only.
    value: of a row, as JSON has it. text: of a value that is not None; None is shown as "-".
    """

    title: str
    key: str
    value: Callable[[Row], Any]
    text: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True)
class Table:
    """Texts in rows under the titles of their columns. title: of the whole table on a page; "" for none."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


def table_of(columns: Sequence[Column[Row]], rows: Iterable[Row], title: str = "") -> Table:
    """The table of some objects for people."""
    shown = [column for column in columns if column.title]
    cells = [tuple("-" if (value := c.value(row)) is None else c.text(value) for c in shown) for row in rows]
    return Table(tuple(column.title for column in shown), cells, title)


def records_of(columns: Sequence[Column[Row]], rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The objects as JSON: the value of each column that has a key."""
    return [{column.key: column.value(row) for column in columns if column.key} for row in rows]


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]], remarks: Sequence[str] = ()) -> str:
    """A table in HTML for notebooks, with the remarks (preformatted texts) below it."""
    from html import escape  # takes 2 ms, which other tables do not need

    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    below = "".join(f"<pre>{escape(remark)}</pre>" for remark in remarks)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
