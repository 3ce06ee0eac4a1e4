"""The syntax tree of expressions: one class for each form, each with its span in the source."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, dataclass_transform

from collc.base.diagnostics import Span
from collc.base.units import Dimension

if TYPE_CHECKING:
    from collc.ten.arrays import Int64Array

Scope = TypeVar("Scope")
Result = TypeVar("Result")

NODES: Final[dict[str, type[Node]]] = {}
"""The class of each rule of coll.lark that has one; its fields are what the rule keeps, in order (see build.py)."""


@dataclass_transform(frozen_default=True, eq_default=False)
class _Form:
    """What makes each subclass a dataclass, and enters it as the class of a rule of coll.lark."""

    def __init_subclass__(cls, rule: str = "") -> None:
        dataclass(eq=False, repr=False)(cls)
        if rule:
            NODES[rule] = cast("type[Node]", cls)


class Node(_Form):
    """A node of the syntax tree. span: the source text that it was parsed from."""

    span: Span


class Identifier(Node):
    """A name in a declaration, or as the label of an argument or member."""

    name: str


# Expressions


class Expr(Node):
    """An expression."""


class IntLiteral(Expr):
    """`42`."""

    value: int


class FloatLiteral(Expr):
    """`0.5`, kept exactly."""

    value: Fraction


class QuantityLiteral(Expr):
    """`9MiB`, `0.5us`, `50GiB/s`: value in bytes, picoseconds or bytes per second."""

    dimension: Dimension
    value: Fraction


class StringLiteral(Expr):
    """`"sum"`, without its quotes."""

    value: str


class BoolLiteral(Expr):
    """`true`, `false`."""

    value: bool


class NumberList(Expr):
    """`[0, 4, 0, 1, ...]`: a long list of nothing but whole numbers (see tables.py). numbers: int64[items]."""

    numbers: Int64Array


class Name(Expr):
    """A use of a name."""

    name: str


class Star(Expr, rule="star"):
    """`*` as an index: all of a dimension."""


class Member(Expr, rule="member"):
    """`pod.gpu`."""

    base: Expr
    member: Identifier


class Index(Expr, rule="index"):
    """`gpu[0, *]`."""

    base: Expr
    indices: tuple[Expr, ...]


def root_of(node: Expr) -> Expr:
    """What the name of a device begins with: `node` of `node[2].gpu[0]`."""
    while isinstance(node, Member | Index):
        node = node.base
    return node


class Argument(Node, rule="argument"):
    """`64MiB` or `size: 64MiB`."""

    name: Identifier | None
    value: Expr

    @property
    def key(self) -> str:
        """Its name, "" if it has none."""
        return "" if self.name is None else self.name.name


class Call(Expr, rule="call"):
    """`len(g)`, `ring(8, bandwidth: 50GiB/s)`, `unwound(t, degree: 2)`."""

    function: Identifier
    arguments: tuple[Argument, ...]


class Unary(Expr, rule="unary"):
    """`-a`, `+a`, `~a`, `not a`."""

    operator: str
    operand: Expr


class Binary(Expr, rule="binary"):
    """`a + b`, ..., `a and b`; also products of topologies, and unions and differences of sets."""

    left: Expr
    operator: str
    right: Expr


class Comparison(Expr):
    """`a < b <= c`, `x in s`, `x not in s`; there is one operand more than operators."""

    operators: tuple[str, ...]
    operands: tuple[Expr, ...]


class Range(Expr, rule="range"):
    """`low..high`, without high."""

    low: Expr
    high: Expr


class Collection(Expr):
    """`{a, b}` (kind "set") or `[a, b]` (kind "list")."""

    kind: str
    items: tuple[Expr, ...]


class ForClause(Node, rule="for_clause"):
    """`i in 0..4` of a for statement, a comprehension or a family of groups."""

    name: Identifier
    iterable: Expr


class Comprehension(Expr):
    """`{f(i) for i in r, j in q if c}` or with brackets."""

    kind: str
    item: Expr
    clauses: tuple[ForClause, ...]
    condition: Expr | None


class RemovedDevice(Node, rule="removed_device"):
    """`npu 5`, `npu gpu[0, *]`, `switch spine` or `part nic[0]` in `without`; kind: "npu", "switch" or "part".

    An int is an NPU number.
    """

    kind: str
    device: Expr


class RemovedLink(Node, rule="removed_link"):
    """`link 0 <-> 1 lanes 2` in `without`; both: `<->`. lanes: how many of parallel links; None for all."""

    source: Expr
    both: bool
    target: Expr
    lanes: Expr | None


class Without(Expr, rule="without"):
    """`t without { npu 5, link 0 <-> 1 }`."""

    base: Expr
    parts: tuple[RemovedDevice | RemovedLink, ...]


class ExpressionVisitor(Generic[Scope, Result]):
    """Calls the method for each kind of expression: `_visit_binary` for a Binary, as `ast.NodeVisitor` does.

    Scope: what the names in an expression mean. A subclass has a method for each kind but literals.
    """

    def visit(self, node: Expr, scope: Scope) -> Result:
        """What the method for the kind of a node returns; `_visit_literal` takes the nodes that have no method."""
        method: Any = getattr(self, f"_visit_{type(node).__name__.lower()}", None)
        return self._visit_literal(node) if method is None else method(node, scope)

    def _visit_literal(self, node: Expr) -> Result:
        """All other expressions: literals, and a '*' that is no index."""
        raise NotImplementedError
