"""Builds the syntax tree: one method for each rule of coll.lark.

The automaton calls a method when it reduces the rule of the same name, so no generic parse tree is built. The
arguments are the values of the symbols of the rule in order, tokens included; None is an optional part that is absent.
"""

# ruff: noqa: D102 (a method matches the rule of the same name; its return type says what it builds)

from __future__ import annotations

from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing import tokens as t
from collc.source.parsing.build_expressions import (
    BracketedItems,
    Child,
    ExpressionBuilder,
    end_of,
    items_of,
    nodes_of,
    start_of,
)
from collc.source.parsing.tokens import Token

REDUCTIONS = ("sum", "max", "min", "prod", "avg")
"""The reductions that `post` can apply to the contributions."""


class Builder(ExpressionBuilder):
    """Builds the nodes of one file."""

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

    # Statements of every body

    def for_statement(
        self,
        keyword: Token,
        clauses: BracketedItems,
        _if: Token | None,
        condition: ex.Expr | None,
        body: BracketedItems,
    ) -> s.For:
        span = self._span(keyword, body)
        node = s.For(span, items_of(clauses, ex.ForClause), condition, items_of(body, s.Statement))
        return self._nested(node, clauses, condition, body)

    def if_statement(
        self, keyword: Token, condition: ex.Expr, body: BracketedItems, otherwise: BracketedItems | None
    ) -> s.If:
        span = self._span(keyword, body, otherwise)
        node = s.If(span, condition, items_of(body, s.Statement), items_of(otherwise, s.Statement))
        return self._nested(node, condition, body, otherwise)

    def else_branch(self, keyword: Token, body: BracketedItems | s.If) -> BracketedItems:
        items = (body,) if isinstance(body, s.If) else body.items
        return BracketedItems(start_of(keyword), end_of(body), items)

    # Topologies

    def topology_instance(self, keyword: Token, name: Token, _equals: Token, value: ex.Expr) -> s.TopologyInstance:
        return s.TopologyInstance(self._span(keyword, value), self._identifier(name), value)

    def topology_template(
        self, keyword: Token, name: Token, parameters: BracketedItems | None, body: BracketedItems
    ) -> s.TopologyTemplate:
        known = items_of(parameters, s.Parameter) if parameters else None
        span = self._span(keyword, body)
        return self._nested(s.TopologyTemplate(span, self._identifier(name), known, items_of(body, s.Statement)), body)

    def device(
        self,
        kind: Token,
        name: Token,
        shape: BracketedItems | None,
        attributes: BracketedItems | None,
        labels: ex.Expr | None,
    ) -> s.DeviceDeclaration | s.DeviceTable:
        table = self._table(s.DeviceTable, kind)
        if table is not None:
            return table
        span = self._span(kind, name, shape, attributes, labels)
        sizes, known = items_of(shape, ex.Expr), items_of(attributes, ex.Argument)
        return s.DeviceDeclaration(span, kind.text, self._identifier(name), sizes, known, labels)

    def labels(self, _keyword: Token, labels: ex.Expr) -> ex.Expr:
        return labels

    def link(
        self, keyword: Token, source: ex.Expr, arrow: Token, target: ex.Expr, attributes: BracketedItems | None
    ) -> s.LinkDeclaration | s.LinkTable:
        table = self._table(s.LinkTable, keyword)
        if table is not None:
            return table
        span = self._span(keyword, target, attributes)
        return s.LinkDeclaration(span, source, target, arrow.kind == "<->", items_of(attributes, ex.Argument))

    def links(self, keyword: Token, matrix: ex.Expr, attributes: BracketedItems | None) -> s.LinkMatrix:
        return s.LinkMatrix(self._span(keyword, matrix, attributes), matrix, items_of(attributes, ex.Argument))

    def use(
        self,
        keyword: Token,
        topology: ex.Expr,
        _as: Token,
        name: Token,
        shape: BracketedItems | None,
        labels: ex.Expr | None,
    ) -> s.Use:
        span = self._span(keyword, name, shape, labels)
        return s.Use(span, topology, self._identifier(name), items_of(shape, ex.Expr), labels)

    # Groups

    def group(self, keyword: Token, name: Token, *rest: Child) -> s.Group:
        _open, clauses, _close, _equals, value = rest
        assert clauses is None or isinstance(clauses, BracketedItems)
        assert isinstance(value, ex.Expr)
        span = self._span(keyword, value)
        return s.Group(span, self._identifier(name), items_of(clauses, ex.ForClause), value)

    # Collectives and algorithms

    def collective(self, keyword: Token, name: Token, parameters: BracketedItems, body: BracketedItems) -> s.Collective:
        span = self._span(keyword, body)
        known = items_of(parameters, s.Parameter)
        return self._nested(s.Collective(span, self._identifier(name), known, items_of(body, s.Statement)), body)

    def chunk_reference(self, name: Token, indices: BracketedItems | None) -> s.ChunkReference:
        return s.ChunkReference(self._span(name, indices), self._identifier(name), items_of(indices, ex.Expr))

    def chunk(self, keyword: Token, chunk: s.ChunkReference, _colon: Token, size: ex.Expr) -> s.ChunkDeclaration:
        return s.ChunkDeclaration(self._span(keyword, size), chunk, size)

    def pre(self, keyword: Token, chunk: s.ChunkReference, _at: Token, place: ex.Expr) -> s.Precondition:
        return s.Precondition(self._span(keyword, place), chunk, place)

    def post(self, keyword: Token, chunk: s.ChunkReference, _at: Token, place: ex.Expr) -> s.Postcondition:
        return s.Postcondition(self._span(keyword, place), chunk, None, place)

    def post_reduced(self, keyword: Token, name: Token, *rest: Child) -> s.Postcondition:
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

    def algorithm(self, keyword: Token, name: Token, parameters: BracketedItems, *rest: Child) -> s.Algorithm:
        _implements, collective, body = rest
        assert isinstance(collective, ex.Call)
        assert isinstance(body, BracketedItems)
        span, known = self._span(keyword, body), items_of(parameters, s.Parameter)
        statements = items_of(body, s.Statement)
        return self._nested(s.Algorithm(span, self._identifier(name), known, collective, statements), body)

    def transfer(self, kind: Token, chunk: s.ChunkReference, *rest: Child) -> s.TransferStatement:
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
        node = s.ScheduleDeclaration(span, self._identifier(name), topology, items_of(body, s.Statement))
        return self._nested(node, body)

    def run(self, keyword: Token, collective: ex.Call, *rest: Child) -> s.RunStatement:
        _using, algorithm, arguments = rest
        assert algorithm is None or isinstance(algorithm, Token)
        assert arguments is None or isinstance(arguments, BracketedItems)
        span = self._span(keyword, collective, algorithm, arguments)
        using = self._optional_identifier(algorithm)
        return s.RunStatement(span, collective, using, items_of(arguments, ex.Argument))

    def synthesize(self, keyword: Token, synthesizer: Token, arguments: BracketedItems | None) -> s.Synthesize:
        span = self._span(keyword, synthesizer, arguments)
        return s.Synthesize(span, self._identifier(synthesizer), items_of(arguments, ex.Argument))

    def verify(self, keyword: Token, *checks: Child) -> s.Verify:
        known = nodes_of(checks, ex.Expr)
        return s.Verify(self._span(keyword, known[-1]), known)

    def emit(self, keyword: Token, kind: Token, arguments: BracketedItems | None) -> s.Emit:
        span = self._span(keyword, kind, arguments)
        return s.Emit(span, self._identifier(kind), items_of(arguments, ex.Argument))

    def allow(self, keyword: Token, what: Token) -> s.Allow:
        return s.Allow(self._span(keyword, what), self._identifier(what))

    # Workloads and designs

    def workload(self, keyword: Token, name: Token, *rest: Child) -> s.Workload:
        _from, path, arguments, body = rest
        assert path is None or isinstance(path, Token)
        assert arguments is None or isinstance(arguments, BracketedItems)
        assert body is None or isinstance(body, BracketedItems)
        span = self._span(keyword, name, path, arguments, body)
        file = self.string(path) if path is not None else None
        options, statements = items_of(arguments, ex.Argument), items_of(body, s.Statement)
        return self._nested(s.Workload(span, self._identifier(name), file, options, statements), body)

    def repeat(self, keyword: Token, count: ex.Expr, body: BracketedItems) -> s.Repeat:
        return self._nested(s.Repeat(self._span(keyword, body), count, items_of(body, s.Statement)), count, body)

    def layer(self, keyword: Token, times: BracketedItems | None, body: BracketedItems) -> s.Layer:
        collectives = items_of(body, s.LayerCollective)
        return s.Layer(self._span(keyword, body), items_of(times, ex.Argument), collectives)

    def layer_collective(self, phase: Token, group: Token, collective: Token, size: ex.Expr) -> s.LayerCollective:
        names = [self._identifier(token) for token in (phase, group, collective)]
        return s.LayerCollective(self._span(phase, size), names[0], names[1], names[2], size)

    def loop(self, keyword: Token, time: ex.Expr) -> s.Loop:
        return s.Loop(self._span(keyword, time), time)

    def prices(self, keyword: Token, name: Token, body: BracketedItems) -> s.PriceTable:
        node = s.PriceTable(self._span(keyword, body), self._identifier(name), items_of(body, s.Statement))
        return self._nested(node, body)

    def design(self, keyword: Token, name: Token, _on: Token, topology: ex.Expr, body: BracketedItems) -> s.Design:
        span = self._span(keyword, body)
        return self._nested(s.Design(span, self._identifier(name), topology, items_of(body, s.Statement)), body)

    def train(self, keyword: Token, workload: Token, arguments: BracketedItems | None) -> s.Train:
        span = self._span(keyword, workload, arguments)
        return s.Train(span, self._identifier(workload), items_of(arguments, ex.Argument))

    def require(self, keyword: Token, constraint: ex.Expr) -> s.Require:
        return s.Require(self._span(keyword, constraint), constraint)

    def minimize(self, keyword: Token, objective: ex.Expr) -> s.Minimize:
        return s.Minimize(self._span(keyword, objective), objective)

    def tiers(self, keyword: Token, *parts: Child) -> s.Tiers:
        names = tuple(self._identifier(part) for part in parts if isinstance(part, Token) and part.kind == t.NAME)
        return s.Tiers(self._span(keyword, *parts), names)

    def price(self, keyword: Token, tier: Token, arguments: BracketedItems) -> s.Price:
        return s.Price(self._span(keyword, arguments), self._identifier(tier), items_of(arguments, ex.Argument))

    def priced_by(self, keyword: Token, table: Token) -> s.PricedBy:
        return s.PricedBy(self._span(keyword, table), self._identifier(table))
