"""The proof of factored schedules: it holds of what is right, and never of what the check of all rows refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from collc.synthesis.symmetric import symmetric_module
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op, Standard
from collc.ten.endpoint import Endpoint
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification import verify_schedule
from collc.verification.chunk_check import ChunkCheck
from collc.verification.factored_check import LATEST, are_translations, overlaps_with_earlier
from collc.verification.schedule_check import is_proved
from tests.support import all_gather, all_reduce, all_to_all, reduce_scatter, switched
from tests.synthesis.clusters import fat_tree, pods, rails, unlisted

KINDS = {"all_gather": all_gather, "reduce_scatter": reduce_scatter, "all_reduce": all_reduce, "all_to_all": all_to_all}
NETWORKS = [switched(4), rails(2, 3), pods(2, 2, 2), pods(2, 2, 2, 1, 2), fat_tree(4)]


def planned(net: Network, kind: str, chunks: int = 2) -> tuple[Module, FactoredSchedule]:
    group = np.random.default_rng(1).permutation(net.npu_count).tolist()
    module = Module("m", net, KINDS[kind](group, chunk=4096, chunks=chunks), LinkModel.PIPELINED)
    schedule = symmetric_module(module, Effort()).schedule
    assert isinstance(schedule, FactoredSchedule)
    return module, schedule


def row_check(module: Module, schedule: FactoredSchedule) -> bool:
    """The check of all rows, which knows nothing of translations."""
    rows = module.with_schedule(RowSchedule(module.model, schedule.transfers), "")
    found = verify_schedule(rows, large=10**9).ok
    assert verify_schedule(rows, large=0).ok == found
    return found


def with_rows(schedule: FactoredSchedule, **columns: np.ndarray) -> FactoredSchedule:
    return replace(schedule, rows=replace(schedule.rows, **columns))


def part(schedule: FactoredSchedule, kept: slice) -> FactoredSchedule:
    rows = schedule.rows
    some = Transfers(rows.chunk[kept], rows.link[kept], rows.start[kept], rows.reduce[kept])
    return replace(schedule, rows=some, turn=schedule.turn[kept])


@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.name)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_is_proved(net: Network, kind: str) -> None:
    module, schedule = planned(net, kind)
    assert is_proved(module, schedule)
    assert row_check(module, schedule)


@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.name)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_plainly_right(net: Network, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled check of rows follows several copies and partials of a chunk through a switch."""
    module, schedule = planned(net, kind)
    rows = module.with_schedule(RowSchedule(module.model, schedule.transfers), "")
    replayed: list[int] = []
    monkeypatch.setattr(ChunkCheck, "check", lambda _self, chunk, _rows: replayed.append(chunk))
    assert verify_schedule(rows, large=0).ok
    assert not replayed


