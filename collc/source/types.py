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


_PRODUCTS: Final[dict[tuple[Kind, Kind], Type]] = {
    (Kind.RATE, Kind.TIME): BYTES,
    (Kind.TIME, Kind.RATE): BYTES,
    (Kind.TOPOLOGY, Kind.TOPOLOGY): TOPOLOGY,
}
_QUOTIENTS: Final[dict[tuple[Kind, Kind], Type]] = {
    (Kind.BYTES, Kind.RATE): TIME,
    (Kind.BYTES, Kind.TIME): RATE,
}


def _number(a: Kind, b: Kind) -> Type:
    if Kind.FLOAT in (a, b):
        return FLOAT
    return NUMBER if Kind.NUMBER in (a, b) else INT


def _sum(operator: str, left: Type, right: Type) -> Type | None:
    a, b = left.kind, right.kind
    if a in NUMBERS and b in NUMBERS:
        return _number(a, b)
    if a == b and a in QUANTITIES:
        return left
    if operator == "+" and a == b and a in (Kind.LIST, Kind.STRING):
        return join(left, right)
    if operator == "-" and a is Kind.SET and b is Kind.SET:
        return left if join(left, right) is not None else None
    return None


def _product(left: Type, right: Type) -> Type | None:
    a, b = left.kind, right.kind
    if a in NUMBERS and b in NUMBERS:
        return _number(a, b)
    if a in NUMBERS and b in QUANTITIES:
        return right
    if a in QUANTITIES and b in NUMBERS:
        return left
    return _PRODUCTS.get((a, b))


def _quotient(operator: str, left: Type, right: Type) -> Type | None:
    a, b = left.kind, right.kind
    if a in NUMBERS and b in NUMBERS:
        if operator == "/":
            return FLOAT
        return INT if operator == "//" else _number(a, b)
    if a == b and a in QUANTITIES:
        return {"/": FLOAT, "//": INT}.get(operator, left)
    if a in QUANTITIES and b in NUMBERS and (operator == "/" or a is Kind.BYTES):
        return left
    return _QUOTIENTS.get((a, b)) if operator == "/" else None


def _bits(operator: str, left: Type, right: Type) -> Type | None:
    whole = (Kind.INT, Kind.NUMBER)
    if left.kind in whole and right.kind in whole:
        return INT
    if operator in "|&" and left.kind is Kind.SET and right.kind is Kind.SET:
        return join(left, right)
    return BOOL if operator == "^" and left.kind is right.kind is Kind.BOOL else None


def binary_type(operator: str, left: Type, right: Type) -> Type | None:
    """The type of `left operator right`, None if the operator is not defined for the two types."""
    if operator in ("and", "or"):
        return BOOL if fits(left, BOOL) and fits(right, BOOL) else None
    if Kind.ANY in (left.kind, right.kind):
        return ANY
    match operator:
        case "+" | "-":
            return _sum(operator, left, right)
        case "*":
            return _product(left, right)
        case "/" | "//" | "%":
            return _quotient(operator, left, right)
        case "**":
            both = left.kind in NUMBERS and right.kind in (Kind.INT, Kind.NUMBER)
            return left if both else None
        case _:
            return _bits(operator, left, right)


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
