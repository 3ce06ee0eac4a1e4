"""Every way of breaking a plan that a person or a program may hit upon: each is caught, and by the right check."""

from __future__ import annotations

import copy

import pytest

from collc.msccl.options import MscclOptions, Placement
from collc.msccl.plans.plan import plan_of
from tests import support

from .broken_plans import Breaks
from .lowering import ring_all_reduce, scheduled

SEEDS = 10
PLANS = {
    "all-reduce ring": lambda: plan_of(ring_all_reduce(4)),
    "all-reduce mesh": lambda: plan_of(scheduled(support.grid(3, 3), support.all_reduce(list(range(9))))),
    "all-reduce in place": lambda: plan_of(
        scheduled(support.fully_connected(4), support.all_reduce([0, 1, 2, 3])), MscclOptions(placement=Placement.IN)
    ),
    "reduce-scatter": lambda: plan_of(scheduled(support.fully_connected(5), support.reduce_scatter(list(range(5))))),
    "all-gather": lambda: plan_of(scheduled(support.grid(2, 2), support.all_gather([0, 1, 2, 3], chunks=2))),
    "all-to-all": lambda: plan_of(scheduled(support.ring(4), support.all_to_all([0, 1, 2, 3]))),
    "instances": lambda: plan_of(ring_all_reduce(3), MscclOptions(instances=2)),
}
MOVES = ("put", "copy", "re", "res")


def told_again(ops, k):
    """Whether another signal on its channels follows the next one: who only needs it in the end has that."""
    later = [op for op in ops[k:] if op["name"] == "signal"]
    return any(set(later[0]["channel_ids"]) & set(op["channel_ids"]) for op in later[1:])


def between(before, after):
    """A nop with these operations on its sides."""

    def fits(gpu, tb, k):
        ops = tb["ops"]
        near = 0 < k < len(ops) - 1 and ops[k - 1]["name"] in before and ops[k + 1]["name"] in after
        return near and not told_again(ops, k)

    return fits


def needed(gpu, tb, k):
    """Whether a sum is not only kept for nobody."""
    return tb["ops"][k]["name"] != "res"


def no_credit(broken):
    """Nobody says that it has begun, and nobody waits for it. (All of an All-Reduce waits for everybody's data.)"""
    if broken.plan["collective"] not in ("allgather", "alltoall"):
        return False
    for gpu in broken.plan["gpus"]:
        for tb in gpu["threadblocks"]:
            ops = tb["ops"]
            receives = {k for op in ops if op["name"] == "wait" for k in op["channel_ids"]}
            told = {k for op in ops if op["name"] == "signal" for k in op["channel_ids"]}
            for name, channels in (("signal", told), ("wait", receives)):
                for channel in channels:
                    first = next(op for op in ops if op["name"] == name and channel in op["channel_ids"])
                    credits_only = name == "wait" or ops.index(first) < next(
                        (k for k, op in enumerate(ops) if op["name"] != "signal"), 0
                    )
                    puts = any(op["name"] in ("put", "res") and channel in op["channel_ids"] for op in ops)
                    if credits_only and (name == "signal" or puts):
                        first["channel_ids"] = [k for k in first["channel_ids"] if k != channel]
            tb["ops"] = [op for op in ops if op["name"] not in ("signal", "wait") or op["channel_ids"]]
    return True


def index(side):
    def change(broken):
        spot = broken.pick(*MOVES, when=lambda gpu, tb, k: side == "src_buff" or needed(gpu, tb, k))
        if spot is None:
            return False
        buff = broken.draw.choice(spot[1]["ops"][spot[2]][side])
        buff["index"] += 1 if buff["index"] == 0 else -1
        return True

    return change


def source_buffer(broken):
    spot = broken.pick(*MOVES)
    buff = broken.draw.choice(spot[1]["ops"][spot[2]]["src_buff"])
    aliases = "io" if broken.plan["inplace"] else buff["type"]
    buff["type"] = broken.draw.choice([kind for kind in "ios" if kind not in aliases] or ["i"])
    return True


def other_gpu(broken):
    """What is put lands at another gpu."""
    spot = broken.pick("put", when=lambda gpu, tb, k: len(tb["remote_buffer_refs"][0]["remote_buffer_ids"]) > 1)
    if spot is None:
        return False
    _, tb, k = spot
    buff, count = tb["ops"][k]["dst_buff"][0], len(tb["remote_buffer_refs"][0]["remote_buffer_ids"])
    buff["buffer_id"] = (buff["buffer_id"] + 1) % count
    return True


def twice(broken):
    spot = broken.pick("re", "res", when=lambda gpu, tb, k: tb["ops"][k]["src_buff"][0] == tb["ops"][k]["dst_buff"][0])
    if spot is None:
        return False
    spot[1]["ops"][spot[2] : spot[2]] = [{"name": "nop"}, copy.deepcopy(spot[1]["ops"][spot[2]]), {"name": "nop"}]
    return True


def operand(change):
    def broken_operand(broken):
        spot = broken.pick("re", "res")
        if spot is None:
            return False
        change(spot[1]["ops"][spot[2]]["src_buff"])
        return True

    return broken_operand