def broken(schedule: FactoredSchedule, chance: random.Random) -> FactoredSchedule:
    """A schedule with one thing changed."""
    rows, row = schedule.rows, chance.randrange(len(schedule.rows))
    start, link, chunk, reduce = rows.start.copy(), rows.link.copy(), rows.chunk.copy(), rows.reduce.copy()
    choice = chance.randrange(7)
    if choice == 0:
        start[row] = max(0, start[row] + chance.choice([-1, 1]) * chance.randrange(1, 10**6))
    elif choice == 1:
        link[row] = chance.randrange(schedule.translations.link.shape[1])
    elif choice == 2:
        chunk[row] = chunk[chance.randrange(len(rows))]
    elif choice == 3:
        reduce[row] = not reduce[row]
    elif choice == 4:
        kept = np.arange(len(rows)) != row
        fewer = Transfers(chunk[kept], link[kept], start[kept], reduce[kept])
        return replace(schedule, rows=fewer, turn=schedule.turn[kept])
    elif choice == 5:
        other = chance.randrange(len(rows))
        start[row], start[other] = start[other], start[row]
    else:
        turn = schedule.turn.copy()
        turn[row] = max(0, turn[row] + chance.choice([-1, 1]) * chance.randrange(1, 10**5))
        return replace(schedule, turn=turn)
    changed = Transfers.of(chunk, link, start, reduce)
    order = np.lexsort((chunk, link, start))
    return replace(schedule, rows=changed, turn=np.where(schedule.turn[order] > 0, schedule.turn.max(), 0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.name)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_not_proved(net: Network, kind: str) -> None:
    module, schedule = planned(net, kind)
    chance = random.Random(kind + net.name)
    refused = 0
    for _ in range(40):
        wrong = broken(schedule, chance)
        if is_proved(module, wrong):
            assert row_check(module, wrong)
        else:
            refused += 1
    assert refused >= 10


SMALL = [(switched(4), 1), (rails(2, 3), 1), (rails(4, 2), 2), (switched(7), 1)]
"""Networks on which an All-Reduce of 8 bytes a chunk is one-shot on some levels, with chunks of an NPU."""


def exchanged(net: Network, chunks: int) -> tuple[Module, FactoredSchedule]:
    """An All-Reduce whose sums follow no tree: some NPU sends its partial to several others."""
    demand = all_reduce(list(range(net.npu_count)), chunk=8, chunks=chunks)
    module = Module("m", net, demand, LinkModel.PIPELINED)
    schedule = symmetric_module(module, Effort()).schedule
    assert isinstance(schedule, FactoredSchedule)
    rows = schedule.rows
    first = rows.reduce & (rows.chunk == rows.chunk[0])
    source = net.source[rows.link[first]]
    assert len(np.unique(source[source < net.npu_count])) < int((source < net.npu_count).sum())
    return module, schedule


@pytest.mark.parametrize(("net", "chunks"), SMALL, ids=lambda value: value.name if isinstance(value, Network) else "")
def test_exchanged_partials_are_proved_where_they_are_right(net: Network, chunks: int) -> None:
    module, schedule = exchanged(net, chunks)
    assert is_proved(module, schedule)
    assert row_check(module, schedule)
    chance, refused = random.Random(net.name), 0
    for _ in range(60):
        wrong = broken(schedule, chance)
        if is_proved(module, wrong):
            assert row_check(module, wrong)
        else:
            refused += 1
    assert refused >= 20


def test_partials_that_come_before_an_npu_has_sent_its_own() -> None:
    """Delayed by a latency, the last partial of an NPU would carry what has arrived from others."""
    module, schedule = exchanged(switched(4), 1)
    rows, start = schedule.rows, schedule.rows.start.copy()
    up = module.network.source[rows.link] < 4
    late = int(np.flatnonzero(up)[-1])
    both = np.isin(rows.link, [rows.link[late]]) & up & (start == start[late])
    down = np.flatnonzero(~up)[-1]
    start[[int(np.flatnonzero(both)[0]), int(down)]] += 10 * int(start.max())
    wrong = with_rows(schedule, start=start)
    assert not is_proved(module, wrong)
    verdict = verify_schedule(module.with_schedule(wrong, ""))
    assert "V0403" in {message.code for message in verdict.diagnostics}


def test_turns_of_any_length() -> None:
    """Two turns of 1.8 ms do not fit in 32 bits; two of 2**62 ps, which are no time, do not fit in 64."""
    for size in (2**28, 2**31):
        demand = all_gather(list(range(12)), chunk=size)
        module = Module("m", pods(2, 3, 2), demand, LinkModel.PIPELINED)
        schedule = symmetric_module(module, Effort()).schedule
        assert isinstance(schedule, FactoredSchedule)
        assert schedule.turn.max() > 2**30
        assert is_proved(module, schedule)
        assert row_check(module, schedule)
        share = schedule.translations.link_share[schedule.rows.link]
        assert share.max() == 3
        for turn in (2**61, 2**62):
            endless = replace(schedule, turn=np.where(share > 1, turn, 0))
            assert not is_proved(module, endless)
            assert not row_check(module, endless)


CHANGES: dict[str, Callable[[FactoredSchedule], FactoredSchedule]] = {
    "twice as fast": lambda s: with_rows(s, start=s.rows.start // 2),
    "at once": lambda s: with_rows(s, start=np.zeros_like(s.rows.start)),
    "without the last": lambda s: part(s, slice(None, -1)),
    "without the first": lambda s: part(s, slice(1, None)),
    "sums as copies": lambda s: with_rows(s, reduce=~s.rows.reduce),
    "on no link": lambda s: with_rows(s, link=s.rows.link + 10**6),
    "of no chunk": lambda s: with_rows(s, chunk=s.rows.chunk + 10**6),
    "before time 0": lambda s: with_rows(s, start=s.rows.start - 1),
    "of other chunks": lambda s: with_rows(s, chunk=np.sort(s.rows.chunk)),
}


@pytest.mark.parametrize(
    ("kind", "change", "code"),
    [
        ("all_gather", "twice as fast", "V0201"),
        ("all_gather", "at once", "V0101"),
        ("all_gather", "without the last", "V0301"),
        ("all_gather", "sums as copies", "V0401"),
        ("all_gather", "on no link", "V0102"),
        ("all_gather", "before time 0", "V0103"),
        ("reduce_scatter", "sums as copies", "V0402"),
        ("reduce_scatter", "without the first", "V0404"),
        ("reduce_scatter", "of no chunk", "V0102"),
        ("all_reduce", "sums as copies", "V0404"),
        ("all_reduce", "at once", "V0201"),
        ("all_to_all", "of other chunks", "V0301"),
        ("all_to_all", "of no chunk", "V0102"),
    ],
)
def test_what_is_wrong_is_named(kind: str, change: str, code: str) -> None:
    module, schedule = planned(rails(2, 3), kind)
    verdict = verify_schedule(module.with_schedule(CHANGES[change](schedule), ""))
    assert code in {message.code for message in verdict.diagnostics}


def test_partials_that_meet_in_a_switch_must_go_one_path() -> None:
    """Two partials wait in the switch for different GPUs: which leaves first decides where it goes."""
    module, schedule = planned(switched(4), "reduce_scatter", 1)
    assert is_proved(module, schedule)
    rows = schedule.rows
    into = np.flatnonzero(module.network.target[rows.link] == 4)
    out = np.flatnonzero(module.network.source[rows.link] == 4)
    link = rows.link.copy()
    other = int(np.flatnonzero(module.network.source == 4)[int(module.network.target[rows.link[out[0]]]) - 1])
    link[out[0]] = other
    start = rows.start.copy()
    start[out] += start[into].max() + 10**6
    wrong = replace(schedule, rows=Transfers(rows.chunk, link, start, rows.reduce))
    assert not is_proved(module, wrong)


def test_translations_are_checked() -> None:
    net = rails(3, 4, spine=True)
    module, schedule = planned(net, "all_gather")
    group = schedule.translations
    assert are_translations(group, net)
    swapped = group.link.copy()
    swapped[0, [0, 1]] = swapped[0, [1, 0]]
    moved = group.device.copy()
    moved[0, [0, 13]] = moved[0, [13, 0]]
    twice = group.device.copy()
    twice[1, 0] = twice[1, 1]
    npus, links = np.arange(net.device_count, dtype=np.int32), np.arange(net.link_count, dtype=np.int32)
    still = np.stack([npus, npus]), np.stack([links, links])
    for wrong in (
        replace(group, link=swapped),
        replace(group, device=moved),
        replace(group, device=twice),
        replace(group, device=still[0], link=still[1]),
        replace(group, sizes=(3, 2)),
        replace(group, sizes=(3,)),
        replace(group, npu_count=11),
    ):
        assert not are_translations(wrong, net)
        assert not is_proved(module, replace(schedule, translations=wrong))


def test_what_translations_must_keep() -> None:
    net = rails(3, 4, spine=True)
    _, schedule = planned(net, "all_gather")
    kind, present, buffers, multicast = net.kind.copy(), net.present.copy(), net.buffers.copy(), net.multicast.copy()
    kind[0] = 1 - kind[0]
    present[13], buffers[1], multicast[4] = False, 7, True
    ends = np.zeros(12, np.int32)
    ends[5] = 1
    for other in (
        replace(net, kind=kind),
        replace(net, present=present),
        replace(net, buffers=buffers),
        replace(net, multicast=multicast),
        replace(net, reduces=multicast),
        replace(net, endpoint=ends, endpoint_kinds=(Endpoint(), Endpoint(memory=LinkKind(1, None).bandwidth))),
    ):
        assert not are_translations(schedule.translations, other)


def test_what_the_proof_leaves_to_the_check_of_rows() -> None:
    net = rails(2, 3)
    module, schedule = planned(net, "all_reduce")
    limited = replace(net, buffers=np.full(5, 100, np.int64))
    adding = replace(net, reduces=np.ones(5, np.bool_))
    shape = replace(net, kinds=tuple(LinkKind(None, None) for _ in net.kinds))
    for other in (limited, adding, shape):
        assert not is_proved(replace(module, network=other), schedule)
    assert not is_proved(replace(module, demand=Demand(module.demand.runs * 2)), schedule)
    assert not is_proved(replace(module, demand=all_gather(list(range(6)), chunk=4096)), schedule)
    run, table = module.demand.runs[0], module.demand.chunks
    larger = Demand((replace(run, pattern=replace(table, size=2 * table.size)),))
    assert not is_proved(replace(module, demand=larger), schedule)  # its chunks are not those of the collective
    standard = Standard("all_reduce", 6 * 2 * 4096, 2)
    copies = replace(unlisted("all_reduce", 6, 2, 6 * 2 * 4096).runs[0], standard=standard)
    same_ranks = Demand((replace(copies, group=module.demand.runs[0].group),))
    assert not is_proved(replace(module, demand=same_ranks), schedule)  # an All-Reduce that says it copies
    standard = replace(standard, op=Op.SUM)
    assert is_proved(replace(module, demand=Demand((replace(same_ranks.runs[0], standard=standard),))), schedule)
    assert not is_proved(module, with_rows(schedule, relayed=np.full(len(schedule.rows), -1, np.int32)))
    late = with_rows(schedule, start=schedule.rows.start + 2**51)
    assert not is_proved(module, late)
    assert row_check(module, late)


def test_numbers_of_other_collectives() -> None:
    module, schedule = planned(switched(4), "all_gather")
    numbers = schedule.numbers
    for other in (
        replace(numbers, parts=1),
        replace(numbers, pairs=True),
        replace(numbers, rank=numbers.rank[::-1].copy()),
    ):
        assert not is_proved(module, replace(schedule, numbers=other))
    assert ChunkNumbers.of(Demand(())) is None


def test_overlaps_of_short_and_of_long_times() -> None:
    """Ranks take the place of times whose products with keys would exceed 64 bits."""
    chance = np.random.default_rng(3)
    for scale in (1, 4 * LATEST // 100):
        key = np.sort(chance.integers(0, 12, 40))
        begin = chance.integers(0, 60, 40) * scale
        end = begin + chance.integers(0, 9, 40) * scale
        found = [
            any(key[a] == key[b] == key[k] and end[a] >= begin[b] for a in range(k) for b in range(k, 40))
            for k in range(40)
        ]
        assert overlaps_with_earlier(key, begin, end).tolist() == found
        assert 3 < sum(found) < 37
