"""Tasks on the workers of a Dask cluster. The package `distributed` is an extra: pip install 'collc[sweep]'."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Sequence
from typing import Any, Final, cast

from collc.base.diagnostics import Diagnostic, UsageError
from collc.parallel.processes import Lost, named_function

CONNECT_SECONDS: Final = 10.0
"""How long to wait for an answer of the scheduler."""


def _import_distributed() -> Any:  # noqa: ANN401 (the package has no types)
    """Dask's package. Raises UsageError U0141 if it is not installed."""
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        hint = "install it with: python -m pip install 'collc[sweep]'"
        raise UsageError(Diagnostic("U0141", "--scheduler needs the package 'distributed'", hint=hint)) from error


def run_on_cluster(function: str, tasks: Sequence[object], address: str) -> Generator[tuple[int, object]]:
    """Yield (number of the task, result) as tasks are done, in any order, as `run_in_processes` does.

    The workers need collc. A task whose worker dies goes to another one; Dask gives it up when several workers died of
    it. Raises UsageError U0142 if no scheduler answers at the address.
    """
    distributed = _import_distributed()
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        hint = "start one with 'dask scheduler', and workers with 'dask worker tcp://HOST:8786'"
        message = f"no Dask scheduler answers at {address}"
        raise UsageError(Diagnostic("U0142", message, hint=hint)) from error
    with client:
        futures = {
            client.submit(named_function(function), task, pure=False): number for number, task in enumerate(tasks)
        }
        for future in distributed.as_completed(list(futures), loop=client.loop):
            number = futures.pop(future)
            # A result can be lost with the worker that keeps it: then `result` waits until it is computed again.
            error = future.exception()
            yield number, Lost(f"the cluster gave it up: {error}") if error else cast("object", future.result())
            future.release()
