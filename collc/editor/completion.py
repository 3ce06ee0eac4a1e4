"""What can be written at a position: the words that the grammar allows there, and the names that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from collc.base.diagnostics import Span
from collc.base.options import Options
from collc.base.resources import standard_library
from collc.base.units import UNITS
from collc.editor.describe import comment_above, value_of
from collc.editor.outline import head_of
from collc.editor.uses import Names, Symbol, algorithm_for, callee_parameters, symbol_of
from collc.editor.workspace import Workspace
from collc.emit.kinds import EMIT_KINDS
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source.elaboration.attributes import ATTRIBUTES
from collc.source.elaboration.builtins import BUILTINS
from collc.source.elaboration.requests import AUTO, CHECKS, CHUNKS, MEASURES
from collc.source.elaboration.topology_values import Topology
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.expectations import statements_of
from collc.source.parsing.parse import read_between
from collc.source.parsing.recovery import Recovery
from collc.source.parsing.table import load_table
from collc.source.parsing.tokens import COMMENT, INT, NAME, Token
from collc.source.scopes import Declaration, library_declarations
from collc.source.types import NAMED

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UNIT: Final = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?([A-Za-z][A-Za-z/]*)?\Z")
_STRING: Final = re.compile(r'^[^"\n]*(?:"[^"\n]*"[^"\n]*)*"(?P<inside>[^"\n]*)\Z', re.MULTILINE)
_CHUNKED: Final = frozenset({"pre", "post", "send", "reduce", "chunk"})
_SPACES: Final = {"run": "collective", "implements": "collective", "train": "workload", "prices": "price table"}
"""The name space of the names that can stand after a keyword."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be written. kind: as of a Symbol, "keyword", "unit", "file" or "text".

    detail: its declaration, type or meaning. text: what is written, if it is not the label. module: a module of the
    standard library that must be imported for it, "" for none.
    """

    label: str
    kind: str
    detail: str = ""
    documentation: str = ""
    text: str = ""
    module: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that something takes. choices: values that it can have, as they are written."""

    name: str
    detail: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """What an open parenthesis belongs to. active: the number of the argument at the position, -1 for none.

    given: the labels before the position. value: whether a label stands directly before it.
    """

    label: str
    arguments: tuple[Argument, ...]
    documentation: str = ""
    active: int = -1
    given: frozenset[str] = frozenset()
    value: bool = False


@dataclass(frozen=True, eq=False)
class Position:
    """A position in a program. start: of the word that ends there. tokens: before that, from a declaration on.

    inside: whether it is inside of a string.
    """

    programs: Workspace
    path: Path
    start: int
    recovery: Recovery
    tokens: Sequence[Token]
    names: Names
    inside: bool

    @property
    def last_word(self) -> str:
        """The token before the word."""
        return self.tokens[-1].text if self.tokens else ""


def read_position(programs: Workspace, path: Path, offset: int) -> Position | None:
    """The position at an offset; None in a comment."""
    source = programs.source(path)
    text, names = source.text, programs.names(path)
    line = text.rfind("\n", 0, offset) + 1
    quoted = _STRING.search(text, line, offset)
    word = _WORD.search(text, line, offset)
    end = quoted.start("inside") - 1 if quoted else word.start() if word else offset
    words = "|".join(statements_of()["file"])
    start = max((match.start() for match in re.finditer(rf"^(?:{words})\b", text[:end], re.MULTILINE)), default=0)
    recovery, tokens = read_between(source, start, end)
    if not quoted and any(t.kind == COMMENT for t in load_table().scanner.scan(text, line, offset, comments=True)):
        return None
    return Position(programs, path, end + 1 if quoted else end, recovery, tokens, names.names_at(offset), bool(quoted))


# What an open parenthesis belongs to


def _of_declaration(node: ex.Node) -> Signature:
    arguments = tuple(
        Argument(p.name.name, " ".join(p.span.text.split()), (AUTO,) if p.name.name == CHUNKS else ())
        for p in callee_parameters(node)
    )
    return Signature(head_of(node.span), arguments, comment_above(node.span.file, node.span.start))


def _of_options(name: str, options: Options, documentation: str) -> Signature:
    arguments: list[Argument] = []
    for key, option in options.items():
        default = "" if option.default is None else f" = {option.default}"
        written = option.choices if option.type == "range" else tuple(f'"{choice}"' for choice in option.choices)
        arguments.append(Argument(key, f"{key}: {option.type}{default}  {option.meaning}", written))
    return Signature(f"{name}({', '.join(options)})", tuple(arguments), documentation)


