"""Partials that GPUs keep apart and relay: received in a slot of their own, added, and sent on, in files and plans."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from collc.application.emit.file_times import fastest_plan
from collc.base.diagnostics import CheckFailed
from collc.emit.msccl import write_plan
from collc.msccl.check_plan import check_plan
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Placement, Profile
from collc.msccl.program import Op
from collc.msccl.running.run_file import run_file
from collc.msccl.running.run_plan import run_plan_file
from collc.synthesis.exchange import exchange
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule
from tests.msccl.lowering import assert_right, steps_of, xml_of
from tests.support import all_reduce, grid, ring


def relayed(net: Network) -> Module:
    """A small All-Reduce on lines or rings, in which partials are relayed."""
    module = Module("m", net, all_reduce(net.npus.tolist(), 128), LinkModel.PIPELINED)
    built = exchange(module, Effort(), tacos)
    assert built.schedule is not None
    assert built.schedule.transfers.relayed is not None
    return built


def kept(npus: int) -> Module:
    """An All-Reduce on an odd ring, of a size at which some partials are kept apart and not added."""
    net = ring(npus, LinkKind(500_000, Fraction(50 * 10**9)))
    module = Module("m", net, all_reduce(net.npus.tolist(), 2**16 // npus), LinkModel.PIPELINED)
    built = exchange(module, Effort(), tacos)
    assert built.schedule is not None
    assert bool(built.schedule.transfers.keeps.any())
    return built


NETWORKS = [ring(5), ring(6), ring(8), grid(3, 2), grid(3, 3)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: f"{net.name}{net.npu_count}")
@pytest.mark.parametrize("options", [MscclOptions(), MscclOptions(instances=2), MscclOptions(placement=Placement.OUT)])
def test_files_are_right(net: Network, options: MscclOptions, tmp_path: Path) -> None:
    program = lower(relayed(net), options)
    assert_right(program, tmp_path)
    assert any(step.op is Op.REDUCE for step in steps_of(program))


@pytest.mark.parametrize("profile", [Profile.EXECUTOR, Profile.OLD])
def test_files_give_the_sums_on_data(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "sums.xml"
    path.write_bytes(xml_of(lower(relayed(ring(6)), MscclOptions(profile=profile))))
    for transport in ("memory", "threads"):
        reports = run_file(path, runs=2, transport=transport, profile=profile.value)
        assert reports
        assert all(report.ok for report in reports)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("net", NETWORKS[:4], ids=lambda net: f"{net.name}{net.npu_count}")
def test_plans_give_the_sums(net: Network, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with path.open("wb") as out:
        write_plan(fastest_plan(relayed(net), MscclOptions()), out)
    assert check_plan(path).ok
    assert all(report.ok for report in run_plan_file(path, runs=5))


@pytest.mark.parametrize("npus", [5, 9])
@pytest.mark.parametrize("options", [MscclOptions(), MscclOptions(instances=2), MscclOptions(placement=Placement.OUT)])
def test_files_in_which_partials_are_only_kept_are_right(npus: int, options: MscclOptions, tmp_path: Path) -> None:
    program = lower(kept(npus), options)
    assert_right(program, tmp_path)
    path = tmp_path / "sums.xml"
    path.write_bytes(xml_of(program))
    assert all(report.ok for report in run_file(path, runs=2, profile="executor"))


@pytest.mark.parametrize("profile", [Profile.OLD, Profile.RCCL])
def test_files_of_other_runtimes_in_which_partials_are_only_kept_give_the_sums(
    profile: Profile, tmp_path: Path
) -> None:
    path = tmp_path / "sums.xml"
    path.write_bytes(xml_of(lower(kept(5), MscclOptions(profile=profile))))
    assert all(report.ok for report in run_file(path, runs=2, profile=profile.value))


def test_plans_in_which_partials_are_only_kept_give_the_sums(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with path.open("wb") as out:
        write_plan(fastest_plan(kept(5), MscclOptions()), out)
    assert check_plan(path).ok
    assert all(report.ok for report in run_plan_file(path, runs=5))


def test_a_file_that_adds_what_is_only_kept_is_found_wrong(tmp_path: Path) -> None:
    module = kept(5)
    assert module.schedule is not None
    added = replace(module.schedule.transfers, kept=None)
    program = lower(replace(module, schedule=RowSchedule(LinkModel.PIPELINED, added)))
    path = tmp_path / "sums.xml"
    path.write_bytes(xml_of(program))
    assert not all(report.ok for report in run_file(path, runs=1, profile="executor"))
    with pytest.raises(AssertionError):
        assert_right(program, tmp_path)


def test_what_never_came_is_not_relayed() -> None:
    module = relayed(ring(6))
    assert module.schedule is not None
    rows = module.schedule.transfers
    first = replace(rows, relayed=rows.relays.copy())
    assert first.relayed is not None
    into = next(link for link in range(12) if module.network.target[link] == module.network.source[rows.link[0]])
    first.relayed[0] = into
    with pytest.raises(CheckFailed, match="before it holds it"):
        lower(replace(module, schedule=RowSchedule(LinkModel.PIPELINED, first)))


def test_what_is_relayed_is_needed_even_where_its_receiver_does_not_add_it() -> None:
    """Taken out of the file, one message of a partial makes a sum incomplete: all messages are there."""
    module = relayed(ring(5))
    assert module.schedule is not None
    program = lower(module)
    assert len(program.messages) == len(module.schedule)
