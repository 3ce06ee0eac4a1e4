"""Output for people: messages and progress on stderr, tables on stdout."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import textwrap
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final, TextIO

from collc.base.diagnostics import Diagnostic, Exit, fold_repeated, messages_as_json, printable, render
from collc.base.tables import Table

if TYPE_CHECKING:
    from collc.application.settings import Progress

FILE_WIDTH: Final = 200
"""Characters of a line of a table that goes into a file or pipe."""

_GAP: Final = "   "
"""Between the columns of a table."""

PROGRESS_DELAY: Final = 2.0
"""Seconds before progress is shown."""

_ALMOST_DONE: Final = 0.9999
"""The largest share that the bar shows: Rich stops the clock of a task that is complete, and more phases may follow."""


def uses_colour(stream: TextIO) -> bool:
    """Whether to write colours to a stream: it is a terminal that can show them, and NO_COLOR is not set."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def drop_output() -> None:
    """Drop what is still to be written to stdout; Python would try again at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def into_open_pipe() -> Generator[None]:
    """If nobody reads stdout any more, drop what is printed inside, and keep the exit code of the command."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


def print_messages(diagnostics: Sequence[Diagnostic]) -> None:
    """Print messages to stderr; of repeated warnings only the first."""
    if diagnostics:
        print(render(fold_repeated(diagnostics), colour=uses_colour(sys.stderr)), file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Output:
    """What a command prints.

    answer: makes the object that `--json` prints, without its messages. heading, text: above and below the tables.
    notes: remarks for stderr. diagnostics: messages. exit: the exit code.
    """

    answer: Callable[[], Mapping[str, object]]
    tables: Sequence[Table] = ()
    heading: str = ""
    text: str = ""
    notes: Sequence[str] = ()
    diagnostics: Sequence[Diagnostic] = ()
    exit: Exit = Exit.DONE


def print_output(output: Output, *, as_json: bool, quiet: bool = False) -> None:
    """Print one JSON object; or, unless `quiet`, tables and texts on stdout and notes on stderr. Then the messages."""
    if as_json:
        with into_open_pipe():
            answer = {**output.answer(), "diagnostics": messages_as_json(output.diagnostics)}
            print(json.dumps(answer, indent=2))
    elif not quiet:
        with into_open_pipe():
            width = get_terminal_size().columns if sys.stdout.isatty() else FILE_WIDTH
            tables = [table_text(table, width) for table in output.tables if table.rows]
            if parts := [part for part in (output.heading, *tables, output.text) if part]:
                print("\n\n".join(parts))
        for note in output.notes:
            print(printable(note), file=sys.stderr)
    print_messages(output.diagnostics)


def table_text(table: Table, width: int) -> str:
    """A table as lines of at most `width` characters, but for words that are longer.

    If the words of all columns do not fit side by side, the widest columns but the first leave the grid, until the
    others fit; their cells stand below each row, after their titles. Then the widest column of the grid is narrowed
    until all fit, and its cells take several lines.
    """
    rows = [[printable(cell) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    words = [
        max((len(word) for cell in cells for word in cell.split()), default=0) for cells in zip(*rows, strict=True)
    ]
    grid = list(range(len(widths)))
    while len(grid) > 1 and _line_length([words[c] for c in grid]) > width:
        grid.remove(max(grid[1:], key=widths.__getitem__))
    while (excess := _line_length([widths[c] for c in grid]) - width) > 0:
        wide = sorted((c for c in grid if widths[c] > words[c]), key=widths.__getitem__)
        if not wide:
            break
        *others, widest = wide
        least = max([words[widest], *(widths[c] for c in others[-1:])])
        widths[widest] -= max(1, min(excess, widths[widest] - least))
    head, *body = [_row_lines([row[c] for c in grid], [widths[c] for c in grid]) for row in rows]
    below = [
        [f"{table.columns[c]}: {row[c]}" for c in range(len(row)) if c not in grid and row[c] not in ("", "-")]
        for row in rows[1:]
    ]
    rule = "-" * max(len(line) for lines in (head, *body) for line in lines)
    lines = [head, [rule]]
    for own, more in zip(body, below, strict=True):
        lines += [own, *(_below(text, width) for text in more)]
    return "\n".join(line for part in lines for line in part)


def _below(text: str, width: int) -> list[str]:
    """The lines of a cell below its row."""
    return textwrap.wrap(
        text,
        max(width, 1),
        initial_indent=_GAP,
        subsequent_indent=2 * _GAP,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _line_length(widths: Sequence[int]) -> int:
    """The length of a line of columns with these widths."""
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _row_lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The lines of a row whose columns have these widths."""
    cells = [textwrap.wrap(cell, most, break_on_hyphens=False) for cell, most in zip(row, widths, strict=True)]
    lines = (
        _GAP.join(f"{part:<{most}}" for part, most in zip(parts, widths, strict=True))
        for parts in zip_longest(*cells, fillvalue="")
    )
    return [line.rstrip() for line in lines]


@contextlib.contextmanager
def progress_bar(quiet: bool) -> Generator[Progress]:
    """A progress callback that shows a bar on stderr after a delay, if stderr is a terminal and not `quiet`.

    A phase whose share is not known shows a moving bar. The bar appears also during a phase that reports nothing.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _share, _phase: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None)

    def report(share: float | None, phase: str) -> None:
        bar.tasks[0].total = None if share is None else 1.0
        done = 0.0 if share is None else min(share, _ALMOST_DONE)
        bar.update(task, completed=done, description=phase)

    timer = threading.Timer(PROGRESS_DELAY, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def internal_error(error: BaseException | None) -> Diagnostic:
    """The message U0116 for an error of collc itself. COLLC_TRACEBACK in the environment prints its traceback too."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__ if error is not None else None)
    last = frames[-1] if frames else None
    where = f" ({last.filename.rsplit('/', 1)[-1]}:{last.lineno}, in {last.name})" if last else ""
    if os.environ.get("COLLC_TRACEBACK"):
        traceback.print_exception(error)
    hint = (
        "this is a bug in collc, not in your program; please report it with the program that shows it "
        "(COLLC_TRACEBACK=1 prints the details to send along)"
    )
    return Diagnostic("U0116", f"internal error: {type(error).__name__}: {error}{where}", hint=hint)
