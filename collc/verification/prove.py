"""The properties of a schedule as formulas over its times, for Z3; they share no code with `verify_schedule`.

Each property is negated; "unsat" proves it. What the formulas do not cover (several partials of one chunk in one
switch) is told as undecided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from collc.units import serialization_time
from collc.verification.smt import Certificate, Script, all_of, either, solve

MOST_TRANSFERS: Final = 20_000
MOST_TERMS: Final = 2_000_000
Outcome = Literal["proved", "refuted", "undecided"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved of a schedule.

    outcomes: by the names of the checks of `verify_schedule`. reasons: in words, where one is undecided.
    certificates: what the solver was asked.
    """

    outcomes: dict[str, Outcome]
    reasons: dict[str, str]
    certificates: dict[str, Certificate]

    @property
    def answer(self) -> Outcome:
        """Of all properties together."""
        found = set(self.outcomes.values())
        return "refuted" if "refuted" in found else "undecided" if "undecided" in found else "proved"


@dataclass(frozen=True, slots=True)
class _Move:
    """A transfer; t: the constant that is its start. busy, total: picoseconds."""

    number: int
    chunk: int
    link: int
    source: int
    target: int
    start: int
    reduce: bool
    busy: int
    total: int

    @property
    def t(self) -> str:
        return f"t{self.number}"

    @property
    def end(self) -> str:
        """When the link is free."""
        return f"(+ {self.t} {self.busy})"

    @property
    def arrival(self) -> str:
        """When the chunk is there."""
        return f"(+ {self.t} {self.total})"


class _Unclear(Exception):
    """A property that the formulas do not cover."""


class _World:
    """The schedule as plain moves, grouped."""

    def __init__(self, module: Module) -> None:
        assert module.schedule is not None
        self.module, self.network, self.table = module, module.network, module.demand.chunks
        rows, store = module.schedule.transfers, module.schedule.model is LinkModel.STORE
        self.moves: list[_Move] = []
        times: list[tuple[int, bool]] = list(zip(rows.start.tolist(), rows.reduce.tolist(), strict=True))
        columns = zip(rows.chunk.tolist(), rows.link.tolist(), times, strict=True)
        for number, (chunk, link, (start, reduce)) in enumerate(columns):
            ends = self._ends(chunk, link)
            kind = self.network.kinds[int(self.network.kind[link])]
            if kind.bandwidth is None or kind.latency is None:
                raise _Unclear("links have no bandwidth or latency")
            wire = serialization_time(int(self.table.size[chunk]), kind.bandwidth)
            total = wire + kind.latency
            busy = total if store else wire
            self.moves.append(_Move(number, chunk, link, *ends, start, reduce, busy, total))
        if any(move.total <= 0 for move in self.moves):
            raise _Unclear("transfers take no time")

    def _ends(self, chunk: int, link: int) -> tuple[int, int]:
        if not (0 <= link < self.network.link_count and 0 <= chunk < len(self.table)):
            raise _Unclear("a transfer is of a chunk or a link that is not there")
        source, target = int(self.network.source[link]), int(self.network.target[link])
        if source == target or not (self.network.present[source] and self.network.present[target]):
            raise _Unclear("a transfer has no two devices that are there")
        return source, target

    @cached_property
    def into(self) -> dict[tuple[int, int], list[_Move]]:
        """Moves by (chunk, target)."""
        found: dict[tuple[int, int], list[_Move]] = defaultdict(list)
        for move in self.moves:
            found[move.chunk, move.target].append(move)
        return found

    @cached_property
    def out_of(self) -> dict[tuple[int, int], list[_Move]]:
        """Moves by (chunk, source)."""
        found: dict[tuple[int, int], list[_Move]] = defaultdict(list)
        for move in self.moves:
            found[move.chunk, move.source].append(move)
        return found

    def holders(self, chunk: int) -> list[int]:
        """Of the precondition."""
        return self.table.sets[int(self.table.pre[chunk])].tolist()

    def wanted(self, chunk: int) -> list[int]:
        """Holders of the postcondition, where it is due."""
        planned = self.module.planned
        if planned is not None and self.module.demand.run_of(chunk) not in planned:
            return []
        return self.table.sets[int(self.table.post[chunk])].tolist()

    def reduced(self, chunk: int) -> bool:
        """Whether a chunk is a reduction."""
        return int(self.table.op[chunk]) != Op.COPY


