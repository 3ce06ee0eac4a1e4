"""What editors ask, without a server: messages, names, structure, and files with errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collc.base.diagnostics import CollcError, Diagnostic, SourceFile, Span
from collc.editor.describe import describe
from collc.editor.outline import folds, head_of, links, outline, selections
from collc.editor.positions import offset_of, position_of
from collc.editor.workspace import Workspace
from collc.source.checking.check import FileChecker
from collc.source.checking.check_expressions import TypeScope
from collc.source.elaboration import file_context
from collc.source.elaboration.elaborate import load_program
from collc.source.limits import MAX_BYTES
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.edited import parse_edited
from collc.source.parsing.parse import parse, parse_partly
from collc.source.parsing.syntax import File
from collc.source.parsing.table import load_table
from collc.source.parsing.tokens import NAME
from collc.source.problems import Problems
from collc.source.types import Type
from tests.stdlib.pages import examples

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.coll"))
WRONG = sorted((ROOT / "tests" / "errors").rglob("*.coll"))
LIBRARY = sorted((ROOT / "stdlib").glob("*.coll"))
FAILING = [example for page in sorted((ROOT / "docs").glob("*.md")) for example in examples(page) if example.code]


def workspace(folder: Path, **texts: str) -> tuple[Workspace, list[Path]]:
    """A workspace with texts that are not saved, by name of the file, and their paths."""
    paths = {folder.resolve() / f"{name}.coll": text for name, text in texts.items()}
    return Workspace([folder.resolve()], dict(paths)), [*paths]


def in_short(messages: Iterable[Diagnostic]) -> list[object]:
    return [
        (m.code, m.message, m.notes, m.hint, m.span and (m.span.file.name, m.span.start, m.span.end)) for m in messages
    ]


def checked(path: Path) -> list[object]:
    """What `collc check` says of a file."""
    try:
        load_program(path)
    except CollcError as error:
        return in_short(error.diagnostics)
    return []


# Messages


def test_the_messages_are_those_of_collc_check_on_all_failing_blocks_of_the_documents(tmp_path: Path) -> None:
    assert len(FAILING) >= 3
    for number, example in enumerate(FAILING):
        path = tmp_path / f"block{number}.coll"
        path.write_text(example.text)
        unsaved = Workspace(texts={path: example.text}).check(path).messages
        assert in_short(unsaved) == checked(path) != [], example
        assert example.code in {message.code for message in unsaved}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_the_messages_about_wrong_programs_are_those_of_collc_check(path: Path) -> None:
    text = path.read_bytes().decode()
    assert [str(m) for m in in_short(Workspace(texts={path: text}).check(path).messages)] == [
        str(m) for m in checked(path)
    ]


def test_the_text_of_the_editor_counts_also_in_an_imported_file(tmp_path: Path) -> None:
    (tmp_path / "node.coll").write_text("topology node { npu gpu[8] }\n")
    program = 'import "node.coll"\ntopology t = node\nlet g = t.gpu[0]\n'
    programs, (main,) = workspace(tmp_path, main=program)
    assert programs.check(main).messages == ()
    node = tmp_path.resolve() / "node.coll"
    programs.change(node, "topology node { npu gpus[8] }\n")
    assert [m.code for m in programs.check(main).messages] == ["E0316"]
    assert programs.users(node) == [node, main]
    programs.change(node, None)
    assert programs.check(main).messages == ()


def test_topologies_of_the_library_are_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topology of the program is built if an edit reaches it; two equal ones of the library stay different."""
    built: list[str] = []
    build = file_context.build_topology

    def counted(template: s.TopologyTemplate, *rest: Any) -> Any:
        built.append(template.name.name)
        return build(template, *rest)

    monkeypatch.setattr(file_context, "build_topology", counted)
    rates = "bandwidth: 1GB/s, latency: 1us"
    text = f"import std.topologies\nimport std.collectives\ntopology a = ring(4, {rates})\n"
    text += f"topology b = ring(4, {rates})\ntopology c = ring(5, {rates})\ntopology own(n: int) {{ npu gpu[n] }}\n"
    text += "topology d = own(2)\nlet e = d.gpu[1]\ngroup g = a.npus\n"
    text += "schedule s on a { run all_gather(g, size: 4MiB) }\n"
    programs, (path,) = workspace(tmp_path, a=text)
    assert programs.check(path).messages == ()
    assert sorted(built) == ["own", "ring", "ring"]
    built.clear()
    programs.change(path, text.replace("4MiB", "8MiB"))
    assert programs.check(path).messages == ()
    assert built == []
    programs.change(path, text.replace("own(2)", "own(3)").replace("ring(5", "ring(6"))
    assert programs.check(path).messages == ()
    assert sorted(built) == ["own", "ring"]
    programs.change(path, text.replace("s on a", "s on b"))
    assert [message.code for message in programs.check(path).messages] == ["E0403"]
    programs.change(path, text.replace("npu gpu[n]", "npu gpu[n - 1]"))
    assert [message.code for message in programs.check(path).messages] == ["E0318"]


