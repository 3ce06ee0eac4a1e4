"""Values of the naive evaluator: plain Python, one object for each thing."""

from __future__ import annotations

import operator as op
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

PICOSECONDS = 10**12


class BadProgramError(Exception):
    """Raised by the naive evaluator for a wrong program, with a short reason."""


@dataclass(frozen=True)
class Quantity:
    """Bytes, picoseconds or bytes per second."""

    dimension: str
    value: Fraction


@dataclass(eq=False)
class Device:
    kind: str
    label: str = ""
    number: int = -1
    present: bool = True
    buffer: int = -1
    multicast: bool = False
    reduces: bool = False


@dataclass(frozen=True)
class Link:
    source: Device
    target: Device
    latency: int | None
    bandwidth: Fraction | None


@dataclass(eq=False)
class Family:
    """Devices or topologies by their indices; `order` lists the indices by number."""

    shape: tuple[int, ...]
    items: dict[tuple[int, ...], Any] = field(default_factory=dict)
    order: list[tuple[int, ...]] = field(default_factory=list)


@dataclass(eq=False)
class Topology:
    name: str = ""
    devices: list[Device] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    families: dict[str, Family] = field(default_factory=dict)
    axes: list[int] = field(default_factory=list)
    parts: dict[str, dict[tuple[int, ...], Any]] = field(default_factory=dict)

    @property
    def npus(self) -> list[Device]:
        return [d for d in self.devices if d.kind == "npu"]

    @property
    def switches(self) -> list[Device]:
        return [d for d in self.devices if d.kind == "switch"]

    def numbered(self) -> Topology:
        """NPUs first, in order of declaration, then switches."""
        for number, device in enumerate(self.npus + self.switches):
            device.number = number
        return self


PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "+": op.add,
    "-": op.sub,
    "*": op.mul,
    "/": lambda a, b: Fraction(a) / Fraction(b),
    "//": op.floordiv,
    "%": op.mod,
    "**": op.pow,
    "<<": op.lshift,
    ">>": op.rshift,
    "&": op.and_,
    "|": op.or_,
    "^": op.xor,
}


def binary(operator: str, a: Any, b: Any) -> Any:
    """`a operator b` on plain values and quantities."""
    if isinstance(a, Quantity) or isinstance(b, Quantity):
        return _quantities(operator, a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _collections(operator, a, b)
    if operator == "**" and b < 0:
        return Fraction(a) ** b
    return PLAIN[operator](a, b)


def in_order(items: list[Any]) -> list[Any]:
    """The items of a set, in ascending order without duplicates."""
    different = [x for i, x in enumerate(items) if x not in items[:i]]
    if any(isinstance(x, tuple) for x in different):
        return different
    return sorted(different, key=lambda x: getattr(x, "number", getattr(x, "value", x)))


def _collections(operator: str, a: tuple, b: tuple) -> tuple:
    (_, left), (_, right) = a, b
    match operator:
        case "+":
            return ("list", left + right)
        case "|":
            return ("set", in_order(left + right))
        case "&":
            return ("set", [x for x in left if x in right])
        case "-":
            return ("set", [x for x in left if x not in right])
    raise BadProgramError(operator)


def _quantities(operator: str, a: Any, b: Any) -> Any:
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        if a.dimension == b.dimension and operator in "+-%":
            return Quantity(a.dimension, PLAIN[operator](a.value, b.value))
        if a.dimension == b.dimension and operator in ("/", "//"):
            return PLAIN[operator](a.value, b.value)
        return _mixed(operator, a, b)
    if isinstance(a, Quantity) and operator in ("*", "/", "//"):
        value = PLAIN[operator](a.value, b)
        return _whole(Quantity(a.dimension, Fraction(value)))
    if isinstance(b, Quantity) and operator == "*":
        return _whole(Quantity(b.dimension, b.value * a))
    raise BadProgramError(f"{a} {operator} {b}")


def _mixed(operator: str, a: Quantity, b: Quantity) -> Quantity:
    match (a.dimension, operator, b.dimension):
        case ("bytes", "/", "rate"):
            return Quantity("time", a.value / b.value * PICOSECONDS)
        case ("bytes", "/", "time"):
            return Quantity("rate", a.value / b.value * PICOSECONDS)
        case ("rate", "*", "time") | ("time", "*", "rate"):
            return _whole(Quantity("bytes", a.value * b.value / PICOSECONDS))
    raise BadProgramError(f"{a.dimension} {operator} {b.dimension}")


def _whole(quantity: Quantity) -> Quantity:
    if quantity.dimension == "bytes" and quantity.value.denominator != 1:
        raise BadProgramError("not a whole number of bytes")
    return quantity


def compare(operator: str, a: Any, b: Any) -> bool:
    """One comparison."""
    if operator in ("in", "not in"):
        found = any(a == x for x in (b[1] if isinstance(b, tuple) else b))
        return found == (operator == "in")
    if isinstance(a, Quantity):
        a, b = a.value, b.value
    match operator:
        case "==":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case _:
            return a >= b
