"""The check of MSCCL files: collectives, placements, sizes, roots, profiles and what messages say."""

from __future__ import annotations

import pytest

from collc.base.diagnostics import UsageError
from collc.msccl.check import ExpectedResult, WantedChunk, check_file
from collc.msccl.check.findings import Findings
from collc.msccl.check.reader import Reader
from collc.msccl.check.values import _merge

from .programs import (
    Block,
    File,
    Gpu,
    all_to_all,
    chain_broadcast,
    chain_reduce,
    direct_all_reduce,
    direct_gather,
    direct_scatter,
    exchange,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    star_all_gather_by_scratch,
    write,
)

MIB = 2**20


def check(tmp_path, file, **options):
    return check_file(write(tmp_path / "f.xml", file), **options)


@pytest.mark.parametrize("make", [chain_broadcast, chain_reduce, direct_gather, direct_scatter])
@pytest.mark.parametrize("root", range(4))
def test_roots_are_found(tmp_path, make, root):
    file = make(4, root)
    assert check(tmp_path, file).summary.root == root
    assert check(tmp_path, file, root=root).ok
    file.outofplace = 0
    assert check(tmp_path, file).summary.root == root


@pytest.mark.parametrize("make", [chain_broadcast, chain_reduce, direct_gather, direct_scatter])
def test_another_root_than_asked_for(tmp_path, make):
    assert check(tmp_path, make(4, 1), root=2).checks["result"] == "failed"


def test_a_root_that_is_no_rank(tmp_path):
    with pytest.raises(UsageError, match="not a rank"):
        check(tmp_path, chain_broadcast(), root=4)


def test_what_is_not_there_has_a_code(tmp_path):
    with pytest.raises(UsageError) as caught:
        check_file(tmp_path / "none.xml")
    assert caught.value.diagnostics[0].code == "X0100"
    with pytest.raises(UsageError) as caught:
        check_file(write(tmp_path / "f.xml", ring_all_gather(4)), root=4)
    assert caught.value.diagnostics[0].code == "X0203"


def test_summary(tmp_path):
    summary = check(tmp_path, exchange(8, min_bytes=16, max_bytes=1024)).summary
    assert (summary.coll, summary.proto, summary.ranks, summary.channels) == ("allgather", "Simple", 2, 1)
    assert (summary.threadblocks, summary.steps, summary.nchunksperloop) == (4, 6, 16)
    assert (summary.chunks, summary.min_bytes, summary.max_bytes) == ((8, 16, 0), 16, 1024)
    assert (summary.inplace, summary.outofplace, summary.root) == (False, True, -1)


