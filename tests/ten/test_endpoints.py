"""Limits of NPUs in the text and binary forms, in products and derived topologies."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from collc.base.diagnostics import SourceError, SourceFile
from collc.source.elaboration.elaborate import load_program
from collc.source.standard_algorithms import StandardAlgorithms
from collc.synthesis.fixed.queued import lay_out_queued
from collc.ten import transform
from collc.ten.binary import load_module, save_module
from collc.ten.demand import Op, Standard
from collc.ten.endpoint import Endpoint
from collc.ten.limited import Ports, fed_links, shared_links, with_endpoints, without_limits
from collc.ten.module import Module
from collc.ten.network import LinkKind
from collc.ten.schedule import Clock, LinkModel, RowSchedule
from collc.ten.text.read import parse_module
from collc.ten.text.write import format_module
from collc.verification import verify_schedule
from tests.endpoints import random_limited_network
from tests.support import MiB, all_gather, grid, network, ring

GB = 10**9
LINK = LinkKind(500_000, Fraction(25 * GB))


def module_on(net) -> Module:
    return Module("m", net, all_gather(list(range(net.npu_count)), MiB))


@pytest.mark.parametrize("seed", range(30))
def test_both_forms_keep_the_limits(seed: int, tmp_path: Path) -> None:
    module = module_on(random_limited_network(seed, seed % 3))
    text = format_module(module)
    again = parse_module(SourceFile("m.ten", text))
    assert format_module(again) == text
    ends = [
        (one.endpoint_of(k).send, one.endpoint_of(k).receive)
        for one in (module.network, again.network)
        for k in range(one.npu_count)
    ]
    assert ends[: len(ends) // 2] == ends[len(ends) // 2 :]
    save_module(module, tmp_path / "m.ten")
    assert format_module(load_module(tmp_path / "m.ten")) == text


def test_both_forms_keep_when_messages_were_injected(tmp_path: Path) -> None:
    """Messages of a direct All-Gather leave their NPU, and then wait for links."""
    net = fed_links(with_endpoints(grid(2, 3, kind=LINK), [Endpoint(inject=Fraction(30 * GB))] * 6))
    plain = module_on(net)
    standard = Standard("all_gather", 6 * MiB, 1, -1, Op.COPY)
    rows = lay_out_queued(
        net, plain.demand, {0: (StandardAlgorithms.sends(standard, 6, "direct"), None)}, LinkModel.STORE
    )
    assert rows.messages is not None
    assert (rows.messages.injected < rows.start).any()
    module = replace(plain, schedule=RowSchedule(LinkModel.STORE, rows))
    text = format_module(module)
    assert " injected " in text
    save_module(module, tmp_path / "m.ten")
    for again in (parse_module(SourceFile("m.ten", text)), load_module(tmp_path / "m.ten")):
        assert format_module(again) == text
        assert verify_schedule(again).ok


def test_both_forms_keep_when_messages_were_received(tmp_path: Path) -> None:
    """Messages of a direct All-Gather wait behind links; `received` counts in the time, the checks and the arrivals."""
    net = fed_links(with_endpoints(grid(2, 3, kind=LINK), [Endpoint(eject=Fraction(30 * GB))] * 6))
    plain = module_on(net)
    sends = StandardAlgorithms.sends(Standard("all_gather", 6 * MiB, 1, -1, Op.COPY), 6, "direct")
    rows = lay_out_queued(net, plain.demand, {0: (sends, None)}, LinkModel.STORE)
    assert rows.messages is not None
    assert rows.messages.received is not None
    clock = Clock.of(net, plain.demand, LinkModel.STORE)
    ends = rows.start + clock.total_of(rows)
    waited = rows.messages.received >= 0
    assert waited.any()
    assert (ends[waited] == rows.messages.received[waited]).all()
    assert (ends[waited] > (rows.start + clock.busy_of(rows))[waited]).all()
    module = replace(plain, schedule=RowSchedule(LinkModel.STORE, rows))
    text = format_module(module)
    assert text.count(" received ") == waited.sum()
    save_module(module, tmp_path / "m.ten")
    for again in (parse_module(SourceFile("m.ten", text)), load_module(tmp_path / "m.ten")):
        assert format_module(again) == text
        assert verify_schedule(again).ok
    none = replace(rows.messages, received=None)
    early = replace(plain, schedule=RowSchedule(LinkModel.STORE, replace(rows, messages=none)))
    assert verify_schedule(early).checks["endpoints"] == "failed"


def test_a_link_is_read_no_faster_than_its_ends() -> None:
    net = with_endpoints(ring(3, LINK), [Endpoint(inject=Fraction(10 * GB)), Endpoint(), Endpoint()])
    found = parse_module(SourceFile("m.ten", format_module(module_on(net)))).network
    rates = {
        (int(s), int(t)): found.kinds[int(k)].bandwidth
        for s, t, k in zip(found.source, found.target, found.kind, strict=True)
    }
    assert rates[0, 1] == rates[0, 2] == 10 * GB
    assert rates[1, 0] == rates[1, 2] == 25 * GB


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("limits {0} inject 0GB/s", "T0104", "a rate must be more than 0"),
        ("limits {0} memory 5GB/s endpoint half", "T0102", "expected baseline or offload"),
        ("limits {0} memory 5GB/s endpoint offload traffic 0 for 9", "T0104", "0 is out of range"),
        ("limits {0} memory 5GB/s endpoint offload traffic 4 of 9", "T0102", "expected 'for'"),
        ("limits {7} inject 5GB/s", "T0104", "NPU 7 is out of range"),
        ("limits {0} inject 5GB", "T0105", "expected a quantity of rate"),
        ("limits {0..2}", "T0107", "limits with no rate"),
        ("limits {} inject 5GB/s", "T0107", "limits with no NPU"),
    ],
)
def test_bad_limits(line: str, code: str, message: str) -> None:
    text = format_module(module_on(ring(3, LINK))).replace("    kind 0", f"    {line}\n    kind 0", 1)
    with pytest.raises(SourceError) as caught:
        parse_module(SourceFile("m.ten", text))
    assert caught.value.diagnostics[0].code == code
    assert message in caught.value.diagnostics[0].message


def test_networks_without_limits_have_the_same_text() -> None:
    assert "limits" not in format_module(module_on(ring(3, LINK)))


def test_limits_of_both_factors_hold() -> None:
    a = with_endpoints(ring(3, LINK), [Endpoint(inject=Fraction(10 * GB))] * 3)
    memory = Endpoint(inject=Fraction(20 * GB), memory=Fraction(9 * GB), mode="offload")
    b = with_endpoints(ring(2, LINK), [memory, Endpoint()])
    found = transform.product(a, b, "p", ("ring", "ring"))
    assert [found.endpoint_of(k) for k in range(6)] == [
        *[Endpoint(Fraction(10 * GB), memory=Fraction(9 * GB), mode="offload")] * 3,
        *[Endpoint(Fraction(10 * GB))] * 3,
    ]


def test_memory_feeds_more_with_an_engine() -> None:
    assert Endpoint(memory=Fraction(150)).send == 100
    assert Endpoint(memory=Fraction(150), mode="offload").send == 300
    assert Endpoint(memory=Fraction(150), mode="offload", traffic=Fraction(3)).send == 50
    tight = Endpoint(memory=Fraction(150), mode="offload").tighter(Endpoint(memory=Fraction(300)))
    assert (tight.send, tight.mode) == (200, "baseline")


def test_shared_links_share_the_rate() -> None:
    net = fed_links(with_endpoints(grid(4, 4, kind=LINK, wrap=True), [Endpoint(inject=Fraction(40 * GB))] * 16))
    shared = shared_links(net)
    assert {kind.bandwidth for kind in shared.kinds} == {Fraction(10 * GB)}
    assert not shared.has_endpoints
    assert without_limits(net).kinds == net.kinds


def test_a_rate_above_that_of_all_links_is_no_port() -> None:
    net = grid(4, 4, kind=LINK, wrap=True)
    assert len(Ports.of(with_endpoints(net, [Endpoint(inject=Fraction(100 * GB))] * 16))) == 0
    assert len(Ports.of(with_endpoints(net, [Endpoint(inject=Fraction(99 * GB))] * 16))) == 16


def elaborated(tmp_path: Path, topology: str):
    path = tmp_path / "p.coll"
    path.write_text(
        "import std.topologies import std.collectives "
        f"topology t = {topology} schedule s on t {{ run all_gather(t.npus, size: 240B) }}"
    )
    return load_program(path).schedules[0].network


RING = "ring(4, bandwidth: 25GB/s, latency: 1us)"


@pytest.mark.parametrize(
    ("topology", "send", "receive"),
    [
        (f"limited({RING}, inject: 20GB/s)", 20, None),
        (f"limited(limited({RING}, inject: 20GB/s, eject: 9GB/s), inject: 30GB/s, memory: 30GB/s)", 20, 9),
        (f'limited({RING}, memory: 9GB/s, endpoint: "offload")', 27, None),
        (f'limited(limited({RING}, memory: 9GB/s, endpoint: "offload"), memory: 6GB/s)', 18, None),
        (f'limited(limited({RING}, memory: 9GB/s, endpoint: "offload"), memory: 6GB/s, endpoint: "baseline")', 6, None),
        (f"limited({RING}, inject: 20GB/s) * {RING}", 20, None),
        (f"reversed(limited({RING}, eject: 20GB/s))", None, 20),
        (f"limited({RING}, inject: 20GB/s) without {{ npu 1 }}", 20, None),
        ("unwound(limited(switched(4, bandwidth: 25GB/s, latency: 1us), inject: 20GB/s))", 20, None),
    ],
)
def test_derived_topologies_keep_the_limits(
    tmp_path: Path, topology: str, send: int | None, receive: int | None
) -> None:
    net = elaborated(tmp_path, topology)
    for npu in range(net.npu_count):
        found = net.endpoint_of(npu)
        assert (found.send, found.receive) == tuple(None if one is None else one * GB for one in (send, receive))
    least = min(one for one in (send, receive, 25) if one is not None)
    assert {kind.bandwidth for kind in net.kinds} == {Fraction(least * GB)}


def test_switches_have_no_limits() -> None:
    net = with_endpoints(network(2, [(0, 2, LINK), (2, 1, LINK)], switches=1), [Endpoint(inject=Fraction(GB))] * 2)
    assert net.endpoint_of(2) == Endpoint()
