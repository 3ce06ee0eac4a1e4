"""A time below a proved lower bound is a fault of collc that is reported, not a share of 100 %."""

from __future__ import annotations

from pathlib import Path

import pytest

import collc.synthesis.bounds
from collc.application.schedule_times import ImpossibleTime, check_possible
from collc.base.units import percent
from collc.command.cli import main
from collc.ten.module import Bound

PROGRAM = """import std.topologies
import std.collectives
topology t = ring(4, bandwidth: 50GB/s, latency: 1us)
schedule s on t {
    run all_gather(t.npus, size: 4MB)
    synthesize pccl()
}
"""


def test_times_below_a_bound() -> None:
    check_possible("s", 10, (10, "a"), (None, "b"), (3, "c"))
    check_possible("s", None, (10, "a"))
    with pytest.raises(
        ImpossibleTime, match=r"'s' passed all checks in 9ps, but nothing can take less than 10ps \(a\)"
    ):
        check_possible("s", 9, (8, "b"), (10, "a"))


def test_a_wrong_bound_is_an_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.coll"
    file.write_text(PROGRAM)
    assert main(["compile", str(file), "--emit", "ten", "-o", str(tmp_path)]) == 0
    capsys.readouterr()

    def wrong(*_: object) -> Bound:
        return Bound(10**12, "a wrong bound")

    monkeypatch.setattr(collc.synthesis.bounds, "ideal_bound", wrong)
    for words in (["compile", str(file)], ["verify", str(tmp_path / "s.ten")]):
        assert main(words) == 5
        shown = capsys.readouterr().err
        assert "U0116" in shown
        assert "'s' passed all checks in" in shown
        assert "but nothing can take less than 1s (a wrong bound)" in shown


def test_shares_above_1_are_shown() -> None:
    shares = {
        1.0: "100.00 %",
        0.99999: "99.99 %",
        0.5: "50.00 %",
        1.00001: "100.01 %",
        1.9901: "199.01 %",
        0.0: "0.00 %",
    }
    assert {share: percent(share) for share in shares} == shares