def test_only_what_an_edit_reaches_is_checked_again(tmp_path: Path) -> None:
    text = "import std.collectives\nlet a = 1\nlet b = a\nlet c = b\nlet d = 2\nlet e = d\n"
    text += "topology t { npu g[2]\n link g[0] <-> g[1] (bandwidth: 1GB/s, latency: 1us) }\n"
    text += "schedule gather on t { run all_gather(t.npus, size: b * 2B) }\n"
    (tmp_path / "other.coll").write_text("let x = 1\n")
    programs, (path,) = workspace(tmp_path, main=text)

    def checked_again(text: str) -> set[str]:
        programs.change(path, text)
        done = programs.check(path)
        assert done.context is not None
        return {head_of(node.span).split()[1] for node in done.context.file.open_statements()}

    whole = {"std.collectives", "a", "b", "c", "d", "e", "t", "gather"}
    assert checked_again(text) == whole
    assert checked_again("# What.\n" + text) == set()
    assert checked_again(text.replace("let b = a", "let b = 3")) == {"b", "c", "gather"}
    assert checked_again(text) == {"b", "c", "gather"}
    assert checked_again(text.replace("let e = d\n", "")) == set()
    programs.change(path, text.replace("let d = 2\n", ""))
    assert [message.code for message in programs.check(path).messages] == ["E0201"]
    assert checked_again(text) == {"e"}
    assert checked_again(text + "let all_gather = 1\n") == {"gather", "all_gather"}
    other = text + 'import "other.coll"\n'
    assert checked_again(other) == {*whole, '"other.coll"'}
    assert checked_again(other) == set()
    (tmp_path / "other.coll").write_text("let y = 1\n")
    assert checked_again(other) == {*whole, '"other.coll"'}
    branch = other + "if a > 0 { let f = 2 }\n"
    assert checked_again(branch) == {*whole, '"other.coll"', "a", "f"}
    assert checked_again(branch) == {"f"}
    assert checked_again(branch.replace("let a = 1", "let a = 0")) == {*whole, '"other.coll"', "a"}


def test_workloads_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "layers.txt").write_text("")
    programs, (path,) = workspace(tmp_path, main='workload w from "layers.txt" (tensor: 1, data: 2)\n')
    before = [message.code for message in programs.check(path).messages]
    assert before == [m.code for m in Workspace(texts=programs.texts).check(path).messages]
    assert before != []


def with_random_edits(text: str, rng: Random) -> Iterator[str]:
    """The text with one word or sign after another replaced, removed or moved; now and then it is as it was."""
    edited = text
    while True:
        parts = list(re.finditer(r"\w+|\S|\n", edited))
        place, other = rng.choice(parts), rng.choice(parts)
        word = rng.choice(["", other[0], str(rng.randint(0, 9)), "else ", '"', "#", "{", "}", "let x = 1\n"])
        edited = edited[: place.start()] + word + edited[place.end() :]
        if rng.random() < 0.2:
            paragraphs = edited.split("\n\n")
            paragraphs.insert(rng.randrange(len(paragraphs)), paragraphs.pop(rng.randrange(len(paragraphs))))
            edited = "\n\n".join(paragraphs)
        yield edited
        edited = text if rng.random() < 0.5 else edited


