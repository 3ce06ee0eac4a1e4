"""The check of MSCCL++ plans: what the runtime does otherwise than a plan says (docs/msccl-contract.md, section 6)."""

from __future__ import annotations

import json

import pytest

from collc.command.cli import main
from collc.msccl.check_plan import check_plan

from .hand_plans import all_gather, all_reduce, buff, by_port, by_semaphore, far, gpu, multicast, ops, plan, read_reduce

GIB = 2**30


def check(tmp_path, found):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(found))
    return check_plan(path)


def errors(verdict):
    return [(finding.check, finding.code) for finding in verdict.findings if not finding.warning]


@pytest.mark.parametrize("largest", [None, 2**63])
@pytest.mark.parametrize(("least", "right"), [(0, True), (2 * GIB - 1, True), (2 * GIB, False), (5 * GIB, False)])
def test_the_smallest_size_is_a_signed_number_of_32_bits(tmp_path, least, largest, right):
    found = {**all_gather(), "min_message_size": least}
    if largest is not None:
        found["max_message_size"] = largest
    verdict = check(tmp_path, found)
    assert errors(verdict) == ([] if right else [("contract", "X0402")])
    assert right or "signed number of 32 bits" in verdict.findings[0].message


def lone_channel(found):
    """Gpu 0 lists two channels to gpu 1, and waits on the second one; gpu 1 lists one back."""
    found["gpus"][0]["channels"][0]["connected_to"].append(1)
    found["gpus"][0]["threadblocks"][0]["channels"][0]["channel_ids"].append(2)
    ops(found)[1]["channel_ids"] = [2, 1]


def more_memory_channels(found):
    """Gpu 0 lists a memory channel to gpu 1 before its port channels: these are paired one place later."""
    found["gpus"][0]["channels"].insert(0, {"channel_type": "memory", "connected_to": [1]})


def test_a_wait_on_a_channel_without_a_counterpart(tmp_path):
    found = all_gather()
    lone_channel(found)
    verdict = check(tmp_path, found)
    assert ("contract", "X0403") in errors(verdict)
    finding = next(finding for finding in verdict.findings if finding.code == "X0403")
    assert finding.message == "waits on its memory channel 1 to gpu 1, which lists only 1 to gpu 0"
    assert (finding.location.gpu, finding.location.tb, finding.location.step) == (0, 0, 1)


def test_a_channel_without_a_counterpart_that_nobody_waits_on_is_no_mistake(tmp_path):
    found = all_gather()
    found["gpus"][0]["channels"][0]["connected_to"].append(1)
    assert not errors(check(tmp_path, found))


def test_port_channels_are_paired_after_memory_channels(tmp_path):
    found = by_port()
    more_memory_channels(found)
    assert set(errors(check(tmp_path, found))) == {("contract", "X0403")}
    found["gpus"][1]["channels"].insert(0, {"channel_type": "memory", "connected_to": [0]})
    assert not errors(check(tmp_path, found))


@pytest.mark.parametrize(
    ("threads", "code"),
    [(32, None), (31, "X0406"), (1, "X0406"), (1024, None), (1025, "X0406"), (0, "X0402"), ("8", "X0402")],
)
def test_threads_of_a_threadblock(tmp_path, threads, code):
    verdict = check(tmp_path, {**all_gather(), "num_threads_per_block": threads})
    assert errors(verdict) == ([("contract", code)] if code else [])


@pytest.mark.parametrize(
    ("name", "value"),
    [("buffer_alignment", 0), ("buffer_alignment", "16"), ("reuse_resources", 1), ("use_double_scratch_buffer", "no")],
)
def test_settings_of_another_type(tmp_path, name, value):
    assert errors(check(tmp_path, {**all_gather(), name: value})) == [("contract", "X0402")]


def test_reductions_only_add(tmp_path):
    found = read_reduce()
    ops(found)[3]["reduce_op"] = "sum"
    assert not errors(check(tmp_path, found))
    ops(found)[3]["reduce_op"] = "max"
    verdict = check(tmp_path, found)
    assert errors(verdict) == [("contract", "X0404")]
    assert "the runtime always adds" in verdict.findings[0].message


def flushed(entries):
    """Gpu 0 flushes its two port channels at the end."""
    found = all_gather(3, "port")
    ids = {"channel_type": "port", "channel_ids": [0, 1]}
    dummies = {"dst_buff": [{"index": 0, "size": 0}] * entries} if entries else {}
    ops(found).append({"name": "flush", **ids, **dummies})
    return found


@pytest.mark.parametrize(("entries", "right"), [(0, False), (1, False), (2, True)])
def test_a_flush_has_as_many_channels_as_outputs(tmp_path, entries, right):
    assert errors(check(tmp_path, flushed(entries))) == ([] if right else [("contract", "X0404")])


