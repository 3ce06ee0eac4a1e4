"""The index of fallbacks, `fallbacks.json`: which files serve which failure, and which rank each GPU gets.

Failures that a symmetry of the network takes to each other have one plan, that of the first of them. A failure is kept
as the moves along coordinates of the NPUs that take the first one to it. Reading loads no NumPy, so that an answer
takes a few milliseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, cast

from collc.application.fallbacks.ras_files import DeadGpu
from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError, UsageError
from collc.base.reading import read_text
from collc.base.wording import SHOWN, did_you_mean, in_short, nearest, phrase

KIND: Final = "collc fallbacks 1"
"""The value of "kind" in the index."""

INDEX: Final = "fallbacks.json"
"""The name of the index in the output folder."""

JOIN: Final = " + "
"""What joins the names of parts that fail together, in ascending order of the names."""

_SHARE: Final = re.compile(r"(?<= \(bandwidth: )[^)]+")
"""The share that a slow part keeps, in the name of its failure."""

Data = Mapping[str, Any]


def network_file(number: int) -> str:
    """The file of the network of a set, relative to the index."""
    return f"fallbacks/network-{number}.ten"


def failure_name(parts: Sequence[str]) -> str:
    """The name of the failure of some parts at once."""
    return JOIN.join(sorted(parts))


def moved_npus(sizes: Sequence[int], places: Sequence[int], moves: Sequence[Sequence[object]]) -> list[int]:
    """Where each NPU goes under moves along coordinates, one after another (see `graph/symmetries.py`).

    places: for each NPU, its place in the array of all coordinates, in row-major order.
    """
    if not moves:
        return [*range(len(places))]
    strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    npu_at = {place: npu for npu, place in enumerate(places)}
    tables = [(*range(size),) for size in sizes]
    order = [*range(len(sizes))]
    for kind, *numbers in moves:
        axis, a, b = cast("tuple[int, int, int]", (*numbers, 0, 0)[:3])
        size = sizes[axis]
        if kind == "axes":
            order[axis], order[a] = order[a], order[axis]
            tables[axis], tables[a] = tables[a], tables[axis]
            continue
        moved = [*range(size)] if kind == "swap" else [(i + a) % size for i in range(size)]
        if kind == "swap":
            moved[a], moved[b] = b, a
        elif kind == "flip":
            moved.reverse()
        tables[axis] = tuple(moved[i] for i in tables[axis])
    columns = [(order[axis], strides[axis], tables[axis]) for axis in range(len(sizes))]
    moved_to: list[int] = []
    for place in places:
        index = [place // stride % size for stride, size in zip(strides, sizes, strict=True)]
        moved_to.append(npu_at[sum(stride * table[index[axis]] for axis, stride, table in columns)])
    return moved_to


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of one run after a failure.

    run: its number. file_run: the run whose file it uses. new: for each old rank, the rank in the file; None if the GPU
    is lost.
    """

    run: int
    file_run: int
    new: tuple[int | None, ...]

    @property
    def in_order(self) -> bool:
        """Whether `ncclCommShrink` alone numbers so: the ranks that are left in order, without gaps."""
        return [rank for rank in self.new if rank is not None] == [*range(sum(rank is not None for rank in self.new))]

    def as_json(self) -> dict[str, object]:
        """One element of "ranks"."""
        return {"run": self.run, "file_run": self.file_run, "in_order": self.in_order, "new": list(self.new)}


@dataclass(frozen=True, slots=True)
class Fallback:
    """What one schedule does after a failure.

    schedule: its name. files: relative to the index. reason: why there is no plan, "" if there is one. time_ps,
    undamaged_ps: of the schedule with and without the failure.
    """

    schedule: str
    plan: str
    files: tuple[str, ...]
    reason: str
    time_ps: int | None
    undamaged_ps: int | None
    ranks: tuple[Ranks, ...]

    def as_json(self) -> dict[str, object]:
        """One element of "fallbacks" in `fallback --json`."""
        return {
            "schedule": self.schedule,
            "plan": self.plan,
            "files": list(self.files),
            "reason": self.reason,
            "time_ps": self.time_ps,
            "undamaged_ps": self.undamaged_ps,
            "ranks": [ranks.as_json() for ranks in self.ranks],
        }


