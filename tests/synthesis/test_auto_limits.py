"""auto on networks whose NPUs have limits: all candidates are judged with the limits counted."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from benchmarks.auto import compare
from benchmarks.random_programs import LIMITED, random_program
from collc.base.diagnostics import CollcError, NoSchedule
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.passes.synthesizers import auto
from collc.synthesis.bounds import lower_bound
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.endpoint import Endpoint
from collc.ten.limited import fed_links, with_endpoints
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule
from tests.support import MiB, all_gather, all_reduce, fully_connected, network

GB = 10**9


def limited(net: Network, inject: int, eject: int | None = None) -> Network:
    """The network; all NPUs have these limits in GB/s."""
    endpoint = Endpoint(Fraction(inject * GB), None if eject is None else Fraction(eject * GB))
    return fed_links(with_endpoints(net, [endpoint] * net.npu_count))


def planned(net: Network, demand: Demand, model: LinkModel = LinkModel.PIPELINED) -> Module:
    module = auto(Module("m", net, demand, model), Effort())
    verdict = verify_schedule(module)
    assert verdict.ok, verdict.diagnostics
    return module


FOUR = limited(fully_connected(4, LinkKind(1_000_000, Fraction(50 * GB))), inject=60, eject=55)
"""Four NPUs whose links carry more than twice what each of them sends or receives."""


@pytest.fixture(scope="module")
def reduced() -> Module:
    """An All-Reduce of 4 MiB on FOUR."""
    return planned(FOUR, all_reduce([0, 1, 2, 3], MiB), LinkModel.STORE)


def test_an_all_reduce_comes_near_what_npus_receive(reduced: Module) -> None:
    """Each NPU receives six blocks of 1 MiB; the last one is on its link, which is slower, for 1.9 us more."""
    bound = lower_bound(FOUR, reduced.demand, LinkModel.STORE)
    assert bound.name == "the ejection of all NPUs"
    assert bound.time == -(-24 * MiB * 10**12 // (4 * 55 * GB)) + 1_000_000
    assert bound.time <= reduced.collective_time() <= Fraction(105, 100) * bound.time


def test_notes_give_times_that_count_the_limits(reduced: Module) -> None:
    bound = lower_bound(FOUR, reduced.demand, LinkModel.STORE).time
    times = [float(time) for note in reduced.notes for time in re.findall(r" takes ([\d.]+)us", note)]
    assert len(times) > 5
    assert min(times) == reduced.collective_time() / 1e6 > bound / 1e6
    assert not any("meets the bound" in note or "ignore the limits" in note for note in reduced.notes)


def test_a_schedule_that_meets_the_bound_with_limits_ends_the_search() -> None:
    net = limited(fully_connected(2, LinkKind(0, Fraction(50 * GB))), inject=10)
    module = planned(net, all_gather([0, 1], MiB, 1))
    assert module.collective_time() == lower_bound(net, module.demand, LinkModel.PIPELINED).time
    assert module.notes[-1].endswith("which meets the bound")


def test_limited_buffers_are_refused_before_anything_is_tried() -> None:
    kind = LinkKind(0, Fraction(50 * GB))
    links = [(a, b, kind) for k in range(3) for a, b in ((k, 3), (3, k))]
    net = limited(network(3, links, switches=1, buffers=[2]), inject=10)
    tried: list[str] = []
    effort = Effort(progress=lambda _share, words: tried.append(words))
    with pytest.raises(NoSchedule, match="limited buffers"):
        auto(Module("m", net, all_gather([0, 1, 2], MiB, 1)), effort)
    assert not tried


@pytest.mark.parametrize("name", ["tacos", "pccl", "swarm", "forest", "overlapped", "hierarchical"])
def test_no_single_synthesizer_is_shorter(name: str, reduced: Module) -> None:
    context = PassContext(effort=Effort())
    try:
        alone = Invert().run(Synthesize(name).run(Module("m", FOUR, reduced.demand, LinkModel.STORE), context), context)
    except CollcError:
        return
    assert reduced.collective_time() <= alone.collective_time()


def test_random_programs_with_limits() -> None:
    for number in range(LIMITED, LIMITED + 5):
        program = random_program(number)
        assert "limited(free, " in program.text()
        assert "buffer" not in program.text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [LIMITED + k for k in (*range(0, 40, 4), 30)])
def test_no_single_synthesizer_is_much_shorter_on_random_programs_with_limits(number: int) -> None:
    found = compare(number)
    if found is not None:
        assert not {"longer", "wrong"} & set(found.faults), (found.ratio, found.best)