def overwritten_source(flush):
    """Each of two gpus puts its chunk from scratch over a port, and copies to that scratch again afterwards."""
    gpus = []
    for rank in range(2):
        channels = {"channel_type": "port", "channel_ids": [0]}
        meet = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
        fill = {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("s", 0)]}
        own = {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("o", rank)]}
        put = {"name": "put", "src_buff": [buff("s", 0)], "dst_buff": [far(0, rank)], **channels}
        done = [{"name": "flush", **channels, "dst_buff": [{"index": 0, "size": 0}]}] if flush else []
        block = [fill, own, *meet, put, *done, {"name": "nop"}, fill, *meet]
        gpus.append(gpu(rank, 2, (1, 2, 1), [block], ["o"], "port"))
    return plan("allgather", gpus)


def test_a_flush_ends_the_puts_before_it(tmp_path):
    assert not errors(check(tmp_path, overwritten_source(flush=True)))
    assert ("race", "X0412") in errors(check(tmp_path, overwritten_source(flush=False)))


def test_buffers_of_another_gpu_go_stale_when_resources_are_reused(tmp_path):
    assert ("contract", "X0404") in errors(check(tmp_path, {**all_gather(), "reuse_resources": True}))
    found = by_semaphore()
    found["reuse_resources"] = True
    assert ("contract", "X0404") in errors(check(tmp_path, found))
    assert not errors(check(tmp_path, {**by_semaphore(), "reuse_resources": False}))


def test_scratch_of_another_gpu_may_be_reused(tmp_path):
    gpus = []
    for rank in range(2):
        channels = {"channel_type": "memory", "channel_ids": [0]}
        meet = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
        put = {"name": "put", "src_buff": [buff("i", 0)], "dst_buff": [far(0, 0)], **channels}
        copies = [
            {"name": "copy", "src_buff": [buff("s", 0)], "dst_buff": [buff("o", 1 - rank)]},
            {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("o", rank)]},
        ]
        gpus.append(gpu(rank, 2, (1, 2, 1), [[*meet, put, {"name": "nop"}, *meet, *copies]], ["s"]))
    assert not errors(check(tmp_path, {**plan("allgather", gpus), "reuse_resources": True}))


def test_a_put_and_its_signal_are_pushed_by_one_thread(tmp_path):
    """Over ports, thread k queues entry k: a signal by another thread may overtake the put."""
    found = by_port()
    ids = {"channel_type": "port"}
    put = ops(found)[4]
    put["name"] = "put"
    ops(found).insert(5, {"name": "signal", **ids, "channel_ids": [1, 0]})
    assert ("contract", "X0404") in errors(check(tmp_path, found))
    ops(found)[5]["channel_ids"] = [0, 1]
    assert not errors(check(tmp_path, found))
    assert ops(found).pop()["name"] == "flush"
    assert errors(check(tmp_path, found)) == [("race", "X0413")]  # the input may change while the proxy reads it
    ops(found).append({"name": "flush", **ids, "channel_ids": [0, 1], "dst_buff": [{"index": 0, "size": 0}] * 2})
    assert not errors(check(tmp_path, found))


@pytest.mark.parametrize("name", ["input_chunks", "output_chunks"])
def test_no_buffer_may_have_no_chunks(tmp_path, name):
    found = all_reduce()
    found["gpus"][1][name] = 0
    verdict = check(tmp_path, found)
    assert verdict.checks["contract"] == "failed"
    assert (verdict.findings[0].code, verdict.findings[0].location.gpu) == ("X0402", 1)


def test_channels_of_a_threadblock_are_limited_by_type(tmp_path):
    """16 memory channels and 16 port channels fit; 17 of one type do not."""
    found = all_gather()
    block, own = found["gpus"][0]["threadblocks"][0], found["gpus"][0]
    for one in found["gpus"]:
        one["channels"].append({"channel_type": "port", "connected_to": one["channels"][0]["connected_to"]})
    block["channels"][0]["channel_ids"] += [0] * 14
    block["channels"].append({"channel_type": "port", "channel_ids": [0] * 16})
    assert own["channels"][1]["connected_to"] == [1, 2]
    assert not errors(check(tmp_path, found))
    block["channels"][1]["channel_ids"].append(0)
    assert errors(check(tmp_path, found)) == [("contract", "X0406")]


def test_two_scratch_buffers_are_for_packets(tmp_path):
    """The runtime (2025) adds the offset of the second one to local scratch, and to remote scratch of packets only."""
    found = all_reduce()
    found["use_double_scratch_buffer"] = True
    assert "use_double_scratch_buffer" in check(tmp_path, found).findings[0].message
    found = all_gather()
    found["use_double_scratch_buffer"] = True
    assert set(check(tmp_path, found).checks.values()) == {"ok"}


