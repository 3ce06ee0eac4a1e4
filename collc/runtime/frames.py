"""Frames on the pipes between the process that starts a run and its workers: an object of JSON and some bytes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import IO, Any


def write_frame(stream: IO[bytes], values: dict[str, Any], data: bytes | memoryview = b"") -> None:
    """Write a frame."""
    stream.write(json.dumps(values | {"bytes": len(data)}).encode() + b"\n")
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """The next frame. Raises EOFError if the other end is gone."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    values: dict[str, Any] = json.loads(line)
    data = stream.read(values["bytes"])
    if len(data) < values["bytes"]:
        raise EOFError
    return values, data


def starts(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The values of the frames that start runs, until the other end is gone."""
    with suppress(EOFError):
        while True:
            yield read_frame(stream)[0]


def serve(module: str) -> None:
    """End this process after `main` of a module, or without a word when the process that it answers is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the starter, which ends its workers
    with suppress(EOFError, BrokenPipeError):
        import_module(module).main()
    os._exit(0)  # at its end Python would write what is left for the starter
