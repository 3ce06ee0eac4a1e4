"""Builds the syntax tree: one method for each rule of coll.lark.

The automaton calls a method when it reduces the rule of the same name, so no generic parse tree is built. The
arguments are the values of the symbols of the rule in order, tokens included; None is an optional part that is absent.
"""

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
from collc.source.parsing import tokens as t
from collc.source.parsing.literals import LiteralError, number, quantity, string_value, whole
from collc.source.parsing.tokens import Token

MAX_NESTING = 64
"""Maximum nesting of blocks, brackets and operators."""

REDUCTIONS = ("sum", "max", "min", "prod", "avg")
"""The reductions that `post` can apply to the contributions."""

RESERVED = frozenset({"and", "or", "not", "in", "true", "false"})
"""Words that cannot be names, since they have a meaning in expressions."""

TableNode = s.LinkTable | s.DeviceTable | ex.NumberList
"""What is read from a table and not parsed."""

_Part = Token | ex.Node


@dataclass(frozen=True, slots=True)
class BracketedItems:
    """The items between two brackets, with the positions at which the brackets begin and end."""

    start: int
    end: int
    items: tuple[ex.Node, ...]


_Child = _Part | BracketedItems | None
_T = TypeVar("_T", bound=ex.Node)
_Value = TypeVar("_Value")


def _start(part: _Part | BracketedItems) -> int:
    return part.span.start if isinstance(part, ex.Node) else part.start


def _end(part: _Part | BracketedItems) -> int:
    return part.span.end if isinstance(part, ex.Node) else part.end


def _nodes(parts: Iterable[_Child], kind: type[_T]) -> tuple[_T, ...]:
    return tuple(part for part in parts if isinstance(part, kind))


def _items(sequence: BracketedItems | None, kind: type[_T]) -> tuple[_T, ...]:
    return _nodes(sequence.items, kind) if sequence else ()


