"""Which NPU of a program a process is: given, or found by its host and its GPU; and whether a file is for a group."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from collc.runtime.run_program import RunProgram

_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""The variables in which torchrun, Open MPI, MPICH and Slurm say which process of its host this one is."""


class Names(NamedTuple):
    """The names of a process's NPU. given: of the user, or "". found: those that `collc import` may have as labels."""

    given: str
    found: tuple[str, ...]


def names_of_process(given: str, driver: Path = Path("/proc/driver/nvidia/gpus")) -> Names:
    """The names of this process's NPU. driver: the folder with a folder for each GPU of the host, by PCI address."""
    addresses = sorted(path.name for path in driver.iterdir()) if driver.is_dir() else []
    visible = [text.strip() for text in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if text.strip()]
    visible = visible or [str(number) for number in range(len(addresses))]
    number = next((int(text) for name in _LOCAL_RANKS if (text := os.environ.get(name, "")).isdecimal()), None)
    if len(visible) == 1:
        number = 0
    if number is None or number >= len(visible):
        return Names(given, ())
    of_uuid = {_uuid(driver / address): str(place) for place, address in enumerate(addresses)}
    place = of_uuid.get(visible[number], visible[number])
    if not place.isdecimal():
        return Names(given, ())
    gpus = [f"GPU{place}", f"gpu[{place}]", *addresses[int(place) : int(place) + 1]]
    host = socket.gethostname()
    hosts = dict.fromkeys((f"{host}/", f"{host.partition('.')[0]}/", ""))
    return Names(given, tuple(f"{prefix}{gpu}" for prefix in hosts for gpu in gpus))


def _uuid(gpu: Path) -> str:
    """The UUID of a GPU, as the driver says it."""
    line = re.search(r"GPU UUID:\s*(\S+)", (gpu / "information").read_text())
    return line[1] if line else ""


class Placement:
    """The NPUs of a group by rank, as far as they are known."""

    def __init__(self, names: Sequence[Names]) -> None:
        """names: by rank. Raises ValueError if only some ranks name their NPUs."""
        nameless = [rank for rank, name in enumerate(names) if not name.given]
        if 0 < len(nameless) < len(names):
            text = "set COLLC_NPU, or npu of the communicator, on all ranks or on none"
            raise ValueError(f"ranks {nameless} do not name their NPU, and others do: {text}")
        self._found: bool = bool(nameless)
        known = not nameless or all(name.found for name in names)
        self._names: list[tuple[str, ...]] = [name.found if nameless else (name.given,) for name in names] * known
        if self._found and len({labels[0].partition("/")[0] for labels in self._names}) > 1:
            # of several hosts only labels that name theirs: all hosts have a GPU0
            self._names = [tuple(label for label in labels if "/" in label) for labels in self._names]

    def serves(self, program: RunProgram) -> bool:
        """Whether the NPUs of a program are those of the group, in its order, as far as both are known."""
        return not self._knows(program) or self._ranks_of(program) == list(range(program.ranks))

    def difference(self, program: RunProgram) -> str:
        """What differs if a program is for nearly this group: other NPUs at less than half of the ranks, or in another
        order; else "".
        """
        ranks = self._ranks_of(program) if self._knows(program) else []
        wrong = [rank for rank, of in enumerate(ranks) if rank != of]
        if not wrong or (2 * len(wrong) >= len(ranks) and sorted(ranks) != list(range(len(ranks)))):
            return ""
        rank, *others = wrong
        more = f", and ranks {others} differ too" if others else ""
        there = program.labels[rank] if self._found else program.npus[rank]
        return f"rank {rank} of the group is {self._names[rank][0]}, and rank {rank} of the file is {there}{more}"

    def _knows(self, program: RunProgram) -> bool:
        return len(self._names) == program.ranks and (any(program.labels) or not self._found)

    def _ranks_of(self, program: RunProgram) -> list[int]:
        """For each rank of the group its rank in a program, which is the same one if it can be; -1 if it has none."""
        labels = program.labels or ("",) * program.ranks
        known = [
            {label.lower()} if self._found else {label.lower(), npu.lower()}
            for label, npu in zip(labels, program.npus, strict=True)
        ]
        rank_of = {name: rank for rank, names in enumerate(known) for name in names}
        ranks: list[int] = []
        for rank, names in enumerate([name.lower() for name in names] for names in self._names):
            others = (rank_of[name] for name in names if name in rank_of)
            ranks.append(rank if known[rank].intersection(names) else next(others, -1))
        return ranks
