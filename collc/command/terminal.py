"""Output for people: messages and progress on stderr, tables on stdout."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collc.application.settings import Progress
    from collc.base.diagnostics import Diagnostic

FILE_WIDTH: Final = 200
"""Columns of a table that goes into a file or pipe."""

PROGRESS_DELAY: Final = 2.0
"""Seconds before progress is shown."""


_ALMOST_DONE: Final = 0.9999
"""The largest share that the bar shows: Rich stops the clock of a task that is complete, and more phases may follow."""


def uses_colour(stream: TextIO) -> bool:
    """Whether to write colours to a stream: it is a terminal that can show them, and NO_COLOR is not set."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def drop_output() -> None:
    """What is still to be written to stdout goes nowhere; Python would try again at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def into_open_pipe() -> Generator[None]:
    """Where nobody reads stdout any more, what is printed inside goes nowhere: the exit code is still that of the
    command.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


def print_messages(diagnostics: Sequence[Diagnostic]) -> None:
    """Print messages to stderr; of repeated warnings only the first."""
    if diagnostics:
        from collc.base.rendering import folded, render

        print(render(folded(diagnostics), colour=uses_colour(sys.stderr)), file=sys.stderr)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout; where the terminal is too narrow, each row as a list of its cells."""
    with into_open_pipe():
        _print_table(columns, rows)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from collc.base.rendering import printable

    rows = [[printable(cell) for cell in row] for row in rows]
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = None if sys.stdout.isatty() else FILE_WIDTH
    console = Console(file=sys.stdout, width=width, highlight=False, no_color=not uses_colour(sys.stdout))
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
    if sum(widths) + 3 * len(widths) > console.width:
        longest = max(len(column) for column in columns)
        for row in rows:
            for column, cell in zip(columns, row, strict=True):
                print(f"{column:<{longest}}  {cell}")
            if row is not rows[-1]:
                print()
        return
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


@contextlib.contextmanager
def progress_bar(quiet: bool) -> Generator[Progress]:
    """A progress callback that shows a bar on stderr after a delay, if stderr is a terminal and not `quiet`.

    A phase whose share is not known shows a moving bar. The bar appears also during a phase that reports nothing.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _share, _phase: None
        return
    bar = _Bar()
    timer = threading.Timer(PROGRESS_DELAY, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.report
    finally:
        timer.cancel()
        bar.close()


@dataclass
class _Bar:
    """A progress bar of Rich; it is not shown before `show`, which another thread may call."""

    _share: float | None = None
    _phase: str = ""
    _closed: bool = False
    _update: Callable[[float | None, str], None] | None = None
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, share: float | None, phase: str) -> None:
        """Remember the phase, and show it if the bar is shown."""
        with self._lock:
            self._share, self._phase = share, phase
            if self._update is not None:
                self._update(share, phase)

    def show(self) -> None:
        """Show the bar with the last phase that was reported."""
        with self._lock:
            if not self._closed and self._update is None:
                self._update = _rich_bar(self._stack)
                self._update(self._share, self._phase)

    def close(self) -> None:
        """Remove the bar."""
        with self._lock:
            self._closed = True
            self._stack.close()


def _rich_bar(stack: contextlib.ExitStack) -> Callable[[float | None, str], None]:
    """Show a bar until the stack is closed; returns the function that updates it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    shown = stack.enter_context(
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
    )
    task = shown.add_task("", total=None)

    def update(share: float | None, phase: str) -> None:
        shown.tasks[0].total = None if share is None else 1.0
        done = 0.0 if share is None else min(share, _ALMOST_DONE)
        shown.update(task, completed=done, description=phase)

    return update


def internal_error(error: BaseException | None) -> Diagnostic:
    """The message U0116 for an error of collc itself. COLLC_TRACEBACK in the environment prints its traceback too."""
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


def print_json(answer: Mapping[str, object], diagnostics: Sequence[Diagnostic] = ()) -> None:
    """Print one JSON object, with the messages about it."""
    from collc.base.rendering import as_json

    with into_open_pipe():
        print(json.dumps({**answer, "diagnostics": as_json(diagnostics)}, indent=2))