def channel(name):
    def change(broken):
        spot = broken.pick(
            name,
            when=lambda gpu, tb, k: len(tb["channels"][0]["channel_ids"]) > len(tb["ops"][k]["channel_ids"]),
        )
        if spot is None:
            return False
        ids, count = spot[1]["ops"][spot[2]]["channel_ids"], len(spot[1]["channels"][0]["channel_ids"])
        ids[0] = next(k for k in range(count) if k not in ids)
        return True

    return change


def semaphore(name):
    def change(broken):
        spot = broken.pick(name, when=lambda gpu, tb, k: len(gpu["semaphores"]) > 1)
        if spot is None:
            return False
        ids, count = spot[1]["ops"][spot[2]]["semaphore_ids"], len(spot[0]["semaphores"])
        others = [k for k in range(count) if k not in ids]
        if not others:
            return False
        ids[0] = others[0]
        return True

    return change


def swapped(first, second):
    """Two operations next to each other, or with a nop between them, change places."""

    def change(broken):
        spot = broken.pick(
            first,
            when=lambda gpu, tb, k: (
                second in [op["name"] for op in tb["ops"][k + 1 : k + 3]]
                and (first != "put" or not told_again(tb["ops"], k + 1))
            ),
        )
        if spot is None:
            return False
        ops, k = spot[1]["ops"], spot[2]
        j = next(j for j in (k + 1, k + 2) if ops[j]["name"] == second)
        ops[k], ops[j] = ops[j], ops[k]
        return True

    return change


def backwards(broken):
    spot = broken.pick("put", "res")
    spot[1]["ops"].reverse()
    return True


def one_channel_for_all(broken):
    """A threadblock uses the channel of another one too."""
    gpus = [gpu for gpu in broken.plan["gpus"] if len(gpu["threadblocks"]) > 1]
    if not gpus:
        return False
    one, other = broken.draw.sample(broken.draw.choice(gpus)["threadblocks"], 2)
    if not one["channels"] or not other["channels"]:
        return False
    one["channels"][0]["channel_ids"][0] = other["channels"][0]["channel_ids"][0]
    return True


def acquired(gpu, tb, k):
    """A nop between an acquire and what the other threadblock's outcome is used by."""
    names = [op["name"] for op in tb["ops"][max(0, k - 2) : k + 2]]
    return "sem_acquire" in names and names[-1] in MOVES


KINDS = {
    "signal dropped": (lambda b: b.drop("signal"), {"deadlock", "contract"}),
    "wait dropped": (lambda b: b.drop("wait"), {"contract", "deadlock"}),
    "release dropped": (lambda b: b.drop("sem_release"), {"deadlock"}),
    "acquire dropped": (lambda b: b.drop("sem_acquire"), {"contract", "deadlock"}),
    "no credits": (no_credit, {"race"}),
    "put dropped": (lambda b: b.drop("put"), {"result"}),
    "copy dropped": (lambda b: b.drop("copy"), {"result"}),
    "sum dropped": (lambda b: b.drop("re"), {"result"}),
    "sum and send dropped": (lambda b: b.drop("res"), {"result"}),
    "summed twice": (twice, {"result"}),
    "operand lost": (operand(lambda sources: sources.pop()), {"result", "contract"}),
    "operand twice": (operand(lambda sources: sources.append(dict(sources[-1]))), {"result"}),
    "operands alike": (operand(lambda sources: sources.__setitem__(0, dict(sources[1]))), {"result"}),
    "wrong offset to read": (index("src_buff"), {"result", "race", "contract"}),
    "wrong offset to write": (index("dst_buff"), {"result", "race", "contract"}),
    "wrong buffer to read": (source_buffer, {"result", "race", "contract"}),
    "put into another gpu": (other_gpu, {"result", "race", "contract"}),
    "signal on another channel": (channel("signal"), {"deadlock", "contract"}),
    "wait on another channel": (channel("wait"), {"deadlock", "contract", "race"}),
    "another semaphore released": (semaphore("sem_release"), {"deadlock", "contract", "race"}),
    "another semaphore acquired": (semaphore("sem_acquire"), {"deadlock", "contract", "race"}),
    "no nop before a signal": (lambda b: b.drop("nop", when=between(("put", "res"), ("signal",))), {"race"}),
    "no nop after a wait": (lambda b: b.drop("nop", when=between(("wait",), ("res", "re"))), {"race"}),
    "no nop before a release": (lambda b: b.drop("nop", when=between(("re",), ("sem_release",))), {"race"}),
    "no nop after an acquire": (lambda b: b.drop("nop", when=acquired), {"race"}),
    "signal before its put": (swapped("put", "signal"), {"race", "result"}),
    "signal before its sum": (swapped("res", "signal"), {"race", "result"}),
    "sum before its wait": (swapped("wait", "re"), {"race", "result", "deadlock"}),
    "threadblock backwards": (backwards, {"deadlock", "race", "result", "contract"}),
    "one channel for two threadblocks": (one_channel_for_all, {"race", "deadlock", "contract"}),
}


BREAKS = Breaks(PLANS, KINDS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_break_is_caught(kind, tmp_path):
    BREAKS.assert_caught(tmp_path, kind, SEEDS, least=SEEDS)
