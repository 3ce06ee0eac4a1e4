"""`python -m benchmarks auto`: the synthesizer `auto` against every other synthesizer and textbook algorithm.

On 300 random programs (random_programs.py) and on LIMITED_PROGRAMS whose NPUs have limits; with --large, on the
networks of clusters with 64 to 256 NPUs (large_programs.py); with --paper, --clusters, --groups, --failures, --small on
the programs of a set (named_programs.py). Each synthesizer alone has LIMIT seconds of CPU time, in a process of its own
with at most MEMORY bytes more. On large networks (--large, sets, and random programs from WIDE on) the others are not
measured if `auto` is within 3 % of the lower bound and took at most CPU_MORE seconds, so that nothing can show a fault;
--full measures them.

The rule: the schedule of `auto` takes at most 3 % longer than the best of the others, and its search at most CPU_FACTOR
times the CPU time of the fastest search for a schedule within 3 % of that best one, and CPU_MORE seconds. Reported are
the programs on which it is broken (named sets: all), then a summary by kind of network, and for each of the others, and
of the candidates that auto tried, on how many programs it is needed: the best without it is more than 3 % longer (with
`--singles none`, of what auto tried alone). All random programs take half an hour; with --json FILE a command that was
stopped can go on.

CPU times are those of a process that has loaded the compiled kernels.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.large_programs import LARGE, large_programs
from benchmarks.named_programs import NAMED, SET, SETS, named_programs
from benchmarks.random_programs import IMPORTS, LIMITED, WIDE, Program, random_program
from collc.base.diagnostics import CollcError, SourceFile
from collc.base.units import Dimension, quantity_in
from collc.kernels.compiled import compile_kernel
from collc.kernels.max_flow import first_unfed
from collc.kernels.overlapped_lists import list_schedule
from collc.kernels.pccl_times import plan_by_times
from collc.kernels.task_events import run_tasks
from collc.kernels.tree_rerouting import reroute
from collc.passes.registry import Fixed, HandwrittenRun, Invert, PassContext, Synthesize
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source.elaboration.elaborate import load_program
from collc.source.program import ScheduleRequest
from collc.synthesis.bounds import lower_bound
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule

PROGRAMS = 300
LIMITED_PROGRAMS = 50
LIMIT = 60.0
"""Seconds of CPU time after which a synthesizer alone is asked to stop; it is ended after twice as many."""

MEMORY = 8 << 30
"""Bytes that it may take."""

SLOWER, CPU_FACTOR, CPU_MORE = 1.03, 4.0, 2.0
ALGORITHMS = ("ring", "bidirectional_ring", "direct", "pairwise", "recursive_halving_doubling", "binomial_tree",
              "double_binary_tree", "hierarchical")  # fmt: skip
"""The textbook algorithms of the standard library."""

LEFT_OUT = frozenset({"auto", "fixed", "exact"})
"""Synthesizers that are not compared: `exact` is asked by auto itself, within fixed work."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One schedule: picoseconds that it takes, CPU seconds of its search, whether it is right."""

    time: int
    cpu: float
    right: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """The schedules of one program by name; `auto` with its notes, or why it failed."""

    number: int
    kind: str
    npus: int
    collectives: str
    auto: Measured | None = None
    others: dict[str, Measured] = field(default_factory=dict[str, Measured])
    chosen: str = ""
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> tuple[str, Measured] | None:
        """The shortest of the others; among equals the one that took the least CPU time."""
        name = min(self.others, key=lambda one: (self.others[one].time, self.others[one].cpu), default=None)
        return None if name is None else (name, self.others[name])

    @property
    def fastest(self) -> float:
        """CPU seconds of the fastest search of the others whose schedule is within 3 % of the best."""
        return min(one.cpu for one in self.others.values() if self.best and one.time <= SLOWER * self.best[1].time)

    @property
    def ratio(self) -> float:
        """The time of auto by that of the best other one."""
        if self.best is None:
            return 1.0
        return float("inf") if self.auto is None else self.auto.time / max(1, self.best[1].time)

    @property
    def cpu_ratio(self) -> float:
        """The CPU time of auto without CPU_MORE seconds by that of the fastest other one that is near the best."""
        if self.best is None or self.auto is None:
            return 0.0
        return max(0.0, self.auto.cpu - CPU_MORE) / max(0.001, self.fastest)

    @property
    def times(self) -> dict[str, int]:
        """Picoseconds by name: the shortest schedule of each of the others, by itself or as a candidate of auto."""
        shown = next((note for note in self.notes if note.startswith("auto: ") and " takes " in note), "")
        pairs = (candidate.rpartition(" takes ") for candidate in shown.removeprefix("auto: ").split(", "))
        times = {name: int(quantity_in(text, Dimension.TIME) or 0) for name, takes, text in pairs if takes}
        for name, measured in self.others.items():
            own = name.removeprefix("using ")
            times[own] = min(measured.time, times.get(own, measured.time))
        return times

    @property
    def category(self) -> str:
        """The kind of network, for the summary."""
        return program_of(self.number).category

    @property
    def faults(self) -> list[str]:
        """What is wrong with the answer of auto; empty if nothing is."""
        found: list[str] = []
        if self.auto is not None and not self.auto.right:
            found.append("wrong")
        if self.ratio > SLOWER:
            found.append("longer")
        if self.cpu_ratio > CPU_FACTOR:
            found.append("cpu")
        return found


