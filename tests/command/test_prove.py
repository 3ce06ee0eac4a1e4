"""`collc compile --prove`, `verify optimal` and `--certificate`, from the program to the files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collc.command.cli import main

pytestmark = pytest.mark.usefixtures("folder")

HEAD = """
import std.topologies
import std.collectives
topology loop = ring(4, bandwidth: 50GiB/s, latency: 0.5us, one_way: false)
"""
SLOW = (
    HEAD
    + """
algorithm slow(g: group, size: bytes, chunks: int = 1) implements all_gather(g, size, chunks) {
    for s in 0..3, i in 0..4, c in 0..chunks { send x[(i - s) %% 4, c] from g[i] to g[(i + 1) %% 4] at s }
}
schedule s on loop { run all_gather(loop.npus, size: 4MiB) using slow %s emit ten }
"""
)
STEP = 20_031_250


def compiled(capsys: pytest.CaptureFixture[str], text: str, *words: str) -> tuple[int, dict[str, object], str]:
    """The exit code, the report of the last schedule, and stderr."""
    Path("p.coll").write_text(text)
    code = main(["compile", "p.coll", "-o", "out", "--json", *words])
    output = capsys.readouterr()
    return code, json.loads(output.out)["schedules"][-1], output.err


def solver() -> list[str]:
    """The command that runs Z3, which comes with its Python package."""
    path = Path(sys.executable).parent / "z3"
    if not path.exists():
        pytest.skip("there is no z3 command beside this Python")
    return [str(path), "-smt2"]


def rerun(certificate: Path) -> list[str]:
    """The answers in a certificate, after a run of Z3 that gave the same answers."""
    claimed = re.findall("^; answer: (.*)$", certificate.read_text(), re.MULTILINE)
    done = subprocess.run([*solver(), str(certificate)], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == claimed, done.stdout
    return claimed


def test_a_shorter_schedule_is_written_with_prove(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, errors = compiled(capsys, SLOW % "", "--prove")
    assert (code, report["steps"], report["checks"]["proved"]) == (0, 3, "ok")
    assert report["files"] == ["out/s.ten"]
    optimal = report["optimal"]
    assert (optimal["answer"], optimal["shorter"]) == (
        "refuted",
        {"file": "out/s.shorter.ten", "time_ps": 2 * STEP},
    )
    assert "warning[C0104]" in errors
    assert "it is in out/s.shorter.ten, verified" in errors
    assert main(["verify", "out/s.shorter.ten", "--collective", "all_gather", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert (set(verdict["checks"].values()), verdict["summary"]["time_ps"]) == ({"ok"}, 2 * STEP)


def test_a_shorter_schedule_is_written_with_verify_optimal(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, errors = compiled(capsys, SLOW % "verify optimal", "--certificate", "c.smt2")
    assert (code, report["checks"]["optimal"], report["files"]) == (4, "failed", [])
    assert report["optimal"]["shorter"]["file"] == "out/s.shorter.ten"
    assert "error[C0104]" in errors
    assert sorted(path.name for path in Path("out").iterdir()) == ["s.shorter.ten"]
    assert rerun(Path("c.smt2")) == ["sat"]


def test_a_wrong_shorter_schedule_is_not_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the search returns a wrong schedule, the check of the written file finds it."""
    from dataclasses import replace

    from collc.ten.schedule import RowSchedule, Transfers
    from collc.verification import optimal

    true_answer = optimal.prove_optimal

    def wrong(*given: object) -> optimal.Optimality:
        found = true_answer(*given)
        rows = Transfers.concatenate([])
        return replace(found, shorter=replace(found.shorter, schedule=RowSchedule(found.shorter.model, rows)))

    monkeypatch.setattr(optimal, "prove_optimal", wrong)
    code, _, errors = compiled(capsys, SLOW % "", "--prove")
    assert code == 4
    assert "V0301" in errors
    assert not list(Path().glob("out/*"))


def test_a_proof_has_a_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD + "schedule s on loop { run all_reduce(loop.npus, size: 4MiB) synthesize %s }"
    code, report, _ = compiled(capsys, text % "auto", "--prove", "--certificate", "c.smt2")
    assert (code, report["checks"]["proved"]) == (0, "ok")
    claimed = rerun(Path("c.smt2"))
    assert claimed[-5:] == ["unsat"] * 5
    logics = re.findall(r"^\(set-logic (\w+)\)$", Path("c.smt2").read_text(), re.MULTILINE)
    assert logics[-5:] == ["QF_LIA", "QF_LIA", "QF_LIA", "QF_BV", "QF_LIA"]
    assert set(logics[:-5]) <= {"QF_UF"}
    assert len(logics) == len(claimed)


def test_a_certificate_has_only_standard_commands(capsys: pytest.CaptureFixture[str]) -> None:
    compiled(capsys, SLOW % "verify optimal, proved", "--certificate", "c.smt2")
    lines = Path("c.smt2").read_text().splitlines()
    commands = {line.split()[0].strip("()") for line in lines if not line.startswith(";")}
    assert commands == {"set-logic", "declare-const", "define-fun", "assert", "check-sat", "reset"}
    assert {line.split()[2] for line in lines if line.startswith("; solver")} == {"Z3"}


def test_each_of_several_schedules_has_its_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD + "".join(
        f"schedule {name} on loop {{ run {run}(loop.npus, size: 4MiB) }}\n"
        for name, run in (("a", "all_gather"), ("b", "all_to_all"))
    )
    assert compiled(capsys, text, "--prove", "--certificate", "c.smt2")[0] == 0
    assert sorted(path.name for path in Path().glob("*.smt2")) == ["c.a.smt2", "c.b.smt2"]
    assert rerun(Path("c.a.smt2"))[-5:] == ["unsat"] * 5


