"""`verify` agrees with a naive interpreter on random schedules and on broken ones, and names the errors."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import collc.verification
from collc.kernels import schedule_check as kernels
from collc.ten.demand import Op
from collc.ten.endpoint import Endpoint
from collc.ten.limited import with_endpoints
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel, RowSchedule, StepSchedule, Transfers
from collc.verification import CHECKS, schedule_check, verify_schedule
from collc.verification.schedule_check import check_buffers
from collc.verification.verdict import Findings
from tests.support import (
    DEFAULT,
    MiB,
    all_gather,
    all_reduce,
    broadcast,
    demand_of,
    grid,
    network,
    reduce_scatter,
    ring,
    switched,
)
from tests.verification.campaign import campaign, outcomes
from tests.verification.interpreter import interpret
from tests.verification.mutations import MUTATIONS
from tests.verification.random_modules import random_module, transfers

SEEDS = 3000


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(4))
def test_agrees_with_the_interpreter(part: int) -> None:
    seen: Counter[tuple[bool, ...]] = Counter()
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        module = random_module(seed)
        expected = interpret(module)
        assert outcomes(module) == expected, seed
        assert outcomes(module, large=0) == expected, f"{seed}, compiled"
        seen[tuple(expected.values())] += 1
    assert seen[True, True, True, True, True] > SEEDS // 10
    assert len(seen) > 3


def test_pieces_of_compiled_checks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal ends compiled code when it returns, so that no call may have all chunks of a large schedule."""
    seeds = range(4000, 4100)
    whole = [outcomes(random_module(seed), large=0) for seed in seeds]
    screens = Mock(wraps=kernels.screen)
    monkeypatch.setattr(kernels, "screen", screens)
    monkeypatch.setattr(schedule_check, "BATCH", 2)
    assert [outcomes(random_module(seed), large=0) for seed in seeds] == whole
    assert screens.call_count > 1.5 * len(seeds)


def test_every_mutation_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    done = campaign()
    with capsys.disabled():
        print(f"\n{done.rate()}")
    assert done.killed == done.broken
    assert done.broken.total() > 2000
    assert set(done.broken) == set(MUTATIONS), set(MUTATIONS) - set(done.broken)
    for name, check in [
        ("dropped", "delivered"), ("early_by_1ps", "causality"), ("late_by_1ps", "congestion_free"),
        ("duplicated_at_once", "congestion_free"), ("negative_time", "causality"), ("chunk_only_copied", "reductions"),
        ("chunk_that_is_not_there", "causality"), ("device_removed", "causality"), ("link_to_itself", "causality"),
        ("contribution_lost", "delivered"), ("contribution_doubled", "reductions"), ("partial_copied", "reductions"),
        ("link_that_is_not_there", "causality"), ("chunk_only_reduced", "reductions"), ("buffer_smaller", "switches"),
        ("multicast_gone", "switches"), ("on_two_links_of_a_switch", "switches"), ("switch_reduction_gone", "switches"),
        ("latency_longer", "causality"), ("more_wanted", "delivered"), ("holder_gone", "delivered"),
    ]:  # fmt: skip
        assert done.failed[name, check], (name, check)


CHUNK, LINK, TIME = r"\d+:\w+\[[\d, ]*\]", r"[\w\[\], ]+ -> [\w\[\], ]+ \(link \d+\)", r"at -?[\d.]+\w+"
MESSAGES = {
    "V0101": f"causality: {CHUNK} on {LINK} {TIME} is sent by .*, which does not hold it yet",
    "V0102": f"causality: ({CHUNK}|chunk -?\\d+) on ({LINK}|link -?\\d+) {TIME}: ",
    "V0103": f"causality: {CHUNK} on {LINK} {TIME}: that is not a valid time",
    "V0104": f"causality: {CHUNK} has -\\d+ bytes",
    "V0105": "causality: (transfers have no duration: links of .* have no bandwidth|a transfer takes longer than)",
    "V0107": f"causality: {CHUNK} on {LINK} {TIME}: it cannot relay what came over",
    "V0110": f"causality: {CHUNK} on {LINK} {TIME}: it cannot be kept apart on arrival",
    "V0202": rf"endpoints: \S+ sends {CHUNK} over {LINK} from [\d.]+\w+, but sends {CHUNK} over {LINK} until ",
    "V0201": f"congestion_free: {LINK} is given {CHUNK} {TIME}, but carries {CHUNK} until ",
    "V0301": f"delivered: .* never gets {CHUNK}",
    "V0302": f"delivered: .* ends with \\d+ of \\d+ contributions of {CHUNK}",
    "V0401": f"reductions: {CHUNK} on {LINK} {TIME} is reduced, but is a chunk to copy",
    "V0402": f"reductions: {CHUNK} on {LINK} {TIME} is sent as final, but holds \\d+ of \\d+ contributions",
    "V0403": f"reductions: {CHUNK} on {LINK} {TIME} brings .* a contribution that it has already",
    "V0404": f"reductions: .* ends with \\d+ of \\d+ contributions of {CHUNK}",
    "V0501": f"switches: {CHUNK} on {LINK} {TIME} leaves .* on two links at once",
    "V0502": f"switches: {CHUNK} reaches .* {TIME}, the buffer of which then holds \\d+ chunks",
    "V0503": f"switches: {CHUNK} {TIME} is a partial that reaches .* and never leaves",
}
"""The message of each code: it names the chunk, the link and the time if there is one."""


