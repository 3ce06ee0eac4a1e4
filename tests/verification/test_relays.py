"""Transfers that relay a partial which their sender keeps apart: checks, proof, text and binary form."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from collc.base.diagnostics import SourceError, SourceFile
from collc.synthesis.exchange.line_rounds import neighbour_exchange, running_messages
from collc.ten.binary import load_module, save_module
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Transfers
from collc.ten.text import format_module, parse_module
from collc.verification.prove import prove_properties
from collc.verification.schedule_check import verify_schedule
from tests.support import demand_of, ring
from tests.verification.interpreter import interpret

Row = tuple[int, int, int, bool, int]
"""start (in steps), link, chunk, reduce, relayed"""


def around(npus: int, chunks: int = 1) -> Module:
    """A ring on which sums are formed by messages that NPUs keep apart and relay, one chunk after the other."""
    net = ring(npus)
    members = list(range(npus))
    link_of = {ends: link for link, ends in enumerate(zip(net.source.tolist(), net.target.tolist(), strict=True))}
    rounds = list(neighbour_exchange(members) if npus % 2 == 0 else running_messages(members, closed=True))
    rows: list[Row] = []
    for chunk in range(chunks):
        for number, messages in enumerate(rounds):
            for source, target, came_from in messages:
                relayed = link_of[came_from, source] if came_from >= 0 else -1
                rows.append((chunk * len(rounds) + number, link_of[source, target], chunk, True, relayed))
    demand = demand_of([(1000, members, members, Op.SUM)] * chunks)
    return with_rows(Module("m", net, demand), rows)


def with_rows(module: Module, rows: list[Row]) -> Module:
    step = int(Clock.of(module.network, module.demand, LinkModel.STORE).total[0, 0])
    columns = np.array(rows, np.int64).reshape(-1, 5)
    chunk, link, relayed = (columns[:, k].astype(np.int32) for k in (2, 1, 4))
    transfers = Transfers.of(chunk, link, columns[:, 0] * step, columns[:, 3].astype(np.bool_), relayed)
    return replace(module, schedule=RowSchedule(LinkModel.STORE, transfers))


def rows_of(module: Module) -> list[Row]:
    assert module.schedule is not None
    step = int(Clock.of(module.network, module.demand, LinkModel.STORE).total[0, 0])
    t = module.schedule.transfers
    columns = (t.start // step).tolist(), t.link.tolist(), t.chunk.tolist(), t.reduce.tolist(), t.relays.tolist()
    return list(zip(*columns, strict=True))


def codes(module: Module) -> set[str]:
    return {diagnostic.code for diagnostic in verify_schedule(module).diagnostics}


@pytest.mark.parametrize("npus", [3, 5, 6, 8])
def test_sums_around_a_ring_are_right_and_proved(npus: int) -> None:
    module = around(npus)
    assert verify_schedule(module).ok
    assert verify_schedule(module, large=1).ok
    assert all(interpret(module).values())
    assert prove_properties(module).answer == "proved"
    assert len({row[0] for row in rows_of(module)}) == npus // 2


def test_without_its_link_a_relayed_partial_counts_twice() -> None:
    module = around(5)
    plain = with_rows(module, [(*row[:4], -1) for row in rows_of(module)])
    assert "V0403" in codes(plain)


@pytest.mark.parametrize(("relayed", "code"), [(99, "V0107"), (-2, "V0107"), (0, "V0107"), (-1, "V0101")])
def test_what_is_relayed_came_to_the_sender(relayed: int, code: str) -> None:
    """Transfer 0 is over link 0, from NPU 0 to NPU 1. Link 0 does not lead to NPU 0; over one that does, nothing came
    yet."""
    module = around(4)
    rows = rows_of(module)
    assert rows[0][:3] == (0, 0, 0)
    into = next(link for link in range(8) if int(module.network.target[link]) == 0)
    rows[0] = (*rows[0][:4], into if code == "V0101" else relayed)
    assert code in codes(with_rows(module, rows))
    assert not interpret(with_rows(module, rows))["causality"]
    assert prove_properties(with_rows(module, rows)).outcomes["causality"] != "proved"


def test_an_incomplete_partial_is_not_final() -> None:
    module = around(5)
    rows = rows_of(module)
    rows[-1] = (*rows[-1][:3], False, rows[-1][4])
    assert rows[-1][4] >= 0
    assert "V0402" in codes(with_rows(module, rows))


def test_a_switch_relays_nothing_apart() -> None:
    from tests.support import switched

    net = switched(2)
    demand = demand_of([(1000, [0, 1], [1], Op.SUM)])
    module = with_rows(Module("m", net, demand), [(0, 0, 0, True, -1), (1, 3, 0, True, 0)])
    assert codes(module) >= {"V0107"}
    assert verify_schedule(with_rows(module, [(0, 0, 0, True, -1), (1, 3, 0, True, -1)])).ok


@pytest.mark.parametrize("npus", [4, 5, 6])
def test_damaged_schedules_are_judged_alike_by_checks_interpreter_and_proof(npus: int) -> None:
    rng = random.Random(npus)
    good, wrong = around(npus, chunks=2), 0
    links = good.network.link_count
    for number in range(150):
        rows = rows_of(good)
        for _ in range(rng.randint(1, 2)):
            place = rng.randrange(len(rows))
            start, link, chunk, reduce, relayed = rows[place]
            rows[place] = rng.choice(
                [
                    (start, link, chunk, reduce, rng.randint(-1, links - 1)),
                    (start, link, chunk, reduce, -1),
                    (max(0, start + rng.choice([-1, 1])), link, chunk, reduce, relayed),
                    (start, rng.randrange(links), chunk, reduce, relayed),
                    (start, link, 1 - chunk, reduce, relayed),
                    (start, link, chunk, not reduce, relayed),
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


def test_a_step_table_relays_nothing() -> None:
    head = format_module(around(6)).split("schedule store")[0]
    transfer = "reduce 0:x[0] over npu[0] -> npu[1] from npu[5] -> npu[0]"
    text = f"{head}schedule store steps 1 of 1us as uint16 reduce 1 {{ step 0 {transfer} }}"
    with pytest.raises(SourceError, match="has no transfers with 'from'"):
        parse_module(SourceFile("m.ten", text))
