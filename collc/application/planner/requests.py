"""Requests to the planner, and their canonical form: the request of its class that is planned in place of it.

The canonical form depends on the request and the network alone. So does its plan, and so does the answer, which is that
plan with other names of the devices.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from collc.application.fallbacks.fallback_index import flat_name
from collc.application.planner.bounded_memory import BoundedMemory
from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, UsageError
from collc.base.units import decimal, shown_rate
from collc.base.wording import plural
from collc.graph.automorphisms import Automorphisms, mix_bits
from collc.graph.canonical_sets import CanonicalPositions, Colours
from collc.graph.symmetries import find_symmetries
from collc.source.imports import GivenFiles
from collc.ten.arrays import Int32Array
from collc.ten.parts import Part, share_left
from collc.ten.standard_collectives import shapes
from collc.verification.renaming_check import is_automorphism
from collc.version import __version__

if TYPE_CHECKING:
    from collc.source.elaboration.elaborate import NamedNetwork


SCHEDULE: Final = "requested_plan"
"""The name of the schedule in the program of a request."""


@dataclass(frozen=True, slots=True)
class GroupRun:
    """One collective over one group.

    collective: its name in the standard library. npus: numbers of the members by rank, None for all NPUs of the
    network. options: its other arguments as text of `.coll`, as (("chunks", "auto"), ("size", "1GiB")), by name.
    """

    collective: str
    npus: tuple[int, ...] | None
    options: tuple[tuple[str, str], ...]

    @property
    def root(self) -> int:
        """The rank of its root, -1 if it has none."""
        shape = shapes()[self.collective]
        return int(dict(self.options).get("root", "0")) if shape.by_rule and shape.has_root else -1

    def line(self, topology: str, npus: Sequence[int] | None, root: int) -> str:
        """The statement of the run over other NPUs of a topology. npus: None for all."""
        group = f"{topology}.npus" if npus is None else f"[{', '.join(f'{topology}[{npu}]' for npu in npus)}]"
        options = {**dict(self.options), **({"root": str(root)} if root >= 0 else {})}
        return f"    run {self.collective}({group}, {', '.join(f'{key}: {value}' for key, value in options.items())})"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the planner is asked for: collectives that run at once, and what is dead.

    runs: the first is the one that is asked for, the others run beside it. dead: names of parts. slow: names of others,
    and what is left of their bandwidth: bytes a second (True), or a share (False). runtime: the kind of files, "" for
    none. link_model: "store" or "pipelined".
    """

    runs: tuple[GroupRun, ...]
    dead: tuple[str, ...] = ()
    slow: tuple[tuple[str, Fraction, bool], ...] = ()
    runtime: str = ""
    link_model: str = "pipelined"


@dataclass(frozen=True, eq=False)
class Renaming:
    """A symmetry of the network that takes a request to its canonical form.

    devices: int32[devices], the canonical device of each device, None if each is its own. runs: the canonical members
    of each run, None for all NPUs, and the rank of its root, -1 for none. parts: what is dead or slow there.
    ranks: of each run, for each rank of the request the rank in the plan, None if it is dead.
    """

    devices: Int32Array | None
    runs: tuple[tuple[tuple[int, ...] | None, int], ...]
    parts: tuple[Part, ...]
    ranks: tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True, eq=False)
class CanonicalRequest:
    """The canonical form of a request. key: a hash of all that its plan depends on. source: its program, which
    has the schedule SCHEDULE, with the files that it imports.
    """

    key: str
    source: GivenFiles
    runtime: str
    renaming: Renaming


