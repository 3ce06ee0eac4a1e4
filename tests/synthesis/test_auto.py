"""The choice among synthesizers; every result is checked by collc.verification."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.auto import Comparison, Measured, compare, needed
from benchmarks.large_programs import large_programs
from benchmarks.named_programs import SETS, named_programs
from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule, SourceError, SourceFile
from collc.kernels.compiled import LOAD_TIME
from collc.passes.synthesizers import SYNTHESIZERS, auto
from collc.source.elaboration.elaborate import load_program
from collc.synthesis.auto.candidates import Candidate
from collc.synthesis.auto.kinds import ProblemKind
from collc.synthesis.auto.synthesizer import SPARE_WORK, Turns, _Search, choose
from collc.synthesis.bounds import lower_bound
from collc.synthesis.by_dimension.orders import hierarchical
from collc.synthesis.in_network.synthesizer import in_network
from collc.synthesis.pccl import pccl
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.swarm import swarm
from collc.synthesis.symmetric.synthesizer import symmetric_module
from collc.synthesis.task import Effort, Experience, WorkMeter
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule
from tests.support import (
    MiB,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    demand_of,
    dgx1,
    grid,
    hypercube,
    network,
    reduce,
    reduce_scatter,
    ring,
    switched,
)
from tests.synthesis.checker import retimed
from tests.synthesis.random_problems import random_demand, random_network

EIGHT = list(range(8))
LATE = LinkKind(500_000, Fraction(50 * 10**9))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("net", "demand", "most"),
    [
        (grid(3, 3), all_gather(list(range(9))), 1.0),
        (grid(3, 3), reduce_scatter(list(range(9))), 1.0),
        (grid(2, 3), all_to_all(list(range(6))), 1.0),
        (grid(3, 3), all_reduce(list(range(9)), chunks=4), 1.167),
        (grid(3, 3, wrap=True), all_gather(list(range(9))), 1.0),
        (grid(4, 4, wrap=True), all_reduce(list(range(16))), 1.0),
        (grid(2, 2), all_to_all([0, 1, 2, 3]), 1.0),
        (dgx1(), all_reduce(EIGHT, chunks=2), 1.2),
        (switched(8), all_gather(EIGHT), 1.0),
        (switched(8), all_to_all(EIGHT), 1.0),
        (switched(8), all_reduce(EIGHT), 1.141),  # 16 steps; the bound counts 14, and not that switches store
        (switched(6, multicast=True), reduce(list(range(6))), 1.25),
    ],
)
def test_choice_is_verified_and_explained(net: Network, demand: Demand, most: float):
    """most: the time of the schedule by the bound of its network."""
    result = auto(Module("m", net, demand), Effort())
    assert "failed" not in verify_schedule(result).checks.values()
    assert result.schedule is not None
    time = result.schedule.collective_time(result.network, result.demand)
    bound = lower_bound(result.network, result.demand, result.model).time
    assert bound <= time <= most * bound
    assert f"chose {result.algorithm}" in " ".join(result.notes)
    assert (time == bound) == any("meets the bound" in note for note in result.notes)
    assert result.network is net


def times_the_bound(module: Module) -> float:
    return module.collective_time() / lower_bound(module.network, module.demand, module.model).time


def test_stopped():
    with pytest.raises(NoSchedule):
        auto(Module("m", grid(2, 2), all_gather([0, 1, 2, 3])), Effort(stop=lambda: True))


def test_dimensions_over_native_switches():
    """All-Reduce over two nodes with a switch each and slow links between them."""
    fast, slow = LinkKind(350_000, Fraction(300 * 10**9)), LinkKind(2_000_000, Fraction(25 * 10**9))
    links = [
        (a, b, kind)
        for gpu in range(16)
        for switch, kind in ((16 + gpu // 8, fast), (18, slow))
        for a, b in ((gpu, switch), (switch, gpu))
    ]
    net = network(16, links, switches=3, shape=(2, 8))
    result = auto(Module("m", net, all_reduce(list(range(16)), 16 * MiB, chunks=4)), Effort())
    assert times_the_bound(result) <= 1.11
    assert "failed" not in verify_schedule(result).checks.values()
    assert result.network is net


@pytest.mark.parametrize("maker", [all_gather, all_reduce])
def test_transfers_are_moved_earlier_where_switches_hold_several_copies(maker: Callable[..., Demand]):
    """Two nodes of eight with a switch each, rails between them, and one rail lost at its first NPU."""
    fast, slow = LinkKind(350_000, Fraction(450 * 10**9)), LinkKind(2_000_000, Fraction(50 * 10**9))
    links = [
        (a, b, kind)
        for gpu in range(16)
        for switch, kind in ((16 + gpu // 8, fast), (18 + gpu % 8, slow))
        for a, b in ((gpu, switch), (switch, gpu))
        if (gpu, switch) != (0, 18)
    ]
    net = network(16, links, switches=10, shape=(2, 8))
    stored = join(solve(Module("m", net, maker(list(range(16)), 368_640)), lambda task: swarm(task, Effort())))
    assert time_of(retimed(stored)) < time_of(stored)


def test_incomplete_lines_are_left_to_other_synthesizers():
    """A pod whose first GPU has lost its links out of the node; the demand is dense."""
    links = [pair for gpu in range(12) for s in (12 + gpu // 6, 14) for pair in ((gpu, s), (s, gpu))]
    net = network(12, [link for link in links if link not in ((0, 14), (14, 0))], switches=3, shape=(2, 6))
    module = Module("m", net, all_gather(list(range(12)), chunks=20))
    with pytest.raises(SourceError):
        join(solve(module, lambda task: hierarchical(task, Effort())))
    result = auto(module, Effort())
    assert "failed" not in verify_schedule(result).checks.values()
    assert "meets the bound" in result.notes[-1]


def test_buffer_limits_of_switches_are_never_dropped():
    """Direct links have no buffer, so they are no model of switches with a limited one."""
    result = auto(Module("m", switched(8, buffer=4), all_reduce(EIGHT)), Effort())
    assert not result.network.unwound
    assert not any("unwound" in note for note in result.notes)
    assert "failed" not in verify_schedule(result).checks.values()


def test_the_first_schedule_is_found_at_once_and_kept():
    """On one large switch, by the translations of one NPU's schedule; stopping after it changes nothing."""
    tried = list[str]()

    def progress(_share: float, words: str) -> None:
        if " after " in words:
            tried.append(words)

    result = auto(
        Module("m", switched(96), all_reduce(list(range(96)))), Effort(stop=lambda: bool(tried), progress=progress)
    )
    assert times_the_bound(result) <= 1.011
    assert len(tried) == 1