def test_a_met_bound_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, _ = compiled(capsys, HEAD + "schedule s on loop { run all_gather(loop.npus, size: 4MiB) }", "--prove")
    assert (code, report["optimal"]["answer"], report["optimal"]["shorter"]) == (0, "proved", None)
    assert report["optimal"]["reason"].startswith("the lower bound is met (")


def test_without_a_proof_the_report_has_no_optimality(capsys: pytest.CaptureFixture[str]) -> None:
    _, report, _ = compiled(capsys, SLOW % "")
    assert "optimal" not in report


def test_an_undecided_proof_is_reported_and_fails_only_verify_optimal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from collc.smt.script import Undecided
    from collc.verification import optimal

    def too_large(*_given: object) -> None:
        raise Undecided("the question would be larger than 30 MB")

    monkeypatch.setattr(optimal, "DeadlineEncoding", too_large)
    code, report, _ = compiled(capsys, SLOW % "", "--prove")
    assert (code, report["files"]) == (0, ["out/s.ten"])
    assert report["optimal"] == {
        "answer": "undecided",
        "reason": "the question would be larger than 30 MB",
        "shorter": None,
    }
    assert "optimal: not decided: the question would be larger than 30 MB" in report["notes"]
    code, _, errors = compiled(capsys, SLOW % "verify optimal")
    assert (code, "error[C0103]" in errors) == (4, True)


# Hints


CONGESTED = (
    HEAD
    + "import std.algorithms\n"
    + "schedule s on loop { run all_gather(loop.npus, size: 4MiB) using direct allow congestion %s emit ten }"
)


def test_a_schedule_with_queues_is_proved_as_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    code, report, errors = compiled(capsys, CONGESTED % "verify optimal")
    assert (code, report["checks"]["congestion_free"], report["checks"]["optimal"]) == (4, "allowed", "failed")
    assert "error[C0104]: the schedule is not optimal" in errors
    code, report, _ = compiled(capsys, CONGESTED % "verify proved")
    assert (code, report["checks"]["proved"]) == (4, "failed")
    code, report, _ = compiled(capsys, CONGESTED % "")
    assert (code, report["checks"]["congestion_free"]) == (0, "allowed")


def hint_of(errors: str, code: str) -> str:
    """The hint of the first message with that code."""
    after = errors[errors.index(f"[{code}]") :].split("\n\n", maxsplit=1)[0]
    return next(line.removeprefix("help: ") for line in after.splitlines() if line.startswith("help: "))


@pytest.mark.parametrize(
    ("limit", "possible"),
    [
        ("steps <= 1", False),
        ("steps <= 2", True),
        ("steps < 2", False),
        ("steps == 1", False),
        ("steps == 2", True),
        ("time <= 0.5 * bound", False),
        ("time < bound", False),
        ("time <= bound", True),
        ("time <= 40us", False),
        ("time <= 41us", True),
        ("time >= 1s", None),
    ],
)
def test_a_limit_below_the_bound_is_reported_as_impossible(
    capsys: pytest.CaptureFixture[str], limit: str, possible: bool | None
) -> None:
    code, _, errors = compiled(capsys, SLOW % f"verify {limit}")
    hint = hint_of(errors, "C0102")
    assert code == 4
    assert ("no schedule can meet it" in hint) is (possible is False)
    assert ("more trials" in hint) is (possible is True)


def test_more_time_is_advised_only_after_a_time_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from collc.smt.script import Undecided
    from collc.smt.solver import Certificate
    from collc.verification import optimal, prove

    def short(text: str, *_more: object, **_named: object) -> tuple[Certificate, frozenset[str]]:
        return Certificate(text, "unknown", "Z3"), frozenset()

    monkeypatch.setattr(prove, "solve", short)
    monkeypatch.setattr(optimal, "solve", short)
    _, _, errors = compiled(capsys, SLOW % "verify optimal, proved")
    assert "--time-limit" in hint_of(errors, "C0103")
    errors = errors[errors.index("[C0103]") :]
    _, _, errors = compiled(capsys, SLOW % "verify proved")
    assert "--time-limit" in hint_of(errors, "C0105")
    monkeypatch.setattr(prove, "MOST_TRANSFERS", 1)
    monkeypatch.setattr("collc.smt.encoding.MOST_BYTES", 1, raising=False)
    _, _, errors = compiled(capsys, SLOW % "verify proved")
    assert "--time-limit" not in hint_of(errors, "C0105")
    assert "fewer NPUs" in hint_of(errors, "C0105")

    def too_large(*_given: object) -> None:
        raise Undecided("the question would be larger than 30 MB")

    monkeypatch.setattr(optimal, "DeadlineEncoding", too_large)
    _, _, errors = compiled(capsys, SLOW % "verify optimal")
    assert "--time-limit" not in hint_of(errors, "C0103")


@pytest.mark.parametrize(
    ("asked", "advised"), [("", "ask for a proof: --prove"), ("verify optimal", "optimal without Z3")]
)
def test_a_missing_certificate_is_explained(capsys: pytest.CaptureFixture[str], asked: str, advised: str) -> None:
    text = HEAD + f"schedule s on loop {{ run all_gather(loop.npus, size: 4MiB) {asked} }}"
    code, _, errors = compiled(capsys, text, "--certificate", "c.smt2")
    assert (code, Path("c.smt2").exists()) == (0, False)
    assert advised in hint_of(errors, "C0207")
