"""TEN modules, the intermediate representation that all passes take and return (docs/ten.md), and tables of their
transfers, with one row for each, for NumPy, pandas or polars.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal

import numpy as np

from collc.base.tables import html_table
from collc.base.units import format_time
from collc.ten.arrays import Int32Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, Schedule

Library = Literal["pandas", "polars"]

_LIBRARIES: Final[tuple[Library, ...]] = ("pandas", "polars")

COLUMNS: Final = np.dtype(
    [
        ("chunk", np.int32),
        ("run", np.int32),
        ("source", np.int32),
        ("target", np.int32),
        ("link", np.int32),
        ("start_ps", np.int64),
        ("end_ps", np.int64),
        ("reduce", np.bool_),
        ("relayed", np.int32),
        ("kept", np.bool_),
        ("size_bytes", np.int64),
    ]
)
"""Columns of the table. chunk, run, source, target, link: numbers in the demand and the network. start_ps: when the
chunk enters the link; end_ps: when it arrives. reduce: the target adds the chunk to what it holds. relayed: the
link over which came what the source relays; -1 if it sends what it holds. kept: the target keeps what arrives apart
and adds it to nothing; then reduce is True too, since a partial arrives."""


def transfer_table(network: Network, demand: Demand, schedule: Schedule) -> np.recarray[Any, np.dtype[np.record]]:
    """The transfers of a schedule, in order of start, link and chunk, as a record array with `COLUMNS`.

    Raises ValueError if a transfer names a chunk or a link that does not exist.
    """
    transfers = schedule.transfers
    _check_numbers("chunk", transfers.chunk, int(demand.first_chunk[-1]))
    _check_numbers("link", transfers.link, network.link_count)
    chunk, link = transfers.chunk, transfers.link
    table = np.empty(len(transfers), COLUMNS)
    table["chunk"], table["link"] = chunk, link
    table["run"] = np.searchsorted(demand.first_chunk, chunk, "right") - 1
    table["source"], table["target"] = network.source[link], network.target[link]
    table["start_ps"] = transfers.start
    table["end_ps"] = transfers.start + Clock.of(network, demand, schedule.model).total_of(transfers)
    table["reduce"], table["relayed"], table["kept"] = transfers.reduce, transfers.relays, transfers.keeps
    table["size_bytes"] = demand.chunks.size[chunk]
    return table.view(np.recarray)


def _check_numbers(name: str, numbers: Int32Array, count: int) -> None:
    """Raise ValueError if a number is not from 0 to count - 1."""
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if len(wrong):
        raise ValueError(
            f"a transfer names {name} {wrong[0]}, but the {name}s are {f'0 to {count - 1}' if count else 'none'}: "
            "verify(module) says what else is wrong"
        )


def transfer_frame(
    network: Network, demand: Demand, schedule: Schedule, library: Library | None = None, *, names: bool = False
) -> Any:  # noqa: ANN401 (a class of pandas or polars)
    """The transfers of a schedule as a data frame of pandas or polars.

    library: which of them; None: pandas if it is installed, else polars. names: with the names of chunks, devices and
    links in place of their numbers.
    Raises ImportError if the library is not installed, ValueError for any other library.
    """
    if library not in (None, *_LIBRARIES):
        raise ValueError(f"library must be 'pandas' or 'polars', not {library!r}")
    wanted = (library,) if library is not None else _LIBRARIES
    installed = next((name for name in wanted if find_spec(name) is not None), None)
    if installed is None:
        missing = f"{library} is not" if library is not None else "neither is"
        raise ImportError(
            f"a data frame needs {' or '.join(wanted)}, and {missing} installed: "
            f"python -m pip install {wanted[0]} (transfers() gives a NumPy record array without them)"
        )
    table = transfer_table(network, demand, schedule)
    columns: dict[str, Any] = {name: table[name] for name in COLUMNS.names or ()}
    if names:
        columns |= _names(network, demand, table)
    frames: Any = import_module(installed)
    return frames.DataFrame(columns)


def _names(network: Network, demand: Demand, table: np.recarray[Any, np.dtype[np.record]]) -> dict[str, list[str]]:
    """The columns of numbers that have names, as lists of names."""
    named = {
        "chunk": demand.chunk_name,
        "source": network.device_name,
        "target": network.device_name,
        "link": network.link_name,
    }
    columns: dict[str, list[str]] = {}
    for column, name_of in named.items():
        numbers, positions = np.unique(table[column], return_inverse=True)
        texts = [name_of(int(number)) for number in numbers]
        columns[column] = [texts[position] for position in positions.tolist()]
    return columns


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound on the time of every schedule, in picoseconds, and what sets it ("the links into npu[0, 0]")."""

    time: int
    name: str


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A schedule that is Pareto-optimal: none has fewer steps without more rounds per chunk (SCCL, section 2).

    chunks: per block of the collective. steps: in each step a chunk crosses one link. rounds: of all steps together;
    in a round, a link carries one chunk.
    """

    chunks: int
    steps: int
    rounds: int


@dataclass(frozen=True, eq=False)
class Phase:
    """A copy-only part of a demand with reductions.

    module: the part as a module of its own. inverted: it is solved on reversed links, and its schedule is then
    reversed in time (PCCL, section 4.4). start: picoseconds at which its schedule begins in that of the demand.
    forward: the reversed schedule, if it is computed already.
    """

    module: Module
    inverted: bool
    start: int = 0
    forward: Schedule | None = None


@dataclass(frozen=True, eq=False)
class Module:
    """A network, a demand and, after synthesis, a schedule, with how it was made.

    model: the link model for which a schedule is made. algorithm: the synthesizer or the algorithm that made the
    schedule. seed: its tie-break seed. notes: remarks for the report.
    relays: switches forward each arrival once, as in runtimes, which send from NPU to NPU.
    planned: the runs whose transfers are in the schedule; None for all runs.
    phases: the copy-only parts of a demand with reductions while they are being synthesized, otherwise ();
    the pass `invert` inverts and joins their schedules.
    pareto: the Pareto points of exact search, by steps, if the program asks for them.
    """

    name: str
    network: Network
    demand: Demand
    model: LinkModel = LinkModel.STORE
    schedule: Schedule | None = None
    algorithm: str = ""
    seed: int | None = None
    bound: Bound | None = None
    notes: tuple[str, ...] = ()
    relays: bool = False
    planned: frozenset[int] | None = None
    phases: tuple[Phase, ...] = ()
    pareto: tuple[ParetoPoint, ...] = ()

    def transfers(self) -> np.recarray[Any, np.dtype[np.record]]:
        """The transfers of the schedule as a NumPy record array, one row each, in order of start, link and chunk.

        Columns: chunk, run, source, target, link (numbers), start_ps, end_ps (picoseconds), reduce, relayed (a link or
        -1), kept, size_bytes.
        Raises ValueError if there is no schedule.
        """
        return transfer_table(self.network, self.demand, self._require_schedule())

    def to_frame(self, library: Literal["pandas", "polars"] | None = None, *, names: bool = False) -> Any:  # noqa: ANN401
        """The same table as a data frame of pandas, or of polars if pandas is not installed.

        library: "pandas" or "polars". names: with the names of chunks, devices and links in place of their numbers.
        Raises ImportError if the library is not installed, ValueError if there is no schedule.
        """
        return transfer_frame(self.network, self.demand, self._require_schedule(), library, names=names)

    def collective_time(self) -> int:
        """Picoseconds that the schedule takes. Raises ValueError if there is none."""
        return self._time

    @cached_property
    def _time(self) -> int:
        """Computed once: a search compares its best schedule with each other one."""
        return self._require_schedule().collective_time(self.network, self.demand)

    def _require_schedule(self) -> Schedule:
        """The schedule. Raises ValueError if there is none."""
        if self.schedule is None:
            raise ValueError(f"module {self.name} has no schedule")
        return self.schedule

    def __repr__(self) -> str:
        schedule = "no schedule" if self.schedule is None else f"{len(self.schedule)} transfers"
        by = f" by {self.algorithm}" if self.algorithm else ""
        return f"<Module {self.name}: {self.network!r}, {self.demand!r}, {schedule}{by}>"

    def _repr_html_(self) -> str:
        """A row for each part, for notebooks."""
        schedule = self.schedule
        rows = [
            ("network", repr(self.network)),
            ("demand", repr(self.demand)),
            ("schedule", "-" if schedule is None else f"{len(schedule)} transfers, link model {schedule.model.value}"),
            ("synthesizer", self.algorithm or "-"),
            ("lower bound", "-" if self.bound is None else f"{format_time(self.bound.time)} ({self.bound.name})"),
        ]
        return html_table(("module", self.name), rows)

    def with_schedule(self, schedule: Schedule, algorithm: str) -> Module:
        """The module with a schedule."""
        return replace(self, schedule=schedule, algorithm=algorithm)
