"""`collc.load`, `collc.verify`, `collc.lower`, `collc.run` and the transfers of a module as a table."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import collc
from collc.msccl.options import MscclOptions
from collc.ten.binary import save_module
from collc.ten.schedule import RowSchedule

PROGRAM = """
import std.topologies
import std.collectives
topology mesh = mesh2d(2, 3, bandwidth: 50GiB/s, latency: 0.5us)
schedule sum on mesh { run all_reduce(mesh.npus, size: 6MiB) synthesize pccl(seed: 1) emit ten emit msccl("sum.xml") }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, collc.Module]:
    """The files of the program, and its module."""
    folder = tmp_path_factory.mktemp("compiled")
    module = collc.compile(PROGRAM, output=folder)["sum"].module
    assert module is not None
    return folder, module


def without_the_last_transfer(module: collc.Module) -> collc.Module:
    """The module with a schedule that does not deliver everything."""
    assert module.schedule is not None
    rows = module.schedule.transfers
    kept = replace(rows, chunk=rows.chunk[:-1], link=rows.link[:-1], start=rows.start[:-1], reduce=rows.reduce[:-1])
    return replace(module, schedule=RowSchedule(module.schedule.model, kept))


def test_load_reads_both_forms(compiled: tuple[Path, collc.Module], tmp_path: Path) -> None:
    folder, module = compiled
    assert (collc.load(folder / "sum.ten").transfers() == module.transfers()).all()
    save_module(module, tmp_path / "binary.ten")
    assert (collc.load(str(tmp_path / "binary.ten")).transfers() == module.transfers()).all()


def test_verify_takes_modules_and_files(compiled: tuple[Path, collc.Module]) -> None:
    folder, module = compiled
    for report in (collc.verify(module), collc.verify(folder / "sum.ten"), collc.verify(str(folder / "sum.xml"))):
        assert report.ok
        assert set(report.checks.values()) == {"ok"}
    (folder / "p.coll").write_text(PROGRAM)
    assert collc.verify(module, program=folder / "p.coll", schedule="sum", collective="all_reduce").ok


def test_verify_reports_what_fails(compiled: tuple[Path, collc.Module]) -> None:
    report = collc.verify(without_the_last_transfer(compiled[1]))
    assert not report.ok
    assert "failed" in repr(report)
    with pytest.raises(collc.CheckFailed, match="error"):
        report.raise_if_failed()
    with pytest.raises(collc.CheckFailed, match="the demand is not all_gather"):
        collc.verify(compiled[1], collective="all_gather")


def test_lower_gives_the_text_of_the_emitted_file(compiled: tuple[Path, collc.Module], tmp_path: Path) -> None:
    folder, module = compiled
    lowered = collc.lower(module)
    assert lowered.text == (folder / "sum.xml").read_text()
    lowered.save(tmp_path / "a" / "sum.xml")
    runs = collc.run(tmp_path / "a" / "sum.xml", dtype="int32", op="max", seed=3)
    assert runs.ok
    assert len(runs) == len(list(runs)) == 2
    assert [run.seed for run in runs] == [3, 3]
    assert "matches NumPy" in runs._repr_html_()


def test_lower_takes_the_options_of_emit(compiled: tuple[Path, collc.Module]) -> None:
    lowered = collc.lower(compiled[1], protocol="LL", instances=2, placement="out", sizes=(0, 2**20))
    head = lowered.text.splitlines()[0]
    assert 'proto="LL"' in head
    assert 'inplace="0"' in head
    assert 'maxBytes="1048576"' in head
    assert collc.lower(compiled[1], kind="mscclpp").text.startswith("{")


