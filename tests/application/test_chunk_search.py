"""`chunks: auto`: which numbers are tried, which is taken, and what overrides it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import collc
from collc.application.compile.chunk_search import ChunkSearch
from collc.application.compile.planning import SearchLimit
from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.command.cli import main
from collc.source.elaboration.elaborate import load_program
from collc.source.program import ChunkChoice, ScheduleRequest
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.module import Module
from tests.support import all_gather, fully_connected

pytestmark = pytest.mark.usefixtures("folder")

HEAD = "import std.topologies\nimport std.collectives\n"
MESH = HEAD + "topology t = mesh2d(4, 2, bandwidth: 50GB/s, latency: 0.7us)\n"
RUN = MESH + 'schedule s on t {{ run {run} synthesize tacos(link_model: "pipelined") {more} }}\n'


def compiled(run: str, more: str = "", **options):
    return collc.compile_text(RUN.format(run=run, more=more), **options)["s"]


# The search


class OneTransfer(tuple):
    """A stand-in for a schedule of one transfer, which takes a given number of picoseconds."""

    row_count = 1

    def __new__(cls, time: int):
        return super().__new__(cls, (time,))

    def collective_time(self, *_: object) -> int:
        return self[0]


def searched(times: dict[int, int], numbers: tuple[int, ...] = (), stop=lambda: False) -> ChunkSearch:
    """A search that finds schedules with given times in nanoseconds, by the number of chunks; 0: none."""
    net = fully_connected(3)
    request = ScheduleRequest("s", None, net, all_gather([0, 1, 2], 1), (), "tacos", None, {}, (), (), False)

    def synthesize(_request: ScheduleRequest, number: int) -> Module:
        if not times[number]:
            raise NoSchedule(Diagnostic("S0301", "none"))
        return replace(Module("s", net, request.demand), schedule=OneTransfer(times[number] * 1_000_000))

    choice = ChunkChoice(True, numbers or tuple(times), lambda _number: request)
    return ChunkSearch(choice, synthesize, stop)


def test_the_search_climbs_and_then_looks_round_the_best() -> None:
    found = searched({n: 1000 + 100 * abs(n - 24) for n in range(1, 257)})
    best = found.best()
    assert best.number == 24
    assert [attempt.number for attempt in found.tried] == [1, 4, 16, 64, 32, 8, 24, 12]
    assert found.note(best) == "chunks: auto chose 24 per block (tried: 1, 4, 16, 64, 32, 8, 24, 12)"


def test_the_search_ends_where_more_chunks_do_not_help() -> None:
    found = searched({n: 1000 + n for n in range(1, 257)})
    assert found.best().number == 1
    assert [attempt.number for attempt in found.tried] == [1, 4, 16, 2]


def test_the_search_ends_where_four_times_as_many_chunks_gain_under_3_percent() -> None:
    """Nothing above the last number is tried, as it would cost more still."""
    found = searched({1: 1200, 4: 1000, 8: 985, 16: 971, 32: 960, 64: 950})
    assert found.best().number == 16
    assert [attempt.number for attempt in found.tried] == [1, 4, 16, 8]
    found = searched({1: 1200, 4: 1000, 8: 985, 16: 969, 32: 960, 64: 950})
    assert found.best().number == 64
    assert [attempt.number for attempt in found.tried] == [1, 4, 16, 64, 32]


def test_only_numbers_that_divide_are_tried() -> None:
    found = searched({n: 1000 - 100 * power for power, n in enumerate((1, 3, 9, 27, 81, 243))})
    assert found.best().number == 243
    assert [attempt.number for attempt in found.tried] == [1, 3, 9, 27, 243, 81]


def test_a_number_without_a_schedule_is_left_out() -> None:
    found = searched({1: 1000, 4: 0, 16: 900, 64: 0})
    assert found.best().number == 16
    with pytest.raises(NoSchedule):
        searched({1: 0, 4: 900}).best()


def test_the_search_ends_when_it_must() -> None:
    found = searched({n: 1000 - n for n in range(1, 257)}, stop=lambda: True)
    assert (found.best().number, len(found.tried)) == (1, 1)


# Programs


def test_it_takes_a_number_and_says_so() -> None:
    one = compiled("all_gather(t.npus, size: 128MiB)")
    best = compiled("all_gather(t.npus, size: 128MiB, chunks: auto)")
    assert (one.chunks_per_block, one.chunks) == (1, 8)
    assert best.chunks == 8 * best.chunks_per_block > 8
    assert best.time_ps < one.time_ps
    assert best.of_ideal > 0.99
    assert best.notes[-1].startswith(f"chunks: auto chose {best.chunks_per_block} per block (tried: 1, ")
    given = compiled(f"all_gather(t.npus, size: 128MiB, chunks: {best.chunks_per_block})")
    assert (given.transfers() == best.transfers()).all()


def test_auto_searches_in_short_with_each_of_several_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single number is searched in full."""
    efforts: list[Effort] = []

    def quick(module: Module, effort: Effort, _library: object) -> Module:
        efforts.append(effort)
        return join(solve(module, lambda task: tacos(task, effort)))

    monkeypatch.setattr("collc.synthesis.auto.synthesizer.choose", quick)
    parts: list[list[bool]] = []
    for chunks in ("auto", "4"):
        run = f"all_gather(t.npus, size: 8MiB, chunks: {chunks})"
        assert collc.compile_text(MESH + f"schedule s on t {{ run {run} synthesize auto }}")["s"].ok
        parts.append([effort.work_part < 1 for effort in efforts])
        efforts.clear()
    several, single = parts
    assert all(several)
    assert len(several) > 1
    assert single == [False]


