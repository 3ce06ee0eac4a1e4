"""Talking to people: messages and progress on stderr, tables on stdout."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collc.base.diagnostics import Diagnostic

WIDE: Final = 200
"""Columns of a table that goes into a file or pipe."""

PATIENCE: Final = 2.0
"""Seconds before progress is shown."""


def colours(stream: TextIO) -> bool:
    """Whether a stream takes colours: a terminal, and NO_COLOR is not set."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def tell(diagnostics: Sequence[Diagnostic]) -> None:
    """Print messages to stderr, the first of warnings that are alike."""
    if diagnostics:
        from collc.base.rendering import folded, render

        print(render(folded(diagnostics), colour=colours(sys.stderr)), file=sys.stderr)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout, one row below the other where the terminal is too narrow."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = None if sys.stdout.isatty() else WIDE
    console = Console(file=sys.stdout, width=width, highlight=False, no_color=not colours(sys.stdout))
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    if sum(widths) + 3 * len(widths) > console.width:
        for row in rows:
            wide = max(len(column) for column in columns)
            for column, cell in zip(columns, row, strict=True):
                print(f"{column:<{wide}}  {cell}")
            if row is not rows[-1]:
                print()
        return
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


@contextlib.contextmanager
def progress(quiet: bool) -> Generator[Callable[[float, str], None]]:
    """A function (share done, words) that shows progress after a while, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield lambda _share, _words: None
        return
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        bar: list[Callable[[float, str], None]] = []

        def report(share: float, words: str) -> None:
            if not bar:
                if time.monotonic() - began < PATIENCE:
                    return
                bar.append(_bar(stack))
            bar[0](share, words)

        yield report


def _bar(stack: contextlib.ExitStack) -> Callable[[float, str], None]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    shown = stack.enter_context(
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
    )
    task = shown.add_task("", total=1.0)
    return lambda share, words: shown.update(task, completed=min(1.0, share), description=words)


def internal_error(error: BaseException | None) -> Diagnostic:
    """The message that collc itself is at fault, and where; COLLC_TRACEBACK in the environment prints its traceback."""
    import traceback

    from collc.base.diagnostics import Diagnostic

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
