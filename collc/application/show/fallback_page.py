"""The section of a report about a set of fallbacks: classes of failures, their plans, and what failures cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from collc.application.fallbacks.fallback_index import JOIN, FallbackIndex, network_file, reading_index
from collc.application.fallbacks.long_run import (
    RESTART,
    Event,
    FailingParts,
    LongRun,
    Losses,
    RandomFailures,
    Recovery,
    State,
)
from collc.application.fallbacks.lost_bandwidth import lost_shares, ring_state, split_state
from collc.application.fallbacks.published_rates import LLAMA, RATES, Cause, FailureRates, start_times
from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_time
from collc.base.wording import plural
from collc.pictures.charts import Axis, Bars, Reference, Series, bar_chart, line_chart, number_label
from collc.pictures.network_picture import PartGroup, network_picture
from collc.pictures.page import Block, Facts, Figure, Panel, Remarks, Section
from collc.pictures.picture import Picture
from collc.ten.binary import read_module
from collc.ten.network import Network
from collc.ten.parts import Part

_COLORED: Final = (
    "Each class of failures of one part has a colour. Classes of several parts at once are in the table below."
)
_SLOWDOWNS: Final = (
    "The time of the plan of each class, relative to the schedule without failures (in the table: of undamaged). It "
    "can be below 1, since fewer GPUs exchange fewer bytes. The table also has it relative to the ideal of the damaged "
    "network, which no schedule can undercut, whatever its number of chunks."
)


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """The plan of a class for one schedule.

    failure: the first of its class. count: failures of the class. lost: NPUs that each of them takes away. time_ps:
    None without a plan, for a reason; undamaged_ps: without failures; ideal_ps: on the damaged network.
    """

    failure: str
    count: int
    lost: int
    name: str
    time_ps: int | None
    undamaged_ps: int
    ideal_ps: int | None
    reason: str

    @property
    def of_undamaged(self) -> float | None:
        """The time relative to the schedule without failures."""
        return None if self.time_ps is None else self.time_ps / self.undamaged_ps

    @property
    def of_ideal(self) -> float | None:
        """The time relative to the ideal of the damaged network."""
        return None if self.time_ps is None or not self.ideal_ps else self.time_ps / self.ideal_ps


@dataclass(frozen=True, slots=True)
class CostRow:
    """What failures at some rates cost, with one recovery from them."""

    rates: FailureRates
    recovery: str
    losses: Losses


@dataclass(frozen=True, eq=False)
class FallbackSubject:
    """A set of failures, its network, and the schedules that have plans for them."""

    network: Network
    data: Mapping[str, Any]
    schedules: Sequence[Mapping[str, Any]]

    def read(self) -> None:
        """Read what is shown of the index. Raises errors of Python if a value in it is missing or wrong."""
        for schedule in self.schedules:
            self.recoveries(schedule)
            records_of(PLAN_COLUMNS, self.plans(schedule))
        classes_picture(self)

    @property
    def copies(self) -> int:
        """How many networks like this one a run like that of Llama 3 has."""
        return max(1, round(LLAMA.gpus / len(self.network.npus)))

    @property
    def gpus(self) -> int:
        """The GPUs of such a run."""
        return self.copies * len(self.network.npus)

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parts that may fail, by name."""
        return {
            name: Part(name, tuple(devices), tuple((a, b) for a, b in links))
            for name, (devices, links) in self.data["parts"].items()
        }

    @cached_property
    def npus_of_part(self) -> dict[str, int]:
        """The NPUs of each part."""
        return {name: sum(d < self.network.npu_count for d in part.devices) for name, part in self.parts.items()}

    @property
    def failures(self) -> Mapping[str, Sequence[Any]]:
        """The class of each failure by name, and moves to it."""
        return self.data["failures"]

    @cached_property
    def members(self) -> list[list[str]]:
        """The names of the failures of each class."""
        members: list[list[str]] = [[] for _ in self.data["classes"]]
        for name, row in self.failures.items():
            members[int(row[0])].append(name)
        return members

    def plans(self, schedule: Mapping[str, Any]) -> list[ClassPlan]:
        """The plans of a schedule, by class."""
        return [
            ClassPlan(
                own["failure"],
                len(members),
                len(own["lost"]),
                plan["name"],
                plan.get("time_ps"),
                schedule["time_ps"],
                plan.get("ideal_ps"),
                plan.get("reason", ""),
            )
            for own, members, plan in zip(self.data["classes"], self.members, schedule["plans"], strict=True)
        ]

    @cached_property
    def failing_parts(self) -> FailingParts:
        """What may fail alone, by cause: what takes no NPU away is of the network, one NPU a GPU, more a node."""
        causes: dict[Cause, list[str]] = {"network": [], "gpu": [], "node": []}
        for name in self.failures:
            if name in self.parts:
                causes[
                    "network" if not self.npus_of_part[name] else "gpu" if self.npus_of_part[name] == 1 else "node"
                ].append(name)
        sets = {name: (frozenset(part.devices), frozenset(part.links)) for name, part in self.parts.items()}
        return FailingParts(sets, causes)

    @cached_property
    def long_run(self) -> LongRun:
        """A run on all GPUs of the network."""
        times = start_times(self.gpus)
        return LongRun(self.failing_parts, self.gpus, LLAMA.seconds, times.restart, times.communicator)

    def recoveries(self, schedule: Mapping[str, Any]) -> list[Recovery]:
        """What can be done about failures: fallbacks, a ring, R2CCL's formula for All-Reduces, restarts."""
        plans, failures = self.plans(schedule), self.failures

        def state_after(failed: frozenset[str]) -> State | None:
            row = failures.get(JOIN.join(sorted(failed)))
            plan = None if row is None else plans[int(row[0])]
            if plan is None or plan.of_undamaged is None:
                return None
            return State(max(1.0, plan.of_undamaged), plan.lost)  # fewer GPUs do less work, too

        shares, times = self._lost_shares, start_times(self.gpus)
        recoveries = [
            Recovery("fallbacks", times.communicator, state_after),
            Recovery("ring", times.failover, ring_state(shares, self.npus_of_part)),
        ]
        if schedule["collectives"] == ["all_reduce"]:
            recoveries.append(Recovery("R2CCL", times.failover, split_state(shares, self.npus_of_part)))
        return [*recoveries, RESTART]

    @cached_property
    def _lost_shares(self) -> Mapping[str, Mapping[int, float]]:
        return lost_shares(self.network, [*self.parts.values()])

    def _random(self, rates: FailureRates) -> RandomFailures:
        return RandomFailures(self.failing_parts, rates, self.copies, LLAMA.seconds)

    @cached_property
    def _runs(self) -> list[tuple[FailureRates, list[list[Event]]]]:
        return [(rates, self._random(rates).runs(rates.count(self.gpus, LLAMA.seconds))) for rates in RATES]

    @cached_property
    def _counted_runs(self) -> list[tuple[int, list[list[Event]]]]:
        """Runs with some numbers of failures, up to twice the expected number."""
        expected, random = RATES[0].count(self.gpus, LLAMA.seconds), self._random(RATES[0])
        counts = [round(expected * k / 4) for k in range(9)]
        return [(count, random.runs_with(count)) for count in counts]

    @cached_property
    def costs(self) -> dict[str, list[CostRow]]:
        """What failures of each schedule cost in the time of Llama 3's run, at each of the published rates, with each
        recovery.
        """
        return {
            schedule["name"]: [
                CostRow(rates, each.name, self.long_run.losses(runs, each))
                for rates, runs in self._runs
                for each in self.recoveries(schedule)
            ]
            for schedule in self.schedules
        }

    @cached_property
    def by_failures(self) -> dict[str, dict[str, list[tuple[int, Losses]]]]:
        """For each schedule and recovery the losses of runs with some numbers of failures."""
        return {
            schedule["name"]: {
                each.name: [(count, self.long_run.losses(runs, each)) for count, runs in self._counted_runs]
                for each in self.recoveries(schedule)
            }
            for schedule in self.schedules
        }

    def as_json(self) -> dict[str, object]:
        """The numbers of the section."""
        schedules = [
            {
                "name": schedule["name"],
                "time_ps": schedule["time_ps"],
                "plans": records_of(PLAN_COLUMNS, self.plans(schedule)),
                "costs": [
                    {"rates": row.rates.name, "recovery": row.recovery, **row.losses.as_json(LLAMA.seconds)}
                    for row in self.costs[schedule["name"]]
                ],
                "by_failures": {
                    name: [
                        {"failures": count, "slowdown": 1 + losses.total / LLAMA.seconds} for count, losses in points
                    ]
                    for name, points in self.by_failures[schedule["name"]].items()
                },
            }
            for schedule in self.schedules
        ]
        return {
            "network": self.network.name,
            "copies": self.copies,
            "gpus": self.gpus,
            "days": LLAMA.days,
            "schedules": schedules,
        }