def program_of(number: int) -> Program:
    """The program of a number: a random one, one on a large network, or one of a set."""
    if number >= NAMED:
        return named_programs([*SETS][(number - NAMED) // SET])[number]
    return random_program(number) if number < LARGE else large_programs()[number]


def compare(
    number: int, others: dict[str, Measured] | None = None, singles: str = "", limit: float = LIMIT, full: bool = True
) -> Comparison | None:
    """The comparison of a program; None if the program has no schedule.

    others: measured before. singles: only others with this in their names. limit: seconds for each. full: whether they
    are measured too if nothing can show a fault.
    """
    program = program_of(number)
    try:
        request = _request(program.text())
    except CollcError:
        return None
    module = Module("s", request.network, request.demand, LinkModel(program.link_model))
    own = _measured(partial(_synthesized, "auto", module, None))
    if others is None:
        faultless = own is not None and own.is_near_bound and own.measured.cpu <= CPU_MORE
        others = {} if faultless and not full else _all_others(module, program.text, singles, limit)
    collectives = "+".join(dict.fromkeys(run.collective for run in program.runs))
    shape = number, program.kind, len(module.network.npus), collectives
    if own is None:
        return Comparison(*shape, None, others)
    return Comparison(*shape, own.measured, others, own.algorithm, own.notes)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a search found. is_near_bound: whether it is right, and nothing on the declared network is 3 % shorter."""

    measured: Measured
    algorithm: str
    notes: tuple[str, ...]
    is_near_bound: bool


def _request(text: str) -> ScheduleRequest:
    return load_program(SourceFile("<random>", text)).schedules[0]


def _all_others(module: Module, text: Callable[[str], str], singles: str, limit: float) -> dict[str, Measured]:
    """The schedules of all others that find a right one."""
    prepared = ((name, prepare) for name, prepare in _others(module, text, limit) if singles in name)
    measured = ((name, _measured_alone(prepare, limit)) for name, prepare in prepared)
    return {name: found.measured for name, found in measured if found is not None and found.measured.right}


Build = Callable[[], Module]


def _others(module: Module, text: Callable[[str], str], limit: float) -> Iterator[tuple[str, Callable[[], Build]]]:
    """The name of each other synthesizer and algorithm, and what gives a function that builds its schedule."""
    for name in SYNTHESIZERS:
        if name not in LEFT_OUT:
            yield name, lambda name=name: partial(_synthesized, name, module, limit)
    for name in ALGORITHMS:
        yield f"using {name}", lambda name=name: partial(_laid_out, module, _request(text(name)))


def _synthesized(name: str, module: Module, limit: float | None) -> Module:
    effort = Effort()
    if limit is not None:
        effort = replace(effort, stop=_CpuLimit(limit).reached)
    context = PassContext(effort=effort)
    return Invert().run(Synthesize(name).run(module, context), context)


class _CpuLimit:
    """A limit of CPU time from its creation on. The clock is read seldom, since that can take milliseconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds
        self._next = time.monotonic()

    def reached(self) -> bool:
        """Whether the time is over."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + 0.1
        return time.process_time() > self._end


def _laid_out(module: Module, request: ScheduleRequest) -> Module:
    runs = {
        number: HandwrittenRun(run.algorithm or "", run.moves, run.span)
        for number, run in enumerate(request.runs)
        if run.moves is not None
    }
    return Fixed().run(replace(module, demand=request.demand), PassContext(handwritten=runs))


def _measured(build: Build) -> _Outcome | None:
    """What a search finds; None if it finds nothing."""
    began = time.process_time()
    try:
        module = build()
    except CollcError:
        return None
    cpu = time.process_time() - began
    if module.schedule is None:
        return None
    right = "failed" not in verify_schedule(module).checks.values()
    measured = Measured(module.schedule.collective_time(module.network, module.demand), cpu, right)
    bound = lower_bound(module.network, module.demand, module.model).time
    near = right and measured.time <= SLOWER * bound
    return _Outcome(measured, module.algorithm, module.notes, near)


def _measured_alone(prepare: Callable[[], Build], limit: float) -> _Outcome | None:
    """As `_measured`, in a process of its own; None too if it exceeds a limit."""
    forking = multiprocessing.get_context("fork")
    receiver, sender = forking.Pipe(duplex=False)
    process = forking.Process(target=_send_measured, args=(prepare, limit, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return None
    finally:
        process.join()


def _send_measured(prepare: Callable[[], Build], limit: float, sender: Connection) -> None:
    used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(2 * limit), int(2 * limit)))
    try:
        sender.send(_measured(prepare()))
    except (CollcError, MemoryError):
        sender.send(None)


def table_row(found: Comparison) -> str:
    """One line for a comparison."""
    name, best = found.best or ("-", Measured(0, 0.0, True))
    own = found.auto or Measured(0, 0.0, False)
    return (
        f"{found.number:6} {found.kind[:30]:30} {found.npus:4} {found.collectives[:25]:25} "
        f"{name[:25]:25} {best.time / 1e6:11.2f} {found.chosen[:25]:25} {own.time / 1e6:11.2f} {found.ratio:7.3f} "
        f"{found.fastest if found.best else 0.0:7.2f} {own.cpu:7.2f}  {' '.join(found.faults)}"
    )


HEAD = (
    f"{'nr':>6} {'program or network':30} {'NPUs':>4} {'collectives':25} {'best single':25} {'us':>11} "
    f"{'auto chose':25} {'us':>11} {'ratio':>7} {'CPU of':>7} {'CPU':>7}\n"
    f"{'':133} {'single':>18} {'of auto':>7}  faults"
)


def main(arguments: list[str]) -> int:
    """Print all comparisons with a fault, and the totals; 1 if there are any faults."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks auto", description=__doc__)
    parser.add_argument("--first", type=int, metavar="N", help="only some programs: the number of the first one")
    parser.add_argument("--programs", type=int, default=PROGRAMS, metavar="N", help="how many, from the first one on")
    parser.add_argument("--large", action="store_true", help="the programs on large networks in place of random ones")
    for name in SETS:
        parser.add_argument(f"--{name}", action="store_true", help=f"the set of programs '{name}' in place of them")
    parser.add_argument("--only", default="", metavar="WORD", help="only programs whose name or network has this in it")
    parser.add_argument("--singles", default="", metavar="WORD", help="compare with these synthesizers only")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="S", help="seconds for each of them")
    parser.add_argument("--full", action="store_true", help="measure them even if nothing can show a fault")
    parser.add_argument("--all", action="store_true", help="print all comparisons, not only those with a fault")
    parser.add_argument("--show", action="store_true", help="print the programs and the notes of auto too")
    parser.add_argument("--others", default="", metavar="FILE", help="of an earlier --json: do not measure them again")
    parser.add_argument(
        "--json", default="", metavar="FILE", help="write all numbers to a file, one program a line; keep those in it"
    )
    options = parser.parse_args(arguments)
    numbers = [*range(PROGRAMS), *range(LIMITED, LIMITED + LIMITED_PROGRAMS)]
    if options.large:
        numbers = [*large_programs()]
    if sets := [name for name in SETS if getattr(options, name)]:
        numbers = [number for name in sets for number in named_programs(name)]
    if options.first is not None:
        numbers = list(range(options.first, options.first + options.programs))
    numbers = [number for number in numbers if options.only in program_of(number).kind]
    known = _read_others(options.others) if options.others else {}
    done = {found.number: found for found in read(options.json)} if options.json else {}
    _load_kernels()
    print(HEAD)
    results: list[Comparison] = []
    for number in numbers:
        full = options.full or number < WIDE
        found = done.get(number) or compare(number, known.get(number), options.singles, options.limit, full)
        if found is None:
            continue
        results.append(found)
        if options.json and number not in done:
            with Path(options.json).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        if options.all or sets or found.faults:
            print(table_row(found), flush=True)
        if options.show:
            print(program_of(number).text(), *found.notes, sep="\n")
            print(
                *(f"  {name}: {one.time / 1e6:.2f} us, {one.cpu:.2f} s" for name, one in found.others.items()), sep="\n"
            )
    print(summary(results), needed(results), sep="\n")
    return int(any(found.faults for found in results))


