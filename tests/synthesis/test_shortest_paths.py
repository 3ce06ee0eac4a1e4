"""Schedules along shortest paths: right on all networks, and alone on a link as short as can be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.passes.synthesizers import auto
from collc.synthesis import shortest_paths
from collc.synthesis.auto.candidates import LAST_RESORT, Candidate, candidates
from collc.synthesis.auto.synthesizer import Turns
from collc.synthesis.bounds import lower_bound
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.rings import Ring
from collc.synthesis.shortest_paths import along_shortest_paths, tree_count
from collc.synthesis.task import Effort, WorkMeter
from collc.ten.demand import Demand
from collc.ten.module import Bound, Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule
from tests import support
from tests.kernel_choice import choose_kernels
from tests.synthesis.clusters import pods, rails
from tests.synthesis.random_problems import random_module

KIND = LinkKind(1_000_000, Fraction(10**9))


def campaign(seeds: range) -> int:
    """How many random modules got a schedule; all of these are right, and the others have no path."""
    right = 0
    codes: Counter[str] = Counter()
    for seed in seeds:
        module = random_module(random.Random(seed))
        try:
            built = join(solve(module, along_shortest_paths))
        except SourceError as no_path:
            codes[no_path.diagnostics[0].code] += 1
            continue
        verdict = verify_schedule(built)
        assert verdict.ok, (seed, verdict.diagnostics)
        right += 1
    assert set(codes) <= {"S0103"}
    return right


def test_right_on_random_networks() -> None:
    assert campaign(range(250)) > 200


@pytest.mark.slow
def test_right_on_many_random_networks() -> None:
    assert campaign(range(1000, 4000)) > 2400


def test_a_single_chunk_takes_the_time_of_its_path() -> None:
    """A broadcast over a line of four NPUs: three hops of 1 us and 1,000 bytes at 1 GB/s, one after another."""
    line = support.network(4, [(i, i + 1, KIND) for i in range(3)])
    built = join(
        solve(Module("m", line, support.broadcast([0, 1, 2, 3], 1000, 1), LinkModel.STORE), along_shortest_paths)
    )
    assert built.collective_time() == 3 * 2_000_000


def test_messages_of_a_switch_follow_each_other() -> None:
    """All-to-All of 8 NPUs over one switch: in 7 rounds each NPU sends to one and receives from one."""
    star = support.switched(8, KIND)
    demand = support.all_to_all(list(range(8)), 1000, 1)
    built = join(solve(Module("m", star, demand, LinkModel.STORE), along_shortest_paths))
    assert verify_schedule(built).ok
    assert built.collective_time() == 8 * 2_000_000


@pytest.mark.parametrize(("net", "time"), [(support.switched(8, KIND), 8), (support.ring(8, KIND), 7)])
def test_a_gather_takes_one_search_and_the_time_of_a_scatter(net: Network, time: int) -> None:
    """Never longer than the chunks one after another over the last link, or over all links of a ring in turn."""
    for make, trees in ((support.gather, 1), (support.scatter, 1), (support.all_to_all, 8)):
        module = Module("m", net, make(list(range(8)), 1000, 1), LinkModel.STORE)
        assert tree_count(module.demand, net.link_count) == trees * (1 + 2 * 64 // 6)
        built = join(solve(module, along_shortest_paths))
        assert verify_schedule(built).ok
        if trees == 1:
            assert lower_bound(net, module.demand, module.model).time <= built.collective_time() <= time * 2_000_000


def joined_switches(*sizes: int) -> Network:
    """A line of switches, each with some NPUs; all links are alike."""
    npus, links = sum(sizes), list[tuple[int, int, LinkKind]]()
    for switch, size in enumerate(sizes):
        first = sum(sizes[:switch])
        ends = [(npu, npus + switch) for npu in range(first, first + size)]
        ends += [(npus + switch - 1, npus + switch)] if switch else []
        links += [row for a, b in ends for row in ((a, b, KIND), (b, a, KIND))]
    return support.network(npus, links, switches=len(sizes))


@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize(("make", "phases"), [(support.all_gather, 1), (support.all_reduce, 2)])
def test_chunks_for_all_run_round_a_ring(make: Callable[..., Demand], phases: int, model: LinkModel) -> None:
    """14 NPUs on three switches. Shortest paths send 9 x 5 copies over the first trunk, a ring one for each chunk."""
    net = joined_switches(9, 3, 2)
    built = join(solve(Module("m", net, make(list(range(14)), 1000, 1), model), along_shortest_paths))
    assert verify_schedule(built).ok
    assert built.schedule is not None
    crossing = (net.source == 14) & (net.target == 15)
    assert np.bincount(built.schedule.transfers.link)[crossing].tolist() == [14 * phases - phases]
    assert built.collective_time() < phases * 9 * 5 * 1_000_000 * (1 + (model is LinkModel.STORE))


def test_few_chunks_do_not_run_round_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broadcast over 50,000 NPUs would look for the nearest of the rest 50,000 times."""
    monkeypatch.setattr("collc.synthesis.shortest_paths.Ring", None)
    module = Module("m", joined_switches(9, 3), support.broadcast(list(range(12)), 1000, 11), LinkModel.STORE)
    assert verify_schedule(join(solve(module, along_shortest_paths))).ok


