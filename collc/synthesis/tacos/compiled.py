"""Matching driven by events for large networks: sets up the arrays of collc.kernels.matching_events."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from collc.synthesis.tacos.events import EventRule, Levels, Rows
from collc.synthesis.tacos.problem import CopyProblem
from collc.ten.arrays import BoolArray, Int64Array, UInt64Array

if TYPE_CHECKING:
    from collc.kernels.matching_events import State, Wires


FOREVER = 1 << 62

SOME = 1 << 17
"""Transfers between two questions whether to go on."""


def compiled_rows(
    problem: CopyProblem,
    levels: Levels,
    rule: EventRule,
    limit: int | None = None,
    go_on: Callable[[float], bool] = lambda _share: True,
) -> Rows | None:
    """As event_rows, and with the same result; None also where `go_on`, which is told now and then which share is
    planned, says no.
    """
    from collc.kernels import matching_events as kernels

    names = list(range(problem.count))
    if rule.seed is not None:
        random.Random(rule.seed).shuffle(names)
    name = np.array(names, np.int64)
    back = np.argsort(name)
    number = np.lexsort((np.array(levels.level), problem.network.target))
    given = _given(problem, name)
    wires = _wires(problem, levels, number, given)
    state = _state(problem, levels, number, name, given)
    kernels.begin(wires, state)
    verdict = kernels.RUNNING
    while verdict == kernels.RUNNING:
        if not go_on(int(state.tally[kernels.COUNT]) / max(1, problem.missing)):
            return None
        verdict = kernels.run(wires, state, rule.fifo, rule.deadline, FOREVER if limit is None else limit, SOME)
    if verdict == kernels.CLASHES:
        raise AssertionError("a wanted chunk cannot be reached")
    if verdict == kernels.TOO_LONG:
        return None
    chunk, link = (state.transfer[:, column] for column in (kernels.CHUNK, kernels.LINK))
    return Rows(back[chunk].astype(np.int32), number[link].astype(np.int32), state.start, int(state.tally[kernels.END]))


def _given(problem: CopyProblem, name: Int64Array) -> Int64Array:
    """int64[preconditions, 3]: (release, device, chunk), by release, then by chunk as renamed, then by device."""
    device, chunk = problem.held
    release = problem.release[chunk]
    order = np.lexsort((device, name[chunk], release))
    found: Int64Array = np.stack([release, device, name[chunk]], axis=1).astype(np.int64)
    return np.ascontiguousarray(found[order])


def _wires(problem: CopyProblem, levels: Levels, number: Int64Array, given: Int64Array) -> Wires:
    from collc.kernels.matching_events import Wires

    network = problem.network
    pairs = np.unique(network.source.astype(np.int64) * problem.devices + network.target)
    spans = [problem.reserved.get(link, []) for link in number.tolist()]
    return Wires(
        first=network.in_links[0],
        ahead_first=np.searchsorted(pairs // problem.devices, np.arange(problem.devices + 1)).astype(np.int32),
        ahead=(pairs % problem.devices).astype(np.int32),
        component=np.array(levels.component, np.int32),
        duration=np.concatenate([problem.total.ravel(), problem.busy.ravel()]).astype(np.int64),
        sizes=problem.total.shape[1],
        taken_first=np.concatenate([[0], np.cumsum([len(some) for some in spans])]).astype(np.int32),
        taken=np.array([span for some in spans for span in some], np.int64).reshape(-1, 2),
        given=given,
    )


def _state(problem: CopyProblem, levels: Levels, number: Int64Array, name: Int64Array, given: Int64Array) -> State:
    from collc.kernels.matching_events import State

    network, devices, links = problem.network, problem.devices, problem.network.link_count
    wanted = np.zeros((devices, problem.count), np.bool_)
    for group in np.unique(problem.want).tolist():
        wanted[np.ix_(problem.sets[group], name[problem.want == group])] = True
    wanted[given[:, 1], given[:, 2]] = False
    need = _words(wanted)
    lacks = wanted.sum(axis=1).astype(np.int64)
    room = lacks + np.bincount(given[:, 1], minlength=devices)
    base = np.cumsum(room) - room
    rank = np.array(levels.level, np.int64)
    component = np.array(levels.component, np.int64)[rank, network.target]
    link = np.zeros((links, 8), np.int64)
    link[:, :5] = np.stack([network.source, network.target, network.kind, rank, component], axis=1)[number]
    chunk = np.zeros((problem.count, 2), np.int32)
    chunk[name, 0] = problem.size_of
    sets = np.zeros((2 + len(levels.component), *need.shape), np.uint64)
    sets[1] = need
    queues = 2 * problem.total.size
    return State(
        tally=np.zeros(7, np.int64),
        link=link,
        device=np.stack([base, np.zeros(devices, np.int64), lacks], axis=1).astype(np.int64),
        chunk=chunk,
        transfer=np.zeros((problem.missing, 4), np.int32),
        start=np.zeros(problem.missing, np.int64),
        queue=np.full((queues, 2), -1, np.int32),
        heap=np.zeros((queues + links + 1, 2), np.int64),
        due=np.zeros(queues // 2, np.int32),
        woken=np.zeros(-(-devices // 64), np.uint64),
        sets=sets,
        order=np.zeros(int(room.sum()), np.int32),
        exact=np.zeros((int(np.diff(network.in_links[0]).max()) + 2, need.shape[1]), np.uint64),
    )


def _words(bits: BoolArray) -> UInt64Array:
    """Rows of bits in 64-bit words, the first bit lowest."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 8), np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8").astype(np.uint64)