def _load_kernels() -> None:
    """Loads the kernels that run plain until something large needs them, by small problems."""
    for kernel in (plan_by_times, reroute, run_tasks, list_schedule, first_unfed):
        compile_kernel(kernel)
    for network, run, model in WARMING:
        text = f"{IMPORTS}topology t = {network}\nschedule s on t {{ run {run} synthesize auto }}\n"
        request = _request(text)
        module = Module("s", request.network, request.demand, LinkModel(model))
        for name in ("pccl", "forest", "tacos", "symmetric", "swarm"):
            _measured(partial(_synthesized, name, module, LIMIT))


WARMING = (
    ("mesh2d(3, 3, bandwidth: 50GB/s, latency: 1us)", "all_reduce(t.npus, size: 72KiB)", "pipelined"),
    ("mesh2d(3, 3, bandwidth: 50GB/s, latency: 1us)", "all_to_all(t.npus, size: 72KiB)", "store"),
    ("dgx_h100(1)", "all_gather(t.npus, size: 64KiB)", "store"),
    ("torus2d(3, 3, bandwidth: 50GB/s, latency: 1us)", "all_reduce(t.npus, size: 72KiB)", "pipelined"),
    ("dgx_h100(2)", "broadcast(t.npus, size: 64MiB, chunks: 64)", "store"),
)
"""Networks, runs and link models that need these kernels."""


