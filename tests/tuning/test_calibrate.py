"""`collc calibrate`: known latencies and bandwidths are found again in tables as nccl-tests print them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from collc.application.tune.calibration import fit_line
from collc.command.cli import main

pytestmark = pytest.mark.usefixtures("folder")

HALF = "   time   algbw   busbw #wrong"
HEAD = f"#       size         count      type   redop    root  {HALF}  {HALF}\n"
UNITS = (
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
)
SIZES = [8 << k for k in range(28)]


def table(seconds, head: str = HEAD, more: str = "", sizes=SIZES) -> str:
    """A table with times to four decimals. seconds: by size."""
    rows = ""
    for size in sizes:
        time = seconds(size) * 1e6
        rate = size / time / 1e3
        half = f"{time:.4f} {rate:.2f} {rate:.2f}"
        rows += f"{size:>12} {size // 4:>10} float none -1 {half} 0{more} {half} N/A{more}\n"
    ranks = "#  Rank  0 Group  0 Pid 1 on n1 device 0\n#  Rank  1 Group  0 Pid 2 on n1 device 1\n"
    return f"# nThread 1 nGpus 2\n#\n# Using devices\n{ranks}#\n{head}{UNITS}{rows}# Out of bounds values : 0 OK\n"


def found(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["calibrate", "sendrecv.txt", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("alpha", "rate"), [(6.1e-6, 197.3e9), (0.7e-6, 25e9), (12e-6, 1.25e9), (0.0, 50e9)])
def test_a_link_is_found_again(alpha: float, rate: float, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sendrecv.txt").write_text(table(lambda size: alpha + size / rate))
    result = found(capsys)
    assert result["latency_ps"] == pytest.approx(alpha * 1e12, abs=1e3, rel=1e-3)
    assert result["bandwidth"] == pytest.approx(rate, rel=1e-3 if alpha else 0.02)
    assert result["ranks"] == 2
    assert result["collective"] == "sendrecv"


@pytest.mark.parametrize(
    ("test", "steps", "share"),
    [("all_reduce", 14, 14 / 8), ("all_gather", 7, 7 / 8), ("reduce_scatter", 7, 7 / 8), ("alltoall", 1, 7 / 8)],
)
def test_collectives_of_eight_ranks(test: str, steps: int, share: float, capsys: pytest.CaptureFixture[str]) -> None:
    """A ring of n ranks: 2 (n - 1) messages of size / n one after another for All-Reduce."""
    text = table(lambda size: steps * 2e-6 + share * size / 40e9)
    Path("sendrecv.txt").write_text(f"# Collective test starting: {test}_perf\n{text}")
    result = found(capsys, "--ranks", "8")
    assert result["latency_ps"] == pytest.approx(2e6, rel=1e-3)
    assert result["bandwidth"] == pytest.approx(40e9, rel=1e-3)


def test_columns_are_found_by_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    """-I adds columns to both halves, -C calls the time cputime."""
    half = " cputime algbw busbw #wrong i_min i_max i_p99 i_cv%"
    head = f"# size count type redop root{half}{half}\n"
    text = table(lambda size: 3e-6 + size / 10e9, head, " 1.0 2.0 1.5 3.4")
    Path("sendrecv.txt").write_text(text)
    assert found(capsys, "--in-place")["latency_ps"] == pytest.approx(3e6, rel=1e-3)
    Path("sendrecv.txt").write_text(table(lambda size: 3e-6 + size / 10e9, head=""))
    assert found(capsys)["latency_ps"] == pytest.approx(3e6, rel=1e-3)


def test_time_stamps_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """-S adds the time of day to a row: behind the columns it is not read, before them the line is no row."""
    lines = table(lambda size: 3e-6 + size / 10e9).splitlines()
    stamp = "2026-11-22 10:00:00"
    Path("sendrecv.txt").write_text("\n".join(line if line[0] == "#" else f"{line} {stamp}" for line in lines))
    assert found(capsys)["latency_ps"] == pytest.approx(3e6, rel=1e-3)
    Path("sendrecv.txt").write_text("\n".join(line if line[0] == "#" else f"{stamp} {line}" for line in lines))
    assert main(["calibrate", "sendrecv.txt"]) == 1
    assert "X0702" in capsys.readouterr().err


def test_json_of_nccl_tests_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """What -J writes is no table: an error, never numbers of something else."""
    result = {"size": 1024, "count": 256, "type": "float", "out_of_place": {"time": 3.1, "alg_bw": 0.3}}
    Path("sendrecv.txt").write_text(json.dumps({"config": {"test": "sendrecv_perf"}, "results": [result]}, indent=2))
    assert main(["calibrate", "sendrecv.txt", "-o", "links.coll"]) == 1
    assert "X0702" in capsys.readouterr().err
    assert not Path("links.coll").exists()


def test_noise_and_the_fit_of_numpy() -> None:
    """The weighted fit against NumPy's; with 3 % noise the link is found to 3 %."""
    random = np.random.default_rng(1)
    sizes = np.array(SIZES)
    times = (5e-6 + sizes / 100e9) * (1 + 0.03 * random.standard_normal(len(sizes)))
    fit = fit_line(SIZES, times.tolist())
    beta, alpha = np.polyfit(sizes, times, 1, w=1 / times)
    assert fit.alpha == pytest.approx(alpha, rel=1e-6)
    assert fit.beta == pytest.approx(beta, rel=1e-6)
    assert fit.alpha == pytest.approx(5e-6, rel=0.03)
    assert fit.beta == pytest.approx(1e-11, rel=0.03)


