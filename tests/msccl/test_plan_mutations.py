"""Plans by hand and of collc, broken in every way: what goes wrong in the emulation in any order, the check refuses."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from collc.msccl.check.findings import Verdict
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement, Protocol
from collc.msccl.plans.plan import plan_of, plans_of
from collc.msccl.running.run_plan import run_plan_file
from tests import support
from tests.emulation.judge import judge_plan
from tests.emulation.mutants import mutated_plan

from . import hand_plans as by_hand
from .lowering import in_switch, linked_nodes, scheduled

ONE_PER_NODE = {"gpus_per_node": 1}
PACKETS = {"protocol": Protocol.LL}
IN_PLACE = {"placement": Placement.IN}


def planned(network, collective, members, chunks=1, **options):
    """A function that makes the plan of a schedule."""
    demand = collective([*range(members)], chunks=chunks)
    return lambda: plan_of(scheduled(network, demand), MscclOptions(**options))


def over_switch(collective, members, nodes=1, chunks=1, **options):
    """A function that makes the last plan over switches that add and multicast."""
    demand = collective([*range(members)], chunks=chunks)
    return lambda: [*plans_of(in_switch(demand, nodes), MscclOptions(**options))][-1]


GATHER, REDUCE, PAIR, RING = support.all_gather, support.all_reduce, support.ring(2), support.ring(4)
TINY = {
    "all-gather by hand": lambda: by_hand.all_gather(2),
    "all-reduce by hand": lambda: by_hand.all_reduce(2),
    "semaphores": by_hand.by_semaphore,
    "reads and barriers": lambda: by_hand.read_reduce(2),
    "all-gather over ports by hand": lambda: by_hand.all_gather(2, "port"),
    "puts with signals": lambda: by_hand.by_port(2),
    "stores to all": lambda: by_hand.multicast(2),
    "all-gather": planned(PAIR, GATHER, 2),
    "all-reduce": planned(PAIR, REDUCE, 2),
    "all-gather over ports": planned(PAIR, GATHER, 2, **ONE_PER_NODE),
    "all-reduce over ports": planned(PAIR, REDUCE, 2, **ONE_PER_NODE),
    "all-reduce in a switch": over_switch(REDUCE, 2),
    "all-reduce in a switch, in place": over_switch(REDUCE, 2, **IN_PLACE),
    "all-gather of packets": planned(PAIR, GATHER, 2, **PACKETS),
    "all-reduce of packets": planned(PAIR, REDUCE, 2, **PACKETS),
    "packets over ports": planned(PAIR, GATHER, 2, **PACKETS, **ONE_PER_NODE),
}
LARGER = {
    "all-reduce on a ring": planned(RING, REDUCE, 4),
    "all-reduce on a mesh": planned(support.grid(3, 3), REDUCE, 9),
    "all-reduce in place": planned(support.fully_connected(4), REDUCE, 4, **IN_PLACE),
    "reduce-scatter": planned(support.fully_connected(5), support.reduce_scatter, 5),
    "all-gather of two chunks": planned(support.grid(2, 2), GATHER, 4, 2),
    "all-to-all": planned(RING, support.all_to_all, 4),
    "instances": planned(support.ring(3), REDUCE, 3, instances=2),
    "all-gather in nodes": planned(linked_nodes(), GATHER, 6),
    "all-reduce in nodes": planned(linked_nodes(2, 2), REDUCE, 4),
    "all-reduce in nodes, in place": planned(linked_nodes(), REDUCE, 6, **IN_PLACE),
    "all-to-all in nodes": planned(linked_nodes(2, 2), support.all_to_all, 4),
    "all-reduce of packets on a ring": planned(RING, REDUCE, 4, **PACKETS),
    "all-gather of packets on a mesh": planned(support.grid(2, 2), GATHER, 4, **PACKETS),
    "all-reduce of packets in nodes": planned(linked_nodes(2, 2), REDUCE, 4, **PACKETS),
    "broadcast of packets": planned(RING, support.broadcast, 4, **PACKETS),
    "gather of packets over ports": planned(RING, support.gather, 4, **PACKETS, **ONE_PER_NODE),
    "all-reduce of two chunks in a switch": over_switch(REDUCE, 4, chunks=2),
    "all-gather in a switch": over_switch(GATHER, 4, chunks=2),
    "all-reduce in two switches": over_switch(REDUCE, 8, 2),
    "sums in turn": over_switch(REDUCE, 6, 2, 2),
    "all-reduce in a large switch": over_switch(REDUCE, 18),
}


def judged(folder: Path, plan) -> tuple[Verdict, str]:
    """What the check says, and what happens in the emulation."""
    path = by_hand.plan_file(folder, plan)
    return check_plan(path, root=0), judge_plan(path.read_text(), root=0, runs=3).kind


@pytest.mark.parametrize("name", {**TINY, **LARGER})
def test_good_plans_are_right(name, tmp_path):
    verdict, happens = judged(tmp_path, (TINY | LARGER)[name]())
    assert set(verdict.checks.values()) == {"ok"}
    assert happens == "right"


def mutants(name: str, good: str, count: int) -> Iterator[tuple[str, str]]:
    """Mutants of a plan that the emulation judges, and what was changed.

    It takes a packet for no order with what its operation reads, and signals over ports for exact.
    """
    draw = random.Random(name)
    while count:
        mutant, change = mutated_plan(good, draw)
        if mutant != good and "double scratch" not in change and not ("relaxed" in change and '"port"' in good):
            count -= 1
            yield mutant, change


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TINY)
def test_what_passes_is_right(name, tmp_path):
    seen: Counter[str] = Counter()
    for mutant, change in mutants(name, json.dumps(TINY[name]()), 60):
        verdict, happens = judged(tmp_path, mutant)
        if verdict.ok:
            assert happens == "right", (change, mutant)
        if verdict.checks["deadlock"] == "failed":
            assert happens != "right", (change, mutant)
        seen["passes" if verdict.ok else "false alarm" if happens == "right" else "broken"] += 1
    assert seen["broken"] >= 20, seen
    assert seen["false alarm"] <= seen["broken"] // 4, seen


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", LARGER)
def test_what_passes_is_right_and_runs_right(name, tmp_path):
    refused = 0
    for mutant, change in mutants(name, json.dumps(LARGER[name]()), 20):
        path = by_hand.plan_file(tmp_path, mutant)
        verdict = check_plan(path, root=0)
        outcomes = verdict.checks
        refused += not verdict.ok
        assert all(finding.message and finding.code for finding in verdict.findings)
        if verdict.ok:
            assert judge_plan(mutant, root=0, runs=2).kind == "right", (change, mutant)
        if outcomes["contract"] == "failed" or outcomes["deadlock"] == "skipped":
            continue
        runs = [report.ok for report in run_plan_file(path, root=0, dtype="int64", runs=3)]
        if verdict.ok:
            assert all(runs), (change, mutant)
        if "failed" in (outcomes["result"], outcomes["deadlock"]) and '"LL"' not in mutant:
            # with a race, the order decides; and runs let threads send packets that wait for some
            assert not (all(runs) if outcomes["race"] == "failed" else any(runs)), (change, mutant)
    assert refused >= 8