@pytest.mark.parametrize("count", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_after_any_edit_trees_and_messages_are_those_of_the_text(count: int) -> None:
    def in_detail(part: object) -> object:
        if isinstance(part, ex.Node):
            return type(part), [in_detail(value) for value in vars(part).values()]
        return [*map(in_detail, part)] if isinstance(part, tuple) else part

    for path in EXAMPLES[:: 1 if count > 8 else 7]:
        rng, text, programs = Random(path.name), path.read_text(), Workspace()
        whole = parse(SourceFile(str(path), text))
        programs.change(path, text)
        programs.check(path)
        for edited in islice(with_random_edits(text, rng), count):
            source = SourceFile(str(path), edited)
            tree, problems = parse_edited(source, whole)
            expected, errors = parse_partly(source)
            assert in_detail(tree.statements) == in_detail(expected.statements), edited
            assert [*problems] == [*errors], edited
            programs.change(path, edited)
            fresh = Workspace(texts={path: edited}).check(path)
            assert in_short(programs.check(path).messages) == in_short(fresh.messages), edited


def test_users_are_found_through_other_files_and_in_circles(tmp_path: Path) -> None:
    programs, paths = workspace(tmp_path, a='import "b.coll"', b='import  "c.coll"', c="let x = 1", d='import "d.coll"')
    assert programs.users(paths[2]) == [paths[2], paths[1], paths[0]]
    assert programs.users(paths[3]) == [paths[3]]


# Names


class Recorder(FileChecker):
    """The static check, which records the declaration of each name that it looks up: a second opinion."""

    def _visit_name(self, node: ex.Name, env: TypeScope) -> Type:
        scope: TypeScope | None = env
        while scope is not None and node.name not in scope.types:
            scope = scope.outer
        if scope is not None:
            RECORDED[node.span] = scope.places.get(node.name)
        else:
            found = self.file.find("value", node.name) or self.file.find("topology", node.name)
            RECORDED[node.span] = None if found is None else found.node.name.span
        return super()._visit_name(node, env)


RECORDED: dict[Span, Span | None] = {}


def test_names_mean_what_the_static_check_takes_them_for() -> None:
    programs, count = Workspace(), 0
    for path in [*EXAMPLES, *LIBRARY]:
        RECORDED.clear()
        names = programs.names(path)
        checkers: dict[int, FileChecker] = {}
        files = [names.file, *(file for file, _ in names.file.imports)]
        checkers |= {id(file): Recorder(file, Problems(), checkers) for file in files}
        checkers[id(names.file)].check()
        meant = {(use.span.start, use.span.end): use.symbol.place for use in names.uses}
        for span, place in RECORDED.items():
            if place is not None and span.file.name == str(path):
                assert meant.get((span.start, span.end)) == place, span.text
                count += 1
    assert count > 500


def test_every_name_of_the_examples_means_something() -> None:
    programs = Workspace()
    table = load_table()
    unknown: dict[str, set[str]] = {}
    for path in EXAMPLES:
        uses = programs.names(path).uses
        inside = [(use.span.start, use.span.end) for use in uses]
        for token in table.scanner.scan(programs.source(path).text):
            known = any(start <= token.start < end for start, end in inside)
            if token.kind == NAME and token.text not in table.keywords and not known:
                unknown.setdefault(path.stem, set()).add(token.text)
    design = unknown.pop("design")
    assert design == {"tensor", "data", "all_reduce", "bandwidth", "time", "cost"}
    assert unknown.pop("failures") == {"nics", "gpus", "nodes"}  # parts in the plural
    assert set().union(*unknown.values()) == {"auto", "time", "bound", "steps", "optimal", "sum"}


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("topology t { npu t[2]\n link t[0] -> t[1] }", "t[0]", "npu"),
        ("topology a { npu g }\ntopology b { use a as a[2]\n link a[0].g -> a[1].g }", "g -> a", "npu"),
        ("topology a { npu g[2] }\ntopology b = a without { npu g[1] }", "g[1]", "npu"),
        (
            "topology a { npu g[2] }\ntopology b = a with { link g[i] <-> g[0] (latency: 1us) for i in 0..1 }",
            "i]",
            "loop variable",
        ),
        ("collective c(g: group) { chunk x[i]: 1B\n for i in 0..2 { pre x[i] at g[i] } }", "x[i] at", "chunk"),
        ("schedule s on t { synthesize tacos(seed: 1) }", "seed", "option"),
        ("topology a { npu g[2]\n part p = { npu g[0] } }", "g[0]", "npu"),
        ("topology a { npu g[2]\n part p = { npu g[0] } }\nschedule s on a { failures p }", "p }", "part"),
        ("topology a { npu g[2] }\nschedule s on a { failures any g }", "g }", "npu"),
        ("let a = [i for i in 0..3 if i > 1]", "i for", "loop variable"),
        ("let a = 1\nif a > 0 { let b = 2 } else { let b = 3 }\nlet c = b", "b\n", "constant"),
    ],
)
def test_names_of_all_kinds(text: str, name: str, kind: str, tmp_path: Path) -> None:
    programs, (path,) = workspace(tmp_path, a=text + "\n")
    use = programs.names(path).at((text + "\n").rindex(name))
    assert use is not None
    assert use.symbol.kind == kind