_SET: Final = {
    "network": str,
    "npus": [str],
    "sizes": [int],
    "hosts": {"": [int]},
    "aliases": {"": str},
    "contains": {"": [int]},
    "classes": [{"failure": str, "lost": [int]}],
    "failures": {"": list},
}
_SCHEDULE: Final = {"name": str, "set": int, "collectives": [str], "time_ps": int, "plans": [{"name": str}]}
_SHAPE: Final = {"sets": [_SET], "schedules": [_SCHEDULE]}
"""Kinds of values in each index: a list of one kind, a mapping from some names, or from any names ("")."""


def _check_shape(value: Any, kind: Any, name: str) -> None:  # noqa: ANN401
    """Raise TypeError for the first value of another kind. name: of the value, for people."""
    python_type: type = kind if isinstance(kind, type) else type(kind)
    if not isinstance(value, python_type):
        raise TypeError(f"{name} is no {python_type.__name__}")
    if isinstance(kind, list):
        for element in value:
            _check_shape(element, kind[0], f"a value in {name}")
    elif isinstance(kind, dict):
        kinds = cast("Data", kind)
        for key in value if "" in kinds else kinds:
            _check_shape(value[key], kinds[key if key in kinds else ""], f"'{key}'")


@contextmanager
def reading_index(path: Path) -> Generator[None]:
    """What is read inside is from an index; raises SourceError X0801 if a value in it is missing or wrong."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        message = f"{path} is not as 'collc compile' writes it: {type(error).__name__}: {error}"
        raise SourceError(Diagnostic("X0801", message, hint="compile the program again")) from error


class FallbackIndex:
    """An index that was read."""

    def __init__(self, path: Path) -> None:
        source = read_text(path)
        try:
            data: Any = json.loads(source.text)
        except (ValueError, RecursionError) as error:
            raise SourceError(Diagnostic("X0801", f"{path} is not JSON: {error}")) from None
        if not isinstance(data, dict) or cast("Data", data).get("kind") != KIND:
            hint = f"'collc compile' writes {INDEX} for schedules with 'failures'"
            raise SourceError(Diagnostic("X0801", f"{path} is no index of fallbacks", hint=hint))
        self.path = path
        with reading_index(path):
            _check_shape(data, _SHAPE, "the index")
        index = cast("Mapping[str, Sequence[Data]]", data)
        self._sets, self._schedules = index["sets"], index["schedules"]

    @property
    def sets(self) -> Sequence[Data]:
        """What schedules have in common: failures, their classes, and the network (docs/failures.md)."""
        return self._sets

    def find_schedules(self, schedule: str | None) -> Sequence[Data]:
        """All schedules with their plans, or one of them. Raises UsageError if there is none of this name."""
        chosen = [each for each in self._schedules if schedule in (None, each["name"])]
        if not chosen:
            hint = f"there are {phrase(each['name'] for each in self._schedules)}"
            raise UsageError(Diagnostic("U0110", f"{self.path} has no schedule '{schedule}'", hint=hint))
        return chosen

    def find(self, dead: Sequence[str], schedule: str | None = None, slow: Sequence[str] = ()) -> tuple[Fallback, ...]:
        """The fallbacks of all schedules, or of one, for the failure of parts with some names or labels.

        slow: those that are not dead; of several shares of their bandwidth, the least one counts.

        Raises UsageError if no schedule has such a failure.
        """
        fallbacks: list[Fallback] = []
        errors: list[UsageError] = []
        for each in self.find_schedules(schedule):
            try:
                with reading_index(self.path):
                    fallbacks.append(self._fallback(each, dead, slow))
            except UsageError as error:
                errors.append(error)
        if not fallbacks:
            raise errors[0]
        return tuple(fallbacks)

    def hosts_of(self, name: str) -> list[str]:
        """The hosts of a list as Slurm writes it, `node[001-004,7]`; what is no list of hosts here is one name."""
        if not re.search("[-,]", name) or any(name in each["failures"] for each in self._sets):
            return [name]
        from collc.source.host_lists import expanded_hosts, split_host_list

        hosts = {alias for each in self._sets for alias in each["aliases"]}
        try:
            names = [host for part in split_host_list(name) for host in expanded_hosts(part, len(hosts))]
        except (OverflowError, ValueError):
            return [name]
        return [name] if hosts.isdisjoint(names) else names

    def gpu_names(self, gpus: Sequence[DeadGpu]) -> list[str]:
        """The names of GPUs that RAS reports: by rank, in a schedule over as many GPUs, else by host and number.

        Raises UsageError if a GPU is unknown.
        """
        with reading_index(self.path):
            return [*dict.fromkeys(self._gpu_name(gpu) for gpu in gpus)]

    def _gpu_name(self, gpu: DeadGpu) -> str:
        for schedule in self._schedules:
            failures = self._sets[int(schedule["set"])]
            npus: Sequence[str] = failures["npus"]
            group: Sequence[int] = (schedule["groups"] or [range(len(npus))])[0]
            own: Sequence[int] = failures["hosts"].get(gpu.host, ())
            if gpu.size == len(group) and 0 <= gpu.rank < len(group):
                return npus[group[gpu.rank]]
            if 0 <= gpu.device < len(own):
                return npus[own[gpu.device]]
        hint = "a status of RAS ('ncclras -f json') has ranks, and labels in the program name hosts"
        raise UsageError(Diagnostic("U0158", f"no GPU of {self.path} is number {gpu.device} of {gpu.host}", hint=hint))

    def _fallback(self, schedule: Data, dead: Sequence[str], slow: Sequence[str]) -> Fallback:
        failures = self._sets[int(schedule["set"])]
        number, *moves = _failure(failures, dead, slow, self.path)
        plan: Data = schedule["plans"][number]
        ranks = () if plan.get("reason") else _ranks(failures, schedule, number, moves)
        return Fallback(
            schedule["name"],
            plan["name"],
            tuple(plan.get("files", ())),
            plan.get("reason", ""),
            plan.get("time_ps"),
            schedule["time_ps"],
            ranks,
        )


def _failure(failures: Data, dead: Sequence[str], slow: Sequence[str], path: Path) -> Sequence[Any]:
    """The class and the moves of a failure. Raises UsageError if there is none of these names."""
    known: Data = failures["failures"]
    names, slower = ({_without_label(failures, name) for name in each} for each in (dead, slow))
    rank_of = {share: number for number, share in enumerate(failures.get("shares", ()))}
    for form in (str, flat_name):
        wanted = failure_name([*{*map(form, names)}, *(f"{name} (bandwidth: )" for name in {*map(form, slower)})])
        alike = [name for name in known if _SHARE.sub("", name) == wanted] if slow else [wanted]
        least = min(alike, key=lambda name: [rank_of.get(share, 0) for share in _SHARE.findall(name)], default="")
        for name in (least, "" if slow else _container(failures, names)):
            if name in known:
                return known[name]
    parts = [*dead, *(f"slow {name}" for name in slow)]
    what = phrase(parts) if len(parts) <= SHOWN else in_short(parts)
    given = [*dead, *map(_slow_name, slow)]
    hint = _several_hint(failures, dead, slow) if len({*given}) > 1 else _hint(failures, given[0])
    raise UsageError(Diagnostic("U0157", f"{path} has no plan for the failure of {what}", hint=hint))


def _slow_name(name: str) -> str:
    return f"{name} (bandwidth: 1/2)"


def _hint(failures: Data, name: str) -> str:
    """Which failures there are, for a part that has none."""
    every = [*failures["failures"], *failures["aliases"]]
    shown = phrase(nearest(name, every, SHOWN))
    return did_you_mean(name, every, f"it has, among {len(failures['failures']):,} failures, {shown}")


def _several_hint(failures: Data, dead: Sequence[str], slow: Sequence[str]) -> str:
    """For several parts that have no plan together, what to write into the program; or which of them has none alone."""
    alone = {_SHARE.sub("", name) for name in failures["failures"]}
    kinds: set[str] = set()
    for name, end in (*((name, "") for name in dead), *((name, " (bandwidth: )") for name in slow)):
        part = _without_label(failures, name)
        if alone.isdisjoint((part + end, flat_name(part) + end)):
            is_known = part != name or part in failures["npus"]
            others = "" if is_known else f"; {_hint(failures, _slow_name(name) if end else name)}"
            return f"{'slow ' if end else ''}{name} has none alone, either{others}"
        kinds.add("link" if " -> " in part else "cable" if " <-> " in part else flat_name(part).partition("[")[0])
    if dead and slow:
        return "a failure is of dead parts or of slow ones, which --dead or --slow alone finds"
    some = f"({', '.join(sorted(kinds))})" if len(kinds) > 1 else kinds.pop()
    statement = f"failures any {len({*dead, *slow})} of {some}{' (bandwidth: SHARE)' if slow else ''}"
    return f"the program names each alone; for all at once, compile with '{statement}'"


def _without_label(failures: Data, name: str) -> str:
    """The name in the program of a part that is given by its label, or by the end of a label, if it is the only one."""
    aliases: Mapping[str, str] = failures["aliases"]
    name = ", ".join(index.strip() for index in name.split(","))
    if name in aliases:
        return aliases[name]
    host, slash, own = name.rpartition("/")
    for same in (str, _address):
        end = f"{host}{slash}{same(own)}"
        known = [(*alias.rpartition("/"), part) for alias, part in aliases.items()]
        ends = {part for start, sign, last, part in known if end in (f"{start}{sign}{same(last)}", same(last))}
        if len(ends) == 1:
            return ends.pop()
    return name


def _address(name: str) -> str:
    """An address on a bus or a GUID in one form, for 00000000:1A:00.0 that of 0000:1a:00.0; of others the name."""
    digits = name.lower().removeprefix("0x")
    if re.fullmatch(r"[0-9a-f:.]*[0-9][0-9a-f:.]*", digits) is None:
        return name
    return digits.replace(":", "").replace(".", "").lstrip("0")


def flat_name(name: str) -> str:
    """`nic[3, 5]` for `node[3].nic[5]`, as a program may declare the NICs of all nodes together."""
    words = [word.partition("[") for word in name.replace("]", "").split(".")]
    index = ", ".join(index for _, _, index in words if index)
    return f"{words[-1][0]}[{index}]" if index else words[-1][0]


def _container(failures: Data, names: Collection[str]) -> str:
    """The name of the part that consists of the named NPUs, as a node of all its GPUs; "" if there is none."""
    number = {name: npu for npu, name in enumerate(failures["npus"])}
    npus = [number.get(name, -1) for name in names]
    return next((name for name, own in failures["contains"].items() if sorted(own) == sorted(npus)), "")


def _ranks(failures: Data, schedule: Data, number: int, moves: Sequence[Sequence[object]]) -> tuple[Ranks, ...]:
    """The ranks of all runs of a schedule after a failure of a class, which moves take the first of its class to."""
    count = len(failures["npus"])
    moved = moved_npus(failures["sizes"], failures["places"] or range(count), moves)
    lost = set(failures["classes"][number]["lost"])
    groups: Sequence[Sequence[int]] = schedule["groups"] or [range(count)]
    run_of = {frozenset(group): run for run, group in enumerate(groups)}
    ranks: list[Ranks] = []
    for file_run, group in enumerate(groups):
        left = [npu for npu in group if npu not in lost]
        if len(left) < 2:
            continue
        new = {moved[npu]: rank for rank, npu in enumerate(left)}
        run = run_of[frozenset(moved[npu] for npu in group)]
        ranks.append(Ranks(run, file_run, tuple(new.get(npu) for npu in groups[run])))
    return tuple(sorted(ranks, key=lambda each: each.run))


def check_found(found: Sequence[Fallback]) -> None:
    """Raise NoSchedule if no schedule has a plan for a failure."""
    if all(each.reason for each in found):
        raise NoSchedule(*(Diagnostic("S0309", f"{each.schedule} has no plan: {each.reason}") for each in found))
