"""Long tables of links, devices and numbers: the same networks and the same messages as line by line."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import SourceError, SourceFile, render
from collc.source import imports
from collc.source.elaboration.elaborate import load_program, load_topology
from collc.source.parsing.parse import parse_with_tables
from collc.source.parsing.syntax import DeviceTable, LinkTable, TopologyTemplate
from collc.ten.network import Network

Lines = list[str]
RATE = "(bandwidth: 25GB/s, latency: 1us)"


def program(*parts: Lines | str) -> str:
    body = "\n".join(line for part in parts for line in ([part] if isinstance(part, str) else part))
    return f"topology t {{\n{body}\n}}\n{'# a comment that makes the file long enough' * 100}\n"


def ring(count: int, end: Callable[[int], str], rest: str = RATE) -> Lines:
    return [f"  link {end(i)} -> {end((i + 1) % count)} {rest}" for i in range(count)]


def tables(text: str) -> list[object]:
    tree = parse_with_tables(SourceFile("t.coll", text))
    if tree is None:
        return []
    body = tree.statements[0]
    assert isinstance(body, TopologyTemplate)
    return [s for s in body.body if isinstance(s, LinkTable | DeviceTable)]


def outcome(path: Path) -> Network | str:
    """The network of a file, or the messages about it."""
    try:
        return load_topology(path, "t")
    except SourceError as error:
        return render(error.diagnostics)


def same(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Network | str:
    """The outcome of a program, the same with tables and line by line."""
    path.write_text(text)
    found = outcome(path)
    with monkeypatch.context() as context:
        context.setattr(imports, "parse_with_tables", lambda _source: None)
        plain = outcome(path)
    if isinstance(found, str) or isinstance(plain, str):
        assert found == plain
        return found
    for name in ("source", "target", "kind", "buffers", "endpoint"):
        assert np.array_equal(getattr(found, name), getattr(plain, name)), name
    assert (found.kinds, found.families, found.npu_count) == (plain.kinds, plain.families, plain.npu_count)
    return found


def array(i: int) -> str:
    return f"gpu[{i}]"


def single(i: int) -> str:
    return f"host_{i}"


SINGLES = [f"  npu host_{i}" for i in range(200)]
GOOD = {
    "an array": (["  npu gpu[200]", *ring(200, array)], 1),
    "both ways": (["  npu gpu[200]", *(line.replace("->", "<->") for line in ring(200, array))], 1),
    "single devices": ([*SINGLES, *ring(200, single)], 2),
    "several forms": (
        ["  npu gpu[200]", "  switch s[4] (buffer: 3)"]
        + [
            w
            for i in range(200)
            for w in (f"link gpu[{i}] -> s[{i % 4}] {RATE}", f"  link s[{i % 4}] -> gpu[{i}] {RATE}")
        ],
        1,
    ),
    "attributes in a line of their own": (
        ["  npu gpu[200]", *ring(200, array)[:-1], "link gpu[199] -> gpu[0]", RATE],
        1,
    ),
    "sums as indices": (["  npu gpu[200]", *ring(200, lambda i: f"gpu[{i} * 2 - {i}]")], 1),
    "a constant with a digit": (
        ["let n1 = 7", "  npu gpu[200]", *[f"link gpu[n1] -> gpu[{i + 8}] {RATE}" for i in range(90)]],
        1,
    ),
    "inside a loop": (["  npu gpu[200, 2]", "for k in 0..2 {", *ring(200, lambda i: f"gpu[{i}, k]"), "}"], 0),
    "copies": (
        ["  npu box[200]", *ring(200, lambda i: f"box[{i:03}]"), f"  link box[0] -> box[5] {RATE} # a comment"],
        1,
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_tables_give_the_network_that_lines_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    lines, count = GOOD[name]
    text = program(lines)
    assert isinstance(same(tmp_path / "t.coll", text, monkeypatch), Network)
    assert len(tables(text)) == count


BAD = {
    "no such device": ["  npu gpu[200]", *ring(200, array), f"  link gpu[0] -> gpx[1] {RATE}", *ring(200, array)],
    "no such single device": [
        *SINGLES,
        *ring(200, single)[:150],
        f"link host_3 -> host_777 {RATE}",
        *ring(200, single),
    ],
    "no such index": ["  npu gpu[200]", *ring(201, array)],
    "a link to itself": ["  npu gpu[200]", *ring(200, array), f"  link gpu[7] -> gpu[7] {RATE}", *ring(200, array)],
    "an index too many": ["  npu gpu[200]", *ring(200, lambda i: f"gpu[{i}, 0]")],
    "an array of devices": [*SINGLES, "npu host_200[3]", *ring(201, single)],
    "a name twice": [*SINGLES, *SINGLES],
    "a name twice in one table": [*SINGLES[:100], "  npu host_7", *SINGLES[100:]],
    "an unknown attribute": ["  npu gpu[200]", *ring(200, array, "(bandwidht: 25GB/s, latency: 1us)")],
    "a missing bracket": [
        "  npu gpu[200]",
        *ring(200, array),
        "  link gpu[0] -> gpu[1 (latency: 1us)",
        *ring(200, array),
    ],
    "devices in a loop": ["for i in 0..2 {", *SINGLES, "}"],
    "a letter of another alphabet": [*SINGLES[:100], "  npu host_7\u00e9", *SINGLES[100:]],
    "a sign that is no white space": ["  npu gpu[200]", *(line.replace(" (", "\f(") for line in ring(200, array))],
    "a number as a device": ["  npu gpu[200]", *ring(200, array), *ring(200, str)],
}


@pytest.mark.parametrize("name", BAD)
def test_errors_in_tables_are_those_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert isinstance(same(tmp_path / "t.coll", program(BAD[name]), monkeypatch), str)


def matrix(count: int, change: Callable[[int, int], object]) -> str:
    rows = [", ".join(str(change(i, j)) for j in range(count)) for i in range(count)]
    return "links [\n" + ",\n".join(f"  [{row}]" for row in rows) + f"\n] {RATE}"


@pytest.mark.parametrize(
    ("entry", "good"),
    [
        (lambda i, j: int(i != j), True),
        (lambda i, j: (i * 7 + j) % 3 if i != j else 0, True),
        (lambda i, j: "2" if i == 5 and j == 5 else 0, False),
        (lambda i, j: "1us" if (i, j) == (3, 4) else 0, False),
        (lambda i, j: "-1" if (i, j) == (3, 4) else 0, False),
        (lambda i, j: "9" * 30 if (i, j) == (3, 4) else 0, False),
        (lambda i, j: "" if (i, j) == (3, 4) else 0, False),
    ],
)
def test_matrices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: Callable[[int, int], object], *, good: bool
) -> None:
    found = same(tmp_path / "t.coll", program("npu g[70]", matrix(70, entry)), monkeypatch)
    assert isinstance(found, Network) is good


def test_lists_of_numbers_in_other_places(tmp_path: Path) -> None:
    numbers = ", ".join(map(str, range(1, 100)))
    lines = [f"let a = [{numbers}]", "let n = sum(a) + len(a) + a[98]"]
    (path := tmp_path / "p.coll").write_text("\n".join([*lines, "param m = n", f"# {'long ' * 1000}"]))
    load_program(path)
    path.write_text("\n".join([*lines, "let b = a + 1", f"# {'long ' * 1000}"]))
    with pytest.raises(SourceError) as caught:
        load_program(path)
    assert [d.code for d in caught.value.diagnostics] == ["E0210"]


def random_lines(folder: Path, chance: random.Random) -> None:
    """A random table, at times with a mistake or another line in it."""
    ends = [lambda i: f"gpu[{i}]", lambda i: f"host_{i}", lambda i: f"s[{i % 4}]", lambda i: f"grid[{i // 8}, {i % 8}]"]
    rates = [RATE, "(latency: 2us, bandwidth: 50GB/s)", "(bandwidth: 7 * 1GB/s, latency: 0.5us)"]
    lines = ["npu gpu[70]", "switch s[4]", "npu grid[9, 8]", *(f"npu host_{i}" for i in range(70))]
    forms = [(*chance.sample(ends, 2), chance.choice(["->", "<->"]), chance.choice(rates)) for _ in range(3)]
    for _ in range(chance.choice([200, 300])):
        a, b, arrow, rate = chance.choice(forms)
        lines.append(f"link {a(chance.randrange(71))} {arrow} {b(chance.randrange(69))} {rate}")
    if chance.random() < 0.3:
        lines[chance.randrange(100, len(lines))] = chance.choice(["link gpu[0] -> gpu[1]", "let x = 3", "# a", ""])
    with pytest.MonkeyPatch.context() as monkeypatch:
        same(folder / "t.coll", program(lines), monkeypatch)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_random_lines(tmp_path: Path, chance: random.Random) -> None:
    random_lines(tmp_path, chance)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_many_random_lines(tmp_path: Path, chance: random.Random) -> None:
    random_lines(tmp_path, chance)


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_after_a_program_is_loaded_as_before(tmp_path: Path, *, enabled: bool) -> None:
    (path := tmp_path / "p.coll").write_text("let a = b")
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(SourceError):
            load_program(path)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()
