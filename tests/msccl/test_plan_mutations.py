"""Plans by hand and of collc, broken in every way: what goes wrong in the emulation in any order, the check refuses."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from collc.msccl.check.findings import Verdict
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement, Protocol
from collc.msccl.plans.plan import plan_of
from tests import support
from tests.emulation.judge import judge_plan
from tests.emulation.mutants import mutated_plan

from . import hand_plans as by_hand
from .lowering import in_switch, scheduled

PORTS = MscclOptions(gpus_per_node=1)
PACKETS = MscclOptions(protocol=Protocol.LL)
PACKETS_AND_PORTS = MscclOptions(protocol=Protocol.LL, gpus_per_node=1)
IN_PLACE = MscclOptions(placement=Placement.IN)
TINY = {
    "all-gather by hand": lambda: by_hand.all_gather(2),
    "all-reduce by hand": lambda: by_hand.all_reduce(2),
    "semaphores": by_hand.by_semaphore,
    "reads and barriers": lambda: by_hand.read_reduce(2),
    "all-gather over ports by hand": lambda: by_hand.all_gather(2, "port"),
    "puts with signals": lambda: by_hand.by_port(2),
    "all-gather over ports": lambda: plan_of(scheduled(support.ring(2), support.all_gather([0, 1])), PORTS),
    "all-reduce over ports": lambda: plan_of(scheduled(support.ring(2), support.all_reduce([0, 1])), PORTS),
    "all-reduce in a switch": lambda: plan_of(in_switch(support.all_reduce([0, 1]))),
    "all-reduce in a switch, in place": lambda: plan_of(in_switch(support.all_reduce([0, 1])), IN_PLACE),
    "all-gather of packets": lambda: plan_of(scheduled(support.ring(2), support.all_gather([0, 1])), PACKETS),
    "all-reduce of packets": lambda: plan_of(scheduled(support.ring(2), support.all_reduce([0, 1])), PACKETS),
    "packets over ports": lambda: plan_of(scheduled(support.ring(2), support.all_gather([0, 1])), PACKETS_AND_PORTS),
    "stores to all": lambda: by_hand.multicast(2),
    "all-gather": lambda: plan_of(scheduled(support.ring(2), support.all_gather([0, 1]))),
    "all-reduce": lambda: plan_of(scheduled(support.ring(2), support.all_reduce([0, 1]))),
}


def judged(folder: Path, plan, runs: int = 3) -> tuple[Verdict, str]:
    """What the check says, and what happens in the emulation."""
    path = folder / "plan.json"
    path.write_text(plan if isinstance(plan, str) else json.dumps(plan))
    return check_plan(path), judge_plan(path.read_text(), runs=runs).kind


@pytest.mark.parametrize("name", TINY)
def test_good_plans_are_right(name, tmp_path):
    verdict, happens = judged(tmp_path, TINY[name](), runs=8)
    assert verdict.ok
    assert happens == "right"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TINY)
def test_what_passes_is_right(name, tmp_path):
    draw = random.Random(name)
    good = json.dumps(TINY[name]())
    seen: Counter[str] = Counter()
    for number in range(100):
        mutant, change = mutated_plan(good, draw)
        if "double scratch" in change or ("relaxed" in change and '"port"' in good):
            continue  # the emulation takes a packet for no order with what its operation reads, and ports for exact
        verdict, happens = judged(tmp_path, mutant)
        if verdict.ok:
            assert happens == "right", (number, change, mutant)
        if verdict.checks["deadlock"] == "failed":
            assert happens != "right", (number, change, mutant)
        seen["passes" if verdict.ok else "false alarm" if happens == "right" else "broken"] += 1
    assert seen["broken"] >= 20, seen
    assert seen["false alarm"] <= seen["broken"] // 4, seen


def other_index(buffers: str, entry: int):
    def change(ops, k):
        ops[k][buffers][entry]["index"] ^= 1

    return change


def mutations(ops: list[dict]):
    """(kind, position, change) for each way of breaking a threadblock."""
    for k, op in enumerate(ops):
        yield f"{op['name']} dropped", k, lambda ops, k: ops.pop(k)
        if op["name"] != "nop":
            yield f"{op['name']} twice", k, lambda ops, k: ops.insert(k, dict(ops[k]))
        if k and op["name"] != ops[k - 1]["name"]:
            names = " and ".join(sorted([op["name"], ops[k - 1]["name"]]))
            yield f"{names} swapped", k, lambda ops, k: ops.__setitem__(slice(k - 1, k + 1), ops[k - 1 : k + 1][::-1])
        for buffers in ("src_buff", "dst_buff"):
            for entry in range(len(op.get(buffers, ()))):
                yield f"{op['name']} with another index in {buffers}", k, other_index(buffers, entry)


CASES = {
    "all_reduce ring": lambda: scheduled(support.ring(3), support.all_reduce([0, 1, 2])),
    "all_reduce mesh": lambda: scheduled(support.grid(2, 2), support.all_reduce([0, 1, 2, 3])),
    "all_gather mesh": lambda: scheduled(support.grid(2, 2), support.all_gather([0, 1, 2, 3], chunks=2)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_whatever_is_dropped_doubled_or_swapped_is_caught(case, tmp_path):
    text = json.dumps(plan_of(CASES[case]()))
    caught: Counter[str] = Counter()
    harmless: Counter[str] = Counter()
    for rank, gpu in enumerate(json.loads(text)["gpus"]):
        for tb, block in enumerate(gpu["threadblocks"]):
            for kind, k, change in mutations(block["ops"]):
                mutant = json.loads(text)
                change(mutant["gpus"][rank]["threadblocks"][tb]["ops"], k)
                path = tmp_path / "plan.json"
                path.write_text(json.dumps(mutant))
                if not check_plan(path, collective=case.split()[0]).ok:
                    caught[kind] += 1
                    continue
                harmless[kind] += 1
                assert judge_plan(path.read_text(), runs=2).kind == "right", (kind, rank, tb, k)
    assert len(caught) >= 15
    # Data or signals gone, doubled or elsewhere are never harmless, but for a partial sum kept for nobody.
    needless = ("nop dropped", "swapped", "res with another index in dst_buff")
    assert not [kind for kind in harmless if not kind.endswith(needless)], dict(harmless)
