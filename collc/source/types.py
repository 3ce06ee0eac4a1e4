"""The types of the language and the typing rules of operators, for the static check and the evaluator alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from collc.base.diagnostics import Note, SourceError, Span
from collc.source.parsing import expressions as ex
from collc.source.problems import fail


class Kind(StrEnum):
    """The kind of a value. The static check uses ANY, NUMBER and DEVICES if only evaluation tells the exact kind."""

    ANY = "anything"
    NUMBER = "number"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STRING = "string"
    BYTES = "bytes"
    TIME = "time"
    RATE = "rate"
    NPU = "npu"
    GROUP = "group"
    DEVICES = "npu or group"
    TOPOLOGY = "topology"
    LIST = "list"
    SET = "set"
    RANGE = "range"
    FAMILY = "family of groups"


@dataclass(frozen=True, slots=True)
class Type:
    """A type. item: the type of the items of a list or set."""

    kind: Kind
    item: Type | None = None

    def __str__(self) -> str:
        if self.item is None or self.item.kind is Kind.ANY:
            return str(self.kind)
        return f"{self.kind} of {self.item}"


ANY: Final = Type(Kind.ANY)
NUMBER: Final = Type(Kind.NUMBER)
INT: Final = Type(Kind.INT)
FLOAT: Final = Type(Kind.FLOAT)
BOOL: Final = Type(Kind.BOOL)
STRING: Final = Type(Kind.STRING)
BYTES: Final = Type(Kind.BYTES)
TIME: Final = Type(Kind.TIME)
RATE: Final = Type(Kind.RATE)
NPU: Final = Type(Kind.NPU)
GROUP: Final = Type(Kind.GROUP)
DEVICES: Final = Type(Kind.DEVICES)
TOPOLOGY: Final = Type(Kind.TOPOLOGY)
RANGE: Final = Type(Kind.RANGE)
FAMILY: Final = Type(Kind.FAMILY)

NUMBERS: Final = frozenset({Kind.INT, Kind.FLOAT, Kind.NUMBER})
QUANTITIES: Final = frozenset({Kind.BYTES, Kind.TIME, Kind.RATE})

NAMED: Final[dict[str, Type]] = {
    str(named.kind): named for named in (INT, FLOAT, BOOL, STRING, BYTES, TIME, RATE, NPU, GROUP, TOPOLOGY)
} | {"list": Type(Kind.LIST, ANY), "set": Type(Kind.SET, ANY), "range": RANGE}
"""Types that a program can name."""


def list_of(item: Type) -> Type:
    """The type of a list."""
    return Type(Kind.LIST, item)


def item_type(container: Type) -> Type | None:
    """The type of the loop variable of a `for` over a container, None if it cannot be iterated over."""
    match container.kind:
        case Kind.RANGE:
            return INT if container.item is None else None
        case Kind.GROUP | Kind.DEVICES:
            return NPU
        case Kind.LIST | Kind.SET:
            return container.item or ANY
        case Kind.ANY:
            return ANY
        case _:
            return None


def holds(container: Kind, item: Type) -> bool:
    """Whether a list or set can have items of a type; the items of a set cannot be collections themselves."""
    if item.kind in (Kind.LIST, Kind.SET, Kind.GROUP, Kind.DEVICES):
        return container is Kind.LIST
    return item.kind not in (Kind.RANGE, Kind.TOPOLOGY, Kind.FAMILY)


def fits(given: Type, wanted: Type) -> bool:
    """Whether a value of type `given` is accepted if `wanted` is required."""
    a, b = given.kind, wanted.kind
    if Kind.ANY in (a, b):
        return True
    if a == b:
        return a not in (Kind.LIST, Kind.SET) or fits(given.item or ANY, wanted.item or ANY)
    if a in NUMBERS and b in NUMBERS:
        return a is not Kind.FLOAT or b is Kind.NUMBER
    if b is Kind.GROUP:
        return a is Kind.DEVICES or (a in (Kind.LIST, Kind.SET) and fits(given.item or ANY, NPU))
    if b is Kind.NPU:
        return a is Kind.DEVICES
    return b is Kind.DEVICES and a in (Kind.NPU, Kind.GROUP)


def join(a: Type, b: Type) -> Type | None:
    """The common type of two items of a list or arguments of `max`, None if there is none."""
    if a == b or b.kind is Kind.ANY:
        return a
    if a.kind is Kind.ANY:
        return b
    if a.kind in NUMBERS and b.kind in NUMBERS:
        return NUMBER if Kind.FLOAT not in (a.kind, b.kind) else FLOAT
    if a.kind == b.kind and a.kind in (Kind.LIST, Kind.SET):
        item = join(a.item or ANY, b.item or ANY)
        return None if item is None else Type(a.kind, item)
    device_kinds = (Kind.NPU, Kind.GROUP, Kind.DEVICES)
    if a.kind in device_kinds and b.kind in device_kinds and Kind.DEVICES in (a.kind, b.kind):
        return DEVICES
    return None


_QUOTIENTS: Final = {(Kind.BYTES, Kind.RATE): TIME, (Kind.BYTES, Kind.TIME): RATE}
_WHOLE: Final = frozenset({Kind.INT, Kind.NUMBER})


_VERBS: Final = {"+": "adds {0} and {1}", "-": "subtracts {1} from {0}"}


def binary_type(node: ex.Binary, left: Type, right: Type) -> Type:
    """The type of `left operator right`. Raises SourceError E0210 if the operator is not defined for the two types."""
    kind = operation_type(node.operator, left, right)
    if kind is not None:
        return kind
    message = f"'{node.operator}' is not defined for {left} and {right}"
    if node.operator in _VERBS:
        message = f"this {_VERBS[node.operator].format(left, right)}"
    notes = [Note(f"this is {k}", n.span) for k, n in ((left, node.left), (right, node.right))]
    raise fail("E0210", message, node.span, *notes, hint=_unit_hint(left, right))


def operation_type(operator: str, left: Type, right: Type) -> Type | None:
    """The type of `left operator right`, None if the operator is not defined for the two types."""
    a, b = left.kind, right.kind
    if operator in ("and", "or"):
        return BOOL if fits(left, BOOL) and fits(right, BOOL) else None
    if Kind.ANY in (a, b):
        return ANY
    if a in NUMBERS and b in NUMBERS:
        return _number_type(operator, left, right)
    if a is b and a in QUANTITIES:
        return {"+": left, "-": left, "%": left, "/": FLOAT, "//": INT}.get(operator)
    if a is b:
        return _type_of_two_alike(operator, left, right)
    if a in QUANTITIES and b in NUMBERS:
        return left if operator in "*/" or (operator in ("//", "%") and a is Kind.BYTES) else None
    if a in NUMBERS and b in QUANTITIES:
        return right if operator == "*" else None
    if {a, b} == {Kind.RATE, Kind.TIME}:
        return BYTES if operator == "*" else None
    return _QUOTIENTS.get((a, b)) if operator == "/" else None


def _number_type(operator: str, left: Type, right: Type) -> Type | None:
    """The type of an operator between numbers."""
    kinds = {left.kind, right.kind}
    if operator in ("+", "-", "*", "%"):
        return FLOAT if Kind.FLOAT in kinds else NUMBER if Kind.NUMBER in kinds else INT
    if operator in ("/", "//"):
        return FLOAT if operator == "/" else INT
    if operator == "**":
        return left if right.kind in _WHOLE else None
    return INT if kinds <= _WHOLE else None


def _type_of_two_alike(operator: str, left: Type, right: Type) -> Type | None:
    """The type of an operator between lists, sets, strings, bools or topologies."""
    match operator, left.kind:
        case ("+", Kind.LIST | Kind.STRING) | ("|" | "&", Kind.SET):
            return join(left, right)
        case "-", Kind.SET:
            return left if join(left, right) is not None else None
        case ("^", Kind.BOOL) | ("*", Kind.TOPOLOGY):
            return left
        case _:
            return None


def unary_type(node: ex.Unary, operand: Type) -> Type:
    """The type of `operator operand`. Raises SourceError E0210 if the operator is not defined for it."""
    if node.operator == "not" and fits(operand, BOOL):
        return BOOL
    if operand.kind is Kind.ANY and node.operator != "not":
        return ANY
    if node.operator == "~" and operand.kind in _WHOLE:
        return INT
    if node.operator in ("-", "+") and operand.kind in NUMBERS | QUANTITIES:
        return operand
    raise fail("E0210", f"'{node.operator}' is not defined for {operand}", node.span)


def check_comparison(node: ex.Comparison, place: int, left: Type, right: Type) -> None:
    """Raise SourceError E0210 if an operator of a comparison is not defined for the two types around it."""
    operator = node.operators[place]
    if Kind.ANY in (left.kind, right.kind):
        return
    a, b = left.kind, right.kind
    if operator in ("in", "not in"):
        item = item_type(right)
        defined = item is not None and join(left, item) is not None
    elif operator in ("==", "!="):
        defined = join(left, right) is not None
    else:
        defined = (a in NUMBERS and b in NUMBERS) or (a == b and a in QUANTITIES | {Kind.STRING})
    if not defined:
        ends = node.operands[place : place + 2]
        notes = [Note(f"this is {kind}", end.span) for kind, end in zip((left, right), ends, strict=True)]
        message = f"'{operator}' is not defined for {left} and {right}"
        raise fail("E0210", message, ends[0].span.to(ends[1].span), *notes)


def collection_type(kind: Kind, items: Iterable[tuple[Type, Span]]) -> Type:
    """The type of a list or set with items of some types. Raises SourceError E0216 if they do not go together."""
    item: Type = ANY
    for given, span in items:
        joint = join(item, given)
        if joint is None or not holds(kind, given):
            message = f"{item} and {given} in one {kind}" if joint is None else f"a {kind} does not hold {given}"
            raise fail("E0216", message, span)
        item = joint
    return Type(kind, item)


def check_index(node: ex.Index, base: Type) -> None:
    """Raise SourceError E0214 if a value that is not a part of a topology cannot have these indices."""
    if base.kind not in (Kind.TOPOLOGY, Kind.GROUP, Kind.LIST):
        raise fail("E0214", f"{base} takes no index", node.span)
    if len(node.indices) != 1:
        hint = "a list of lists is indexed as a[i][j]" if base.kind is Kind.LIST else ""
        raise fail("E0214", f"{base} takes one index, not {len(node.indices)}", node.span, hint=hint)


def loop_type(clause: ex.ForClause, iterable: Type) -> Type:
    """The type of a loop variable. Raises SourceError E0213 if a loop cannot iterate over the values of a type."""
    item = item_type(iterable)
    if item is None:
        hint = f"write 0..{clause.iterable.span.text}" if iterable.kind in _WHOLE else ""
        raise fail("E0213", f"a for loop cannot iterate over {iterable}", clause.iterable.span, hint=hint)
    return item


def check_place(node: ex.Expr, given: Type) -> None:
    """Raise SourceError E0211 if a chunk cannot be at a value of this type."""
    if not fits(given, DEVICES) and not fits(given, GROUP):
        raise fail("E0211", f"a chunk is at an npu, a group or a set of NPUs, not at {given}", node.span)


def _unit_hint(left: Type, right: Type) -> str:
    kinds = {left.kind, right.kind}
    if kinds & NUMBERS and kinds & {Kind.BYTES}:
        return "a size needs a unit, as in 1MiB"
    if kinds & NUMBERS and kinds & {Kind.TIME}:
        return "a time needs a unit, as in 0.5us"
    return "a rate needs a unit, as in 50GiB/s" if kinds & NUMBERS and kinds & {Kind.RATE} else ""


def wrong_type(given: Type, wanted: Type, what: str, node: ex.Expr, *notes: Note) -> SourceError:
    """The error E0211 for a value whose type does not fit; what: its role."""
    hint = ""
    if wanted == INT and given == FLOAT:
        divided = isinstance(node, ex.Binary) and node.operator == "/"
        hint = "'//' is the division that rounds down to an int" if divided else "ceil(...) rounds up to a whole number"
    elif wanted.kind in QUANTITIES and given.kind in NUMBERS:
        hint = _unit_hint(wanted, given)
    elif wanted == GROUP and given == NPU:
        hint = "a group of one NPU is [npu]"
    elif wanted == NPU and given == GROUP:
        hint = "one NPU of a group is g[0]"
    elif wanted == GROUP and given == TOPOLOGY:
        hint = f"the group of all its NPUs is {node.span.text}.npus"
    return fail("E0211", f"{what} must be of type {wanted}, not {given}", node.span, *notes, hint=hint)
