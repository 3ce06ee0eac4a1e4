"""Builds the syntax tree of expressions, and the spans and the nesting of all nodes (see build.py)."""

# ruff: noqa: D102 (a method matches the rule of the same name; its return type says what it builds)

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.base.units import Dimension
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.literals import LiteralError, number, quantity, string_value, whole
from collc.source.parsing.tokens import Token

MAX_NESTING = 64
"""Maximum nesting of blocks, brackets and operators."""

RESERVED = frozenset({"and", "or", "not", "in", "true", "false"})
"""Words that cannot be names, since they have a meaning in expressions."""

TableNode = s.LinkTable | s.DeviceTable | ex.NumberList
"""What is read from a table and not parsed."""

TableType = TypeVar("TableType", s.LinkTable, s.DeviceTable, ex.NumberList)

Part = Token | ex.Node


@dataclass(frozen=True, slots=True)
class BracketedItems:
    """The items between two brackets, with the positions at which the brackets begin and end."""

    start: int
    end: int
    items: tuple[ex.Node, ...]


Child = Part | BracketedItems | None
NodeType = TypeVar("NodeType", bound=ex.Node)
_Value = TypeVar("_Value")


def start_of(part: Part | BracketedItems) -> int:
    """Where a part begins."""
    return part.span.start if isinstance(part, ex.Node) else part.start


def end_of(part: Part | BracketedItems) -> int:
    """Where a part ends."""
    return part.span.end if isinstance(part, ex.Node) else part.end


def nodes_of(parts: Iterable[Child], kind: type[NodeType]) -> tuple[NodeType, ...]:
    """The nodes of a kind among some parts."""
    return tuple(part for part in parts if isinstance(part, kind))


def items_of(sequence: BracketedItems | None, kind: type[NodeType]) -> tuple[NodeType, ...]:
    """The nodes of a kind between two brackets."""
    return nodes_of(sequence.items, kind) if sequence else ()