@pytest.mark.parametrize("net", [joined_switches(5, 1, 4), pods(3, 2, 2), rails(3, 4, spine=True), support.switched(2)])
def test_a_ring_steps_over_switches_from_each_npu_to_the_next(net: Network) -> None:
    ring = Ring.of(net, net.npus)
    assert ring is not None
    assert sorted(ring.npu.tolist()) == net.npus.tolist()
    for (offsets, links), turn in ((ring.ahead, 0), (ring.back, 1)):
        for place, npu in enumerate(ring.npu.tolist()):
            path = links[offsets[place] : offsets[place + 1]]
            ends = [npu, int(ring.npu[(place + 1) % len(ring.npu)])][:: -1 if turn else 1]
            assert [int(net.source[path[0]]), int(net.target[path[-1]])] == ends
            assert net.source[path[1:]].tolist() == net.target[path[:-1]].tolist()
            assert (net.target[path[:-1]] >= net.npu_count).all()


def test_what_has_no_ring() -> None:
    """The NPUs of a line, whose ends are not joined by switches; links that lead one way; an NPU alone; rails whose
    last NPU has no switch in common with the first one.
    """
    assert Ring.of(rails(3, 4), rails(3, 4).npus) is None
    line = support.network(4, [row for i in range(3) for row in ((i, i + 1, KIND), (i + 1, i, KIND))])
    assert Ring.of(line, line.npus) is None
    one_way = support.network(3, [(0, 1, KIND), (1, 2, KIND), (2, 0, KIND)])
    assert Ring.of(one_way, one_way.npus) is None
    assert Ring.of(line, line.npus[:1]) is None


def test_the_trees_of_partials_and_of_sums_count() -> None:
    """An All-Reduce of 30 NPUs searches 30 trees for partials and 30 for sums."""
    net, least = support.ring(30, KIND), 2 * 30 * 29
    module = Module("m", net, support.all_reduce(list(range(30)), 1000, 1), LinkModel.STORE)
    (last,) = [
        candidate
        for candidate in candidates(module, Effort(), lambda: Bound(0, ""), [], lambda part, _: part, least)
        if candidate.name == LAST_RESORT
    ]
    meter = WorkMeter(1, most=1 << 40)
    last.build(meter)
    assert meter.setup == 2 * (2 * 30 * 30 + least) + 60 * net.link_count // 6


def loads_at_root(built: Module) -> list[int]:
    """The chunks over each link at NPU 0 that carries any, the fewest first."""
    assert built.schedule is not None
    network, link = built.network, built.schedule.transfers.link
    loads = np.bincount(link[(network.target[link] == 0) | (network.source[link] == 0)])
    return sorted(loads[loads > 0].tolist())


