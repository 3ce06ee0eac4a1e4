"""The evaluator: computes an expression for all iterations of a loop nest at once, as array operations.

If an expression has no array form, it raises NotVectorised and is evaluated for one iteration after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from collc.base.diagnostics import SourceError, Span
from collc.source import limits
from collc.source import types as ty
from collc.source.elaboration.arithmetic import arithmetic, compare_values, promote, sign
from collc.source.elaboration.builtins import BUILTINS, call_type
from collc.source.elaboration.containers import (
    coerce,
    collection_of,
    combine_sets,
    common_home,
    concatenated_lists,
    equal_values,
    flatten_lists,
    from_sorted_pairs,
    items_at,
    membership,
    selected_items,
    slice_numbers,
    sorted_unique,
)
from collc.source.elaboration.topology_parts import (
    IndexSlice,
    PartIndex,
    device_label,
    devices_of,
    index_part,
    is_present,
    member_of,
)
from collc.source.elaboration.topology_values import Topology, TopologyPart, product
from collc.source.elaboration.values import (
    Data,
    Frame,
    Interval,
    ListArray,
    Value,
    as_rows,
    is_column,
    loop_frame,
    npus,
    single_list,
    stacked_rows,
)
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.problems import fail
from collc.ten.arrays import BoolArray, Int64Array

Result = TypeVar("Result")


class NotVectorised(Exception):
    """Raised for an expression that must be evaluated separately for each iteration."""


@dataclass(frozen=True, slots=True, eq=False)
class BodyRows:
    """The items that statements of a body produced: links, chunks or sends.

    row: int64[items], ascending, the iteration that produced each. table: int64[items, columns], the items.
    """

    row: Int64Array
    table: Int64Array


StatementHandler = Callable[[s.Statement, Frame], BodyRows | None]


class Evaluator(ex.ExpressionVisitor[Frame, Value]):
    """Evaluates the expressions of one file; FileContext knows the topologies that they name and construct."""

    def topology_named(self, name: str) -> Topology | None:
        """The topology with a name: an instance or a template without parameters; None if there is none."""
        raise NotImplementedError

    def construct_topology(self, node: ex.Call | s.With | ex.Without, frame: Frame) -> Topology:
        """The topology of `ring(8)`, `unwound(t)`, `t with { ... }` or `t without { ... }`. Raises SourceError."""
        raise NotImplementedError

    def value(self, node: ex.Expr, frame: Frame) -> Value:
        """The value of an expression in all iterations of a frame. Raises SourceError."""
        result = self._open(node, frame)
        if isinstance(result.data, TopologyPart):
            return devices_of(result.data, node.span)
        return result

    def _given_value(self, node: ex.Expr, frame: Frame) -> Value:
        """The value of an expression. Raises SourceError, also for a rate or time that was left out."""
        value = self.value(node, frame)
        if value.data is None:
            hint = "give it in the call of the template; without it, only links can be declared with it"
            raise fail("E0223", f"'{node.span.text}' has no value here", node.span, hint=hint)
        return value

    def coerce(self, node: ex.Expr, frame: Frame, wanted: ty.Type, what: str) -> Value:
        """The value, converted to a type; what: its role in messages. Raises SourceError."""
        return coerce(self.value(node, frame), wanted, node.span, what, frame)

    def whole_number(self, node: ex.Expr, frame: Frame, what: str) -> int:
        """An int that is the same in all iterations. Raises SourceError."""
        value = self.coerce(node, frame, ty.INT, what)
        if value.varies:
            raise fail("E0303", f"{what} must not depend on a loop variable", node.span)
        return int(value.data)

    def condition(self, node: ex.Expr, frame: Frame) -> bool | BoolArray:
        """The value of a condition: a bool, or one an iteration."""
        return self.coerce(node, frame, ty.BOOL, "a condition").data

    def loop(self, clauses: tuple[ex.ForClause, ...], condition: ex.Expr | None, frame: Frame) -> Frame:
        """The frame of `for i in r, j in q if c`."""
        for clause in clauses:
            iterable = self.value(clause.iterable, frame)
            ty.loop_type(clause, iterable.type)
            frame = loop_frame(frame, clause.name.name, iterable, clause.span)
            limits.check_loop_depth(frame.depth, clause.span)
        return self.guarded_frame(condition, frame)

    def guarded_frame(self, condition: ex.Expr | None, frame: Frame) -> Frame:
        """The iterations in which a condition holds; all if there is none."""
        if condition is None or frame.rows == 0:
            return frame
        mask = self.condition(condition, frame)
        if is_column(mask):
            return frame.select_rows(mask)
        return frame if mask or frame.rows is None else frame.select_rows(np.zeros(frame.rows, np.bool_))

    def execute_body(
        self, statements: Sequence[s.Statement], frame: Frame, handle: StatementHandler, columns: int
    ) -> BodyRows:
        """The items that a body produces in all iterations of a frame, ordered by iteration, then by statement.

        frame: a frame of the body's own (see Frame.inner), to which `let` statements add names. handle: executes all
        statements other than loops, conditions and lets. columns: of the items. Raises SourceError.
        """
        parts: list[BodyRows] = []

        def execute(body: Sequence[s.Statement], inner: Frame, own: Frame) -> None:
            rows = self.execute_body(body, own, handle, columns)
            parts.append(rows if inner is frame else BodyRows(inner.rows_in(frame)[rows.row], rows.table))

        for statement in statements if frame.rows != 0 else ():
            match statement:
                case s.Let():
                    frame.names[statement.name.name] = self.value(statement.value, frame)
                case s.For():
                    inner = self.loop(statement.clauses, statement.condition, frame)
                    execute(statement.body, inner, inner.inner())
                case s.If():
                    mask = self.condition(statement.condition, frame)
                    if not is_column(mask):
                        execute(statement.then if mask else statement.otherwise, frame, frame.inner())
                        continue
                    for chosen, body in ((mask, statement.then), (~mask, statement.otherwise)):
                        inner = frame.select_rows(chosen)
                        execute(body, inner, inner)
                case _:
                    parts += [rows for rows in [handle(statement, frame)] if rows is not None]
        if not parts:
            return BodyRows(np.empty(0, np.int64), np.empty((0, columns), np.int64))
        if len(parts) == 1:  # ordered already
            return parts[0]
        row, table = np.concatenate([p.row for p in parts]), np.concatenate([p.table for p in parts])
        if not row.any():
            return BodyRows(row, table)
        order = np.argsort(row, kind="stable")
        return BodyRows(row[order], table[order])

    def _open(self, node: ex.Expr, frame: Frame) -> Value:
        """Like `value`, but a part of a topology stays a TopologyPart, to which members and indices can be applied."""
        try:
            return self.visit(node, frame)
        except NotVectorised:
            return self._by_row(node, frame)

    def _by_row(self, node: ex.Expr, frame: Frame) -> Value:
        if frame.rows is None:
            raise fail("E0216", "this cannot be evaluated here", node.span)
        values = row_by_row(frame, lambda row: self.value(node, row))
        result = stacked_rows(values)
        if result is None:
            raise fail("E0216", "this has different types in different iterations", node.span)
        return result

    def _visit_literal(self, node: ex.Expr) -> Value:
        return literal_value(node)

    def _visit_with(self, node: ex.Call | s.With | ex.Without, frame: Frame) -> Value:
        if frame.rows is not None:
            raise fail("E0303", "a topology cannot be constructed inside a loop", node.span)
        return Value(ty.TOPOLOGY, self.construct_topology(node, frame))

    _visit_without = _visit_with

    def _visit_name(self, node: ex.Name, frame: Frame) -> Value:
        value = frame.find(node.name)
        if value is not None:
            return value
        topology = self.topology_named(node.name)
        if topology is None:
            raise fail("E0201", f"unknown value '{node.name}'", node.span)
        return Value(ty.TOPOLOGY, topology)

    def _visit_binary(self, node: ex.Binary, frame: Frame) -> Value:
        left = self.value(node.left, frame)
        if node.operator in ("and", "or"):
            return self._short_circuit(node, coerce(left, ty.BOOL, node.left.span, f"'{node.operator}'", frame), frame)
        right = self.value(node.right, frame)
        kind = ty.binary_type(node, left.type, right.type)
        if kind.kind is ty.Kind.TOPOLOGY:
            return Value(ty.TOPOLOGY, product(left.data, right.data, node.span))
        if kind.kind is ty.Kind.SET:
            return combine_sets(node.operator, left, right, kind, frame, node.span)
        if kind.kind in (ty.Kind.LIST, ty.Kind.STRING):
            return self._concatenate(node, left, right, kind)
        return arithmetic(node, left, right, kind, frame)

    def _concatenate(self, node: ex.Binary, left: Value, right: Value, kind: ty.Type) -> Value:
        if left.varies or right.varies:
            raise NotVectorised
        if kind.kind is ty.Kind.STRING:
            limits.check_count("characters of a string", len(left.data) + len(right.data), node.span)
            return Value(ty.STRING, left.data + right.data)
        return concatenated_lists(left, right, kind, node.span)

    def _short_circuit(self, node: ex.Binary, left: Value, frame: Frame) -> Value:
        """`and` and `or`: the right side is evaluated only in the iterations in which the left side does not decide."""
        decided = node.operator == "or"
        if not is_column(left.data):
            return left if left.data is decided else self.coerce(node.right, frame, ty.BOOL, f"'{node.operator}'")
        open_rows = left.data if not decided else ~left.data
        result = left.data.copy()
        if open_rows.any():
            inner = frame.select_rows(open_rows)
            result[open_rows] = self.coerce(node.right, inner, ty.BOOL, f"'{node.operator}'").data
        return Value(ty.BOOL, result)

    def _visit_unary(self, node: ex.Unary, frame: Frame) -> Value:
        value = self.value(node.operand, frame)
        ty.unary_type(node, value.type)
        return sign(node.operator, value)

    def _visit_comparison(self, node: ex.Comparison, frame: Frame) -> Value:
        result: Data = True
        values = [self._given_value(operand, frame) for operand in node.operands]
        for k, operator in enumerate(node.operators):
            left, right = values[k], values[k + 1]
            ty.check_comparison(node, k, left.type, right.type)
            result = result & self._compare(operator, left, right, frame, node.span)
        return Value(ty.BOOL, result if is_column(result) else bool(result))

    def _compare(self, operator: str, left: Value, right: Value, frame: Frame, span: Span) -> Data:
        if operator in ("in", "not in"):
            contained = membership(left, right, frame, span)
            return contained if operator == "in" else ~contained if is_column(contained) else not contained
        if any(isinstance(value.data, ListArray | Interval | Topology) for value in (left, right)):
            if left.varies or right.varies:
                raise NotVectorised
            return equal_values(left, right) == (operator == "==")
        return compare_values(operator, left, right)

    def _visit_range(self, node: ex.Range, frame: Frame) -> Value:
        low, high = self.value(node.low, frame), self.value(node.high, frame)
        if low.type.kind is high.type.kind is ty.Kind.BYTES and not (low.varies or high.varies):
            return Value(ty.Type(ty.Kind.RANGE, low.type), Interval(low.data, high.data))
        what = "an end of a range"
        ends = [coerce(v, ty.INT, n.span, what, frame).data for v, n in ((low, node.low), (high, node.high))]
        return Value(ty.RANGE, Interval(*ends))

    def _visit_call(self, node: ex.Call, frame: Frame) -> Value:
        name = node.function.name
        if name not in BUILTINS:
            return self._visit_with(node, frame)
        values = [self._given_value(a.value, frame) for a in node.arguments]
        kind = call_type(node, [value.type for value in values])
        result = BUILTINS[name].value(node, values, kind, frame)
        if result is None:
            raise NotVectorised
        return result

    def _visit_member(self, node: ex.Member, frame: Frame) -> Value:
        base = self._base(node.base, frame)
        name = node.member.name
        part = base.data.as_part if isinstance(base.data, Topology) else base.data
        if not isinstance(part, TopologyPart):
            raise fail("E0215", f"{base.type} has no members", node.member.span)
        if name == "npus":
            return devices_of(part, node.span)
        return Value(ty.DEVICES, member_of(part, name, node.member.span), part.home)

    def _base(self, node: ex.Expr, frame: Frame) -> Value:
        """The base of a member; a topology has precedence over a value of the same name."""
        if isinstance(node, ex.Name):
            topology = self.topology_named(node.name)
            device = frame.find(node.name) if topology is not None else None
            if topology is not None and (device is None or device.type.kind is not ty.Kind.TOPOLOGY):
                return Value(ty.TOPOLOGY, topology)
        return self._open(node, frame)

    def _visit_index(self, node: ex.Index, frame: Frame) -> Value:
        base = self._open(node.base, frame)
        if base.type.kind is ty.Kind.FAMILY:
            return base.data.member(self, node, frame)
        if isinstance(base.data, TopologyPart):
            part = index_part(base.data, self.part_indices(node, frame), node.span)
            return self._check_present(part, node) if isinstance(part, Value) else Value(ty.DEVICES, part, part.home)
        ty.check_index(node, base.type)
        index = node.indices[0]
        if isinstance(base.data, Topology):
            return self._npu_of(base.data, index, node, frame)
        if isinstance(index, ex.Star):
            return base
        return self._item(base, self.value(index, frame), index, frame)

    def _item(self, base: Value, index: Value, node: ex.Expr, frame: Frame) -> Value:
        """`base[index]` of a list or group; node: the index as it is written."""
        span = node.span
        if index.type.kind is ty.Kind.RANGE or index.type.kind in (ty.Kind.LIST, ty.Kind.SET):
            if base.varies or index.varies:
                raise NotVectorised
            return selected_items(base, index, span)
        index = coerce(index, ty.INT, span, "an index", frame)
        lists: ListArray = base.data
        lengths = lists.lengths
        bad = (np.asarray(index.data) < 0) | (np.asarray(index.data) >= lengths)
        if bad.any():
            raise _out_of_range(base, index, int(np.argmax(bad)), node, frame)
        positions = lists.start + index.data
        if lists.uniform and not is_column(index.data):
            return items_at(base, positions).at(0)
        return items_at(base, positions)

    def _npu_of(self, topology: Topology, index: ex.Expr, node: ex.Index, frame: Frame) -> Value:
        """`t[i]`: an NPU by its number, or a group for several indices."""
        number = self.part_index(index, frame)
        if number is None:
            return npus(topology.network.npus, topology)
        data = number.numbers if isinstance(number, IndexSlice) else number
        count = topology.network.npu_count
        bad = (np.asarray(data) < 0) | (np.asarray(data) >= count)
        if bad.any():
            row = int(np.argmax(bad)) if bad.ndim else 0
            wrong = int(np.asarray(data).reshape(-1)[row])
            note = None if isinstance(number, IndexSlice) else frame.note(row)
            raise fail(
                "E0318", f"'{topology.name}' has no NPU {wrong}: the NPUs are 0 .. {count - 1}", index.span, note
            )
        value = npus(number.numbers, topology) if isinstance(number, IndexSlice) else Value(ty.NPU, data, topology)
        return self._check_present(value, node)

    def _check_present(self, value: Value, node: ex.Expr) -> Value:
        """The value itself. Raises SourceError if one of its NPUs was removed by `without`."""
        if value.home is None or bool(value.home.network.present.all()):
            return value
        numbers: Data = flatten_lists(value.data)[1] if isinstance(value.data, ListArray) else value.data
        left = np.atleast_1d(is_present(value.home, numbers))
        if not left.all():
            row = int(np.argmin(left))
            wrong = int(np.atleast_1d(numbers)[row])
            raise fail("E0319", f"{device_label(value.home, wrong)} was removed from '{value.home.name}'", node.span)
        return value

    def part_indices(self, node: ex.Index, frame: Frame) -> list[PartIndex]:
        """The indices of a part of a topology."""
        return [self.part_index(index, frame) for index in node.indices]

    def device_index(self, node: ex.Expr, frame: Frame) -> PartIndex:
        """One index of a device at the end of a link. Raises SourceError."""
        try:
            return self.part_index(node, frame)
        except NotVectorised:
            raise fail("E0301", "the end of a link must be one device, not several", node.span) from None

    def part_index(self, node: ex.Expr, frame: Frame) -> PartIndex:
        """One index of a part: a number, one number an iteration, several numbers, or None for `*`.

        Raises SourceError, and NotVectorised if several numbers differ between iterations.
        """
        if isinstance(node, ex.Star):
            return None
        value = self.value(node, frame)
        if value.type.kind in (ty.Kind.RANGE, ty.Kind.LIST, ty.Kind.SET):
            if value.varies:
                raise NotVectorised
            return IndexSlice(slice_numbers(value, node.span), star=False)
        data = coerce(value, ty.INT, node.span, "an index", frame).data
        if is_column(data) and data.dtype == object:
            raise fail("E0318", "indices of devices must be less than 2^63", node.span)
        if frame.rows is not None and is_column(data):
            return np.asarray(data, np.int64)
        return data

    def _visit_collection(self, node: ex.Collection, frame: Frame) -> Value:
        values = [self._given_value(item, frame) for item in node.items]
        of = ty.collection_type(ty.Kind(node.kind), [(v.type, i.span) for v, i in zip(values, node.items, strict=True)])
        if frame.rows is None or not any(v.varies for v in values):
            return collection_of(values, of, node.span)
        kind = of.item or ty.ANY
        if any(isinstance(v.data, ListArray | Interval) for v in values):
            raise NotVectorised
        columns = [as_rows(promote(v, kind), frame).data for v in values]
        width, rows = len(values), frame.rows
        content = np.stack(columns, axis=1).reshape(-1) if columns else np.empty(0, np.int64)
        start = np.arange(rows, dtype=np.int64) * width
        lists = ListArray(start, start + width, content, uniform=False)
        home = common_home(values, node.span)
        return Value(of, sorted_unique(lists) if node.kind == "set" else lists, home)

    def _visit_comprehension(self, node: ex.Comprehension, frame: Frame) -> Value:
        inner = self.loop(node.clauses, node.condition, frame)
        outer_rows = frame.rows
        count = inner.rows or 0
        item = self._given_value(node.item, inner) if count else Value(ty.ANY, np.empty(0, np.int64))
        kind = ty.collection_type(ty.Kind(node.kind), [(item.type, node.item.span)])
        rows = 1 if outer_rows is None else outer_rows
        lists = from_sorted_pairs(inner.rows_in(frame), as_rows(item, inner).data, rows, uniform=outer_rows is None)
        return Value(kind, sorted_unique(lists) if node.kind == "set" else lists, item.home)


def literal_value(node: ex.Expr) -> Value:
    """The value of a number, quantity, string or bool. Raises SourceError for a '*' that is no index."""
    match node:
        case ex.IntLiteral():
            return Value(ty.INT, node.value)
        case ex.FloatLiteral():
            return Value(ty.FLOAT, node.value)
        case ex.QuantityLiteral():
            kind = ty.NAMED[str(node.dimension)]
            return Value(kind, int(node.value) if kind == ty.BYTES else node.value)
        case ex.NumberList():
            return Value(ty.list_of(ty.INT), single_list(node.numbers))
        case ex.StringLiteral():
            return Value(ty.STRING, node.value)
        case ex.BoolLiteral():
            return Value(ty.BOOL, node.value)
        case _:
            raise fail("E0211", "'*' is only allowed as an index", node.span)


def row_by_row(frame: Frame, action: Callable[[Frame], Result]) -> list[Result]:
    """What an action returns for each iteration of a frame. Its errors name the values of the loop variables."""
    results: list[Result] = []
    for row in range(frame.rows or 0):
        try:
            results.append(action(frame.row(row)))
        except SourceError as error:
            note = frame.note(row)
            notes = () if note is None else (note,)
            raise SourceError(*(replace(d, notes=(*d.notes, *notes)) for d in error.diagnostics)) from None
    return results


def _out_of_range(base: Value, index: Value, row: int, node: ex.Expr, frame: Frame) -> SourceError:
    """The error for an index of a list or group that is out of range in iteration `row`."""
    lengths = base.data.lengths
    size = int(lengths[row if len(lengths) > 1 else 0])
    number = int(index.data[row] if is_column(index.data) else index.data)
    container, numbers = ("group", "ranks") if base.type.kind is ty.Kind.GROUP else ("list", "indices")
    named = isinstance(node, ex.Name) and not index.varies
    message = f"'{node.span.text}' is {number}, but " if named else f"index {number} is out of range: "
    message += f"the {numbers} of the {container} are 0 .. {size - 1}" if size else f"the {container} is empty"
    return fail("E0219", message, node.span, frame.note(row))