def _causality(world: _World, _script: Script) -> Iterator[str]:
    for move in world.moves:
        yield f"(>= {move.t} 0)"
        if move.source not in world.holders(move.chunk):
            yield either(f"(<= {m.arrival} {move.t})" for m in world.into[move.chunk, move.source])


def _congestion(world: _World, _script: Script) -> Iterator[str]:
    last: dict[int, _Move] = {}
    for move in world.moves:
        if move.link in last:
            yield f"(<= {last[move.link].end} {move.t})"
        last[move.link] = move


def _delivered(world: _World, _script: Script) -> Iterator[str]:
    """Copies: all are sent by whoever holds them (causality), so an arrival is enough. Reductions: `_reductions`."""
    for chunk in range(len(world.table)):
        held = set(world.holders(chunk))
        for npu in world.wanted(chunk):
            yield "true" if npu in held or world.into[chunk, npu] else "false"


@dataclass(frozen=True, slots=True)
class _Sum:
    """The contributions of one reduction, as bits of a vector."""

    world: _World
    chunk: int
    pre: tuple[int, ...]

    @property
    def full(self) -> str:
        """All contributions."""
        return "#b" + "1" * len(self.pre)

    @property
    def nothing(self) -> str:
        """No contribution."""
        return "#b" + "0" * len(self.pre)

    def value(self, move: _Move) -> str:
        """The constant for what a move carries."""
        return f"v{move.number}"

    def at(self, device: int, time: str | None, moves: list[_Move]) -> str:
        """What a device has at a time (None: at the end), of the arrivals `moves`."""
        copies = [m for m in moves if not m.reduce]

        def replaced(since: str | None, strictly: bool) -> str:
            """A copy came after `since` and until `time`."""
            terms: list[str] = []
            for m in copies:
                bounds = [f"({'<' if strictly else '<='} {since} {m.arrival})"] if since is not None else []
                bounds += [f"(<= {m.arrival} {time})"] if time is not None else []
                terms.append(all_of(bounds))
            return either(terms)

        parts = [self.nothing]
        if device in self.pre:
            own = "".join("1" if npu == device else "0" for npu in self.pre)
            parts.append(f"(ite {replaced(None, False)} {self.nothing} #b{own})")
        for m in moves:
            there = f"(<= {m.arrival} {time})" if time is not None else "true"
            stays = f"(and {there} (not {replaced(m.arrival, True)}))"
            parts.append(f"(ite {stays} {self.value(m)} {self.nothing})")
        return f"(bvor {' '.join(parts)})" if len(parts) > 1 else parts[0]


def _reductions(world: _World, script: Script) -> Iterator[str]:
    for move in world.moves:
        if move.reduce and not world.reduced(move.chunk):
            yield "false"
    by_chunk: dict[int, list[_Move]] = defaultdict(list)
    for move in world.moves:
        by_chunk[move.chunk].append(move)
    for chunk in range(len(world.table)):
        if world.reduced(chunk):
            yield from _sum(_Sum(world, chunk, tuple(world.holders(chunk))), by_chunk[chunk], script)


def _sum(total: _Sum, moves: list[_Move], script: Script) -> Iterator[str]:
    world, chunk = total.world, total.chunk
    if not total.pre:
        yield "false" if moves or world.wanted(chunk) else "true"
        return
    sort = f"(_ BitVec {len(total.pre)})"
    for move in moves:
        if move.source >= world.network.npu_count and (
            len(world.into[chunk, move.source]) > 1 or len(world.out_of[chunk, move.source]) > 1
        ):
            raise _Unclear("a switch passes on several partials of one chunk")
        # Moves that start no earlier can not have arrived yet.
        earlier = [m for m in world.into[chunk, move.source] if m.start < move.start]
        script.define(total.value(move), sort, total.at(move.source, move.t, earlier))
    for move in moves:
        value = total.value(move)
        yield f"(not (= {value} {total.nothing}))"
        if not move.reduce:
            yield f"(= {value} {total.full})"
            continue
        # What the receiver has just before: of what arrives at once, copies, and partials on links before this one.
        others = [
            m
            for m in world.into[chunk, move.target]
            if m is not move and (m.start + m.total, m.reduce, m.link) <= (move.start + move.total, True, move.link)
        ]
        yield f"(= {total.nothing} (bvand {value} {total.at(move.target, move.arrival, others)}))"
    for npu in world.wanted(chunk):
        yield f"(= {total.full} {total.at(npu, None, world.into[chunk, npu])})"


