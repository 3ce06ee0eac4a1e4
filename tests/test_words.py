"""Names and prose follow rules: the words of docs/glossary.md, and plain English.

Some rules do not hold everywhere yet. For each of these, `MOST` says how many exceptions each folder may have: a number
that goes down, never up. A failure prints what it counted and where.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # reads the whole tree several times, as a linter does

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "collc"

RETIRED: dict[str, tuple[str, ...]] = {
    "way": ("",),
    "strategy": ("",),
    "far": ("",),
    "told": ("",),
    "roam": ("",),
    "detour": ("",),
    "salt": ("",),
    "blame": ("",),
    "sweep": ("synthesis", "kernels", "passes", "ten"),
    "shop": ("",),
    "car": ("synthesis", "kernels"),
    "train": ("synthesis", "kernels"),
    "word": ("synthesis/symmetric",),
    "grid": ("synthesis", "kernels", "ten", "verification"),
    "lane": ("synthesis", "msccl", "kernels"),
    "place": ("synthesis", "msccl/lowering", "msccl/plans", "verification"),
}
"""Word -> folders of the package in which it is retired; "" is all of them. The plural is retired too."""

TERMS = {("open", "shop"), ("in", "place"), ("one", "way"), ("either", "way"), ("npu", "grid")}
"""Terms of the field that contain a retired word."""


def names(path: Path) -> Iterator[tuple[str, int]]:
    """The names of a module and of the classes, functions, parameters, variables and attributes that it defines."""
    yield path.stem if path.stem != "__init__" else path.parent.name, 1
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def retired_in(name: str, folder: str) -> str | None:
    """The first retired word of a name, None where there is none."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    for before, word in zip(["", *words], words, strict=False):
        folders = RETIRED.get(word) or RETIRED.get(word.removesuffix("s"), ())
        if (before, word) not in TERMS and any(folder.startswith(one) for one in folders):
            return word
    return None


def test_retired_words_do_not_come_back() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        folder = path.relative_to(PACKAGE).parent.as_posix().removeprefix(".")
        for name, line in names(path):
            if word := retired_in(name, folder):
                found.append(f"{path.relative_to(ROOT)}:{line}: {name} has '{word}'")
    assert not found, "\n".join(found)


def test_every_retired_word_is_explained() -> None:
    table = (ROOT / "docs" / "glossary.md").read_text().partition("## Retired words")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    explained = {word.removesuffix("s") for row in rows for word in re.findall(r"[a-z]+", row.lower())}
    assert explained >= set(RETIRED)


# Prose: docstrings, comments, messages, documents.

SCANNED = ("collc", "stdlib", "starters", "examples", "docs", "benchmarks", "tests")


@cache
def prose(path: Path) -> tuple[tuple[int, str], ...]:
    """The texts of a file that people read, each with the line where it begins, all white space as one space.

    Of Python: all strings (docstrings and parts of messages) and comments. Of TOML: everything. Of `.coll` and Lark:
    comments. Of Markdown: paragraphs outside of code.
    """
    text = path.read_text()
    if path.suffix == ".py":
        texts = [*_python_prose(text)]
    elif path.suffix in (".coll", ".lark"):
        mark = "#" if path.suffix == ".coll" else "//"
        texts = [*_joined_comments(enumerate((line.partition(mark)[2] for line in text.splitlines()), 1))]
    else:
        if path.suffix == ".md":
            text = re.sub(r"^```.*?^```|`[^`\n]*`", _only_line_ends, text, flags=re.MULTILINE | re.DOTALL)
        texts = [*_joined_comments(enumerate(text.splitlines(), 1))]
    return tuple((line, " ".join(said.split())) for line, said in texts)


