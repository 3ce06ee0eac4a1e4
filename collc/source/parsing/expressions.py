"""The syntax tree of expressions: one class for each form, each with its span in the source."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from collc.base.diagnostics import Span
from collc.base.units import Dimension

if TYPE_CHECKING:
    from collc.ten.arrays import Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node of the syntax tree. span: the source text that it was parsed from."""

    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Identifier(Node):
    """A name in a declaration, or as the label of an argument or member."""

    name: str


# Expressions


@dataclass(frozen=True, slots=True, eq=False)
class Expr(Node):
    """An expression."""


@dataclass(frozen=True, slots=True, eq=False)
class IntLiteral(Expr):
    """`42`."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class FloatLiteral(Expr):
    """`0.5`, kept exactly."""

    value: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class QuantityLiteral(Expr):
    """`9MiB`, `0.5us`, `50GiB/s`: value in bytes, picoseconds or bytes per second."""

    dimension: Dimension
    value: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class StringLiteral(Expr):
    """`"sum"`, without its quotes."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class BoolLiteral(Expr):
    """`true`, `false`."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class NumberList(Expr):
    """`[0, 4, 0, 1, ...]`: a long list of nothing but whole numbers (see tables.py). numbers: int64[items]."""

    numbers: Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expr):
    """A use of a name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Star(Expr):
    """`*` as an index: all of a dimension."""


@dataclass(frozen=True, slots=True, eq=False)
class Member(Expr):
    """`pod.gpu`."""

    base: Expr
    member: Identifier


@dataclass(frozen=True, slots=True, eq=False)
class Index(Expr):
    """`gpu[0, *]`."""

    base: Expr
    indices: tuple[Expr, ...]


def root_of(node: Expr) -> Expr:
    """What the name of a device begins with: `node` of `node[2].gpu[0]`."""
    while isinstance(node, Member | Index):
        node = node.base
    return node


@dataclass(frozen=True, slots=True, eq=False)
class Argument(Node):
    """`64MiB` or `size: 64MiB`."""

    name: Identifier | None
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """`len(g)`, `ring(8, bandwidth: 50GiB/s)`, `unwound(t, degree: 2)`."""

    function: Identifier
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expr):
    """`-a`, `+a`, `~a`, `not a`."""

    operator: str
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    """`a + b`, ..., `a and b`; also products of topologies, and unions and differences of sets."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Expr):
    """`a < b <= c`, `x in s`, `x not in s`; there is one operand more than operators."""

    operators: tuple[str, ...]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Range(Expr):
    """`low..high`, without high."""

    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Collection(Expr):
    """`{a, b}` (kind "set") or `[a, b]` (kind "list")."""

    kind: str
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ForClause(Node):
    """`i in 0..4` of a for statement, a comprehension or a family of groups."""

    name: Identifier
    iterable: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Expr):
    """`{f(i) for i in r, j in q if c}` or with brackets."""

    kind: str
    item: Expr
    clauses: tuple[ForClause, ...]
    condition: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class RemovedDevice(Node):
    """`npu 5`, `npu gpu[0, *]` or `switch spine` in `without`; an int is an NPU number."""

    switch: bool
    device: Expr


@dataclass(frozen=True, slots=True, eq=False)
class RemovedLink(Node):
    """`link 0 <-> 1 lanes 2` in `without`; both: `<->`. lanes: how many of parallel links; None for all."""

    source: Expr
    target: Expr
    both: bool
    lanes: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Without(Expr):
    """`t without { npu 5, link 0 <-> 1 }`."""

    base: Expr
    parts: tuple[RemovedDevice | RemovedLink, ...]
