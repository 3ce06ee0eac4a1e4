"""Small programs that used to take long or much memory: each ends in little time with a message."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from collc.application.compile.compilation import compile_program
from collc.application.settings import Settings
from collc.base.diagnostics import CollcError, SourceError, SourceFile
from collc.base.wording import closest_name
from collc.source.elaboration.elaborate import load_program
from collc.source.limits import MAX_CHARACTERS
from collc.source.problems import MAX_PROBLEMS
from collc.ten.arrays import distinct
from tests.cpu_time import at_most

TEMPLATES = "topology t0() { npu a }\n" + "".join(
    f"topology t{i}() {{ use t{i - 1}() as p use t{i - 1}() as q }}\n" for i in range(1, 41)
)
LISTS = "let l0 = [1, 2, 3]\n" + "".join(f"let l{i} = [l{i - 1}, l{i - 1}]\n" for i in range(1, 30))

PROGRAMS = {
    "undefined names": ("".join(f"let a{i} = undefined_name_{i}\n" for i in range(1500)), "E0201", "unknown value"),
    "one among many": (
        "".join(f"let some_name_{i} = {i}\n" for i in range(2000)) + "let z = some_nome_77\n",
        "E0201",
        "unknown value 'some_nome_77'",
    ),
    "templates of templates": (TEMPLATES + "topology t = t40()", "E0806", "10,001 expansions of templates"),
    "copies of many copies": (
        "topology t { npu a npu b } topology u { use t as p[600000] }",
        "E0804",
        "1,200,000 arrays of devices",
    ),
    "values before those that they use": (
        "".join(f"let a{i} = a{i + 1} + 1\n" for i in range(300)) + "let a300 = 1",
        "E0806",
        "nested too deep",
    ),
    "names of later names": (
        "".join(f"let a{i} = a{i + 1}\n" for i in range(900)) + "let a900 = 1",
        "E0806",
        "nested too deep",
    ),
    "unwound switches of many ports": (
        "topology s { npu a[50000] switch x for i in 0..50000 { link a[i] <-> x } } let t = unwound(s, degree: 999)",
        "E0802",
        "49,950,000 links",
    ),
    "lists of lists": (LISTS, "E0809", "items of a list exceed the limit"),
    "a long name": (f"topology t {{ npu {'a' * 256}[2] }}", "E0809", "256 characters of a name"),
    "a long string": (f'let s = "{"x" * (MAX_CHARACTERS + 1)}"', "E0809", "1,000,001 characters of a string"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_programs_end_soon(name: str) -> None:
    text, code, words = PROGRAMS[name]
    with at_most(10), pytest.raises(SourceError) as caught:
        load_program(SourceFile("p.coll", text))
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert words in first.message
    assert first.span is not None
    assert len(caught.value.diagnostics) <= MAX_PROBLEMS


def test_near_names_are_those_of_the_whole_distance() -> None:
    """Against the plain recursion, on all words of three letters of two kinds and a misspelled long name."""

    def distance(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        best = min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))
        if len(a) > 1 and len(b) > 1 and a[0] == b[1] and a[1] == b[0]:
            best = min(best, distance(a[2:], b[2:]) + 1)
        return best

    words = ["".join(x) for x in np.array(np.meshgrid(*[["a", "b", "c"]] * 3)).T.reshape(-1, 3)]
    words += ["ring", "rnig", "line", "lnie", "mesh", "meshes", "torus", "tours", "tree"]
    for name in words[::4] + words[-9:]:
        limit = 1 if len(name) <= 4 else 2
        found = sorted((distance(name, other), other) for other in words if other != name)
        assert closest_name(name, words) == (found[0][1] if found[0][0] <= limit else None), name


def test_a_long_string_takes_no_memory_for_each_character() -> None:
    text = 'let s = "' + "x" * 900_000 + '"'
    tracemalloc.start()
    load_program(SourceFile("p.coll", text))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50 * len(text)


def test_distinct_items() -> None:
    items = np.random.default_rng(1).integers(0, 50, 1000)
    assert np.array_equal(distinct(items), np.unique(items))
    assert len(distinct(np.empty(0, np.int64))) == 0


def test_too_many_transfers_are_refused_before_synthesis(tmp_path: Path) -> None:
    head = "import std.topologies import std.collectives topology t = line(2000, bandwidth: 1GB/s, latency: 1us) "
    text = head + "schedule s on t { run all_gather(t.npus, size: 4MB, chunks: 2000) synthesize tacos() }"
    (report,) = compile_program(SourceFile("p.coll", text), Settings(output=tmp_path)).schedules
    (message,) = report.diagnostics
    assert (report.exit, message.code) == (1, "S0203")
    assert message.message == (
        "a schedule needs at least 7,996,000,000 transfers, more than the limit of 5,000,000,000"
    )


def test_chunks_of_several_runs_have_numbers_of_32_bits(tmp_path: Path) -> None:
    head = "import std.topologies import std.collectives topology t = mesh2d(200, 200, bandwidth: 1GB/s, latency: 1us) "
    run = "run all_to_all(t.npus, size: 640000B) "
    with pytest.raises(SourceError) as caught:
        load_program(SourceFile("p.coll", f"{head} schedule s on t {{ {run * 2} }}"))
    assert caught.value.diagnostics[0].code == "E0803"
    (report,) = compile_program(
        SourceFile("p.coll", f"{head} schedule s on t {{ {run} }}"), Settings(output=tmp_path)
    ).schedules
    assert report.diagnostics[0].code in ("E0803", "S0203")


def test_groups_are_planned_if_their_transfers_are_too_many_to_list(tmp_path: Path) -> None:
    head = "import std.clusters import std.collectives topology t = dgx_h100(1024) "
    run = "for r in 0..8 { run all_to_all(t.gpu[*, r], size: 48MiB, chunks: 12) }"
    settings = Settings(output=tmp_path)
    (report,) = compile_program(SourceFile("p.coll", f"{head} schedule s on t {{ {run} }}"), settings).schedules
    assert report.checks
    assert all(verdict == "ok" for verdict in report.checks.values())
    assert "auto: chose group by group, which is the best of those tried" in report.notes


def test_an_error_among_many_is_one_of_the_first() -> None:
    text = "".join(f"let a{i} = b{i}\n" for i in range(MAX_PROBLEMS + 50))
    with pytest.raises(CollcError) as caught:
        load_program(SourceFile("p.coll", text))
    assert [message.message for message in caught.value.diagnostics] == [
        f"unknown value 'b{i}'" for i in range(MAX_PROBLEMS)
    ]