def test_an_imported_algorithm_is_found_beside_one_of_the_same_name(tmp_path: Path) -> None:
    text = (
        "import std.topologies\nimport std.collectives\nimport std.algorithms\ntopology t = ring(2, bandwidth: 1GB/s)\n"
        "algorithm direct(g: group, size: bytes) implements broadcast(g, size) { send x[0] from g[0] to g[1] }\n"
        "schedule s on t { run all_gather(t.npus, size: 2MiB) using direct }\n"
    )
    programs, (path,) = workspace(tmp_path, a=text)
    use = programs.names(path).at(text.rindex("direct"))
    assert use is not None
    assert use.symbol.place is not None
    assert use.symbol.place.file.name == "std/algorithms.coll"


def test_descriptions(tmp_path: Path) -> None:
    text = (
        "import std.topologies\n# The nodes.\nparam n: int = 2 * 4\nlet size = 3 * 1MiB\n"
        "topology t = ring(n, bandwidth: 50GB/s, latency: 1us)\ngroup all = t.npus\nlet names = [1, 2]\n"
    )
    programs, (path,) = workspace(tmp_path, a=text)
    programs.check(path)

    def said(name: str, **options: bool) -> str:
        use = programs.names(path).at(text.index(name))
        assert use is not None
        return describe(programs, path, use.symbol, **options)

    assert said("n: int") == "~~~coll\nparam n: int = 2 * 4\n~~~\n\nint: 8\n\nThe nodes."
    assert "bytes: 3MiB" in said("size")
    assert "8 NPUs, 16 links of 50GB/s; diameter 4 hops" in said("t = ring")
    assert "data:image/svg+xml;base64," in said("t = ring", pictures=True)
    assert "group: 8 items" in said("all")
    ring = said("ring(")
    assert "topology ring(n: int" in ring
    assert "A ring of n NPUs" in ring
    assert ring.endswith("from std.topologies")


# Structure


def test_outline_and_folds(tmp_path: Path) -> None:
    text = "# one\n# two\ntopology t(n: int) {\n    npu gpu[n]\n    let a = 1\n}\n"
    text += "if true {\n    let b = [\n        1,\n    ]\n}\n"
    source = SourceFile("a.coll", text)
    (topology, constant) = outline(parse(source))
    assert (topology.name, topology.kind, topology.detail) == ("t", "topology", "topology t(n: int)")
    assert [(part.name, part.kind) for part in topology.inner] == [
        ("n", "parameter"),
        ("gpu", "npu"),
        ("a", "constant"),
    ]
    assert constant.name == "b"
    assert sorted(folds(source)) == [(0, 1, True), (2, 4, False), (6, 9, False), (7, 8, False)]