def modules_without_durations() -> list[Module]:
    """Modules that the interpreter does not accept: transfers over them have no duration."""
    module = ring_all_gather()
    unknown = tuple(replace(kind, bandwidth=None) for kind in module.network.kinds)
    slow = tuple(replace(kind, latency=2**62) for kind in module.network.kinds)
    return [
        replace(module, demand=all_gather([0, 1, 2, 3], chunk=-5)),
        *(replace(module, network=replace(module.network, kinds=kinds)) for kinds in (unknown, slow)),
    ]


def limited_ring() -> Module:
    """A broadcast from an NPU that sends over both its links at once, and cannot."""
    limits = [Endpoint(inject=DEFAULT.bandwidth), Endpoint(), Endpoint()]
    rows = Transfers.of(np.zeros(2, np.int32), np.array([0, 5], np.int32), np.zeros(2, np.int64))
    net = with_endpoints(ring(3), limits)
    return Module("m", net, broadcast([0, 1, 2], MiB), schedule=RowSchedule(LinkModel.STORE, rows))


def test_every_code_is_raised_by_a_mutation_with_a_complete_message() -> None:
    folder = Path(collc.verification.__file__).parent
    codes = {code for path in folder.glob("*.py") for code in re.findall(r'"(V\d{4})"', path.read_text())}
    codes.remove("V0109")  # tests/verification/test_messages.py
    diagnostics_by_code = dict(campaign().diagnostics)
    for module in modules_without_durations():
        for diagnostic in verify_schedule(module).diagnostics:
            diagnostics_by_code.setdefault(diagnostic.code, []).append(diagnostic)
    relaying = replace(ring_all_gather().schedule.transfers, relayed=np.full(12, 99, np.int32))
    module = replace(ring_all_gather(), schedule=RowSchedule(LinkModel.STORE, relaying))
    diagnostics_by_code["V0107"] = [d for d in verify_schedule(module).diagnostics if d.code == "V0107"]
    keeping = replace(ring_all_gather().schedule.transfers, kept=np.ones(12, np.bool_))
    module = replace(ring_all_gather(), schedule=RowSchedule(LinkModel.STORE, keeping))
    diagnostics_by_code["V0110"] = [d for d in verify_schedule(module).diagnostics if d.code == "V0110"]
    diagnostics_by_code["V0202"] = list(verify_schedule(limited_ring()).diagnostics)
    assert set(diagnostics_by_code) == codes == set(MESSAGES)
    for code, diagnostics in diagnostics_by_code.items():
        for diagnostic in diagnostics:
            assert re.match(MESSAGES[code], diagnostic.message), diagnostic.message
            assert diagnostic.notes[0].message.startswith("expected: "), diagnostic


def step_of(module: Module) -> int:
    return int(Clock.of(module.network, module.demand, LinkModel.STORE).total[0, 0])


def ring_all_gather(n: int = 4) -> Module:
    module = Module("m", ring(n, one_way=True), all_gather(list(range(n))))
    step = step_of(module)
    rows = [(s * step, i, (i - s) % n, False) for s in range(n - 1) for i in range(n)]
    return replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(rows)))


def messages(module: Module) -> dict[str, str]:
    verdict = verify_schedule(module)
    texts: dict[str, str] = {}
    for diagnostic in verdict.diagnostics:
        texts.setdefault(diagnostic.message.partition(":")[0], diagnostic.message)
    assert set(texts) == set(verdict.failed_checks())
    return texts


def test_a_good_schedule() -> None:
    verdict = verify_schedule(ring_all_gather())
    assert verdict.ok
    assert verdict.checks == dict.fromkeys(CHECKS, "ok")
    assert verdict.diagnostics == ()


def test_no_schedule_is_skipped() -> None:
    assert set(verify_schedule(replace(ring_all_gather(), schedule=None)).checks.values()) == {"skipped"}


