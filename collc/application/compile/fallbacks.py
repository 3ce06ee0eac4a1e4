"""Fallbacks of a schedule: for each class of failures that its `failures` name, the schedule without these parts.

A plan is made for the first failure of each class, on the network without its parts, and checked as any schedule is.
For each other failure, a renaming of the devices takes the first one to it. All renamings are verified.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from collc.application.compile.compile_report import ScheduleReport
from collc.application.compile.planning import BuildInput
from collc.application.fallbacks.fallback_index import INDEX, KIND, failure_name, moved_npus, network_file
from collc.base.atomic_files import write_file
from collc.base.diagnostics import CheckFailed, CollcError, Diagnostic, Exit, SourceError
from collc.base.units import format_time
from collc.base.wording import plural
from collc.emit.kinds import EMIT_KINDS
from collc.graph.symmetries import (
    SWITCHES,
    Move,
    PartClasses,
    Symmetries,
    classify_parts,
    exchange_switches,
    find_symmetries,
)
from collc.graph.translations import find_translations
from collc.source.limits import MAX_CLASSES
from collc.ten.arrays import Int32Array
from collc.ten.compaction import renumber_demand, without_removed_devices
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.parts import Part
from collc.ten.text.write import format_module
from collc.verification.renaming_check import is_automorphism, keeps_demand, wrong_renaming

if TYPE_CHECKING:
    from collc.source.program import FailureSets, ScheduleRequest

Build = Callable[[BuildInput], ScheduleReport]
"""Builds a schedule; errors are in its report."""


@dataclass(frozen=True, eq=False)
class _Failures:
    """The failures of a schedule, and for each one: its name and parts, first: the failure whose plan it uses, and
    words: the symmetries that take that to it.
    """

    names: list[str]
    parts: list[tuple[Part, ...]]
    first: list[int]
    words: list[list[int]]


@dataclass(eq=False)
class FallbackWriter:
    """Collects the fallbacks of the schedules of a program for one index.

    sets: what schedules with the same failures share. networks: of each set. schedules: what each has of its own.
    """

    sets: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    networks: list[Network] = field(default_factory=list[Network])
    schedules: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, given: BuildInput, report: ScheduleReport, build: Build) -> list[ScheduleReport]:
        """Plan the fallbacks of a schedule whose report is given; returns the reports of those that have a plan, after
        that of the schedule itself, with remarks.

        Raises SourceError if its failures are of too many classes.
        """
        request = given.request
        assert request.failures is not None
        symmetries = find_symmetries(request.network, lambda npus: keeps_demand(request.demand, npus))
        symmetries = replace(symmetries, all=symmetries.all + exchange_switches(request.network, symmetries))
        failures = _classify(request.failures, request.network, symmetries)
        _verify_renamings(request, request.failures, symmetries, failures)
        first = sorted({*failures.first})
        plans: list[dict[str, Any]] = []
        reports: list[ScheduleReport] = []
        notes: list[str] = []
        share = None if given.time_limit is None else given.time_limit / len(first)
        for number, row in enumerate(first):
            parts = failures.parts[row]
            name = _plan_name(request.name, parts, {plan["name"] for plan in plans})
            given.progress(number / len(first), f"planning for the failure of {failures.names[row]}")
            fallback, reason = _build(given, parts, name, share, build)
            plans.append(_plan_of(name, fallback, reason, given.settings.output))
            others = failures.first.count(row) - 1
            alike = f", as of {plural(others, 'other')} alike" if others else ""
            if fallback is None:
                notes.append(f"the failure of {failures.names[row]}{alike}: no plan: {reason}")
                continue
            reports.append(replace(fallback, notes=()))
            notes.append(f"the failure of {failures.names[row]}{alike}: {name}, {_slowdown(fallback, report)}")
        own = _set_of(request, request.failures, symmetries, failures)
        if own not in self.sets:
            self.sets.append(own)
            self.networks.append(request.network)
        everyone = all(np.array_equal(run.group, request.network.npus) for run in request.demand.runs)
        self.schedules.append(
            {
                "name": request.name,
                "set": self.sets.index(own),
                "groups": None if everyone else [run.group.tolist() for run in request.demand.runs],
                "collectives": [*dict.fromkeys(run.collective for run in request.demand.runs)],
                "files": [_relative(path, given.settings.output) for path in report.files],
                "time_ps": report.time_ps,
                "plans": plans,
            }
        )
        return [replace(report, notes=(*report.notes, *notes)), *reports]

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write the index, and the network of each set as a module without runs; returns their paths."""
        paths = [folder / INDEX]
        for own, network in zip(self.sets, self.networks, strict=True):
            paths.append(folder / network_file(len(paths) - 1))
            paths[-1].parent.mkdir(parents=True, exist_ok=True)
            write_file(paths[-1], format_module(Module(str(own["network"]), network, Demand(()))))
        lines = [f'{{"kind": {json.dumps(KIND)},\n"sets": [']
        lines.append(",\n".join(map(_set_text, self.sets)))
        lines += ["],", '"schedules": [', ",\n".join(map(json.dumps, self.schedules)), "]}"]
        write_file(paths[0], "\n".join(lines) + "\n")
        return tuple(paths)