class Builder:
    """Builds the nodes of one file. errors: mistakes that the grammar does not reject, such as unknown units.

    tables: statements and lists that were read already, by the positions at which they begin; each that is used is
    removed.
    """

    def __init__(
        self, file: SourceFile, tables: dict[int, s.LinkTable | s.DeviceTable | ex.NumberList] | None = None
    ) -> None:
        self._file = file
        self.tables = {} if tables is None else tables
        self._heights: dict[ex.Node, int] = {}
        self.errors: list[Diagnostic] = []

    # Spans and nesting

    def _span(self, first: _Part | BracketedItems, *rest: _Child) -> Span:
        last = next((part for part in reversed(rest) if part is not None), first)
        return Span(self._file, _start(first), _end(last))

    def _identifier(self, token: Token) -> ex.Identifier:
        if token.text in RESERVED:
            hint = f"call it '{token.text}_', or better by what it means"
            message = f"'{token.text}' is a word of the language and cannot be a name"
            self._error("E0115", message, self._span(token), hint)
        return ex.Identifier(self._span(token), token.text)

    def _optional_identifier(self, token: Token | None) -> ex.Identifier | None:
        return self._identifier(token) if token is not None else None

    def _nested(self, node: _T, *parts: _Child | Iterable[ex.Node]) -> _T:
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
            message = f"this goes more than {MAX_NESTING} levels deep"
            raise SourceError(Diagnostic("E0806", message, node.span, hint="give parts of it names with 'let'"))
        heights[node] = height + 1
        return node

    def _error(self, code: str, message: str, span: Span, hint: str = "") -> None:
        self.errors.append(Diagnostic(code, message, span, hint=hint))

    # Files and values

    def file(self, *statements: s.Statement) -> s.File:
        return s.File(self._file, statements)

    def module(self, *parts: Token) -> ex.Identifier:
        return ex.Identifier(self._span(*parts), "".join(part.text for part in parts))

    def import_statement(self, keyword: Token, what: ex.Identifier | Token) -> s.Import:
        span = self._span(keyword, what)
        if isinstance(what, Token):
            return s.Import(span, None, self.string(what).value)
        return s.Import(span, what.name, None)

    def param(
        self,
        keyword: Token,
        name: Token,
        _colon: Token | None,
        kind: Token | None,
        _equals: Token | None,
        default: ex.Expr | None,
    ) -> s.Param:
        span = self._span(keyword, name, kind, default)
        return s.Param(span, self._identifier(name), self._optional_identifier(kind), default)

    def let(self, keyword: Token, name: Token, _equals: Token, value: ex.Expr) -> s.Let:
        return s.Let(self._span(keyword, value), self._identifier(name), value)

    def parameter(
        self, name: Token, _colon: Token | None, kind: Token | None, _equals: Token | None, default: ex.Expr | None
    ) -> s.Parameter:
        span = self._span(name, kind, default)
        return s.Parameter(span, self._identifier(name), self._optional_identifier(kind), default)

    def _sequence(self, *parts: _Child) -> BracketedItems:
        first, last = parts[0], parts[-1]
        assert isinstance(first, Token)
        assert isinstance(last, Token)
        return BracketedItems(_start(first), _end(last), _nodes(parts, ex.Node))

    parameters = arguments = shape = block = _sequence

    # Statements of every body

    def for_clause(self, name: Token, _in: Token, iterable: ex.Expr) -> ex.ForClause:
        return self._nested(ex.ForClause(self._span(name, iterable), self._identifier(name), iterable), iterable)

    def for_clauses(self, *parts: _Child) -> BracketedItems:
        clauses = _nodes(parts, ex.ForClause)
        return BracketedItems(clauses[0].span.start, clauses[-1].span.end, clauses)

    def for_statement(
        self,
        keyword: Token,
        clauses: BracketedItems,
        _if: Token | None,
        condition: ex.Expr | None,
        body: BracketedItems,
    ) -> s.For:
        span = self._span(keyword, body)
        node = s.For(span, _items(clauses, ex.ForClause), condition, _items(body, s.Statement))
        return self._nested(node, clauses, condition, body)

    def if_statement(
        self, keyword: Token, condition: ex.Expr, body: BracketedItems, otherwise: BracketedItems | None
    ) -> s.If:
        span = self._span(keyword, body, otherwise)
        node = s.If(span, condition, _items(body, s.Statement), _items(otherwise, s.Statement))
        return self._nested(node, condition, body, otherwise)

    def else_branch(self, keyword: Token, body: BracketedItems | s.If) -> BracketedItems:
        items = (body,) if isinstance(body, s.If) else body.items
        return BracketedItems(_start(keyword), _end(body), items)

    # Topologies

    def topology_instance(self, keyword: Token, name: Token, _equals: Token, value: ex.Expr) -> s.TopologyInstance:
        return s.TopologyInstance(self._span(keyword, value), self._identifier(name), value)

    def topology_template(
        self, keyword: Token, name: Token, parameters: BracketedItems | None, body: BracketedItems
    ) -> s.TopologyTemplate:
        known = _items(parameters, s.Parameter) if parameters else None
        span = self._span(keyword, body)
        return self._nested(s.TopologyTemplate(span, self._identifier(name), known, _items(body, s.Statement)), body)

    def device(
        self, kind: Token, name: Token, shape: BracketedItems | None, attributes: BracketedItems | None
    ) -> s.DeviceDeclaration | s.DeviceTable:
        table = self.tables.pop(kind.start, None) if self.tables else None
        if isinstance(table, s.DeviceTable):
            return table
        span = self._span(kind, name, shape, attributes)
        sizes = _items(shape, ex.Expr)
        return s.DeviceDeclaration(span, kind.text, self._identifier(name), sizes, _items(attributes, ex.Argument))

    def link(
        self, keyword: Token, source: ex.Expr, arrow: Token, target: ex.Expr, attributes: BracketedItems | None
    ) -> s.LinkDeclaration | s.LinkTable:
        table = self.tables.pop(keyword.start, None) if self.tables else None
        if isinstance(table, s.LinkTable):
            return table
        span = self._span(keyword, target, attributes)
        return s.LinkDeclaration(span, source, target, arrow.kind == "<->", _items(attributes, ex.Argument))

    def links(self, keyword: Token, matrix: ex.Expr, attributes: BracketedItems | None) -> s.LinkMatrix:
        return s.LinkMatrix(self._span(keyword, matrix, attributes), matrix, _items(attributes, ex.Argument))

    def use(self, keyword: Token, topology: ex.Expr, _as: Token, name: Token, shape: BracketedItems | None) -> s.Use:
        span = self._span(keyword, name, shape)
        return s.Use(span, topology, self._identifier(name), _items(shape, ex.Expr))

    # Groups

    def group(self, keyword: Token, name: Token, *rest: _Child) -> s.Group:
        _open, clauses, _close, _equals, value = rest
        assert clauses is None or isinstance(clauses, BracketedItems)
        assert isinstance(value, ex.Expr)
        span = self._span(keyword, value)
        return s.Group(span, self._identifier(name), _items(clauses, ex.ForClause), value)

    # Collectives and algorithms

    def collective(self, keyword: Token, name: Token, parameters: BracketedItems, body: BracketedItems) -> s.Collective:
        span = self._span(keyword, body)
        known = _items(parameters, s.Parameter)
        return self._nested(s.Collective(span, self._identifier(name), known, _items(body, s.Statement)), body)

    def chunk_reference(self, name: Token, indices: BracketedItems | None) -> s.ChunkReference:
        return s.ChunkReference(self._span(name, indices), self._identifier(name), _items(indices, ex.Expr))

    def chunk(self, keyword: Token, chunk: s.ChunkReference, _colon: Token, size: ex.Expr) -> s.ChunkDeclaration:
        return s.ChunkDeclaration(self._span(keyword, size), chunk, size)

    def pre(self, keyword: Token, chunk: s.ChunkReference, _at: Token, place: ex.Expr) -> s.Precondition:
        return s.Precondition(self._span(keyword, place), chunk, place)

    def post(self, keyword: Token, chunk: s.ChunkReference, _at: Token, place: ex.Expr) -> s.Postcondition:
        return s.Postcondition(self._span(keyword, place), chunk, None, place)

    def post_reduced(self, keyword: Token, name: Token, *rest: _Child) -> s.Postcondition:
        _open, chunk, _comma, operation, close, _at, place = rest
        assert isinstance(chunk, s.ChunkReference)
        assert isinstance(close, Token)
        assert isinstance(place, ex.Expr)
        reduction: ex.Expr = ex.StringLiteral(self._span(name), name.text)
        call = self._span(name, close)
        reducer = name.text
        if reducer == "reduce":
            if isinstance(operation, ex.Expr):
                reduction = operation
            else:
                hint = "write 'reduce(x, \"sum\")' or 'sum(x)'"
                self._error("E0118", "'reduce' needs an operation after its chunk", call, hint)
        elif reducer not in REDUCTIONS:
            known = ", ".join(f"'{r}(x)'" for r in REDUCTIONS)
            hint = f"{known} or 'reduce(x, op)' is allowed here"
            self._error("E0117", f"'{reducer}' is not a reduction", reduction.span, hint)
        elif operation is not None:
            self._error(
                "E0118", f"'{reducer}' takes one chunk and nothing else", call, "'reduce(x, op)' names an operation"
            )
        return s.Postcondition(self._span(keyword, place), chunk, reduction, place)

    def algorithm(self, keyword: Token, name: Token, parameters: BracketedItems, *rest: _Child) -> s.Algorithm:
        _implements, collective, body = rest
        assert isinstance(collective, ex.Call)
        assert isinstance(body, BracketedItems)
        span, known = self._span(keyword, body), _items(parameters, s.Parameter)
        statements = _items(body, s.Statement)
        return self._nested(s.Algorithm(span, self._identifier(name), known, collective, statements), body)

    def transfer(self, kind: Token, chunk: s.ChunkReference, *rest: _Child) -> s.TransferStatement:
        _from, source, _to, target, _at, step = rest
        assert isinstance(source, ex.Expr)
        assert isinstance(target, ex.Expr)
        assert step is None or isinstance(step, ex.Expr)
        return s.TransferStatement(self._span(kind, target, step), kind.text, chunk, source, target, step)

    # Schedules

    def schedule(
        self, keyword: Token, name: Token, _on: Token, topology: ex.Expr, body: BracketedItems
    ) -> s.ScheduleDeclaration:
        span = self._span(keyword, body)
        node = s.ScheduleDeclaration(span, self._identifier(name), topology, _items(body, s.Statement))
        return self._nested(node, body)

    def run(self, keyword: Token, collective: ex.Call, *rest: _Child) -> s.RunStatement:
        _using, algorithm, arguments = rest
        assert algorithm is None or isinstance(algorithm, Token)
        assert arguments is None or isinstance(arguments, BracketedItems)
        span = self._span(keyword, collective, algorithm, arguments)
        using = self._optional_identifier(algorithm)
        return s.RunStatement(span, collective, using, _items(arguments, ex.Argument))

    def synthesize(self, keyword: Token, synthesizer: Token, arguments: BracketedItems | None) -> s.Synthesize:
        span = self._span(keyword, synthesizer, arguments)
        return s.Synthesize(span, self._identifier(synthesizer), _items(arguments, ex.Argument))

    def verify(self, keyword: Token, *checks: _Child) -> s.Verify:
        known = _nodes(checks, ex.Expr)
        return s.Verify(self._span(keyword, known[-1]), known)

    def emit(self, keyword: Token, kind: Token, arguments: BracketedItems | None) -> s.Emit:
        span = self._span(keyword, kind, arguments)
        return s.Emit(span, self._identifier(kind), _items(arguments, ex.Argument))

    def allow(self, keyword: Token, what: Token) -> s.Allow:
        return s.Allow(self._span(keyword, what), self._identifier(what))

    # Workloads and designs

    def workload(self, keyword: Token, name: Token, *rest: _Child) -> s.Workload:
        _from, path, arguments, body = rest
        assert path is None or isinstance(path, Token)
        assert arguments is None or isinstance(arguments, BracketedItems)
        assert body is None or isinstance(body, BracketedItems)
        span = self._span(keyword, name, path, arguments, body)
        file = self.string(path) if path is not None else None
        options, statements = _items(arguments, ex.Argument), _items(body, s.Statement)
        return self._nested(s.Workload(span, self._identifier(name), file, options, statements), body)

    def repeat(self, keyword: Token, count: ex.Expr, body: BracketedItems) -> s.Repeat:
        return self._nested(s.Repeat(self._span(keyword, body), count, _items(body, s.Statement)), count, body)

    def layer(self, keyword: Token, times: BracketedItems | None, body: BracketedItems) -> s.Layer:
        collectives = _items(body, s.LayerCollective)
        return s.Layer(self._span(keyword, body), _items(times, ex.Argument), collectives)

    def layer_collective(self, phase: Token, group: Token, collective: Token, size: ex.Expr) -> s.LayerCollective:
        names = [self._identifier(token) for token in (phase, group, collective)]
        return s.LayerCollective(self._span(phase, size), names[0], names[1], names[2], size)

    def loop(self, keyword: Token, time: ex.Expr) -> s.Loop:
        return s.Loop(self._span(keyword, time), time)

    def prices(self, keyword: Token, name: Token, body: BracketedItems) -> s.PriceTable:
        node = s.PriceTable(self._span(keyword, body), self._identifier(name), _items(body, s.Statement))
        return self._nested(node, body)

    def design(self, keyword: Token, name: Token, _on: Token, topology: ex.Expr, body: BracketedItems) -> s.Design:
        span = self._span(keyword, body)
        return self._nested(s.Design(span, self._identifier(name), topology, _items(body, s.Statement)), body)

    def train(self, keyword: Token, workload: Token, arguments: BracketedItems | None) -> s.Train:
        span = self._span(keyword, workload, arguments)
        return s.Train(span, self._identifier(workload), _items(arguments, ex.Argument))

    def require(self, keyword: Token, constraint: ex.Expr) -> s.Require:
        return s.Require(self._span(keyword, constraint), constraint)

    def minimize(self, keyword: Token, objective: ex.Expr) -> s.Minimize:
        return s.Minimize(self._span(keyword, objective), objective)

    def tiers(self, keyword: Token, *parts: _Child) -> s.Tiers:
        names = tuple(self._identifier(part) for part in parts if isinstance(part, Token) and part.kind == t.NAME)
        return s.Tiers(self._span(keyword, *parts), names)

    def price(self, keyword: Token, tier: Token, arguments: BracketedItems) -> s.Price:
        return s.Price(self._span(keyword, arguments), self._identifier(tier), _items(arguments, ex.Argument))

    def priced_by(self, keyword: Token, table: Token) -> s.PricedBy:
        return s.PricedBy(self._span(keyword, table), self._identifier(table))

    # Expressions

    def without(self, base: ex.Expr, *rest: _Child) -> ex.Without:
        removed = tuple(part for part in rest if isinstance(part, ex.RemovedDevice | ex.RemovedLink))
        return self._nested(ex.Without(self._span(base, *rest), base, removed), base)

    def changed_link(self, keyword: Token, *rest: _Child) -> s.ChangedLink:
        source, arrow, target, attributes, _lanes, lanes, _for, clause = rest
        assert isinstance(source, ex.Expr)
        assert isinstance(arrow, Token)
        assert isinstance(target, ex.Expr)
        assert attributes is None or isinstance(attributes, BracketedItems)
        assert lanes is None or isinstance(lanes, ex.Expr)
        assert clause is None or isinstance(clause, ex.ForClause)
        known = _items(attributes, ex.Argument)
        span = self._span(keyword, target, attributes, lanes, clause)
        return s.ChangedLink(span, source, target, arrow.kind == "<->", known, lanes, clause)

    def with_parts(self, base: ex.Expr, *rest: _Child) -> s.With:
        parts = tuple(part for part in rest if isinstance(part, s.DeviceDeclaration | s.ChangedLink))
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

    def comparison(self, *parts: _Part) -> ex.Comparison:
        operands = _nodes(parts, ex.Expr)
        words = [part.text if isinstance(part, Token) else "," for part in parts[1:-1]]
        operators = tuple(" ".join(words).split(" , "))
        return self._nested(ex.Comparison(self._span(*parts), operators, operands), operands)

    def range(self, low: ex.Expr, _dots: Token, high: ex.Expr) -> ex.Range:
        return self._nested(ex.Range(self._span(low, high), low, high), low, high)

    def member(self, base: ex.Expr, _dot: Token, member: Token) -> ex.Member:
        return self._nested(ex.Member(self._span(base, member), base, self._identifier(member)), base)

    def indices(self, *parts: _Child) -> tuple[ex.Expr, ...]:
        return _nodes(parts, ex.Expr)

    def index(self, base: ex.Expr, _open: Token, indices: tuple[ex.Expr, ...], close: Token) -> ex.Index:
        return self._nested(ex.Index(self._span(base, close), base, indices), base, indices)

    def name(self, token: Token) -> ex.Name:
        identifier = self._identifier(token)
        return ex.Name(identifier.span, identifier.name)

    def call(self, name: Token, arguments: BracketedItems) -> ex.Call:
        node = ex.Call(self._span(name, arguments), self._identifier(name), _items(arguments, ex.Argument))
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

    def _collection(self, kind: str, parts: tuple[_Child, ...]) -> ex.Collection:
        first = parts[0]
        assert isinstance(first, Token)
        items = _nodes(parts, ex.Expr)
        return self._nested(ex.Collection(self._span(first, *parts), kind, items), items)

    def list(self, *parts: _Child) -> ex.Collection | ex.NumberList:
        first = parts[0]
        numbers = self.tables.pop(first.start, None) if self.tables and isinstance(first, Token) else None
        return numbers if isinstance(numbers, ex.NumberList) else self._collection("list", parts)

    def set(self, *parts: _Child) -> ex.Collection:
        return self._collection("set", parts)

    def _comprehension(self, kind: str, parts: tuple[_Child, ...]) -> ex.Comprehension:
        opening, item, _for, clauses, _if, condition, closing = parts
        assert isinstance(opening, Token)
        assert isinstance(item, ex.Expr)
        assert isinstance(clauses, BracketedItems)
        assert condition is None or isinstance(condition, ex.Expr)
        span = self._span(opening, closing)
        node = ex.Comprehension(span, kind, item, _items(clauses, ex.ForClause), condition)
        return self._nested(node, item, clauses, condition)

    def list_comprehension(self, *parts: _Child) -> ex.Comprehension:
        return self._comprehension("list", parts)

    def set_comprehension(self, *parts: _Child) -> ex.Comprehension:
        return self._comprehension("set", parts)
