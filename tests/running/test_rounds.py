"""Rounds give what a collective asks for, in any order of ranks, and no message needs a buffer between two ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import collc
from collc.msccl.check.collectives import wanted_output
from collc.msccl.check.findings import Findings
from collc.msccl.check.reader import read_file
from collc.msccl.check.symbolic import call_of, placements_of, root_of
from collc.msccl.running.over_tcp import run_program_of
from collc.runtime.buffers import Buffers
from collc.runtime.collectives import INPUT, REDUCING, ROOTED
from collc.runtime.placement import Names
from collc.runtime.rounds import RankRounds, Round, Rows, rounds_of
from collc.runtime.run_program import RunProgram
from collc.runtime.schedules import Schedules
from tests.msccl.programs import GOOD, exchange, ring_all_reduce, write
from tests.msccl.test_run_files import PROGRAM, RUNS

ROOT = Path(__file__).parents[2]
SCHEDULES = """
import std.topologies
import std.collectives
topology t = NET
schedule ar on t { run all_reduce(t.npus, size: 64KiB) emit run }
schedule ag on t { run all_gather(t.npus, size: 64KiB, chunks: 2) emit run }
schedule rs on t { run reduce_scatter(t.npus, size: 64KiB, chunks: 2) emit run(placement: "out") }
schedule aa on t { run all_to_all(t.npus, size: 64KiB) emit run }
schedule bc on t { run broadcast(t.npus, root: 0, size: 64KiB, chunks: 2) emit run }
"""
"""A file for each collective, for the tests of torch and MPI."""
ELEMENTS = 3
UNUSED = -(10**9)


class Rank:
    """One rank: its buffers as arrays of their own, of which input and output share memory in place."""

    def __init__(self, rounds: RankRounds, given: np.ndarray) -> None:
        (first, size), (out, out_size), (_, scratch), (_, spare) = rounds.buffers
        arrays = [np.full((count, ELEMENTS), UNUSED) for count in (size, out_size, scratch, spare)]
        if 0 < size <= out_size and out <= first < out + out_size:
            arrays[0] = arrays[1][first - out :][:size]
        elif out_size and first <= out < first + size:
            arrays[1] = arrays[0][out - first :][:out_size]
        arrays[0][:] = given
        self.output, self.rows, self.rounds, self.at = arrays[1], Rows(rounds, arrays, 1), rounds.rounds, 0
        self.took: dict[int, np.ndarray] = {}

    @property
    def round(self) -> Round:
        return self.rounds[self.at] if self.at < len(self.rounds) else Round()

    def work(self) -> None:
        for message in self.round.receives:
            self.rows(message.first, message.length)[:] = self.took.pop(message.number)
        for work in self.round.work:
            total = self.rows(work.first, work.length).copy()
            total += self.rows(work.second, work.length) if work.second >= 0 else 0
            self.rows(work.target, work.length)[:] = total
        self.at += 1


def run(program: RunProgram, *, inplace: bool, seed: int = 0) -> list[RankRounds]:
    """Run all ranks in a random order. A message moves when both ends are posted, so that none is buffered."""
    random, rounds = np.random.default_rng(seed), rounds_of(program, inplace=inplace)
    inputs = [random.integers(0, 1000, (own.buffers[INPUT][1], ELEMENTS)) for own in rounds]
    ranks = [Rank(own, given) for own, given in zip(rounds, inputs, strict=True)]
    moved: set[int] = set()
    while any(rank.at < len(rank.rounds) for rank in ranks):
        sends = {m.number: (rank, m) for rank in ranks for m in rank.round.sends if m.number not in moved}
        receives = {m.number: (rank, m) for rank in ranks for m in rank.round.receives if m.number not in moved}
        for number in sends.keys() & receives.keys():
            sender, message = sends[number]
            receives[number][0].took[number] = sender.rows(message.first, message.length).copy()
            moved.add(number)
        ready = [r for r in ranks if r.round.sends + r.round.receives + r.round.work]
        ready = [r for r in ready if all(m.number in moved for m in r.round.sends + r.round.receives)]
        assert ready, "the ranks wait for one another"
        for rank in random.choice(np.array(ready, object), random.integers(1, len(ready) + 1), replace=False):
            rank.work()
    for number, rank in enumerate(ranks):
        wanted = wanted_output(program.coll, number, program.ranks, program.chunks_per_loop, program.root)
        if wanted is not None:
            parts = [inputs[other][wanted[1].start : wanted[1].stop] for other in wanted[0]]
            result = np.sum(parts, axis=0) if program.coll in REDUCING else np.concatenate(parts)
            assert np.array_equal(rank.output[: len(result)], result), number
    return rounds


def program_of(path, *, inplace: bool) -> RunProgram:
    program = read_file(path, "executor", Findings())
    root = root_of(program, program.coll) if program.coll in ROOTED else -1
    return run_program_of(program, call_of(program, program.coll, root, inplace=inplace))


@pytest.mark.parametrize("name", GOOD)
def test_hand_written_programs(tmp_path, name):
    path = write(tmp_path / "f.xml", GOOD[name]())
    file = read_file(path, "executor", Findings())
    if file.coll not in ("custom", "send", "recv"):
        for inplace in placements_of(file):
            for seed in range(3):
                run(program_of(path, inplace=inplace), inplace=inplace, seed=seed)


@pytest.mark.parametrize("coll", RUNS)
@pytest.mark.parametrize("options", ["", "instances: 2"])
def test_compiled_programs(tmp_path, coll, options):
    collc.compile_text(PROGRAM.replace("RUN", RUNS[coll]).replace("OPTIONS", options), output=tmp_path)
    program = RunProgram.from_bytes((tmp_path / "s.run").read_bytes())
    for inplace in {not program.out_of_place, program.in_place}:
        run(program, inplace=inplace)


def test_a_ring_takes_as_many_rounds_as_steps(tmp_path):
    rounds = run(program_of(write(tmp_path / "f.xml", ring_all_reduce(5)), inplace=True), inplace=True)
    assert {len([step for step in own.rounds if step.sends]) for own in rounds} == {8}


def test_what_is_exchanged_in_place_waits_in_spare_slots(tmp_path):
    """Both ends send the slots that they receive into: neither may wait until the other one has stored."""
    path = write(tmp_path / "f.xml", exchange(2))
    rounds = rounds_of(program_of(path, inplace=True), inplace=True)
    sends = [[(m.first, m.length) for step in own.rounds for m in step.sends] for own in rounds]
    assert all(sends)
    run(program_of(path, inplace=True), inplace=True)


def test_a_program_that_never_ends(tmp_path):
    file = ring_all_reduce(3)
    for gpu in file.gpus:
        first, second, *others = gpu.tbs[0].steps
        gpu.tbs[0].steps = [second | {"s": 0}, first | {"s": 1}, *others]
    with pytest.raises(ValueError, match="never ends: 3 threadblocks"):
        rounds_of(program_of(write(tmp_path / "f.xml", file), inplace=False), inplace=False)


def test_the_choice_of_files(tmp_path):
    for name, options in (("small", "sizes: 1KiB .. 64KiB"), ("large", "sizes: 32KiB .. 1MiB")):
        collc.compile_text(
            PROGRAM.replace("RUN", RUNS["allreduce"]).replace("OPTIONS", options), output=tmp_path / "in" / name
        )
    collc.compile_text(PROGRAM.replace("RUN", RUNS["broadcast"]).replace("OPTIONS", ""), output=tmp_path / "b")
    typed = PROGRAM.replace("RUN", RUNS["allreduce"]).replace("OPTIONS", 'dtype: "bfloat16", sizes: 1KiB .. 2KiB')
    collc.compile_text(typed, output=tmp_path / "typed")
    schedules = Schedules.read(tmp_path, 0, 4)

    def chosen(*call: object, of: Schedules = schedules) -> str:
        answer = of.choose(*call)
        return answer if isinstance(answer, str) else answer[0]

    assert chosen("allreduce", 1024) == "in/small/s.run"
    assert chosen("allreduce", 2**15) == "in/large/s.run"
    assert chosen("allreduce", 2**15, -1, "bfloat16") == "in/large/s.run"
    assert chosen("allreduce", 1024, -1, "bfloat16") == "typed/s.run"
    assert chosen("allreduce", 1023) == "no file for 1023 bytes"
    assert chosen("allgather", 1024) == "no file of the collective"
    assert chosen("broadcast", 1, 1) == "b/s.run"
    assert chosen("broadcast", 1, 0) == "no file for root 0"
    assert chosen("allreduce", 1024, of=Schedules.read(tmp_path, 0, 5)) == "no file for 5 ranks"
    assert chosen("allreduce", 1024, -1, "int8") == "in/small/s.run"
    with pytest.raises(ValueError, match=r"ranks \[1, 3\] do not name their NPU"):
        Schedules.read(tmp_path, 0, 4, [Names(name, ()) for name in ("npu[0]", "", "npu[2]", "")])
    assert Schedules.read(None, 0, 4, [Names("", ())] * 4).files == ()
    sizes = "sizes: 4KiB .. 8KiB"
    collc.compile_text(PROGRAM.replace("RUN", RUNS["allgather"]).replace("OPTIONS", sizes), output=tmp_path / "g")
    gathering = Schedules.read(tmp_path, 0, 4)
    assert chosen("allgather", 1024, of=gathering) == "g/s.run"
    assert chosen("allgather", 1023, of=gathering) == "no file for 4092 bytes"
    assert gathering.digest == Schedules.read(tmp_path, 1, 4).digest != schedules.digest
    with pytest.raises(FileNotFoundError, match="no folder of schedules"):
        Schedules.read(tmp_path / "none", 0, 4)
    (tmp_path / "b" / "s.run").write_bytes(b"collc run\n")
    with pytest.raises(ValueError, match=r"s\.run: no run file"):
        Schedules.read(tmp_path, 0, 4)


@pytest.mark.parametrize("coll", ["all_gather", "reduce_scatter"])
def test_a_call_that_is_in_place_on_some_ranks(coll, tmp_path):
    """All ranks run the program in one placement, so that their rounds fit each other."""
    text = f"""
import std.topologies
import std.collectives
topology t = ring(2, bandwidth: 50GB/s, latency: 1us)
schedule s on t {{ run {coll}(t.npus, size: 64KiB, chunks: 2) emit run }}
"""
    collc.compile_text(text, output=tmp_path)
    ((_, program),) = Schedules.read(tmp_path, 0, 2).files
    assert program.in_place
    assert program.out_of_place
    for length in (3, 4):  # padded, and whole chunks
        long, found = np.arange(2 * length), set()
        for short in (long[length:], np.arange(length)):
            given, taken = (short, long) if coll == "all_gather" else (long, short)
            buffers = Buffers(program, 1, given, taken, _zeros, _address)
            found.add(buffers.inplace)
            assert np.shares_memory(buffers.source, buffers.target) == buffers.inplace
        assert found == {coll == "all_gather"}


def _zeros(like: np.ndarray, count: int) -> np.ndarray:
    return np.zeros(count, like.dtype)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
