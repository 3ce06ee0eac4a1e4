"""Plans that collc writes, broken in every way: what a random run gets wrong, the checker must have caught."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict

import pytest

from collc.msccl.check_plan import check_plan
from collc.msccl.plans.plan import plan_of
from tests import support

from .lowering import scheduled

TRIES = 8


class Run:
    """One run of an out-of-place All-Reduce or All-Gather in random order, with numbers for data.

    All threads of a threadblock run every operation, each its own part of the data: between two nops
    operations happen in any order.
    """

    def __init__(self, plan: dict, seed: int) -> None:
        self.draw = random.Random(seed)
        self.plan = plan
        self.memory = [
            {
                "i": [1000**3 * 3**rank + chunk for chunk in range(gpu["input_chunks"])],
                "o": [-1] * gpu["output_chunks"],
                "s": [-1] * gpu["scratch_chunks"],
            }
            for rank, gpu in enumerate(plan["gpus"])
        ]
        self.signals: Counter[tuple[int, int, int]] = Counter()
        self.semaphores: Counter[tuple[int, int]] = Counter()
        self.segments = {
            (gpu["id"], tb["id"]): self._segments(tb["ops"]) for gpu in plan["gpus"] for tb in gpu["threadblocks"]
        }

    def _segments(self, ops: list[dict]) -> list[list[dict]]:
        found: list[list[dict]] = [[]]
        for op in ops:
            if op["name"] == "nop":
                found.append([])
            else:
                found[-1].append(op)
        return found

    def right(self) -> bool:
        """Whether the run ends, leaves nothing behind, and every output is as wanted."""
        while True:
            for segments in self.segments.values():
                while segments and not segments[0]:
                    segments.pop(0)
            ready = [
                (*at, op)
                for at, segments in self.segments.items()
                if segments
                for op in segments[0]
                if self._can(*at, op)
            ]
            if not ready:
                break
            rank, tb, op = self.draw.choice(ready)
            self.segments[rank, tb][0] = [other for other in self.segments[rank, tb][0] if other is not op]
            self._do(rank, tb, op)
        if any(self.segments.values()) or any(self.signals.values()) or any(self.semaphores.values()):
            return False
        inputs = [memory["i"] for memory in self.memory]
        if self.plan["collective"] == "allreduce":
            wanted = [sum(column) for column in zip(*inputs, strict=True)]
        else:
            wanted = [value for own in inputs for value in own]
        return all(memory["o"] == wanted for memory in self.memory)

    def _keys(self, rank: int, tb: int, op: dict) -> list[tuple[int, int, int]]:
        """(from, to, number between the two) of the channels of an operation, seen from this side."""
        gpu = self.plan["gpus"][rank]
        peers = gpu["channels"][0]["connected_to"]
        ids = [gpu["threadblocks"][tb]["channels"][0]["channel_ids"][k] for k in op["channel_ids"]]
        return [(rank, peers[k], peers[:k].count(peers[k])) for k in ids]

    def _can(self, rank: int, tb: int, op: dict) -> bool:
        if op["name"] == "wait":
            return all(self.signals[b, a, k] for a, b, k in self._keys(rank, tb, op))
        if op["name"] == "sem_acquire":
            return all(self.semaphores[rank, k] for k in op["semaphore_ids"])
        return True

    def _do(self, rank: int, tb: int, op: dict) -> None:
        if op["name"] in ("signal", "wait"):
            for a, b, k in self._keys(rank, tb, op):
                self.signals[(a, b, k) if op["name"] == "signal" else (b, a, k)] += 1 if op["name"] == "signal" else -1
        elif op["name"].startswith("sem_"):
            for k in op["semaphore_ids"]:
                self.semaphores[rank, k] += 1 if op["name"] == "sem_release" else -1
        else:
            self._move(rank, tb, op)

    def _move(self, rank: int, tb: int, op: dict) -> None:
        sources = [self._place(rank, tb, b) for b in op["src_buff"]]
        targets = [self._place(rank, tb, b) for b in op["dst_buff"]]
        data = [[memory[at + k] for memory, at in sources] for k in range(op["src_buff"][0]["size"])]
        for memory, at in targets:
            for k, values in enumerate(data):
                memory[at + k] = sum(values)

    def _place(self, rank: int, tb: int, buff: dict) -> tuple[list[int], int]:
        if "type" in buff:
            return self.memory[rank][buff["type"]], buff["index"]
        gpu = self.plan["gpus"][rank]
        number = gpu["threadblocks"][tb]["remote_buffer_refs"][0]["remote_buffer_ids"][buff["buffer_id"]]
        remote = gpu["remote_buffers"][number]
        return self.memory[remote["rank"]][remote["type"]], buff["index"]


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_what_goes_wrong_in_a_random_run_is_caught(case, tmp_path):
    good = plan_of(CASES[case]())
    assert all(Run(good, seed).right() for seed in range(50))
    path = tmp_path / "plan.json"
    caught: Counter[str] = Counter()
    harmless: dict[str, int] = defaultdict(int)
    text = json.dumps(good)
    for rank, gpu in enumerate(good["gpus"]):
        for tb, block in enumerate(gpu["threadblocks"]):
            for kind, k, change in mutations(block["ops"]):
                mutant = json.loads(text)
                change(mutant["gpus"][rank]["threadblocks"][tb]["ops"], k)
                path.write_text(json.dumps(mutant))
                if not check_plan(path, collective=case.split()[0]).ok:
                    caught[kind] += 1
                    continue
                harmless[kind] += 1
                assert all(Run(mutant, seed).right() for seed in range(TRIES)), (kind, rank, tb, k)
    assert len(caught) >= 15
    # Data or signals gone, doubled or elsewhere are never harmless, but for a partial sum kept for nobody.
    needless = ("nop dropped", "swapped", "res with another index in dst_buff")
    assert not [kind for kind in harmless if not kind.endswith(needless)], dict(harmless)
