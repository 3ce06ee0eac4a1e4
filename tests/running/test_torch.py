"""The backend of torch.distributed: results, training, errors and the choice of files. Needs collc[torch]."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import collc
from collc.command.cli import main
from collc.runtime.placement import Names
from collc.runtime.rendezvous import Rendezvous
from collc.runtime.schedules import ScheduleError
from tests.lab.test_lab import needs_a_lab
from tests.running.nccl_rules import Nccl, Wire
from tests.running.test_rounds import ROOT, SCHEDULES

torch = pytest.importorskip("torch", reason="collc[torch] is not installed: the backend of PyTorch is not tested")

NETS = {
    4: "ring(4, bandwidth: 50GB/s, latency: 1us)",
    8: "hypercube(3, bandwidth: 50GB/s, latency: 1us)",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[int, Path]:
    made = {}
    for ranks, net in NETS.items():
        made[ranks] = tmp_path_factory.mktemp(f"schedules{ranks}")
        collc.compile_text(SCHEDULES.replace("NET", net), output=made[ranks])
    return made


def ranks_of(check: str, ranks: int, folder: Path) -> list[dict]:
    (folder / "rendezvous").unlink(missing_ok=True)
    environment = os.environ | {"COLLC_SCHEDULES": str(folder), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.running.torch_ranks", check, str(ranks), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_every_call_gives_what_one_process_computes(folders):
    ranks = 4
    answers = ranks_of("collectives", ranks, folders[ranks])
    assert len(answers) == ranks
    assert [answer["wrong"] for answer in answers] == [[]] * ranks
    counts = answers[0]["counts"]
    served = {name: count for name, count in counts.items() if name.endswith(".run")}
    assert served.keys() == {"allreduce: ar.run", "allgather: ag.run", "reducescatter: rs.run", "alltoall: aa.run", "broadcast: bc.run"}  # fmt: skip # noqa: E501
    assert counts["broadcast: no file for root 1"] == 12
    assert counts["allgather: left to gloo"] == 1
    assert counts["alltoall: splits of the call"] == 1
    assert counts["allgather: an input and an output that do not fit each other"] == 2
    assert counts["allreduce: a tensor that is not contiguous, or on another device"] == 1


def test_messages_of_a_round_are_one_batch_of_the_inner_backend(folders):
    """As on GPUs with NCCL, which is not there: gloo plays its part."""
    for answer in ranks_of("batches", 4, folders[4]):
        assert answer["wrong"] == []
        assert answer["sizes"][:2] == [4, 4]  # a ring of four: to and from both neighbours


WANTED = {
    "allreduce": lambda inputs, _block: sum(inputs),
    "allgather": lambda inputs, _block: torch.cat([each[:24] for each in inputs]),
    "reducescatter": lambda inputs, block: sum(inputs)[block],
    "alltoall": lambda inputs, block: torch.cat([each[block] for each in inputs]),
    "broadcast": lambda inputs, _block: inputs[0],
}


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("ranks", NETS)
@pytest.mark.parametrize("coll", WANTED)
def test_batches_by_the_rules_of_nccl(folders, coll, ranks, inplace):
    """Threads in the place of GPUs (`nccl_rules`)."""
    from collc.runtime.schedules import Schedules
    from collc.torch import ScheduledGroup, _Call

    schedules, wire = [Schedules.read(folders[ranks], rank, ranks) for rank in range(ranks)], Wire(ranks)
    inputs = [torch.arange(24 * ranks) * (rank + 1) for rank in range(ranks)]
    blocks = [slice(24 * rank, 24 * rank + 24) for rank in range(ranks)]

    class Group:
        _exchange_in_batch = ScheduledGroup._exchange_in_batch
        _is_batched = staticmethod(lambda _tensor: True)
        _scratch_of = staticmethod(lambda like, elements: like.new_empty(elements))
        _fail = staticmethod(lambda _call, _number, _rounds, error: error)

        def __init__(self, rank: int) -> None:
            self._rank, self._size, self.schedules, self.inner = rank, ranks, schedules[rank], Nccl(wire, rank)

    def run(rank: int) -> torch.Tensor:
        given = inputs[rank][: 24 if coll == "allgather" else 24 * ranks].clone()
        taken = torch.zeros(24 if coll == "reducescatter" else 24 * ranks, dtype=given.dtype)
        if inplace and coll == "allgather":
            taken[blocks[rank]] = given
            given = taken[blocks[rank]]
        elif inplace:
            taken = given[blocks[rank]] if coll == "reducescatter" else given
        call = _Call(*schedules[rank].choose(coll, given.nbytes, 0), given, taken, torch.add, divides=False)
        try:
            ScheduledGroup._run_rounds(Group(rank), ScheduledGroup._prepare(Group(rank), call, small=False), call)
        finally:
            wire.end(rank)
        return taken

    with ThreadPoolExecutor(ranks) as pool:
        for block, taken in zip(blocks, pool.map(run, range(ranks)), strict=True):
            assert torch.equal(taken, WANTED[coll](inputs, block))


def test_the_rules_of_nccl():
    """A send and a receive in batches of their own block a ring; lengths differ; a call needs a batch."""

    def run(rank: int, lengths: tuple[int, int], batches: int) -> None:
        nccl = Nccl(wire, rank)
        nccl._start_coalescing(None)
        nccl.send([torch.ones(lengths[0])], 1 - rank, 0)
        if batches == 2:
            nccl._end_coalescing(None)
            nccl._start_coalescing(None)
        nccl.recv([torch.ones(lengths[1])], 1 - rank, 0)
        nccl._end_coalescing(None)

    for arguments, message in (((1, 1), 1), ""), (((1, 1), 2), "wait for one another"), (((1, 2), 1), "of 1 elements"):
        wire = Wire(2)
        with ThreadPoolExecutor(2) as pool:
            errors = [future.exception() for future in [pool.submit(run, rank, *arguments) for rank in range(2)]]
        assert all(message in str(error) for error in errors)
        assert any(errors) == bool(message)
    with pytest.raises(AssertionError, match="outside of a batch"):
        Nccl(wire, 0).send([torch.ones(1)], 1, 0)
    nccl, memory = Nccl(wire, 0), torch.ones(3)
    nccl._start_coalescing(None)
    nccl.send([memory[:2]], 1, 0)
    nccl.recv([memory[1:]], 1, 0)
    with pytest.raises(AssertionError, match="received and used"):
        nccl._end_coalescing(None)


@pytest.mark.parametrize("ranks", NETS)
def test_training_equals_one_process_and_gloo(folders, ranks):
    answers = ranks_of("training", ranks, folders[ranks])
    for answer in answers:
        assert max(answer["differences"].values()) < 1e-12, answer
        assert answer["differences"].keys() == {"ddp", "fsdp", "tensor", "compiled", "gloo"}
        assert answer["counts"]["allreduce: ar.run"] >= 3
        assert answer["counts"]["allgather: ag.run"] >= 3
        assert answer["counts"]["reducescatter: rs.run"] >= 3
        assert answer["digests"][0] == answer["digests"][1], "not bit-equal from run to run"
    assert len({tuple(answer["digests"]) for answer in answers}) == 1


def test_each_group_takes_the_file_for_its_npus(tmp_path):
    text = SCHEDULES.replace("NET", NETS[4]).partition("schedule")[0]
    for name, group in (("low", "[t.npu[0], t.npu[1]]"), ("high", "[t.npu[2], t.npu[3]]")):
        text += f"schedule {name} on t {{ run all_reduce({group}, size: 64KiB) emit run }}\n"
    collc.compile_text(text, output=tmp_path)
    for answer in ranks_of("subgroups", 4, tmp_path):
        high = answer["rank"] > 1
        assert answer["sums"] == [6, 5 if high else 1]
        assert answer["files"] == ["no file for 4 ranks", "high.run" if high else "low.run"]


@pytest.mark.parametrize("check", ["lost", "lost_early", "aborted"])
def test_a_rank_that_is_gone_is_named(folders, check):
    answers = ranks_of(check, 4, folders[4])
    assert len(answers) == 3
    for answer in answers:
        assert len(answer["messages"]) == 2
        assert all(
            re.search(rf"rank {answer['rank']}.*allreduce of ar.run, round", text) for text in answer["messages"]
        )
        assert all(
            re.search("rank 3(: | aborted)", text) and "nothing moved" not in text for text in answer["messages"]
        )


def test_a_rank_that_ends_while_the_group_is_made_is_named(folders):
    """By its neighbours, and by the rank opposite with what one of these says, long before the time-out."""
    said = {answer["rank"]: answer["messages"][0] for answer in ranks_of("lost_in_making", 4, folders[4])}
    reason = "no group: rank {}: it waits for a message from rank 3: it has ended"
    assert all(said[rank].startswith(reason.format(rank)) for rank in (0, 2))
    assert said[1] in [f"no group: rank 1: another rank failed; before that, {reason.format(rank)}" for rank in (0, 2)]


def test_a_call_that_is_broken_off_ends_the_group():
    """Else the next call would find its messages, and other ranks would wait for the rest of them."""
    from collc.torch import ScheduledGroup

    class Group:
        def _fail(self, _call, number, rounds, error):
            return ScheduleError(f"round {number} of {rounds}: {error}")

    def reduce(*_operands, **_options):
        raise RuntimeError("no such reduction")

    class Call:
        given, reduction = None, staticmethod(reduce)

    class Prepared:
        buffers = type("Buffers", (), {"load": lambda *_: None})()
        rounds = ((lambda: None, [(1, 2, 3)]),)

    with pytest.raises(ScheduleError, match="round 1 of 1: no such reduction"):
        ScheduledGroup._run_rounds(Group(), Prepared(), Call())
    failed = []
    Group._fail = lambda _self, *arguments: failed.append(arguments)

    def interrupt():
        raise KeyboardInterrupt

    Prepared.rounds = ((interrupt, []),)
    with pytest.raises(KeyboardInterrupt):
        ScheduledGroup._run_rounds(Group(), Prepared(), Call())
    assert len(failed) == 1


def test_what_others_are_told_of_ctrl_c():
    from collc.torch import ScheduledGroup

    group = SimpleNamespace(_rank=1, _end_all=str)
    call = SimpleNamespace(name="ar.run", program=SimpleNamespace(coll="allreduce", npus=["a", "b"]))
    said = ScheduledGroup._fail(group, call, 2, 3, KeyboardInterrupt())
    assert said == "rank 1 (b), allreduce of ar.run, round 2 of 3: KeyboardInterrupt"


def test_a_wait_for_a_rank_writes_no_warnings(capfd):
    """Waits of torch's store write two lines each second, on every rank that waits for a later one."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with pytest.raises(ScheduleError, match="it waits for rank 1, which did not come"):
        Rendezvous(store, 0, 2, 0.05).names(Names("", ()))
    assert not capfd.readouterr().err


