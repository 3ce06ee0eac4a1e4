"""Visitor of expressions: the dispatch by kind of expression that the static check and the evaluator share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from collc.source.parsing.expressions import (
    Binary,
    Call,
    Collection,
    Comparison,
    Comprehension,
    Expr,
    Index,
    Member,
    Name,
    Range,
    Unary,
    Without,
)
from collc.source.parsing.syntax import With

Scope = TypeVar("Scope")
Result = TypeVar("Result")


class ExpressionVisitor(ABC, Generic[Scope, Result]):
    """Calls one method for each kind of expression. Scope: what the names in an expression mean."""

    def _visit(self, node: Expr, where: Scope) -> Result:
        match node:
            case Name():
                return self._name(node, where)
            case Binary():
                return self._binary(node, where)
            case Unary():
                return self._unary(node, where)
            case Comparison():
                return self._comparison(node, where)
            case Range():
                return self._range(node, where)
            case _:
                return self._composite(node, where)

    def _composite(self, node: Expr, where: Scope) -> Result:
        match node:
            case Member():
                return self._member(node, where)
            case Index():
                return self._index(node, where)
            case Call():
                return self._call(node, where)
            case Collection():
                return self._collection(node, where)
            case Comprehension():
                return self._comprehension(node, where)
            case With() | Without():
                return self._changed(node, where)
            case _:
                return self._literal(node)

    @abstractmethod
    def _literal(self, node: Expr) -> Result:
        """All other expressions: literals, and a '*' in a position where it has no meaning."""

    @abstractmethod
    def _name(self, node: Name, where: Scope, /) -> Result: ...

    @abstractmethod
    def _binary(self, node: Binary, where: Scope, /) -> Result: ...

    @abstractmethod
    def _unary(self, node: Unary, where: Scope, /) -> Result: ...

    @abstractmethod
    def _comparison(self, node: Comparison, where: Scope, /) -> Result: ...

    @abstractmethod
    def _range(self, node: Range, where: Scope, /) -> Result: ...

    @abstractmethod
    def _member(self, node: Member, where: Scope, /) -> Result: ...

    @abstractmethod
    def _index(self, node: Index, where: Scope, /) -> Result: ...

    @abstractmethod
    def _call(self, node: Call, where: Scope, /) -> Result: ...

    @abstractmethod
    def _collection(self, node: Collection, where: Scope, /) -> Result: ...

    @abstractmethod
    def _comprehension(self, node: Comprehension, where: Scope, /) -> Result: ...

    @abstractmethod
    def _changed(self, node: With | Without, where: Scope, /) -> Result: ...
