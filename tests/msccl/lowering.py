"""Scheduled modules for tests of the lowering, and the judge of what it writes."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from collc.emit.msccl import write_xml
from collc.msccl.check import Summary, check_file
from collc.msccl.check.findings import Verdict
from collc.msccl.program import Program, Step
from collc.synthesis.in_network import in_network
from collc.synthesis.pccl import pccl
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from tests import support

STEP = 20_031_250
"""Picoseconds of 1 MiB over a default link."""

COLLECTIVES = [
    support.all_gather,
    support.reduce_scatter,
    support.all_reduce,
    support.all_to_all,
    support.broadcast,
    support.reduce,
    support.gather,
    support.scatter,
]


def scheduled(network: Network, demand: Demand, model: LinkModel = LinkModel.STORE) -> Module:
    module = Module(network.name, network, demand, model)
    return join(solve(module, lambda task: tacos(task, Effort())))


FAST, SLOW = LinkKind(350_000, Fraction(450 * 10**9)), LinkKind(700_000, Fraction(50 * 10**9))


def linked_nodes(count=2, size=3):
    """Nodes that are fully connected inside; GPU k of a node is linked to GPU k of all others."""
    pairs = [(a, b) for a in range(count * size) for b in range(count * size) if a != b]
    links = [(a, b, FAST) for a, b in pairs if a // size == b // size]
    links += [(a, b, SLOW) for a, b in pairs if a // size != b // size and a % size == b % size]
    return support.network(count * size, links)


def switch_nodes(count: int, size: int) -> Network:
    """Nodes with a switch each that adds and multicasts; GPU k of all nodes is linked to switch k between them."""
    fast, slow = (LinkKind(350_000, Fraction(rate * 10**9)) for rate in (450, 50))
    npus, links = count * size, []
    for gpu in range(npus):
        hub, leaf = npus + gpu // size, npus + count + gpu % size
        links += [(gpu, hub, fast), (hub, gpu, fast)]
        links += [(gpu, leaf, slow), (leaf, gpu, slow)] if count > 1 else []
    switches = count + (size if count > 1 else 0)
    able = np.arange(switches) < count
    return replace(support.network(npus, links, switches=switches), multicast=able, reduces=able)


def in_switch(demand: Demand, count: int = 1) -> Module:
    """A schedule of a demand over nodes with switches that add (All-Reduce) or multicast."""
    npus = len(demand.runs[0].group)
    module = Module("in switch", switch_nodes(count, npus // count), demand)
    standard = demand.runs[0].standard
    if standard is None or standard.kind in ("all_gather", "broadcast"):
        return join(solve(module, lambda task: pccl(task, Effort())))
    return in_network(module, Effort(), lambda inner: join(solve(inner, lambda task: pccl(task, Effort()))))


def by_hand(network: Network, demand: Demand, rows: list[tuple[int, int, int, int]], reduce: bool = False) -> Module:
    """Rows are (chunk, source, target, start in steps); the first link that joins the two is taken."""
    links = {}
    for link in reversed(range(network.link_count)):
        links[int(network.source[link]), int(network.target[link])] = link
    columns = [
        np.array([r[0] for r in rows], np.int32),
        np.array([links[r[1], r[2]] for r in rows], np.int32),
        np.array([r[3] * STEP for r in rows], np.int64),
    ]
    schedule = RowSchedule(LinkModel.STORE, Transfers.of(*columns, reduce))
    return Module("hand", network, demand).with_schedule(schedule, "by hand")


def ring_all_reduce(n: int) -> Module:
    """The textbook's: chunk c starts at c + 1, is summed up round the ring, and the sum goes round again."""
    network, demand = support.ring(n, one_way=True), support.all_reduce(list(range(n)))
    rows = [(c, (c + 1 + s) % n, (c + 2 + s) % n, s) for c in range(n) for s in range(2 * n - 2)]
    module = by_hand(network, demand, rows)
    rows_ = module.schedule.transfers
    reduce = rows_.start < (n - 1) * STEP
    summed = Transfers(rows_.chunk, rows_.link, rows_.start, reduce)
    return module.with_schedule(RowSchedule(LinkModel.STORE, summed), "ring")


def direct_all_to_all(n: int, chunks: int = 1) -> Module:
    demand = support.all_to_all(list(range(n)), chunks=chunks)
    rows = [((a * n + b) * chunks + c, a, b, c) for a in range(n) for b in range(n) if a != b for c in range(chunks)]
    return by_hand(support.fully_connected(n), demand, rows)


def xml_of(program: Program) -> bytes:
    out = io.BytesIO()
    write_xml(program, out)
    return out.getvalue()


def judged(program: Program, folder: Path, root: int | None = None) -> Verdict[Summary]:
    path = folder / "program.xml"
    path.write_bytes(xml_of(program))
    return check_file(path, root=root, profile=program.profile.value)


def assert_right(program: Program, folder: Path) -> None:
    verdict = judged(program, folder)
    assert verdict.checks == {"contract": "ok", "result": "ok", "deadlock": "ok", "race": "ok"}, [
        d.message for d in verdict.diagnostics
    ]


def steps_of(program: Program) -> list[Step]:
    return [step for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps]


def random_network(seed: int) -> Network:
    """Strongly connected, 2 to 6 NPUs, one to three kinds of links, parallel ones too."""
    draw = random.Random(seed)
    kinds = [
        LinkKind(draw.choice([0, 100_000, 500_000]), Fraction(draw.choice([5, 10, 50]) * 2**30))
        for _ in range(draw.randint(1, 3))
    ]
    npus = draw.randint(2, 6)
    order = draw.sample(range(npus), npus)
    links = [(a, b, draw.choice(kinds)) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    for _ in range(draw.randint(0, 2 * npus)):
        a, b = draw.sample(range(npus), 2)
        links.append((a, b, draw.choice(kinds)))
    return support.network(npus, links, name=f"random{seed}")