class ExpressionBuilder:
    """Builds the expressions of one file. errors: mistakes that the grammar does not reject, such as unknown units.

    tables: statements and lists that were read already, by the positions at which they begin; each that is used is
    removed.
    """

    def __init__(self, file: SourceFile, tables: dict[int, TableNode] | None = None) -> None:
        self._file = file
        self.tables = {} if tables is None else tables
        self._heights: dict[ex.Node, int] = {}
        self.errors: list[Diagnostic] = []

    # Tables, spans and nesting

    def _table(self, kind: type[TableType], first: Token) -> TableType | None:
        """What was read already of the statement or list that begins with a token; None where that is no such table."""
        found = self.tables.pop(first.start, None) if self.tables else None
        return found if isinstance(found, kind) else None

    def _span(self, first: Part | BracketedItems, *rest: Child) -> Span:
        last = next((part for part in reversed(rest) if part is not None), first)
        return Span(self._file, start_of(first), end_of(last))

    def _identifier(self, token: Token) -> ex.Identifier:
        if token.text in RESERVED:
            hint = f"call it '{token.text}_', or better by what it means"
            message = f"'{token.text}' is a word of the language and cannot be a name"
            self._error("E0115", message, self._span(token), hint)
        return ex.Identifier(self._span(token), token.text)

    def _optional_identifier(self, token: Token | None) -> ex.Identifier | None:
        return self._identifier(token) if token is not None else None

    def _nested(self, node: NodeType, *parts: Child | Iterable[ex.Node]) -> NodeType:
        """`node`, whose children are `parts`. Raises SourceError where it is nested deeper than MAX_NESTING."""
        heights = self._heights
        height = 0
        for part in parts:
            if isinstance(part, ex.Node):
                height = max(height, heights.pop(part, 0))
            elif isinstance(part, BracketedItems):
                height = max([height, *(heights.pop(item, 0) for item in part.items)])
            elif part is not None and not isinstance(part, Token):
                height = max([height, *(heights.pop(item, 0) for item in part)])
        if height >= MAX_NESTING:
            message = f"this is nested more than {MAX_NESTING} levels deep"
            raise SourceError(Diagnostic("E0806", message, node.span, hint="give parts of it names with 'let'"))
        heights[node] = height + 1
        return node

    def _error(self, code: str, message: str, span: Span, hint: str = "") -> None:
        self.errors.append(Diagnostic(code, message, span, hint=hint))

    # Sequences

    def _sequence(self, *parts: Child) -> BracketedItems:
        first, last = parts[0], parts[-1]
        assert isinstance(first, Token)
        assert isinstance(last, Token)
        return BracketedItems(start_of(first), end_of(last), nodes_of(parts, ex.Node))

    parameters = arguments = shape = block = _sequence

    def for_clause(self, name: Token, _in: Token, iterable: ex.Expr) -> ex.ForClause:
        return self._nested(ex.ForClause(self._span(name, iterable), self._identifier(name), iterable), iterable)

    def for_clauses(self, *parts: Child) -> BracketedItems:
        clauses = nodes_of(parts, ex.ForClause)
        return BracketedItems(clauses[0].span.start, clauses[-1].span.end, clauses)

    # Expressions

    def without(self, base: ex.Expr, *rest: Child) -> ex.Without:
        removed = tuple(part for part in rest if isinstance(part, ex.RemovedDevice | ex.RemovedLink))
        return self._nested(ex.Without(self._span(base, *rest), base, removed), base)

    def changed_link(self, keyword: Token, *rest: Child) -> s.ChangedLink:
        source, arrow, target, attributes, _lanes, lanes, _for, clause = rest
        assert isinstance(source, ex.Expr)
        assert isinstance(arrow, Token)
        assert isinstance(target, ex.Expr)
        assert attributes is None or isinstance(attributes, BracketedItems)
        assert lanes is None or isinstance(lanes, ex.Expr)
        assert clause is None or isinstance(clause, ex.ForClause)
        known = items_of(attributes, ex.Argument)
        span = self._span(keyword, target, attributes, lanes, clause)
        return s.ChangedLink(span, source, target, arrow.kind == "<->", known, lanes, clause)

    def changed_device(
        self, kind: Token, device: ex.Expr, attributes: BracketedItems | None, labels: ex.Expr | None
    ) -> s.ChangedDevice:
        span = self._span(kind, device, attributes, labels)
        return s.ChangedDevice(span, kind.text, device, items_of(attributes, ex.Argument), labels)

    def with_parts(self, base: ex.Expr, *rest: Child) -> s.With:
        parts = tuple(part for part in rest if isinstance(part, s.ChangedDevice | s.ChangedLink))
        return self._nested(s.With(self._span(base, *rest), base, parts), base)

    def removed_device(self, keyword: Token, device: ex.Expr) -> ex.RemovedDevice:
        return ex.RemovedDevice(self._span(keyword, device), keyword.text == "switch", device)

    def removed_link(
        self,
        keyword: Token,
        source: ex.Expr,
        arrow: Token,
        target: ex.Expr,
        _lanes: Token | None,
        lanes: ex.Expr | None,
    ) -> ex.RemovedLink:
        span = self._span(keyword, target if lanes is None else lanes)
        return ex.RemovedLink(span, source, target, arrow.kind == "<->", lanes)

    def binary(self, left: ex.Expr, operator: Token, right: ex.Expr) -> ex.Binary:
        return self._nested(ex.Binary(self._span(left, right), operator.text, left, right), left, right)

    def unary(self, operator: Token, operand: ex.Expr) -> ex.Unary:
        return self._nested(ex.Unary(self._span(operator, operand), operator.text, operand), operand)

    def comparison(self, *parts: Part) -> ex.Comparison:
        operands = nodes_of(parts, ex.Expr)
        words = [part.text if isinstance(part, Token) else "," for part in parts[1:-1]]
        operators = tuple(" ".join(words).split(" , "))
        return self._nested(ex.Comparison(self._span(*parts), operators, operands), operands)

    def range(self, low: ex.Expr, _dots: Token, high: ex.Expr) -> ex.Range:
        return self._nested(ex.Range(self._span(low, high), low, high), low, high)

    def member(self, base: ex.Expr, _dot: Token, member: Token) -> ex.Member:
        return self._nested(ex.Member(self._span(base, member), base, self._identifier(member)), base)

    def indices(self, *parts: Child) -> tuple[ex.Expr, ...]:
        return nodes_of(parts, ex.Expr)

    def index(self, base: ex.Expr, _open: Token, indices: tuple[ex.Expr, ...], close: Token) -> ex.Index:
        return self._nested(ex.Index(self._span(base, close), base, indices), base, indices)

    def name(self, token: Token) -> ex.Name:
        identifier = self._identifier(token)
        return ex.Name(identifier.span, identifier.name)

    def call(self, name: Token, arguments: BracketedItems) -> ex.Call:
        node = ex.Call(self._span(name, arguments), self._identifier(name), items_of(arguments, ex.Argument))
        return self._nested(node, arguments)

    def argument(self, name: Token | None, _colon: Token | None, value: ex.Expr) -> ex.Argument:
        node = ex.Argument(
            self._span(name if name is not None else value, value), self._optional_identifier(name), value
        )
        return self._nested(node, value)

    def star(self, token: Token) -> ex.Star:
        return ex.Star(self._span(token))

    def integer(self, token: Token) -> ex.IntLiteral:
        return ex.IntLiteral(Span(self._file, token.start, token.end), self._literal(whole, token, 1))

    def decimal(self, token: Token) -> ex.FloatLiteral:
        return ex.FloatLiteral(self._span(token), self._literal(number, token, Fraction(1)))

    def quantity(self, token: Token) -> ex.QuantityLiteral:
        dimension, value = self._literal(quantity, token, (Dimension.BYTES, Fraction(1)))
        return ex.QuantityLiteral(self._span(token), dimension, value)

    def string(self, token: Token) -> ex.StringLiteral:
        return ex.StringLiteral(self._span(token), self._literal(string_value, token, ""))

    def _literal(self, meaning: Callable[[str], _Value], token: Token, stand_in: _Value) -> _Value:
        try:
            return meaning(token.text)
        except LiteralError as error:
            self.errors.append(error.diagnostic(self._span(token)))
            return stand_in

    def boolean(self, token: Token) -> ex.BoolLiteral:
        return ex.BoolLiteral(self._span(token), token.text == "true")

    def parenthesized(self, opening: Token, inside: ex.Expr, closing: Token) -> ex.Expr:
        return self._nested(replace(inside, span=self._span(opening, closing)), inside)

    def _collection(self, kind: str, parts: tuple[Child, ...]) -> ex.Collection:
        first = parts[0]
        assert isinstance(first, Token)
        items = nodes_of(parts, ex.Expr)
        return self._nested(ex.Collection(self._span(first, *parts), kind, items), items)

    def list(self, *parts: Child) -> ex.Collection | ex.NumberList:
        first = parts[0]
        numbers = self._table(ex.NumberList, first) if isinstance(first, Token) else None
        return self._collection("list", parts) if numbers is None else numbers

    def set(self, *parts: Child) -> ex.Collection:
        return self._collection("set", parts)

    def _comprehension(self, kind: str, parts: tuple[Child, ...]) -> ex.Comprehension:
        opening, item, _for, clauses, _if, condition, closing = parts
        assert isinstance(opening, Token)
        assert isinstance(item, ex.Expr)
        assert isinstance(clauses, BracketedItems)
        assert condition is None or isinstance(condition, ex.Expr)
        span = self._span(opening, closing)
        node = ex.Comprehension(span, kind, item, items_of(clauses, ex.ForClause), condition)
        return self._nested(node, item, clauses, condition)

    def list_comprehension(self, *parts: Child) -> ex.Comprehension:
        return self._comprehension("list", parts)

    def set_comprehension(self, *parts: Child) -> ex.Comprehension:
        return self._comprehension("set", parts)
