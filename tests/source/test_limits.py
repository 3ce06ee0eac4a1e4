"""The limit of nested loops, and negative indices: both are errors with a place."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.base.diagnostics import CollcError, Diagnostic
from collc.source.elaboration.elaborate import load_program
from collc.source.limits import MAX_ARGUMENTS, MAX_LOOP_DEPTH

HEAD = "import std.topologies\ntopology t = ring(4, bandwidth: 1GB/s, latency: 1us)\ngroup g = [t[3], t[1]]\n"


def load(folder: Path, text: str) -> None:
    path = folder / "program.coll"
    path.write_text(text)
    load_program(path)


def error(folder: Path, text: str) -> Diagnostic:
    """The only message about a program."""
    with pytest.raises(CollcError) as caught:
        load(folder, text)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def clauses(count: int) -> str:
    return ", ".join(f"i{k} in 0..1" for k in range(count))


@pytest.mark.parametrize(
    "text", ["let a = [0 for {}]", "topology u {{ npu n[2] for {} {{ link n[0] <-> n[1] }} }}", "group h[{}] = t.npus"]
)
def test_a_loop_nest_has_at_most_256_loop_variables(text: str, tmp_path: Path) -> None:
    depth = MAX_LOOP_DEPTH - ("topology u" in text)  # the body of a topology is one level by itself
    load(tmp_path, HEAD + text.format(clauses(depth)))
    found = error(tmp_path, HEAD + text.format(clauses(depth + 1)))
    assert (found.code, found.message) == ("E0806", "loops are nested deeper than 256 levels")
    assert found.span is not None
    assert found.span.text == f"i{depth} in 0..1"


def test_nested_loops_are_counted_together(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    head = " ".join(f"for {', '.join(f'{n}{k} in 0..1' for k in range(50))} {{" for n in names)
    text = f"topology u {{ npu n[2] {head} link n[0] <-> n[1] {'}' * len(names)} }}"
    assert error(tmp_path, HEAD + text).code == "E0806"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("let a = max({})", "arguments"),
        ("topology u {{ npu n[2] ({}) }}", "arguments"),
        ("let a = t[{}]", "indices"),
        ("topology u {{ npu n[{}] }}", "indices"),
    ],
)
def test_a_pair_of_brackets_has_at_most_1000_items(text: str, what: str, tmp_path: Path) -> None:
    text = text.format(", ".join(["1"] * (MAX_ARGUMENTS + 1)))
    found = error(tmp_path, HEAD + text)
    assert (found.code, found.message) == ("E0809", f"more than 1,000 {what} in one place")


def test_the_parser_stops_at_the_first_argument_too_many(tmp_path: Path) -> None:
    text = f"let a = max({', '.join(['1'] * 2 * MAX_ARGUMENTS)}"  # a syntax error at the end
    assert error(tmp_path, HEAD + text).code == "E0809"


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("[1, 2, 3][-1]", "E0219", "index -1 is out of range: the indices of the list are 0 .. 2"),
        ("[1, 2, 3][-3]", "E0219", "index -3 is out of range: the indices of the list are 0 .. 2"),
        ("[1, 2, 3][3]", "E0219", "index 3 is out of range: the indices of the list are 0 .. 2"),
        ("[[1], [2]][1][-1]", "E0219", "index -1 is out of range: the indices of the list are 0 .. 0"),
        ("[4, 5, 6][-1..2]", "E0219", "index -1 is outside 0 .. 2"),
        ("[4, 5, 6][{-1, 0}]", "E0219", "index -1 is outside 0 .. 2"),
        ("g[-1]", "E0219", "index -1 is out of range: the ranks of the group are 0 .. 1"),
        ("g[-1..1]", "E0219", "index -1 is outside 0 .. 1"),
        ("t[-1]", "E0318", "'t' has no NPU -1: the NPUs are 0 .. 3"),
        ("t[4]", "E0318", "'t' has no NPU 4: the NPUs are 0 .. 3"),
        ("t[{-1, 0}]", "E0318", "'t' has no NPU -1: the NPUs are 0 .. 3"),
        ("t.npu[-1]", "E0318", "'npu' has no index -1 here: its indices are 0 .. 3"),
        ("t.npu[-2..1]", "E0318", "'npu' has no index -2 here: its indices are 0 .. 3"),
    ],
)
def test_negative_indices_do_not_count_from_the_end(value: str, code: str, message: str, tmp_path: Path) -> None:
    found = error(tmp_path, f"{HEAD}let a = {value}")
    assert (found.code, found.message) == (code, message)


@pytest.mark.parametrize(
    ("value", "code", "wrong"),
    [
        ("[7, 8, 9][i - 1]", "E0219", "index -1 "),
        ("[[7, 8], [9]][i][1 - 2 * i]", "E0219", "index -1 "),
        ("[[7, 8], [9]][i][1]", "E0219", "index 1 "),
        ("g[i - 1]", "E0219", "index -1 "),
        ("t[i - 1]", "E0318", "'t' has no NPU -1"),
        ("t.npu[i - 1]", "E0318", "'npu' has no index -1 "),
    ],
)
def test_negative_indices_in_a_loop_say_in_which_iteration(value: str, code: str, wrong: str, tmp_path: Path) -> None:
    found = error(tmp_path, f"{HEAD}let a = [{value} for i in 0..2]")
    assert found.code == code
    assert found.message.startswith(wrong)
    notes = [note.message for note in found.notes]
    assert notes == ([f"with i = {int('i][1' in value)}"] if "npu" not in value else [])


def test_a_negative_root_is_out_of_range(tmp_path: Path) -> None:
    text = HEAD + "import std.collectives\nschedule s on t { run broadcast(g, size: 16B, root: -1) }"
    found = error(tmp_path, text)
    assert (found.code, found.message) == ("E0219", "'root' is -1, but the ranks of the group are 0 .. 1")
    assert found.span is not None
    assert found.span.text == "-1"


@pytest.mark.parametrize("index", ["{i, i + 1}", "[i, i + 1]", "i..i + 2"])
def test_the_end_of_a_link_in_a_loop_is_one_device(index: str, tmp_path: Path) -> None:
    text = f"topology u {{ npu n[4] for i in 0..2 {{ link n[{index}] <-> n[3] }} }}"
    found = error(tmp_path, HEAD + text)
    assert (found.code, found.message) == ("E0301", "the end of a link must be one device, not several")
    assert found.span is not None
    assert found.span.text == index
