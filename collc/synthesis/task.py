"""The input of every synthesizer: what to plan, and how hard to try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.kernels.compiled import LOAD_TIME
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Transfers


@dataclass(frozen=True, eq=False)
class Task:
    """Chunks to copy from the devices of their preconditions to those of their postconditions.

    Chunks are copied, whatever their operation: reductions are the inverse problem
    (collc/synthesis/reductions/compose.py).

    chunks: int32, the chunks of the demand to plan. release: int64[chunks of the demand], picoseconds before which the
    holders do not have a chunk yet; None for 0. reserved: transfers that are planned already and occupy their links.
    inverted: the schedule will be inverted to a reduction, so that a switch must not pass one arrival on more than
    once, unless it has multicast (that is, unless it reduces).
    relays: no switch may pass one arrival on more than once.
    """

    network: Network
    demand: Demand
    model: LinkModel
    chunks: Int32Array
    release: Int64Array | None = None
    reserved: Transfers | None = None
    inverted: bool = False
    relays: bool = False


MAX_TRANSFERS: Final = 5_000_000_000
"""Transfers that a schedule may have if they are listed."""


def check_transfer_count(least: int, most: int = MAX_TRANSFERS) -> None:
    """Raise SourceError S0203 if schedules have more than `most` transfers. least: how many each has at least."""
    if least > most:
        message = f"a schedule needs at least {least:,} transfers, more than the limit of {most:,}"
        hint = (
            "use fewer NPUs or chunks, or with 'auto' a longer 'time_limit'; on clusters, rings, tori and hypercubes "
            "whose NPUs are all alike, 'synthesize symmetric()' lists the transfers of one NPU only"
        )
        raise SourceError(Diagnostic("S0203", message, hint=hint))


COMPILED_TIMES: Final = 6
"""How many times less work compiled code takes than plain Python; fitted to tacos, pccl, swarm and overlapped."""

TRIAL_WORK: Final = 2_000_000
"""Work for each trial after which swarm, forest and exchange begin no further attempt."""

RANDOM_TRIALS: Final = 16
"""Attempts that break ties at random, on small problems, at least. Fitted on an All-Gather of DGX-1 with 6 chunks by
tacos: 16 attempts find its optimum with 12 of 12 seeds, 8 with 10 of them.
"""


@dataclass(slots=True)
class WorkMeter:
    """Counts the work of a search as it goes, so that it ends at the same place on all machines.

    Work is counted in operations of about a microsecond of plain Python (of compiled code: what takes as long).
    limit: work after which no further attempt begins; None: each synthesizer has its own limit. An attempt that runs
    is completed, so `spent` may exceed the limit. most: work at which an attempt that runs is given up too
    (`Effort.with_work`); None: never. setup: the part of `spent` that came before a search. compiles: whether the
    work of loading the compiler is counted already.
    """

    limit: int | None = None
    spent: int = 0
    setup: int = 0
    most: int | None = None
    compiles: bool = False

    def add(self, work: int) -> None:
        """Counts some work."""
        self.spent += work

    def add_setup(self, work: int) -> None:
        """Counts work that comes before a search; as much is left for the search as before.

        If it would exceed the most work, nothing counts, and no more work is left: the work must then not be done.
        """
        if self.remainder is not None and work >= self.remainder:
            self.most = self.spent
            return
        self.spent += work
        self.setup += work
        if self.limit is not None:
            self.limit += work

    def add_compiler(self) -> None:
        """Counts the work of loading the compiler, once, before anything compiled runs."""
        if not self.compiles:
            self.add_setup(LOAD_TIME)
            self.compiles = True

    def finish(self) -> None:
        """Notes that a search came to its own end, so that more work would find the same."""
        self.limit = None

    @property
    def remainder(self) -> int | None:
        """Work until `most`; None: any amount."""
        return None if self.most is None else max(0, self.most - self.spent)

    @property
    def is_exceeded(self) -> bool:
        """Whether the most work is done, so that what runs is given up."""
        return self.remainder == 0

    @property
    def is_used_up(self) -> bool:
        """Whether no further attempt may begin."""
        return self.limit is not None and self.spent >= self.limit


@dataclass(slots=True)
class Experience:
    """What a search of `auto` has shown of its candidates, for another one of the same program, with other chunks or
    after a failure.

    chunks: of the demand. time: by name of a candidate, picoseconds of its schedule. in_vain: the most work in which a
    candidate was given up without one.
    """

    chunks: int = 0
    time: dict[str, int] = field(default_factory=dict[str, int])
    in_vain: dict[str, int] = field(default_factory=dict[str, int])

    def note(self, demand: Demand, time: dict[str, int], in_vain: dict[str, int]) -> None:
        """Notes the times of a search, and what it gave up."""
        self.in_vain = {name: self.least_work(name, demand) for name in self.in_vain} | in_vain
        self.chunks = demand.chunk_count
        self.time |= time

    def least_work(self, name: str, demand: Demand) -> int:
        """Work in which a candidate finds nothing: n times as much for n times as many chunks."""
        return self.in_vain.get(name, 0) * demand.chunk_count // max(1, self.chunks)

    def behind(self, demand: Demand) -> set[str]:
        """Those that were not the best with as many chunks or more, so that no more work than usual is for them."""
        return {*self.time} - {min(self.time, key=self.time.__getitem__)} if self._has_seen(demand) else set()

    def left_out(self, demand: Demand) -> set[str]:
        """Those that cannot be the best with n times as many chunks, as a schedule is n times shorter then at most; and
        those that never had a schedule, and took too much work with as many chunks or more.
        """
        if not self.time:
            return set()
        most = max(2, Fraction(demand.chunk_count, self.chunks)) * min(self.time.values())
        slow = {name for name, time in self.time.items() if time > most}
        return slow | ({*self.in_vain} - {*self.time} if self._has_seen(demand) else set())

    def _has_seen(self, demand: Demand) -> bool:
        return bool(self.time) and demand.chunk_count <= self.chunks


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to try.

    seed: of all random choices. trials: attempts, of which the best is kept. threads: the most to use; the result does
    not depend on it. stop: called now and then; if it returns True, a synthesizer returns the best schedule so far,
    or raises NoSchedule. progress: called with a fraction from 0 to 1 and a few words for users. time_limit: seconds
    after which `stop` will return True; None if it will not for lack of time. work: what has been spent, and how
    much may be. work_part: of the work that `auto` takes by itself. bound: gives the picoseconds at which a search
    ends; None: the lower bound, which the synthesizer computes. experience: of searches with other numbers of chunks
    or before a failure, which `auto` adds to.
    """

    seed: int = 0
    trials: int = 1
    threads: int = 1
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[float, str], None] = lambda _share, _words: None
    time_limit: float | None = None
    work: WorkMeter = field(default_factory=WorkMeter)
    work_part: Fraction = Fraction(1)
    bound: Callable[[], int] | None = None
    experience: Experience | None = None

    def spend(self, work: int, stopped: Diagnostic) -> None:
        """Counts some work. Raises NoSchedule `stopped` if the search has to end."""
        self.work.add(work)
        if self.stop():
            raise NoSchedule(stopped)

    def with_work(self, work: WorkMeter) -> Effort:
        """The effort with another meter; `stop` also returns True if the most work on it is done."""
        return replace(self, work=work, stop=lambda: work.is_exceeded or self.stop())
