"""Synthesizers through the command line: `synthesize exact`, `--synthesizer`, time limits and Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path

import pytest

from collc.application.settings import Settings
from collc.base.interrupts import stopping_at_signals
from collc.command.cli import main
from collc.passes.synthesizers import COMMON, SEARCH, SYNTHESIZERS
from collc.synthesis.task import Effort

HEAD = "import std.topologies\nimport std.collectives\n"
LINK = "bandwidth: 50GiB/s, latency: 0.5us"
STEP = 20_031_250


@pytest.fixture
def compiled(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(text: str, *words: str):
        Path("p.coll").write_text(HEAD + text)
        code = main(["compile", "p.coll", "--json", *words])
        out, err = capsys.readouterr()
        return code, json.loads(out)["schedules"][0] if out else None, err

    return run


def program(shape: str, run: str, synthesizer: str = "") -> str:
    return f"topology t = {shape.replace(')', f', {LINK})')}\nschedule s on t {{ run {run} {synthesizer} emit ten }}"


@pytest.mark.parametrize(
    ("shape", "run", "steps"),
    [
        ("ring(4)", "all_gather(t.npus, size: 8MiB, chunks: 2)", 3),
        ("mesh2d(2, 2)", "all_to_all(t.npus, size: 4MiB)", 2),
        ("torus2d(3, 3)", "reduce_scatter(t.npus, size: 9MiB)", 2),
        ("ring(4)", "all_reduce(t.npus, size: 4MiB)", 3),
    ],
)
def test_exact_finds_the_optimum(compiled, shape: str, run: str, steps: int) -> None:
    code, schedule, _ = compiled(program(shape, run, "synthesize exact(time_limit: 60s)"))
    assert (code, schedule["steps"], schedule["algorithm"]) == (0, steps, "exact")
    assert Path("s.ten").exists()
    assert compiled(program(shape, run), "--synthesizer", "exact")[1]["steps"] == steps


@pytest.mark.parametrize(
    ("synthesizer", "words", "message"),
    [
        ("synthesize exact(steps: 2)", (), "it takes at least 3"),
        ("synthesize exact(steps: 3)", ("--time-limit", "0.000001"), "no schedule was found within 1e-06 s"),
    ],
)
def test_exact_without_a_result_is_reported_as_no_schedule(
    compiled, synthesizer: str, words: tuple[str, ...], message: str
) -> None:
    code, _, err = compiled(program("ring(4)", "all_gather(t.npus, size: 8MiB, chunks: 2)", synthesizer), *words)
    assert code == 3
    assert message in err
    assert not Path("s.ten").exists()


@pytest.mark.parametrize(
    ("synthesizer", "words", "seconds"),
    [("exact(time_limit: 1ps)", (), "1e-12"), ("exact", ("--time-limit", "0.000001"), "1e-06")],
)
def test_exact_without_a_result_leaves_a_schedule_along_shortest_paths(
    compiled, synthesizer: str, words: tuple[str, ...], seconds: str
) -> None:
    text = program("ring(4)", "all_gather(t.npus, size: 8MiB, chunks: 2)", f"synthesize {synthesizer}")
    code, schedule, _ = compiled(text, *words)
    assert (code, schedule["algorithm"]) == (0, "shortest paths")
    notes = " ".join(schedule["notes"])
    assert f"no schedule was found within {seconds} s" in notes
    assert "all chunks take shortest paths" in notes
    assert Path("s.ten").exists()


def test_symmetric(compiled) -> None:
    code, schedule, _ = compiled(program("torus2d(4, 4)", "all_gather(t.npus, size: 16MiB)", "synthesize symmetric"))
    assert (code, schedule["steps"], schedule["algorithm"], schedule["efficiency"]) == (0, 4, "symmetric", 1.0)
    code, _, err = compiled(program("mesh2d(4, 4)", "all_gather(t.npus, size: 16MiB)", "synthesize symmetric"))
    assert code == 1
    assert "not symmetric" in err


def test_overlapped(compiled) -> None:
    code, schedule, _ = compiled(program("mesh2d(4, 4)", "all_reduce(t.npus, size: 16MiB)", "synthesize overlapped"))
    assert (code, schedule["algorithm"]) == (0, "overlapped")
    assert schedule["steps"] <= 17
    code, _, err = compiled(program("switched(4)", "all_reduce(t.npus, size: 16MiB)", "synthesize overlapped"))
    assert code == 1
    assert "has switches" in err
    code, _, err = compiled(program("ring(4)", "all_gather(t.npus, size: 16MiB)", "synthesize overlapped"))
    assert code == 1
    assert "nothing is to be reduced" in err


def test_overlapped_avoids_links_reserved_by_handwritten_runs(compiled) -> None:
    by_hand = "all_gather(t.npus, size: 4MiB) using ring run all_reduce(t.npus, size: 4MiB)"
    text = "import std.algorithms\n" + program("ring(4)", by_hand, "synthesize overlapped")
    code, schedule, _ = compiled(text)
    assert (code, schedule["algorithm"]) == (0, "ring+overlapped")


def test_forest(compiled) -> None:
    text = program("mesh2d(4, 4)", "reduce_scatter(t.npus, size: 16MiB, chunks: 4)", "synthesize forest")
    code, schedule, _ = compiled(text)
    assert (code, schedule["algorithm"], schedule["efficiency"]) == (0, "forest", 1.0)
    code, _, err = compiled(program("ring(4)", "all_to_all(t.npus, size: 16MiB)", "synthesize forest"))
    assert code == 1
    assert "forest does not apply here: not every chunk is for all NPUs" in err
    code, schedule, _ = compiled(text, "--time-limit", "0.000001")
    assert (code, schedule["algorithm"]) == (0, "shortest paths")
    assert "forest was stopped before it had a schedule: all chunks take shortest paths" in schedule["notes"]


def test_the_common_options_are_settings_and_their_defaults_those_of_a_search() -> None:
    assert set(COMMON) <= {setting.name for setting in fields(Settings)}
    effort = Effort()
    assert {name: getattr(effort, name) for name in SEARCH} == {name: SEARCH[name].default for name in SEARCH}


def test_both_names_of_the_option_choose_the_synthesizer(compiled) -> None:
    text = program("ring(4)", "all_gather(t.npus, size: 4MiB)")
    for flag in ("--synthesizer", "--algorithm"):
        assert compiled(text, flag, "pccl")[1]["algorithm"] == "pccl"


def test_the_language_reference_lists_all_synthesizers_and_options() -> None:
    """The tables in docs/language.md are those of the records, row for row."""
    text = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    section = text.partition("### Synthesizers")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    every = {name: option for record in SYNTHESIZERS.values() for name, option in record.options.items()}
    expected = []
    for name, option in every.items():
        having = [synthesizer for synthesizer, record in SYNTHESIZERS.items() if name in record.options]
        lacking = [synthesizer for synthesizer in SYNTHESIZERS if synthesizer not in having]
        who = having if len(having) == 1 else ["all but", *lacking] if lacking else ["all"]
        who = " ".join(f"`{word}`" if word in SYNTHESIZERS else word for word in who)
        default = "" if option.default is None else f" ({option.default})"
        choices = ": " + " or ".join(f'"{choice}"' for choice in option.choices) if option.choices else ""
        expected.append(f"| `{name}` | {who} | {option.meaning}{choices}{default} |")
    supports = {name: re.sub("'(.*?)'", r"`\1`", record.supports) for name, record in SYNTHESIZERS.items()}
    heads = [f"| `{name}` | {text} " for name, text in supports.items()]
    assert [row[: len(head)] for row, head in zip(rows, heads, strict=False)] == heads
    assert rows[len(SYNTHESIZERS) :] == expected


SLOW = """
topology t = mesh2d(4, 4, bandwidth: 50GiB/s, latency: 0.5us)
schedule s on t { run %s synthesize %s emit ten }
"""

COMPILE = """
from pathlib import Path
from collc.application.compile.compilation import compile_program
from collc.application.settings import Callbacks, Settings
def progress(share, _phase):
    if share is not None:  # reported by the synthesizer, at work
        print("works", flush=True)