def _ratio(value: float) -> str:
    return f"{value:.3f}"


PLAN_COLUMNS: Final[Sequence[Column[ClassPlan]]] = (
    Column("failures like that of", "failure", lambda plan: plan.failure),
    Column("failures", "failures", lambda plan: plan.count, lambda count: f"{count:,}"),
    Column("NPUs lost", "lost", lambda plan: plan.lost),
    Column("", "plan", lambda plan: plan.name),
    Column("time", "time_ps", lambda plan: plan.time_ps, format_time),
    Column("of undamaged", "of_undamaged", lambda plan: plan.of_undamaged, _ratio),
    Column("of ideal, damaged", "of_ideal", lambda plan: plan.of_ideal, _ratio),
    Column("no plan, since", "reason", lambda plan: plan.reason or None),
)


def _unbroken(name: str) -> str:
    """A name that no line break divides."""
    return name.replace(" ", "\N{NO-BREAK SPACE}").replace("-", "\N{NON-BREAKING HYPHEN}")


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds else "0"


COST_COLUMNS: Final[Sequence[Column[CostRow]]] = (
    Column("rates", "", lambda row: _unbroken(row.rates.name)),
    Column("with", "", lambda row: row.recovery),
    Column("failures", "", lambda row: row.losses.failures, lambda mean: f"{mean:.3g}"),
    Column("restarts", "", lambda row: row.losses.restarts, lambda mean: f"{mean:.3g}"),
    Column("standstill", "", lambda row: row.losses.stalled, _hours),
    Column("slower, at most", "", lambda row: row.losses.slower, _hours),
    Column("missing GPUs", "", lambda row: row.losses.missing, _hours),
    Column("slowdown", "", lambda row: 1 + row.losses.total / LLAMA.seconds, lambda mean: f"{mean:.5f}"),
    Column("error", "", lambda row: row.losses.error / LLAMA.seconds, lambda error: f"{error:.5f}"),
)