def _of_attributes(owner: str) -> Signature:
    types = ATTRIBUTES["link" if owner == "links" else owner]
    arguments = tuple(Argument(name, f"{name}: {kind}") for name, kind in types.items())
    return Signature(f"{owner} ({', '.join(a.detail for a in arguments)})", arguments)


def _callee(position: Position, values: Sequence[Any]) -> Signature | None:
    """What the values before an open parenthesis say that it belongs to."""
    name = values[-1] if values else None
    keyword = values[-2].text if len(values) > 1 and isinstance(values[-2], Token) else ""
    declares = len(values) > 1 and isinstance(values[-2], list)  # as after 'npu gpu'
    if isinstance(name, Token) and name.kind == NAME and not declares:
        if keyword == "synthesize" and name.text in SYNTHESIZERS:
            record = SYNTHESIZERS[name.text]
            return _of_options(record.name, record.options, f"for {record.supports}")
        if keyword == "emit" and name.text in EMIT_KINDS:
            kind = EMIT_KINDS[name.text]
            return _of_options(kind.name, kind.options, kind.help)
        if name.text in BUILTINS:
            wanted = BUILTINS[name.text].wanted
            return Signature(f"{name.text}({wanted})", (Argument("", wanted),))
        scope = position.programs.scope(position.path)
        if keyword == "using":
            call = values[-3]
            algorithm = algorithm_for(scope, name.text, call.function.name if isinstance(call, ex.Call) else "")
            return _of_declaration(algorithm.node) if algorithm is not None and algorithm.node is not None else None
        candidates = scope.candidates(_SPACES.get(keyword, "topology"), name.text)
        return _of_declaration(candidates[0].node) if candidates else None
    words = [v for value in values for v in (cast("list[Any]", value) if isinstance(value, list) else (value,))]
    owners = [word.text for word in words if isinstance(word, Token) and word.text in (*ATTRIBUTES, "links")]
    return _of_attributes(owners[-1]) if owners else None


def signature(position: Position) -> Signature | None:
    """What the innermost open parenthesis before a position belongs to; None if there is none or it is not known."""
    call = position.recovery.open_call()
    callee = _callee(position, call[0]) if call is not None else None
    if call is None or callee is None:
        return None
    arguments = [*_arguments(call[1])]
    given = frozenset(argument.key for argument in arguments)
    labels = [argument.name for argument in callee.arguments]
    value = position.last_word == ":"
    label = position.tokens[-2].text if value and len(position.tokens) > 1 else ""
    active = labels.index(label) if label in labels else -1 if any(given) else min(len(arguments), len(labels) - 1)
    return replace(callee, active=active, given=given, value=value)


def _arguments(values: Iterable[Any]) -> Iterator[ex.Argument]:
    for value in values:
        if isinstance(value, list):
            yield from _arguments(value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, ex.Argument):
            yield value


# What can be written


def complete(position: Position) -> list[Item]:
    """What can be written at a position."""
    if position.inside:
        return [*_in_string(position)]
    texts = [token.text for token in position.tokens]
    if texts[-3:-1] == ["import", "std"] or texts[-1:] == ["import"]:
        prefix = "" if position.last_word == "." else "std."
        return [Item(f"{prefix}{module}", "module") for module in standard_library()]
    if position.last_word == ".":
        return _members(position)
    items = [*_argument_items(position)]
    allowed = position.recovery.parser.allowed_terminals()
    if {NAME, INT} <= allowed:
        items += _values(position)
    elif NAME in allowed:
        items += _names(position)
    return [*items, *(Item(word, "keyword") for word in sorted(allowed) if word.isidentifier())]


def complete_unit(text: str, offset: int) -> tuple[int, list[Item]] | None:
    """The start of the unit of a number that ends at an offset, and all units; None if no number ends there."""
    number = _UNIT.search(text, text.rfind("\n", 0, offset) + 1, offset)
    if number is None:
        return None
    start = number.start(1) if number[1] else offset
    return start, [Item(unit, "unit", str(dimension)) for unit, (dimension, _) in UNITS.items()]


def _in_string(position: Position) -> Iterator[Item]:
    if position.last_word == "import":
        for path in position.programs.files():
            if path != position.path and path.is_relative_to(position.path.parent):
                yield Item(path.relative_to(position.path.parent).as_posix(), "file")
        return
    call = signature(position)
    if call is not None and call.active >= 0:
        yield from (Item(choice.strip('"'), "text") for choice in call.arguments[call.active].choices)


