"""Pareto points of exact search: SCCL's on the DGX-1, some worked out by hand, and brute force."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from collc.base.diagnostics import NoSchedule, SourceError
from collc.command.cli import main
from collc.passes.registry import PassContext, Synthesize
from collc.synthesis.exact.pareto import pareto_points
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from tests.support import all_gather, all_reduce, broadcast, dgx1, grid, network, reduce_scatter, ring, switched
from tests.synthesis.random_problems import least_time


def points(net: Network, demand: Demand, chunks: int, extra: int = 0) -> list[tuple[int, int, int]]:
    found = pareto_points(Module("m", net, demand), Effort(), chunks, extra)
    return [(point.chunks, point.steps, point.rounds) for point in found]


@pytest.mark.parametrize(
    ("chunks", "extra", "expected"),
    [
        (2, 0, [(1, 2, 2), (2, 3, 3)]),
        (3, 0, [(1, 2, 2), (2, 3, 3), (3, 4, 4)]),
        (2, 1, [(2, 2, 3)]),
    ],
)
def test_all_gather_on_the_dgx1_as_in_sccl(chunks: int, extra: int, expected: list[tuple[int, int, int]]) -> None:
    assert points(dgx1(), all_gather(list(range(8))), chunks, extra) == expected


def test_bandwidth_optimal_on_the_dgx1() -> None:
    """7 chunks per block arrive over 6 parallel links: 7/6 rounds per chunk at least. Matching finds most schedules."""
    found = (
        Synthesize("exact", {"pareto": 6}).run(Module("m", dgx1(), all_gather(list(range(8)))), PassContext()).pareto
    )
    assert [(p.chunks, p.steps, p.rounds) for p in found] == [(count, count + 1, count + 1) for count in range(1, 7)]


def test_by_hand() -> None:
    """Ring of 4: 3 chunks come over 2 links. One way, all come over one. Broadcast on a ring of 5: 2 hops at least, and
    in each round one chunk more over both links of the root."""
    assert points(ring(4), all_gather([0, 1, 2, 3]), 2) == [(1, 2, 2), (2, 3, 3)]
    assert points(ring(4), all_gather([0, 1, 2, 3]), 2, 1) == [(2, 2, 3)]
    assert points(ring(4, one_way=True), all_gather([0, 1, 2, 3]), 3, 2) == [(1, 3, 3)]
    assert points(ring(4), all_gather([0, 1, 2, 3], chunks=3), 2) == [(1, 2, 2), (2, 3, 3)]


@pytest.mark.parametrize(("make", "inverse"), [(all_gather, reduce_scatter)])
def test_a_reduction_has_the_points_of_its_inverse(make: Callable[..., Demand], inverse: Callable[..., Demand]) -> None:
    net = network(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    assert points(net, make([0, 1, 2, 3]), 2, 1) == points(net.reverse(), inverse([0, 1, 2, 3]), 2, 1)


def test_steps_of_one_round_are_those_of_brute_force() -> None:
    links = [(0, 1), (0, 2), (1, 2), (2, 0)]
    found = points(network(3, links), all_gather([0, 1, 2]), 2)
    for chunks in (1, 2):
        pre = [[npu] for npu in range(3) for _ in range(chunks)]
        best = least_time(3, [(a, b, 1, 1) for a, b in links], pre, [[0, 1, 2]] * len(pre))
        of_chunks = [steps for count, steps, rounds in found if count == chunks and steps == rounds]
        assert of_chunks in ([best], [])  # a point that is no better than one before is left out
    assert found[0][:2] == (1, 2)


def test_the_points_found_before_the_time_limit_are_reported() -> None:
    with pytest.raises(NoSchedule, match="not all Pareto points were found within 0 s") as caught:
        pareto_points(Module("m", ring(8), all_gather(list(range(8)))), Effort(time_limit=0), 2, 0)
    assert [note.message for note in caught.value.diagnostics[0].notes] == ["no point was found"]


def test_problems_without_points_are_refused() -> None:
    with pytest.raises(SourceError, match="two"):
        points(ring(4), all_reduce([0, 1, 2, 3]), 1)
    with pytest.raises(SourceError, match="direct links"):
        points(switched(4), all_gather([0, 1, 2, 3]), 1)
    assert points(ring(3), broadcast([1]), 2) == []


def test_the_schedule_is_still_that_of_the_program() -> None:
    module = Synthesize("exact", {"pareto": 2}).run(Module("m", grid(2, 2), all_gather([0, 1, 2, 3])), PassContext())
    assert [(p.chunks, p.steps, p.rounds) for p in module.pareto] == [(1, 2, 2), (2, 3, 3)]
    assert len(module.notes) == 2
    assert "2 chunks per block, 3 steps, 3 rounds (3/2 rounds per chunk)" in module.notes[1]


def test_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text(
        "import std.topologies import std.collectives "
        "topology loop = ring(4, bandwidth: 50GiB/s, latency: 0.5us) "
        "schedule s on loop { run all_gather(loop.npus, size: 8MiB) synthesize exact(pareto: 2) }"
    )
    assert main(["compile", "p.coll", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["schedules"]
    assert found["pareto"] == [
        {"chunks": 1, "steps": 2, "rounds": 2},
        {"chunks": 2, "steps": 3, "rounds": 3},
    ]
    assert main(["compile", "p.coll", "--time-limit", "0.000001"]) == 3
    assert "not all Pareto points were found" in capsys.readouterr().err
