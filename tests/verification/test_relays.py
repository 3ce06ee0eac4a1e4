"""Transfers that relay a partial which their sender keeps apart, also without adding it: checks, proof, text and binary
form.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from collc.base.diagnostics import SourceError, SourceFile
from collc.synthesis.exchange.cores import (
    PartialMessage,
    neighbour_exchange,
    odd_ring_exchange,
    running_messages,
)
from collc.ten.binary import load_module, save_module
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Transfers
from collc.ten.text import format_module, parse_module
from collc.verification.prove import prove_properties
from collc.verification.schedule_check import verify_schedule
from tests.support import demand_of, ring
from tests.verification.interpreter import interpret

Row = tuple[int, int, int, bool, int, bool]
"""start (in steps), link, chunk, reduce, relayed, kept"""


def around(npus: int, chunks: int = 1) -> Module:
    """A ring on which sums are formed by messages that NPUs keep apart and relay, one chunk after the other."""
    members = list(range(npus))
    rounds = list(neighbour_exchange(members) if npus % 2 == 0 else running_messages(members, closed=True))
    none: list[tuple[PartialMessage, ...]] = [()] * len(rounds)
    return with_rounds(npus, [none * chunk + rounds for chunk in range(chunks)])


def in_turns(npus: int) -> Module:
    """An odd ring on which two chunks are summed at once, one in each turn. Partials are kept that are not added."""
    return with_rounds(npus, [list(odd_ring_exchange(list(range(npus)), turn)) for turn in (0, 1)])


def with_rounds(npus: int, rounds: list[list[tuple[PartialMessage, ...]]]) -> Module:
    """A ring on which each chunk is summed by its rounds, all of which begin at time 0."""
    net = ring(npus)
    members = list(range(npus))
    link_of = {ends: link for link, ends in enumerate(zip(net.source.tolist(), net.target.tolist(), strict=True))}
    rows: list[Row] = []
    for chunk, of_chunk in enumerate(rounds):
        for number, messages in enumerate(of_chunk):
            for source, target, came_from, kept in messages:
                relayed = link_of[came_from, source] if came_from >= 0 else -1
                rows.append((number, link_of[source, target], chunk, True, relayed, kept))
    demand = demand_of([(1000, members, members, Op.SUM)] * len(rounds))
    return with_rows(Module("m", net, demand), rows)


def with_rows(module: Module, rows: list[Row]) -> Module:
    step = int(Clock.of(module.network, module.demand, LinkModel.STORE).total[0, 0])
    columns = np.array(rows, np.int64).reshape(-1, 6)
    chunk, link, relayed = (columns[:, k].astype(np.int32) for k in (2, 1, 4))
    reduce, kept = (columns[:, k].astype(np.bool_) for k in (3, 5))
    transfers = Transfers.of(chunk, link, columns[:, 0] * step, reduce, relayed, kept=kept)
    return replace(module, schedule=RowSchedule(LinkModel.STORE, transfers))


def rows_of(module: Module) -> list[Row]:
    assert module.schedule is not None
    step = int(Clock.of(module.network, module.demand, LinkModel.STORE).total[0, 0])
    t = module.schedule.transfers
    columns = t.start // step, t.link, t.chunk, t.reduce, t.relays, t.keeps
    return list(zip(*(column.tolist() for column in columns), strict=True))


def codes(module: Module) -> set[str]:
    return {diagnostic.code for diagnostic in verify_schedule(module).diagnostics}


def assert_right_and_proved(module: Module) -> None:
    """By the check in both of its ways, by the interpreter, and by Z3."""
    assert verify_schedule(module).ok
    assert verify_schedule(module, large=1).ok
    assert all(interpret(module).values())
    assert prove_properties(module).answer == "proved"


@pytest.mark.parametrize("npus", [3, 5, 6, 8])
def test_sums_around_a_ring_are_right_and_proved(npus: int) -> None:
    module = around(npus)
    assert_right_and_proved(module)
    assert len({row[0] for row in rows_of(module)}) == npus // 2


@pytest.mark.parametrize("npus", [3, 5, 7, 9])
def test_two_sums_at_once_around_an_odd_ring_are_right_and_proved(npus: int) -> None:
    module = in_turns(npus)
    assert_right_and_proved(module)
    assert len({row[0] for row in rows_of(module)}) == (npus + 1) // 2
    assert any(row[5] for row in rows_of(module)) == (npus > 3)


def changed(module: Module, which: Callable[[Row], bool], *columns: object) -> Module:
    """The first transfer for which `which` holds gets other values in its last columns."""
    rows = rows_of(module)
    place = next(k for k, row in enumerate(rows) if which(row))
    rows[place] = cast("Row", (*rows[place][: 6 - len(columns)], *columns))
    return with_rows(module, rows)


@pytest.mark.parametrize(
    ("which", "columns", "code"),
    [
        pytest.param(lambda row: row[5], (True, -1, False), "V0403", id="what is kept is also added"),
        pytest.param(lambda row: row[5], (False, -1, False), "V0402", id="what is kept replaces the own partial"),
        pytest.param(lambda row: row[4] >= 0, (True,), "V0302", id="what is to be added is only kept"),
        pytest.param(lambda row: row[5], (False, -1, True), "V0110", id="a copy is kept apart"),
    ],
)
def test_what_is_kept_apart_is_not_added(which: Callable[[Row], bool], columns: tuple[object, ...], code: str) -> None:
    module = changed(in_turns(5), which, *columns)
    assert code in codes(module)
    assert not all(interpret(module).values())
    assert prove_properties(module).answer != "proved"


def test_text_in_which_what_is_kept_is_added_is_found_wrong() -> None:
    text = format_module(in_turns(9))
    assert text.count("keep ") == 2
    good, wrong = (parse_module(SourceFile("m.ten", t)) for t in (text, text.replace("keep ", "reduce ")))
    assert verify_schedule(good).ok
    assert "V0403" in codes(wrong)


def test_what_is_kept_is_there_only_when_it_has_come() -> None:
    """NPU 4 sends its partial to NPU 0 in round 0, which sends it to NPU 1 in round 2."""
    module = in_turns(5)
    rows = rows_of(module)
    kept = next(k for k, row in enumerate(rows) if row[5])
    onward = next(row for row in rows if row[4] == rows[kept][1] and row[2] == rows[kept][2])
    assert onward[0] == 2
    late = with_rows(module, [*rows[:kept], (2, *rows[kept][1:]), *rows[kept + 1 :]])
    missing = with_rows(module, rows[:kept] + rows[kept + 1 :])
    for wrong in (late, missing):
        assert "V0101" in codes(wrong)
        assert not interpret(wrong)["causality"]
        assert prove_properties(wrong).outcomes["causality"] != "proved"


def test_what_an_npu_only_keeps_it_does_not_hold() -> None:
    """NPU 1 has no contribution, keeps apart that of NPU 0, and can relay it but not send it as its own."""
    demand = demand_of([(1000, [0, 2], [2], Op.SUM)])
    net = ring(3)
    link_of = {ends: link for link, ends in enumerate(zip(net.source.tolist(), net.target.tolist(), strict=True))}
    first, second = link_of[0, 1], link_of[1, 2]
    module = Module("m", net, demand)
    good = with_rows(module, [(0, first, 0, True, -1, True), (1, second, 0, True, first, False)])
    assert verify_schedule(good).ok
    assert prove_properties(good).answer == "proved"
    wrong = with_rows(module, [(0, first, 0, True, -1, True), (1, second, 0, True, -1, False)])
    assert "V0101" in codes(wrong)
    assert prove_properties(wrong).outcomes["causality"] != "proved"
    never = replace(module, demand=demand_of([(1000, [0, 2], [1], Op.SUM)]))
    kept = with_rows(never, [(0, first, 0, True, -1, True)])
    assert "V0301" in codes(kept)
    assert prove_properties(kept).outcomes["delivered"] != "proved"


def test_without_its_link_a_relayed_partial_counts_twice() -> None:
    module = around(5)
    plain = with_rows(module, [(*row[:4], -1, False) for row in rows_of(module)])
    assert "V0403" in codes(plain)


@pytest.mark.parametrize(("relayed", "code"), [(99, "V0107"), (-2, "V0107"), (0, "V0107"), (-1, "V0101")])
def test_what_is_relayed_came_to_the_sender(relayed: int, code: str) -> None:
    """Transfer 0 is over link 0, from NPU 0 to NPU 1. Link 0 does not lead to NPU 0; over one that does, nothing came
    yet."""
    module = around(4)
    rows = rows_of(module)
    assert rows[0][:3] == (0, 0, 0)
    into = next(link for link in range(8) if int(module.network.target[link]) == 0)
    rows[0] = (*rows[0][:4], into if code == "V0101" else relayed, False)
    assert code in codes(with_rows(module, rows))
    assert not interpret(with_rows(module, rows))["causality"]
    assert prove_properties(with_rows(module, rows)).outcomes["causality"] != "proved"


def test_an_incomplete_partial_is_not_final() -> None:
    module = around(5)
    rows = rows_of(module)
    rows[-1] = (*rows[-1][:3], False, *rows[-1][4:])
    assert rows[-1][4] >= 0
    assert "V0402" in codes(with_rows(module, rows))


def test_a_switch_relays_nothing_apart() -> None:
    from tests.support import switched

    net = switched(2)
    demand = demand_of([(1000, [0, 1], [1], Op.SUM)])
    module = with_rows(Module("m", net, demand), [(0, 0, 0, True, -1, False), (1, 3, 0, True, 0, False)])
    assert codes(module) >= {"V0107"}
    assert verify_schedule(with_rows(module, [(0, 0, 0, True, -1, False), (1, 3, 0, True, -1, False)])).ok
    kept = with_rows(module, [(0, 0, 0, True, -1, True), (1, 3, 0, True, -1, False)])
    assert codes(kept) >= {"V0110"}
    assert prove_properties(kept).answer != "proved"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "good", [around(4, 2), around(5, 2), around(6, 2), in_turns(5)], ids=["ring4", "ring5", "ring6", "ring5 in turns"]
)
def test_damaged_schedules_are_judged_alike_by_checks_interpreter_and_proof(good: Module) -> None:
    rng = random.Random(good.network.npu_count)
    wrong = 0
    links = good.network.link_count
    for number in range(150):
        rows = rows_of(good)
        for _ in range(rng.randint(1, 2)):
            place = rng.randrange(len(rows))
            start, link, chunk, reduce, relayed, kept = rows[place]
            rows[place] = rng.choice(
                [
                    (start, link, chunk, reduce, rng.randint(-1, links - 1), kept),
                    (start, link, chunk, reduce, -1, kept),
                    (max(0, start + rng.choice([-1, 1])), link, chunk, reduce, relayed, kept),
                    (start, rng.randrange(links), chunk, reduce, relayed, kept),
                    (start, link, 1 - chunk, reduce, relayed, kept),
                    (start, link, chunk, not reduce, relayed, kept),
                    (start, link, chunk, reduce, relayed, not kept),
                ]
            )
        module = with_rows(good, rows)
        expected = interpret(module)
        checks = verify_schedule(module).checks
        assert {name: outcome == "ok" for name, outcome in checks.items()} == expected
        assert verify_schedule(module, large=1).ok == all(expected.values())
        wrong += not all(expected.values())
        if number % 10 == 0 and expected["congestion_free"]:
            proof = prove_properties(module)
            assert (proof.answer == "proved") == all(expected.values())
    assert 50 < wrong < 450


def test_text_and_binary_form_keep_what_is_relayed(tmp_path: Path) -> None:
    module = around(6)
    text = format_module(module)
    assert "reduce 0:x[0] over npu[0] -> npu[1] from npu[5] -> npu[0]" in text
    again = parse_module(SourceFile("m.ten", text))
    assert rows_of(again) == rows_of(module)
    assert format_module(again) == text
    save_module(module, tmp_path / "m.ten")
    assert rows_of(load_module(tmp_path / "m.ten")) == rows_of(module)
    plain = with_rows(module, [row for row in rows_of(module) if row[4] < 0])
    assert plain.schedule is not None
    assert plain.schedule.transfers.relayed is None
    assert " from n" not in format_module(plain).split("schedule")[-1]


def test_text_and_binary_form_keep_what_is_kept_apart(tmp_path: Path) -> None:
    module = in_turns(7)
    text = format_module(module)
    assert "keep 0:x[1] over npu[6] -> npu[0]" in text
    again = parse_module(SourceFile("m.ten", text))
    assert rows_of(again) == rows_of(module)
    assert format_module(again) == text
    assert rows_of(parse_module(SourceFile("m.ten", " ".join(text.split())))) == rows_of(module)
    save_module(module, tmp_path / "m.ten")
    assert rows_of(load_module(tmp_path / "m.ten")) == rows_of(module)
    plain = with_rows(module, [row for row in rows_of(module) if not row[5]])
    assert plain.schedule is not None
    assert plain.schedule.transfers.kept is None
    copied = replace(module.schedule.transfers, reduce=~module.schedule.transfers.keeps)
    save_module(replace(module, schedule=RowSchedule(LinkModel.STORE, copied)), tmp_path / "bad.ten")
    with pytest.raises(SourceError, match="marks a transfer that reduce"):
        load_module(tmp_path / "bad.ten")


def test_a_step_table_keeps_nothing() -> None:
    head = format_module(around(6)).split("schedule store")[0]
    text = f"{head}schedule store steps 1 of 1us as uint16 reduce 1 {{ step 0 keep 0:x[0] over npu[0] -> npu[1] }}"
    with pytest.raises(SourceError, match="has no transfers with 'keep'"):
        parse_module(SourceFile("m.ten", text))


def test_a_step_table_relays_nothing() -> None:
    head = format_module(around(6)).split("schedule store")[0]
    transfer = "reduce 0:x[0] over npu[0] -> npu[1] from npu[5] -> npu[0]"
    text = f"{head}schedule store steps 1 of 1us as uint16 reduce 1 {{ step 0 {transfer} }}"
    with pytest.raises(SourceError, match="has no transfers with 'keep', 'from'"):
        parse_module(SourceFile("m.ten", text))