@pytest.mark.parametrize(
    ("proto", "cnt", "safe"),
    [
        # 2 messages in flight: ceil(cnt / M) must not pass 2, so M >= ceil(cnt / 2); chunks of 2 MiB / M.
        ("Simple", 2, None),
        ("Simple", 3, 6 * MIB),
        ("Simple", 8, 16 * (2 * MIB // 4)),
        ("LL", 8, None),
        ("LL", 9, 18 * (32 * 1024 // 2)),
        ("LL128", 8, None),
        ("LL128", 17, 34 * (576_000 // 3)),
    ],
)
def test_largest_safe_size(tmp_path, proto, cnt, safe):
    verdict = check(tmp_path, exchange(cnt, proto=proto))
    assert verdict.summary.largest_safe == safe
    assert verdict.checks["deadlock"] == ("failed" if safe else "ok")
    if safe:
        assert check(tmp_path, exchange(cnt, proto=proto, max_bytes=safe)).ok
        assert not check(tmp_path, exchange(cnt, proto=proto, max_bytes=safe + 2 * cnt)).ok
        assert f'maxBytes="{safe}"' in verdict.diagnostics[0].hint


def test_sizes_seen_on_hardware(tmp_path):
    """Two peers, `s` cnt 8 then `r` cnt 8: files that hung from 64, 128, 256 and 512 MiB on."""
    for chunks, hangs in ((64, 64), (128, 128), (256, 256), (512, 512)):
        gpus = []
        for rank in range(2):
            tb = Block(1 - rank, 1 - rank).add("s", ("i", 0), ("o", 0), 8).add("r", ("i", 0), ("o", 0), 8)
            gpus.append(Gpu((chunks * 2, chunks * 2, 0), [tb]))
        file = File("alltoall", chunks * 2, gpus, max_bytes=hangs * MIB)
        assert check(tmp_path, file).checks["deadlock"] == ("ok" if hangs * MIB <= chunks * MIB else "failed")
        file.max_bytes = hangs * MIB + chunks * 2
        assert check(tmp_path, file).checks["deadlock"] == "failed"


def test_messages_name_the_place(tmp_path):
    file = ring_all_gather()
    file.gpus[1].tbs[0].steps[2]["dstoff"] = 4
    verdict = check(tmp_path, file)
    (told,) = [d for d in verdict.diagnostics if not d.warning]
    assert told.message.startswith("gpu 1, threadblock 0, step 2: dst is o[4 .. 4], outside the buffer")
    line = file.text().split("\n")[told.span.line - 1]
    assert 'dstoff="4"' in line
    assert line[told.span.column - 1 :].startswith('dstoff="4"')
    assert told.notes[0].message == "expected: within the 4 chunks of o"
    finding = verdict.findings[0]
    assert (finding.location.gpu, finding.location.tb, finding.location.step) == (1, 0, 2)


def test_missing_contributions_are_said(tmp_path):
    file = direct_all_reduce(3)
    file.gpus[0].tbs[2].steps[2]["srcoff"] = 0
    told = check(tmp_path, file).diagnostics
    text = " ".join(d.message for d in told)
    assert "missing: input chunk 0 of rank" in text
    assert "counted more than once: input chunk 0 of rank" in text


def test_many_findings_are_counted(tmp_path):
    file = all_to_all(6)
    for gpu in file.gpus:
        for tb in gpu.tbs:
            tb.steps[0]["s"] = 9
    told = [d.message for d in check(tmp_path, file).diagnostics]
    assert len(told) == 13
    assert told[-1] == "24 more of this kind (contract)"


@pytest.mark.parametrize("inputs", [21, -1])
def test_the_last_message_says_how_many_there_are_more(tmp_path, inputs):
    file = all_to_all(20)
    for gpu in file.gpus:
        gpu.chunks = (inputs, 20, 0)
    told = [d.message for d in check(tmp_path, file).diagnostics if d.code == "X0116"]
    assert len(told) == 13
    assert told[-1] == "8 more of this kind (contract)"


def test_findings_in_large_files_name_line_and_column(tmp_path, monkeypatch):
    file = all_to_all(2)
    file.gpus[1].tbs[0].steps[0]["s"] = 9
    (whole,) = check(tmp_path, file).diagnostics
    assert whole.span is not None
    assert whole.span.file.text[whole.span.start : whole.span.end] == 's="9"'
    monkeypatch.setattr("collc.msccl.check.findings.SPAN_LIMIT", 0)
    (message,) = check(tmp_path, file).diagnostics
    assert message.span is None
    name, line, column = message.notes[0].message.rsplit(":", 2)
    assert name == str(tmp_path / "f.xml")
    assert (tmp_path / "f.xml").read_text().splitlines()[int(line) - 1][int(column) - 1 :].startswith('<step s="9"')


@pytest.mark.parametrize("make", [ring_all_gather, ring_reduce_scatter, direct_gather, direct_scatter])
def test_in_place_the_own_part_needs_no_copy(tmp_path, make):
    file = make(4)
    file.inplace, file.outofplace = 1, 0
    for gpu in file.gpus:
        gpu.tbs = [tb for tb in gpu.tbs if tb.steps[0]["type"] != "cpy"]
    verdict = check(tmp_path, file)
    assert verdict.ok, verdict.diagnostics


def test_the_first_step_of_a_file_sends_what_nobody_receives(tmp_path):
    file = exchange(1)
    del file.gpus[1].tbs[0].steps[1]
    (finding,) = [finding for finding in check(tmp_path, file).findings if finding.code == "X0130"]
    assert finding.message == "sends, but no step of the peer receives it"
    assert (finding.location.gpu, finding.location.tb, finding.location.step) == (0, 0, 0)


def test_a_threadblock_that_waits_for_a_cycle_is_not_counted_in_it(tmp_path):
    """Gpus 1 and 2 each receive from the other one before they send; gpu 0 waits for both."""
    last = Block(0, -1).add("s", ("i", 0), ("o", 1), dep=(0, 1))
    gpus = [
        Gpu((1, 3, 0), [Block(-1, 1).add("r", ("i", 0), ("o", 1))]),
        Gpu((1, 3, 0), [Block(2, 2).add("r", ("i", 0), ("o", 2)).add("s", ("i", 0), ("o", 1), hasdep=1), last]),
        Gpu((1, 3, 0), [Block(1, 1).add("r", ("i", 0), ("o", 1)).add("s", ("i", 0), ("o", 2))]),
    ]
    (finding,) = [
        finding for finding in check(tmp_path, File("allgather", 3, gpus)).findings if finding.code == "X0140"
    ]
    assert "a cycle of 2 waits" in finding.message
    assert (finding.location.gpu, len(finding.also)) == (1, 1)


def test_the_width_of_a_result_is_that_of_its_longest_buffer():
    assert ExpectedResult({(0, 0): WantedChunk(frozenset([(1, 5)]))}).width == 6
    assert ExpectedResult({(0, 3): WantedChunk(frozenset([(1, 1)])), (1, 0): WantedChunk(frozenset())}).width == 4
    assert ExpectedResult({}).width == 0


def test_a_contribution_that_counts_twice_stays_so_in_further_sums():
    """Value parts: the ranks that contribute to each chunk as bits, and those that do so more than once."""
    twice, other = (((0, 0b01),), ((0, 0b01),)), (((0, 0b10),), ())
    assert _merge(twice, other) == _merge(other, twice) == (((0, 0b11),), ((0, 0b01),))


def test_connections_without_a_sender_or_a_receiver(tmp_path):
    gpus = [
        Gpu((1, 2, 0), [Block(1, -1).add("s"), Block(-1, 1, 1).add("r")]),
        Gpu((1, 2, 0), [Block(-1, 0).add("r"), Block(0, -1).add("s")]),
    ]
    program = Reader("executor", Findings()).read(write(tmp_path / "f.xml", File("allgather", 2, gpus, nchannels=2)))
    connections = program.connections
    assert connections.key.tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 1]]
    assert connections.sender.tolist() == [0, 3, -1]
    assert connections.receiver.tolist() == [2, -1, 1]
    assert connections.of_sender.tolist() == [0, -1, -1, 1]
    assert connections.of_receiver.tolist() == [-1, 2, 0, -1]


def test_a_threadblock_knows_only_what_came_before_the_step_that_it_waits_for(tmp_path):
    """Threadblock 3 waits for the first step of threadblock 2, which waits for threadblock 0 only later."""
    middle = Block().add("cpy", ("s", 1), ("s", 2), dep=(1, 0), hasdep=1).add("cpy", ("i", 0), ("s", 3), dep=(0, 0))
    tbs = [
        Block().add("cpy", ("i", 0), ("s", 0), hasdep=1),
        Block().add("cpy", ("i", 0), ("s", 1), hasdep=1),
        middle,
        Block().add("cpy", ("i", 0), ("s", 0), dep=(2, 0)),
    ]
    verdict = check(tmp_path, File("allgather", 2, [Gpu((1, 2, 4), tbs), Gpu((1, 2, 4), tbs)]))
    races = [finding for finding in verdict.findings if finding.check == "race"]
    assert [{finding.location.tb, finding.also[0][1].tb} for finding in races] == [{0, 3}, {0, 3}]
    assert all("()" not in note.message for message in verdict.diagnostics for note in message.notes)


def test_a_dependency_on_a_nop_waits_for_the_next_step_that_moves_the_counter(tmp_path):
    """As in the kernel of the executor, which waits until the counter has at least the number of the step."""
    file = star_all_gather_by_scratch()
    _, second, third, keeper = file.gpus[0].tbs
    later = Block().add("nop", ("i", -1), ("o", -1), 0, dep=(0, 0)).steps + keeper.steps
    keeper.steps = [{**step, "s": number} for number, step in enumerate(later)]
    second.steps[-1]["deps"] = third.steps[-1]["deps"] = 2
    assert third.steps[0]["deps"] == 0  # the nop, and so the copy after it
    assert check(tmp_path, file).ok
    keeper.steps[1]["hasdep"] = 0  # now the last copy, which itself waits for what is received
    verdict = check(tmp_path, file)
    assert verdict.checks["contract"] == "ok"
    assert verdict.checks["deadlock"] == "failed"
    keeper.steps[2]["hasdep"] = 0
    assert check(tmp_path, file).findings[0].code == "X0115"


def test_a_dependency_through_another_gpu_orders(tmp_path):
    """What a message round trip orders is no race; without the trip it is one."""
    gpus = [Gpu((1, 2, 1)), Gpu((1, 2, 0))]
    there = Block(1, -1).add("s", ("i", 0), ("o", 0))
    back = Block(-1, 1).add("r", ("i", 0), ("i", 0)).add("cpy", ("i", 0), ("o", 1))
    gpus[0].tbs = [there, back, Block().add("cpy", ("i", 0), ("o", 0))]
    gpus[1].tbs = [Block(0, 0).add("r", ("i", 0), ("o", 0)).add("s", ("i", 0), ("o", 0)).add("cpy", dst=("o", 1))]
    file = File("allgather", 2, gpus)
    verdict = check(tmp_path, file)
    races = [finding for finding in verdict.findings if finding.check == "race"]
    # The copy of i[0] races with the receive that overwrites it; the send does not.
    assert {(finding.location.tb, finding.also[0][1].tb) for finding in races} <= {(1, 2), (2, 1)}
    assert races


def test_custom_collectives(tmp_path):
    file = star_all_gather_by_scratch()
    file.coll, file.name = "custom", "gather by hand"
    wants = {(rank, slot): WantedChunk(frozenset([(slot, 0)])) for rank in range(3) for slot in range(3)}
    path = write(tmp_path / "f.xml", file)
    assert check_file(path, profile="old").checks["result"] == "skipped"
    assert check_file(path, profile="old", expected=ExpectedResult(wants)).checks["result"] == "ok"
    assert check_file(path, profile="old", collective="all_gather").checks["result"] == "ok"
    wants[2, 0] = WantedChunk(frozenset([(1, 0)]))
    verdict = check_file(path, profile="old", expected=ExpectedResult(wants))
    assert verdict.checks["result"] == "failed"
    assert len([f for f in verdict.findings if f.check == "result"]) == 1
    wants[2, 0] = WantedChunk(frozenset([(1, 0), (0, 0)]))
    assert check_file(path, profile="old", expected=ExpectedResult(wants)).checks["result"] == "ok"
    wants[2, 0] = WantedChunk(frozenset([(1, 0), (0, 0)]), reduced=True)
    assert check_file(path, profile="old", expected=ExpectedResult(wants)).checks["result"] == "failed"


def test_custom_sums(tmp_path):
    file = ring_all_reduce(3)
    file.coll = "custom"
    everyone = WantedChunk(frozenset((rank, 1) for rank in range(3)), reduced=True)
    path = write(tmp_path / "f.xml", file)
    assert check_file(path, profile="old", expected=ExpectedResult({(0, 1): everyone})).checks["result"] == "ok"
    assert check_file(path, profile="old", expected=ExpectedResult({(0, 2): everyone})).checks["result"] == "failed"


def test_the_file_is_for_another_collective(tmp_path):
    verdict = check(tmp_path, ring_all_gather(), collective="all_reduce")
    assert verdict.checks == {"contract": "failed", "result": "skipped", "deadlock": "skipped", "race": "skipped"}
    assert check(tmp_path, ring_all_gather(), collective="all_gather").ok


def test_all_to_all_of_equal_blocks(tmp_path):
    file = all_to_all(3)
    file.coll = "alltoallv"
    assert set(check(tmp_path, file).checks.values()) == {"ok"}
    step = next(step for step in file.gpus[1].tbs[0].steps if step["type"] == "r")
    step["dstoff"] = 1
    assert check(tmp_path, file).checks["result"] == "failed"


def test_ragged_blocks_are_no_all_to_allv(tmp_path):
    file = all_to_all(3)
    file.coll = "alltoallv"
    file.gpus[2].chunks = (4, 3, 0)
    verdict = check(tmp_path, file)
    assert verdict.checks["contract"] == "failed"
    assert any("ragged alltoallv: 4 input and 3 output chunks" in f.message for f in verdict.findings)


@pytest.mark.parametrize("coll", ["send", "recv"])
def test_sends_and_receives_are_told_by_what_arrives(tmp_path, coll):
    """GPU 0 sends both chunks over GPU 1, which keeps them in scratch, to GPU 2."""
    first = Block(send=1).add("s", ("i", 0), ("i", 0), 2)
    relay = Block(send=2, recv=0).add("rcs", ("s", 0), ("s", 0), 2)
    last = Block(recv=1).add("r", ("o", 0), ("o", 0), 2)
    file = chain_broadcast()
    file.coll, file.nchunksperloop, file.inplace = coll, 2, 0
    file.gpus = [Gpu((2, 2, 0), [first]), Gpu((2, 2, 2), [relay]), Gpu((2, 2, 0), [last])]
    assert set(check(tmp_path, file).checks.values()) == {"ok"}
    last.steps[0]["dstoff"], file.gpus[2].chunks = 1, (2, 3, 0)
    verdict = check(tmp_path, file)
    assert [f.message for f in verdict.findings if f.check == "result"] == [
        "no rank ends with the first input chunk of another one"
    ]
    last.steps[0]["dstoff"], last.steps[0]["cnt"], relay.steps[0]["cnt"], first.steps[0]["cnt"] = 0, 1, 1, 1
    assert "output chunk 1 of rank 2" in next(f.message for f in check(tmp_path, file).findings if f.check == "result")


def test_profiles_differ(tmp_path):
    file = ring_all_gather()
    assert not check(tmp_path, file, profile="old").ok  # maxBytes 0 is no size at all there
    file.max_bytes = 2**40
    path = write(tmp_path / "f.xml", file)
    assert check_file(path, profile="old").ok
    for _ in range(100):
        file.gpus[0].tbs[1].add("cpy", ("i", 0), ("o", 0))
    path = write(tmp_path / "f.xml", file)
    assert check_file(path, profile="old").ok
    assert not check_file(path, profile="executor").ok
    for _ in range(200):
        file.gpus[0].tbs[1].add("cpy", ("i", 0), ("o", 0))
    assert not check_file(write(tmp_path / "f.xml", file), profile="old").ok


def test_old_profile_defaults_and_names(tmp_path):
    text = exchange(8).text().replace(' minBytes="0" maxBytes="0"', "")
    path = write(tmp_path / "f.xml", text)
    assert check_file(path).checks["contract"] == "failed"
    verdict = check_file(path, profile="old")
    assert verdict.summary.max_bytes == 128 * MIB - 1
    assert verdict.checks["deadlock"] == "failed"
    nameless = check_file(write(tmp_path / "f.xml", text.replace('name="by hand" ', "")), profile="old")
    assert nameless.checks["contract"] == "failed"
    other = write(tmp_path / "g.xml", ring_all_gather().text().replace('"allgather"', '"gather"'))
    assert check_file(other, profile="old").checks["contract"] == "failed"


def test_buffers_that_the_file_calls_smaller_but_never_uses(tmp_path):
    """In place only, some files declare no output buffer: the executor does not look."""
    file = ring_all_reduce(3)
    file.outofplace = 0
    for gpu in file.gpus:
        gpu.chunks = (3, 0, 0)
        for step in gpu.tbs[0].steps:
            step["srcbuf"] = step["dstbuf"] = "i"
    assert check(tmp_path, file).ok
    assert not check(tmp_path, file, profile="old").ok


def test_writing_the_callers_input_is_a_warning(tmp_path):
    file = ring_all_reduce(3)
    for gpu in file.gpus:
        gpu.tbs[0].steps[2]["dstbuf"] = "i"
    verdict = check(tmp_path, file)
    assert [d.code for d in verdict.diagnostics if d.warning] == ["X0120"]


def test_fused_reductions(tmp_path):
    gpus = [Gpu((1, 1, 17)) for _ in range(2)]
    for rank, gpu in enumerate(gpus):
        tb = Block(1 - rank, 1 - rank).add("s", ("i", 0)).add("r", dst=("s", 0)).add("cpy", ("i", 0), ("o", 0))
        tb.add("re", ("s", 0), ("o", 0))
        gpu.tbs = [tb]
    file = File("allreduce", 1, gpus)
    assert check(tmp_path, file).ok
    for slot in range(16):
        gpus[0].tbs[0].add("re", ("s", slot + 1), ("o", 0))
    assert "X0119" in {finding.code for finding in check(tmp_path, file).findings}
    gpus[0].tbs[0].steps[9]["hasdep"] = 1
    assert "X0119" not in {finding.code for finding in check(tmp_path, file).findings}


@pytest.mark.parametrize(("nodes", "fits"), [(4095, True), (4096, False)])
def test_nodes_of_one_rank(tmp_path, nodes, fits):
    """The algo, 4 gpus, and the threadblocks and steps of the rank count; other ranks have their own."""
    file = all_to_all(4)
    missing = nodes - 5 - len(file.gpus[0].tbs) - sum(len(tb.steps) for tb in file.gpus[0].tbs)
    while missing:
        steps = min(64, missing - 1)
        missing -= 1 + steps
        file.gpus[0].tbs.append(Block())
        for _ in range(steps):
            file.gpus[0].tbs[-1].add("cpy", ("i", 0), ("o", 0))
    file.gpus[1].tbs += [Block().add("cpy", ("i", 1), ("o", 1)) for _ in range(40)]
    named = [finding for finding in check(tmp_path, file).findings if finding.code == "X0117"]
    assert (not named) is fits
    assert fits or named[0].message == f"{nodes} nodes when this rank loads the file"


def test_depending_on_a_threadblock_above_127(tmp_path):
    file = all_to_all(2, max_bytes=2**40)
    file.gpus[0].tbs += [Block().add("cpy", ("i", 0), ("o", 0), hasdep=1) for _ in range(130)]
    file.gpus[0].tbs[0].steps[0].update(depid=127, deps=0)
    assert check(tmp_path, file).checks["contract"] == "ok"
    file.gpus[0].tbs[0].steps[0].update(depid=128)
    assert check(tmp_path, file).checks["contract"] == "failed"
    assert check(tmp_path, file, profile="old").checks["contract"] == "ok"


@pytest.mark.slow
def test_all_to_all_of_256_ranks(tmp_path):
    file = all_to_all(256)
    file.nchannels = 8
    for gpu in file.gpus:
        for number, tb in enumerate(gpu.tbs):
            tb.chan = number % 8
    verdict = check(tmp_path, file)
    assert set(verdict.checks.values()) == {"ok"}
    assert verdict.summary.threadblocks == 65536
    file.gpus[200].tbs[100].steps[1]["dstoff"] = 3
    verdict = check(tmp_path, file)
    assert verdict.checks["result"] == verdict.checks["race"] == "failed"
    assert any("output chunk" in d.message and "rank 200" in d.message for d in verdict.diagnostics)
