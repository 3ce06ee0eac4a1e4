"""Tables in HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]], remarks: Sequence[str] = ()) -> str:
    """A table with a heading and one row per line, and the remarks (preformatted texts) below it."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    below = "".join(f"<pre>{escape(remark)}</pre>" for remark in remarks)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
