"""Runs of `let` and `param` lines: the same values and the same messages as line by line."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.application.program_files import read_program
from collc.base.diagnostics import CollcError, SourceFile
from collc.source import imports, load_program
from collc.source.checking.check import check_files
from collc.source.elaboration.file_context import ProgramContext
from collc.source.elaboration.options import OptionTables
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.values import Interval, ListArray
from collc.source.imports import Loader
from collc.source.parsing.parse import parse_with_tables
from collc.source.parsing.syntax import Let, Param, ValueTable
from collc.source.problems import Problems
from collc.source.scopes import FoundDeclaration

Lines = list[str]
LONG = "# a comment that makes the file long enough for tables\n" * 80


def text_of(lines: Lines) -> str:
    return "\n".join(lines) + "\n" + LONG


def tables(text: str) -> list[ValueTable]:
    tree = parse_with_tables(SourceFile("t.coll", text))
    return [] if tree is None else [node for node in tree.statements if isinstance(node, ValueTable)]


def plain(data: object) -> object:
    """A value as plain data."""
    if isinstance(data, ListArray):
        items = data.only()
        lists = isinstance(items, ListArray)
        return [plain(items.take(np.array([k]))) for k in range(len(items.start))] if lists else items.tolist()
    if isinstance(data, Topology):
        return data.name, data.network.present.tolist()
    return (data.low, data.high) if isinstance(data, Interval) else data


def values(text: str, *, with_tables: bool) -> dict[str, object]:
    """The type, value and place of each name, of a program without mistakes."""
    loader = Loader(problems := Problems(), tables=with_tables)
    file = loader.load_text(SourceFile("t.coll", text))
    check_files([file], problems, OptionTables())
    problems.stop()
    context = ProgramContext({}).context(file)
    found: dict[str, object] = {}
    for name in [*file.rows, *file.names.get("value", {})]:
        (node,) = file.named("value", name)
        assert isinstance(node, Let | Param)
        value = context.value_of(FoundDeclaration(node, file))
        spans = [(s.start, s.end) for s in (node.span, node.name.span)]
        found[name] = (type(node).__name__, spans, str(value.type), plain(value.data))
    return found


def outcome(text: str, definitions: Mapping[str, str] | None = None) -> str:
    """The messages about a program, "" where it has no mistakes."""
    try:
        load_program(SourceFile("t.coll", text), definitions)
    except CollcError as error:
        return str(error)
    return ""


def no_tables(_source: SourceFile) -> None:
    """In place of parse_with_tables."""


def same(text: str, definitions: Mapping[str, str] | None = None) -> str:
    """The outcome of a program, the same with tables and line by line, and so are all values."""
    found = outcome(text, definitions)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(imports, "parse_with_tables", no_tables)
        assert found == outcome(text, definitions)
    if not found:
        assert values(text, with_tables=True) == values(text, with_tables=False)
    return found


PLAIN = {
    "numbers": [f"let x{i} = {i}" for i in range(80)],
    "words without digits": [f"let {'abcdefgh'[i % 8]}{'ijklmnop'[i // 8]} = {i}" for i in range(64)] + ["let zz = 1"],
    "sizes": [f"let x{i} = {i}MiB" for i in range(80)],
    "times": [f"let x{i} = {i}.{i}us" for i in range(80)],
    "rates": [f"let x{i} = {i}Gb/s" for i in range(80)],
    "decimals": [f"let x{i} = -{i}.5e{i % 3}" for i in range(80)],
    "strings": [f'let x{i} = "# a {{ {i}"  # with "quotes"' for i in range(80)],
    "lists": [f'let x{i} = [{i}, -{i}, base,]' for i in range(80)] + ["let base = 7"],
    "lists of words": [f'let x{i} = ["a", "{i}"]' for i in range(80)],
    "sums": [f"let x{i} = {i} * 2 * 3MiB + {i}kB * 7 - {i}B" for i in range(80)],
    "params": [f"param x{i}: int = {i}" for i in range(80)],
    "params of other types": [f"param x{i}{rest}" for i in range(20) for rest in (
        f": bytes = {i}B", f"t:time={i}us", f"f: float = {i}.25", f"s : string = \"{i}\"", f"u = {i}",
    )],
    "names": ["let base = 4MiB", *[f"let x{i} = base" for i in range(80)]],
    "names of the same table": [f"let x{i} = {i}" for i in range(80)] + [f"let y{i} = x{i}" for i in range(80)],
    "names of names": [f"let x{i} = x{i + 1}" for i in range(80)] + ["let x80 = 1"],
    "comments and empty lines": [w for i in range(80) for w in ("# size", f"\tlet  x{i}=  {i}\t\r", "", "\r")],
    "keywords as names": [f"let {w} = {i}" for i, w in enumerate(["let", "param", "link", "on", "sum"])]
    + [f"let x{i} = let" for i in range(80)],
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_tables_give_the_values_that_lines_give(name: str) -> None:
    text = text_of(PLAIN[name])
    assert same(text) == ""
    assert len(tables(text)) == 1


MISTAKES = {
    "a name twice": "let x5 = 1",
    "a name twice in another run": "topology t { npu a }\nlet x5 = 1",
    "an unknown name": "let y = nothing",
    "an alias of itself": "let y = y",
    "aliases in a circle": "let y = z\nlet z = y",
    "a topology with parameters as a name": "topology r(n: int) { npu a[n] }\nlet y = r",
    "an unknown unit": "let y = 5MiBB",
    "a part of a byte": "let y = 0.3KiB",
    "sizes and times": "let y = 5MiB + 3us",
    "a list of two types": 'let y = [5, "a"]',
    "a wrong type": "param y: int = 5us",
    "an unknown type": "param y: number = 5",
    "a reserved name": "let in = 5",
    "a word that begins as one": "let inner = 5\nlet y = innerr",
    "a long number": f"let y = {'9' * 41}",
    "a large exponent": "let y = 1e77",
    "a missing value": "let y =",
    "a missing name": "let = 5",
    "an open string": 'let y = "abc',
    "a wrong escape": 'let y = "a\\b"',
    "another letter": "let yé = 5",
    "a line of another kind": "npu y",
    "a division by zero": "let y = 1 / 0",
    "no value": "param y: int",
    "a sign that is none": "let y = 5 \x0c",
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("kind", ["let", "param"])
def test_messages_are_those_of_lines(name: str, kind: str) -> None:
    """A mistake before, inside of and after a table."""
    lines = [f"{kind} x{i} = {i}" for i in range(160)]
    for place in (0, 80, 160):
        assert same(text_of([*lines[:place], MISTAKES[name], *lines[place:]]))


@pytest.mark.parametrize("wrong", ["5MiBB", "5 + 3us", "nothing", '[1, "a"]', "1.5B", f"{10**40}"])
def test_messages_about_a_form_that_is_wrong_in_all_lines(wrong: str) -> None:
    assert same(text_of([f"let x{i} = {wrong}" for i in range(100)]))


CONTINUED = {
    "an operator": ["let y = 5", "  + 3"],
    "an index": ["let y = base", "[0]"],
    "arguments": ["let y = len", "(base)"],
    "a member": ["let y = t", ".npus"],
    "after a comment": ["let y = 5  # five", "# and", "", "  * 2"],
    "the change of a topology": ["let y = t", "without { npu 1 }"],
    "a type": ["param y", ": int = 5"],
    "a value in the next line": ["let y =", "7"],
    "a list": ["let y = [", "1, 2]"],
    "one statement a line is not needed": ["let y = 5 let z = 6"],
}


@pytest.mark.parametrize("name", CONTINUED)
def test_a_line_can_go_on_in_the_next_one(name: str) -> None:
    lines = [f"let x{i} = {i}" for i in range(160)]
    other = ["let base = [1, 2]", "topology t { npu a[4] }"]
    for place in (0, 80, 160):
        text = text_of([*other, *lines[:place], *CONTINUED[name], *lines[place:]])
        assert same(text) == ""
        assert len(tables(text)) == (2 if place == 80 else 1)


def test_values_in_bodies_are_no_tables() -> None:
    body = [f"  let x{i} = {i}" for i in range(100)]
    links = [f"  link a[x{i}] -> a[x{i + 1}] (bandwidth: 1GB/s, latency: 1us)" for i in range(99)]
    text = text_of(["topology t {", "  npu a[100]", *body, *links, "}", *[f"let y{i} = {i}" for i in range(100)]])
    assert same(text) == ""
    assert len(tables(text)) == 1


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ({"x7": "70"}, ""),
        ({"x70": "7"}, ""),
        ({"x7": "abc"}, "E0201"),
        ({"x7": "5us"}, "E0211"),
        ({"x100": "5"}, "did you mean"),
        ({"y7": "5"}, "E0224"),
    ],
)
def test_definitions_of_params_in_tables(definitions: Mapping[str, str], message: str) -> None:
    text = text_of([*[f"param x{i}: int = {i}" for i in range(100)], *[f"let y{i} = x{i}" for i in range(100)]])
    assert message in same(text, definitions)


def test_a_definition_does_not_hide_a_mistake_in_other_lines_of_its_form() -> None:
    lines = [f"param x{i}: int = half" for i in range(100)]
    assert "E0220" in same(text_of(["param l: list = [0.5]", "let half = l[0]", *lines]), {"x0": "1"})


def test_values_of_an_imported_file(tmp_path: Path) -> None:
    (tmp_path / "a.coll").write_text(text_of([f"let x{i} = {i}" for i in range(100)]))
    (path := tmp_path / "b.coll").write_text('import "a.coll"\nlet y = x5\nlet x6 = 3\nlet z = x6')
    load_program(path)
    path.write_text('import "a.coll"\nlet y = x105')
    with pytest.raises(CollcError, match="unknown value 'x105'"):
        load_program(path)


def test_an_outline_of_a_program_with_tables(tmp_path: Path) -> None:
    lines = [f"param x{i}: int = {i}" for i in range(100)]
    (path := tmp_path / "a.coll").write_text(text_of(["param first = 1", *lines, "let y = 3", "param last = 2"]))
    assert read_program(path).params == ("first", *(f"x{i}" for i in range(100)), "last")
    path.write_text(text_of([*lines, "let y ="]))
    with pytest.raises(CollcError, match="expected"):
        read_program(path)


LARGE: dict[str, Callable[[int], str]] = {
    "short lines": lambda i: f"let x{i}=1",
    "names": lambda i: f"let x{i} = x{i // 2 * 2 + 1}" if i % 2 == 0 else f"let x{i} = 5us",
    "strings": lambda i: f'param p{i}: string = "the value of {i}"',
    "lists": lambda i: f"let list_{i} = [{i}, {i + 1}, -{i}]",
    "comments": lambda i: f"# {i}\n",
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_program_takes_at_most_50_bytes_a_byte(name: str) -> None:
    source = SourceFile("p.coll", text_of([LARGE[name](i) for i in range(5000)]))
    load_program(source)
    tracemalloc.start()
    load_program(source)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50 * len(source.text)


@pytest.mark.parametrize("text", ["let a = [1, 2{}", "let a{}", "let a = 5{}x", "let a = [1{}", 'let a = "b"{}y'])
def test_long_white_space_takes_linear_time(text: str) -> None:
    """300,000 characters took minutes in an earlier pattern."""
    lines = [f"let x{i} = 5" for i in range(100)]
    parse_with_tables(SourceFile("t.coll", text_of([text.format(" " * 300_000), *lines])))


BASES = ["let base0 = 4", "let base1 = 4MiB", "param base2: float = 0.5", 'let base3 = "a"', "let base4 = [1, 2]"]


def random_line(chance: random.Random) -> str:
    """A line of a random program that declares x0 or y0; it may be wrong."""

    def literal() -> str:
        digits = str(chance.choice([0, 1, 7, 42, 10**9, 10**17]))
        return digits + chance.choice(["", "", "B", "KiB", "us", "GB/s", "Gb/s", "s", ".5", ".5us", "e3", ".25GB/s"])

    def item() -> str:
        return chance.choice([literal, literal, lambda: f'"{chance.choice("ab#{} ")}"', name, lambda: "true"])()

    def name() -> str:
        return f"base{chance.randrange(5)}" if chance.random() < 0.8 else f"x{chance.randrange(90)}"

    def value() -> str:
        one = item()
        kinds = [
            item,
            lambda: f"-{literal()}",
            lambda: f"{chance.randrange(9)} * {literal()}",
            lambda: f"{literal()} {chance.choice('+-*/')} {literal()}",
            lambda: f"[{one}, {one}]",
            lambda: f"[{', '.join(literal() for _ in range(chance.randrange(4)))}]",
        ]
        return chance.choice(kinds)()

    kind = chance.choice(["", "", ": int", ": float", ": bytes", " : time", ": list"])
    space = chance.choice(["", "  ", "\t"])
    ends = ["  # why", "  ", "\r", "\n", "\n# more\n", f"\n{space}+ 1", ";"]
    end = chance.choice(ends) if chance.random() < 0.2 else ""
    declared = chance.choice(["x0", "x0", "y0"])
    if chance.random() < 0.5:
        return f"{space}let {declared}{space}={space}{value()}{end}"
    return f"{space}param {declared}{kind} = {value()}{end}"


def right_line(chance: random.Random) -> str:
    """A random line that is right if the program has the names x0 to x89."""
    while True:
        line = random_line(chance)
        names = [f"let x{i} = 1" for i in range(90) if f"x{i} " not in line.replace("=", " ")]
        if not outcome("\n".join([*BASES, *names, line])):
            return line


def random_program(chance: random.Random) -> str:
    """A run of lines of a few forms, with a few other lines in it; its messages."""
    forms = [
        right_line(chance) if chance.random() < 0.95 else random_line(chance) for _ in range(chance.choice([1, 3]))
    ]
    lines = list(BASES)
    for i in range(chance.choice([90, 160])):
        line = chance.choice(forms).replace("x0", f"x{i}", 1).replace("y0", f"y{i}", 1)
        lines.append(line.replace("7", str(chance.randrange(1000))) if chance.random() < 0.5 else line)
    for _ in range(chance.choice([0, 0, 0, 1, 3])):
        lines.insert(chance.randrange(len(lines)), random_line(chance).replace("0", str(chance.randrange(200, 300)), 1))
    definitions = {f"x{chance.randrange(80)}": chance.choice(["1", "2us", "a"])} if chance.random() < 0.1 else {}
    return same(text_of(lines), definitions)


@settings(max_examples=8)
@given(st.randoms(use_true_random=False))
def test_random_lines(chance: random.Random) -> None:
    random_program(chance)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.randoms(use_true_random=False))
def test_many_random_lines(chance: random.Random) -> None:
    random_program(chance)