def test_parts_are_in_the_outline() -> None:
    text = "topology t { npu gpu[2]\n part nic[i in 0..2] = { npu gpu[i] } }\n"
    (topology,) = outline(parse(SourceFile("a.coll", text)))
    assert [(part.name, part.kind) for part in topology.inner] == [("gpu", "npu"), ("nic", "part")]


def test_selections_grow() -> None:
    text = "let a = [1, 2 + 3]\n"
    tree = parse(SourceFile("a.coll", text))
    assert [span.text for span in selections(tree, text.index("3"))] == ["3", "2 + 3", "[1, 2 + 3]", text[:-1], text]


def test_links_lead_to_files() -> None:
    path = ROOT / "examples" / "pod_of_nodes.coll"
    targets = [target for _, target in links(Workspace(), path)]
    assert targets == [ROOT / "examples" / "parts" / "node.coll", ROOT / "stdlib" / "collectives.coll"]


@given(st.text(st.sampled_from("ab\n\r\u00e9\U0001f600\ud800"), max_size=20), st.integers(0, 30))
def test_positions_and_offsets(text: str, place: int) -> None:
    offset = min(place, len(text))
    line, unit = position_of(text, offset)
    row = text[:offset].rpartition("\n")[2]
    assert (line, unit) == (text.count("\n", 0, offset), len(row.encode("utf-16-le", "surrogatepass")) // 2)
    assert offset_of(text, line, unit) == offset
    assert 0 <= offset_of(text, place, place) <= len(text)


# Files with errors


def declared(tree: File) -> list[str]:
    return [item.name for item in outline(tree)]


@pytest.mark.parametrize("step", [47, pytest.param(5, marks=pytest.mark.slow)])
def test_every_prefix_keeps_the_symbols_that_are_complete(step: int) -> None:
    """The declarations of a prefix: those that end in it, and those whose body begins in it."""
    kept = total = 0
    for path in EXAMPLES:
        text = path.read_text()
        whole = outline(parse(SourceFile("a.coll", text)))
        opened = [o.span.end if " = " in o.detail else text.find("{", o.span.start) + 1 or len(text) for o in whole]
        for end in range(0, len(text), step):
            names = declared(parse_partly(SourceFile("a.coll", text[:end]))[0])
            begun = [item.name for item, start in zip(whole, opened, strict=True) if start <= end]
            total += 1
            kept += names[: len(begun)] == begun
    assert kept >= 0.95 * total


@pytest.mark.parametrize("path", WRONG[::9], ids=lambda path: path.stem)
def test_files_with_errors_keep_their_symbols(path: Path) -> None:
    names = declared(parse_partly(SourceFile("a.coll", path.read_bytes().decode()))[0])
    with suppress(CollcError):
        assert names == declared(parse(SourceFile("a.coll", path.read_bytes().decode())))


def test_a_wrong_statement_takes_nothing_else_along() -> None:
    text = "let a = 1\ntopology t { npu g[2]\n link g[0] -> \n npu h }\nlet b = = 2\nschedule s on t {\n run "
    tree = parse_partly(SourceFile("a.coll", text))[0]
    assert declared(tree) == ["a", "t", "s"]
    assert [part.name for part in outline(tree)[1].inner] == ["g", "h"]
    assert declared(parse_partly(SourceFile("a.coll", "let a = 1\nlet b = = 2\nlet c = 3\n"))[0]) == ["a", "c"]
    text = "let a = 1\ntopology b = f(c{\nschedule d on b {\n    run e(\n}\n"
    assert declared(parse_partly(SourceFile("a.coll", text))[0]) == ["a", "d"]


def test_names_of_a_branch_with_more_errors_than_are_kept(tmp_path: Path) -> None:
    programs, (path,) = workspace(tmp_path, a="if true {\n" + "let a = 1\n" * 300 + "}\n")
    assert len(programs.names(path).uses) == 300


def test_files_that_cannot_be_read_at_all_have_no_statements() -> None:
    assert parse_partly(SourceFile("a.coll", "let a = " + "(" * 1000 + "1" + ")" * 1000))[0].statements == ()
    assert parse_partly(SourceFile("a.coll", "#" * (MAX_BYTES + 1)))[0].statements == ()