def fallback_subjects(path: Path, schedule: str | None) -> tuple[FallbackSubject, ...]:
    """The sets of an index, with their schedules or one of them. Raises SourceError X0801 if a network is missing,
    UsageError U0110 if there is no such schedule.
    """
    index = FallbackIndex(path)
    chosen = index.find_schedules(schedule)
    subjects: list[FallbackSubject] = []
    for number, own in enumerate(index.sets):
        schedules = [each for each in chosen if each["set"] == number]
        if not schedules:
            continue
        file = path.parent / network_file(number)
        if "parts" not in own or not file.exists():
            message = f"{path} has no network to show: {file} is missing, or an older version of collc wrote the index"
            raise SourceError(Diagnostic("X0801", message, hint="compile the program again"))
        subject = FallbackSubject(read_module(file).network, own, schedules)
        with reading_index(path):
            subject.read()
        subjects.append(subject)
    return tuple(subjects)


def _part_name(failure: str) -> str:
    """The name of the one part that fails, which may be slow; of several parts, no part has the result as its name."""
    return failure if JOIN in failure else failure.partition(" (bandwidth: ")[0]


def classes_picture(subject: FallbackSubject) -> Picture:
    """The network, with a colour for each class of failures of one part."""
    groups = [
        PartGroup(
            f"{own['failure']}: {plural(len(members), 'failure')}",
            [subject.parts[_part_name(name)] for name in members],
            f"fails as {own['failure']} does, a class of {plural(len(members), 'failure')}",
        )
        for own, members in zip(subject.data["classes"], subject.members, strict=True)
        if _part_name(own["failure"]) in subject.parts
    ]
    return network_picture(subject.network, title="Classes of failures", groups=groups)


def _slowdown_chart(subject: FallbackSubject, schedule: Mapping[str, Any]) -> Picture:
    """The time of the plan of each class relative to that without failures."""
    plans = subject.plans(schedule)
    return bar_chart(
        [plan.failure for plan in plans],
        [Bars("", [plan.of_undamaged for plan in plans])],
        title=f"{schedule['name']}: time after a failure",
        value=Axis("time / time without failures", text=_ratio),
        references=[Reference("without failures", 1.0)],
    )


def slowdown_picture(subject: FallbackSubject) -> Picture:
    """The times of the plans of the one schedule."""
    return _slowdown_chart(subject, subject.schedules[0])


def failures_picture(subject: FallbackSubject) -> Picture:
    """What failures cost a long run with the one schedule."""
    return _failures_chart(subject, subject.schedules[0])


def _failures_chart(subject: FallbackSubject, schedule: Mapping[str, Any]) -> Picture:
    """The expected slowdown of a long run against the number of failures, for each recovery."""
    series = [
        Series(name, [(count, 100 * losses.total / LLAMA.seconds) for count, losses in points])
        for name, points in subject.by_failures[schedule["name"]].items()
    ]
    return line_chart(
        series,
        title=f"{schedule['name']}: slowdown of {LLAMA.days} days against the number of failures",
        x=Axis("failures"),
        y=Axis("slowdown", text=lambda value: f"{number_label(value)} %"),
    )