def test_lengths_that_are_padded_to_one_are_different_calls(folders):
    """Their frames are equally long; the number of the frame tells ranks that their lengths differ."""
    from collc.runtime.schedules import Schedules
    from collc.torch import ScheduledGroup, _Call

    said = []

    class Group:
        _rank, schedules = 0, Schedules.read(folders[4], 0, 4)
        _is_batched = staticmethod(lambda _tensor: False)
        _scratch_of = lambda _self, like, elements: like.new_empty(elements)  # noqa: E731

        class _links:  # noqa: N801
            @staticmethod
            def frames(rows, step, about):
                said.append((about, len(rows(step.messages[0].first, 1))))

    name, program = Group.schedules.choose("allreduce", 20)
    for length in (5, 6, 5):
        tensor = torch.ones(length)
        ScheduledGroup._prepare(Group(), _Call(name, program, tensor, tensor, torch.add, False), small=True)
    third = len(said) // 3
    first, second, again = said[:third], said[third:-third], said[-third:]
    assert first == again
    assert [size for _, size in first] == [size for _, size in second]
    assert {about for about, _ in first}.isdisjoint(about for about, _ in second)


def test_the_memory_of_small_calls_is_bounded():
    from collc.torch import ScheduledGroup

    class Group:
        _failed, _prepared = None, {}
        _is_batched = staticmethod(lambda _tensor: False)
        _prepare = _run_rounds = lambda *_arguments, **_options: None

    class Call:
        name = reduction = divides = None

    for length in range(300):
        Call.given = Call.taken = torch.empty(length)
        ScheduledGroup._execute(Group(), Call())
    assert len(Group._prepared) == 256


def test_the_example(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "examples" / "pytorch_ddp.py")]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment, timeout=240, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "allreduce: 20 calls by gradients.run" in done.stdout
    assert float(done.stdout.partition("step 20: loss ")[2].split()[0]) < 60


@needs_a_lab
def test_gloo_over_the_links_of_the_lab(tmp_path, capsys):
    """On a line, so that the NPU between forwards."""
    text = "import std.topologies\nimport std.collectives\ntopology t = line(3, bandwidth: 50GB/s, latency: 1us)\n"
    (tmp_path / "p.coll").write_text(text + "schedule s on t { run all_reduce(t.npus, size: 9MiB) }\n")
    words = ["lab", str(tmp_path / "p.coll"), "--seconds", "0.2", "--runs", "1", "--gloo", "--json"]
    assert main(words) == 0
    row = json.loads(capsys.readouterr().out)["algorithms"][1]
    assert row["algorithm"] == "gloo"
    assert row["measured_s"]
