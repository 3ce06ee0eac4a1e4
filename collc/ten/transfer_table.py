"""The transfers of a schedule as a table: one row per transfer, for NumPy, pandas or polars."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal

import numpy as np

from collc.ten.arrays import Int32Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, Schedule

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
    found = next((name for name in wanted if find_spec(name) is not None), None)
    if found is None:
        missing = f"{library} is not" if library is not None else "neither is"
        raise ImportError(
            f"a data frame needs {' or '.join(wanted)}, and {missing} installed: "
            f"python -m pip install {wanted[0]} (transfers() gives a NumPy record array without them)"
        )
    table = transfer_table(network, demand, schedule)
    columns: dict[str, Any] = {name: table[name] for name in COLUMNS.names or ()}
    if names:
        columns |= _names(network, demand, table)
    frames: Any = import_module(found)
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
