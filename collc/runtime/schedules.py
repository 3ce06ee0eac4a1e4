"""A folder of run files: which one serves a call of a group of processes."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collc.runtime.placement import Names, Placement
from collc.runtime.rounds import RankRounds, rounds_of
from collc.runtime.run_program import HEAD_BYTES, RunProgram

LOG = logging.getLogger("collc")


_HINT = "start the ranks in the order of the file, write it for theirs, or name the NPU of each rank in COLLC_NPU"


class ScheduleError(RuntimeError):
    """A call that failed: a rank that is gone, or whose message did not come in time."""


def files_in(folder: Path) -> list[Path]:
    """The run files of a folder and of the folders in it, in order of their names."""
    return sorted(folder.rglob("*.run"))


def program_in(data: bytes, path: Path) -> RunProgram:
    """The program of a run file. Raises ValueError, with its name, for a damaged one."""
    try:
        return RunProgram.from_bytes(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


@dataclass(frozen=True, eq=False)
class Schedules:
    """The run files of a folder, for one group. rank, ranks: of this process, and how many there are. placement: of the
    group, as far as it is known.

    counts: calls by collective, and by the file that served them or the reason why none did.
    """

    files: tuple[tuple[str, RunProgram], ...]
    digest: str
    rank: int
    ranks: int
    placement: Placement = field(default_factory=lambda: Placement(()))
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _rounds: dict[tuple[str, bool, bool], RankRounds] = field(default_factory=dict[tuple[str, bool, bool], RankRounds])
    _chosen: dict[tuple[str, int, int, str], tuple[str, RunProgram] | str] = field(
        default_factory=dict[tuple[str, int, int, str], "tuple[str, RunProgram] | str"]
    )

    @staticmethod
    def read(folder: Path | None, rank: int, ranks: int, names: Sequence[Names] = ()) -> Schedules:
        """Read all run files of a folder and the folders in it; None: there are none. names: of the NPUs, by rank.

        Raises ValueError for a damaged file, if only some ranks name their NPUs, and if a file is for nearly these
        NPUs; OSError for a file that cannot be read.
        """
        placement = Placement(names)
        files: list[tuple[str, RunProgram]] = []
        digest = hashlib.sha256()
        if folder is not None and not folder.is_dir():
            raise FileNotFoundError(f"no folder of schedules: {folder}")
        for path in files_in(folder) if folder is not None else ():
            data, name = path.read_bytes(), path.relative_to(folder or path).as_posix()
            files.append((name, program_in(data, path)))
            digest.update(name.encode() + data[:HEAD_BYTES])
        served = {program.coll for _, program in files if program.ranks == ranks and placement.serves(program)}
        for name, program in files:
            if program.coll not in served and (difference := placement.difference(program)):
                raise ValueError(f"{name} is for other NPUs than this group: {difference}; {_HINT}")
        return Schedules(tuple(files), digest.hexdigest(), rank, ranks, placement)

    def choose(self, coll: str, size: int, root: int = -1, dtype: str = "") -> tuple[str, RunProgram] | str:
        """The file for a call, with its name; or the reason why there is none.

        size: bytes of the input of this rank. Files count those of all ranks together for All-Gather, Reduce-Scatter
        and All-to-All. dtype: of the elements. Of several files that fit, one for this type alone; of several of these,
        the one whose smallest size is the largest.
        """
        call = coll, size, root, dtype
        if call not in self._chosen:
            self._chosen[call] = self._choose(*call)
        return self._chosen[call]

    def _choose(self, coll: str, size: int, root: int, dtype: str) -> tuple[str, RunProgram] | str:
        size *= self.ranks if coll == "allgather" else 1
        reason = "no file of the collective"
        fitting: list[tuple[str, RunProgram]] = []
        for name, program in self.files:
            if program.coll != coll:
                continue
            if program.ranks != self.ranks:
                reason = f"no file for {self.ranks} ranks"
            elif not self.placement.serves(program):
                reason = "no file for the NPUs of the group in their order"
            elif program.root not in (-1, root):
                reason = f"no file for root {root}"
            elif size < program.sizes[0] or 0 < program.sizes[1] < size:
                reason = f"no file for {size} bytes"
            elif program.dtype not in ("", dtype):
                reason = f"no file for elements of {dtype}"
            else:
                fitting.append((name, program))
        return max(fitting, key=lambda pair: (pair[1].dtype, pair[1].sizes[0])) if fitting else reason

    @property
    def peers(self) -> set[int]:
        """The ranks with which this one exchanges messages by some file."""
        fits = self.placement.serves
        tables = [program.blocks for _, program in self.files if program.ranks == self.ranks and fits(program)]
        return {peer for own in tables for peer in own[own[:, 0] == self.rank, 1:3].ravel().tolist() if peer >= 0}

    def count(self, coll: str, by: str) -> None:
        """Count a call, and log the first one of its kind."""
        self.counts[coll, by] += 1
        if self.counts[coll, by] == 1 and not self.rank:
            LOG.info("%s: %s", coll, by)

    def rounds(self, name: str, program: RunProgram, *, inplace: bool, joined: bool = False) -> RankRounds:
        """The rounds of this rank. joined: as for `rounds_of`."""
        key = name, inplace, joined
        if key not in self._rounds:
            self._rounds[key] = rounds_of(program, inplace=inplace, joined=joined)[self.rank]
        return self._rounds[key]
