"""What saves time if programs are large gives the same programs."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from collc.msccl.lowering import lower as lowering
from collc.msccl.lowering import scratch_slots
from collc.msccl.lowering.lower import lower
from collc.msccl.program import Program
from tests.msccl.lowering import assert_right, direct_all_to_all


def test_programs_of_single_chunks_are_only_simulated() -> None:
    """The simulation finds every deadlock of messages of one chunk, so these are not looked for before."""
    for chunks, searched in ((1, False), (4, True)):
        announced: list[str] = []
        lower(direct_all_to_all(3, chunks), announce=announced.append)
        assert ("attempt 1: search for deadlocks" in announced) == searched
        assert any(stage.endswith("simulation") for stage in announced)


def test_a_program_that_blocks_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[Program] = []
    simulated = lowering.replay_time

    def blocking(program: Program, *rest: object) -> int:
        calls.append(program)
        if len(calls) == 1:
            raise lowering.Blocked("threadblock 0 of GPU 0 blocks forever")
        return simulated(program, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(lowering, "replay_time", blocking)
    program = lower(direct_all_to_all(4))
    assert len(calls) > 1
    assert program is not calls[0]
    assert_right(program, tmp_path)


@pytest.mark.parametrize("at_once", [False, True])
def test_single_slots_are_the_first_that_fit(at_once: bool) -> None:
    """The heap gives the slots that the search along all of them gives."""
    draw = Random(5)
    for _ in range(50):
        begins = sorted(draw.randint(0, 30) for _ in range(40))
        blocks = [
            scratch_slots.ScratchBlock(number, 1, (begin, 0, number, 0), begin + draw.randint(-1, 12))
            for number, begin in enumerate(begins)
        ]
        busy: list[int] = []
        wanted: dict[int, int] = {}
        for block in blocks:
            before = block.begin[0] + at_once
            slot = next((slot for slot, until in enumerate(busy) if until < before), len(busy))
            busy[slot : slot + 1] = [max(block.free, block.begin[0])]
            wanted[block.first] = slot
        assert scratch_slots.allocate_blocks(blocks, at_once=at_once) == (wanted, len(busy))
