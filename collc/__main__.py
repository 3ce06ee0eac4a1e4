"""`python -m collc` and the script `collc`: the command line. Ctrl-C ends it quietly even while it is being loaded."""

from __future__ import annotations


def start() -> int:
    """Run the command of the process; returns its exit code."""
    try:
        from collc.command.cli import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(start())
