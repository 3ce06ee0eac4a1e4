"""The types of the language and the typing rules of operators, for the static check and the evaluator alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


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
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "string": STRING,
    "bytes": BYTES,
    "time": TIME,
    "rate": RATE,
    "npu": NPU,
    "group": GROUP,
    "topology": TOPOLOGY,
    "list": Type(Kind.LIST, ANY),
    "set": Type(Kind.SET, ANY),
    "range": RANGE,
}
"""Types that a program can name."""


def list_of(item: Type) -> Type:
    """The type of a list."""
    return Type(Kind.LIST, item)


def set_of(item: Type) -> Type:
    """The type of a set."""
    return Type(Kind.SET, item)


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


def binary_type(operator: str, left: Type, right: Type) -> Type | None:
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


def unary_type(operator: str, operand: Type) -> Type | None:
    """The type of `operator operand`, None if the operator is not defined for it."""
    if operator == "not":
        return BOOL if fits(operand, BOOL) else None
    if operand.kind is Kind.ANY:
        return ANY
    if operator == "~":
        return INT if operand.kind in (Kind.INT, Kind.NUMBER) else None
    return operand if operand.kind in NUMBERS | QUANTITIES else None


def are_comparable(operator: str, left: Type, right: Type) -> bool:
    """Whether a comparison operator is defined for two types."""
    if Kind.ANY in (left.kind, right.kind):
        return True
    if operator in ("in", "not in"):
        item = item_type(right)
        return item is not None and join(left, item) is not None
    if operator in ("==", "!="):
        return join(left, right) is not None
    a, b = left.kind, right.kind
    return (a in NUMBERS and b in NUMBERS) or (a == b and a in QUANTITIES | {Kind.STRING})
