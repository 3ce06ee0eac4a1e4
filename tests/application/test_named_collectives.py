"""`collc verify` against named collectives and programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.application.verify.named_collectives import check_demand
from collc.base.diagnostics import CheckFailed, UsageError
from collc.ten.module import Module
from tests import support

MAKERS = {
    "all_gather": support.all_gather,
    "reduce_scatter": support.reduce_scatter,
    "all_reduce": support.all_reduce,
    "all_to_all": support.all_to_all,
    "broadcast": support.broadcast,
    "reduce": support.reduce,
    "scatter": support.scatter,
    "gather": support.gather,
}


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("name", MAKERS)
def test_each_demand_matches_only_its_own_name(name: str, chunks: int) -> None:
    module = Module("m", support.ring(4), MAKERS[name]([0, 1, 2, 3], chunks=chunks))
    check_demand(module, name, 0)
    check_demand(module, name.replace("_", ""), 0)
    for other in MAKERS.keys() - {name}:
        with pytest.raises(CheckFailed, match="the demand is not"):
            check_demand(module, other, 0)


def test_the_root_counts() -> None:
    module = Module("m", support.ring(4), support.broadcast([0, 1, 2, 3], root=2))
    check_demand(module, "broadcast", 2)
    with pytest.raises(CheckFailed, match="precondition"):
        check_demand(module, "broadcast", 1)
    with pytest.raises(UsageError, match="rank 4"):
        check_demand(module, "broadcast", 4)


def test_a_group_in_another_order_is_another_collective() -> None:
    module = Module("m", support.ring(4), support.all_gather([0, 2, 1, 3]))
    with pytest.raises(CheckFailed, match="precondition"):
        check_demand(module, "all_gather", 0)


def test_an_unknown_name_is_reported() -> None:
    module = Module("m", support.ring(4), support.all_gather([0, 1, 2, 3]))
    with pytest.raises(UsageError, match="no collective") as caught:
        check_demand(module, "all_gathr", 0)
    assert "all_gather" in caught.value.diagnostics[0].hint


def test_through_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from collc.command.cli import main
    from collc.ten.text import write_module

    with (tmp_path / "a.ten").open("w") as file:
        write_module(Module("m", support.ring(4), support.all_gather([0, 1, 2, 3])), file)
    path = str(tmp_path / "a.ten")
    assert main(["verify", path, "--collective", "all_gather"]) == 0
    assert main(["verify", path, "--collective", "all_reduce"]) == 4
    assert "the demand is not all_reduce" in capsys.readouterr().err


def test_a_missing_schedule_or_a_wrong_bound_gives_a_warning(tmp_path: Path, capsys) -> None:
    from dataclasses import replace

    from collc.command.cli import main
    from collc.passes.registry import Invert, PassContext, Synthesize
    from collc.ten.module import Bound
    from collc.ten.schedule import RowSchedule
    from collc.ten.text import write_module

    module = Module("m", support.ring(4), support.all_gather([0, 1, 2, 3]))
    solved = Invert().run(Synthesize("tacos").run(module, PassContext()), PassContext())
    rows = solved.schedule.transfers
    late = replace(solved, schedule=RowSchedule(solved.model, rows.at(rows.start + 1000)))
    path = tmp_path / "a.ten"
    errors = {}
    for name, what in (
        ("none", module),
        ("false", replace(late, bound=Bound(late.collective_time(), "wishful thinking"))),
        ("refuted", replace(late, bound=Bound(late.collective_time() + 1, "wishful thinking"))),
        ("good", solved),
    ):
        with path.open("w") as file:
            write_module(what, file)
        assert main(["verify", str(path)]) == (4 if name == "refuted" else 0)
        errors[name] = capsys.readouterr().err
    assert "V0111" in errors["refuted"]
    assert "nothing to check" in errors["none"]
    assert "can only show" in errors["false"]
    assert errors["good"] == ""
