"""`collc sweep`: the table of all combinations, what goes wrong, and what a killed sweep leaves."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from collc.command.cli import main
from collc.parallel.processes import Lost, named_function

PROGRAM = """
import std.topologies
import "sizes.coll"
import std.collectives
param size: bytes = whole
param nodes: int = 4
param kind: string = "ring"
topology t = ring(nodes, bandwidth: 50GiB/s, latency: 0.5us)
schedule sum on t { run all_reduce(t.npus, size: size) synthesize tacos emit msccl }
schedule all on t { run all_gather(t.npus, size: size) synthesize tacos }
"""

ran: list[object] = []


def serial(function: str, tasks: Sequence[object], _limits: object = None) -> Generator[tuple[int, object]]:
    """As `run_in_processes`, in this process and from the last task to the first."""
    for number in reversed(range(len(tasks))):
        ran.append(tasks[number])
        yield number, named_function(function)(tasks[number])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("collc.parallel.processes.run_in_processes", serial)
    ran.clear()
    Path("p.coll").write_text(PROGRAM)
    Path("sizes.coll").write_text("let whole = 4MiB\n")


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_has_all_combinations_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-D", "size=1MiB, 2MiB", "-D", "nodes=2,4", "--algorithm", "tacos,ring", "--schedule", "sum"]
    assert main(["sweep", "p.coll", *words, "-o", "t.csv"]) == 0
    found = rows("t.csv")
    cases = [(int(row["size"]) >> 20, row["nodes"], row["algorithm"]) for row in found]
    assert cases == [(s, n, a) for s in (1, 2) for n in "24" for a in ("tacos", "ring")]
    assert sorted(path.name for path in Path().iterdir()) == ["p.coll", "sizes.coll", "t.csv"]
    shown = capsys.readouterr().out
    assert "bus bandwidth" in shown
    assert "1MiB" in shown
    assert main(["compile", "p.coll", "-D", "size=2MiB", "-D", "nodes=4", "--schedule", "sum", "--json"]) == 0
    compiled = json.loads(capsys.readouterr().out)["schedules"][0]
    row = next(row for row in found if (row["size"], row["nodes"], row["algorithm"]) == ("2097152", "4", "tacos"))
    for name in ("time_ps", "bound_ps", "ideal_ps", "steps", "transfers", "npus", "links"):
        assert row[name] == str(compiled[name]), name
    assert float(row["algorithm_bandwidth"]) == pytest.approx(2**21 * 1e12 / compiled["time_ps"])
    assert float(row["bus_bandwidth"]) == pytest.approx(2**21 * 1e12 / compiled["time_ps"] * 3 / 2)
    by_hand = PROGRAM.replace("run all_reduce(t.npus, size: size)", "run all_reduce(t.npus, size: size) using ring")
    Path("q.coll").write_text(
        by_hand.replace("synthesize tacos", "").replace("import std.t", "import std.algorithms\nimport std.t")
    )
    assert main(["compile", "q.coll", "-D", "size=1MiB", "-D", "nodes=4", "--schedule", "sum", "--json"]) == 0
    compiled = json.loads(capsys.readouterr().out)["schedules"][0]
    assert [row["time_ps"] for row in found][3] == str(compiled["time_ps"])


def test_one_case_that_fails_does_not_lose_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "p.coll", "-D", "nodes=2,3,x,1", "-o", "t.json"]) == 1
    found = json.loads(Path("t.json").read_text())
    assert [(row["nodes"], row["schedule"], row["error"]) for row in found][:3] == [
        ("2", "sum", None),
        ("2", "all", None),
        ("3", None, "E0218"),
    ]
    assert "p.coll:9:25: 4,194,304 bytes / 3 is not a whole number of bytes" in found[2]["message"]
    assert [row["error"] for row in found[3:]] == ["E0201", None, None]
    assert found[2]["exit"] == 1
    error = capsys.readouterr().err
    assert "U0145" in error
    assert "rows failed" in error


def test_json_on_stdout_and_no_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "p.coll", "-D", "nodes=2", "--seed", "0,1", "--chunks", "1,auto", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["seed"], row["chunks"]) for row in found["rows"]][::2] == [(0, 1), (0, "auto"), (1, 1), (1, "auto")]
    assert found["diagnostics"] == []
    assert sorted(path.name for path in Path().iterdir()) == ["p.coll", "sizes.coll"]


def test_params_that_are_called_like_columns() -> None:
    Path("p.coll").write_text(PROGRAM.replace("param nodes", "param links").replace("ring(nodes", "ring(links"))
    assert main(["sweep", "p.coll", "-D", "links=2,4", "--schedule", "all", "-o", "t.csv"]) == 0
    assert [(row["param_links"], row["links"]) for row in rows("t.csv")] == [("2", "2"), ("4", "8")]


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (["-D", "node=2"], 1, "E0224"),
        (["-D", "nodes=2,,4"], 2, "U0100"),
        (["-D", "nodes"], 2, "U0100"),
        (["--algorithm", "tako"], 2, "U0102"),
        (["--algorithm", "fixed"], 2, "U0102"),
        (["--schedule", "none"], 2, "U0110"),
        (["-o", "t.xlsx"], 2, "U0147"),
        (["-o", "p.coll/t.csv"], 2, "U0203"),
        (["--seed", ",".join(map(str, range(1001))), "-D", "nodes=" + ",".join(map(str, range(1000)))], 2, "U0146"),
        (["--scheduler", "tcp://127.0.0.1:1"], 2, "U0142"),
    ],
)
def test_wrong_arguments(
    words: list[str], exit_code: int, code: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collc.parallel.processes.CONNECT_SECONDS", 0.2)
    assert main(["sweep", "p.coll", *words]) == exit_code
    assert f"error[{code}]" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["p.coll", "sizes.coll"]
    assert not ran


def test_programs_that_cannot_be_swept(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.coll").write_text("schedule {")
    assert main(["sweep", "bad.coll", "-o", "t.csv"]) == 1
    assert "E01" in capsys.readouterr().err
    Path("none.coll").write_text("let a = 1\n")
    assert main(["sweep", "none.coll", "-o", "t.csv"]) == 1
    assert "U0207" in capsys.readouterr().err
    assert main(["sweep", "p.coll", "--schedule", "all", "--algorithm", "double_binary_tree"]) == 1
    error = capsys.readouterr().err
    assert "[U0143] p.coll:10:21: std.algorithms has no 'double_binary_tree' for all_gather" in error
    assert not list(Path().glob("t.csv"))


@pytest.mark.parametrize("package", ["pyarrow", "distributed"])
def test_packages_that_are_not_installed(
    package: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    words = ["-o", "t.parquet"] if package == "pyarrow" else ["--scheduler", "tcp://127.0.0.1:1"]
    assert main(["sweep", "p.coll", *words]) == 2
    error = capsys.readouterr().err
    assert "U0141" in error
    assert "pip install 'collc[sweep]'" in error


def test_parquet_has_the_same_table_with_types() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    words = ["sweep", "p.coll", "-D", "size=1MiB,2MiB", "-D", "nodes=4,3", "-D", "kind=a", "--schedule", "sum"]
    assert main([*words, "-o", "t.parquet"]) == main([*words, "-o", "t.json"]) == 1
    found = parquet.read_table("t.parquet")
    assert found.to_pylist() == json.loads(Path("t.json").read_text())
    types = {field.name: str(field.type) for field in found.schema}
    assert types["size"] == types["nodes"] == types["time_ps"] == "int64"
    assert types["bus_bandwidth"] == "double"
    assert types["kind"] == types["error"] == "string"


def test_a_plot_has_a_line_for_each_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "p.coll", "--schedule", "sum", "--algorithm", "tacos,ring", "--quiet"]
    assert main([*words, "-D", "size=1MiB,16MiB", "--plot", "a.svg"]) == 0
    text = Path("a.svg").read_text()
    for part in ("bus bandwidth", ">tacos<", ">ring<", "at size 16MiB", "GB/s"):
        assert part in text, part
    assert main([*words, "-D", "nodes=2,4,3", "--plot", "a.svg", "--plot-x", "nodes", "--plot-y", "time"]) == 1
    text = Path("a.svg").read_text()
    assert "time" in text
    assert "at nodes 4" in text
    assert "at nodes 3" not in text
    Path("a.svg").unlink()
    for more in (["-D", "nodes=2"], ["-D", "nodes=2,4", "--plot-x", "size"], ["-D", "kind=a,b"]):
        assert main([*words[:4], *more, "--plot", "a.svg"]) == 2
        assert "error[U0162]" in capsys.readouterr().err
    assert main([*words[:4], "-D", "nodes=2,4", "--plot", "a.png"]) == 2
    assert not list(Path().glob("a.*"))


def test_a_plot_against_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """Rates are numbers in bytes per second; values that are none are refused before anything is compiled."""
    Path("r.coll").write_text(
        "import std.topologies\nimport std.collectives\nparam memory: rate = 5GB/s\n"
        "topology t = limited(ring(4, bandwidth: 25GB/s, latency: 1us), memory: memory)\n"
        "schedule s on t {\n    run all_gather(t.npus, size: 4MB)\n}\n"
    )
    words = ["sweep", "r.coll", "--quiet", "-o", "r.json", "--plot", "r.svg", "-D"]
    assert main([*words, "memory=15GB/s,7.5GB/s,12Gb/s"]) == 0
    assert [row["memory"] for row in json.loads(Path("r.json").read_text())] == [15 * 10**9, 75 * 10**8, 15 * 10**8]
    text = Path("r.svg").read_text()
    assert "at memory 7.5GB/s" in text
    Path("r.json").unlink()
    assert main([*words, "memory=15GB/s,t", "--plot-x", "memory"]) == 2
    assert "its values are not all numbers, sizes, times or rates: 15GB/s, t" in capsys.readouterr().err
    assert not Path("r.json").exists()


def test_a_sweep_that_ends_early_goes_on_where_it_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sweep", "p.coll", "--schedule", "sum", "-D", "nodes=2,4,8", "-o", "t.csv"]
    assert main([*words[:-1], "whole.csv"]) == 0

    def interrupted(*arguments: object) -> Generator[tuple[int, object]]:
        for found in serial(*arguments):  # pyright: ignore[reportArgumentType]
            yield found
            if len(ran) == 2:
                raise KeyboardInterrupt

    ran.clear()
    with monkeypatch.context() as patch:
        patch.setattr("collc.parallel.processes.run_in_processes", interrupted)
        assert main(words) == 130
    assert not Path("t.csv").exists()
    assert Path(".t.csv.journal").exists()
    assert main(words) == 0
    assert len(ran) == 3
    assert "2 of 3 cases were done by an earlier run" in capsys.readouterr().err
    assert Path("t.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert not Path(".t.csv.journal").exists()


def test_a_journal_of_another_program_is_not_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> Generator[tuple[int, object]]:
        for found in serial(*arguments):  # pyright: ignore[reportArgumentType]
            yield found
            raise KeyboardInterrupt

    words = ["sweep", "p.coll", "-D", "nodes=2,4", "-o", "t.csv"]
    with monkeypatch.context() as patch:
        patch.setattr("collc.parallel.processes.run_in_processes", interrupted)
        assert main(words) == 130
    Path("sizes.coll").write_text("let whole = 8MiB\n")
    ran.clear()
    assert main(words) == 0
    assert len(ran) == 2
    assert "the journal of another program or version was dropped" in capsys.readouterr().err
    assert {row["bytes"] for row in rows("t.csv")} == {str(8 << 20)}


def test_a_case_that_is_lost_is_tried_again_by_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def losing(*arguments: object) -> Generator[tuple[int, object]]:
        for number, found in serial(*arguments):  # pyright: ignore[reportArgumentType]
            yield number, Lost("its process was ended by SIGKILL") if number else found

    with monkeypatch.context() as patch:
        patch.setattr("collc.parallel.processes.run_in_processes", losing)
        assert main(["sweep", "p.coll", "-D", "nodes=2,4", "-o", "t.csv"]) == 5
    assert [row["error"] for row in rows("t.csv")] == ["", "", "U0144"]


@pytest.mark.slow
def test_kill_9_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    """The process is killed after some cases; the second run compiles the others, and the table is the same."""
    words = [sys.executable, "-m", "collc", "sweep", "p.coll", "-D", "size=1MiB,2MiB,4MiB", "-D", "nodes=2,4,8,16,32"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    subprocess.run([*words, "-o", "whole.csv"], env=environment, check=True, capture_output=True)
    process = subprocess.Popen([*words, "-o", "t.csv", "--jobs", "1"], env=environment)
    journal = Path(".t.csv.journal")
    while not journal.exists() or journal.read_bytes().count(b"\n") < 4:
        time.sleep(0.005)
        assert process.poll() is None
    process.kill()
    process.wait()
    done = journal.read_bytes().count(b"\n") - 1
    assert 3 <= done < 15
    assert not Path("t.csv").exists()
    again = subprocess.run([*words, "-o", "t.csv"], env=environment, check=True, capture_output=True, text=True)
    assert f"{done} of 15 cases were done by an earlier run" in again.stderr
    assert Path("t.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert sorted(path.name for path in Path().iterdir()) == ["p.coll", "sizes.coll", "t.csv", "whole.csv"]
