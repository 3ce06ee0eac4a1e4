"""Permutations give what a collective asks for, and there are as many as the largest degrees together."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

import collc
from collc.msccl.check.collectives import wanted_output
from collc.msccl.check.findings import Findings
from collc.msccl.check.reader import read_file
from collc.runtime.collectives import INPUT, REDUCING
from collc.runtime.rounds import rounds_of
from collc.runtime.run_program import RunProgram
from collc.spmd.permutations import Plan, plan_of
from tests.msccl.programs import GOOD, exchange, write
from tests.running.test_rounds import ELEMENTS, SCHEDULES, UNUSED, program_of

NET = "mesh2d(2, 2, bandwidth: 50GB/s, latency: 1us) without { link npu[0, 0] -> npu[0, 1] }"


def execute(plan: Plan, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of all ranks."""
    memory = np.full((len(inputs), plan.rows, ELEMENTS), UNUSED)
    for rank, given in enumerate(inputs):
        memory[rank, plan.source[rank] :][: len(given)] = given
    assert all(max(first) + length <= plan.rows for first, length in plan.slices())
    for level in plan.levels:
        before = memory.copy()
        for permutation in level.permutations:
            assert all(max(Counter(side).values()) == 1 for side in zip(*permutation.pairs, strict=True))
            assert {receiver for _, receiver in permutation.pairs} == set(np.flatnonzero(permutation.lengths))
            for sender, receiver in permutation.pairs:
                part = before[sender, permutation.first[sender] :][: permutation.lengths[receiver]]
                memory[receiver, permutation.into[receiver] :][: len(part)] = part
        for work in level.work:
            for rank, (target, first, second, length, reduces) in enumerate(zip(*work, strict=True)):
                result = memory[rank, first:][:length] + (memory[rank, second:][:length] if reduces else 0)
                memory[rank, target:][:length] = result
    return [memory[rank, plan.target[rank] :][: plan.blocks[1] * plan.chunks] for rank in range(len(inputs))]


def check(program: RunProgram) -> Plan:
    plan, rounds = plan_of(program), rounds_of(program, inplace=not program.out_of_place)
    random = np.random.default_rng(0)
    inputs = [random.integers(0, 1000, (own.buffers[INPUT][1], ELEMENTS)) for own in rounds]
    for number, output in enumerate(execute(plan, inputs)):
        wanted = wanted_output(program.coll, number, program.ranks, program.chunks_per_loop, program.root)
        if wanted is not None:
            parts = [inputs[other][wanted[1].start : wanted[1].stop] for other in wanted[0]]
            result = np.sum(parts, axis=0) if program.coll in REDUCING else np.concatenate(parts)
            assert np.array_equal(output[: len(result)], result), number
    degrees: dict[int, Counter[tuple[str, int]]] = defaultdict(Counter)
    for rank, own in enumerate(rounds):
        for number, step in zip(own.numbers, own.rounds, strict=True):
            degrees[number]["sends", rank] += len(step.sends)
            degrees[number]["receives", rank] += len(step.receives)
    assert len(list(plan.permutations())) == sum(max(own.values()) for own in degrees.values())
    return plan


@pytest.mark.parametrize("name", GOOD)
def test_hand_written_programs(tmp_path, name):
    path = write(tmp_path / "f.xml", GOOD[name]())
    if read_file(path, "executor", Findings()).coll not in ("custom", "send", "recv"):
        for inplace in (False, True):
            check(program_of(path, inplace=inplace))


def test_compiled_programs(tmp_path):
    collc.compile_text(SCHEDULES.replace("NET", NET), output=tmp_path)
    for path in tmp_path.glob("*.run"):
        check(RunProgram.from_bytes(path.read_bytes()))


def test_what_is_exchanged_in_place_is_read_before_it_is_overwritten(tmp_path):
    plan = check(program_of(write(tmp_path / "f.xml", exchange(2)), inplace=True))
    assert [permutation.pairs for permutation in plan.permutations()] == [((0, 1), (1, 0))]


def test_numbers_that_all_ranks_share_are_in_no_table(tmp_path):
    plan = check(program_of(write(tmp_path / "f.xml", GOOD["ring all-gather"]()), inplace=False))
    places, table = plan.table()
    assert table.shape == (len(plan.source), len(places))
    assert all(len(set(column)) > 1 and column == tuple(table[:, at]) for column, at in places.items())
    assert plan.source not in places
