"""Reading HLO back: each change of what moves is found."""

from __future__ import annotations

import numpy as np
import pytest

from collc.spmd.hlo import check_permutes
from collc.spmd.permutations import Level, Permutation, Plan, plan_of
from tests.msccl.programs import ring_all_reduce, write
from tests.running.test_rounds import program_of

FORMS = {
    "": "bf16[{},5]{{1,0}} collective-permute(%{})",
    "start": "(bf16[{},5]{{1,0}}, u32[]) collective-permute-start(%{})",
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Plan:
    return plan_of(program_of(write(tmp_path_factory.mktemp("f") / "f.xml", ring_all_reduce(4)), inplace=True))


def hlo_of(plan: Plan, form: str = "") -> list[str]:
    """What XLA might write for a plan: each permutation reads what the level before left, through a fusion."""
    lines = ["ENTRY %main (p: bf16[9,5]) -> bf16[9,5] {", "  %state.0 = bf16[9,5]{1,0} parameter(0)"]
    state, number = "state.0", 0
    for level, part in enumerate(plan.levels):
        arrived = []
        for permutation in part.permutations:
            number += 1
            moved = FORMS[form].format(permutation.length, state)
            pairs = ",".join(f"{{{a},{b}}}" for a, b in permutation.pairs)
            lines.append(f"  %move.{number} = {moved}, channel_id=1, source_target_pairs={{{pairs}}}, metadata={{}}")
            arrived.append(f"move.{number}")
        new = f"state.{level + 1}"
        operands = ", ".join(f"%{name}" for name in (state, *arrived))
        lines.append(f"  ROOT %{new} = bf16[9,5]{{1,0}} fusion({operands}), kind=kLoop, calls=%fused")
        state = new
    return [*lines, "}"]


@pytest.mark.parametrize("form", FORMS)
def test_what_a_plan_says(plan, form):
    assert check_permutes("\n".join(hlo_of(plan, form)), plan) == 6


CHANGES = {
    "has 5 collective-permutes, the schedule 6": lambda lines: [line for line in lines if "%move.3 =" not in line],
    "differs from the schedule": lambda lines: [line.replace("{0,1},{1,2}", "{0,2},{1,1}", 1) for line in lines],
    "elements move by": lambda lines: [
        line.replace("bf16[1,5]", "bf16[2,5]") if "%move.2 =" in line else line for line in lines
    ],
}
"""What a wrong HLO is told, and the change that makes it."""


@pytest.mark.parametrize("told", CHANGES)
def test_other_moves(plan, told):
    with pytest.raises(ValueError, match=told):
        check_permutes("\n".join(CHANGES[told](hlo_of(plan))), plan)


def test_a_permutation_that_waits_for_another_of_its_round():
    both, none = [Permutation((pair,), 1) for pair in ((0, 1), (1, 0))], np.zeros((2, 1), np.int32)
    plan = Plan(none, none, (1, 1), 1, 2, [Level(both, none, none, [])])
    text = "\n".join(hlo_of(plan))
    assert check_permutes(text, plan) == 2
    with pytest.raises(ValueError, match=r"1 permutations come before \(\(1, 0\),\), of round 1"):
        check_permutes(text.replace("%state.0), channel_id=1, source_target_pairs={{1,0}}", "%move.1), source_target_pairs={{1,0}}"), plan)  # fmt: skip # noqa: E501