def test_lower_finds_the_sizes(compiled: tuple[Path, collc.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """`sizes="auto"` asks as `emit msccl(sizes: auto)` does, which tests/application/test_best_sizes.py tests."""

    def found(_part: object, options: MscclOptions, *_rest: object) -> tuple[MscclOptions, str]:
        assert options.best_known
        return replace(options, sizes=(4096, 8191)), "the best known"

    monkeypatch.setattr("collc.application.emit.file_times.with_best_sizes", found)
    lowered = collc.lower(compiled[1], sizes="auto")
    assert 'minBytes="4096"' in lowered.text
    assert "the best known" in lowered.notes


@pytest.mark.parametrize(
    ("keywords", "message"),
    [({"protocol": "LX"}, "LX"), ({"instances": 0}, "instances"), ({"kind": "ptx"}, "ptx"), ({"channels": 99}, "99")],
)
def test_lower_refuses_other_values(
    compiled: tuple[Path, collc.Module], keywords: dict[str, object], message: str
) -> None:
    with pytest.raises((ValueError, collc.CollcError), match=message):
        collc.lower(compiled[1], **keywords)  # pyright: ignore


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (3, r"sizes must be a pair \(smallest, largest\) of ints, not 3"),
        ((5,), r"sizes must be a pair \(smallest, largest\) of ints, not \(5,\)"),
        (("a", 5), "a size in sizes must be an int, not str"),
    ],
)
def test_lower_names_what_is_wrong_with_sizes(compiled: tuple[Path, collc.Module], sizes: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        collc.lower(compiled[1], sizes=sizes)  # pyright: ignore


def test_errors_of_keywords_point_to_no_text(compiled: tuple[Path, collc.Module]) -> None:
    with pytest.raises(collc.SourceError) as caught:
        collc.lower(compiled[1], channels=99)
    assert "'channels' must be at most 32, not 99" in str(caught.value)
    assert "-->" not in str(caught.value)


def test_notebooks_show_modules_and_their_parts_as_tables(compiled: tuple[Path, collc.Module]) -> None:
    module = compiled[1]
    assert module.schedule is not None
    for part, cells in (
        (module, ("sum", "60 transfers, link model store", "pccl", "us (")),
        (module.network, ("14", "500ns", "50GiB/s")),
        (module.demand, ("all_reduce", "6MiB")),
        (module.schedule, (type(module.schedule).__name__, "60", "store")),
        (replace(module, schedule=None, bound=None), ("<td>-</td>",)),
    ):
        shown = part._repr_html_()
        assert shown.startswith("<table>")
        assert [cell for cell in cells if cell not in shown] == []


def test_lower_verifies_the_schedule_first(compiled: tuple[Path, collc.Module]) -> None:
    with pytest.raises(collc.CheckFailed):
        collc.lower(without_the_last_transfer(compiled[1]))
    with pytest.raises(collc.CheckFailed, match="has no schedule"):
        collc.lower(replace(compiled[1], schedule=None))


# The table of transfers


def test_the_table_has_a_row_for_each_transfer(compiled: tuple[Path, collc.Module]) -> None:
    module = compiled[1]
    table = module.transfers()
    assert isinstance(table, np.recarray)
    assert module.schedule is not None
    assert len(table) == len(module.schedule)
    assert table.end_ps.max() == module.schedule.collective_time(module.network, module.demand)
    assert (table.size_bytes == 2**20).all()
    assert (table.source == module.network.source[table.link]).all()
    assert (table.target == module.network.target[table.link]).all()
    assert (table.end_ps - table.start_ps == 20_031_250).all()
    assert (np.diff(table.start_ps) >= 0).all()
    assert 0 < table.reduce.sum() < len(table)
    assert (table.run == 0).all()


def test_runs_are_numbered() -> None:
    text = PROGRAM.replace("synthesize", "run all_gather(mesh.npus, size: 6MiB) synthesize").partition("emit")[0] + "}"
    module = collc.compile(text)["sum"].module
    assert module is not None
    table = module.transfers()
    assert set(table.run.tolist()) == {0, 1}
    assert all(module.demand.run_of(int(chunk)) == run for chunk, run in zip(table.chunk, table.run, strict=True))


@pytest.mark.parametrize(("column", "last"), [("chunk", 5), ("link", 13)])
@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_a_number_out_of_range_has_no_row(
    compiled: tuple[Path, collc.Module], column: str, last: int, wrong: int
) -> None:
    module = compiled[1]
    assert module.schedule is not None
    rows = module.schedule.transfers
    numbers = getattr(rows, column).copy()
    numbers[3] = wrong
    damaged = replace(module, schedule=RowSchedule(module.schedule.model, replace(rows, **{column: numbers})))
    message = rf"names {column} {wrong}, but the {column}s are 0 to {last}: verify\(module\)"
    with pytest.raises(ValueError, match=message):
        damaged.transfers()


def test_reports_and_lowered_programs_are_taken_as_they_are(tmp_path: Path) -> None:
    report = collc.compile(PROGRAM, output=tmp_path)
    schedule = report["sum"]
    assert collc.verify(schedule).ok
    lowered = collc.lower(schedule)
    assert lowered.text == collc.lower(schedule.kept_module()).text
    checked = collc.verify(lowered, collective="all_reduce")
    assert checked.ok
    assert (checked.file, checked.kind) == (None, "msccl")
    assert repr(collc.run(lowered)) == "<FileRuns lowered program: 2 ok, 0 failed>"
    plan = collc.lower(schedule, kind="mscclpp")
    assert collc.verify(plan).kind == "mscclpp"
    assert collc.run(plan).ok
    module = "a Module or the report of a schedule"
    for call, argument, expected in (
        (collc.lower, None, f"{module}, not NoneType"),
        (collc.lower, report, rf'{module}, not CompileReport; take one of its schedules, as in report\["gather"\]'),
        (collc.verify, None, r"a path, a Module, the report of a schedule or the result of lower\(\), not NoneType"),
        (collc.run, schedule, r"a path or the result of lower\(\), not ScheduleReport"),
    ):
        with pytest.raises(TypeError, match=f"source must be {expected}"):
            call(argument)  # pyright: ignore
    with pytest.raises(TypeError, match="path must be a str or a path, not Module"):
        collc.load(schedule.kept_module())  # pyright: ignore


@pytest.mark.parametrize(
    ("function", "keywords", "message"),
    [
        (collc.verify, {"root": "1"}, "root must be an int, not str"),
        (collc.verify, {"collective": 1}, "collective must be a str, not int"),
        (collc.run, {"seed": "3"}, "seed must be an int, not str"),
        (collc.run, {"runs": 1.5}, "runs must be an int, not float"),
        (collc.run, {"op": 2}, "op must be a str, not int"),
        (collc.run, {"dtype": 3}, "dtype must be a str, not int"),
    ],
)
def test_keywords_of_the_wrong_type_are_named(function: object, keywords: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        function("x.xml", **keywords)  # pyright: ignore


def test_a_module_without_a_schedule_has_no_table(compiled: tuple[Path, collc.Module]) -> None:
    with pytest.raises(ValueError, match="has no schedule"):
        replace(compiled[1], schedule=None).transfers()
    with pytest.raises(ValueError, match="has no schedule"):
        replace(compiled[1], schedule=None).collective_time()


class Library(ModuleType):
    """A stand-in for pandas or polars that records its arguments, so that the tests do not need these packages."""

    DataFrame = staticmethod(lambda columns: columns)


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Only these libraries of data frames are installed."""
    monkeypatch.setattr("collc.ten.module.find_spec", lambda name: name if name in names else None)
    for name in names:
        monkeypatch.setitem(sys.modules, name, Library(name))


def test_frames_have_the_columns_of_the_table(
    compiled: tuple[Path, collc.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = compiled[1]
    for names in (("pandas",), ("polars",), ("pandas", "polars")):
        installed(monkeypatch, *names)
        frame = module.to_frame()
        assert tuple(frame) == module.transfers().dtype.names
        assert frame["start_ps"].tolist() == module.transfers().start_ps.tolist()
        assert tuple(module.to_frame(names[-1])) == tuple(frame)
    named = module.to_frame(names=True)
    first = module.transfers()[0]
    assert named["link"][0] == module.network.link_name(int(first.link))
    assert named["chunk"][0] == module.demand.chunk_name(int(first.chunk))
    assert named["source"][0] == module.network.device_name(int(first.source))


def test_frames_need_a_library(compiled: tuple[Path, collc.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    with pytest.raises(ImportError, match=r"needs pandas or polars, and neither is installed: .* pip install pandas"):
        compiled[1].to_frame()
    installed(monkeypatch, "pandas")
    with pytest.raises(ImportError, match="needs polars, and polars is not installed"):
        compiled[1].to_frame("polars")
    with pytest.raises(ValueError, match="library must be 'pandas' or 'polars', not 'foo'"):
        compiled[1].to_frame("foo")  # pyright: ignore