def test_a_large_switch_is_not_given_to_pccl():
    result = auto(Module("m", switched(32), all_gather(list(range(32)))), Effort())
    assert times_the_bound(result) == 1
    assert not any("pccl" in note for note in result.notes)


def reachable_world(seed: int) -> tuple[Network, Demand]:
    """A small random network, and a demand that can be met on it."""
    chance = random.Random(seed)
    while True:
        net = random_network(chance)
        demand = random_demand(chance, net)
        with suppress(CollcError):
            pccl_plans(net, demand)
            return net, demand


def pccl_plans(net: Network, demand: Demand) -> None:
    join(solve(Module("m", net, demand), lambda task: pccl(task, Effort())))


def time_of(module: Module) -> int:
    assert "failed" not in verify_schedule(module).checks.values()
    assert module.schedule is not None
    assert module.schedule.model == module.model
    return module.schedule.collective_time(module.network, module.demand)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(25))
def test_pipelined_is_never_longer_than_stored(seed: int):
    net, demand = reachable_world(seed)
    stored = auto(Module("m", net, demand), Effort())
    pipelined = auto(Module("m", net, demand, LinkModel.PIPELINED), Effort())
    assert time_of(pipelined) <= time_of(stored)


def test_transfers_are_moved_earlier_for_pipelined_links():
    """Any schedule that stores, over links and switches of all kinds, is valid and no longer, at times shorter."""
    shorter = 0
    for seed in range(100, 125):
        net, demand = reachable_world(seed)
        stored = join(solve(Module("m", net, demand), lambda task: pccl(task, Effort())))
        earlier = retimed(stored)
        assert time_of(earlier) <= time_of(stored)
        shorter += time_of(earlier) < time_of(stored)
    assert shorter > 2


@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("maker", [all_reduce, reduce, reduce_scatter])
def test_switches_that_add_up_are_used(maker: Callable[..., Demand], model: LinkModel):
    """An All-Reduce of eight chunks takes nine hops: one more than what each link up and down carries."""
    net = replace(switched(8, multicast=True), reduces=np.ones(1, np.bool_))
    result = auto(Module("m", net, maker(EIGHT), model), Effort())
    assert not result.network.unwound
    if maker is all_reduce and model is LinkModel.STORE:
        assert time_of(result) == 9 * 20_031_250
    assert time_of(result) <= 9 * 20_031_250


