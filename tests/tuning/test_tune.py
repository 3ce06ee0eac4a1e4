"""`collc tune`: files that divide the sizes, their times, the script for plans, and what a killed run leaves."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import types
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from collc.application.program_files import load_files, read_program
from collc.application.tune import tuning_report
from collc.application.tune.tuning import tuned_sizes
from collc.application.tune.tuning_report import size_words
from collc.base.diagnostics import SourceError
from collc.command.cli import main
from collc.parallel.processes import named_function
from collc.runtime.schedules import Schedules
from collc.tuning.protocols import DEFAULT_COSTS, of_plans

PROGRAM = """
import std.topologies
import std.collectives
param n: int = 4
topology t = ring(n, bandwidth: 50GB/s, latency: 0.7us)
schedule sum on t { run all_reduce(t.npus, size: 1MiB) }
"""

GROUP = (
    PROGRAM.replace("t.npus", "[t.npu[2], t.npu[0], t.npu[1], t.npu[3]]")
    .replace("= 4", "= 6")
    .replace("import std.c", "import std.algorithms\nimport std.c")
)

WORDS = ["tune", "p.coll", "--sizes", "4KiB..1MiB", "--chunks", "1", "--instances", "1", "--algorithm"]
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
    monkeypatch.setattr("collc.application.tune.tuning_case.expect_many", lambda: None)  # no kernel is compiled
    slower_nccl(monkeypatch, lambda _: 10**12)
    ran.clear()
    Path("p.coll").write_text(PROGRAM)


def slower_nccl(monkeypatch: pytest.MonkeyPatch, time_of: Callable[[int], int]) -> None:
    """Let NCCL's own algorithms take the picoseconds that a function gives for a size."""

    def times(_network: object, _kind: str, _shape: str, sizes: Sequence[int], *_: object) -> list[int]:
        return [time_of(size) for size in sizes]

    monkeypatch.setattr("collc.application.tune.tuning_case.nccl_times", times)


