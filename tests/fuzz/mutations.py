"""Changes of good texts: words, lines and bytes of any file, values of JSON, parts of the syntax tree of programs."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
import re
from collections.abc import Iterator
from typing import Any

from collc.base.diagnostics import SourceError, SourceFile
from collc.source.parsing.expressions import Expr, Node
from collc.source.parsing.parse import parse
from collc.source.parsing.syntax import Statement

NUMBERS = ["0", "1", "2", "-1", "7", "255", "65536", "2147483648", "9223372036854775808", "1e30", "0.5", "nan", "007"]
NOISE = [
    "",
    " ",
    "\n",
    '"',
    "<",
    ">",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "=",
    "..",
    "\x00",
    "\x1b[31m",
    "é",
    "#",
    "&a;",
    "/",
]
TOKEN = re.compile(r"[0-9]+(?:\.[0-9]+)?|[A-Za-z_][A-Za-z0-9_]*|\"[^\"\n]*\"|[^\sA-Za-z0-9]")


def changed_text(text: str, chance: random.Random) -> str:
    """A text with a few of its tokens or lines changed, repeated, moved or taken away."""
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        text = chance.choice([_token, _token, _token, _line, _cut])(text, chance)
    return text


def _token(text: str, chance: random.Random) -> str:
    found = list(TOKEN.finditer(text))
    if not found:
        return text
    one, other = chance.choice(found), chance.choice(found)
    number = one.group()[0].isdigit()
    more = [*(chance.choices(NUMBERS, k=2) if number else []), chance.choice(NOISE), other.group(), one.group() * 2]
    if number and len(one.group()) < 15 and "." not in one.group():
        more += [str(int(one.group()) + 1), str(max(0, int(one.group()) - 1))]
    return text[: one.start()] + chance.choice(more) + text[one.end() :]


def _line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    kind = chance.randrange(4)
    if kind == 0:
        del lines[first : first + chance.randrange(1, 4)]
    elif kind == 1:
        lines[first:first] = lines[second : second + chance.randrange(1, 4)]
    elif kind == 2:
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first:first] = [lines[second]] * chance.choice([2, 10, 300])
    return "\n".join(lines)


def _cut(text: str, chance: random.Random) -> str:
    low = chance.randrange(len(text) + 1)
    high = min(len(text), low + chance.choice([0, 1, 3, 30, 3000]))
    return text[:low] + chance.choice(NOISE) + text[high:]


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Bytes of which a few are replaced, taken away or repeated."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        low = chance.randrange(len(data) + 1)
        high = min(len(data), low + chance.choice([0, 1, 1, 4, 100]))
        new = chance.choice([b"", chance.randbytes(chance.randrange(1, 5)), data[low:high] * 2, b"\xff\xfe", b"\0" * 8])
        data = data[:low] + new + data[high:]
    return data


def changed_json(text: str, chance: random.Random) -> str:
    """A JSON text in which values are replaced by others, of any type, or taken away or repeated."""
    root = json.loads(text)
    for _ in range(chance.choice([1, 1, 2, 4])):
        places = list(_places(root))
        if not places:
            break
        parent, key = chance.choice(places)
        others = [parent_[key_] for parent_, key_ in chance.choices(places, k=2)]
        numbers = [0, -1, 1, 2**31, 2**63, 10**30, 1.5, True]
        if isinstance(parent[key], int):
            numbers += [parent[key] + 1, parent[key] - 1] * 4
        kind = chance.randrange(5)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, list):
            parent.insert(key, parent[key])
        else:
            parent[key] = json.loads(json.dumps(chance.choice([*numbers, None, "", "x\x1b", [], {}, *others])))
    return json.dumps(root)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


# Parts of programs


@functools.cache
def parts_of(text: str) -> tuple[tuple[str, int, int], ...]:
    """The statements and expressions of a program: (kind, start, end); none if it is no program."""
    try:
        tree = parse(SourceFile("seed.coll", text))
    except SourceError:
        return ()
    found: list[tuple[str, int, int]] = []

    def visit(value: object) -> None:
        if isinstance(value, tuple):
            for one in value:
                visit(one)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            if isinstance(value, Node) and isinstance(value, Statement | Expr):
                kind = "expression" if isinstance(value, Expr) else type(value).__name__
                found.append((kind, value.span.start, value.span.end))
            for field in dataclasses.fields(value):
                if field.name != "span":
                    visit(getattr(value, field.name))

    visit(tree)
    return tuple(found)


def spliced(text: str, others: list[str], chance: random.Random) -> str:
    """A program some of whose statements or expressions are those of other programs: it still has the right syntax."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        mine, donor = parts_of(text), chance.choice(others)
        theirs = parts_of(donor)
        if not mine or not theirs:
            return text
        kind, start, end = chance.choice(mine)
        fitting = [part for part in theirs if part[0] == kind] or [part for part in mine if part[0] == kind]
        source = donor if fitting[0] in theirs else text
        _, low, high = chance.choice(fitting)
        text = text[:start] + source[low:high] + text[end:]
    return text
