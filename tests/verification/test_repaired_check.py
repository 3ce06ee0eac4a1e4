"""The proof of repaired schedules: nothing that it accepts is refuted by the check of all transfers one by one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from collc.synthesis.symmetric.repaired import repaired_schedule
from collc.synthesis.task import Effort
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.repaired_schedule import RepairedSchedule
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification import verify_schedule
from collc.verification.repaired_check import is_repaired_right
from tests.support import all_gather, all_reduce, all_to_all, grid, reduce_scatter
from tests.synthesis.clusters import rails
from tests.synthesis.test_repaired_networks import damaged, with_rate

KINDS = {"all_gather": all_gather, "reduce_scatter": reduce_scatter, "all_reduce": all_reduce, "all_to_all": all_to_all}


@cache
def example(network: str, kind: str) -> tuple[Module, RepairedSchedule]:
    net = {
        "nic": lambda: damaged(rails(3, 3), [], [(4, 13)]),
        "gpu": lambda: damaged(rails(3, 3), [4], []),
        "npu": lambda: damaged(grid(3, 3, wrap=True), [4], []),
        "link": lambda: damaged(grid(3, 3, wrap=True), [], [(0, 1)]),
        "slow": lambda: with_rate(rails(3, 3), 4, 13, 0.5),
        "slow link": lambda: with_rate(grid(3, 3, wrap=True), 0, 1, 0.5),
    }[network]()
    module = Module("m", net, KINDS[kind](net.npus.tolist(), chunk=4096, chunks=2), LinkModel.PIPELINED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("collc.synthesis.symmetric.rerouted.MOST_LISTED", 0)
        schedule = repaired_schedule(module, Effort())
    assert isinstance(schedule, RepairedSchedule)
    return module, schedule


def is_listed_right(module: Module, schedule: RepairedSchedule) -> bool:
    listed = RowSchedule(schedule.model, schedule.transfers)
    return verify_schedule(module.with_schedule(listed, "")).ok


def with_column(rows: Transfers, name: str, row: int, value: object) -> Transfers:
    column = getattr(rows, name).copy()
    column[row] = value
    columns = {each: getattr(rows, each) for each in ("chunk", "link", "start", "reduce")} | {name: column}
    return Transfers.of(**columns)


def without(rows: Transfers, row: int) -> Transfers:
    return rows.select(np.arange(len(rows)) != row)


def mutant(module: Module, schedule: RepairedSchedule, random: np.random.Generator) -> RepairedSchedule:
    """One or two random changes of what is dropped, what is added, or the rows of the whole network."""
    dropped, added, factored = schedule.dropped, schedule.added, schedule.factored
    images = len(factored)
    row = int(random.integers(len(added)))
    near = int(random.choice(added.start)) + int(random.integers(-1, 2))
    match int(random.integers(9)):
        case 0:
            dropped = np.delete(dropped, random.integers(len(dropped)))
        case 1:
            dropped = np.union1d(dropped, random.integers(images, size=random.integers(1, 3)))
        case 2:
            added = without(added, row)
        case 3:
            added = with_column(added, "start", row, max(0, near))
        case 4:
            added = with_column(added, "start", row, max(0, int(added.start[row]) + int(random.integers(-999, 999))))
        case 5:
            added = with_column(added, "link", row, random.integers(module.network.link_count))
        case 6:
            added = with_column(added, "chunk", row, random.choice(added.chunk))
        case 7:
            added = with_column(added, "reduce", row, not added.reduce[row])
        case _:
            rows, which = factored.rows, int(random.integers(len(factored.rows)))
            start = max(0, int(rows.start[which]) + int(random.integers(-2, 3)))
            same = rows.start[which] == start or not 0 < which < len(rows) - 1
            if same or not rows.start[which - 1] < start < rows.start[which + 1]:  # rows keep their numbers
                return mutant(module, schedule, random)
            factored = replace(factored, rows=with_column(rows, "start", which, start))
    found = replace(schedule, dropped=dropped, added=added, factored=factored)
    return mutant(module, found, random) if random.integers(4) == 0 else found


def attack(network: str, kind: str, seed: int, count: int) -> int:
    """How many of some mutants are proved; each of them must be right."""
    module, schedule = example(network, kind)
    random, proved = np.random.default_rng(seed), 0
    for _ in range(count):
        changed = mutant(module, schedule, random)
        if is_repaired_right(module.with_schedule(changed, ""), changed):
            proved += 1
            assert is_listed_right(module, changed)
    return proved


EXAMPLES = [(network, kind) for network in ("nic", "gpu", "npu", "link", "slow", "slow link") for kind in KINDS]


@pytest.mark.parametrize(("network", "kind"), EXAMPLES)
def test_what_is_proved_is_right(network: str, kind: str) -> None:
    module, schedule = example(network, kind)
    assert is_repaired_right(module.with_schedule(schedule, ""), schedule)
    assert is_listed_right(module, schedule)
    attack(network, kind, 1, 60)


@pytest.mark.slow
@pytest.mark.parametrize(("network", "kind"), EXAMPLES)
def test_what_is_proved_is_right_in_many_mutants(network: str, kind: str) -> None:
    assert attack(network, kind, 2, 1000) < 1000


@pytest.mark.parametrize(("network", "kind"), EXAMPLES)
def test_each_part_of_the_difference_is_needed(network: str, kind: str) -> None:
    """Nothing that is added can be left out, and of what is dropped only a copy that nobody needs."""
    module, schedule = example(network, kind)
    for number in range(0, len(schedule.added), 3):
        less = replace(schedule, added=without(schedule.added, number))
        assert not is_repaired_right(module.with_schedule(less, ""), less)
    for number in range(0, len(schedule.dropped), 3):
        more = replace(schedule, dropped=np.delete(schedule.dropped, number))
        assert not is_repaired_right(module.with_schedule(more, ""), more) or is_listed_right(module, more)


@pytest.mark.parametrize("network", ["nic", "npu", "link", "slow link"])
def test_routes_of_whole_blocks_prove_an_all_to_all(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states of NPUs are not looked at. A block of which a hop is left has no such proof, nor if the hop of another
    one is dropped in its place.
    """
    module, schedule = example(network, "all_to_all")
    monkeypatch.setattr("collc.verification.repaired_check._RepairCheck.npus_are_right", lambda _: False)
    assert is_repaired_right(module.with_schedule(schedule, ""), schedule)
    count = schedule.factored.translations.count
    for number, image in enumerate(schedule.dropped.tolist()):
        others = np.setdiff1d(np.arange(image - image % count, image - image % count + count), schedule.dropped)
        less = np.delete(schedule.dropped, number)
        for dropped in (less, *(np.sort(np.append(less, other)) for other in others[:1])):
            changed = replace(schedule, dropped=dropped)
            assert not is_repaired_right(module.with_schedule(changed, ""), changed)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["nic", "gpu", "npu", "link", "slow", "slow link"])