@pytest.mark.parametrize(("make", "most"), [(support.gather, 0), (support.scatter, 9)])
def test_chunks_are_divided_among_shortest_paths(make: Callable[[list[int], int, int], Demand], most: int) -> None:
    """Half of the chunks of a gather enter the corner of a mesh over each of its links, without a pause."""
    net = support.grid(6, 6)
    module = Module("m", net, make(list(range(36)), 1000, 1), LinkModel.STORE)
    built = join(solve(module, along_shortest_paths))
    assert verify_schedule(built).ok
    assert loads_at_root(built) == [17, 18]
    bound = lower_bound(net, module.demand, module.model).time
    assert built.collective_time() <= bound * (18 + most) // 18


@pytest.mark.parametrize("make", [support.gather, support.scatter])
def test_a_link_at_the_root_that_no_shortest_path_crosses_takes_its_part(
    make: Callable[[list[int], int, int], Demand],
) -> None:
    """Sixteen NPUs reach the root over NPU 1; its neighbour 2 is one hop more. All 18 chunks over one link took 18."""
    pairs = [(0, 1), (0, 2), (1, 2), *((1, leaf) for leaf in range(3, 19))]
    net = support.network(19, [(*ends, KIND) for pair in pairs for ends in (pair, pair[::-1])])
    module = Module("m", net, make(list(range(19)), 1000, 1), LinkModel.STORE)
    built = join(solve(module, along_shortest_paths))
    assert verify_schedule(built).ok
    assert loads_at_root(built) == [9, 9]


def bytes_of(seed: int) -> tuple[bytes, ...]:
    """The schedule of a random module, or nothing where no path leads to a device."""
    try:
        schedule = join(solve(random_module(random.Random(seed)), along_shortest_paths)).schedule
    except SourceError:
        return ()
    assert schedule is not None
    rows = schedule.transfers
    return rows.chunk.tobytes(), rows.link.tobytes(), rows.start.tobytes()


def test_trees_of_several_searches_are_one_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [bytes_of(seed) for seed in range(60)]
    monkeypatch.setattr(shortest_paths, "TREES", 1)
    assert [bytes_of(seed) for seed in range(60)] == whole


@pytest.mark.parametrize(("most", "counted"), [(11, "deliveries"), (15, "links")])
def test_too_many_are_not_planned(most: int, counted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All-to-All of a ring of four: 12 chunks, of which four take two hops. The count of deliveries comes first."""
    ring = Module("m", support.ring(4, KIND), support.all_to_all(list(range(4)), 1000, 1))
    monkeypatch.setattr(shortest_paths, "MOST_HOPS", most)
    if counted == "deliveries":
        monkeypatch.setattr(shortest_paths, "conditions_of", lambda _task: pytest.fail("conditions were listed"))
    with pytest.raises(NoSchedule, match=f"shortest paths have over {most} links in all") as raised:
        solve(ring, along_shortest_paths)
    assert raised.value.diagnostics[0].code == "S0207"
    monkeypatch.undo()
    monkeypatch.setattr(shortest_paths, "MOST_HOPS", 16)
    assert len(join(solve(ring, along_shortest_paths)).schedule or ()) == 16


@pytest.mark.slow
def test_compiled_kernels_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [bytes_of(seed) for seed in range(200)]
    choose_kernels(monkeypatch, True)
    assert [bytes_of(seed) for seed in range(200)] == plain


def test_auto_that_is_stopped_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not why one of its candidates does not serve the demand: the caller takes shortest paths then."""

    def refuse(_: WorkMeter) -> Module:
        raise SourceError(Diagnostic("S0303", "not symmetric"))

    def fail(search: Any) -> None:
        turns = Turns(Candidate("symmetric", refuse), 1)
        turns.take(WorkMeter(1))
        search._turns.append(turns)

    monkeypatch.setattr("collc.synthesis.auto.synthesizer._Search.run", fail)
    module = Module("m", support.ring(4, KIND), support.all_to_all(list(range(4)), 1000, 1), LinkModel.STORE)
    with pytest.raises(NoSchedule, match="stopped before any schedule was found"):
        auto(module, Effort(stop=lambda: True))
    with pytest.raises(SourceError, match="not symmetric"):
        auto(module, Effort())
