"""Threadblocks for switch channels: of more GPUs than a threadblock can signal, and for partial sums.

If a switch has more GPUs, one threadblock of a GPU does its operations over the switch. Others signal and await up to
16 GPUs each: they tell it, with semaphores, that these have begun, and it tells them what it has stored.

If switches add inside nodes and ports join these, many partial sums begin at once in threadblocks by chunk, and the
totals wait behind all of them for the links to the switch. In turn, and before everything else of their threadblock,
sums and totals share these links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from collc.msccl.limits import PLAN_CHANNELS
from collc.msccl.program import ARRIVES, LEAVES, Gpu, Message, Op, Program, Slot, Step, Threadblock

_MOST_STORES: Final = 6
"""Operations over the switch of a GPU: to signal and to await one takes up to eight operations of a threadblock."""


def is_large(messages: Sequence[Message]) -> bool:
    """Whether a switch channel has more GPUs than a threadblock can signal."""
    return any(message.switch is not None and len(message.switch.ranks) > PLAN_CHANNELS + 1 for message in messages)


def large_groups_fit(messages: Sequence[Message]) -> bool:
    """Whether all messages go over switch channels of the same GPUs, few enough, and are few enough operations."""
    groups = {message.switch.ranks for message in messages if message.switch is not None}
    stores: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for message in messages:
        stores[message.source].add((message.chunk, message.start))
    return (
        len(groups) == 1
        and all(message.switch is not None for message in messages)
        and max(map(len, stores.values()), default=0) <= _MOST_STORES
    )


def with_helpers(program: Program) -> Program:
    """The program, after `select`, with threadblocks. Its messages are as `large_groups_fit` says."""
    return replace(program, gpus=tuple(_with_helpers(program, gpu) for gpu in program.gpus))


def _chunk_first(program: Program, step: Step) -> tuple[int, int, int]:
    """The order of messages in which those of one channel are far apart: (chunk, sender, receiver)."""
    message = program.messages[max(step.send, step.receive)]
    return message.chunk, message.source, message.target


def _with_helpers(program: Program, gpu: Gpu) -> Gpu:
    """The slots after the scratch stand for what helpers have heard: steps on them are ordered, and move nothing."""
    messages = program.messages
    stores: dict[tuple[Slot | None, int], Step] = {}
    local: list[Step] = []
    by_peer: dict[int, list[Step]] = defaultdict(list)
    for step in gpu.steps:
        if step.receive >= 0:
            by_peer[messages[step.receive].source].append(step)
        elif step.send >= 0:
            access = messages[step.send].switch
            store = replace(step, op=Op.COPY, when=(step.when[0], ARRIVES, *step.when[2:]), send=-1, switch=access)
            stores.setdefault((step.src, step.when[0]), store)
            by_peer[messages[step.send].target].append(step)
        else:
            local.append(step)
    peers = sorted(by_peer)
    count = -(-len(peers) // PLAN_CHANNELS)
    parts = [peers[k * len(peers) // count : (k + 1) * len(peers) // count] for k in range(count)]
    heard = [Slot("s", gpu.scratch_chunks + k) for k in range(count)]
    first = [Step(Op.NOP, (-1, 0, k, 0), 1, src=slot) for k, slot in enumerate(heard)]
    blocks = [[*first, *sorted([*stores.values(), *local], key=lambda step: step.when)]]
    last = max(stores.values(), key=lambda store: store.when, default=None)
    latest = 0 if last is None else last.when[0]
    arrived = max((step.when[0] for step in gpu.steps), default=0) + 1
    group = next(message.switch for message in messages)
    for part, slot in zip(parts, heard, strict=True):
        begun = Step(Op.NOP, (-2, 0, slot.offset, 0), 1, dst=slot, switch=group)
        done = [] if last is None else [Step(Op.NOP, (latest, LEAVES, -1, 0), 1, src=last.dst)]
        steps = sorted((step for peer in part for step in by_peer[peer]), key=lambda one: _chunk_first(program, one))
        sends = [step for step in steps if step.send >= 0]
        signals = [
            replace(send, when=(latest, LEAVES, k, 0), src=None, dst=None)  # of what the first threadblock stored
            for k, send in enumerate(sends)
        ]
        received = (step for step in steps if step.receive >= 0)
        receives = [replace(receive, when=(arrived, ARRIVES, k, 0)) for k, receive in enumerate(received)]
        blocks.append([begun, *done, *signals, *receives])
    return replace(gpu, steps=(), threadblocks=tuple(Threadblock(-1, -1, 0, tuple(block)) for block in blocks))


_MOST_SUMS: Final = 9
"""Most partial sums of a threadblock: each takes five operations."""


def threadblocks_for_sums(program: Program) -> int:
    """How many threadblocks the partial sums of a GPU need at least; 0 if switches make none.

    program: after `select`.
    """
    most = max((sum(step.switch is not None for step in gpu.steps) for gpu in program.gpus), default=0)
    return -(-most // _MOST_SUMS)


def partial_sums_first(program: Program, blocks: int) -> Program:
    """The program, after threadblocks are formed, with the partial sums of a GPU in `blocks` of its threadblocks.

    These are the ones that store totals last. A sum reads the memory of all GPUs of the switch, so it is made only in a
    threadblock that stores to all of them, and thus knows when they have begun.
    """
    return replace(program, gpus=tuple(_sums_first(program, gpu, blocks) for gpu in program.gpus))


def _sums_first(program: Program, gpu: Gpu, blocks: int) -> Gpu:
    sums = _sums_with_sends(program, gpu)
    latest = {
        number: stored[-1]
        for number, tb in enumerate(gpu.threadblocks)
        if (stored := [step.when for step in tb.steps if _stores_total(program, step)])
    }
    hosts = sorted(latest, key=lambda number: latest[number], reverse=True)[:blocks]
    if not hosts:
        return gpu
    count = sum(map(len, sums))
    front: dict[int, list[Step]] = {host: [] for host in hosts}
    moved: set[int] = set()
    for number, group in enumerate(sums):
        for step in group:  # a time of its own, before all others
            front[hosts[number % len(hosts)]].append(replace(step, when=(len(moved) - count, *step.when[1:])))
            moved.add(id(step))
    made = [
        replace(tb, steps=(*front.get(number, ()), *(step for step in tb.steps if id(step) not in moved)))
        for number, tb in enumerate(gpu.threadblocks)
    ]
    return replace(gpu, threadblocks=tuple(tb for tb in made if tb.steps))


def _stores_total(program: Program, step: Step) -> bool:
    return step.op is Op.SEND and program.messages[step.send].switch is not None


def _sums_with_sends(program: Program, gpu: Gpu) -> list[list[Step]]:
    """The partial sums of a GPU in the order of the schedule, each with the sends of nothing but this sum."""
    blocks: list[list[Step]] = []
    unchanged: dict[Slot | None, list[Step]] = {}
    for step in sorted((step for tb in gpu.threadblocks for step in tb.steps), key=lambda step: step.when):
        if step.op is Op.COPY and step.switch is not None and step.dst is not None:
            blocks.append([step])
            unchanged[step.dst] = blocks[-1]
        elif step.op is Op.SEND and not _stores_total(program, step):
            unchanged.get(step.src, []).append(step)
        else:
            for slot in step.writes():
                unchanged.pop(slot, None)
    return blocks