callbacks = Callbacks(progress=progress)
report = compile_program(Path("p.coll"), Settings(output=Path("out"), keep_best=True), callbacks)
raise SystemExit(int(report.schedules[0].exit))
"""


@pytest.mark.parametrize(
    ("run", "synthesizer"),
    [
        ("all_to_all(t.npus, size: 48MiB, chunks: 3)", "pccl(trials: 1000000)"),
        ("all_to_all(t.npus, size: 16MiB)", "exact"),
    ],
)
def test_an_interrupt_keeps_the_best_so_far(tmp_path: Path, run: str, synthesizer: str) -> None:
    """Or, if exact search has none yet, a schedule along shortest paths."""
    (tmp_path / "p.coll").write_text(HEAD + SLOW % (run, synthesizer))
    with subprocess.Popen(
        [sys.executable, "-c", COMPILE], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()
    assert main(["verify", str(tmp_path / "out" / "s.ten")]) == 0


def test_a_second_interrupt_is_raised_and_the_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stopping_at_signals() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[bool] = []

    def work() -> None:
        with stopping_at_signals() as interrupted:
            seen.append(interrupted() or signal.getsignal(signal.SIGINT) is not before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_exchange(compiled) -> None:
    code, schedule, _ = compiled(program("ring(4)", "all_reduce(t.npus, size: 4MiB)", "synthesize exchange"))
    assert (code, schedule["algorithm"], schedule["steps"], schedule["efficiency"]) == (0, "exchange", 3, 1.0)
    code, _, err = compiled(program("switched(4)", "all_reduce(t.npus, size: 4MiB)", "synthesize exchange"))
    assert code == 1
    assert "exchange plans over direct links, and t has switches" in err
