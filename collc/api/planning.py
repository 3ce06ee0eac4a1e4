"""`collc.Planner`: schedules on request, from a cache under the symmetries of a network."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from collc.api import arguments
from collc.api.plan_source import PlanSource
from collc.api.programs import Network, imports_text
from collc.application.planner.answers import Answer
from collc.application.planner.planning import PlanningService
from collc.application.planner.values import request_of, seconds_of
from collc.base.diagnostics import SourceFile
from collc.base.units import Dimension, quantity_in

MEMORY: Final = "1GiB"
"""Of the plans that are kept in memory."""


def _bytes_of(memory: str | int) -> int:
    size = quantity_in(memory, Dimension.BYTES) if isinstance(memory, str) else memory
    if size is None:
        raise ValueError(f"memory must be a size, as in '1GiB', not {memory!r}")
    return arguments.at_least(0)("memory", int(size))


class Planner(PlanSource[Answer]):
    """Answers requests for schedules on a network, from any number of threads (docs/planner.md).

    network: a Network, or its text. memory: bytes of the plans that are kept. cache: a folder with the plans of all
    processes; None: plans are kept in memory only. Raises SourceError for a wrong network.
    """

    def __init__(
        self, network: Network, *, memory: str | int = MEMORY, cache: str | PathLike[str] | None = None
    ) -> None:
        if not isinstance(network, Network):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise arguments.wrong_type("network", "a Network", network)
        folder: Path | None = None if cache is None else arguments.path("cache", cache)
        head = SourceFile("<network>", f"{imports_text()}\n{network}\n")
        self.service = PlanningService.of(head, "net", _bytes_of(memory), folder)

    def _answer(self, values: dict[str, Any]) -> Answer:
        within = seconds_of(values.pop("within"))
        return self.service.answer(request_of(values), within)

    def close(self) -> None:
        """End the threads of the planner, after the search that runs behind."""
        self.service.close()

    def __enter__(self) -> Planner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