def _switches(world: _World, _script: Script) -> Iterator[str]:
    network = world.network
    places: dict[int, list[tuple[_Move, list[_Move]]]] = defaultdict(list)
    for (chunk, switch), leaving in world.out_of.items():
        if switch < network.npu_count:
            continue
        number = switch - network.npu_count
        limited = int(network.buffers[number]) >= 0
        arrivals = world.into[chunk, switch]
        if len(arrivals) != 1 and (limited or not network.multicast[number]):
            raise _Unclear("a switch gets one chunk several times")
        if not network.multicast[number]:
            for a, b in pairwise(leaving):
                yield f"(<= {a.end} {b.t})"
        if limited:
            places[switch].append((arrivals[0], leaving))
    for switch, found in places.items():
        limit = int(network.buffers[switch - network.npu_count])
        for here, _ in found:
            taken = (_taken(here, other, leaving) for other, leaving in found)
            yield f"(<= (+ 0 {' '.join(taken)}) {limit})"


def _taken(here: _Move, other: _Move, leaving: list[_Move]) -> str:
    """1 where the place of `other`, which `leaving` empty, is taken when `here` arrives."""
    later = either(f"(> {m.end} {here.arrival})" for m in leaving)
    return f"(ite (and (<= {other.arrival} {here.arrival}) {later}) 1 0)"


_PROPERTIES: Final[dict[str, Callable[[_World, Script], Iterator[str]]]] = {
    "causality": _causality,
    "congestion_free": _congestion,
    "delivered": _delivered,
    "reductions": _reductions,
    "switches": _switches,
}


def prove_properties(
    module: Module, timeout: float = 60.0, progress: Callable[[float, str], None] = lambda _share, _words: None
) -> Proof:
    """Prove the properties that `verify_schedule` checks; `timeout` is in seconds, for each of them.

    "delivered" of reductions is part of "reductions".
    """
    outcomes: dict[str, Outcome] = {}
    reasons: dict[str, str] = {}
    certificates: dict[str, Certificate] = {}
    for number, name in enumerate(_PROPERTIES):
        progress(number / len(_PROPERTIES), f"proving {name}")
        try:
            certificate = _prove(module, name, timeout)
        except _Unclear as why:
            outcomes[name], reasons[name] = "undecided", str(why)
            continue
        certificates[name] = certificate
        answers: dict[str, Outcome] = {"unsat": "proved", "sat": "refuted", "unknown": "undecided"}
        outcomes[name] = answers[certificate.answer]
        if certificate.answer == "unknown":
            reasons[name] = f"Z3 found no answer within {timeout:g} s"
    return Proof(outcomes, reasons, certificates)


def _prove(module: Module, name: str, timeout: float) -> Certificate:
    if module.schedule is None:
        raise _Unclear("there is no schedule")
    if len(module.schedule) > MOST_TRANSFERS:
        raise _Unclear(f"more than {MOST_TRANSFERS} transfers are too many for a proof")
    world = _World(module)
    script = Script("ALL", f"{name} of a schedule with {len(world.moves)} transfers: unsat means that it holds")
    for move in world.moves:
        script.declare(move.t, "Int")
        script.holds(f"(= {move.t} {move.start if move.start >= 0 else f'(- {-move.start})'})")
    terms: list[str] = []
    length = 0
    for term in _PROPERTIES[name](world, script):
        terms.append(term)
        length += len(term)
        if length > 100 * MOST_TERMS:
            raise _Unclear("the formula is too large")
    script.holds(f"(not {all_of(terms)})")
    return solve(script.text(), timeout, finite=False)[0]
