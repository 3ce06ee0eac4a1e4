"""Builds the syntax tree: a node for each rule of coll.lark that a class stands for, and a method for the others.

The automaton calls `build` when it reduces a rule, so no generic parse tree is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Final, TypeVar, cast

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.base.units import Dimension
from collc.source.limits import MAX_ARGUMENTS, MAX_LETTERS, MAX_NESTING
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing import tokens as t
from collc.source.parsing.tokens import LiteralError, Token, number, quantity, string_value, whole_number

RESERVED: Final = frozenset({"and", "or", "not", "in", "true", "false"})
"""Words that cannot be names, since they have a meaning in expressions."""

REDUCTIONS: Final = ("sum", "max", "min", "prod", "avg")
"""The reductions that `post` can apply to the contributions."""

TableNode = s.LinkTable | s.DeviceTable | ex.NumberList
"""What is read from a table and not parsed."""

_TABULAR: Final = {"device": s.DeviceTable, "link": s.LinkTable, "list": ex.NumberList}
_NESTING: Final = (ex.Expr, ex.Argument, ex.ForClause, s.For, s.If, s.Repeat, s.Design, s.Workload, s.PriceTable)
_NESTING_DECLARATIONS: Final = (s.TopologyTemplate, s.Collective, s.Algorithm, s.ScheduleDeclaration)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Items:
    """The nodes between two brackets, with the positions at which the brackets begin and end."""

    start: int
    end: int
    items: tuple[ex.Node, ...]


Part = Token | ex.Node | Items
Child = Part | None


def start_of(part: Part) -> int:
    """Where a part begins."""
    return part.span.start if isinstance(part, ex.Node) else part.start


def end_of(part: Part) -> int:
    """Where a part ends."""
    return part.span.end if isinstance(part, ex.Node) else part.end


def nodes_of(parts: Iterable[Child]) -> tuple[Any, ...]:
    """The nodes among some parts."""
    return tuple(part for part in parts if isinstance(part, ex.Node))


def too_many(what: str, node: ex.Node) -> SourceError:
    """The error for more than MAX_ARGUMENTS nodes in one place. what: "arguments", ... node: the first one too many."""
    message = f"more than {MAX_ARGUMENTS:,} {what} in one place"
    return SourceError(Diagnostic("E0809", message, node.span, hint="a list can have more items"))


class Builder:
    """Builds the nodes of one file.

    errors: mistakes that the grammar does not reject, such as unknown units. tables: statements and lists that were
    read already, by the positions at which they begin; each that is used is removed.
    """

    def __init__(self, file: SourceFile, tables: dict[int, TableNode] | None = None) -> None:
        self._source = file
        self.tables = {} if tables is None else tables
        self._heights: dict[ex.Node, int] = {}
        self.errors: list[Diagnostic] = []

    def method(self, rule: str) -> Callable[[Sequence[Child], Sequence[Child]], Any]:
        """What makes the value of a rule from the values of all its symbols, and from those that a tree keeps."""
        if rule in ex.NODES:
            return self._node_maker(rule, ex.NODES[rule])
        return getattr(self, f"_{rule}")

    def _node_maker(self, rule: str, cls: type[ex.Node]) -> Callable[[Sequence[Child], Sequence[Child]], ex.Node]:
        """Makes nodes of a class: the children that a tree keeps are its fields, in order (see _field)."""
        types = [str(field.type) for field in fields(cls)][1:]
        rest = len(types) - 1 if types and types[-1].startswith("tuple") else -1
        tabular = _TABULAR.get(rule)

        def make(parts: Sequence[Child], kept: Sequence[Child]) -> ex.Node:
            if tabular is not None and self.tables:
                table = self._table(tabular, parts)
                if table is not None:
                    return table
            values = [self._field(child, kind) for child, kind in zip(kept, types, strict=False)]
            if rest >= 0 and len(kept) > rest and not isinstance(values[rest], tuple):
                values[rest:] = [tuple(self._field(child, "") for child in kept[rest:])]
            return self._check_nesting(cls(self._span(parts), *values), values)

        return make

    def _field(self, child: Child, kind: str) -> Any:  # noqa: ANN401 (a field of a node)
        """The value of a field with an annotation: the text of a token for `str`, else a node or a tuple of nodes."""
        if isinstance(child, Items):
            return child.items
        if child is None:
            return () if kind.startswith("tuple") and "None" not in kind else None
        if not isinstance(child, Token):
            return child
        if kind in ("str", "bool"):
            return child.text if kind == "str" else child.text == "<->"
        return self._identifier(child) if child.kind == t.NAME else self._string((child,), (child,))

    def _table(self, kind: type[TableNode], parts: Sequence[Child]) -> TableNode | None:
        """What was read already of the statement or list that begins with a token; None if that is no such table."""
        first = parts[0]
        table = self.tables.pop(first.start, None) if isinstance(first, Token) else None
        return table if isinstance(table, kind) else None

    # Spans, nesting and names

    def _span(self, parts: Sequence[Child]) -> Span:
        present = [part for part in parts if part is not None]
        return Span(self._source, start_of(present[0]), end_of(present[-1]))

    def _token_span(self, token: Token) -> Span:
        return Span(self._source, token.start, token.end)

    def _check_nesting(self, node: _Value, values: Iterable[Any]) -> _Value:
        """`node`, whose fields have these values. Raises SourceError if it is nested deeper than MAX_NESTING."""
        if not isinstance(node, _NESTING + _NESTING_DECLARATIONS):
            return node
        height = 0
        for value in values:
            for part in cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,)):
                if isinstance(part, ex.Node):
                    height = max(height, self._heights.pop(part, 0))
        if height >= MAX_NESTING:
            message = f"this is nested more than {MAX_NESTING} levels deep"
            raise SourceError(Diagnostic("E0806", message, node.span, hint="give parts of it names with 'let'"))
        self._heights[node] = height + 1
        return node

    def _identifier(self, token: Token) -> ex.Identifier:
        if token.text in RESERVED:
            hint = f"call it '{token.text}_', or better by what it means"
            message = f"'{token.text}' is a word of the language and cannot be a name"
            self._error("E0115", message, self._token_span(token), hint)
        if len(token.text) > MAX_LETTERS:
            message = f"{len(token.text):,} characters of a name exceed the limit of {MAX_LETTERS}"
            self._error("E0809", message, self._token_span(token), "write a shorter one")
        return ex.Identifier(self._token_span(token), token.text)

    def _error(self, code: str, message: str, span: Span, hint: str = "") -> None:
        self.errors.append(Diagnostic(code, message, span, hint=hint))

    # Rules that no class stands for; parts: the values of all symbols, kept: of those that a tree keeps

    def _file(self, _parts: Sequence[Child], kept: Sequence[Child]) -> s.File:
        return s.File(self._source, nodes_of(kept))

    def _module(self, parts: Sequence[Child], kept: Sequence[Token]) -> ex.Identifier:
        return ex.Identifier(self._span(parts), ".".join(part.text for part in kept))

    def _items(self, parts: Sequence[Child], _kept: Sequence[Child]) -> Items:
        present = [part for part in parts if part is not None]
        return Items(start_of(present[0]), end_of(present[-1]), nodes_of(present))

    _parameters = _arguments = _block = _for_clauses = _indices = _part_list = _items

    def _part_names(self, parts: Sequence[Any], kept: Sequence[Token]) -> Items:
        return Items(start_of(parts[0]), end_of(parts[-1]), tuple(map(self._identifier, kept)))

    def _shape(self, parts: Sequence[Child], kept: Sequence[Child]) -> Items:
        items = self._items(parts, kept)
        if len(items.items) > MAX_ARGUMENTS:
            raise too_many("indices", items.items[MAX_ARGUMENTS])
        return items

    def _else_branch(self, parts: Sequence[Any], kept: Sequence[Items | s.If]) -> Items:
        body = kept[0]
        items = (body,) if isinstance(body, s.If) else body.items
        return Items(start_of(parts[0]), end_of(body), items)

    def _post_reduced(self, parts: Sequence[Any], kept: Sequence[Any]) -> s.Postcondition:
        name, chunk, operation, place = kept
        reduction: ex.Expr = ex.StringLiteral(self._token_span(name), name.text)
        call = Span(self._source, name.start, next(end_of(p) for p in parts if isinstance(p, Token) and p.kind == ")"))
        if name.text == "reduce":
            if operation is None:
                hint = "write 'reduce(x, \"sum\")' or 'sum(x)'"
                self._error("E0118", "'reduce' needs an operation after its chunk", call, hint)
            else:
                reduction = operation
        elif name.text not in REDUCTIONS:
            known = ", ".join(f"'{r}(x)'" for r in REDUCTIONS)
            hint = f"{known} or 'reduce(x, op)' is allowed here"
            self._error("E0117", f"'{name.text}' is not a reduction", reduction.span, hint)
        elif operation is not None:
            hint = "'reduce(x, op)' names an operation"
            self._error("E0118", f"'{name.text}' takes one chunk and nothing else", call, hint)
        return s.Postcondition(self._span(parts), chunk, place, reduction)

    def _comparison(self, parts: Sequence[Child], kept: Sequence[Part]) -> ex.Comparison:
        operands = nodes_of(kept)
        words = [part.text if isinstance(part, Token) else "," for part in kept[1:-1]]
        operators = tuple(" ".join(words).split(" , "))
        return self._check_nesting(ex.Comparison(self._span(parts), operators, operands), operands)

    def _parentheses(self, parts: Sequence[Child], kept: Sequence[Any]) -> ex.Expr:
        return self._check_nesting(replace(kept[0], span=self._span(parts)), kept)

    def _list(self, parts: Sequence[Any], kept: Sequence[Child]) -> ex.Expr:
        kind = "list" if parts[0].kind == "[" else "set"
        numbers = self._table(ex.NumberList, parts) if self.tables and kind == "list" else None
        items = nodes_of(kept)
        node = numbers if isinstance(numbers, ex.NumberList) else ex.Collection(self._span(parts), kind, items)
        return self._check_nesting(node, items)

    def _list_comprehension(self, parts: Sequence[Any], kept: Sequence[Any]) -> ex.Comprehension:
        kind = "list" if parts[0].kind == "[" else "set"
        item, clauses, condition = kept
        node = ex.Comprehension(self._span(parts), kind, item, clauses.items, condition)
        return self._check_nesting(node, (item, clauses.items, condition))

    _set, _set_comprehension = _list, _list_comprehension

    def _name(self, _parts: Sequence[Child], kept: Sequence[Token]) -> ex.Name:
        identifier = self._identifier(kept[0])
        return ex.Name(identifier.span, identifier.name)

    # Literals

    def _boolean(self, _parts: Sequence[Child], kept: Sequence[Token]) -> ex.BoolLiteral:
        return ex.BoolLiteral(self._token_span(kept[0]), kept[0].text == "true")

    def _integer(self, _parts: Sequence[Child], kept: Sequence[Token]) -> ex.IntLiteral:
        return ex.IntLiteral(self._token_span(kept[0]), self._literal(whole_number, kept[0], 1))

    def _decimal(self, _parts: Sequence[Child], kept: Sequence[Token]) -> ex.FloatLiteral:
        return ex.FloatLiteral(self._token_span(kept[0]), self._literal(number, kept[0], Fraction(1)))

    def _quantity(self, _parts: Sequence[Child], kept: Sequence[Token]) -> ex.QuantityLiteral:
        dimension, value = self._literal(quantity, kept[0], (Dimension.BYTES, Fraction(1)))
        span = self._token_span(kept[0])
        if dimension is Dimension.BYTES and value.denominator != 1:
            self._error("E0218", f"{float(value):,.15g} bytes are not a whole number of bytes", span)
        return ex.QuantityLiteral(span, dimension, value)

    def _string(self, _parts: Sequence[Child], kept: Sequence[Token]) -> ex.StringLiteral:
        return ex.StringLiteral(self._token_span(kept[0]), self._literal(string_value, kept[0], ""))

    def _literal(self, meaning: Callable[[str], _Value], token: Token, stand_in: _Value) -> _Value:
        """The value of a literal; `stand_in` if it has none, which is reported."""
        try:
            return meaning(token.text)
        except LiteralError as error:
            code, message, hint = error.args
            self._error(code, message, self._token_span(token), hint)
            return stand_in