def _members(position: Position) -> list[Item]:
    values = position.recovery.parser.values
    base = values[-2] if len(values) > 1 else None
    if not isinstance(base, ex.Expr):
        return []
    items = [Item("npus", "all NPUs", "the group of all NPUs")]
    members = position.programs.names(position.path).members(base, position.names)
    items += map(_item, members.values())
    if not members and isinstance(base, ex.Name):
        candidates = position.programs.scope(position.path).candidates("topology", base.name)
        value = value_of(position.programs, position.path, symbol_of(candidates[0].node)) if candidates else None
        if value is not None and isinstance(value.data, Topology):
            items += [Item(name, "npu") for name in value.data.members]
    return items


def _argument_items(position: Position) -> Iterator[Item]:
    """The labels that an argument can have, and the values of one with choices."""
    call = signature(position)
    if call is None:
        return
    if call.value:
        choices = call.arguments[call.active].choices if call.active >= 0 else ()
        yield from (Item(choice, "text") for choice in choices)
    elif position.last_word in ("(", ","):
        for argument in call.arguments:
            if argument.name and argument.name not in call.given:
                yield Item(f"{argument.name}:", "parameter", argument.detail, text=f"{argument.name}: ")


def _item(symbol: Symbol) -> Item:
    node = symbol.node
    if node is None:
        return Item(symbol.name, symbol.kind)
    return Item(symbol.name, symbol.kind, head_of(node.span), comment_above(node.span.file, node.span.start))


def _declarations(position: Position, space: str, fits: Callable[[Declaration], bool] = lambda _: True) -> list[Item]:
    """What a program can name in a name space: its own, those of its imports, and those of the standard library."""
    scope = position.programs.scope(position.path)
    items = [_item(symbol_of(declared.node)) for declared in scope.visible(space) if fits(declared.node)]
    known = {scope.module, *(file.module for file, _ in scope.imports)}
    for module, node in library_declarations(space):
        if f"std.{module}" not in known and fits(node):
            items.append(replace(_item(symbol_of(node)), module=f"std.{module}"))
    return items


def _values(position: Position) -> list[Item]:
    """The names that an expression can use at a position."""
    names = position.names
    local = [*names.table("values").values(), *names.table("members").values()]
    items = [_item(symbol) for symbol in local if symbol.place is None or symbol.place.start < position.start]
    items += _declarations(position, "value") + _declarations(position, "topology")
    items += [Item(name, "function", f"takes {function.wanted}") for name, function in BUILTINS.items()]
    heads = [token.text for token in position.tokens if token.kind == NAME]
    if "verify" in heads[-2:]:
        items += [Item(check, "text") for check in (*CHECKS, *MEASURES)]
    return items


def _names(position: Position) -> list[Item]:
    """The names that can stand after the word before a position, if they are not those of an expression."""
    word = position.last_word
    if word == "synthesize":
        return [Item(name, "synthesizer", f"for {record.supports}") for name, record in SYNTHESIZERS.items()]
    if word == "emit":
        return [Item(name, "kind of file", kind.help) for name, kind in EMIT_KINDS.items()]
    if word in ("link", "links", "->", "<->"):
        return [_item(symbol) for symbol in position.names.table("members").values() if symbol.kind != "part"]
    if "failures" in [token.text for token in position.tokens[-6:]]:
        return [_item(symbol) for symbol in position.names.table("parts").values()]
    if word in _CHUNKED:
        return [_item(symbol) for symbol in position.names.table("chunks").values()]
    if word == "using":
        call = position.recovery.parser.values[-2]
        wanted = call.function.name if isinstance(call, ex.Call) else ""

        def fits(node: Declaration) -> bool:
            return isinstance(node, s.Algorithm) and node.implements.function.name == wanted

        return _declarations(position, "algorithm", fits)
    if word == "allow":
        return [Item("congestion", "text")]
    if word == ":":
        return [Item(name, "type") for name in NAMED]
    return _declarations(position, _SPACES[word]) if word in _SPACES else []


def import_edit(programs: Workspace, path: Path, module: str) -> tuple[Span, str]:
    """The edit that imports a module: an empty span, and the text that is written there."""
    tree = programs.tree(path)
    imports = [node for node in tree.statements if isinstance(node, s.Import)]
    if imports:
        end = imports[-1].span.end
        return Span(tree.source, end, end), f"\nimport {module}"
    return Span(tree.source, 0, 0), f"import {module}\n"
