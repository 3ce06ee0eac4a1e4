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
    """A table as lines of at most `width` characters.

    The widest column is narrowed until all fit, and its cells take several lines. If a column would be narrower than
    one of its words, each row is a list of its cells instead, of any width.
    """
    rows = [[printable(cell) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    words = [
        max((len(word) for cell in cells for word in cell.split()), default=0) for cells in zip(*rows, strict=True)
    ]
    while (excess := sum(widths) + len(_GAP) * (len(widths) - 1) - width) > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        others = sorted(widths)[-2] if len(widths) > 1 else 0
        widths[widest] -= max(1, min(excess, widths[widest] - others))
        if widths[widest] < words[widest]:
            longest = max(map(len, table.columns))
            return "\n\n".join(
                "\n".join(f"{c:<{longest}}{_GAP}{cell}" for c, cell in zip(table.columns, row, strict=True) if cell)
                for row in rows[1:]
            )
    head, *body = [_row_lines(row, widths) for row in rows]
    rule = "-" * max(len(line) for lines in (head, *body) for line in lines)
    return "\n".join([*head, rule, *(line for lines in body for line in lines)])


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