def test_numbers_that_cannot_be_better_are_not_tried_on_networks_with_limits() -> None:
    """The network of each number is its own there: the traffic of memory follows the demand."""
    report = collc.compile_text(
        "import std.topologies import std.collectives "
        "topology t = limited(mesh2d(2, 4, bandwidth: 25GB/s, latency: 0.5us), memory: 90GB/s) "
        "schedule s on t { run all_gather(t.npus, size: 1152KiB, chunks: auto) }"
    )["s"]
    assert report.ok
    assert report.notes[-1] == "chunks: auto chose 2 per block (tried: 1, 2)"


def test_the_command_line_and_the_api_override_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    auto = compiled("all_gather(t.npus, size: 8MiB, chunks: auto)")
    for written in ("", ", chunks: 4", ", chunks: auto"):
        text = f"all_gather(t.npus, size: 8MiB{written})"
        assert compiled(text, chunks=2).chunks_per_block == 2
        assert compiled(text, chunks="auto").chunks_per_block == auto.chunks_per_block
        Path("p.coll").write_text(RUN.format(run=text, more=""))
        for given, number in (("2", 2), ("auto", auto.chunks_per_block)):
            assert main(["compile", "p.coll", "--json", "--chunks", given]) == 0
            assert json.loads(capsys.readouterr().out)["schedules"][0]["chunks_per_block"] == number


def test_several_runs_share_one_number_and_others_keep_theirs() -> None:
    both = "all_gather(t.npus, 8MiB, auto) run broadcast(t.npus, size: 4MiB, chunks: auto, root: 1)"
    found = compiled(both)
    assert found.chunks == 9 * found.chunks_per_block
    (request,) = load_program_text(f"{both} run all_gather(t.npus, size: 8MiB, chunks: 2)")
    assert request.choice.automatic
    other = request.choice.request(4)
    assert [run.standard.chunks for run in other.demand.runs] == [4, 4, 2]
    assert [run.standard.root for run in other.demand.runs] == [-1, 1, -1]
    (request,) = load_program_text("all_gather(t.npus, size: 8MiB, chunks: 2)")
    assert not request.choice.automatic
    assert request.choice.request(4).demand.runs[0].standard.chunks == 4


def load_program_text(run: str) -> tuple[ScheduleRequest, ...]:
    Path("q.coll").write_text(RUN.format(run=run, more=""))
    return load_program(Path("q.coll")).schedules


def test_numbers_divide_all_sizes_and_keep_chunks_aligned() -> None:
    (request,) = load_program_text("all_gather(t.npus, 8 * 48KiB, auto) run broadcast(t.npus, 96KiB, auto)")
    numbers = request.choice.numbers
    assert numbers == tuple(n for n in range(1, 257) if 48 * 1024 % (16 * n) == 0)
    (request,) = load_program_text("broadcast(t.npus, 1MiB, chunks: auto)")
    assert request.choice.numbers == tuple(2**power for power in range(13))
    (request,) = load_program_text("send_recv(t.npus, 24B, chunks: auto)")
    assert request.choice.numbers == (1, 2, 3, 4, 6, 8, 12, 24)


def test_algorithms_by_hand_are_laid_out_with_each_number() -> None:
    text = HEAD + "import std.algorithms\ntopology t = ring(4, bandwidth: 50GB/s, latency: 1us)\n"
    text += "schedule s on t { run all_gather(t.npus, size: 64MiB, chunks: auto) using ring }\n"
    found = collc.compile_text(text)["s"]
    assert found.ok
    assert found.notes[-1].startswith("chunks: auto chose")


def test_a_declared_name_means_its_value() -> None:
    text = RUN.format(run="all_gather(t.npus, size: 8MiB, chunks: auto)", more="")
    assert collc.compile_text("let auto = 4\n" + text)["s"].chunks_per_block == 4
    assert collc.compile_text(text.replace("{ run", "{ let auto = 2 run"))["s"].chunks_per_block == 2