def fallback_section(subject: FallbackSubject) -> Section:
    """The section of a report about the fallbacks of a network."""
    failures = len(subject.failures)
    missing = sum(bool(plan.reason) for each in subject.schedules for plan in subject.plans(each))
    planned = sum(map(len, (each["plans"] for each in subject.schedules))) - missing
    badge = (f"{plural(missing, 'class')} without a plan".replace("classs", "classes"), "allowed")
    facts = [
        ("failures", f"{failures:,}", "that the program names"),
        ("classes", str(len(subject.data["classes"])), "by the symmetry of the network"),
        ("plans", str(planned), f"for {plural(len(subject.schedules), 'schedule')}"),
    ]
    panels = [
        Panel("Classes", [Facts(facts), Figure(classes_picture(subject), _COLORED), *_first_table(subject)]),
        *(Panel(str(each["name"]), _schedule_blocks(subject, each)) for each in subject.schedules),
        Panel("Model", _model_blocks(subject)),
    ]
    network = subject.network
    counts = f"{plural(len(network.npus), 'NPU')}, {plural(network.link_count, 'link')}"
    summary = f"fallbacks of {plural(len(subject.schedules), 'schedule')} on {counts}"
    return Section(network.name, summary, badge if missing else ("all planned", "ok"), panels)


def _first_table(subject: FallbackSubject) -> list[Block]:
    rows = [
        (own["failure"], f"{len(members):,}", str(len(own["lost"])), members[-1])
        for own, members in zip(subject.data["classes"], subject.members, strict=True)
    ]
    return [Table(("failures like that of", "failures", "NPUs lost", "the last one"), rows, "Classes")]


def _schedule_blocks(subject: FallbackSubject, schedule: Mapping[str, Any]) -> list[Block]:
    plans = subject.plans(schedule)
    columns = PLAN_COLUMNS if any(plan.reason for plan in plans) else PLAN_COLUMNS[:-1]
    expected = RATES[0].count(subject.gpus, LLAMA.seconds)
    caption = (
        f"Runs of {LLAMA.days} days with this number of failures at random times, of the parts that failed in Llama "
        f"3's run, if all time is communication. {expected:.0f} failures are expected."
    )
    run = f"{LLAMA.days} days on {subject.gpus:,} GPUs, {plural(subject.copies, 'network')} like this one"
    return [
        table_of(columns, plans, f"{schedule['name']}: {format_time(schedule['time_ps'])} without failures"),
        Figure(_slowdown_chart(subject, schedule), _SLOWDOWNS),
        Figure(_failures_chart(subject, schedule), caption),
        table_of(
            COST_COLUMNS,
            subject.costs[schedule["name"]],
            f"What failures cost on average: {run}; error: standard error of the slowdown",
        ),
    ]


def _model_blocks(subject: FallbackSubject) -> list[Block]:
    starts = start_times(subject.gpus)
    rows = [
        (_unbroken(each.name), f"{each.daily:.3g}", *(f"{100 * share:.3g} %" for share in each.shares), each.source)
        for each in RATES
    ]
    lines = [
        f"A run of {LLAMA.days} days on {subject.gpus:,} GPUs, about as many as Llama 3 was trained on. "
        f"{subject.copies} networks like this one wait for each other, so that the slowest sets the pace.",
        "Failures arrive at random, each of one part. Network: parts without NPUs, such as a NIC, a cable or a switch. "
        "GPU: parts of one NPU. Node: parts of several. All else ends in a restart, as do parts without a plan.",
        f"A restart takes {starts.restart:g} s (FT-HSDP, figure 2), with spares in the place of all that has failed. "
        "The work since the last checkpoint and the time to notice a failure are not counted.",
        f"With fallbacks, the run goes on after {starts.communicator:g} s, as long as a new communicator takes "
        f"(FT-HSDP, figure 2), if there is a plan for all that has failed in a network. {starts.restart:g} s later, "
        f"spares have started beside it and join, which takes {starts.communicator:g} s again.",
        f"A ring goes on after {starts.failover:g} s (NCCL's timeout for acknowledgements) until spares join, if no "
        "GPU is lost: 1 / (1 - X) times slower, if a node has lost the share X of its bandwidth to others. R2CCL's "
        "All-Reduce is max(2, 1 / (1 - X)) / 2 times slower (arXiv 2512.25059).",
        "Slower communication counts as if all time were communication, so that it is an upper bound. Missing GPUs "
        "count by their share of all.",
        "Means over runs with 5,000 failures together or more, with a fixed seed.",
    ]
    names = ("rates", "a day and 1,000 nodes", "network", "GPU", "node", "other", "source")
    return [Table(names, rows, "Published failure rates"), Remarks("What is simulated", lines)]
