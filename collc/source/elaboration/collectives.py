"""Elaboration of collectives, whose chunks have pre- and postconditions, and of algorithms, which send them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Note, Span
from collc.source import limits
from collc.source.elaboration.arithmetic import ALIGNMENT, first_row, item
from collc.source.elaboration.chunks import ChunkIndex, SetPool
from collc.source.elaboration.containers import flatten_lists, sorted_unique
from collc.source.elaboration.evaluate import BodyRows, Evaluator
from collc.source.elaboration.topology_parts import check_npus
from collc.source.elaboration.values import (
    Data,
    Frame,
    Interval,
    ListArray,
    Value,
    is_column,
    loop_frame,
    npu_numbers,
    size_of,
)
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Expr
from collc.source.parsing.syntax import Algorithm, Statement, TransferStatement
from collc.source.problems import fail, unknown_name_error
from collc.source.types import BYTES, INT, NPU, RANGE, STRING, check_place
from collc.ten.algorithm import AlgorithmSends
from collc.ten.arrays import Int64Array, distinct, unique_rows
from collc.ten.demand import ChunkFamily, ChunkTable, Op, Standard
from collc.ten.standard_collectives import shapes

MOST_CHUNKS: Final = 256
"""Chunks per block that are tried at most if the program leaves the number to collc."""

MOST_OF_ONE_BLOCK: Final = 4096
"""Chunks that are tried at most for a collective of one block, such as broadcast, which forms long pipelines."""

OPS: dict[str, Op] = {op.name.lower(): op for op in Op if op is not Op.COPY}


@dataclass(frozen=True, eq=False)
class NamedChunks:
    """The chunks of a run. index: for each family, the chunks by their indices."""

    table: ChunkTable
    index: dict[str, ChunkIndex]

    def find(self, reference: s.ChunkReference, frame: Frame, evaluator: Evaluator) -> Int64Array:
        """int64[iterations]: the chunk that a reference denotes. Raises SourceError if there is none."""
        return find_chunks(reference, frame, evaluator, self.index)


@dataclass(eq=False)
class LazyChunks:
    """A chunk pattern that is expanded on demand. count: number of chunks. span: of the run."""

    count: int
    build: Callable[[], NamedChunks]
    span: Span

    def __len__(self) -> int:
        return self.count

    @cached_property
    def named_chunks(self) -> NamedChunks:
        """The chunks with their names. Raises SourceError if there are too many."""
        limits.check_chunks(self.count, self.span)
        return self.build()

    def expand(self) -> ChunkTable:
        """See ChunkPattern."""
        return self.named_chunks.table


@dataclass(frozen=True, slots=True, eq=False)
class _ConditionRows:
    """A `pre` or `post` statement in all iterations of a frame. sets: its set of NPUs, or one for each iteration."""

    node: s.Precondition | s.Postcondition
    frame: Frame
    sets: int | Int64Array


def expand_collective(node: s.Collective, frame: Frame, evaluator: Evaluator) -> NamedChunks:
    """The chunks of a collective whose parameters are in a frame. Raises SourceError."""
    builder = _CollectiveBuilder(node, evaluator)
    made = evaluator.execute_body(node.body, frame.inner(), builder.handle, 2 + builder.width)
    return builder.finish_chunks(made.table)


def check_first_chunk(node: s.Collective, frame: Frame, evaluator: Evaluator) -> None:
    """Raise the SourceError of the first chunk of a collective, if it has one; its body is a loop from 0.

    So wrong arguments are found even if they stand for more chunks than can be listed.
    """
    builder, (loop,) = _CollectiveBuilder(node, evaluator), node.body
    assert isinstance(loop, s.For)
    for clause in loop.clauses:
        frame = loop_frame(frame, clause.name.name, Value(RANGE, Interval(0, 1)), clause.span)
    builder.finish_chunks(evaluator.execute_body(loop.body, frame.inner(), builder.handle, 2 + builder.width).table)


def statements(body: tuple[s.Statement, ...]) -> Iterator[s.Statement]:
    """All statements of a body, including those inside loops and conditions."""
    for node in body:
        yield node
        if isinstance(node, s.For):
            yield from statements(node.body)
        elif isinstance(node, s.If):
            yield from statements(node.then)
            yield from statements(node.otherwise)


def index_columns(indices: tuple[Expr, ...], frame: Frame, evaluator: Evaluator) -> Int64Array:
    """int64[iterations, indices]: the values of the indices of a chunk. Raises SourceError."""
    table = np.empty((1 if frame.rows is None else frame.rows, len(indices)), np.int64)
    for k, node in enumerate(indices):
        data = evaluator.coerce(node, frame, INT, "an index").data
        if size_of(data) >= 2**31:
            raise fail("E0219", "indices of chunks must be less than 2^31", node.span)
        table[:, k] = data
    return table


def find_chunks(
    reference: s.ChunkReference, frame: Frame, evaluator: Evaluator, index: dict[str, ChunkIndex]
) -> Int64Array:
    """int64[iterations]: the chunk that a reference denotes. Raises SourceError if there is none."""
    name = reference.name.name
    known = index.get(name)
    columns = index_columns(reference.indices, frame, evaluator)
    matches = known is not None and known.low.shape[0] == columns.shape[1]
    chunks = known.find(columns) if known is not None and matches else np.full(len(columns), -1, np.int64)
    row = first_row(chunks < 0)
    if row >= 0:
        wrong = chunk_label(name, columns[row].tolist())
        raise fail("E0407", f"there is no chunk {wrong}", reference.span, frame.note(row))
    return chunks


def chunk_label(name: str, indices: list[int]) -> str:
    """`x[1, 2]`."""
    return f"{name}[{', '.join(map(str, indices))}]" if indices else name


class _CollectiveBuilder:
    """Collects the chunks and conditions of one collective."""

    def __init__(self, node: s.Collective, evaluator: Evaluator) -> None:
        self.node = node
        self.evaluator = evaluator
        self.pool = SetPool()
        self.known_sets: dict[tuple[int, int, int], tuple[ListArray, int]] = {}
        self.conditions: list[_ConditionRows] = []
        self.count = 0
        self.families: dict[str, int] = {}
        self.declared: list[s.ChunkDeclaration] = []
        chunks = (n.chunk for n in statements(node.body) if isinstance(n, s.ChunkDeclaration))
        self.width = max((len(chunk.indices) for chunk in chunks), default=0)

    def handle(self, statement: s.Statement, frame: Frame) -> BodyRows | None:
        """Execute a statement in all iterations of a frame; returns the chunks that it declares."""
        match statement:
            case s.ChunkDeclaration():
                return self.chunk(statement, frame)
            case s.Precondition() | s.Postcondition():
                sets = self.place(statement.place, frame)
                self.conditions.append(_ConditionRows(statement, frame, sets))
                return None
            case _:
                raise AssertionError(statement)  # the grammar has no other

    def chunk(self, node: s.ChunkDeclaration, frame: Frame) -> BodyRows:
        """The chunks of `chunk x[i, c]: size`; the columns are family, bytes and indices."""
        count = 1 if frame.rows is None else frame.rows
        self.count += count
        limits.check_chunks(self.count, node.span)
        name, rank = node.chunk.name.name, len(node.chunk.indices)
        if name not in self.families:
            self.families[name] = len(self.declared)
            self.declared.append(node)
        first = self.declared[self.families[name]]
        if len(first.chunk.indices) != rank:
            note = Note(f"with {len(first.chunk.indices)} here", first.chunk.span)
            raise fail("E0406", f"chunk '{name}' is declared with {rank} indices", node.chunk.span, note)
        size = self.evaluator.coerce(node.size, frame, BYTES, "the size of a chunk").data
        row = first_row((size < 1) | (size >= 2**62))
        if row >= 0:
            wrong = item(size, row)
            hint = "exclude empty chunks with an 'if'" if wrong == 0 else ""
            raise fail("E0408", f"a chunk cannot have {wrong:,} bytes", node.size.span, frame.note(row), hint=hint)
        table = np.zeros((count, 2 + self.width), np.int64)
        table[:, 0] = self.families[name]
        table[:, 1] = size
        table[:, 2 : 2 + rank] = index_columns(node.chunk.indices, frame, self.evaluator)
        return BodyRows(np.arange(count, dtype=np.int64), table)

    def place(self, node: Expr, frame: Frame) -> int | Int64Array:
        """The number of the set of NPUs at which a condition holds, or one number an iteration."""
        value = self.evaluator.value(node, frame)
        check_place(node, value.type)
        if is_column(value.data):
            numbers, of = unique_rows([value.data])
            first = self._add_sets(numbers[:, 0], np.ones(len(numbers), np.int64), value, node.span)
            return first + of
        lists = value.data
        if not isinstance(lists, ListArray):
            return self._add_sets(np.array([lists], np.int64), np.ones(1, np.int64), value, node.span)
        if not lists.uniform:
            sets = sorted_unique(lists)
            _, items = flatten_lists(sets)
            first = self._add_sets(items.astype(np.int64), sets.lengths, value, node.span)
            return first + np.arange(len(sets.start), dtype=np.int64)
        key = (id(lists.content), int(lists.start[0]), int(lists.stop[0]))
        if key not in self.known_sets:  # a set that is the same in all iterations is added once
            members = distinct(npu_numbers(value))
            number = self._add_sets(members, np.array([len(members)], np.int64), value, node.span)
            self.known_sets[key] = (lists, number)
        return self.known_sets[key][1]

    def _add_sets(self, numbers: Int64Array, lengths: Int64Array, value: Value, span: Span) -> int:
        """Add sets; returns the number of the first. Raises SourceError if one contains a switch."""
        check_npus(numbers, value.home, span)
        return self.pool.add(numbers, lengths)

    # The result

    def finish_chunks(self, table: Int64Array) -> NamedChunks:
        """The chunks whose family, bytes and indices are in the rows of a table."""
        index = self.chunk_indices(table)
        before, after, op = self.conditions_of(index, table)
        self.check_held(before, after, table)
        self.conditions.clear()  # the columns of their frames are larger than the result
        sets, (pre_of, post_of) = self.pool.merge_equal_sets([before, after])
        return NamedChunks(
            ChunkTable(
                size=np.ascontiguousarray(table[:, 1]),
                pre=pre_of,
                post=post_of,
                op=np.maximum(op, 0),
                family=table[:, 0].astype(np.int32),
                index=table[:, 2:].astype(np.int32),
                families=tuple(ChunkFamily(d.chunk.name.name, len(d.chunk.indices)) for d in self.declared),
                sets=sets,
            ),
            index,
        )

    def conditions_of(
        self, index: dict[str, ChunkIndex], table: Int64Array
    ) -> tuple[Int64Array, Int64Array, NDArray[np.int8]]:
        """The set of NPUs of each chunk before and after, and its operation, -1 if it has none."""
        pre: list[tuple[Int64Array, Int64Array]] = []
        post: list[tuple[Int64Array, Int64Array]] = []
        op = np.full(len(table), -1, np.int8)
        for condition in self.conditions:
            chunk = find_chunks(condition.node.chunk, condition.frame, self.evaluator, index)
            pairs = (chunk, np.broadcast_to(np.asarray(condition.sets, np.int64), chunk.shape))
            if isinstance(condition.node, s.Precondition):
                pre.append(pairs)
            else:
                post.append(pairs)
                self.reduction(condition, chunk, op, table)
        return self._unite_sets(pre, len(table)), self._unite_sets(post, len(table)), op

    def _unite_sets(self, pairs: list[tuple[Int64Array, Int64Array]], count: int) -> Int64Array:
        """int64[count]: the set of each chunk."""
        if not pairs:
            return np.zeros(count, np.int64)
        chunk, number = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
        return self.pool.unite_sets(chunk, number, count)

    def chunk_indices(self, table: Int64Array) -> dict[str, ChunkIndex]:
        """For each family, its chunks by their indices. Raises SourceError if two chunks have the same indices."""
        index_of: dict[str, ChunkIndex] = {}
        for name, family in self.families.items():
            rank = len(self.declared[family].chunk.indices)
            rows = np.flatnonzero(table[:, 0] == family)
            try:
                index_of[name] = ChunkIndex.of(table[rows, 2 : 2 + rank], rows)
            except OverflowError:
                place = self.declared[family].chunk.span
                raise fail("E0219", f"the indices of chunk '{name}' are too far apart", place) from None
            duplicate = index_of[name].duplicate()
            if duplicate >= 0:
                label = chunk_label(name, table[duplicate, 2 : 2 + rank].tolist())
                raise fail("E0413", f"chunk {label} is declared twice", self.declared[family].chunk.span)
        return index_of

    def reduction(self, condition: _ConditionRows, chunk: Int64Array, op: Data, table: Int64Array) -> None:
        """Enter the operation of a postcondition into `op`. Raises SourceError if a chunk has two operations."""
        node = condition.node
        if not isinstance(node, s.Postcondition):
            return
        wanted = Op.COPY if node.reduction is None else self.operation(node.reduction, condition.frame)
        row = first_row((op[chunk] >= 0) & (op[chunk] != wanted))
        if row >= 0:
            was = Op(int(op[chunk[row]])).name.lower()
            label = self.label(table, int(chunk[row]))
            message = f"the postconditions of chunk {label} require both {_the(was)} and {_the(wanted.name.lower())}"
            raise fail("E0410", message, node.span, condition.frame.note(row))
        op[chunk] = wanted

    def operation(self, node: Expr, frame: Frame) -> Op:
        """The operation of a reduction: `sum` of `sum(x)`, or `op` of `reduce(x, op)`."""
        value = self.evaluator.coerce(node, frame, STRING, "a reduction")
        names = {value.data} if isinstance(value.data, str) else set(value.data.tolist())
        if len(names) > 1:
            raise fail("E0409", "the operation of a reduction must be the same in all iterations", node.span)
        name = names.pop()
        if name not in OPS:
            raise unknown_name_error("E0409", "reduction", name, OPS, node.span)
        return OPS[name]

    def label(self, table: Int64Array, chunk: int) -> str:
        """`x[1, 2]`."""
        reference = self.declared[int(table[chunk, 0])].chunk
        return chunk_label(reference.name.name, table[chunk, 2 : 2 + len(reference.indices)].tolist())

    def check_held(self, pre: Int64Array, post: Int64Array, table: Int64Array) -> None:
        """Raise SourceError if a chunk has a postcondition but no precondition."""
        starts = self.pool.arrays()[1]
        empty = starts[1:] == starts[:-1]
        chunk = first_row(empty[pre] & ~empty[post])
        if chunk >= 0:
            reference = self.declared[int(table[chunk, 0])].chunk
            places = [c.node.span for c in self.conditions if c.node.chunk.name.name == reference.name.name]
            message = f"chunk {self.label(table, chunk)} has a postcondition, but no NPU holds it at the start"
            note = Note("one of its postconditions is here", places[0]) if places else None
            hint = f"add a precondition: pre {reference.name.name} at ..."
            raise fail("E0411", message, reference.span, note, hint=hint)


def _the(op: str) -> str:
    return "a copy" if op == "copy" else f"the {op}"


def moves_of(
    node: Algorithm, frame: Frame, evaluator: Evaluator, chunks: NamedChunks, first_chunk: int
) -> AlgorithmSends:
    """The moves of an algorithm whose parameters are in a frame; first_chunk: of the run in its demand.

    Raises SourceError.
    """
    builder = _SendBuilder(evaluator, chunks)
    table = evaluator.execute_body(node.body, frame.inner(), builder.handle, 5).table
    return AlgorithmSends(
        chunk=(table[:, 0] + first_chunk).astype(np.int32),
        source=table[:, 1].astype(np.int32),
        target=table[:, 2].astype(np.int32),
        step=table[:, 3].astype(np.int32),
        reduce=table[:, 4].astype(np.bool_),
    )


class _SendBuilder:
    """The moves of one run under construction."""

    def __init__(self, evaluator: Evaluator, chunks: NamedChunks) -> None:
        self.evaluator = evaluator
        self.chunks = chunks
        self.count = 0

    def handle(self, statement: Statement, frame: Frame) -> BodyRows | None:
        """A `send` or `reduce` in all iterations of a frame; the columns are chunk, source, target, step, reduce."""
        assert isinstance(statement, TransferStatement)
        count = 1 if frame.rows is None else frame.rows
        self.count += count
        limits.check_count("iterations", self.count, statement.span)
        table = np.empty((count, 5), np.int64)
        table[:, 0] = self.chunks.find(statement.chunk, frame, self.evaluator)
        table[:, 1] = self.evaluator.coerce(statement.source, frame, NPU, "'from'").data
        table[:, 2] = self.evaluator.coerce(statement.target, frame, NPU, "'to'").data
        table[:, 3] = self.step(statement.step, frame)
        table[:, 4] = statement.kind == "reduce"
        row = first_row(table[:, 1] == table[:, 2])
        if row >= 0:
            message = f"this is a {statement.kind} from an NPU to itself"
            raise fail("E0502", message, statement.span, frame.note(row), hint="exclude this case with an 'if'")
        return BodyRows(np.arange(count, dtype=np.int64), table)

    def step(self, node: Expr | None, frame: Frame) -> Data:
        """The logical step of each iteration, -1 if the statement has none."""
        if node is None:
            return -1
        data = self.evaluator.coerce(node, frame, INT, "a step").data
        row = first_row((data < 0) | (data >= 2**31))
        if row >= 0:
            message = f"step {item(data, row)} is not possible: steps count from 0 to 2^31 - 1"
            raise fail("E0503", message, node.span, frame.note(row))
        return data


# The collectives of the standard library as patterns, whose chunks are listed only on demand


@lru_cache(maxsize=64)
def chunk_numbers(standard: Standard, members: int) -> frozenset[int]:
    """Numbers of chunks per block that divide the size of a collective exactly, up to the most that are tried.

    If chunks can be aligned, only those with which they are.
    """
    most = MOST_CHUNKS if standard.shape.indices else MOST_OF_ONE_BLOCK
    whole = frozenset(n for n in range(1, most + 1) if standard.size % (n * standard.shape.parts(members)) == 0)
    aligned = frozenset(n for n in whole if standard.size % (ALIGNMENT * n * standard.shape.parts(members)) == 0)
    return aligned or whole


def _int(values: Mapping[str, Value], name: str, default: int) -> int:
    value = values.get(name)
    return int(value.data) if value is not None and isinstance(value.data, int) else default


def standard_of(name: str, members: int, values: Mapping[str, Value]) -> Standard:
    """A collective of the standard library with its arguments.

    members: size of the group. The size of all_to_allv is that of the largest row of `sizes`; the root of send_recv and
    multicast is their source.
    """
    op = values.get("op")
    size = _int(values, "size", 0)
    if name == "all_to_allv":
        size = _largest_row(values["sizes"])
    root = _int(values, "root", _int(values, "source", -1))
    kind = OPS.get(str(op.data), Op.COPY) if op is not None else Op.COPY
    return Standard(name, size, _int(values, "chunks", 1), root if members else -1, kind)


def _largest_row(sizes: Value) -> int:
    rows = sizes.data.uniform_items() if isinstance(sizes.data, ListArray) else None
    if not isinstance(rows, ListArray) or isinstance(rows.content, ListArray):
        return 0
    return max((int(rows.content[a:b].sum()) for a, b in zip(rows.start, rows.stop, strict=True)), default=0)


def lazy_count(name: str, members: int, values: Mapping[str, Value]) -> int | None:
    """The number of chunks of a run; None if its arguments may be wrong and it must be expanded to find errors."""
    shape = shapes()[name]
    if not shape.by_rule or members == 0:
        return None
    standard = standard_of(name, members, values)
    op = values.get("op")
    parts = shape.parts(members) * standard.chunks
    sound = (
        standard.chunks >= 1
        and standard.size >= 1
        and parts > 0
        and standard.size % parts == 0
        and standard.size // parts < 2**62
    )
    sound = sound and (not shape.has_root or 0 <= standard.root < members) and (op is None or op.data in OPS)
    return shape.blocks(members) * standard.chunks if sound else None