def test_modules_after_a_pass_are_those_of_the_number_taken(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.coll").write_text(RUN.format(run="all_gather(t.npus, size: 8MiB, chunks: auto)", more=""))
    assert main(["compile", "p.coll", "--print-after", "tacos"]) == 0
    assert capsys.readouterr().out.count("\ndemand") == 1


def test_modules_after_a_pass_are_those_of_the_full_search(capsys: pytest.CaptureFixture[str]) -> None:
    text = RUN.format(run="all_gather(t.npus, size: 8MiB, chunks: auto)", more="").replace("tacos", "auto")
    Path("p.coll").write_text(text)
    assert main(["compile", "p.coll", "--print-after", "auto"]) == 0
    assert capsys.readouterr().out.count("\ndemand") == 1


def test_runs_without_chunks_take_no_number() -> None:
    custom = """
collective own(g: group, size: bytes) { chunk x: size  pre x at g[0]  post x at g }
schedule s on t { run own(t.npus, size: 4KiB) }
"""
    assert collc.compile_text(MESH + custom)["s"].chunks_per_block is None
    with pytest.raises(collc.UsageError) as caught:
        collc.compile_text(MESH + custom, chunks=4)
    assert [d.code for d in caught.value.diagnostics] == ["U0117"]


WRONG = [(0, ValueError), ("many", ValueError), (1.5, TypeError), (True, TypeError)]


@pytest.mark.parametrize(("value", "error"), WRONG)
def test_wrong_numbers_are_refused(value: object, error: type[Exception], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(error, match="chunks"):
        collc.compile_text(MESH, chunks=value)
    assert main(["compile", "p.coll", "--chunks", str(value)]) == 2
    assert "auto or a whole number of at least 1" in capsys.readouterr().err


def test_a_number_that_does_not_divide_is_an_error() -> None:
    with pytest.raises(collc.SourceError) as caught:
        compiled("all_gather(t.npus, size: 8MiB)", chunks=7)
    assert [d.code for d in caught.value.diagnostics] == ["E0218"]
    assert "'chunks' is 7 in all runs, as --chunks" in str(caught.value)
    with pytest.raises(collc.SourceError) as caught:
        compiled("all_gather(t.npus, size: 8MiB, chunks: 7)")
    assert "--chunks" not in str(caught.value)


def test_the_report_of_runs_with_unlike_numbers_has_none() -> None:
    found = compiled("all_gather(t.npus, 8MiB, 1) run all_gather(t.npus, 8MiB, 2)")
    assert found.chunks_per_block is None
    assert replace(found, chunks_per_block=3).as_json()["chunks_per_block"] == 3


CONGESTED = """
algorithm forward(g: group, size: bytes, chunks: int = 1) implements all_gather(g, size, chunks) {
    let n = len(g)
    for s in 0..n - 1, i in 0..n, c in 0..chunks { send x[(i - s) % n, c] from g[i] to g[(i + 1) % n] at s }
}
topology r = ring(4, bandwidth: 10GB/s, latency: 1us)
schedule s on r { run all_gather(r.npus, size: 64MiB, chunks: auto) using forward
    synthesize fixed(link_model: "pipelined") }
"""


def test_numbers_for_which_a_handwritten_algorithm_congests_are_not_taken() -> None:
    report = collc.compile_text(HEAD + CONGESTED)["s"]
    assert report.ok
    assert report.chunks_per_block == 1


def test_a_handwritten_algorithm_that_is_wrong_with_all_numbers_fails_its_check() -> None:
    wrong = CONGESTED.replace("at s }", "at s + (i - s) % n % 2 }")
    report = collc.compile_text(HEAD + wrong, errors="report")["s"]
    assert not report.ok
    assert report.checks["congestion_free"] == "failed"


def test_numbers_whose_files_exceed_the_limits_of_the_runtime_are_not_taken(folder: Path) -> None:
    text = (
        HEAD
        + """topology r = ring(6, bandwidth: 10GB/s, latency: 5us)
schedule s on r {{ run broadcast(r.npus, root: 0, size: 64MiB, chunks: {chunks})
    synthesize swarm(link_model: "pipelined") emit msccl("s.xml", channels: 1) }}"""
    )
    report = collc.compile_text(text.format(chunks="auto"))["s"]
    assert report.notes[0] == (
        "chunks: auto chose 64 per block (tried: 1, 4, 16, 64, 256, 1024; files with 1024 exceed limits of the runtime)"
    )
    assert report.checks["contract"] == "ok"
    assert [file.name for file in report.files] == ["s.xml"]
    assert (report.chunks, report.chunks_per_block) == (64, 64)
    refused = collc.compile_text(text.format(chunks=256), errors="report")["s"]
    assert [message.code for message in refused.diagnostics] == ["M0111"]
    assert list(folder.iterdir()) == [folder / "s.xml"]


def test_factored_schedules_are_as_large_as_their_representatives() -> None:
    text = "import std.clusters\nimport std.collectives\ntopology t = dgx_h100(64)\n"
    text += (
        'schedule s on t { run all_gather(t.npus, size: 1GiB, chunks: auto) synthesize auto(link_model: "pipelined") }'
    )
    report = collc.compile_text(text)["s"]
    assert report.chunks_per_block >= 4
    assert report.of_ideal > 0.99


def test_a_time_limit_is_shared_by_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    def remembered(interrupted, seconds: float | None) -> SearchLimit:
        limits.append(seconds)
        return SearchLimit(interrupted, seconds)

    monkeypatch.setattr("collc.application.compile.planning.SearchLimit", remembered)
    compiled("all_gather(t.npus, size: 8MiB, chunks: auto)", time_limit=100)
    assert limits[:3] == [100, 25, 25]
    assert set(limits[3:]) <= {20}