def test_offenders_are_named() -> None:
    module = ring_all_gather()
    rows = module.schedule.transfers
    start = rows.start.copy()
    start[4] -= 1
    found = messages(replace(module, schedule=RowSchedule(LinkModel.STORE, replace(rows, start=start))))
    assert found["causality"] == (
        "causality: 0:x[3, 0] on npu[0] -> npu[1] (link 0) at 20.031249us is sent by npu[0], which does not hold it yet"
    )
    assert found["congestion_free"] == (
        "congestion_free: npu[0] -> npu[1] (link 0) is given 0:x[3, 0] at 20.031249us, "
        "but carries 0:x[0, 0] until 20.03125us"
    )
    assert found["delivered"] == "delivered: npu[1] never gets 0:x[3, 0]"


def test_the_first_offenders_come_first_and_the_rest_is_counted() -> None:
    module = ring_all_gather(8)
    late = module.schedule.transfers
    verdict = verify_schedule(
        replace(module, schedule=RowSchedule(LinkModel.STORE, replace(late, start=late.start // 2)))
    )
    reported = [d for d in verdict.diagnostics if d.message.startswith("causality")]
    assert len(reported) == 8
    assert "more of this check" in reported[-1].notes[-1].message


def test_at_most_399_impossible_transfers_are_counted() -> None:
    rows = [(start, 99, 0, False) for start in range(500)]
    module = replace(ring_all_gather(), schedule=RowSchedule(LinkModel.STORE, transfers(rows)))
    verdict = verify_schedule(module)
    listed = [d for d in verdict.diagnostics if d.code == "V0102"]
    assert len(listed) == 8
    assert listed[-1].notes[-1].message == "and 391 more of this check"


def test_400_chunks_are_replayed_after_a_failure() -> None:
    demand = demand_of([(1, [0], [1], Op.COPY)] * 402)
    module = Module("m", ring(2), demand, schedule=RowSchedule(LinkModel.STORE, transfers([])))
    listed = verify_schedule(module).diagnostics
    assert len(listed) == 8
    assert listed[-1].notes[-1].message == "and 392 more of this check"


def test_at_most_100_arrivals_that_overfill_a_buffer_are_reported() -> None:
    net = switched(2, buffer=1)
    findings = Findings(net, demand_of([(1, [0], [1], Op.COPY)]))
    slots = np.array([[2, start, 1000, 0] for start in range(150)], np.int64)
    check_buffers(net, slots, findings)
    assert len(findings.offenders["switches"]) == 100


def test_two_chunks_on_a_link_at_once_are_found() -> None:
    n = 4
    module = Module("m", ring(n, one_way=True), all_gather(list(range(n))))
    step = step_of(module)
    rows = [(s * step, (i + s) % n, i, False) for s in range(n - 1) for i in range(n)]
    rows += [(0, i, i, False) for i in range(n)]
    verdict = verify_schedule(replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(rows))))
    assert verdict.failed_checks() == ("congestion_free",)


def test_recursive_doubling_passes_and_a_partial_sent_as_final_fails() -> None:
    net = network(4, [(a, a ^ d) for a in range(4) for d in (1, 2)])
    module = Module("m", net, demand_of([(1 << 20, [0, 1, 2, 3], [0, 1, 2, 3], Op.SUM)]))
    step = step_of(module)
    rows = [(0, 2 * a, 0, True) for a in range(4)] + [(step, 2 * a + 1, 0, True) for a in range(4)]
    good = replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(rows)))
    assert verify_schedule(good).ok
    assert verify_schedule(good, large=0).ok
    again = [(start, link, chunk, start == 0) for start, link, chunk, _ in rows]
    found = messages(replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(again))))
    assert "2 of 4 contributions" in found["reductions"]


def test_links_without_times_are_reported() -> None:
    module = ring_all_gather()
    kinds = tuple(replace(kind, bandwidth=None) for kind in module.network.kinds)
    verdict = verify_schedule(replace(module, network=replace(module.network, kinds=kinds)))
    assert verdict.checks["causality"] == "failed"
    assert "no bandwidth" in verdict.diagnostics[0].message


def test_a_duration_beyond_64_bits_is_reported() -> None:
    module = ring_all_gather()
    kinds = tuple(replace(kind, bandwidth=Fraction(1, 2**60)) for kind in module.network.kinds)
    verdict = verify_schedule(replace(module, network=replace(module.network, kinds=kinds)))
    assert [diagnostic.code for diagnostic in verdict.diagnostics] == ["V0105"]


