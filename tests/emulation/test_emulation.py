"""The emulation itself, and a sample of its campaign: what collc's check passes is right in all orders of events."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from collc.msccl.check import check_file
from collc.msccl.check_plan import check_plan
from tests.emulation import campaign
from tests.emulation.cases import COLLECTIVES, TOPOLOGIES, case
from tests.emulation.judge import judge_file, judge_plan
from tests.msccl import hand_plans, programs
from tests.msccl.programs import Block, File, Gpu

HERE = Path(__file__).parent
OURS = {"campaign.py", "cases.py", "test_packets_and_switches.py", Path(__file__).name}
"""The files that compare with collc; the others are the emulation, and have nothing of it."""
ROOTS = {"broadcast": 1, "reduce": 2, "gather": 1, "scatter": 1}


def test_the_emulation_shares_no_code_with_collc() -> None:
    for path in HERE.glob("*.py"):
        if path.name in OURS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "collc"], path.name


@pytest.mark.parametrize("name", programs.GOOD)
def test_files_by_hand_are_right(name: str) -> None:
    found = judge_file(programs.GOOD[name]().text(), root=ROOTS.get(name, -1))
    assert (found.kind, found.what) == ("right", "")


@pytest.mark.parametrize("name", hand_plans.GOOD)
def test_plans_by_hand_are_right(name: str) -> None:
    found = judge_plan(json.dumps(hand_plans.GOOD[name]()))
    assert (found.kind, found.what) == ("right", "")


def test_others_are_found_at_the_offset_of_the_own_tensor() -> None:
    """In place, the loader's rule (docs/msccl-contract.md, "Offsets"): of its tensors, not of those of others."""
    assert judge_plan(json.dumps(hand_plans.puts_of_a_scatter(0)), root=0).kind == "right"
    refused = judge_plan(json.dumps(hand_plans.puts_of_a_scatter(1)), root=1)
    assert (refused.kind, refused.what) == ("refused", "outside of the allocation: o[0] of rank 0, moved by 1")
    inputs = hand_plans.puts_to_inputs()
    for rank in range(3):  # in place there is nothing to copy
        block = inputs["gpus"][rank]["threadblocks"][0]
        block["ops"] = [op for op in block["ops"] if op["name"] != "copy"]
    assert judge_plan(json.dumps(inputs | {"inplace": True})).kind == "right"
    assert judge_plan(json.dumps(inputs)).kind != "right"


@pytest.mark.parametrize("change", ["no flush", "flush as the public DSL writes it"])
def test_what_a_port_sends_is_flushed(change: str) -> None:
    plan = hand_plans.all_gather(3, "port")
    for gpu in plan["gpus"]:
        ops = gpu["threadblocks"][0]["ops"]
        at = next(k for k, op in enumerate(ops) if op["name"] == "flush")
        if change == "no flush":
            del ops[at]
        else:
            del ops[at]["dst_buff"]
    assert judge_plan(json.dumps(plan)).kind in ("race", "wrong")


@pytest.mark.parametrize(("name", "right"), [("pwsf", True), ("pws", False)])
def test_a_put_that_signals_and_flushes(tmp_path: Path, name: str, right: bool) -> None:
    """In place of put, nop, signal and flush, with a warning of older runtimes (X0124)."""
    path = hand_plans.plan_file(tmp_path, hand_plans.put_and_signal(name))
    assert (judge_plan(path.read_text()).kind == "right") == right
    verdict = check_plan(path)
    assert verdict.ok == right
    assert ("X0124" in {found.code for found in verdict.diagnostics}) == right


def both(tmp_path: Path, file: File, profile: str = "executor", root: int = -1) -> tuple[str, bool]:
    """What happens to a file in the emulation, and whether the check passes it."""
    found = judge_file(file.text(), profile=profile, root=root)
    verdict = check_file(programs.write(tmp_path / "f.xml", file), profile=profile, root=root if root >= 0 else None)
    return found.kind, verdict.ok


def test_a_hang_that_depends_on_the_size(tmp_path: Path) -> None:
    assert both(tmp_path, programs.exchange(8)) == ("hangs", False)
    assert both(tmp_path, programs.exchange(8, max_bytes=2**20)) == ("right", True)


def test_a_dependency_less_is_a_race(tmp_path: Path) -> None:
    file = programs.star_all_gather_by_scratch()
    file.gpus[0].tbs[2].steps[0].update(depid=-1, deps=-1)
    assert both(tmp_path, file) == ("race", False)


def test_the_operand_of_a_sum_is_local(tmp_path: Path) -> None:
    file = programs.ring_reduce_scatter()
    file.gpus[1].tbs[0].steps[1].update(srcoff=0)
    assert both(tmp_path, file) == ("wrong", False)


def test_a_connection_of_one_side(tmp_path: Path) -> None:
    file = programs.ring_all_gather()
    file.gpus[2].tbs[1].send = 0
    assert both(tmp_path, file) == ("hangs", False)


