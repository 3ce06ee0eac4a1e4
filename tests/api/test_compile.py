"""`collc.compile` and its reports."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import collc
from collc.application.compile.compile_report import COLUMNS
from collc.base.tables import table_of
from collc.command.cli import main

pytestmark = pytest.mark.usefixtures("folder")

HEAD = "import std.topologies\nimport std.collectives\n"
RING = HEAD + "topology ring4 = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n"
GATHER = "schedule gather on ring4 { run all_gather(ring4.npus, size: 4MiB) synthesize tacos(seed: 1) }\n"
SUM = "schedule sum on ring4 { run all_reduce(ring4.npus, size: 4MiB) synthesize tacos(seed: 1) }\n"
PROGRAM = RING + GATHER + SUM


# Sources


def test_a_path_a_path_object_and_a_text_give_the_same() -> None:
    Path("p.coll").write_text(PROGRAM)
    for source in ("p.coll", Path("p.coll"), PROGRAM):
        assert [schedule.time_ps for schedule in collc.compile(source)] == [40_062_500, 80_125_000]
    assert collc.compile_text(PROGRAM)["gather"].transfer_count == 12


def test_a_report_gives_the_transfers_of_its_module() -> None:
    gather = collc.compile_text(PROGRAM)["gather"]
    assert gather.module is not None
    assert (gather.transfers() == gather.module.transfers()).all()
    assert gather.as_json()["transfers"] == len(gather.transfers()) == 12
    assert gather.as_json()["algorithm"] == gather.synthesizer == "tacos"
    assert "<th>synthesizer</th>" in gather._repr_html_()
    missing = replace(gather, module=None)
    for call in (missing.transfers, missing.to_frame):
        with pytest.raises(ValueError, match="the report of 'gather' has no module"):
            call()


def test_errors_of_the_program_are_raised_where_errors_of_schedules_are_reported() -> None:
    """A network in two parts (E0412) is found before any schedule is synthesized."""
    text = (
        HEAD
        + """
topology t { npu g[4] link g[0] <-> g[1] (bandwidth: 50GiB/s, latency: 0.5us) }
schedule s on t { run all_gather(t.npus, size: 4MiB) }
"""
    )
    with pytest.raises(collc.NoSchedule, match="E0412"):
        collc.compile(text, errors="report")


def test_a_text_imports_files_of_the_current_folder() -> None:
    Path("nets.coll").write_text("import std.topologies\ntopology t = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n")
    text = 'import "nets.coll"\nimport std.collectives\nschedule s on t { run all_gather(t.npus, size: 4MiB) }'
    assert collc.compile_text(text)["s"].npus == 4


def test_a_file_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(collc.SourceError, match=r"there is no file nowhere\.coll"):
        collc.compile("nowhere.coll")


# Keywords

PARAMETERS = (
    HEAD
    + """
