"""`python -m benchmarks auto`: the synthesizer `auto` against every other synthesizer and textbook algorithm.

On 300 random programs (random_programs.py) and on LIMITED_PROGRAMS whose NPUs have limits, each synthesizer alone
within a limit of CPU time; with --large, on the networks of clusters with 64 to 256 NPUs (large_programs.py). There
the others are not measured if `auto` is within 3 % of the lower bound and took at most a second, so that nothing can
show a fault. Reported are the programs on which the schedule of `auto` takes more than 3 % longer than
the best of the others, or on which it used more than twice the CPU time that this best one took plus one second; then
a summary by kind of network. All take half an hour; with --json FILE a command that was stopped can go on.

CPU times are those of a process that has loaded the compiled kernels.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks.large_programs import LARGE, large_programs
from benchmarks.random_programs import IMPORTS, LIMITED, RandomProgram, random_program
from collc.base.diagnostics import CollcError, SourceFile
from collc.kernels.compiled import compile_kernel
from collc.kernels.pccl_times import plan_by_times
from collc.kernels.task_events import run_tasks
from collc.kernels.tree_rerouting import reroute
from collc.passes.registry import Fixed, HandwrittenRun, Invert, PassContext, Synthesize
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source.elaboration.elaborate import load_program
from collc.source.program import ScheduleRequest
from collc.source.standard_algorithms import StandardAlgorithms
from collc.synthesis.bounds import lower_bound
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule

PROGRAMS = 300
LIMITED_PROGRAMS = 50
LIMIT, LIMIT_LARGE, LARGE_NPUS = 10.0, 60.0, 64
"""Seconds of CPU time of one synthesizer, as `auto` keeps to by itself, up to LARGE_NPUS and above."""

SLOWER, CPU_FACTOR, CPU_MORE = 1.03, 2.0, 1.0
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
    def ratio(self) -> float:
        """The time of auto by that of the best other one."""
        if self.best is None:
            return 1.0
        return float("inf") if self.auto is None else self.auto.time / max(1, self.best[1].time)

    @property
    def cpu_ratio(self) -> float:
        """The CPU time of auto by what it may use."""
        if self.best is None or self.auto is None:
            return 0.0
        return self.auto.cpu / (CPU_FACTOR * self.best[1].cpu + CPU_MORE)

    @property
    def category(self) -> str:
        """The kind of network, for the summary."""
        return program_of(self.number).category

    @property
    def faults(self) -> list[str]:
        """What is wrong with the answer of auto; empty where nothing is."""
        found: list[str] = ["limit"] if self.auto is not None and self.auto.cpu > limit_for(self.npus) else []
        if self.auto is not None and not self.auto.right:
            found.append("wrong")
        if self.ratio > SLOWER:
            found.append("longer")
        if self.cpu_ratio > 1:
            found.append("cpu")
        return found


def program_of(number: int) -> RandomProgram:
    """The program of a number: a random one, or one on a large network."""
    return random_program(number) if number < LARGE else large_programs()[number]


def limit_for(npus: int) -> float:
    """Seconds of CPU time of each synthesizer on `npus` NPUs."""
    return LIMIT if npus <= LARGE_NPUS else LIMIT_LARGE


def compare(number: int, others: dict[str, Measured] | None = None) -> Comparison | None:
    """The comparison of a program; None if the program has no schedule. others: measured before."""
    program = program_of(number)
    try:
        request = _request(program.text())
    except CollcError:
        return None
    module = Module("s", request.network, request.demand, LinkModel(program.link_model))
    own = _measured(partial(_synthesized, "auto", module, None))
    if others is None:
        faultless = number >= LARGE and own is not None and _nothing_is_better(*own)
        others = {} if faultless else _all_others(module, program.text)
    collectives = "+".join(run.collective for run in program.runs)
    shape = number, program.kind, len(module.network.npus), collectives
    if own is None:
        return Comparison(*shape, None, others)
    return Comparison(*shape, own[0], others, own[1].algorithm, own[1].notes)


def _nothing_is_better(own: Measured, built: Module) -> bool:
    """Whether no other schedule can show a fault of auto: it is within 3 % of the bound, and took at most a second."""
    bound = lower_bound(built.network, built.demand, built.model).time
    return own.right and own.cpu <= CPU_MORE and not built.network.unwound and own.time <= SLOWER * bound


def _request(text: str) -> ScheduleRequest:
    return load_program(SourceFile("<random>", text)).schedules[0]


def _all_others(module: Module, text: Callable[[str], str]) -> dict[str, Measured]:
    """The schedules of all others that find a right one."""
    measured = ((name, _measured(build)) for name, build in _others(module, text))
    return {name: found[0] for name, found in measured if found is not None and found[0].right}


def _others(module: Module, text: Callable[[str], str]) -> Iterator[tuple[str, Callable[[], Module]]]:
    """The name of each other synthesizer and algorithm, and what builds its schedule."""
    for name in SYNTHESIZERS:
        if name not in LEFT_OUT:
            yield name, partial(_synthesized, name, module, limit_for(len(module.network.npus)))
    for name in ALGORITHMS:
        try:
            request = _request(text(name))
        except CollcError:
            continue
        yield f"using {name}", partial(_laid_out, module, request)


def _synthesized(name: str, module: Module, limit: float | None) -> Module:
    effort = Effort(library=StandardAlgorithms())
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


def _measured(build: Callable[[], Module]) -> tuple[Measured, Module] | None:
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
    return Measured(module.schedule.collective_time(module.network, module.demand), cpu, right), module


def table_row(found: Comparison) -> str:
    """One line for a comparison."""
    name, best = found.best or ("-", Measured(0, 0.0, True))
    own = found.auto or Measured(0, 0.0, False)
    return (
        f"{found.number:4} {found.kind[:22]:22} {found.npus:4} {found.collectives[:28]:28} {found.chosen[:26]:26} "
        f"{own.time / 1e6:11.2f} {own.cpu:7.2f}  {name[:28]:28} {best.time / 1e6:11.2f} {best.cpu:7.2f} "
        f"{found.ratio:7.3f}  {' '.join(found.faults)}"
    )


HEAD = (
    f"{'nr':>4} {'network':22} {'NPUs':>4} {'collectives':28} {'auto chose':26} {'us':>11} {'cpu':>7}  "
    f"{'best other':28} {'us':>11} {'cpu':>7} {'ratio':>7}  faults"
)


def main(arguments: list[str]) -> int:
    """Print all comparisons with a fault, and the totals; 1 if there are any faults."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks auto", description=__doc__)
    parser.add_argument("--first", type=int, metavar="N", help="only some programs: the number of the first one")
    parser.add_argument("--programs", type=int, default=PROGRAMS, metavar="N", help="how many, from the first one on")
    parser.add_argument("--large", action="store_true", help="the programs on large networks in place of random ones")
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
    if options.first is not None:
        numbers = list(range(options.first, options.first + options.programs))
    known = _read_others(options.others) if options.others else {}
    done = {found.number: found for found in read(options.json)} if options.json else {}
    _load_kernels()
    print(HEAD)
    results: list[Comparison] = []
    for number in numbers:
        found = done.get(number) or compare(number, known.get(number))
        if found is None:
            continue
        results.append(found)
        if options.json and number not in done:
            with Path(options.json).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        if options.all or found.faults:
            print(table_row(found), flush=True)
        if options.show:
            print(program_of(number).text(), *found.notes, sep="\n")
            print(
                *(f"  {name}: {one.time / 1e6:.2f} us, {one.cpu:.2f} s" for name, one in found.others.items()), sep="\n"
            )
    print(summary(results))
    return int(any(found.faults for found in results))


def _load_kernels() -> None:
    """Loads the kernels that run plain until something large needs them, by small problems."""
    for kernel in (plan_by_times, reroute, run_tasks):
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
            f"{'3 % shorter':>11} {'CPU of auto':>11} {'of the best':>11}"]  # fmt: skip
    for category in (*categories, "all"):
        some = [found for found in results if category in ("all", found.category)]
        count = {fault: sum(fault in found.faults for found in some) for fault in ("longer", "cpu", "wrong")}
        shorter = sum(found.ratio < 1 / SLOWER for found in some)
        own = sum(found.auto.cpu for found in some if found.auto)
        best = sum(found.best[1].cpu for found in some if found.best)
        rows.append(
            f"{category:16} {len(some):8} {count['longer']:6} {count['cpu']:4} {count['wrong']:5} "
            f"{max((found.ratio for found in some), default=0):6.3f} "
            f"{max((found.cpu_ratio for found in some), default=0):9.2f} {shorter:11} {own:9.1f} s {best:9.1f} s"
        )
    return "\n".join(rows)