def _set_text(own: dict[str, Any]) -> str:
    """The text of a set, with a line for each failure."""
    head = {key: value for key, value in own.items() if key != "failures"}
    rows = [f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in own["failures"].items()]
    return json.dumps(head)[:-1] + ', "failures": {\n' + ",\n".join(rows) + "\n}}"


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _plan_name(schedule: str, parts: Sequence[Part], taken: Collection[str]) -> str:
    """The name of a fallback, which is a name for files too: numbered if it is taken, as by `a -> b` for `a <-> b`."""
    how, failure = "with-slow" if parts[0].left else "without", failure_name([part.name for part in parts])
    name = f"{schedule}-{how}-" + re.sub(r"[^A-Za-z0-9]+", "-", failure).strip("-")
    numbered = (f"{name}-no-{number}" for number in count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _slowdown(fallback: ScheduleReport, report: ScheduleReport) -> str:
    if not fallback.time_ps or not report.time_ps:
        return "failed"
    return f"{format_time(fallback.time_ps)}, {fallback.time_ps / report.time_ps:.3f} times that of {report.name}"


def _classify(sets: FailureSets, network: Network, symmetries: Symmetries) -> _Failures:
    """The classes of all failures. Raises SourceError if they are too many."""
    failures = _Failures([], [], [], [])
    for rows in sets.members:
        classes = classify_parts(network, sets.parts, rows, symmetries.all, MAX_CLASSES)
        if (classes.number < 0).any():
            message = f"the failures are of more than {MAX_CLASSES:,} classes, each with a plan of its own"
            hint = "name fewer failures, or a network with more symmetry"
            raise SourceError(Diagnostic("E0616", message, sets.span, hint=hint))
        base = len(failures.names)
        first = np.unique(classes.number, return_index=True)[1][classes.number]
        failures.first.extend((first + base).tolist())
        failures.words.extend(_words(classes))
        for row in rows.tolist():
            parts = tuple(sets.parts[int(part)] for part in row)
            failures.parts.append(parts)
            failures.names.append(failure_name([part.failure for part in parts]))
    return failures


def _words(classes: PartClasses) -> list[list[int]]:
    return [classes.words(row) for row in range(len(classes.number))]


def _verify_renamings(request: ScheduleRequest, sets: FailureSets, symmetries: Symmetries, failures: _Failures) -> None:
    """Check each renaming as a reader of the index applies it. Raises CheckFailed if one is wrong."""
    network, demand = request.network, request.demand
    wrong = [
        move
        for number, (move, devices) in enumerate(symmetries.all)
        if not is_automorphism(network, devices)
        or not keeps_demand(demand, devices[: network.npu_count])
        or not np.array_equal(_npus_after(symmetries, [number], network.npu_count), devices[: network.npu_count])
    ]
    base = 0
    for rows in sets.members:
        own = slice(base, base + len(rows))
        words = [[symmetries.all[number].devices for number in word] for word in failures.words[own]]
        row = -1 if wrong else wrong_renaming(sets.parts, rows, np.array(failures.first[own]) - base, words)
        if wrong or row >= 0:
            what = f"the symmetry {wrong[0]}" if wrong else f"the renaming for {failures.names[base + row]}"
            raise CheckFailed(Diagnostic("V0112", f"{what} of '{request.name}' is wrong", sets.span))
        base += len(rows)


def _npus_after(symmetries: Symmetries, word: Sequence[int], npus: int) -> Int32Array:
    """int32[npus]: where each NPU goes under symmetries, as a reader of the index finds out."""
    coordinates = symmetries.coordinates
    sizes, places = ((), range(npus)) if coordinates is None else (coordinates.sizes, coordinates.places.tolist())
    return np.array(moved_npus(sizes, places, _npu_moves(symmetries, word)), np.int32)


def _npu_moves(symmetries: Symmetries, word: Sequence[int]) -> list[Move]:
    """The moves of some symmetries, less those that move no NPU."""
    return [symmetries.all[number].move for number in word if symmetries.all[number].move[0] != SWITCHES]


def _build(
    given: BuildInput, parts: tuple[Part, ...], name: str, seconds: float | None, build: Build
) -> tuple[ScheduleReport | None, str]:
    """(the report of the schedule without some parts, ""), or (None, why there is no plan). seconds: of its search."""
    settings = replace(given.settings, emit=(), prove=False, certificate=None, time_limit=seconds)
    try:
        request = _request_without(given, parts, name)
    except CollcError as error:
        return None, error.diagnostics[0].message
    experience = deepcopy(given.experience)  # so that no failure depends on another
    report = build(replace(given, request=request, settings=settings, experience=experience))
    if report.exit in (Exit.DONE, Exit.CHECK_FAILED):
        return report, ""
    return None, next((d.message for d in report.diagnostics if not d.warning), "no schedule was found")


def _request_without(given: BuildInput, parts: tuple[Part, ...], name: str) -> ScheduleRequest:
    """The request of a schedule without some parts: it has a name and files of its own, and a compact network if that
    has a symmetry. Raises CollcError if it has no meaning.
    """
    failures = given.request.failures
    assert failures is not None
    emits = tuple(
        replace(emit, path=f"fallbacks/{name}/{EMIT_KINDS[emit.kind].path(emit.path, name)}") for emit in given.emits
    )
    without = compact_request(failures.request(parts))
    return _change(without, lambda request: replace(request, name=name, emits=emits, checks=()))


def compact_request(request: ScheduleRequest) -> ScheduleRequest:
    """The request, with any number of chunks, on the network without removed devices if that has a symmetry."""
    compact = _compact_network(request)
    if compact is None:
        return request
    network, number = compact
    return _change(request, lambda each: replace(each, network=network, demand=renumber_demand(each.demand, number)))


def _change(request: ScheduleRequest, change: Callable[[ScheduleRequest], ScheduleRequest]) -> ScheduleRequest:
    """The request after a change, which is made for each number of chunks."""
    choice = request.choice
    if choice is not None:
        build = choice.request  # no reference to the demand

        def build_changed(count: int) -> ScheduleRequest:
            return change(build(count))

        choice = replace(choice, request=build_changed)
    return replace(change(request), choice=choice)


def _compact_network(request: ScheduleRequest) -> tuple[Network, Int32Array] | None:
    """The network without removed devices, and their new numbers, if all NPUs are alike there, as those of the other
    nodes; else None.
    """
    network = request.network
    if len(network.npus) == network.npu_count or any(run.moves is not None for run in request.runs):
        return None
    compact, number = without_removed_devices(network)
    translations = find_translations(compact)
    return None if translations is None or translations.count != compact.npu_count else (compact, number)


def _plan_of(name: str, report: ScheduleReport | None, reason: str, folder: Path) -> dict[str, Any]:
    """What the index says of the plan of a class."""
    if report is None or report.time_ps is None:
        return {"name": name, "reason": reason or "it failed its checks"}
    return {
        "name": name,
        "files": [_relative(path, folder) for path in report.files],
        "time_ps": report.time_ps,
        "ideal_ps": report.ideal_ps,
    }


def _set_of(request: ScheduleRequest, sets: FailureSets, symmetries: Symmetries, failures: _Failures) -> dict[str, Any]:
    """What the index says of the failures, their classes and the network."""
    network = request.network
    first = sorted({*failures.first})
    number = {row: k for k, row in enumerate(first)}
    coordinates = symmetries.coordinates
    places: list[int] = [] if coordinates is None else coordinates.places.tolist()
    npus = range(network.npu_count)
    aliases = {name: sets.parts[part].name for name, part in sets.names.items() if name != sets.parts[part].name}
    aliases |= {label: part.name for part in sets.parts for label in _names_of(part)}
    contained = {part.name: [d for d in part.devices if d in npus] for part in sets.parts}
    return {
        "network": network.name,
        "npus": [network.device_name(npu) for npu in npus],
        "sizes": [] if coordinates is None else [*coordinates.sizes],
        "places": None if places in ([], [*npus]) else places,
        "hosts": _hosts(network),
        "aliases": aliases,
        "contains": {name: own for name, own in contained.items() if len(own) > 1},
        "shares": [str(share) for share in sorted({part.left for part in sets.parts} - {0})],
        "parts": {part.name: [part.devices, part.links] for part in sets.parts},
        "classes": [
            {
                "failure": failures.names[row],
                "lost": sorted({d for part in failures.parts[row] if not part.left for d in part.devices if d in npus}),
            }
            for row in first
        ],
        "failures": {
            name: [number[own], *_npu_moves(symmetries, word)]
            for name, own, word in zip(failures.names, failures.first, failures.words, strict=True)
        },
    }


def _names_of(part: Part) -> list[str]:
    """The names of a part on its machine: `host/a` and `host/b` for the label `host/a|b`."""
    host, slash, names = part.label.rpartition("/")
    return [f"{host}{slash}{name}" for name in names.split("|") if name]


def _hosts(network: Network) -> dict[str, list[int]]:
    """The NPUs of each host, in order, as far as labels say."""
    hosts: dict[str, list[int]] = {}
    for npu in range(network.npu_count):
        host, slash, _ = network.real_name(npu).rpartition("/")
        if slash:
            hosts.setdefault(host, []).append(npu)
    return hosts
