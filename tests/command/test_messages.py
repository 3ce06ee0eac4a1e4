"""Messages of commands: programs without schedules, positions in the source, time limits, and input from pipes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from collc.command.cli import main

pytestmark = pytest.mark.usefixtures("folder")

HEAD = "import std.topologies\nimport std.collectives\nimport std.algorithms\n"
LOOP = HEAD + "topology loop = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n"
GATHER = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 4MiB) %s }\n"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def compiled(capsys: pytest.CaptureFixture[str], text: str, *words: str) -> tuple[int, list, list]:
    """The exit code, the schedules, and the messages."""
    Path("p.coll").write_text(text)
    code = main(["compile", "p.coll", "-o", "out", "--json", *words])
    answer = json.loads(capsys.readouterr().out)
    return code, answer["schedules"], answer["diagnostics"]


@pytest.mark.parametrize("text", ["", "let x = 1", LOOP])
def test_a_program_without_schedules_gets_a_warning(capsys: pytest.CaptureFixture[str], text: str) -> None:
    code, schedules, (message,) = compiled(capsys, text)
    assert (code, schedules) == (0, [])
    assert (message["code"], message["severity"]) == ("U0207", "warning")


def test_a_program_with_designs_only_says_how_to_solve_them(capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES / "design.coll").read_text()
    code, _, (message,) = compiled(capsys, text)
    assert (code, message["code"], message["line"]) == (0, "U0208", 18)
    assert "collc design" in message["hint"]
    schedule = "import std.collectives\ntopology own = ring(4, bandwidth: 1GB/s, latency: 1us)\n"
    schedule += "schedule s on own { run all_gather(own.npus, size: 8MiB) }\n"
    code, _, messages = compiled(capsys, schedule + text)
    assert (code, messages) == (0, [])


def test_an_unsuitable_synthesizer_is_reported_at_its_position(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, (message,) = compiled(capsys, GATHER % "\n    synthesize hierarchical(seed: 1)")
    assert (code, message["code"], message["line"], message["column"]) == (1, "S0305", 6, 5)


def test_fixed_without_algorithms_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, (message,) = compiled(capsys, GATHER % "\n    synthesize fixed")
    assert (code, message["code"], message["line"]) == (1, "S0307", 6)
    assert "using" in message["hint"]


def test_a_wrong_algorithm_is_reported_at_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = LOOP + "schedule s on loop {\n    run all_gather(loop.npus, size: 4MiB) using direct\n}"
    code, _, messages = compiled(capsys, text)
    assert code == 4
    first, *others = [m for m in messages if m["code"] == "V0201"]
    assert (first["line"], first["column"]) == (6, 5)
    assert "step of its own" in first["hint"]
    assert others
    assert all(m["line"] is None and m["hint"] is None for m in others)


def test_a_reduction_past_an_npu_with_a_contribution_is_reported_at_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = LOOP + "schedule s on loop {\n    run all_reduce(loop.npus, size: 4MiB) using direct\n}"
    code, _, (message,) = compiled(capsys, text)
    assert (code, message["code"], message["line"], message["column"]) == (1, "S0106", 6, 5)
    assert message["message"] == (
        "the reduction of chunk 0:x[2, 0] from npu[0] to npu[2] passes npu[1], which has a contribution of its own"
    )
    assert message["hint"] == (
        "no link joins the two; reduce hop by hop, first into npu[1] and then on to the target, or write "
        "'allow congestion', so that NPUs forward messages"
    )


def test_a_search_that_reaches_its_time_limit_has_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD + "topology t = mesh3d(3, 3, 2, bandwidth: 50GiB/s, latency: 0.5us)\n"
    text += "schedule s on t { run all_to_all(t.npus, size: 18MiB) synthesize pccl(trials: 1000000) }"
    code, (schedule,), _ = compiled(capsys, text, "--time-limit", "1")
    assert code == 0
    assert any("time limit of 1 s" in note for note in schedule["notes"])
    code, (schedule,), _ = compiled(capsys, GATHER % "", "--time-limit", "1000")
    assert not any("time limit" in note for note in schedule["notes"])


def test_programs_are_read_from_pipes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"let x = y")))
    assert main(["check", "-"]) == 1
    assert "--> stdin:1:9" in capsys.readouterr().err
    os.mkfifo("pipe.coll")
    writer = threading.Thread(target=Path("pipe.coll").write_text, args=("let x = y",))
    writer.start()
    assert main(["check", "pipe.coll"]) == 1
    writer.join()
    assert "--> pipe.coll:1:9" in capsys.readouterr().err
    Path("p.coll").write_text('import "pipe.coll"')
    assert main(["check", "p.coll"]) == 1
    assert "E0701" in capsys.readouterr().err


def test_std_prints_a_whole_module_of_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["std", "std.topologies"]) == 0
    shown = capsys.readouterr().out
    assert "topology ring(" in shown
    assert "topology rail_only(" in shown


def test_python_m_runs_the_package() -> None:
    words = [sys.executable, "-m", "collc", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.startswith("collc ")


QUEUED = """
topology t = limited({network}, eject: 60GB/s)
algorithm twice(g: group, size: bytes, chunks: int = 1) implements broadcast(g, size, chunks) {{
    for k in 1..4, c in 0..chunks {{ send x[c] from g[0] to g[k] at 0 }}
}}
schedule s on t {{ run {run} allow congestion emit ten }}
"""


def test_messages_that_queue_where_npus_limit_what_they_receive(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On a line every NPU receives from one link only, so that no message waits behind it; else the second does."""
    line = QUEUED.format(
        network="line(4, bandwidth: 50GB/s, latency: 1us)", run="broadcast(t.npus, size: 4MiB, chunks: 2) using twice"
    )
    code, found, messages = compiled(capsys, HEAD + line, "-o", str(tmp_path))
    checks = found[0]["checks"]
    assert (code, messages) == (0, [])
    assert (checks["endpoints"], checks["congestion_free"]) == ("ok", "allowed")
    assert found[0]["time_ps"] == 8 * 42_943_040
    mesh = QUEUED.format(
        network="fully_connected(3, bandwidth: 50GB/s, latency: 1us)", run="all_gather(t.npus, size: 3MiB) using direct"
    )
    code, found, messages = compiled(capsys, HEAD + mesh, "-o", str(tmp_path))
    assert (code, messages) == (0, [])
    assert found[0]["checks"]["endpoints"] == "ok"
    assert found[0]["time_ps"] == 1_000_000 + 20_971_520 + 17_476_267, "the second is received after the first"
    assert (tmp_path / "s.ten").read_text().count("received 39.447787us") == 3


def test_runs_that_queue_and_runs_that_are_planned_do_not_go_with_limits(capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD + "topology t = limited(mesh2d(2, 2, bandwidth: 50GB/s, latency: 0.5us), inject: 60GB/s)\n"
    runs = "run all_reduce(t.npus, size: 4MiB) using direct run all_gather(t.npus, size: 4MiB) allow congestion"
    code, _, (message,) = compiled(capsys, f"{text}schedule s on t {{ {runs} }}")
    assert (code, message["code"]) == (3, "S0206")
    assert "cannot be planned beside other runs" in message["message"]