def test_what_routes_prove_is_right(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if nothing else is looked at than routes and what is free, of changes to what is added alone."""
    monkeypatch.setattr("collc.verification.repaired_check._RepairCheck.npus_are_right", lambda _: False)
    assert attack(network, "all_to_all", 3, 1000) < 1000


def test_what_contradicts_the_module_is_not_proved() -> None:
    module, schedule = example("nic", "all_reduce")
    run, net = module.demand.runs[0], module.network
    assert run.standard is not None
    other_op = replace(module.demand, runs=(replace(run, standard=replace(run.standard, op=Op.MAX)),))
    fewer = replace(module.demand, runs=(replace(run, group=run.group[:-1]),))
    present = net.present.copy()
    present[0] = False
    modules = [
        replace(module, model=LinkModel.STORE),
        replace(module, demand=all_gather(net.npus.tolist(), chunk=4096, chunks=2)),
        replace(module, demand=all_reduce(net.npus.tolist(), chunk=8192, chunks=2)),
        replace(module, demand=all_reduce(net.npus.tolist()[::-1], chunk=4096, chunks=2)),
        replace(module, demand=other_op),
        replace(module, demand=fewer),
        replace(module, network=replace(net, present=present)),
        replace(module, network=replace(net, source=net.target, target=net.source)),
        replace(module, network=replace(net, multicast=~net.multicast)),
        replace(module, network=replace(net, buffers=np.zeros_like(net.buffers))),
    ]
    for each in modules:
        assert not is_repaired_right(each.with_schedule(schedule, ""), schedule)
    rows = schedule.added
    for added in (
        with_column(rows, "chunk", 0, len(run.pattern)),
        with_column(rows, "link", 0, net.link_count),
        with_column(rows, "start", 0, 2**50),
        replace(rows, relayed=np.zeros(len(rows), np.int32)),
        replace(rows, kept=rows.reduce),
        rows.select(np.arange(len(rows))[::-1]),
    ):
        other = replace(schedule, added=added)
        assert not is_repaired_right(module.with_schedule(other, ""), other)
    translations = schedule.factored.translations
    turned = replace(translations, link=translations.link[:, np.arange(translations.link.shape[1])[::-1]])
    turns = np.ones(len(schedule.factored.rows), np.int64)
    for factored in (replace(schedule.factored, translations=turned), replace(schedule.factored, turn=turns)):
        other = replace(schedule, factored=factored)
        assert not is_repaired_right(module.with_schedule(other, ""), other)