@dataclass(eq=False)
class RequestClasses:
    """Finds the canonical forms of requests on one network, for any number of threads.

    head: the program that declares it. named: the network. memory: bytes of the renamings and parts that are
    kept.
    """

    head: SourceFile
    named: NamedNetwork
    memory: int
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.network = self.named.network
        symmetries = find_symmetries(self.network, lambda _npus: True)
        self._positions = CanonicalPositions(symmetries) if symmetries.all else None
        self._automorphisms = Automorphisms(self.network)
        has_import = re.search(r"^import std\.collectives\b", self.head.text, re.MULTILINE) is not None
        self._head = f"{'' if has_import else 'import std.collectives'}\n{self.head.text}\n"
        self._hash = hashlib.sha256(repr((__version__, [*self.named.texts.values()], self._head)).encode())
        self.renamings = BoundedMemory[Renaming](self.memory // 2)
        self._parts = BoundedMemory[tuple[Part, ...]](self.memory // 2)

    def canonical(self, request: PlanRequest) -> CanonicalRequest:
        """The canonical form. Raises SourceError or UsageError for what is no NPU, part or collective."""
        groups = tuple((run.npus, run.root, shapes()[run.collective].by_rule) for run in request.runs)
        asked = groups, tuple(sorted({*request.dead})), tuple(sorted({*request.slow}))
        renaming = self.renamings.value_of(asked, lambda: self._find_renaming(*asked))
        lines = [run.line(self.named.name, *moved) for run, moved in zip(request.runs, renaming.runs, strict=True)]
        options = f'    synthesize auto(link_model: "{request.link_model}")'
        begin = f"schedule {SCHEDULE} on {self.named.name} {{"
        schedule = "\n".join([begin, *lines, options, "}", ""])
        parts = [(part.devices, part.links, part.left) for part in renaming.parts]
        content = repr((schedule, request.runtime, parts))
        key = self._hash.copy()
        key.update(content.encode())
        texts = {Path(self.head.name): self._head + schedule, **self.named.texts}
        return CanonicalRequest(key.hexdigest(), GivenFiles(self.head.name, texts), request.runtime, renaming)

    def _find_parts(self, name: str) -> tuple[Part, ...]:
        with self._lock:  # evaluation of expressions is for one thread
            try:
                return tuple(self.named.find_parts(name))
            except SourceError:
                if "." not in name or "->" in name:
                    raise
                return tuple(self.named.find_parts(flat_name(name)))

    def _slow_parts(self, name: str, left: Fraction, is_rate: bool) -> Iterator[Part]:
        """Parts that are slow. Raises UsageError U0163 if that is no part of their bandwidth."""
        for part in self._parts.value_of(name, partial(self._find_parts, name)):
            share = share_left(self.network, part, left, is_rate=is_rate)
            if share is None:
                given = shown_rate(left) if is_rate else decimal(left)
                message = f"slow: {given} is no part of the bandwidth of {part.name}"
                raise UsageError(Diagnostic("U0163", message, hint="less than a link of it has, or a share, as 1/2"))
            yield replace(part, left=share)

    def _find_renaming(
        self,
        groups: tuple[tuple[tuple[int, ...] | None, int, bool], ...],
        dead: tuple[str, ...],
        slow: tuple[tuple[str, Fraction, bool], ...],
    ) -> Renaming:
        """The renaming for some runs, each with its members, its root and whether the order of its members is free."""
        parts = [part for name in dead for part in self._parts.value_of(name, partial(self._find_parts, name))]
        parts += [part for each in slow for part in self._slow_parts(*each)]
        members = [self._check_group(npus, root) for npus, root, _ in groups]
        devices: Int32Array | None = None
        if self._positions is not None and (parts or any(npus is not None or root >= 0 for npus, root, _ in groups)):
            colours = np.zeros(self.network.npu_count, np.uint64)
            for number, (own, (_, root, by_rule)) in enumerate(zip(members, groups, strict=True)):
                role = np.zeros(len(own), np.int64) if by_rule else np.arange(len(own))
                if root >= 0:
                    role[root] += 1
                np.add.at(colours, own, mix_bits(mix_bits((role + 1).astype(np.uint64)) + np.uint64(number)))
            colours += self._marks_of(parts)
            marked = np.flatnonzero(colours).astype(np.int32)
            devices = self._extend(self._positions.find(marked, colours[marked]))
        moved = np.arange(self.network.device_count, dtype=np.int32) if devices is None else devices
        lost = {device for part in parts if not part.left for device in part.devices}
        runs: list[tuple[tuple[int, ...] | None, int]] = []
        ranks: list[tuple[int | None, ...]] = []
        for own, (npus, root, by_rule) in zip(members, groups, strict=True):
            images: list[int] = moved[own].tolist()
            order = sorted(images) if by_rule else images
            place = {npu: rank for rank, npu in enumerate(order)}
            runs.append((None if npus is None else tuple(order), place[images[root]] if root >= 0 else -1))
            left = {npu for npu, old in zip(images, own.tolist(), strict=True) if old not in lost}
            new = {npu: rank for rank, npu in enumerate(filter(left.__contains__, order))}
            ranks.append(tuple(new.get(npu) for npu in images))
        return Renaming(devices, tuple(runs), _move_parts(parts, moved), tuple(ranks))

    def _check_group(self, npus: tuple[int, ...] | None, root: int) -> Int32Array:
        """The members of a group. Raises UsageError U0163 for what is none."""
        members = self.network.npus if npus is None else np.array(npus, np.int64)
        if npus is not None:
            wrong = [npu for npu in npus if not 0 <= npu < self.network.npu_count]
            if wrong or len({*npus}) < len(npus) or len(npus) < 2:
                what = f"NPU {wrong[0]} does not exist" if wrong else "a group has two or more different members"
                hint = f"there are {plural(self.network.npu_count, 'NPU')}"
                raise UsageError(Diagnostic("U0163", f"npus: {what}", hint=hint))
        if root >= len(members):
            raise UsageError(Diagnostic("U0163", f"root: the group has no rank {root}"))
        return members.astype(np.int32)

    def _marks_of(self, parts: Sequence[Part]) -> Colours:
        """uint64[NPUs]: marks of the NPUs nearest to devices that are dead or slow, and to the ends of such links."""
        marks = np.zeros(self.network.npu_count, np.uint64)
        for part in parts:
            ends = [(device, 1) for device in part.devices]
            ends += [(device, 2 + side) for pair in part.links for side, device in enumerate(pair)]
            for device, kind in ends:
                near = self._nearest_npus(device)
                left = int(part.left * 2**32)
                value = np.array([kind + 4 * (device >= self.network.npu_count) + 8 * left], np.uint64)
                np.add.at(marks, near, mix_bits(mix_bits(value) + np.uint64(len(near))))
        return marks

    def _nearest_npus(self, device: int) -> Int32Array:
        """The NPUs from which fewest links lead to a device."""
        source, target, n = self.network.source, self.network.target, self.network.npu_count
        reached = np.array([device], np.int32)
        while not (reached < n).any():
            before, reached = reached, np.union1d(reached, source[np.isin(target, reached)])
            if len(reached) == len(before):
                break
        return reached[reached < n].astype(np.int32)

    def _extend(self, npus: Int32Array) -> Int32Array | None:
        """int32[devices]: where all devices go if the NPUs go to `npus`; None if none moves, or that is no symmetry."""
        extended = self._automorphisms.extend(npus)
        if extended is None or not is_automorphism(self.network, extended[0]):
            return None
        return None if np.array_equal(extended[0], np.arange(len(extended[0]))) else extended[0]


def _move_parts(parts: Sequence[Part], devices: Int32Array) -> tuple[Part, ...]:
    """All parts after their devices have moved, as one for each share that is left."""
    moved: list[Part] = []
    for left in sorted({part.left for part in parts}):
        own = [part for part in parts if part.left == left]
        failed = sorted({int(devices[device]) for part in own for device in part.devices})
        links = sorted({(int(devices[a]), int(devices[b])) for part in own for a, b in part.links})
        moved.append(Part("slow" if left else "dead", tuple(failed), tuple(links), left=left))
    return tuple(moved)
