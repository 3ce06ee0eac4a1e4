"""Python's search for cyclic garbage, paused if it costs much and finds nothing."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Generator[None]:
    """Run a block without that search; a syntax tree has no cycles, and a large one is searched again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
