"""Permutations give what a collective asks for, and there are as many as the largest degrees together."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

import collc
from collc.msccl.check.collectives import wanted_output
from collc.msccl.check.findings import Findings
from collc.msccl.check.reader import read_file
from collc.msccl.check.symbolic import placements_of
from collc.runtime.collectives import INPUT, REDUCING
from collc.runtime.rounds import RankRounds, rounds_of
from collc.runtime.run_program import RunProgram
from collc.spmd.permutations import Plan, plan_of
from tests.msccl.programs import GOOD, exchange, write
from tests.running.test_rounds import ELEMENTS, SCHEDULES, UNUSED, program_of

NET = "mesh2d(2, 2, bandwidth: 50GB/s, latency: 1us) without { link npu[0, 0] -> npu[0, 1] }"


def execute(plan: Plan, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of all ranks."""
    ranks = range(len(inputs))
    memory = np.full((len(inputs), plan.rows, ELEMENTS), UNUSED)
    for rank, given in enumerate(inputs):
        memory[rank, plan.source[rank, 0] :][: len(given)] = given
    for level in plan.levels:
        sent, begin = memory.copy(), 0
        for pairs, length in level.permutations:
            assert all(max(Counter(side).values()) == 1 for side in zip(*pairs, strict=True))
            for place in range(begin, begin + length):
                receives = {rank for rank in ranks if level.receives[rank, place] < plan.rows}
                assert receives <= {receiver for _, receiver in pairs}
                for sender, receiver in pairs:
                    if receiver in receives:
                        memory[receiver, level.receives[receiver, place]] = sent[sender, level.sends[sender, place]]
            begin += length
        for work in level.work:
            before = memory.copy()
            for rank in ranks:
                for target, first, second, reduces in zip(*(column[rank] for column in work), strict=True):
                    if target < plan.rows:
                        memory[rank, target] = before[rank, first] + (before[rank, second] if reduces else 0)
    for rows in (table for level in plan.levels for table in (level.receives, *(work.target for work in level.work))):
        assert all(len(set(own)) == len(own) for own in rows.tolist()), "a row is written twice at a time"
    return [memory[rank, plan.target[rank, 0] :][: plan.blocks[1] * plan.chunks] for rank in ranks]


def largest_degrees(rounds: list[RankRounds]) -> int:
    """The sum over the rounds of the most messages that a rank sends or receives."""
    degrees: dict[int, Counter[tuple[str, int]]] = defaultdict(Counter)
    for rank, own in enumerate(rounds):
        for number, step in zip(own.numbers, own.rounds, strict=True):
            degrees[number]["sends", rank] += len(step.sends)
            degrees[number]["receives", rank] += len(step.receives)
    return sum(max(own.values()) for own in degrees.values())


def check(program: RunProgram) -> Plan:
    plan = plan_of(program)
    placements = [rounds_of(program, inplace=inplace) for inplace in {not program.out_of_place, program.in_place}]
    random = np.random.default_rng(0)
    inputs = [random.integers(0, 1000, (own.buffers[INPUT][1], ELEMENTS)) for own in placements[0]]
    for number, output in enumerate(execute(plan, inputs)):
        wanted = wanted_output(program.coll, number, program.ranks, program.chunks_per_loop, program.root)
        if wanted is not None:
            parts = [inputs[other][wanted[1].start : wanted[1].stop] for other in wanted[0]]
            result = np.sum(parts, axis=0) if program.coll in REDUCING else np.concatenate(parts)
            assert np.array_equal(output[: len(result)], result), number
    assert len(list(plan.permutations())) == min(map(largest_degrees, placements))
    return plan


@pytest.mark.parametrize("name", GOOD)
def test_hand_written_programs(tmp_path, name):
    path = write(tmp_path / "f.xml", GOOD[name]())
    file = read_file(path, "executor", Findings())
    if file.coll not in ("custom", "send", "recv"):
        for inplace in placements_of(file):
            check(program_of(path, inplace=inplace))


def test_compiled_programs(tmp_path):
    collc.compile_text(SCHEDULES.replace("NET", NET), output=tmp_path)
    for path in tmp_path.glob("*.run"):
        check(RunProgram.from_bytes(path.read_bytes()))


def test_what_is_exchanged_in_place_is_read_before_it_is_overwritten(tmp_path):
    plan = check(program_of(write(tmp_path / "f.xml", exchange(2)), inplace=True))
    assert [permutation.pairs for permutation in plan.permutations()] == [((0, 1), (1, 0))]