def test_no_file_for_sizes_at_which_nccl_is_as_fast(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The range ends at the size from which NCCL is as fast; the rest is a note; times name their sizes."""
    slower_nccl(monkeypatch, lambda size: 10**12 if size <= 64 << 10 else 1)
    words = [*WORDS, "ring", "--emit", "msccl", "--protocol", "Simple", "-o", "out"]
    assert main(words) == 0
    shown = capsys.readouterr()
    ((low, high),) = ranges_of("msccl", ("minBytes", "maxBytes"))
    assert (low, 64 << 10 <= high < 128 << 10) == (4 << 10, True)
    assert " at 64KiB " in shown.out
    assert (
        f"no MSCCL files for {size_words(high + 1)} .. 1MiB: NCCL's own algorithms are at least as fast; at 1MiB"
        in shown.err
    )
    times = {row["bytes"]: row["msccl"] for row in json.loads(Path("out/tuning.json").read_text())["times_ps"]}
    assert times[64 << 10] is not None
    assert times[128 << 10] is None
    slower_nccl(monkeypatch, lambda _: 1)
    assert main(words) == 0
    shown = capsys.readouterr()
    assert list(Path("out/msccl").iterdir()) == []
    assert shown.out.split() == []
    (note,) = json.loads(Path("out/tuning.json").read_text())["notes"]
    assert note.startswith("no MSCCL files for 4KiB .. 1MiB: ")
    assert note in shown.err


def ranges_of(kind: str, keys: tuple[str, str]) -> list[tuple[int, int]]:
    """The sizes that the files themselves name."""
    found = []
    for path in sorted(Path("out", kind).glob("sum.*")):
        text = path.read_text()
        found.append(tuple(int(re.search(rf'"?{key}"?[=:]\s*"?(\d+)', text)[1]) for key in keys))  # pyright: ignore[reportOptionalSubscript]
    return found


def test_files_divide_the_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """Also: nothing but XML if the runtime reads every file, and files of an earlier run are gone."""
    Path("out/msccl").mkdir(parents=True)
    Path("out/msccl/sum.9.xml").write_text("<algo/>")
    words = [*WORDS, "ring", "-o", "out", "--tolerance", "0"]
    assert main(words) == 0
    assert "msccl/sum.0.xml" in capsys.readouterr().out
    written = json.loads(Path("out/tuning.json").read_text())
    for kind, keys in (("msccl", ("minBytes", "maxBytes")), ("mscclpp", ("min_message_size", "max_message_size"))):
        found = ranges_of(kind, keys)
        assert found[0][0] == 4 << 10
        assert found[-1][1] == 1 << 20
        assert [low for low, _ in found[1:]] == [high + 1 for _, high in found[:-1]]
        assert found == [(r["min_bytes"], r["max_bytes"]) for r in written["ranges"] if r["kind"] == kind]
    assert len(ranges_of("msccl", ("minBytes", "maxBytes"))) > 1
    assert {path.suffix for path in Path("out/msccl").iterdir()} == {".xml"}
    assert not Path("out/msccl/sum.9.xml").exists()
    assert sorted(path.name for path in Path("out").iterdir()) == ["msccl", "mscclpp", "tuning.json", "tuning.svg"]
    for row in written["ranges"]:
        assert main(["verify", f"out/{row['file']}"]) == 0
    for row in written["times_ps"]:
        assert row["ideal"] <= min(row["msccl"], row["nccl_ring"], row["nccl_tree"])
    assert "bus bandwidth" in Path("out/tuning.svg").read_text()


def test_run_files_are_a_folder_of_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """They divide all sizes, whatever NCCL would take."""
    slower_nccl(monkeypatch, lambda _: 1)
    words = [*WORDS, "ring", "--sizes", "4B..4MiB", "--chunks", "1,4", "--emit", "run", "-o", "out/a", "--quiet"]
    assert main([*words, "--dtype", "bfloat16"]) == 0
    written = json.loads(Path("out/a/tuning.json").read_text())
    assert written["notes"] == []
    assert (written["ranges"][0]["min_bytes"], written["ranges"][-1]["max_bytes"]) == (4, 4 << 20)
    schedules = Schedules.read(Path("out"), 0, 4)
    for row in written["ranges"]:
        assert main(["verify", f"out/a/{row['file']}"]) == 0
        for size in (row["min_bytes"], row["max_bytes"]):
            assert schedules.choose("allreduce", size, dtype="bfloat16")[0] == f"a/{row['file']}"
            assert schedules.choose("allreduce", size, dtype="float32") == "no file for elements of float32"
        at = next(times for times in written["times_ps"] if row["min_bytes"] <= times["bytes"] <= row["max_bytes"])
        assert at["run"] >= at["ideal"]
    assert schedules.choose("allreduce", (4 << 20) + 4) == f"no file for {(4 << 20) + 4} bytes"


def test_packets_for_small_messages() -> None:
    """Plans of packets (LL) serve small sizes, and not those for which MSCCL++ does not take them (2 MiB)."""
    assert main([*WORDS, "ring", "--emit", "mscclpp", "--sizes", "4KiB..8MiB", "-o", "out", "--quiet"]) == 0
    plans = [json.loads(path.read_text()) for path in sorted(Path("out/mscclpp").glob("sum.*"))]
    assert [plan["protocol"] for plan in plans] == ["LL", "Simple"]
    written = json.loads(Path("out/tuning.json").read_text())
    assert [row["protocol"] for row in written["ranges"]] == ["LL", "Simple"]
    assert main([*WORDS, "ring", "--emit", "mscclpp", "--sizes", "1MiB..8MiB", "--protocol", "LL", "-o", "o"]) == 0
    (plan,) = [json.loads(path.read_text()) for path in Path("o/mscclpp").glob("sum.*")]
    assert (plan["min_message_size"], plan["max_message_size"]) == (1 << 20, 2 << 20)


def test_plans_end_just_below_4_gib() -> None:
    """Where their offsets end, and not at the power of two before."""
    words = [*WORDS, "ring", "--protocol", "Simple", "--sizes", "1GiB..8GiB", "-o", "out", "--quiet"]
    assert main([*words, "--emit", "mscclpp"]) == 0
    (plan,) = [json.loads(path.read_text()) for path in Path("out/mscclpp").glob("sum.*")]
    assert plan["max_message_size"] == 2**32 - 2**22
    assert tuned_sizes(2**31, 2**33) == (2**31, 2**32, 2**33)


def test_plans_for_sizes_from_2_gib_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Their reader takes no smallest message above 2 GiB - 1, so the file says that, and the script what was asked."""
    words = [*WORDS, "ring", "--protocol", "Simple", "-o", "out", "--emit", "mscclpp", "--sizes"]
    assert main([*words, "3GiB..4GiB"]) == 0
    note = "the first MSCCL++ plan says 2GiB - 1 as its smallest message"
    assert note in capsys.readouterr().err
    (plan,) = [json.loads(path.read_text()) for path in Path("out/mscclpp").glob("sum.*")]
    assert (plan["min_message_size"], plan["max_message_size"]) == (2**31 - 1, 2**32 - 2**22)
    assert f"    ({3 << 30}, {2**32 - 2**22}, " in Path("out/mscclpp/register_plans.py").read_text()
    (written,) = json.loads(Path("out/tuning.json").read_text())["notes"]
    assert written.startswith(note)


def test_sizes_that_no_plan_serves(capsys: pytest.CaptureFixture[str]) -> None:
    """An error only if plans alone are asked for; for a scatter, plans count the parts of all ranks."""
    words = [*WORDS, "ring", "--protocol", "Simple", "-o", "out", "--quiet", "--sizes", "5GiB..8GiB"]
    assert main(words) == 0
    (note,) = json.loads(Path("out/tuning.json").read_text())["notes"]
    assert note == "no MSCCL++ plans: their 32-bit offsets end at 4092MiB"
    assert main([*words, "--emit", "mscclpp"]) == 3
    assert note in capsys.readouterr().err
    Path("p.coll").write_text(PROGRAM.replace("all_reduce", "scatter"))
    words = [*WORDS[:-1], "--protocol", "Simple", "-o", "out", "--emit", "mscclpp"]
    assert main([*words, "--algorithm", "direct", "--sizes", "768MiB..4GiB", "--quiet"]) == 0
    (row,) = json.loads(Path("out/tuning.json").read_text())["ranges"]
    assert (row["min_bytes"], row["max_bytes"]) == ((2**31 - 1) // 4, 1023 << 20)


def test_packets_cost_twice_their_bytes_once() -> None:
    """The messages of a plan of packets have both payload and flags, so that LL takes no bandwidth from them."""
    assert of_plans(DEFAULT_COSTS["LL"]).share == 1
    assert of_plans(DEFAULT_COSTS["Simple"]) == DEFAULT_COSTS["Simple"]


NVLS = """
import std.collectives
topology node(n: int = 3) {
    npu gpu[n]
    switch nvswitch (multicast: true, reduce: true)
    for i in 0..n { link gpu[i] <-> nvswitch (bandwidth: 450GB/s, latency: 0.35us) }
}
topology t = node()
schedule sum on t { run all_reduce(t.npus, size: 48MiB) }
"""


def test_plans_over_switches_that_add() -> None:
    """They are tried beside those from GPU to GPU, and MSCCL files go from GPU to GPU."""
    Path("p.coll").write_text(NVLS)
    words = ["tune", "p.coll", "--sizes", "16MiB..64MiB", "--chunks", "1", "--instances", "1", "--algorithm", "auto"]
    assert main([*words, "--protocol", "Simple", "-o", "out", "--quiet"]) == 0
    written = json.loads(Path("out/tuning.json").read_text())
    assert [(row["kind"], row["in_network"]) for row in written["ranges"]] == [("msccl", False), ("mscclpp", True)]
    assert "glres" in Path("out/mscclpp/sum.0.json").read_text()
    for row in written["times_ps"]:
        assert row["ideal"] <= row["mscclpp"] < row["msccl"]


def test_plans_of_an_earlier_run_do_not_stay() -> None:
    """A script that registers plans for other sizes than `tuning.json` says would be used."""
    words = [*WORDS, "ring", "--protocol", "Simple", "--sizes", "64KiB..64KiB", "-o", "out", "--quiet"]
    assert main(words) == 0
    Path("out/mscclpp/mine.txt").write_text("kept")
    assert main([*words, "--emit", "msccl"]) == 0
    assert [path.name for path in Path("out/mscclpp").iterdir()] == ["mine.txt"]
    assert [path.name for path in Path("out/msccl").iterdir()] == ["sum.0.xml"]


@pytest.mark.slow
def test_times_are_those_of_simulate(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a start-up cost, the times are those of `collc simulate`; a start-up cost of 1 us comes on top."""
    words = [*WORDS, "ring", "--emit", "msccl", "-o", "out", "--protocol"]
    assert main([*words, "Simple=1:0us"]) == 0
    found = json.loads(Path("out/tuning.json").read_text())
    capsys.readouterr()
    for row in (found["times_ps"][0], found["times_ps"][-1]):
        file = next(r["file"] for r in found["ranges"] if r["min_bytes"] <= row["bytes"] <= r["max_bytes"])
        assert main(["simulate", f"out/{file}", "--on", "p.coll:t", "--size", f"{row['bytes']}B", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["time_ps"] == row["msccl"]
    assert main([*words, "Simple=1:1us"]) == 0
    slower = json.loads(Path("out/tuning.json").read_text())["times_ps"]
    assert slower[0]["msccl"] == found["times_ps"][0]["msccl"] + 6 * 10**6
    assert main([*words, "LL=1/2:0us"]) == 0
    halved = json.loads(Path("out/tuning.json").read_text())["times_ps"]
    assert halved[-1]["msccl"] > 1.5 * found["times_ps"][-1]["msccl"]
    assert json.loads(Path("out/tuning.json").read_text())["ranges"][0]["protocol"] == "LL"


class Fake:
    """Stands for classes of MSCCL++; remembers its arguments."""

    made: ClassVar[list[tuple[object, ...]]] = []

    def __init__(self, *arguments: object, **more: object) -> None:
        self.arguments = (arguments, more)
        Fake.made.append((type(self).__name__, *arguments, more))

    class Constraint:
        def __init__(self, *arguments: object) -> None:
            self.arguments = arguments

    def add_algorithm_builder(self, algorithm: object) -> None:
        Fake.made.append(("added", algorithm))

    def set_algorithm_selector(self, selector: object) -> None:
        Fake.made.append(("selector", selector))


@pytest.mark.slow
def test_the_script_registers_plans_and_selects_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([*WORDS, "ring,direct", "--emit", "mscclpp", "--tolerance", "0", "-o", "out"]) == 0
    runtime, extension = types.ModuleType("mscclpp"), types.ModuleType("mscclpp.ext")
    for name in ("ExecutionPlan", "Algorithm"):
        setattr(runtime, name, type(name, (Fake,), {}))
    extension.AlgorithmCollectionBuilder = type("Builder", (Fake,), {})  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "mscclpp", runtime)
    monkeypatch.setitem(sys.modules, "mscclpp.ext", extension)
    spec = importlib.util.spec_from_file_location("register_plans", "out/mscclpp/register_plans.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    Fake.made.clear()
    script.register(3)
    plans = [made for made in Fake.made if made[0] == "ExecutionPlan"]
    written = json.loads(Path("out/tuning.json").read_text())["ranges"]
    assert [Path(str(plan[1])).name for plan in plans] == [Path(row["file"]).name for row in written]
    assert {plan[2] for plan in plans} == {3}
    assert len([made for made in Fake.made if made[0] == "added"]) == len(written)
    selector = next(made[1] for made in Fake.made if made[0] == "selector")
    names = [json.loads(Path("out", row["file"]).read_text())["name"] for row in written]
    assert len(set(names)) == len(names)
    algorithms = {"allreduce": {name: name for name in names}}

    def chosen(size: int, collective: str = "allreduce", ranks: int = 4) -> object:
        request = types.SimpleNamespace(collective=collective, message_size=size, world_size=ranks)
        return selector(algorithms, request)  # pyright: ignore[reportCallIssue]

    for name, row in zip(names, written, strict=True):
        assert chosen(row["min_bytes"]) == chosen(row["max_bytes"]) == name
    assert chosen((4 << 10) - 1) is None
    assert chosen((1 << 20) + 1) is None
    assert chosen(8 << 10, "allgather") is None
    assert chosen(8 << 10, ranks=8) is None


@pytest.mark.slow
def test_a_run_that_ends_early_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*WORDS, "ring,direct", "--emit", "msccl", "-o"]
    assert main([*words, "whole"]) == 0

    def interrupted(*arguments: object) -> Generator[tuple[int, object]]:
        for found in serial(*arguments):  # pyright: ignore[reportArgumentType]
            yield found
            if len(ran) == 2:
                raise KeyboardInterrupt

    ran.clear()
    with monkeypatch.context() as patch:
        patch.setattr("collc.parallel.processes.run_in_processes", interrupted)
        assert main([*words, "out"]) == 130
    assert "interrupted: the same command goes on after what was done" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == [".tuning.json.journal"]
    assert main([*words, "out"]) == 0
    assert len(ran) == 3
    for path in Path("whole").rglob("*.*"):
        assert Path("out", path.relative_to("whole")).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("program", "words", "exit_code", "code"),
    [
        (PROGRAM, ["--schedule", "none"], 2, "U0110"),
        (PROGRAM, ["-D", "m=3"], 1, "E0224"),
        (PROGRAM, ["--sizes", "4KiB"], 2, "U0100"),
        (PROGRAM, ["--sizes", "4KiB..1KiB"], 2, "U0100"),
        (PROGRAM, ["--protocol", "LL=2:0us"], 2, "U0100"),
        (PROGRAM, ["--protocol", "XX"], 2, "U0100"),
        (PROGRAM, ["--instances", "33"], 2, "U0100"),
        (PROGRAM, ["--emit", "ten"], 2, "U0100"),
        (PROGRAM, ["--tolerance", "2"], 2, "U0100"),
        (PROGRAM, ["--algorithm", "tako"], 2, "U0102"),
        (PROGRAM + PROGRAM.split("\n")[-2].replace("sum", "two"), [], 2, "U0107"),
        (GROUP.replace("1MiB)", "1MiB) using ring"), [], 2, "U0160"),
        (PROGRAM, ["--dtype", "float32"], 2, "U0160"),
        (PROGRAM, ["--emit", "run", "--dtype", "floaty"], 2, "U0160"),
        (PROGRAM.replace("{ run", "{ run all_reduce(t.npus, size: 1MiB) run"), [], 2, "U0160"),
        (PROGRAM.replace("1MiB)", '1MiB, op: "max")'), ["--emit", "mscclpp"], 1, "M0120"),
        pytest.param(PROGRAM, ["--sizes", "4B..8B", "--emit", "mscclpp"], 3, "S0311", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_tuned(
    program: str, words: list[str], exit_code: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p.coll").write_text(program)
    default = ["--algorithm", "ring", "--chunks", "1"]
    assert main(["tune", "p.coll", "-o", "out", *default, *words]) == exit_code
    assert f"error[{code}]" in capsys.readouterr().err
    assert not [path for path in Path().rglob("*.*") if path.name != "p.coll" and not path.name.endswith(".journal")]


@pytest.mark.parametrize(
    ("op", "kinds", "note"),
    [
        ("min", {"msccl"}, "no MSCCL++ plans: MSCCL++ only adds, and this is min"),
        (
            "avg",
            {"msccl", "mscclpp"},
            "avg: the file adds and does not divide; call it with ncclSum and divide the result by 4",
        ),
    ],
)
def test_files_compute_what_the_program_asks(
    op: str, kinds: set[str], note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """MSCCL++ adds whatever a call says, so that only sums and averages have plans."""
    Path("p.coll").write_text(PROGRAM.replace("1MiB)", f'1MiB, op: "{op}")'))
    words = ["tune", "p.coll", "--sizes", "64KiB..128KiB", "--chunks", "1", "--instances", "1", "--protocol", "Simple"]
    assert main([*words, "--algorithm", "ring", "-o", "out"]) == 0
    assert note in capsys.readouterr().err
    written = json.loads(Path("out/tuning.json").read_text())
    assert written["notes"] == [note]
    assert {row["kind"] for row in written["ranges"]} == kinds
    assert Path("out/mscclpp").exists() == ("mscclpp" in kinds)


def test_a_group_has_files_by_rank() -> None:
    """Its four members are a line; the other two NPUs of the ring have no rank, so nothing passes them."""
    Path("p.coll").write_text(GROUP)
    words = [*WORDS, "overlapped", "-o", "out", "--emit", "msccl", "--profile", "rccl", "--protocol", "LL", "--quiet"]
    assert main(words) == 0
    written = json.loads(Path("out/tuning.json").read_text())
    assert (written["npus"], written["not_tried"]) == (4, [])
    assert {row["profile"] for row in written["ranges"]} == {"rccl"}
    assert all(row["ideal"] <= row["msccl"] for row in written["times_ps"])
    (ranks,) = json.loads(Path("out/sum.ranks.json").read_text())["runs"]
    assert ranks["ranks"] == ["npu[2]", "npu[0]", "npu[1]", "npu[3]"]
    for row in written["ranges"]:
        assert main(["verify", f"out/{row['file']}", "--profile", "rccl"]) == 0


@pytest.mark.slow
def test_a_file_that_fails_its_checks_is_not_published(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from collc.emit.output import WrittenFile

    def failing(*_arguments: object) -> WrittenFile:
        return WrittenFile({"race": "failed"})

    monkeypatch.setattr(tuning_report, "write_msccl", failing)
    assert main([*WORDS, "ring", "--emit", "msccl", "-o", "out"]) == 4
    assert "S0401" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == [".tuning.json.journal"]


def test_errors_name_the_file_of_the_user_and_nothing_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "net.coll").write_text(PROGRAM[: PROGRAM.index("schedule")])
    own = 'import "sub/net.coll"\nimport std.collectives\nschedule s on t { run all_gather(t.npus, size: 1) }\n'
    (tmp_path / "p.coll").write_text(own)
    files = read_program(Path("p.coll")).files
    (tmp_path / "p.coll").unlink()
    (tmp_path / "sub" / "net.coll").unlink()
    with pytest.raises(SourceError) as caught:
        load_files(files, {}, None, None)
    spans = [message.span for message in caught.value.diagnostics]
    assert [span and (span.file.name, span.line) for span in spans] == [("p.coll", 3)]
    with pytest.raises(SourceError) as caught:
        load_files(replace(files, files=(files.files[0], ("sub/net.coll", "let x = y"))), {}, None, None)
    assert {span and span.file.name for span in [message.span for message in caught.value.diagnostics]} >= {
        "sub/net.coll"
    }
