"""Plans by hand with packets and switch channels, and what goes wrong in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collc.emit.msccl import plan_lines
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement
from collc.msccl.plans.plan import plans_of
from tests import support
from tests.emulation.judge import judge_plan
from tests.msccl.hand_plans import buff, far, gpu, plan
from tests.msccl.lowering import in_switch

Json = Any
N = 3


def one_shot() -> Json:
    """All-Reduce out of place: everybody sends packets to everybody, and adds what arrives; double scratch."""
    gpus = []
    for rank in range(N):
        put = {
            "name": "ppkt",
            "src_buff": [buff("i", 0)] * (N - 1),
            "dst_buff": [far(k, rank) for k in range(N - 1)],
            "channel_type": "memory",
        }
        add = {
            "name": "repkt",
            "src_buff": [buff("i", 0), *(buff("s", peer) for peer in range(N) if peer != rank)],
            "dst_buff": [buff("o", 0)],
        }
        gpus.append(gpu(rank, N, (1, 1, N), [[put, add]], ["s"]))
    return plan("allreduce", gpus) | {"protocol": "LL", "use_double_scratch_buffer": True}


def in_network(relaxed: str = "rlx") -> Json:
    """All-Reduce in place: rank r sums chunk r of all ranks through the switch, between two barriers of all ranks."""
    gpus = []
    for rank in range(N):
        channels = {"channel_type": "memory", "channel_ids": [*range(N - 1)]}
        region = [{"switch_channel_id": 0, "index": rank, "size": 1}]
        ops = [
            {"name": f"{relaxed}signal", **channels},
            {"name": f"{relaxed}wait", **channels},
            {"name": "nop"},
            {"name": "glres", "src_buff": region, "dst_buff": region, "channel_type": "switch", "reduce_op": "sum"},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        made = gpu(rank, N, (N, N, 0), [ops], [])
        groups = [{"size": N, "ranks": [*range(N)]}]
        made["channels"].append({"channel_type": "switch", "buffer_type": "i", "rank_groups": groups})
        made["threadblocks"][0]["channels"].append({"channel_type": "switch", "channel_ids": [0]})
        gpus.append(made)
    return plan("allreduce", gpus, inplace=True)


@pytest.mark.parametrize("make", [one_shot, in_network, lambda: in_network("")])
def test_plans_are_right(make: Callable[[], Json]) -> None:
    found = judge_plan(json.dumps(make()), runs=24)
    assert (found.kind, found.what) == ("right", "")


@pytest.mark.parametrize(("size", "nodes"), [(18, 1), (6, 2)])
def test_plans_over_switches_are_right(size: int, nodes: int) -> None:
    """More GPUs than a threadblock signals; sums for an exchange, which few threadblocks of a GPU make in turn."""
    module = in_switch(support.all_reduce([*range(size)], chunks=nodes), nodes)
    options = MscclOptions(placement=Placement.IN, gpus_per_node=size // nodes)
    last = list(plans_of(module, options))[-1]
    found = judge_plan("".join(plan_lines(last)), runs=4, coll="allreduce")
    assert (found.kind, found.what) == ("right", "")


def test_one_half_of_scratch_is_overwritten_by_the_next_launch() -> None:
    single = one_shot() | {"use_double_scratch_buffer": False}
    assert judge_plan(json.dumps(single)).kind != "right"


def test_packets_need_twice_the_room() -> None:
    assert judge_plan(json.dumps(one_shot() | {"protocol": "Simple"})).kind == "refused"


def passed_back(kind: str) -> Json:
    """Rank 0 reads or writes its scratch, then sends packets; rank 1 overwrites or reads that scratch after them."""
    away = {
        "name": "ppkt",
        "src_buff": [buff("i", 0)],
        "dst_buff": [far(0, 0)],
        "channel_type": "memory",
    }
    before = {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("s", 2)]}
    unpack = {"name": "upkt", "src_buff": [buff("s", 0)], "dst_buff": [buff("o", 0)]}
    overwrite = {"name": "put", "src_buff": [buff("i", 0)], "dst_buff": [far(0, 2)], "channel_type": "memory"}
    if kind == "reads":
        before["src_buff"], before["dst_buff"] = [buff("s", 2)], [buff("s", 3)]
    else:
        overwrite = {"name": "rre", "src_buff": [buff("i", 0), far(0, 2)], "dst_buff": [buff("s", 3)]}
        overwrite["channel_type"] = "memory"
    own = {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("o", 0)]}
    signal = {"channel_type": "memory", "channel_ids": [0]}
    ends = [{"name": "nop"}, {"name": "signal", **signal}], [{"name": "nop"}, {"name": "wait", **signal}]
    first = [before, {"name": "nop"}, away, own, *ends[1]]
    second = [unpack, {"name": "nop"}, overwrite, *ends[0]]
    gpus = [gpu(rank, 2, (1, 1, 4), [ops], ["s"]) for rank, ops in enumerate((first, second))]
    return plan("broadcast", gpus) | {"protocol": "LL"}


@pytest.mark.parametrize(("kind", "expected"), [("reads", "right"), ("writes", "race")])
def test_what_a_packet_that_has_arrived_tells(tmp_path: Path, kind: str, expected: str) -> None:
    """What its writer read may be overwritten; what its writer wrote cannot be read (contract, section 6.4).

    The check takes packets for no order within a launch, and refuses both.
    """
    found = passed_back(kind)
    assert judge_plan(json.dumps(found), root=0, runs=24).kind == expected
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(found))
    assert check_plan(path, root=0).checks["race"] == "failed"


def test_threads_that_wait_for_packets_send_none() -> None:
    late = one_shot()
    for one in late["gpus"]:
        one["threadblocks"][0]["ops"].reverse()
    assert judge_plan(json.dumps(late)).kind == "hangs"


@pytest.mark.parametrize("at", range(7))
def test_every_step_around_a_switch_is_needed(at: int) -> None:
    less = in_network()
    for one in less["gpus"]:
        del one["threadblocks"][0]["ops"][at]
    if at in (0, 5):  # a wait without signals
        assert judge_plan(json.dumps(less)).kind == "hangs"
    assert judge_plan(json.dumps(less)).kind != "right"


def test_relaxed_signals_do_not_carry_data() -> None:
    relaxed = in_network()
    for one in relaxed["gpus"]:
        for op in one["threadblocks"][0]["ops"][5:]:
            op["name"] = f"rlx{op['name']}"
    assert judge_plan(json.dumps(relaxed)).kind == "race"
