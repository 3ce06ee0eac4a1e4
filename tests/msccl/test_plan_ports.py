"""Plans for several nodes: ports between them, with what these need, and every way of leaving that out is caught."""

from __future__ import annotations

import json

import pytest

from collc.base.diagnostics import SourceError
from collc.command.cli import main
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement
from collc.msccl.plans.plan import plan_of, remarks_of
from collc.msccl.plans.precheck import nodes_of_ranks
from collc.msccl.running.run_plan import run_plan_file
from collc.msccl.simulating import plan_time
from tests import support

from .hand_plans import plan_file
from .lowering import COLLECTIVES, FAST, SLOW, linked_nodes, scheduled


def kinds_of_pairs(plan):
    """The types of the channels between each two GPUs, and of the buffers that they reach."""
    found: dict[tuple[int, int], set[str]] = {}
    for gpu in plan["gpus"]:
        for one in gpu["channels"]:
            for peer in one["connected_to"]:
                found.setdefault((gpu["id"], peer), set()).add(one["channel_type"])
        for one in gpu["remote_buffers"]:
            found.setdefault((gpu["id"], one["rank"]), set()).update(one["access_channel_types"])
    return found


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
def test_every_collective_uses_ports_between_nodes_only(tmp_path, collective):
    module = scheduled(linked_nodes(), collective(list(range(6))))
    for placement in (Placement.OUT, Placement.IN):
        plan = plan_of(module, MscclOptions(placement=placement))
        for (a, b), kinds in kinds_of_pairs(plan).items():
            assert kinds == ({"memory"} if a // 3 == b // 3 else {"port"})
        ops = [op for gpu in plan["gpus"] for tb in gpu["threadblocks"] for op in tb["ops"]]
        puts = [op for op in ops if op.get("channel_type") == "port" and "src_buff" in op]
        assert {op["name"] for op in puts} == {"pws"}
        assert {buff["type"] for op in puts for buff in op["src_buff"]} == {"s"}
        path = plan_file(tmp_path, plan)
        verdict = check_plan(path)
        assert set(verdict.checks.values()) == {"ok"}
        assert not verdict.diagnostics
        assert all(report.ok for report in run_plan_file(path, runs=3))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_network_in_nodes_of_any_size(tmp_path, size):
    for network in (support.ring(8), support.grid(2, 4), support.hypercube(3), support.fully_connected(8)):
        for collective in COLLECTIVES:
            module = scheduled(network, collective(list(range(8))))
            for placement in (Placement.OUT, Placement.IN):
                options = MscclOptions(placement=placement, gpus_per_node=size, instances=1 + size % 2)
                path = plan_file(tmp_path, plan_of(module, options))
                verdict = check_plan(path)
                assert set(verdict.checks.values()) == {"ok"}, (network.name, collective, [*verdict.diagnostics])
                assert all(report.ok for report in run_plan_file(path, runs=2, seed=size))


def test_nodes_are_what_slow_links_join():
    assert nodes_of_ranks(linked_nodes(3, 2), MscclOptions()) == (0, 0, 1, 1, 2, 2)
    assert set(nodes_of_ranks(support.ring(8), MscclOptions())) == {0}
    assert nodes_of_ranks(support.ring(8), MscclOptions(gpus_per_node=4)) == (0, 0, 0, 0, 1, 1, 1, 1)
    assert set(nodes_of_ranks(linked_nodes(), MscclOptions(gpus_per_node=8))) == {0}
    uneven = support.network(3, [(0, 1, FAST), (1, 0, FAST), (1, 2, SLOW), (2, 1, SLOW)])
    assert nodes_of_ranks(uneven, MscclOptions()) == (0, 0, 1)


def test_the_report_names_the_nodes():
    module = scheduled(linked_nodes(2, 2), support.all_gather([0, 1, 2, 3]))
    notes = remarks_of(plan_of(module), MscclOptions(), module.network)
    assert (
        "MSCCL++: 2 nodes of 2 GPUs (the parts that the slowest links join), with port channels between them" in notes
    )
    alone = MscclOptions(gpus_per_node=4)
    assert not any("nodes" in note for note in remarks_of(plan_of(module, alone), alone, module.network))
    large = scheduled(linked_nodes(2, 9), support.broadcast(list(range(18))))
    assert "supports 8 InfiniBand devices per node" in remarks_of(plan_of(large), MscclOptions(), large.network)[-2]


@pytest.mark.parametrize(("ranks", "count"), [(8, 3), (32, 16)])
def test_nodes_that_cannot_be(ranks, count):
    with pytest.raises(SourceError) as caught:
        nodes_of_ranks(support.ring(ranks), MscclOptions(gpus_per_node=count))
    assert caught.value.diagnostics[0].code == "M0117"


PROGRAM = """
import std.clusters
import std.collectives
topology t = dgx_h100(2)
schedule s on t {
    run broadcast(t.npus, size: 16MiB)
    emit mscclpp("p.json"OPTIONS)
}
"""


def test_a_program_says_how_many_gpus_a_node_has(tmp_path, capsys):
    file = tmp_path / "p.coll"
    file.write_text(PROGRAM.replace("OPTIONS", ", gpus_per_node: 3"))
    assert main(["compile", str(file), "-o", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "error[M0117]: 16 GPUs do not divide into nodes of 3 GPUs" in error
    assert "p.coll:7:" in error
    assert not (tmp_path / "p.json").exists()
    file.write_text(PROGRAM.replace("OPTIONS", ""))
    assert main(["compile", str(file), "-o", str(tmp_path)]) == 0
    assert "2 nodes of 8 GPUs" in capsys.readouterr().err
    pairs = kinds_of_pairs(json.loads((tmp_path / "p.json").read_text()))
    assert {"port"} in pairs.values()
    assert all(kinds == {"memory" if a // 8 == b // 8 else "port"} for (a, b), kinds in pairs.items())


def test_relays_must_flush(tmp_path):
    """A relayed chunk lies in the slot of the next run's: the port must have sent it when this run ends."""
    good = plan_of(scheduled(support.ring(5), support.gather(list(range(5)))), MscclOptions(gpus_per_node=1))
    for one in (False, True):
        mutant = json.loads(json.dumps(good))
        blocks = [tb["ops"] for gpu in mutant["gpus"] for tb in gpu["threadblocks"]]
        flushes = [(ops, op) for ops in blocks for op in ops if op["name"] == "flush"]
        assert flushes
        for ops, op in flushes[:1] if one else flushes:
            ops.remove(op)
        verdict = check_plan(plan_file(tmp_path, mutant))
        assert verdict.checks["race"] == "failed"
        assert {finding.code for finding in verdict.findings} <= {"X0413", "X0414"}


def test_input_that_leaves_over_a_port_is_a_warning(tmp_path):
    """The runtime leaves out where the tensor begins in its allocation."""
    mutant = plan_of(scheduled(linked_nodes(), support.all_gather(list(range(6)))))
    ops = [op for gpu in mutant["gpus"] for tb in gpu["threadblocks"] for op in tb["ops"]]
    next(op for op in ops if op["name"] == "pws")["src_buff"][0].update(type="i", index=0)
    verdict = check_plan(plan_file(tmp_path, mutant))
    assert [(d.code, d.warning) for d in verdict.diagnostics if d.code == "X0122"] == [("X0122", True)]


def test_puts_over_ports_are_queued_before_those_of_the_threadblock(monkeypatch):
    """The proxy sends the former while the threadblock does the latter: one link's time less in each round of both."""
    monkeypatch.setattr("collc.msccl.plans.plan._MOST_BLOCKS_PER_PEER", 0)  # threadblocks by chunk, with both kinds
    pairs = [(a, b, SLOW) for a in range(4) for b in range(4) if a != b]
    module = scheduled(support.network(4, pairs), support.all_reduce(list(range(4))))
    options = MscclOptions(gpus_per_node=2)
    one_link = 20_971_520 + 700_000
    assert module.collective_time() == 2 * one_link
    assert plan_time(plan_of(module, options), module) == 2 * one_link + 700_000  # the signal that a receiver has begun
    monkeypatch.setattr("collc.msccl.plans.operations._puts_beside_ports", lambda *_: [])
    assert plan_time(plan_of(module, options), module) > 3 * one_link - 1_000_000


def test_flushes_come_last(tmp_path):
    """Not before puts that wait for nothing else; and after a `nop`, or by the threads that queued the puts."""
    module = scheduled(linked_nodes(3, 2), support.all_reduce(list(range(6))))
    plan = plan_of(module, MscclOptions(gpus_per_node=2))
    blocks = [tb["ops"] for gpu in plan["gpus"] for tb in gpu["threadblocks"]]
    ending = [ops for ops in blocks if any(op["name"] == "pws" for op in ops)]
    assert ending
    for ops in ending:
        first = next(at for at, op in enumerate(ops) if op["name"] == "flush")
        assert {op["name"] for op in ops[first:]} == {"flush"}
        before = ops[first - 1]
        assert before["name"] == "nop" or before["channel_ids"] == ops[first]["channel_ids"]
    assert check_plan(plan_file(tmp_path, plan)).ok
