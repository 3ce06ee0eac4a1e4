"""Z3 agrees with the interpreter on the properties of schedules, also with switches of all kinds."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from collc.smt.script import Undecided
from collc.smt.solver import Interrupted
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule
from collc.verification.property_proof.scheduled_transfers import BIT_VECTORS
from collc.verification.prove import prove_properties
from collc.verification.verdict import CHECKS
from tests.support import MiB, all_gather, all_reduce, demand_of, ring
from tests.verification.deadlines import find_within_steps
from tests.verification.interpreter import interpret
from tests.verification.mutations import MUTATIONS
from tests.verification.random_modules import random_module, transfers


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
        assert not unclear, (seed, proof.reasons)
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
    assert seen["all", "undecided"] == 0


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
def test_false_properties_are_never_proved(name: str) -> None:
    found = find_within_steps(Module("m", ring(4), all_gather([0, 1, 2, 3])), 2)
    assert found is not None
    mutant = MUTATIONS[name](found, random.Random(1))
    assert mutant is not None
    assert prove_properties(mutant).answer == "undecided"


def test_a_transfer_does_not_contain_later_arrivals() -> None:
    """Two NPUs exchange their contributions at the same time."""
    exchange = RowSchedule(LinkModel.STORE, transfers([(0, 0, 0, True), (0, 1, 0, True)]))
    module = Module("m", ring(2), demand_of([(MiB, [0, 1], [0, 1], Op.SUM)]), schedule=exchange)
    assert prove_properties(module).answer == "proved"


def test_all_runs_must_be_delivered_whatever_the_module_says() -> None:
    module = Module("m", ring(3), all_gather([0, 1, 2]), schedule=RowSchedule(LinkModel.STORE, transfers([])))
    for planned in (frozenset(), frozenset({0}), None):
        assert prove_properties(replace(module, planned=planned)).outcomes["delivered"] == "refuted"


@pytest.mark.parametrize("removed", [0, 1])
def test_a_link_with_one_removed_end_is_undecided(removed: int) -> None:
    net = ring(2)
    present = np.arange(2) != removed
    schedule = RowSchedule(LinkModel.STORE, transfers([(0, 0, 0, False)]))
    module = Module("m", replace(net, present=present), demand_of([(MiB, [0], [1], Op.COPY)]), schedule=schedule)
    assert prove_properties(module).reasons["causality"] == "a transfer has no two devices that are there"


def test_bit_vectors_hold_times_of_64_bits() -> None:
    times = BIT_VECTORS
    assert times.number(2**63 - 1) == f"(_ bv{2**63 - 1} 64)"
    assert times.number(-(2**63)) == f"(_ bv{2**63} 64)"
    for beyond in (2**63, -(2**63) - 1):
        with pytest.raises(Undecided, match="does not fit in 64 bits"):
            times.number(beyond)


def test_a_reduction_that_nobody_contributes_to_is_refuted_where_it_is_wanted() -> None:
    for wanted, answer in (([1], "refuted"), ([], "proved")):
        demand = demand_of([(MiB, [], wanted, Op.SUM)])
        module = Module("m", ring(2), demand, schedule=RowSchedule(LinkModel.STORE, transfers([])))
        assert prove_properties(module).outcomes["reductions"] == answer


def test_an_interrupted_proof_says_so_of_each_property(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise Interrupted

    monkeypatch.setattr("collc.verification.prove.solve", interrupted)
    module = Module("m", ring(2), all_gather([0, 1]), schedule=RowSchedule(LinkModel.STORE, transfers([])))
    assert prove_properties(module).reasons == dict.fromkeys(CHECKS, str(Interrupted()))
