"""Completion, signatures, references, renaming and quick fixes, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.base.diagnostics import UsageError
from collc.editor.completion import complete, complete_unit, import_edit, read_position, signature
from collc.editor.fixes import fixes
from collc.editor.references import apply_edits, rename, symbols, uses_of
from collc.editor.workspace import Workspace
from collc.source.parsing.table import load_table

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.coll"))
WRONG = [path for path in sorted((ROOT / "tests" / "errors").rglob("*.coll")) if not path.stem.startswith("too_")]
PATH = Path("/nowhere/a.coll")
HEAD = (
    "import std.topologies\nimport std.collectives\n"
    "topology mesh = mesh2d(3, 3, bandwidth: 50GiB/s, latency: 0.5us)\n"
    "topology pod { npu gpu[8]\n switch hub\n link gpu[0] <-> hub }\n"
)
COLLECTIVES = {"all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"}


def labels(text: str) -> list[str]:
    """What completion offers at the sign | of a program."""
    offset = text.index("|")
    programs = Workspace(texts={PATH: text.replace("|", "", 1)})
    position = read_position(programs, PATH, offset)
    return [] if position is None else [item.label for item in complete(position)]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("|", {"import", "topology", "schedule", "let"}),
        ("import |", {"std.topologies", "std.collectives"}),
        ("import std.|", {"topologies", "collectives"}),
        (HEAD + "schedule s on |", {"mesh", "pod", "ring", "dgx_h100"}),
        (HEAD + "schedule s on mesh { |", {"run", "synthesize", "verify", "emit", "allow", "let"}),
        (HEAD + "schedule s on mesh { run |", COLLECTIVES),
        (HEAD + "schedule s on mesh { run all_r| }\nlet x = 1", COLLECTIVES),
        (HEAD + "schedule s on mesh { run all_gather(mesh.|, size: 1MiB) }", {"npus", "npu"}),
        (HEAD + "schedule s on mesh { run all_gather(pod.|", {"npus", "gpu", "hub"}),
        (HEAD + "topology both = mesh * mesh\ngroup g = both.|", {"npus"}),
        (HEAD + "schedule s on mesh { run all_gather(mesh.npus, |", {"size:", "chunks:", "mesh", "len"}),
        (HEAD + "schedule s on mesh { run all_gather(mesh.npus, chunks: |", {"auto"}),
        (HEAD + "schedule s on mesh { run all_reduce(mesh.npus, size: 9MiB) using |", {"ring", "hierarchical"}),
        (HEAD + "schedule s on mesh { synthesize |", {"tacos", "auto", "exact"}),
        (HEAD + "schedule s on mesh { synthesize tacos(|", {"seed:", "trials:"}),
        (HEAD + "schedule s on mesh { synthesize tacos(link_model: |", {'"store"', '"pipelined"'}),
        (HEAD + 'schedule s on mesh { synthesize tacos(link_model: "|', {"store", "pipelined"}),
        (HEAD + "schedule s on mesh { emit |", {"msccl", "ten", "report"}),
        (HEAD + 'schedule s on mesh { emit msccl("a", |', {"instances:", "protocol:"}),
        (HEAD + "schedule s on mesh { verify |", {"optimal", "time", "steps"}),
        (HEAD + "schedule s on mesh { allow |", {"congestion"}),
        (HEAD + "let a = 1\nlet b = |", {"a", "max", "not", "true"}),
        (HEAD + "let x = mesh2d(width: 3, |", {"height:", "bandwidth:"}),
        ("topology t(n: |", {"int", "rate", "group"}),
        ("topology t(n: int) { npu g[n] (|", {"inject:", "endpoint:"}),
        ("topology t(n: int) { npu g[n]\n link |", {"g"}),
        ("topology t(n: int) { npu g[n]\n for i in 0..n { link g[i] -> g[|", {"i", "n"}),
        ("topology t(n: int) { npu g[n]\n link g[0] -> g[1] (|", {"bandwidth:", "latency:"}),
        ("collective c(g: group) { chunk x[i]: 1MiB\n pre |", {"x"}),
        ("workload w (tensor: 1) { }\ndesign d on t { train |", {"w"}),
        ("# a |", set()),
        ("topology a = b with { lin{|", set()),
        ("let a = 'b|", set()),
        ("let a = 1 b|", set()),
        ('let x = "|', set()),
    ],
)
def test_what_is_offered(text: str, offered: set[str]) -> None:
    found = labels(text)
    assert offered <= set(found)
    assert not offered or len(found) == len(set(found)) or "using" in text


def test_what_is_not_offered() -> None:
    assert "size:" not in labels(HEAD + "schedule s on mesh { run all_gather(mesh.npus, size: 1MiB, |")
    assert "later" not in labels("let a = |\nlet b = [later for later in 0..3]")
    assert "run" not in labels("topology t { |")
    using = labels(HEAD + "schedule s on mesh { run all_to_all(mesh.npus, size: 9MiB) using |")
    assert "double_binary_tree" not in using
    using = labels(HEAD + "schedule s on mesh { run reduce(mesh.npus, size: 9MiB) using |")
    assert "ring" in using
    assert "pairwise" not in using  # which implements reduce_scatter
    part = "topology t { npu gpu[4]\n part nic[i in 0..4] = { npu gpu[i] }\n link |"
    assert "nic" not in labels(part)


def test_files_of_the_folder_are_offered_for_import(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "parts").mkdir()
    (folder / "parts" / "node.coll").write_text("topology n { npu a }")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "no.coll").write_text("")
    programs = Workspace([folder], {folder / "a.coll": 'import "'})
    position = read_position(programs, folder / "a.coll", 8)
    assert position is not None
    assert [item.label for item in complete(position)] == ["parts/node.coll"]


def test_names_of_the_library_come_with_their_import() -> None:
    programs = Workspace(texts={PATH: "import std.links\nlet a = 1\nschedule s on "})
    position = read_position(programs, PATH, len(programs.texts[PATH]))
    assert position is not None
    ring = next(item for item in complete(position) if item.label == "ring")
    assert ring.module == "std.topologies"
    assert ring.documentation.startswith("A ring of n NPUs")
    place, text = import_edit(programs, PATH, ring.module)
    assert (place.start, text) == (16, "\nimport std.topologies")


def test_units_follow_numbers() -> None:
    text = "let a = 50GB"
    start, units = complete_unit(text, len(text)) or (0, [])
    assert (start, "GB/s" in {unit.label for unit in units}) == (10, True)
    assert complete_unit("let a2", 6) is None
    assert complete_unit("let a = x.5", 11) is None


@pytest.mark.parametrize(
    ("text", "label", "active"),
    [
        (HEAD + "schedule s on mesh { run all_gather(|", "collective all_gather", 0),
        (HEAD + "schedule s on mesh { run all_gather(mesh.npus, chunks: |", "collective all_gather", 2),
        (HEAD + "let a = mesh2d(3, |", "topology mesh2d", 1),
        (HEAD + "let a = len(|", "len(a list", 0),
        ("topology t { npu a (|", "npu (inject: rate", 0),
        (
            f"import std.algorithms\n{HEAD}schedule s on mesh {{ run reduce(mesh.npus, size: 9MiB) using ring(|",
            "algorithm ring( g: group, size: bytes, chunks: int = 1, root: int = 0, op",
            0,
        ),
    ],
)
def test_signatures(text: str, label: str, active: int) -> None:
    position = read_position(Workspace(texts={PATH: text.replace("|", "")}), PATH, text.index("|"))
    call = signature(position) if position is not None else None
    assert call is not None
    assert call.label.startswith(label)
    assert call.active == active


@pytest.mark.parametrize("step", [61, pytest.param(4, marks=pytest.mark.slow)])
def test_completion_works_in_every_prefix_of_every_example(step: int) -> None:
    """Behind each token of an example, the next one is offered if it is a keyword; 95 % of them must be."""
    keywords = load_table().keywords
    offered = total = 0
    for path in EXAMPLES:
        text = path.read_text()
        tokens = [*load_table().scanner.scan(text)][:-1]
        names = {use.span.start for use in Workspace().names(path).uses}
        for token in tokens[::step]:
            programs = Workspace(texts={PATH: text[: token.start]})
            position = read_position(programs, PATH, token.start)
            items = [item.label for item in complete(position)] if position is not None else []
            if token.text in keywords and token.start not in names:
                total += 1
                offered += token.text in items
    assert offered >= 0.95 * total


# References


def programs_of(**texts: str) -> Workspace:
    return Workspace(texts={Path("/nowhere") / f"{name}.coll": text for name, text in texts.items()})


TWO = {
    "node": "# n\ntopology node(size: int) { npu gpu[size] }\n",
    "use": 'import "node.coll"\ntopology t = node(size: 8)\ngroup g = t.gpu[0, 1]\nlet size = 3\n',
}


@pytest.mark.parametrize(("name", "places"), [("node(size", 2), ("size: int", 3), ("gpu[size", 2), ("size] }", 3)])
def test_references_reach_over_files(name: str, places: int) -> None:
    programs = programs_of(**TWO)
    path = Path("/nowhere/node.coll")
    use = programs.names(path).at(TWO["node"].index(name))
    assert use is not None
    assert sum(map(len, uses_of(programs, path, use.symbol).values())) == places


def test_renaming() -> None:
    programs = programs_of(**TWO)
    node, user = Path("/nowhere/node.coll"), Path("/nowhere/use.coll")
    use = programs.names(user).at(TWO["use"].index("size: 8"))
    assert use is not None
    edits = rename(programs, user, use.symbol, "count")
    texts = {path: apply_edits(programs.texts[path], [e for e in edits if e.path == path]) for path in (node, user)}
    assert texts[node] == TWO["node"].replace("size", "count")
    assert texts[user] == TWO["use"].replace("size: 8", "count: 8")


@pytest.mark.parametrize(
    ("text", "name", "new", "problem"),
    [
        ("let a = 1\nlet b = a", "a", "b", "means something else"),
        ("let a = 1\ntopology t(n: int) { npu g[a] }", "a", "n", "means something else"),
        ("let a = 1", "a", "not", "is not a name"),
        ("let a = 1", "a", "1a", "is not a name"),
        ("import std.topologies\nlet a = ring(3)", "ring", "b", "is not declared in this workspace"),
        ("let a = len([1])", "len", "b", "is not declared in this workspace"),
    ],
)
def test_renaming_that_would_change_the_meaning_is_refused(text: str, name: str, new: str, problem: str) -> None:
    programs = programs_of(a=text)
    use = programs.names(PATH).at(text.rindex(name))
    assert use is not None
    with pytest.raises(UsageError, match=problem):
        rename(programs, PATH, use.symbol, new)


def test_every_name_of_the_examples_can_be_renamed() -> None:
    for path in EXAMPLES[::3]:
        programs = Workspace()
        for use in [use for use in programs.names(path).uses if use.declares]:
            edits = rename(programs, path, use.symbol, "renamed_here")
            text = apply_edits(path.read_text(), [edit for edit in edits if edit.path == path])
            assert Workspace(texts={path: text}).check(path).messages == (), use.symbol


def test_symbols_of_a_workspace() -> None:
    programs = programs_of(**TWO)
    assert [item.name for _, item in symbols(programs, "nd")] == ["node"]
    assert {item.name for _, item in symbols(programs, "")} == {"node", "t", "g", "size"}


# Quick fixes


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("import std.topologies\ntopology t = rng(3)", "import std.topologies\ntopology t = ring(3)"),
        ("let a = 1\ntopology t = ring(3)", "import std.topologies\nlet a = 1\ntopology t = ring(3)"),
        ("let a = 9 MiB", "let a = 9MiB"),
        ("let a = 1 && true", "let a = 1 and true"),
        ("let a = [1 2]", "let a = [1, 2]"),
        ("let a = (1", "let a = (1)"),
        ("let a = 1;", "let a = 1"),
        ("let a = 'x'", 'let a = "x"'),
        ("let a = 1MiB + 3", "let a = 1MiB + 3MiB"),
        ("param n", "param n: int"),
        (
            "import std.topologies\ntopology t = ring(3, bandwidth: 1GB/s, latency: 1us)\n"
            "schedule s on t { verify time < 10 }",
            "verify time < 10us }",
        ),
        ("let a = zzz", None),
        ("import std.topologies\ntopology t = ring(bandwidth: 1GB/s)", "n: 1)"),
        ("import std.topologies\ntopology t = ring()", "ring(n: 1)"),
        ("topology t { npu n[2]\n switch s }\ntopology d = t without { npu s }", "without { switch s }"),
        (
            "import std.topologies\nimport std.collectives\ntopology t = ring(4, bandwidth: 1GB/s, latency: 1us)\n"
            "schedule s on t {\n}\n",
            "schedule s on t {\n    run all_gather(t.npus, size: 1MiB)\n}\n",
        ),
    ],
)
def test_quick_fixes(text: str, after: str | None) -> None:
    programs = Workspace(texts={PATH: text})
    proposed = [
        apply_edits(text, edits) for m in programs.check(PATH).messages for _, edits in fixes(programs, PATH, m)
    ]
    assert (proposed == []) if after is None else any(p == after or (p.endswith(after)) for p in proposed)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_each_quick_fix_removes_its_message(path: Path) -> None:
    programs = Workspace()
    text = path.read_bytes().decode()
    for message in programs.check(path).messages[:5]:
        for _, edits in fixes(programs, path, message):
            later = Workspace(texts={path: apply_edits(text, edits)}).check(path).messages
            same = [m for m in programs.check(path).messages if (m.code, m.message) == (message.code, message.message)]
            left = [m for m in later if (m.code, m.message) == (message.code, message.message)]
            assert len(left) < len(same)


def test_a_fix_that_does_not_help_is_not_proposed() -> None:
    path = ROOT / "tests" / "errors" / "syntax" / "bad_escape.coll"
    programs = Workspace()
    message = programs.check(path).messages[0]
    assert message.hint.startswith("write ")
    assert fixes(programs, path, message) == []
