"""Whether parts of a module are what they declare: runs standard collectives, tables their number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from collc.base.units import format_bytes, format_time
from collc.base.wording import phrase
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import ChunkTable, Op, Run, Standard
from collc.ten.schedule import LATEST_KEY, StepSchedule
from collc.ten.standard_collectives import CollectiveShape, Holders, shapes

Part = Literal["kind", "size", "chunks", "root", "op"]
"""The part of a `Standard` that the run contradicts."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The part of a `Standard` that is not what the run is, and why, in words."""

    part: Part
    message: str


def contradiction(run: Run) -> Contradiction | None:
    """What a run says of itself in `standard` and is not; None if there is nothing of the kind."""
    standard, table = run.standard, run.pattern.expand()
    if standard is None:
        return None
    shape = shapes().get(standard.kind)
    if shape is None:
        message = f"there is no standard collective '{standard.kind}': there are {phrase(shapes())}"
        return Contradiction("kind", message)
    wrong = _wrong_op(standard, table, reduces=shape.reduces)
    if wrong or len(run.group) == 0:
        return wrong
    return _wrong_blocks(run, standard, table, shape) if shape.equal else _wrong_rows(run, standard, table)


def follows_rule(run: Run) -> bool:
    """Whether the arguments of a standard collective say which member holds which chunk of a run. Chunks that are not
    listed are as they say.
    """
    if run.standard is None or not run.standard.shape.by_rule:
        return False
    return not isinstance(run.pattern, ChunkTable) or contradiction(run) is None


def wrong_steps(schedule: StepSchedule) -> str:
    """What the head of a step-by-link table says and its steps refute; "" if there is nothing of the kind."""
    steps = len(schedule.chunk)
    if schedule.reduce_steps > steps:
        return f"{schedule.reduce_steps} of {steps} steps cannot reduce"
    if steps * schedule.step >= LATEST_KEY:
        return f"{steps} steps of {format_time(schedule.step)} are longer than 53 days"
    if steps and not (schedule.chunk[-1] != schedule.no_chunk).any():
        return f"the last of {steps} steps has no transfer: a schedule ends with its last transfer"
    return ""


def _wrong_op(standard: Standard, table: ChunkTable, *, reduces: bool) -> Contradiction | None:
    if (standard.op != Op.COPY) != reduces:
        return Contradiction("op", f"{standard.kind} {'needs an' if reduces else 'has no'} op")
    others = np.flatnonzero(table.op != standard.op)
    if not len(others):
        return None
    name, first = standard.op.name.lower(), Op(int(table.op[others[0]]))
    operation = "copied" if first is Op.COPY else f"reduced with {first.name.lower()}"
    wanted = f"op {name}" if reduces else f"{standard.kind} reduces nothing"
    return Contradiction("op" if reduces else "kind", f"{wanted}, but chunk {others[0]} of the run is {operation}")


def _wrong_blocks(run: Run, standard: Standard, table: ChunkTable, shape: CollectiveShape) -> Contradiction | None:
    """The first contradiction of a collective of equal chunks."""
    n, chunks, kind = len(run.group), standard.chunks, standard.kind
    if shape.has_root != (standard.root >= 0) or standard.root >= n:
        rule = f"has a root of 0 to {n - 1}" if shape.has_root else "has no root"
        return Contradiction("root", f"{kind} over {n} NPUs {rule}")
    if chunks < 1 or len(table) != shape.blocks(n) * chunks:
        rule = f"{chunks} chunks per block of {kind} over {n} NPUs are {shape.blocks(n) * chunks} chunks"
        return Contradiction("chunks", f"{rule}, and the run has {len(table)}")
    whole = int(table.size[0]) * shape.parts(n) * chunks
    if (table.size != table.size[0]).any():
        return Contradiction("size", f"the chunks of {kind} are of equal size, and these are not")
    if whole != standard.size:
        return Contradiction("size", f"the chunks of the run make up {format_bytes(whole)}")
    ends: tuple[tuple[str, Holders, Int32Array], ...]
    ends = ("pre", shape.start, table.pre), ("post", shape.end, table.post)
    for name, holders, column in ends:
        wrong = np.flatnonzero(~_as_declared(run, table, column, holders))
        if len(wrong):
            part: Part = "root" if holders == "root" else "kind"
            whose = f"{kind} with root {standard.root}" if shape.has_root else kind
            return Contradiction(part, f"the {name}condition of chunk {wrong[0]} of the run is not that of {whose}")
    return None


def _as_declared(run: Run, table: ChunkTable, column: Int32Array, holders: Holders) -> BoolArray:
    """bool[chunks]: whether the holders of each chunk are those of the collective."""
    assert run.standard is not None
    sets, n = table.sets, len(run.group)
    if holders == "some":
        inside = np.isin(sets.members, run.group)
        outside = np.concatenate([[0], np.cumsum(~inside)])
        return (outside[sets.offsets[1:]] == outside[sets.offsets[:-1]])[column]
    if holders == "one":
        return np.isin(_only_member(table, column), run.group)
    if holders == "all":
        everyone = np.unique(run.group)
        right = np.zeros(len(sets), np.bool_)
        for number in np.unique(column).tolist():
            right[number] = np.array_equal(sets[number], everyone)
        return right[column]
    block = np.arange(len(table), dtype=np.int64) // run.standard.chunks
    rank: dict[Holders, Int64Array] = {"block": block, "sender": block // n, "receiver": block % n}
    wanted = run.group[rank[holders]] if holders in rank else run.group[run.standard.root]
    return _only_member(table, column) == wanted


def _only_member(table: ChunkTable, column: Int32Array) -> Int32Array:
    """int32[chunks]: the member of the set of each chunk, -1 for sets of any other size."""
    sets = table.sets
    single = sets.sizes == 1
    only = np.full(len(sets), -1, np.int32)
    only[single] = sets.members[sets.offsets[:-1][single]]
    return only[column]


def _wrong_rows(run: Run, standard: Standard, table: ChunkTable) -> Contradiction | None:
    """The first contradiction of `all_to_allv`: chunks of any size from a member to a member."""
    if standard.root >= 0:
        return Contradiction("root", f"{standard.kind} has no root")
    sender, receiver = _only_member(table, table.pre), _only_member(table, table.post)
    between = np.isin(sender, run.group) & np.isin(receiver, run.group)
    if not between.all():
        chunk = int(np.flatnonzero(~between)[0])
        return Contradiction("kind", f"chunk {chunk} of the run does not go from a member to a member")
    members, row = np.unique(sender, return_inverse=True)
    rows = np.zeros(len(members), np.int64)
    np.add.at(rows, row, table.size)
    if rows.max(initial=0) != standard.size:
        most = format_bytes(int(rows.max(initial=0)))
        return Contradiction("size", f"the NPU that sends most sends {most}")
    return None