param nodes: int = 4
param size: bytes = 4MiB
param slow: bool = false
param factor: float = 1.0
if slow { topology t = ring(nodes, bandwidth: 1GiB/s, latency: 0.5us) }
else { topology t = ring(nodes, bandwidth: 50GiB/s * factor, latency: 0.5us) }
schedule s on t { run all_gather(t.npus, size: size) }
"""
)


@pytest.mark.parametrize(
    ("definitions", "time_ps"),
    [
        ({}, 40_062_500),
        ({"nodes": 8, "size": "8MiB"}, 80_125_000),
        ({"nodes": np.int64(8), "size": "8MiB"}, 80_125_000),
        ({"slow": True}, 1_954_125_000),
        ({"slow": False}, 40_062_500),
        ({"factor": 0.5}, 79_125_000),
        ({"factor": np.float64(0.5)}, 79_125_000),
        ({"factor": 1e-05}, 3_906_251_000_000),
        ({"nodes": "2 + 2"}, 40_062_500),
    ],
)
def test_definitions_are_python_values(definitions: dict[str, collc.api.compiling.Definition], time_ps: int) -> None:
    assert collc.compile(PARAMETERS, synthesizer="tacos", definitions=definitions)["s"].time_ps == time_ps


def test_a_definition_of_no_param_names_the_nearest() -> None:
    with pytest.raises(collc.SourceError, match="did you mean 'nodes'"):
        collc.compile(PARAMETERS, definitions={"node": 8})


def test_errors_of_definitions_name_no_option_of_the_command_line() -> None:
    for definitions in ({"node": 8}, {"nodes": "x"}, {"nodes": "4MiB"}, {"nodes": ""}):
        with pytest.raises(collc.SourceError, match="definition of node") as caught:
            collc.compile(PARAMETERS, definitions=definitions)  # pyright: ignore
        assert "-D" not in str(caught.value)


@pytest.mark.parametrize("value", [None, [1], float("nan")])
def test_values_that_no_param_has_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="of a param"):
        collc.compile(PARAMETERS, definitions={"nodes": value})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("function", "keyword", "nearest"),
    [
        (collc.compile, "sede", "seed"),
        (collc.compile_text, "defintions", "definitions"),
        (collc.compile, "frobnicate", "the keywords are source, definitions"),
        (collc.verify, "colective", "collective"),
        (collc.lower, "instancs", "instances"),
        (collc.run, "dtyp", "dtype"),
    ],
)
def test_a_typo_in_a_keyword_names_the_nearest(function: object, keyword: str, nearest: str) -> None:
    with pytest.raises(TypeError, match=f"has no keyword '{keyword}'; .*{nearest}"):
        function("x", **{keyword: 1})  # pyright: ignore


def test_the_signature_lists_the_keywords_with_their_types() -> None:
    parameters = inspect.signature(collc.compile).parameters
    assert parameters["seed"].annotation == "int | None"
    assert parameters["seed"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "options" not in parameters


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"seed": "7"}, TypeError, "seed must be an int, not str"),
        ({"seed": True}, TypeError, "seed must be an int, not bool"),
        ({"threads": True}, TypeError, "threads must be an int, not bool"),
        ({"trials": 2.5}, TypeError, "trials must be an int, not float"),
        ({"time_limit": "x"}, TypeError, "time_limit must be a number of seconds, not str"),
        ({"definitions": ["n=3"]}, TypeError, "definitions must be a mapping from names to values, not list"),
        ({"definitions": {3: 4}}, TypeError, "a name in definitions must be a str, not int"),
        ({"emit": 3}, TypeError, "emit must be a str or several, not int"),
        ({"emit": ["ten", 3]}, TypeError, "emit must be a str or several, not int"),
        ({"output": "a\0b"}, ValueError, "output must be a path, and .* has a null character"),
        ({"output": 3}, TypeError, "output must be a str or a path, not int"),
        ({"certificate": "a\0b"}, ValueError, "certificate must be a path"),
        ({"passes": 3}, TypeError, "passes must be a str, not int"),
        ({"schedule": 3}, TypeError, "schedule must be a str, not int"),
        ({"synthesizer": 3}, TypeError, "synthesizer must be a str, not int"),
        ({"prove": "yes"}, TypeError, "prove must be a bool, not str"),
        ({"progress": 3}, TypeError, "progress must be a function, not int"),
        ({"only": "sum"}, TypeError, "compile.* has no keyword 'only'; it is 'schedule'"),
        ({"trials": 0}, ValueError, "trials must be at least 1"),
        ({"time_limit": 0}, ValueError, "positive number of seconds"),
        ({"link_model": "magic"}, ValueError, "'store' or 'pipelined'"),
        ({"errors": "ignore"}, ValueError, "'raise' or 'report'"),
        ({"algorithm": "pccl"}, TypeError, "no keyword 'algorithm'; it is 'synthesizer'"),
        ({"synthesizer": "takos"}, collc.UsageError, "did you mean 'tacos'"),
        ({"emit": "tan"}, collc.UsageError, "did you mean 'ten'"),
        ({"passes": "tacos{"}, collc.UsageError, "pipeline cannot be read"),
        ({"schedule": "gathr"}, collc.UsageError, "did you mean 'gather'"),
    ],
)
def test_wrong_values_are_explained(keywords: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        collc.compile(PROGRAM, **keywords)  # pyright: ignore


def test_sources_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(TypeError, match="source must be a str or a path, not NoneType"):
        collc.compile(None)  # pyright: ignore
    with pytest.raises(ValueError, match="null character"):
        collc.compile("a\0b")
    with pytest.raises(TypeError, match="text must be a str, not PosixPath"):
        collc.compile_text(Path("p.coll"))  # pyright: ignore


def test_one_schedule_is_compiled_and_found_by_name_or_place() -> None:
    report = collc.compile(PROGRAM, schedule="sum")
    assert [schedule.name for schedule in report] == ["sum"]
    assert report[0] is report[-1] is report["sum"]
    with pytest.raises(IndexError):
        report[1]


def test_keywords_change_the_compilation() -> None:
    plain = collc.compile(PROGRAM, schedule="gather", synthesizer="pccl", seed=9, trials=2, threads=2)["gather"]
    assert (plain.synthesizer, plain.seed) == ("pccl", 9)
    assert collc.compile(PROGRAM, schedule="gather", synthesizer="pccl")[0].synthesizer == "pccl"
    assert collc.compile(PROGRAM, schedule="gather", link_model="pipelined")["gather"].link_model == "pipelined"
    assert collc.compile(PROGRAM, schedule="gather", passes="pccl{seed=3},invert")["gather"].seed == 3


# Files and output


def test_files_are_written_only_where_the_program_or_the_caller_asks(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    collc.compile(PROGRAM)
    assert list(folder.iterdir()) == []
    report = collc.compile(PROGRAM, emit="ten", output="out")
    assert [path.as_posix() for schedule in report for path in schedule.files] == ["out/gather.ten", "out/sum.ten"]
    collc.compile(PROGRAM, emit=["ten", "msccl"], schedule="sum")
    assert sorted(path.name for path in folder.iterdir()) == ["out", "sum.msccl", "sum.ten"]
    assert capfd.readouterr() == ("", "")


def test_the_folder_of_a_certificate_is_not_made(folder: Path) -> None:
    (folder / "file").write_text("")
    for place, reason in (("nope", "there is no folder nope"), ("file", "file is a file, not a folder")):
        with pytest.raises(collc.UsageError, match=f"cannot write {place}/x.smt2: {reason}"):
            collc.compile(PROGRAM, prove=True, certificate=f"{place}/x.smt2")
    assert [path.name for path in folder.iterdir()] == ["file"]
    collc.compile(RING + GATHER, prove=True, output="out", certificate="out/x.smt2")
    assert [path.name for path in (folder / "out").iterdir()] == ["x.smt2"]


def test_a_shorter_schedule_of_z3_is_a_module_and_no_file(folder: Path) -> None:
    text = RING + SUM.replace("synthesize tacos(seed: 1)", "synthesize pccl")
    optimal = collc.compile(text, prove=True, link_model="store", definitions={})["sum"].optimal
    assert optimal is not None
    if optimal.shorter is not None:
        assert optimal.shorter.module is not None
        assert optimal.shorter.file is None
    assert list(folder.iterdir()) == []


def test_progress_names_the_phases() -> None:
    phases: list[tuple[float | None, str]] = []
    collc.compile(PROGRAM, emit="msccl", progress=lambda share, phase: phases.append((share, phase)))
    names = [phase for _, phase in phases]
    for phase in ("verifying the schedule", "lowering to MSCCL", "reading the MSCCL file back and checking it"):
        assert f"gather (1 of 2): {phase}" in names
        assert f"sum (2 of 2): {phase}" in names
    assert all(share is None or 0 <= share <= 1 for share, _ in phases)


# Errors


def test_an_error_of_the_program_is_raised_with_its_text() -> None:
    with pytest.raises(collc.SourceError) as caught:
        collc.compile(PROGRAM.replace("all_gather", "all_gathr"))
    assert str(caught.value) == (
        "error[E0203]: unknown collective 'all_gathr'\n"
        " --> <text>:4:32\n"
        "  |\n"
        "4 | schedule gather on ring4 { run all_gathr(ring4.npus, size: 4MiB) synthesize tacos(seed: 1) }\n"
        "  |                                ^^^^^^^^^\n"
        "help: did you mean 'all_gather'?"
    )


LIMITED = PROGRAM.replace("synthesize", "verify steps <= 2 synthesize")


def test_a_schedule_that_fails_raises_after_all_were_compiled() -> None:
    with pytest.raises(collc.CheckFailed, match="the number of steps violates its limit: 4 is not <= 2") as caught:
        collc.compile(LIMITED, emit="ten")
    assert [message.code for message in caught.value.diagnostics] == ["C0102"]
    assert Path("gather.ten").exists()


def test_a_schedule_that_fails_can_be_in_the_report_only() -> None:
    report = collc.compile(LIMITED, errors="report")
    assert (report.ok, report["gather"].ok, report["sum"].ok) == (False, True, False)
    assert report["sum"].checks["steps"] == "failed"
    assert report["sum"].module is not None
    with pytest.raises(collc.CheckFailed):
        report.raise_if_failed()


def test_no_schedule_is_an_error_of_its_own() -> None:
    with pytest.raises(collc.NoSchedule):
        collc.compile(RING + GATHER.replace("tacos(seed: 1)", "exact(steps: 1)"))


def test_errors_survive_pickling() -> None:
    import pickle

    with pytest.raises(collc.SourceError) as caught:
        collc.compile("schedule s on nothing { }\n")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is collc.SourceError
    assert str(again) == str(caught.value)


INTERRUPTED = """
import os, signal, collc
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
program = '''%s'''
def progress(_share, phase):
    if "tacos" in phase or "pccl" in phase:
        os.kill(os.getpid(), signal.SIGINT)