def test_programs_import_the_lets(capsys: pytest.CaptureFixture[str]) -> None:
    Path("sendrecv.txt").write_text(table(lambda size: 6.1e-6 + size / 197.3e9))
    assert main(["calibrate", "sendrecv.txt", "-o", "links.coll", "--name", "nvlink"]) == 0
    assert "197.3GB/s" in capsys.readouterr().out
    assert main(["calibrate", "sendrecv.txt", "--name", "nvlink"]) == 0
    assert capsys.readouterr().out == Path("links.coll").read_text()
    Path("p.coll").write_text(
        'import std.topologies\nimport std.collectives\nimport "links.coll"\n'
        "topology t = ring(4, bandwidth: nvlink_bandwidth, latency: nvlink_latency)\n"
        "schedule s on t { run all_gather(t.npus, size: 4MiB) synthesize tacos }\n"
    )
    assert main(["fmt", "--check", "links.coll"]) == 0
    assert main(["compile", "p.coll", "--json"]) == 0
    time = json.loads(capsys.readouterr().out)["schedules"][0]["time_ps"]
    assert time == pytest.approx(2 * (6.1e6 + 2**20 / 197.3e9 * 1e12), rel=1e-3)


@pytest.mark.skipif(sys.platform == "win32", reason="no such names")
def test_a_file_name_is_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    name = 'x\nimport "secret.coll"\r#\u2028.txt'
    Path(name).write_text(table(lambda size: 6.1e-6 + size / 197.3e9))
    assert main(["calibrate", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["#", "#", "let", "let"]


def test_launch_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """A kink at 1 MiB: a warning for all sizes, none for one side of it."""
    kinked = lambda size: 5e-6 + size / 10e9 if size < 2**20 else 20e-6 + size / 100e9  # noqa: E731
    Path("sendrecv.txt").write_text(table(kinked))
    assert [d["code"] for d in found(capsys)["diagnostics"]] == ["X0706"]
    low = found(capsys, "--sizes", "8B..512KiB", "--launch", "2us")
    assert low["diagnostics"] == []
    assert low["latency_ps"] == pytest.approx(3e6, rel=1e-3)
    assert low["bandwidth"] == pytest.approx(10e9, rel=1e-3)
    halves = found(capsys, "--sizes", "8B..512KiB", "--launch", "2us", "--hops", "2")
    assert halves["latency_ps"] == pytest.approx(1.5e6, rel=1e-3)
    assert [d["code"] for d in found(capsys, "--sizes", "8B..512KiB", "--launch", "9e-6")["diagnostics"]] == ["X0705"]


@pytest.mark.parametrize(
    ("text", "words", "exit_code", "code"),
    [
        ("", [], 1, "X0702"),
        ("hello\n", [], 1, "X0702"),
        ("1024 256 float none -1 fast 1 1 0\n", [], 1, "X0701"),
        ("1024 256 float\n", [], 1, "X0701"),
        ("1024 256 float none -1 -3 1 1 0 3 1 1 0\n", [], 1, "X0701"),
        (table(lambda size: 1e-6, sizes=SIZES[:5]), [], 1, "X0703"),
        (table(lambda size: 1e-6, sizes=[1024 + n for n in range(20)]), [], 1, "X0703"),
        (table(lambda size: 1e-3 - 1e-12 * size / 2**30, sizes=SIZES[:12]), [], 1, "X0704"),
        ("# broadcast_perf\n" + table(lambda size: 1e-6 + size / 1e9), [], 2, "U0161"),
        (table(lambda size: 1e-6 + size / 1e9).replace("# ", "## "), ["--collective", "all_reduce"], 2, "U0161"),
        (table(lambda size: 1e-6 + size / 1e9), ["--name", "a-b"], 2, "U0100"),
        (table(lambda size: 1e-6 + size / 1e9), ["-o", "sendrecv.txt/x.coll"], 2, "U0203"),
    ],
)
def test_what_gives_no_link(
    text: str, words: list[str], exit_code: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sendrecv.txt").write_text(text)
    assert main(["calibrate", "sendrecv.txt", *words]) == exit_code
    assert f"error[{code}]" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["sendrecv.txt"]


def test_a_wrong_row_is_named_at_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    Path("sendrecv.txt").write_text(HEAD + "8 2 float none -1 1.0 1 1 0 1.0 1 1 0\n16 4 float none -1 oops\n")
    assert main(["calibrate", "sendrecv.txt"]) == 1
    assert "sendrecv.txt:3:1" in capsys.readouterr().err


def test_a_file_name_cannot_leave_its_comment(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a\nlet b = 1").write_text(table(lambda size: 1e-5 + size / 1e10))
    assert main(["calibrate", "a\nlet b = 1"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["#", "#", "let", "let"]
