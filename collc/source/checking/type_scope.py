"""The types of the names that a body declares."""

from __future__ import annotations

from dataclasses import dataclass, field

from collc.base.diagnostics import Note, Span
from collc.source.parsing.expressions import Identifier
from collc.source.problems import fail
from collc.source.types import Type


@dataclass(eq=False)
class TypeScope:
    """The types of the names that a body declares. outer: the scope around it. places: the span of each declaration."""

    outer: TypeScope | None = None
    types: dict[str, Type] = field(default_factory=dict[str, Type])
    places: dict[str, Span] = field(default_factory=dict[str, Span])

    def find(self, name: str) -> Type | None:
        """The type of a name, None if no scope declares it."""
        if name in self.types:
            return self.types[name]
        return self.outer.find(name) if self.outer is not None else None

    def known_names(self) -> set[str]:
        """All names of this scope and of those around it."""
        return set(self.types) | (self.outer.known_names() if self.outer is not None else set())

    def declare(self, name: Identifier, kind: Type) -> None:
        """Add a name. Raises SourceError if this scope has it already."""
        if name.name in self.places:
            first = Note("first here", self.places[name.name])
            raise fail("E0205", f"'{name.name}' is declared twice", name.span, first)
        self.types[name.name] = kind
        self.places[name.name] = name.span