try:
    collc.compile(program, trials=1000000, synthesizer="pccl", progress=progress)
except KeyboardInterrupt:
    print("raised")
"""


def test_ctrl_c_is_raised_to_the_caller() -> None:
    words = [sys.executable, "-c", INTERRUPTED % PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "raised\n", done.stderr


# Reports


def test_the_report_has_the_names_and_values_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.coll").write_text(PROGRAM)
    assert main(["compile", "p.coll", "--json"]) == 0
    for wanted in json.loads(capsys.readouterr().out)["schedules"]:
        schedule = collc.compile("p.coll")[wanted["name"]]
        for name, value in wanted.items():
            if name != "seconds":
                found = getattr(schedule, {"transfers": "transfer_count", "algorithm": "synthesizer"}.get(name, name))
                assert (list(found) if isinstance(found, tuple) else found) == value, name


def cells(report: collc.ScheduleReport) -> Sequence[str]:
    return table_of(COLUMNS, [report]).rows[0]


def test_a_report_compares_the_time_with_what_these_chunks_allow_and_with_what_any_allow() -> None:
    """One chunk from each of four NPUs: the third takes a step of its own, so 3 chunks over 2 links take 2 steps."""
    gather, total = collc.compile(PROGRAM)
    assert (gather.bound_ps, gather.efficiency) == (gather.time_ps, 1.0)
    assert gather.ideal_ps == 30_046_875
    assert gather.of_ideal == gather.ideal_ps / gather.time_ps
    assert cells(gather)[5:7] == ("40.0625us, met (the links into npu[0])", "75.00 %")
    assert gather.ideal == "the links into npu[0]"
    assert total.ideal == "the links between all NPUs"
    later = replace(gather, time_ps=gather.time_ps + 1)
    assert cells(later)[5] == "40.0625us (the links into npu[0])"
    assert cells(replace(gather, ideal_ps=gather.time_ps - 1))[6] == "99.99 %"
    assert cells(replace(gather, ideal_ps=gather.time_ps))[6] == "100.00 %"
    assert replace(gather, time_ps=0, ideal_ps=0).of_ideal == 1.0
    assert replace(gather, checks={"congestion_free": "failed"}).of_ideal is None
    assert cells(replace(gather, time_ps=None, bound_ps=None, ideal_ps=None))[4:7] == ("-", "-", "-")


def test_a_report_is_a_collection_of_schedules() -> None:
    report = collc.compile(PROGRAM)
    assert len(report) == 2
    assert [schedule.name for schedule in report] == ["gather", "sum"]
    assert "sum" in report
    assert "max" not in report
    with pytest.raises(KeyError, match="did you mean 'sum'"):
        report["som"]
    with pytest.raises(KeyError, match="the schedules are gather and sum"):
        report["something"]


def test_representations_are_short() -> None:
    report = collc.compile(PROGRAM)
    module = report["gather"].module
    assert module is not None
    objects = [*report, module, module.network, module.demand, module.schedule, collc.verify(module)]
    for thing in (*objects, collc.lower(module)):
        assert repr(thing).startswith("<")
        assert len(repr(thing)) < 160
    assert repr(report["gather"]) == ("<ScheduleReport gather: tacos, 40.0625us in 2 steps, 75.00 % of ideal, 5 ok>")


def test_notebooks_show_tables() -> None:
    report = collc.compile(LIMITED.replace("gather on", "g on"), errors="report")
    html = report._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == 3
    assert "<td>g</td>" in html
    assert "failed: steps" in html
    assert "4 is not &lt;= 2" in html
    assert report["g"]._repr_html_().count("<tr>") == 2
    module = report["g"].module
    assert module is not None
    assert "causality" in collc.verify(module)._repr_html_()
