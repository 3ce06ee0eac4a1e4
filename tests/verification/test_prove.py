"""Z3 proves known optima, refutes what is too long, and agrees with the interpreter on properties."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from collc.ten.demand import Demand, Op
from collc.ten.module import Bound, Module
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel, RowSchedule
from collc.verification import verify_schedule
from collc.verification.optimal import find_schedule, prove_optimal
from collc.verification.prove import prove_properties
from collc.verification.smt import solve
from tests.support import (
    MiB,
    all_gather,
    all_reduce,
    all_to_all,
    demand_of,
    dgx1,
    grid,
    network,
    reduce_scatter,
    ring,
)
from tests.verification.interpreter import interpret
from tests.verification.mutations import MUTATIONS
from tests.verification.worlds import random_module, transfers


def groups() -> Demand:
    """All-to-Allv in the top row (NPU 0 sends two chunks to each), All-Gather of two chunks in the bottom row."""
    pairs = [(0, 1), (0, 1), (0, 2), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    top = demand_of([(MiB, [i], [j], Op.COPY) for i, j in pairs])
    return Demand((*top.runs, *all_gather([6, 7, 8], chunks=2).runs))


OPTIMA = [
    ("mesh 3x3 All-Gather", Module("m", grid(3, 3), all_gather(list(range(9)))), 4),
    ("mesh 2x3 All-to-All", Module("m", grid(2, 3), all_to_all(list(range(6)))), 4),
    ("torus 3x3 All-Gather", Module("m", grid(3, 3, wrap=True), all_gather(list(range(9)))), 2),
    ("DGX-1 All-Gather", Module("m", dgx1(), all_gather(list(range(8)))), 2),
    ("ring 4, 2 chunks", Module("m", ring(4), all_gather([0, 1, 2, 3], chunks=2)), 3),
    ("Send on mesh 3x3", Module("m", grid(3, 3), demand_of([(MiB, [0], [8], Op.COPY)])), 4),
    ("two groups on mesh 3x3", Module("m", grid(3, 3), groups()), 3),
    ("mesh 3x3 Reduce-Scatter", Module("m", grid(3, 3), reduce_scatter(list(range(9)))), 4),
]


@pytest.mark.parametrize(("module", "steps"), [case[1:] for case in OPTIMA], ids=[case[0] for case in OPTIMA])
def test_known_optima(module: Module, steps: int) -> None:
    found = find_schedule(module, steps)
    assert found is not None
    assert verify_schedule(found).ok
    assert all(interpret(found).values())
    assert find_schedule(module, steps - 1) is None
    result = prove_optimal(found)
    assert (result.answer, result.steps) == ("proved", steps)
    assert result.certificate is not None
    again, _ = solve(result.certificate.text, 60, finite=False)
    assert again.answer == result.certificate.answer == "unsat"
    assert str(result.certificate).startswith("; answer: unsat\n; solver: Z3 ")


def test_a_longer_schedule_is_refuted_with_a_shorter_one() -> None:
    module = Module("m", ring(5), all_gather(list(range(5))))
    found = find_schedule(module, 4)
    assert found is not None
    kept = found.schedule.transfers
    step = int(kept.start[kept.start > 0].min())
    long = replace(found, schedule=RowSchedule(LinkModel.STORE, replace(kept, start=kept.start + 2 * step)))
    said: list[str] = []
    result = prove_optimal(long, progress=lambda _share, words: said.append(words))
    assert result.answer == "refuted"
    assert result.shorter is not None
    assert verify_schedule(result.shorter).ok
    before, after = (m.schedule.collective_time(m.network, m.demand) for m in (long, result.shorter))
    assert after < before
    assert len(said) == 2


def test_a_met_bound_needs_no_solver() -> None:
    found = find_schedule(Module("m", ring(4), all_gather([0, 1, 2, 3])), 2)
    assert found is not None
    time = found.schedule.collective_time(found.network, found.demand)
    result = prove_optimal(replace(found, bound=Bound(time, "in-degree of npu[0]")))
    assert result.answer == "proved"
    assert result.certificate is None
    assert "in-degree" in result.reason


def undecidable() -> list[Module]:
    rows = RowSchedule(LinkModel.STORE, transfers([(0, 0, 0, False)]))
    slow = LinkKind(900_000, 10**9)
    mixed = network(3, [(0, 1), (1, 2), (2, 0, slow)])
    return [
        Module("m", mixed, all_gather([0, 1, 2]), schedule=rows),
        Module("m", ring(3), all_reduce([0, 1, 2]), schedule=rows),
        Module("m", ring(3), all_gather([0, 1, 2]), schedule=RowSchedule(LinkModel.PIPELINED, rows.rows)),
        Module("m", network(2, [(0, 2), (2, 1)], switches=1), all_gather([0, 1]), schedule=rows),
        Module("m", ring(3), all_gather([0, 1, 2])),
    ]


@pytest.mark.parametrize("module", undecidable())
def test_what_has_no_steps_is_undecided(module: Module) -> None:
    result = prove_optimal(module)
    assert result.answer == "undecided"
    assert result.reason


def test_no_time_is_no_answer() -> None:
    module = Module("m", grid(3, 4), all_to_all(list(range(12))))
    long = replace(module, schedule=RowSchedule(LinkModel.STORE, transfers([(10**8 * 3, 0, 0, False)])))
    assert prove_optimal(long, timeout=0.001).answer == "undecided"


@pytest.mark.slow
def test_properties_agree_with_the_interpreter() -> None:
    seen: Counter[tuple[str, str]] = Counter()
    names = sorted(
        set(MUTATIONS) - {"link_that_is_not_there", "chunk_that_is_not_there", "device_removed", "link_to_itself"}
    )
    for seed in range(20_000, 20_260):
        rng = random.Random(seed)
        module = random_module(seed)
        if seed % 2:
            module = MUTATIONS[rng.choice(names)](module, rng) or module
        expected = interpret(module)
        proof = prove_properties(module)
        reductions = bool((module.demand.chunks.op != Op.COPY).any())
        seen.update(proof.outcomes.items())
        seen["all", proof.answer] += 1
        unclear = {name for name, outcome in proof.outcomes.items() if outcome == "undecided"}
        assert unclear <= {"reductions", "switches"}
        if proof.answer != "undecided":
            assert (proof.answer == "proved") == all(expected.values()), seed
        if unclear or not expected["causality"]:
            continue
        for name in ("congestion_free", "switches", *(() if reductions else ("delivered",))):
            assert (proof.outcomes[name] == "proved") == expected[name], (seed, name)
        if expected["delivered"]:
            # A reduction that is not delivered is refuted as one that is not complete.
            assert (proof.outcomes["reductions"] == "proved") == expected["reductions"], seed
    for name in ("causality", "congestion_free", "delivered", "reductions", "switches"):
        assert seen[name, "proved"] > 20
        assert seen[name, "refuted"] > 0
    assert seen["all", "undecided"] < 60


def test_a_good_schedule_is_proved() -> None:
    n = 5
    module = Module("m", ring(n, one_way=True), all_reduce(list(range(n))))
    step = 20_031_250
    rows = [(s * step, i, (i - s) % n, s < n - 1) for s in range(2 * n - 2) for i in range(n)]
    good = replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(rows)))
    proof = prove_properties(good)
    assert proof.answer == "proved"
    assert set(proof.certificates) == {"causality", "congestion_free", "delivered", "reductions", "switches"}
    early = replace(good.schedule.rows, start=np.maximum(0, good.schedule.rows.start - 1))
    assert prove_properties(replace(module, schedule=RowSchedule(LinkModel.STORE, early))).answer == "refuted"


@pytest.mark.parametrize(
    "name", ["link_that_is_not_there", "chunk_that_is_not_there", "device_removed", "link_to_itself"]
)
def test_what_is_not_there_is_never_proved(name: str) -> None:
    found = find_schedule(Module("m", ring(4), all_gather([0, 1, 2, 3])), 2)
    assert found is not None
    mutant = MUTATIONS[name](found, random.Random(1))
    assert mutant is not None
    assert prove_properties(mutant).answer == "undecided"
