"""Matching driven by events for large networks: sets up the arrays of collc.kernels.matching_events."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.matching import CopyProblem
from collc.synthesis.matching_events import EventRule, Levels, Rows

if TYPE_CHECKING:
    from collc.kernels.matching_events import State, Wires

Ints = NDArray[np.int32]
Times = NDArray[np.int64]
Words = NDArray[np.uint64]

FOREVER = 1 << 62


def compiled_rows(problem: CopyProblem, levels: Levels, rule: EventRule, limit: int | None = None) -> Rows | None:
    """As event_rows, and with the same result."""
    from collc.kernels import matching_events as kernels

    names = list(range(problem.count))
    if rule.seed is not None:
        random.Random(rule.seed).shuffle(names)
    name = np.array(names, np.int64)
    back = np.argsort(name)
    given = _given(problem, name)
    wires = _wires(problem, levels, back, given)
    state = _state(problem, levels, name, given)
    end = kernels.run(wires, state, rule.fifo, rule.deadline, FOREVER if limit is None else limit)
    if end == kernels.CLASHES:
        raise AssertionError("a wanted chunk cannot be reached")
    if end == kernels.TOO_LONG:
        return None
    return Rows(back[state.row[:, 0]].astype(np.int32), state.row[:, 1], state.start, int(end))


def _given(problem: CopyProblem, name: Times) -> Times:
    """int64[preconditions, 3]: (release, device, chunk), by chunk as renamed, then by device."""
    sizes = problem.sets.sizes[problem.pre]
    chunk = np.repeat(np.arange(problem.count), sizes)
    first = np.repeat(problem.sets.offsets[problem.pre] - (np.cumsum(sizes) - sizes), sizes)
    device = problem.sets.members[first + np.arange(len(chunk))].astype(np.int64)
    order = np.lexsort((device, name[chunk]))
    found: Times = np.stack([problem.release[chunk], device, name[chunk]], axis=1).astype(np.int64)
    return np.ascontiguousarray(found[order])


def _wires(problem: CopyProblem, levels: Levels, back: Times, given: Times) -> Wires:
    from collc.kernels.matching_events import Wires

    network = problem.network
    level = np.array(levels.level, np.int32)
    number = np.lexsort((np.arange(len(level)), level, network.target)).astype(np.int32)
    first = np.searchsorted(network.target[number], np.arange(problem.devices + 1)).astype(np.int32)
    pairs = np.unique(network.source.astype(np.int64) * problem.devices + network.target)
    ahead_first = np.searchsorted(pairs // problem.devices, np.arange(problem.devices + 1)).astype(np.int32)
    spans = [problem.reserved.get(link, []) for link in range(network.link_count)]
    taken_first = np.concatenate([[0], np.cumsum([len(s) for s in spans])]).astype(np.int32)
    taken = np.array([span for some in spans for span in some], np.int64).reshape(-1, 2)
    return Wires(
        first,
        number,
        network.source.astype(np.int32),
        network.target.astype(np.int32),
        network.kind.astype(np.int32),
        level,
        ahead_first,
        (pairs % problem.devices).astype(np.int32),
        np.array(levels.component, np.int32),
        np.ascontiguousarray(problem.busy, np.int64),
        np.ascontiguousarray(problem.total, np.int64),
        problem.size_of[back].astype(np.int32),
        taken_first,
        taken,
        given,
    )


def _state(problem: CopyProblem, levels: Levels, name: Times, given: Times) -> State:
    from collc.kernels.matching_events import State

    devices, links, depth = problem.devices, problem.network.link_count, len(levels.component)
    wanted = np.zeros((devices, problem.count), np.bool_)
    for number in np.unique(problem.want).tolist():
        wanted[np.ix_(problem.sets[number], name[problem.want == number])] = True
    wanted[given[:, 1], given[:, 2]] = False
    need = _words(wanted)
    lacks = wanted.sum(axis=1).astype(np.int64)
    room = lacks + np.bincount(given[:, 1], minlength=devices)
    order_first = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    events = len(given) + problem.missing + links
    widest = int(np.bincount(problem.network.target, minlength=devices).max())
    return State(
        np.zeros_like(need),
        need,
        lacks,
        np.zeros((depth, *need.shape), np.uint64),
        np.zeros(int(order_first[-1]), np.int32),
        order_first,
        np.zeros(devices, np.int32),
        np.zeros(links, np.int64),
        np.zeros((2, links), np.int32),
        np.zeros(problem.count, np.int32),
        np.zeros((widest + 2, need.shape[1]), np.uint64),
        np.zeros((problem.missing, 2), np.int32),
        np.zeros(problem.missing, np.int64),
        np.zeros(events, np.int32),
        np.zeros(events, np.int32),
        np.full((2, *problem.busy.shape, 2), -1, np.int64),
    )


def _words(bits: NDArray[np.bool_]) -> Words:
    """Rows of bits in 64-bit words, the first bit lowest."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 8), np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8").astype(np.uint64)
