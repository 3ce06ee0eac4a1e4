"""The check `result`: what a symbolic execution leaves in the outputs, compared with the collective's postcondition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import ne
from typing import Final

from collc.msccl.check.collectives import ExpectedResult, wanted_output
from collc.msccl.check.findings import PER_CODE, FileLocation, Finding, Findings
from collc.msccl.check.values import UNDEFINED, SymbolicValues
from collc.runtime.collectives import INPUT, OUTPUT, REDUCING, ROOTED, MemoryLayout, buffer_sizes

ROOT_WORK: Final = 4_000_000
"""Most steps and slots that are executed to find a root that was not given; a rank counts as `RANK_WORK` slots."""
RANK_WORK: Final = 50


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A call of a collective: its canonical name, ranks, root (-1: none), and the result of a custom collective.

    total: chunks of the total buffer, as `collectives` counts them.
    """

    coll: str
    ranks: int
    total: int
    root: int
    inplace: bool
    expected: ExpectedResult | None = None


@dataclass(frozen=True, slots=True)
class SymbolicState:
    """The memory of all ranks: the number of a value for each slot. outputs: output chunks of each rank."""

    values: SymbolicValues
    memory: list[int]
    layout: MemoryLayout
    outputs: list[int]

    @staticmethod
    def initial(
        call: CollectiveCall, layout: MemoryLayout, inputs: Sequence[int], outputs: Sequence[int]
    ) -> SymbolicState:
        """The memory before a run, in which only the inputs are defined. inputs, outputs: chunks of each rank."""
        size = (buffer_sizes(call.coll, call.ranks, call.total) or (1, 1))[INPUT]
        width = max(1, size, *inputs, call.expected.width if call.expected is not None else 1)
        values, memory = SymbolicValues(call.ranks, width), [UNDEFINED] * layout.size
        for rank, count in enumerate(inputs):
            start, first = int(layout.base[rank, INPUT]), values.input(rank, 0)
            memory[start : start + count] = range(first, first + count)
        return SymbolicState(values, memory, layout, list(outputs))

    def output(self, rank: int, count: int) -> list[int]:
        """The values of the first `count` output chunks of a rank; beyond its buffer they are undefined."""
        start, held = int(self.layout.base[rank, OUTPUT]), min(count, self.outputs[rank])
        return self.memory[start : start + held] + [UNDEFINED] * (count - held)


@dataclass(frozen=True, slots=True)
class WrongOutput:
    """An output slot with another value than it must hold; value, wanted: numbers of `SymbolicValues`."""

    rank: int
    slot: int
    value: int
    wanted: int


def is_right(call: CollectiveCall, state: SymbolicState) -> bool:
    """Whether no output slot has a wrong value."""
    return not any(count for _, count in _wrong_by_rank(call, state, 0))


def check_outputs(
    call: CollectiveCall,
    state: SymbolicState,
    code: str,
    location_of: Callable[[WrongOutput], FileLocation],
    findings: Findings,
) -> None:
    """Add wrong output slots, by rank and slot, to the findings."""
    values, placement = state.values, "in place" if call.inplace else "out of place"
    root = f", root {call.root}" if call.coll in ROOTED else ""
    for wrong, count in _wrong_by_rank(call, state, PER_CODE + 1):
        for miss in wrong:
            details = values.difference(miss.value, miss.wanted)
            text = f"output chunk {miss.slot} of rank {miss.rank} ends with {values.describe(miss.value)}"
            wanted = f"{values.describe(miss.wanted)} ({call.coll}, {placement}{root})"
            detail = f" ({details})" if details else ""
            findings.add(Finding("result", code, text + detail, location_of(miss), wanted))
        findings.counts["result", code] += count - len(wrong)


def _wrong_by_rank(call: CollectiveCall, state: SymbolicState, shown: int) -> Iterator[tuple[list[WrongOutput], int]]:
    """For each rank with wrong slots, the first of them, at most `shown`, and their number."""
    last: tuple[Sequence[int], range] | None = None
    wanted: list[int] = []
    for rank in range(call.ranks):
        if call.expected is not None:
            wrong = _wrong_custom_outputs(rank, call.expected, state)
            if wrong:
                yield wrong[:shown], len(wrong)
            continue
        rule = wanted_output(call.coll, rank, call.ranks, call.total, call.root)
        if rule != last:  # many ranks want the same
            last, wanted = rule, _wanted_values(call.coll, rule, state.values)
        values = state.output(rank, len(wanted))
        if values != wanted:
            pairs = enumerate(zip(values, wanted, strict=True))
            slots = (WrongOutput(rank, slot, a, b) for slot, (a, b) in pairs if a != b)
            yield list(islice(slots, shown)), sum(map(ne, values, wanted))


def _wanted_values(coll: str, rule: tuple[Sequence[int], range] | None, values: SymbolicValues) -> list[int]:
    ranks, chunks = rule or ((), range(0))
    if coll in REDUCING:
        everyone = (1 << len(ranks)) - 1
        return [values.number((((chunk, everyone),), ())) for chunk in chunks]
    return [values.input(rank, chunk) for rank in ranks for chunk in chunks]


def _wrong_custom_outputs(rank: int, expected: ExpectedResult, state: SymbolicState) -> list[WrongOutput]:
    wrong: list[WrongOutput] = []
    slots, values = expected.slots(rank), state.values
    output = state.output(rank, slots[-1] + 1 if slots else 0)
    for slot in slots:
        want = expected.outputs[rank, slot]
        if want.reduced:
            wanted = [values.sum_of(want.contributions)]
        else:
            wanted = sorted(values.input(*contribution) for contribution in want.contributions)
        if output[slot] not in wanted:
            wrong.append(WrongOutput(rank, slot, output[slot], wanted[0] if wanted else UNDEFINED))
    return wrong


def find_root(call: CollectiveCall, execute: Callable[[CollectiveCall], SymbolicState], steps: int) -> int:
    """The rank with which as root the result is right; the likeliest one if there is none.

    steps: how many steps an execution has.
    """
    state = execute(replace(call, root=0))
    votes = _votes(call, state)
    likely = sorted(range(call.ranks), key=lambda rank: -votes[rank])
    work = steps + state.layout.size + RANK_WORK * call.ranks
    tried = (replace(call, root=root) for root in likely[: max(1, ROOT_WORK // work)])
    return next((rooted.root for rooted in tried if is_right(rooted, execute(rooted))), likely[0])


def _votes(call: CollectiveCall, state: SymbolicState) -> list[int]:
    """For each rank a count of what indicates that it is the root, after an execution with another root.

    Broadcast and scatter: the ranks whose first output chunk comes from it. Reduce and gather: the ranks with
    contributions in its output.
    """
    votes, from_root = [0] * call.ranks, call.coll in ("broadcast", "scatter")
    for rank, count in enumerate(state.outputs):
        contributors = 0
        for value in set(state.output(rank, min(1, count) if from_root else count)) - {UNDEFINED}:
            for _, ranks in state.values.parts(value)[0]:
                contributors |= ranks
        if not from_root:
            votes[rank] = contributors.bit_count()
        elif contributors:
            votes[contributors.bit_length() - 1] += 1
    return votes