def by_get(shift=0):
    """Out of place All-to-All of 2 GPUs by reads: rank r gets chunk r of its peer, which belongs into slot `peer`."""
    gpus = []
    for rank in range(2):
        channels = {"channel_type": "memory", "channel_ids": [0]}
        both = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
        get = {
            "name": "get",
            "src_buff": [far(0, rank)],
            "dst_buff": [buff("s", rank + shift)],
            "channel_type": "memory",
        }
        copies = [
            {"name": "copy", "src_buff": [buff("s", rank + shift)], "dst_buff": [buff("o", 1 - rank)]},
            {"name": "copy", "src_buff": [buff("i", rank)], "dst_buff": [buff("o", rank)]},
        ]
        gpus.append(gpu(rank, 2, (2, 2, 3), [[*both, get, {"name": "nop"}, *copies, *both]], ["i"]))
    return plan("alltoall", gpus)


def test_a_get_with_different_indices_is_a_trap(tmp_path):
    assert set(check(tmp_path, by_get()).checks.values()) == {"ok"}
    verdict = check(tmp_path, by_get(1))
    assert [finding.code for finding in verdict.findings] == ["X0404"]
    assert "get with different indices" in verdict.findings[0].message


def test_a_put_from_two_kinds_of_buffers_is_a_trap(tmp_path):
    found = all_gather()
    ops(found)[4]["src_buff"][1] = buff("o", 0)
    assert "put from buffers of several types" in check(tmp_path, found).findings[0].message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("glre", 'operation "glre": the reader of plans refuses a sum that is not stored to all'),
        ("gstorepkt", 'operation "gstorepkt": collc cannot judge packets over switch channels'),
        ("pipeline", 'operation "pipeline": collc cannot judge operations that are repeated'),
        ("teleport", 'operation "teleport"'),
    ],
)
def test_operations_that_are_refused_by_name(tmp_path, name, message):
    found = by_port()
    ops(found)[4]["name"] = name
    (finding,) = check(tmp_path, found).findings
    assert (finding.code, finding.message) == ("X0404", message)
    assert (finding.location.gpu, finding.location.tb, finding.location.step) == (0, 0, 4)


def test_a_flush_is_of_ports(tmp_path):
    found = all_gather()
    ops(found).append({**ops(found)[-1], "name": "flush", "dst_buff": [{"index": 0, "size": 0}] * 2})
    verdict = check(tmp_path, found)
    assert errors(verdict) == [("contract", "X0404")]
    assert verdict.findings[0].message.startswith("flush over memory channels")


def test_signals_do_not_go_over_switches(tmp_path):
    found = all_gather()
    ops(found)[0].update(channel_type="switch", channel_ids=[])
    assert ("contract", "X0404") in errors(check(tmp_path, found))


@pytest.mark.parametrize(("count", "right"), [(509, True), (510, False)])
def test_memory_regions_of_ports(tmp_path, count, right):
    """The proxy numbers 512 of them: input, output and scratch of the gpu, and its remote buffers of ports."""
    found = by_port()
    more = {"rank": 1, "type": "o", "access_channel_types": ["port"]}
    found["gpus"][0]["remote_buffers"] += [more] * (count - len(found["gpus"][0]["remote_buffers"]))
    verdict = check(tmp_path, found)
    assert errors(verdict) == ([] if right else [("contract", "X0406")])
    assert right or verdict.findings[0].message.startswith("513 memory regions for the ports of a gpu")


@pytest.mark.parametrize(("count", "right"), [(1024, True), (1025, False)])
def test_port_channels_of_a_gpu(tmp_path, count, right):
    found = by_port()
    peers = found["gpus"][0]["channels"][0]["connected_to"]
    peers += [1] * (count - len(peers))
    assert errors(check(tmp_path, found)) == ([] if right else [("contract", "X0406")])


@pytest.mark.parametrize(("nodes", "right"), [(4, True), (8, True), (2, False), ([0, 0, 1, 1], False), ([5] * 4, True)])
@pytest.mark.parametrize("made", [all_gather, multicast])
def test_memory_and_switches_stay_in_a_node(tmp_path, made, nodes, right):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(made(4)))
    verdict = check_plan(path, nodes=nodes)
    assert set(errors(verdict)) == (set() if right else {("contract", "X0418")})
    assert right or verdict.findings[0].message == "a memory channel of gpu 0 (node 0) to gpu 2 (node 1)"


def test_ports_go_anywhere(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(by_port(4)))
    assert not errors(check_plan(path, nodes=2))
    assert not errors(check_plan(path, nodes=4))


def test_infiniband_devices_of_a_node(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(by_port(18)))
    assert ("contract", "X0418") in errors(check_plan(path, nodes=9))


def test_verify_takes_the_gpus_of_a_node(tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(all_gather(4)))
    assert main(["verify", str(path), "--gpus-per-node", "4"]) == 0
    assert main(["verify", str(path), "--gpus-per-node", "2"]) == 4
    assert main(["verify", str(path), "--gpus-per-node", "3"]) == 2
    path.write_text("<algo/>")
    assert main(["verify", str(path), "--gpus-per-node", "2"]) == 2
    said = capsys.readouterr().err
    assert said.count("X0208") == 2
    assert "is not an MSCCL++ plan" in said
