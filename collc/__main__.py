"""The command line, as `python -m collc` and as the script `collc`. Ctrl-C and SIGTERM end it quietly at any time."""

from __future__ import annotations

import os
import signal
import sys

from collc.base.exit_codes import INTERRUPTED

TYPE_CHECKING = False  # see collc/__init__.py
if TYPE_CHECKING:
    from typing import NoReturn


def start() -> int:
    """Run the command of the process; returns its exit code, or ends the process after Ctrl-C or SIGTERM."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy starts one for each core: 0.04 s, and no matrix is large
    try:
        if "_ARGCOMPLETE" in os.environ:  # a shell asks what may come next (PYTHON_ARGCOMPLETE_OK)
            from collc.command.completion import complete

            complete()
        from collc.command.cli import main

        code = main()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        _end(code)
    return code


def _end(code: int) -> NoReturn:
    """End the process at once. If Ctrl-C came in text that ran by `exec`, as in `dataclass`, Python would end the
    process by SIGINT in place of the code: it takes the interrupt for one that nobody has handled.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or never there
            continue
    os._exit(code)


if __name__ == "__main__":
    raise SystemExit(start())