def read(path: str) -> list[Comparison]:
    """What an earlier run wrote to a file with --json; nothing if there is no file."""
    if not Path(path).exists():
        return []
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return [
        Comparison(
            **row
            | {
                "auto": Measured(**row["auto"]) if row["auto"] else None,
                "others": {name: Measured(**one) for name, one in row["others"].items()},
                "notes": tuple(row["notes"]),
            }
        )
        for row in rows
    ]


def _read_others(path: str) -> dict[int, dict[str, Measured]]:
    """By number of the program, what an earlier run measured."""
    return {found.number: found.others for found in read(path)}


def summary(results: list[Comparison]) -> str:
    """For each kind of network and for all: the programs, those with each fault, the worst ratios, CPU seconds."""
    categories = dict.fromkeys(found.category for found in results)
    rows = [f"{'':16} {'programs':>8} {'longer':>6} {'cpu':>4} {'wrong':>5} {'worst':>6} {'worst cpu':>9} "
            f"{'3 % shorter':>11} {'CPU of auto':>11} {'of singles':>11}"]  # fmt: skip
    for category in (*categories, "all"):
        some = [found for found in results if category in ("all", found.category)]
        count = {fault: sum(fault in found.faults for found in some) for fault in ("longer", "cpu", "wrong")}
        shorter = sum(found.ratio < 1 / SLOWER for found in some)
        own = sum(found.auto.cpu for found in some if found.auto)
        best = sum(found.fastest for found in some if found.best)
        rows.append(
            f"{category:16} {len(some):8} {count['longer']:6} {count['cpu']:4} {count['wrong']:5} "
            f"{max((found.ratio for found in some), default=0):6.3f} "
            f"{max((found.cpu_ratio for found in some), default=0):9.2f} {shorter:11} {own:9.1f} s {best:9.1f} s"
        )
    return "\n".join(rows)


def needed(results: list[Comparison]) -> str:
    """For each of the others: on how many programs the best without it is more than 3 % longer, and the worst one."""
    rows = [f"{'needed':28} {'programs':>8} {'worst':>7}"]
    for name in dict.fromkeys(name for found in results for name in found.times):
        longer: list[tuple[float, str]] = []
        for found in results:
            rest = [time for other, time in found.times.items() if other != name]
            if name in found.times and min(rest, default=0) > SLOWER * found.times[name]:
                longer.append((min(rest) / max(1, found.times[name]), f"{found.collectives}, {found.kind}"))
        worst, what = max(longer, default=(1.0, ""))
        rows.append(f"{name[:28]:28} {len(longer):8} {worst:7.2f}  {what}".rstrip())
    return "\n".join(rows)