def test_sums_of_groups_and_of_two_switches():
    """Each switch joins half of the NPUs; a sum over all of them is for another synthesizer."""
    links = [pair for gpu in range(8) for s in (8 + gpu // 4,) for pair in ((gpu, s), (s, gpu))]
    net = replace(network(8, links, switches=2, multicast=True), reduces=np.ones(2, np.bool_))
    demand = Demand((*all_reduce([0, 1, 2, 3], chunks=2).runs, *all_reduce([4, 6, 7], chunks=3).runs))
    assert time_of(in_network(Module("m", net, demand), Effort())) == 10 * 20_031_250
    with pytest.raises(SourceError):
        in_network(Module("m", net, all_reduce(EIGHT)), Effort())
    with pytest.raises(SourceError):
        in_network(Module("m", net, all_gather([0, 1, 2, 3])), Effort())


def test_reductions_other_than_all_reduce_use_trees():
    """A Reduce-Scatter of five NPUs of the mesh, beside a reduction of a column."""
    net = grid(3, 4)
    runs = (*reduce_scatter([0, 1, 6, 7, 11]).runs, *reduce([1, 5, 9], chunks=5).runs)
    result = auto(Module("m", net, Demand(runs)), Effort())
    assert any("overlapped takes" in note for note in result.notes)
    assert "failed" not in verify_schedule(result).checks.values()


@pytest.mark.parametrize("size", [6, 40])
def test_switches_that_pass_each_arrival_on_once(size: int):
    """As emission needs it, although they could multicast."""
    module = Module("m", switched(size, multicast=True), broadcast(list(range(size)), chunks=4), relays=True)
    result = auto(module, Effort())
    rows = result.schedule.transfers if result.schedule is not None else None
    assert rows is not None
    into = (result.network.target[rows.link] >= size).sum()
    assert into == (result.network.source[rows.link] >= size).sum()
    assert "failed" not in verify_schedule(replace(result, relays=False)).checks.values()


def test_work_is_counted_and_ends_the_search():
    """Unlike links and few slots: swarm ends soon after its work is used up, or when it has made all attempts."""
    chance = random.Random(5)
    kinds = [LinkKind(500_000, Fraction(rate * 10**9)) for rate in (5, 12, 50)]
    links = [(a, b, chance.choice(kinds)) for a in range(7) for b in (7, 8)]
    net = network(7, [*links, *((b, a, kind) for a, b, kind in links)], switches=2, buffers=[1, 2])
    module = Module("m", net, all_gather(list(range(7)), chunks=4))
    spent: dict[int, int] = {}
    times: list[int] = []
    for limit in (1, 50_000, 70_000, 400_000):
        meter = WorkMeter(limit)
        effort = Effort(work=meter)
        times.append(time_of(join(solve(module, lambda task, effort=effort: swarm(task, effort)))))
        spent[limit] = meter.spent
    assert times == sorted(times, reverse=True)
    assert 50_000 <= spent[50_000] < 50_000 + spent[1]
    assert 70_000 <= spent[70_000] < 70_000 + spent[1]
    assert spent[400_000] < 400_000 + LOAD_TIME  # attempts are compiled, so that all are made


@pytest.mark.slow
def test_what_takes_too_much_work_is_given_up_and_said():
    """Eight nodes of eight with a switch each, and a switch for each rail; expensive ones find nothing better."""
    fast, slow = LinkKind(350_000, Fraction(450 * 10**9)), LinkKind(1_000_000, Fraction(50 * 10**9))
    links = [
        (a, b, kind)
        for gpu in range(64)
        for switch, kind in ((64 + gpu // 8, fast), (72 + gpu % 8, slow))
        for a, b in ((gpu, switch), (switch, gpu))
    ]
    net = network(64, links, switches=16, shape=(8, 8))
    demand = all_reduce(list(range(64)), 262_144, chunks=4)
    result = auto(Module("m", net, demand, LinkModel.PIPELINED), Effort())
    assert times_the_bound(result) <= 1.06
    assert "failed" not in verify_schedule(result).checks.values()
    gave_up = next(note for note in result.notes if note.startswith("auto: gave up "))
    names = "pccl, forest, " + ", ".join(f"{name} on unwound switches" for name in ("tacos", "overlapped", "exchange"))
    assert gave_up == f"auto: gave up {names}: it takes more work than the search has left"


def test_a_search_with_more_chunks_learns_from_the_last_one(monkeypatch: pytest.MonkeyPatch):
    """No turn is as short as one that was in vain, by the number of chunks; those too slow to win are left out."""
    tried: dict[str, int] = {}
    take = Turns.take

    def note_limit(turns: Turns, meter: WorkMeter) -> None:
        tried.setdefault(turns.candidate.name, turns.limit)
        take(turns, meter)

    monkeypatch.setattr(Turns, "take", note_limit)
    known = Experience()
    modules = [Module("m", dgx1(), broadcast(EIGHT, chunks=chunks)) for chunks in (8, 16)]
    effort = Effort(experience=known)
    auto(modules[0], effort)
    assert {"tacos", "pccl"} < tried.keys()
    known.in_vain["swarm"] = 60_000
    known.time["pccl"] = 3 * min(known.time.values())
    tried.clear()
    learned = auto(modules[1], effort)
    assert {"forest", "swarm"} < tried.keys()
    assert "pccl" not in tried
    assert tried["swarm"] == known.in_vain["swarm"] == 120_000
    assert known.chunks == 16
    assert time_of(learned) <= time_of(auto(modules[1], Effort()))


def test_a_search_after_a_much_better_one_tries_all_candidates():
    """What found the schedule then may not be there now."""
    module = Module("m", dgx1(), broadcast(EIGHT, chunks=8))
    known = Experience(8, {"exact": 1} | dict.fromkeys(set(SYNTHESIZERS) - {"exact"}, 10**12))
    assert time_of(auto(module, Effort(experience=known))) == time_of(auto(module, Effort()))


def test_what_took_too_much_work_with_as_many_chunks_is_left_out_unless_it_had_a_schedule():
    known = Experience(8, {"pccl": 10, "forest": 15}, {"swarm": 1, "forest": 1})
    few, many = (broadcast(EIGHT, chunks=chunks) for chunks in (8, 16))
    assert known.left_out(few) == {"swarm"}
    assert known.left_out(many) == set()
    assert known.behind(few) == {"forest"}
    assert known.behind(many) == set()
    auto(Module("m", dgx1(), many), Effort(experience=known))
    assert known.chunks == 16
    assert {"pccl", "forest"} <= {*known.time}
    module = Module("m", dgx1(), demand_of([(1024, [0], [1, 2], Op.COPY)]))  # no textbook algorithm
    known = Experience(8, {"exact": 1}, dict.fromkeys(SYNTHESIZERS, 1))
    assert time_of(auto(module, Effort(experience=known))) == time_of(auto(module, Effort()))


def test_the_choice_counts_work_and_not_time():
    """A stop that is slow changes nothing."""
    net, demand = reachable_world(7)

    def slow_stop() -> bool:
        sum(range(2_000))
        return False

    fast, slow = (auto(Module("m", net, demand), Effort(stop=stop)) for stop in (lambda: False, slow_stop))
    assert fast.notes == slow.notes
    assert fast.schedule is not None
    assert slow.schedule is not None
    assert np.array_equal(fast.schedule.transfers.start, slow.schedule.transfers.start)


@pytest.mark.parametrize(("net", "most"), [(grid(8, 8, kind=LATE, wrap=True), 4_471_040), (ring(16, LATE), 6_200_000)])
def test_where_the_longest_path_decides_all_npus_exchange(net: Network, most: int):
    """64 KiB on a torus takes the least possible time; a Reduce-Scatter and an All-Gather take almost twice as long."""
    npus = net.npus.tolist()
    module = auto(Module("m", net, all_reduce(npus, 65_536 // len(npus)), LinkModel.PIPELINED), Effort())
    assert module.collective_time() <= most
    assert verify_schedule(module).ok


def test_an_exchange_that_may_meet_the_bound_gets_the_work_for_it():
    """1 KiB on a hypercube of 32, if links are busy until arrival: Reduce-Scatter and All-Gather take 8 % longer."""
    module = Module("m", hypercube(5), all_reduce(list(range(32)), 32), LinkModel.STORE)
    found = auto(module, Effort())
    assert found.collective_time() == lower_bound(module.network, module.demand, module.model).time


def test_all_have_their_turns_before_those_likely_the_best_get_more_work():
    module = Module("m", hypercube(3), all_reduce(list(range(8)), 8))
    search = _Search(module, Effort(), [], spent=5_500_000)
    search._turns += [
        Turns(Candidate("likely", lambda _: module, ahead=2), 1_600_000),
        Turns(Candidate("other", lambda _: module, ahead=1), 400_000),
        Turns(Candidate("leader", lambda _: module), 10**9, built=module, time=10**12, useful=SPARE_WORK),
    ]
    for name, most in (("other", 500_000), ("likely", 6_400_000)):
        found = search._next()
        assert found is not None
        turns, meter = found
        assert (turns.candidate.name, meter.most) == (name, most)
        turns.is_open = False


def test_compiled_code_is_loaded_once_for_all_turns_of_a_candidate():
    spent: list[int] = []

    def refuse(meter: WorkMeter) -> Module:
        meter.add_compiler()
        spent.append(meter.spent)
        raise NoSchedule(Diagnostic("S0201", "nothing"))

    turns = Turns(Candidate("refused", refuse), 1)
    for _ in range(2):
        turns.take(WorkMeter(1))
    assert spent == [LOAD_TIME, 0]


def test_what_is_given_up_counts_no_more_work_than_it_had(monkeypatch: pytest.MonkeyPatch):
    module = Module("m", hypercube(3), all_reduce(list(range(8)), 8))

    def refuse(meter: WorkMeter) -> Module:
        meter.add(10**12)
        raise NoSchedule(Diagnostic("S0201", "too much"))

    monkeypatch.setattr("collc.synthesis.auto.synthesizer.candidates", lambda *_: [Candidate("refused", refuse)])
    search = _Search(module, Effort(), [])
    search.run()
    assert 0 < search.spent < 10**9


def switched_nodes(nodes: int) -> Network:
    """Nodes of eight NPUs with a switch each, rails between them, and two spines that join the rails."""
    fast, slow = LinkKind(350_000, Fraction(450 * 10**9)), LinkKind(850_000, Fraction(50 * 10**9))
    npus = 8 * nodes
    ends = [(gpu, npus + gpu // 8, fast) for gpu in range(npus)]
    ends += [(gpu, npus + nodes + gpu % 8, slow) for gpu in range(npus)]
    ends += [(npus + nodes + rail, npus + nodes + 8 + spine, fast) for rail in range(8) for spine in range(2)]
    return network(npus, [link for a, b, kind in ends for link in ((a, b, kind), (b, a, kind))], switches=nodes + 10)


@pytest.mark.parametrize(
    "number",
    [12, 162, 190]
    + [
        pytest.param(number, marks=pytest.mark.slow)
        for number in (0, 23, 31, 49, 154, 169, 173, *range(300, 312), 335, 336)
    ],
)
def test_no_single_synthesizer_is_much_shorter_on_random_programs(number: int):
    found = compare(number)
    assert found is None or not {"longer", "wrong"} & set(found.faults)


def test_programs_on_large_networks():
    """All have different text; the one that is run is on one switch."""
    programs = large_programs()
    assert len({program.text() for program in programs.values()}) == len(programs) == 144
    number = next(number for number, program in programs.items() if program.kind == "gb200_nvl72")
    found = compare(number, {})
    assert found is not None
    assert (found.npus, found.category, found.faults) == (72, "up to 72 NPUs", [])


def test_programs_of_sets():
    """All have different names within a set, and load; the others are compared in processes of their own."""
    for name in SETS:
        programs = named_programs(name)
        assert len({program.kind for program in programs.values()}) == len(programs)
        for program in programs.values():
            if not program.kind.endswith(("32", "64", "^3", "1024 GPUs", "8192 GPUs")):
                assert load_program(SourceFile(program.kind, program.text())).schedules
    number = next(number for number, program in named_programs("small").items() if program.kind == "torus 4, an NPU")
    found = compare(number, singles="shot")
    assert found is not None
    assert (found.npus, found.category, found.faults, [*found.others]) == (15, "small", [], ["one_shot"])


def test_faults_of_a_comparison():
    """Against the fastest of those within 3 % of the best, not against the best."""
    others = {
        "slow": Measured(1_000, 10.0, True),
        "fast": Measured(1_020, 0.5, True),
        "bad": Measured(2_000, 0.1, True),
    }

    def faults(time: int, cpu: float, right: bool = True) -> list[str]:
        return Comparison(0, "", 4, "", Measured(time, cpu, right), others).faults

    assert faults(1_029, 3.9) == []
    assert faults(1_031, 4.1) == ["longer", "cpu"]
    assert faults(900, 1.0, right=False) == ["wrong"]


def test_what_is_needed():
    others = {"a": Measured(1_000, 1.0, True), "b": Measured(1_500, 1.0, True), "c": Measured(1_500, 1.0, True)}
    notes = "none", "auto: d takes 0.001us, c takes 5ns, a takes 2ns", "auto: gave up e: it takes more work"
    rows = needed([Comparison(0, "ring", 4, "reduce", None, others)]).splitlines()[1:]
    assert [row.split() for row in rows] == [
        ["a", "1", "1.50", "reduce,", "ring"],
        ["b", "0", "1.00"],
        ["c", "0", "1.00"],
    ]
    tried = Comparison(0, "ring", 4, "reduce", None, others, notes=notes)
    assert tried.times == {"d": 1_000, "c": 1_500, "a": 1_000, "b": 1_500}
    assert {row.split()[1] for row in needed([tried]).splitlines()[1:]} == {"0"}


def test_swarm_is_likely_the_best_where_few_have_what_goes_through_switches():
    """Its first schedule takes more work than what is spared for candidates that are seldom the best."""
    problem = ProblemKind(Module("m", switched_nodes(2), broadcast(list(range(16)), chunks=16)))
    assert problem.likely_best == ("swarm", "forest")


def test_damaged_clusters_are_repaired_before_trees_are_grown():
    """Trees take more work than all else there; they have turns, but not those of likely candidates."""
    text = """
        import std.clusters
        import std.collectives
        topology t = dgx_h100(2) without { part nic[1, 5] }
        topology slow = dgx_h100(2) with { link gpu[1, 5] <-> leaf[5] (bandwidth: 25GB/s) }
        schedule s on t { run all_reduce(t.npus, size: 64MiB) }
        schedule g on t { run all_gather(t.npus, size: 64MiB) }
        schedule w on slow { run all_reduce(slow.npus, size: 64MiB) }
    """
    for each in load_program(SourceFile("p", text)).schedules:
        module = Module("m", each.network, each.demand, model=LinkModel.PIPELINED)
        assert ProblemKind(module).likely_best == ("symmetric",)


@pytest.mark.slow
def test_trees_are_grown_if_a_repair_is_far_from_the_bound():
    text = """
        import std.clusters
        import std.collectives
        topology t = dgx_h100(16) without { link gpu[0, 0] <-> nvswitch[0] }
        schedule s on t { run all_reduce(t.npus, size: 1GiB, chunks: 4) }
    """
    (request,) = load_program(SourceFile("p", text)).schedules
    module = Module("m", request.network, request.demand, LinkModel.PIPELINED)
    found = auto(module, Effort())
    assert found.collective_time() < 0.8 * join(symmetric_module(module, Effort())).collective_time()


@pytest.mark.parametrize("side", [16, 32, pytest.param(64, marks=pytest.mark.slow)])
def test_an_all_gather_on_a_mesh_meets_the_bound(side: int):
    """What fails at once is not tried for long: 16.8 million transfers of the largest take seconds."""
    module = Module("m", grid(side, side), all_gather(list(range(side * side))))
    result = auto(module, Effort())
    assert times_the_bound(result) == 1


@pytest.mark.slow
def test_an_all_reduce_on_a_large_mesh_is_near_its_bound():
    assert times_the_bound(auto(Module("m", grid(32, 32), all_reduce(list(range(1024)))), Effort())) <= 1.04


def test_a_search_that_finds_nothing_ends_with_shortest_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """As over a switch of 50,000 NPUs, if each turn takes more work than it may."""
    monkeypatch.setattr("collc.synthesis.auto.synthesizer.SPARE_WORK", 500)
    built = choose(WIDE, Effort(), [SYNTHESIZERS["pccl"]])
    assert built.algorithm == "shortest paths"
    assert verify_schedule(built).ok


WIDE = Module("m", switched(100), broadcast(list(range(100)), 1000), LinkModel.STORE)


def test_a_search_that_may_not_find_any_schedule_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collc.synthesis.auto.synthesizer.SPARE_WORK", 1)
    with pytest.raises(CollcError, match="at least 99 transfers, more than the limit of 64"):
        auto(WIDE, Effort())
    members = list(range(1_000))
    gathered = auto(Module("m", switched(1_000), all_gather(members, 1_000), LinkModel.STORE), Effort())
    assert gathered.algorithm == "symmetric"  # it lists the transfers of one NPU only