def test_a_chunk_that_does_not_exist_is_named_on_the_first_link_too() -> None:
    module = replace(ring_all_gather(), schedule=RowSchedule(LinkModel.STORE, transfers([(0, 0, 99, False)])))
    assert any("there is no such chunk" in d.message for d in verify_schedule(module).diagnostics)


def test_negative_sizes_are_reported() -> None:
    module = replace(ring_all_gather(), demand=all_gather([0, 1, 2, 3], chunk=-5))
    assert verify_schedule(module).checks["causality"] == "failed"


def test_a_slot_may_be_reused_when_its_chunk_leaves() -> None:
    net = switched(3, buffer=1)
    rows_of_two = [(1 << 20, [0], [1], Op.COPY), (1 << 20, [2], [1], Op.COPY)]
    module = Module("m", net, demand_of(rows_of_two))
    step = step_of(module)
    rows = [(0, 0, 0, False), (step, 3, 0, False), (step, 4, 1, False), (2 * step, 3, 1, False)]
    good = replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(rows)))
    assert verify_schedule(good).ok
    rows[2] = (step - 1, 4, 1, False)
    found = messages(replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(rows))))
    assert "the buffer of which then holds 2 chunks" in found["switches"]


@pytest.mark.parametrize("large", [0, 10**9])
def test_all_runs_must_be_delivered_whatever_the_module_says(large: int) -> None:
    module = replace(ring_all_gather(), schedule=RowSchedule(LinkModel.STORE, transfers([])))
    for planned in (frozenset(), frozenset({0}), None):
        assert verify_schedule(replace(module, planned=planned), large).failed_checks() == ("delivered",)


def step_table_module(rng: np.random.Generator) -> Module:
    """A greedy All-Gather as a step-by-link table; some tables have one wrong cell."""
    net = grid(int(rng.integers(1, 4)), int(rng.integers(2, 4)))
    module = Module("m", net, all_gather(list(range(net.npu_count))))
    held = np.eye(net.npu_count, dtype=np.bool_)
    rows = []
    while not held.all():
        after, row = held.copy(), np.full(net.link_count, 65535, np.uint16)
        for link in rng.permutation(net.link_count):
            source, target = int(net.source[link]), int(net.target[link])
            new = np.flatnonzero(held[source] & ~after[target])
            if len(new):
                row[link] = rng.choice(new)
                after[target, row[link]] = True
        held = after
        rows.append(row)
    cells = np.array(rows)
    if rng.random() < 0.6:
        cells[rng.integers(len(cells)), rng.integers(net.link_count)] = rng.integers(0, net.npu_count + 2)
    step = step_of(module)
    model = LinkModel.STORE if rng.random() < 0.5 else LinkModel.PIPELINED
    busy = step - 500_000 if model is LinkModel.PIPELINED and rng.random() < 0.5 else step
    return replace(module, schedule=StepSchedule(model, cells, busy))


def test_step_by_link_tables_agree_with_the_interpreter() -> None:
    seen = Counter()
    for seed in range(300):
        module = step_table_module(np.random.default_rng(seed))
        expected = interpret(module)
        assert outcomes(module) == outcomes(module, large=0) == expected, seed
        seen[all(expected.values())] += 1
    assert min(seen[True], seen[False]) > 30


def test_reduce_scatter_through_a_switch_that_reduces() -> None:
    net = replace(switched(3), reduces=np.array([True]))
    module = Module("m", net, reduce_scatter([0, 1, 2], chunk=1 << 20))
    step = step_of(module)
    rows = []
    for slot, root in enumerate(range(3)):
        rows += [(2 * slot * step, 2 * npu, root, True) for npu in range(3) if npu != root]
        rows.append(((2 * slot + 1) * step, 2 * root + 1, root, True))
    good = replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(rows)))
    assert verify_schedule(good).ok
    assert verify_schedule(good, large=0).ok
    plain = replace(good, network=switched(3))
    assert "does not reduce" in str(verify_schedule(plain).diagnostics)
    assert set(verify_schedule(plain).failed_checks()) >= {"switches", "delivered"}


def test_plain_and_compiled_checks_agree_on_an_all_reduce() -> None:
    n = 8
    module = Module("m", ring(n, one_way=True), all_reduce(list(range(n))))
    step = step_of(module)
    rows = [(s * step, i, (i - s) % n, s < n - 1) for s in range(2 * n - 2) for i in range(n)]
    module = replace(module, schedule=RowSchedule(LinkModel.STORE, transfers(rows)))
    for large in (0, 10**9):
        assert verify_schedule(module, large=large).ok
    assert isinstance(module.schedule.transfers, Transfers)