def _python_prose(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    yield from _joined_comments((line, comments.get(line, "")) for line in range(1, max(comments, default=0) + 1))


def _joined_comments(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Consecutive lines with text as one text."""
    begin, block = 0, list[str]()
    for line, text in [*lines, (0, "")]:
        if text.strip():
            begin = begin if block else line
            block.append(text)
        elif block:
            yield begin, "\n".join(block)
            block = []


def _only_line_ends(match: re.Match[str]) -> str:
    return "_" + "\n" * match[0].count("\n")


@cache
def written() -> tuple[Path, ...]:
    """The files with prose."""
    paths = [path for folder in SCANNED for path in sorted((ROOT / folder).rglob("*"))]
    kinds = (".py", ".toml", ".md", ".coll", ".lark")
    mine = [*ROOT.glob("*.md"), *paths, *(ROOT / "grammar").iterdir()]
    return tuple(path for path in mine if path.suffix in kinds and path != Path(__file__))


def area(path: Path) -> str:
    """The folder by which exceptions are counted: `collc/synthesis`, `docs`; "." for files of the root."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[: 2 if parts[:1] == ("collc",) else 1]) or "."


def check_exceptions(rule: str, exceptions: Iterable[tuple[Path, int, str]]) -> None:
    """Fail if a folder has more exceptions to a rule than `MOST` allows it."""
    listed = list(exceptions)
    counts = Counter(area(path) for path, _, _ in listed)
    allowed = MOST[rule]
    beyond = {folder for folder, count in counts.items() if count > allowed.get(folder, 0)}
    where = [f"{path.relative_to(ROOT)}:{line}: {said}" for path, line, said in listed if area(path) in beyond]
    numbers = ", ".join(f'"{folder}": {count}' for folder, count in sorted(counts.items()))
    more = ", ".join(f"{folder} has {counts[folder]}, not {allowed.get(folder, 0)}" for folder in sorted(beyond))
    assert not beyond, "\n".join([*where, f"{rule}: {more}", f"now, {sum(counts.values())} in all: {{{numbers}}}"])


PHRASES = re.compile(
    r"\b(for ever|laid out anew|no good|chunks a block|does not go with"
    r"|so many|such a part of that|of what is reserved only|of which messages the|what two gpus with"
    r"|take no known time|and no link is called so|nothing states what joins|there none of)\b",
    re.IGNORECASE,
)
"""Phrases that messages, docstrings and documents had, and that stop the reader."""


def matches(pattern: re.Pattern[str]) -> list[tuple[Path, int, str]]:
    """What a pattern matches in prose: file, line, and the matched text."""
    texts = ((path, line, text) for path in written() for line, text in prose(path))
    return [(path, line, match[0]) for path, line, text in texts for match in pattern.finditer(text)]


def test_retired_phrases_do_not_come_back() -> None:
    check_exceptions("retired phrases", matches(PHRASES))
    assert PHRASES.search("the threads wait for ever")
    assert not PHRASES.search("one for every size")


_WITHOUT_REFERENT = re.compile(
    r"(?:^|(?<=[.!?:;] ))(?:the same(?:,|\.| (?:of|where|if|with|without|as|for|by|in)\b)|(?:that|those) of\b)"
    r"|\b(?:that|those) of\b[^.,;:]{0,40}\b(?:that|those) of\b",
    re.IGNORECASE,
)


def test_what_a_sentence_refers_to_is_named() -> None:
    """No text begins with "The same of ..." or "Those of ...", and no "that of" follows another one."""
    check_exceptions("no referent", matches(_WITHOUT_REFERENT))
    assert _WITHOUT_REFERENT.search("The same, one after the other.")
    assert not _WITHOUT_REFERENT.search("The same seed gives the same bytes")


_PLACE = re.compile(
    r"(?:\b(?:to|from|of|over|into|than|near|show|shows|know|knows|say|says|stay|stays|see|sees|place|places) where\b"
    r"|, where (?:_|`\w+`|[A-Za-z])(?: |, )"
    r"|\bwhere (?:[\w`'.\[\]{}]+ ){1,6}?"
    r"(?:(?:begins?|ends?|starts?|stands?|leads?|comes?|goes|go|lies?|belongs?|points?)\b"
    r"|(?:is|are|was|were)(?: wanted| used| kept| stored| attached)?(?:[.,;:)]|$)))",
    re.IGNORECASE,
)
_WHERE = re.compile(r"(?<![\w.`'\"-])where\b(?![`'\"(=-])", re.IGNORECASE)


def conditions(text: str) -> Iterator[str]:
    """The places of a text at which "where" seems to stand for "if".

    It sees every "where" but those that name a place: after a preposition or a verb of knowing ("from where", "says
    where"), before a clause that ends with a verb of place ("where it begins", "where they are"), and in a formula
    (", where `x` is"). So it takes a place for a condition if another clause describes it ("the switch where two links
    meet"), and misses "where it is." in the sense of "if there is one".
    """
    places = {match.end() for match in re.finditer(r"\bwhere\b", text, re.IGNORECASE)}
    exempt = [match.span() for match in _PLACE.finditer(text)]
    for match in _WHERE.finditer(text):
        if match.end() in places and not any(begin <= match.start() < end for begin, end in exempt):
            yield text[max(0, match.start() - 40) : match.end() + 40]


def test_conditions_begin_with_if() -> None:
    check_exceptions(
        '"where" for "if"',
        ((path, line, said) for path in written() for line, text in prose(path) for said in conditions(text)),
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The row; None where there is none.", 1),
        ("Raises SourceError where a count exceeds it, UsageError where\nit is 0.", 2),
        ("Where nothing is free, it waits.", 1),
        ("the node where it begins", 0),
        ("sends it to where it is wanted", 0),
        ("a + 2 r, where r is a root", 0),
        ("the `where` of a loop", 0),
        ("wherever it is", 0),
    ],
)
def test_a_condition_is_seen(text: str, count: int) -> None:
    assert len([*conditions(text)]) == count


def long_lines(text: str) -> Iterator[int]:
    """The numbers of lines of Markdown over 120 columns, outside tables and code."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if len(line) > 120 and not is_code and not line.startswith("|"):
            yield number


def test_markdown_wraps_at_one_width() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert len(pages) > 20
    assert [(path.name, line) for path in pages for line in long_lines(path.read_text())] == []
    assert [*long_lines(f"{'a' * 121}\n```\n{'b' * 121}\n```\n| {'c' * 121}\n{'d ' * 61}")] == [1, 6]


# Names of functions.

NOUNS = re.compile(
    "ring|string|feed|need|seed|speed|ceiling|heading|warning|mapping|matching|padding|spacing|timing|training"
)
"""Nouns, and verbs in their plain form, that end in -ing or -ed."""

NO_PHRASES = re.compile(
    r"\w+(ed|ing)"
    "|found|wrong|inside|outside|within|between|together|apart|alone|elsewhere|ahead|again|likewise|alike|unlike|only"
    "|into|onto|over|under|with|without|before|after|until|since|among|when|where|same|other|both|any|all|none"
    "|known|unknown|shown|taken|given|chosen|grown|drawn|written|kept|held|sent|built|made|met|lost|left|swept|stuck"
    "|broken|present|early|late|near|far|long|whole|full|free|short|plain|usable|useful|fusable|acceptable|comparable"
    "|unreadable|unreachable"
)
"""Words that are no verb in its plain form and no noun: adverbs, prepositions, adjectives, participles."""


def lacks_verb_and_noun(name: str) -> bool:
    """Whether the name of a function is a bare participle, adverb, preposition or adjective."""
    word = name.strip("_").lower()
    return (
        not name.startswith("__") and "_" not in word and not NOUNS.fullmatch(word) and bool(NO_PHRASES.fullmatch(word))
    )


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))


def test_functions_are_verb_or_noun_phrases() -> None:
    check_exceptions(
        "bare participles and adverbs",
        (
            (path, node.lineno, node.name)
            for path in sorted(PACKAGE.rglob("*.py"))
            for node in functions(path)
            if lacks_verb_and_noun(node.name)
        ),
    )
    assert [*map(lacks_verb_and_noun, ["_joined", "found", "crossing", "_inside"])] == [True] * 4
    assert not any(map(lacks_verb_and_noun, ["join", "joined_rows", "ring", "__matching__"]))


# Names of locals.

EMPTY_NAMES = ("found", "one", "at")
"""Names of locals that do not say what these hold; a noun of the field does. ("part" is a noun of the language.)"""


def empty_names(path: Path) -> Iterator[tuple[int, str]]:
    """The locals of a module with such names, each once for its function."""
    bound = {
        (node.name, name.id): name.lineno
        for node in functions(path)
        for name in reversed([*ast.walk(node)])
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.id in EMPTY_NAMES
    }
    return ((line, f"{name} in {function}") for (function, name), line in bound.items())


def test_locals_say_what_they_hold() -> None:
    check_exceptions(
        "empty names",
        ((path, line, said) for path in sorted(PACKAGE.rglob("*.py")) for line, said in empty_names(path)),
    )


# Numeric constants.

FORMATS = (
    "base/exit_codes.py",
    "base/units.py",
    "chakra/reader.py",
    "chakra/schema.py",
    "design/clos.py",
    "msccl/check",
    "msccl/check_plan",
    "msccl/limits.py",
    "source/limits.py",
    "ten/binary.py",
    "ten/text/limits.py",
)
"""Files and folders of the package whose constants are physical facts, prices, or numbers of formats and runtimes."""

_UNIT = re.compile(r"_*(KILO|MEGA|GIGA|MEBIBYTE|MIB|MICROSECOND|PICOSECONDS|SECOND|VERSION)")


ENUMERATIONS = {repr(tuple(range(first, end))) for first in (0, 1) for end in range(first + 2, first + 10)}
"""Values of names that number something: A, B, C = 0, 1, 2."""


@cache
def stated_limits() -> frozenset[tuple[str, str]]:
    """(file, name) of the limits that docs/limits.md promises, and that tests/source/test_limits_page.py compares."""
    tree = ast.parse((ROOT / "tests" / "source" / "test_limits_page.py").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    modules = {name.asname or name.name: f"{node.module}.{name.name}" for node in imports for name in node.names}
    return frozenset(
        (modules[node.value.id].replace(".", "/").removeprefix("collc/") + ".py", node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    )


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number, or a call with nothing but numbers, such as Fraction(1, 3)."""
    if isinstance(node, ast.Call):
        return bool(node.args) and all(map(is_number, node.args)) and not node.keywords
    parts = [*ast.walk(node)]
    operations = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    return all(isinstance(part, operations) for part in parts) and all(type(value) in (int, float) for value in values)


def is_limit(node: ast.expr) -> bool:
    """Whether a number is the end of a number range: 2^31 and more, or 2^k - 1."""
    value = eval(compile(ast.Expression(node), "", "eval")) if not isinstance(node, ast.Call) else 0
    return isinstance(value, int) and value >= 2**31 - 1 and 0 in (value & (value - 1), value & (value + 1))


def constants(path: Path) -> Iterator[tuple[int, str]]:
    """The numeric constants of a module, without units, ends of number ranges, and limits that the manual states."""
    stated = {name for file, name in stated_limits() if PACKAGE / file == path}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                if ast.unparse(node.value) in ENUMERATIONS:
                    continue
                pairs = [*zip(target.elts, node.value.elts, strict=True)]
            for name, value in pairs:
                if (
                    isinstance(name, ast.Name)
                    and is_number(value)
                    and not _UNIT.fullmatch(name.id)
                    and not is_limit(value)
                    and name.id not in stated
                ):
                    yield node.lineno, f"{name.id} = {ast.unparse(value)}"


def test_few_numbers_are_fitted() -> None:
    """Every number that was chosen is a constant; there are at most 200 of them in the package, once `MOST` says so."""
    inside = [
        path for path in sorted(PACKAGE.rglob("*.py")) if not path.relative_to(PACKAGE).as_posix().startswith(FORMATS)
    ]
    check_exceptions("constants", ((path, line, said) for path in inside for line, said in constants(path)))


MOST: dict[str, dict[str, int]] = {
    "retired phrases": {},
    "no referent": {
        "tests": 1,
    },
    '"where" for "if"': {},
    "bare participles and adverbs": {},
    "empty names": {
        "collc/application": 8,
        "collc/kernels": 3,
        "collc/machines": 23,
        "collc/msccl": 15,
        "collc/synthesis": 27,
        "collc/ten": 2,
        "collc/verification": 19,
    },
    "constants": {
        "collc/application": 19,
        "collc/base": 5,
        "collc/chakra": 2,
        "collc/command": 3,
        "collc/design": 7,
        "collc/emit": 6,
        "collc/graph": 4,
        "collc/kernels": 9,
        "collc/lab": 2,
        "collc/machines": 3,
        "collc/msccl": 13,
        "collc/parallel": 2,
        "collc/pictures": 11,
        "collc/runtime": 1,
        "collc/simulation": 3,
        "collc/smt": 4,
        "collc/source": 5,
        "collc/synthesis": 93,
        "collc/ten": 2,
        "collc/tuning": 1,
        "collc/verification": 5,
    },
}
"""Rule -> folder -> how many exceptions it may have."""


def test_a_retired_word_is_seen() -> None:
    assert retired_in("BestWay", "ten") == "way"
    assert retired_in("find_ways", "synthesis/auto") == "ways"
    assert retired_in("open_shop", "synthesis/symmetric") is None
    assert retired_in("shop_of", "synthesis/symmetric") == "shop"
    assert retired_in("place", "source/parsing") is None
    assert retired_in("_place", "synthesis/pccl") == "place"
    assert retired_in("away", "ten") is None