def test_reductions_that_are_fused_have_one_count(tmp_path: Path) -> None:
    gpus = []
    for rank in range(2):
        first = Block(1 - rank, 1 - rank).add("s", ("i", 0), ("s", 0), 2).add("r", ("i", 0), ("s", 0), 2, hasdep=1)
        adder = Block().add("cpy", ("i", 0), ("o", 0), 2).add("re", ("s", 0), ("o", 0), 2, dep=(0, 1))
        adder.add("re", ("s", 2), ("o", 0)).add("re", ("s", 3), ("o", 1))
        adder.steps.insert(0, dict(adder.steps[0], srcoff=0, dstbuf="s", dstoff=2))
        gpus.append(Gpu((2, 2, 4), [first, adder]))
    kind, passed = both(tmp_path, File("allreduce", 2, gpus))
    assert kind == "wrong"
    assert not passed


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("proto", ["Simple", "LL"])
def test_a_message_is_passed_on_before_all_of_it_has_arrived(tmp_path: Path, proto: str, shift: int) -> None:
    """Two chunks in one message to rank 1, which returns them as they arrive, to the same slots or to others.

    If shifted by one, the first chunk arrives on the second one, which is still to be sent.
    """
    away = Block(1, -1).add("s", ("i", 0), ("i", 0), 2)
    back = Block(-1, 1).add("r", ("i", 0), ("o", shift), 2)
    middle = Block(0, 0).add("rcs", ("i", 0), ("o", 0), 2)
    gpus = [Gpu((3, 3, 0), [away, back]), Gpu((3, 3, 0), [middle])]
    file = File("allreduce", 3, gpus, proto=proto, inplace=1, outofplace=0)
    races = check_file(programs.write(tmp_path / "f.xml", file)).checks["race"] == "failed"
    assert (judge_file(file.text()).kind == "race") == races == bool(shift)


def test_a_counter_of_a_send_guards_nothing_with_rccl(tmp_path: Path) -> None:
    """Rank 0 sends a slot of scratch that another threadblock overwrites after the send's counter."""
    sender = Block(1, -1).add("cpy", ("i", 0), ("s", 0)).add("s", ("s", 0), ("o", 0), hasdep=1)
    sender.add("s", ("s", 0), ("o", 1), dep=(1, 0))
    writer = Block().add("cpy", ("i", 1), ("s", 0), dep=(0, 1), hasdep=1)
    mine = Block().add("cpy", ("i", 0), ("o", 0), 2)
    other = Block(-1, 0).add("r", ("i", 0), ("o", 0)).add("r", ("i", 0), ("o", 1))
    for proto, profile, expected in (
        ("LL", "executor", ("right", True)),
        ("Simple", "rccl", ("right", True)),
        ("LL", "rccl", ("race", False)),
    ):
        gpus = [Gpu((2, 2, 1), [sender, writer, mine]), Gpu((2, 2, 0), [other])]
        assert both(tmp_path, File("broadcast", 2, gpus, proto=proto), profile, 0) == expected


def test_all_pairs_of_topologies_and_collectives_occur() -> None:
    cases = [case(number, plan=False) for number in range(len(TOPOLOGIES) * len(COLLECTIVES))]
    pairs = {(re.findall("topology t = (.*)", one.text)[0], one.collective) for one in cases}
    assert len(pairs) == len(TOPOLOGIES) * len(COLLECTIVES)


def campaign_of(folder: Path, plan: bool, numbers: Iterable[int], runs: int, mutants: int) -> tuple[int, int]:
    """How many files were right, and how many mutants wrong. Asserts that the check agrees."""
    right = wrong = 0
    for number in numbers:
        for one in campaign.written(number, plan=plan):
            if one.text is None:
                continue
            found = campaign.emulated(one.case, one.text, runs)
            assert found.kind == "right", (one.case.name, found)
            right += 1
            for seed in range(mutants if len(one.text) < campaign.LARGEST and b'"custom"' not in one.text else 0):
                row = campaign.compared(one, seed, folder)
                assert not row.missed, row
                wrong += row.found.kind in ("wrong", "hangs", "race")
    return right, wrong


@pytest.mark.parametrize("plan", [False, True])
def test_what_the_check_passes_is_right(tmp_path: Path, plan: bool) -> None:
    """Of plans: packets over memory and ports, switch channels and ports."""
    right, wrong = campaign_of(tmp_path, plan, (103, 107, 136, 163) if plan else range(1, 4), 4, 6)
    assert right >= 3
    assert wrong >= 5


@pytest.mark.slow
@pytest.mark.parametrize("plan", [False, True])
def test_what_the_check_passes_is_right_at_length(tmp_path: Path, plan: bool) -> None:
    numbers = (*range(100, 108), 136, 163) if plan else range(100, 118)
    right, wrong = campaign_of(tmp_path, plan, numbers, 6, 10)
    assert right >= (9 if plan else 12)
    assert wrong >= (18 if plan else 40)
