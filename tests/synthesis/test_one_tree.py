"""Schedules over one NPU: right on all networks that they serve, as long as slots and depth of the trees say."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from collc.base.diagnostics import SourceError
from collc.synthesis.conditions import conditions_of
from collc.synthesis.one_tree import along_one_tree, serves
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.shortest_paths import along_shortest_paths
from collc.synthesis.task import Task
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, Schedule
from collc.verification import verify_schedule
from tests import support
from tests.cpu_time import at_most
from tests.synthesis.random_problems import random_module

KIND = LinkKind(1_000_000, Fraction(10**9))


def by_one_tree(module: Module) -> tuple[Module, int]:
    """The module with a schedule, and how many of its phases go over one NPU."""
    used: list[int] = []

    def plan(task: Task) -> Schedule:
        conditions = conditions_of(task)
        plain = not task.network.has_switches and len(conditions) and task.reserved is None
        found = along_one_tree(conditions) if plain else None
        used.append(found is not None)
        return along_shortest_paths(task) if found is None else found

    return join(solve(module, plan)), sum(used)


def random_network(seed: int, npus: int, links: int, kind: LinkKind = KIND) -> Network:
    """A directed ring with further links at random."""
    source = random.Random(seed)
    pairs = {(i, (i + 1) % npus) for i in range(npus)}
    while len(pairs) < links:
        pairs.add(tuple(source.sample(range(npus), 2)))  # type: ignore[arg-type]
    return support.network(npus, [(a, b, kind) for a, b in sorted(pairs)])


def campaign(seeds: range) -> int:
    """How many phases of random modules go over one NPU; all schedules are right."""
    total = 0
    codes: set[str] = set()
    for seed in seeds:
        module = random_module(random.Random(seed))
        try:
            built, used = by_one_tree(module)
        except SourceError as no_path:
            codes.add(no_path.diagnostics[0].code)
            continue
        verdict = verify_schedule(built)
        assert verdict.ok, (seed, verdict.diagnostics)
        total += used
    assert codes <= {"S0103"}
    return total


def test_right_on_random_networks() -> None:
    assert campaign(range(60)) > 20


@pytest.mark.slow
def test_right_on_many_random_networks() -> None:
    assert campaign(range(1000, 6000)) > 2000


@pytest.mark.parametrize("run", ["all_gather", "all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("model", list(LinkModel))
def test_right_on_directed_and_random_networks(run: str, model: LinkModel) -> None:
    for links in (12, 20, 60):
        demand = getattr(support, run)(list(range(12)), 1000, 1)
        built, used = by_one_tree(Module("m", random_network(links, 12, links), demand, model))
        assert used
        assert verify_schedule(built).ok


def test_an_all_gather_takes_a_slot_for_each_chunk_and_the_depth_of_the_trees() -> None:
    """On a line of 5 NPUs whose first is the root: 5 slots and 4 hops to it, and 3 more on from its neighbour."""
    line = support.network(5, [pair for i in range(4) for pair in ((i, i + 1, KIND), (i + 1, i, KIND))])
    built, _ = by_one_tree(Module("m", line, support.all_gather(list(range(5)), 1000, 1), LinkModel.STORE))
    slot = 2_000_000  # 1 us and 1,000 bytes at 1 GB/s
    assert verify_schedule(built).ok
    assert built.collective_time() == (4 + 4 + 3) * slot


def test_large_demands_are_served_and_small_ones_are_not() -> None:
    small = random_network(1, 12, 60)
    large = random_network(1, 300, 9000)
    for network, size, expected in ((small, 12, False), (large, 300, True)):
        demand = support.all_gather(list(range(size)), 1000, 1)
        task = Task(network, demand, LinkModel.STORE, np.arange(len(demand.chunks), dtype=np.int32))
        assert serves(conditions_of(task)) is expected
    demand = support.all_to_all(list(range(300)), 1000, 1)
    task = Task(large, demand, LinkModel.STORE, np.arange(len(demand.chunks), dtype=np.int32))
    assert not serves(conditions_of(task))  # each goes its own way


@pytest.mark.slow
def test_a_thousand_npus_take_less_than_the_grace() -> None:
    network = random_network(1, 1000, 100_000)
    demand = support.all_gather(list(range(1000)), 1000, 1)
    with at_most(2):
        built, used = by_one_tree(Module("m", network, demand, LinkModel.STORE))
        assert used
    assert verify_schedule(built).ok
