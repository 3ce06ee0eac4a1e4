"""Three readers that share no code agree: the schedule check, the interpreter of the tests, the check of the file.

Synthesized schedules are right for all three: of collectives over all NPUs and of process groups, several at once and
that overlap, with chunks of several sizes, on random networks with switches, failed links and devices, unlike links,
under both link models. A schedule from which a transfer is taken is judged alike by the first two, and if it is
wrong and no switch is involved, its file is not written or is wrong.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from collc.base.diagnostics import CollcError
from collc.emit.msccl import write_xml
from collc.msccl.check import check_file, expected_of
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Profile
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification import verify_schedule
from tests import support
from tests.verification.interpreter import interpret

GiB = 2**30
KINDS = [LinkKind(500_000, Fraction(50 * GiB)), LinkKind(1_000_000, Fraction(25 * GiB))]
SIZES = [4096, 65_536, support.MiB]
FAILED = "failed"
"""The name of networks that have lost a link or an NPU."""
MAKERS = [
    support.all_gather,
    support.reduce_scatter,
    support.all_reduce,
    support.all_to_all,
    support.broadcast,
    support.reduce,
    support.scatter,
    support.gather,
]
COPIES = [support.all_gather, support.all_to_all, support.broadcast, support.scatter, support.gather]


def random_network(chance: random.Random) -> Network:
    """A ring with chords, some of them one way; or NPUs on one or two switches with a few direct links."""
    n = chance.randrange(3, 8)
    switches = chance.choice([0, 0, 1, 2])
    links = []
    for i in range(n):
        hubs = [n + k for k in range(switches)] or [(i + 1) % n]
        for b in hubs if len(hubs) < 2 or chance.random() < 0.5 else [chance.choice(hubs)]:
            kind = chance.choice(KINDS)
            links += [(i, b, kind), (b, i, kind)]
    if switches == 2:
        links += [(n, n + 1, KINDS[0]), (n + 1, n, KINDS[0])]
    for _ in range(chance.randrange(2 * n)):
        a, b = chance.sample(range(n), 2)
        links.append((a, b, chance.choice(KINDS)))
    whole = support.network(n, links, switches=switches)
    if chance.random() < 0.5:
        del links[chance.randrange(len(links))]
        broken = support.network(n, links, switches=switches, name=FAILED)
        return broken if joined(broken) else whole
    return whole


def joined(network: Network) -> bool:
    """Whether every NPU can reach every other one."""
    ends = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
    for pairs in (ends, [(b, a) for a, b in ends]):
        reached = {0}
        while more := {b for a, b in pairs if a in reached and b not in reached}:
            reached |= more
        if not set(range(network.npu_count)) <= reached:
            return False
    return True


def without_an_npu(chance: random.Random, network: Network) -> Network:
    """One NPU has failed, with all its links; the remaining NPUs get links to their neighbours in both directions."""
    lost = chance.randrange(network.npu_count)
    left = [npu for npu in range(network.npu_count) if npu != lost]
    ends = zip(network.source.tolist(), network.target.tolist(), network.kind.tolist(), strict=True)
    links = [(a, b, network.kinds[kind]) for a, b, kind in ends if lost not in (a, b)]
    links += [pair for a, b in pairwise(left) for pair in ((a, b, KINDS[0]), (b, a, KINDS[1]))]
    found = support.network(network.npu_count, links, switches=network.switch_count, name=FAILED)
    return replace(found, present=np.arange(network.device_count) != lost)


def group_demand(chance: random.Random, npus: list[int]) -> Demand:
    """One to three collectives of groups, which may overlap, with chunks of one size or of several."""
    makers = MAKERS if chance.random() < 0.6 else COPIES
    sizes = SIZES if chance.random() < 0.3 else [chance.choice(SIZES)]
    runs = []
    for _ in range(chance.randrange(1, 4)):
        group = chance.sample(npus, chance.randrange(2, len(npus) + 1))
        runs += chance.choice(makers)(group, chance.choice(sizes), chance.randrange(1, 3)).runs
    return Demand(tuple(runs))


def custom_demand(chance: random.Random, npus: list[int]) -> Demand:
    """A custom collective: a few chunks, copied or reduced, between random NPUs."""
    rows, size = [], chance.choice(SIZES)
    for _ in range(chance.randrange(1, 7)):
        op = chance.choice([Op.COPY, Op.SUM])
        pre = chance.sample(npus, 1 if op == Op.COPY else chance.randrange(1, len(npus) + 1))
        rows.append((size, pre, chance.sample(npus, chance.randrange(1, len(npus) + 1)), op))
    return support.demand_of(rows, None, npus)


def synthesized(chance: random.Random, kind: str) -> Module:
    network = random_network(chance)
    if chance.random() < 0.15:
        network = without_an_npu(chance, network)
    npus = network.npus.tolist()
    if kind == "collective":
        demand = chance.choice(MAKERS)(npus, chance.choice(SIZES), chance.randrange(1, 3))
    else:
        demand = group_demand(chance, npus) if kind == "groups" else custom_demand(chance, npus)
    model = chance.choice(list(LinkModel))
    module = Module("m", network, demand, model, relays=True)
    synthesizer = Synthesize("pccl") if network.switch_count or chance.random() < 0.5 else Synthesize("tacos")
    context = PassContext(effort=Effort(seed=chance.randrange(1000)))
    return Invert().run(synthesizer.run(module, context), context)


def read_as_file(module: Module, kind: str, folder: Path) -> str:
    """ "right" or "wrong", by the check of the file; or the code of the error if no file can be written."""
    path = folder / "f.xml"
    profile = Profile.EXECUTOR if kind == "collective" else Profile.OLD
    try:
        program = lower(module, MscclOptions(profile=profile))
    except CollcError as error:
        return error.diagnostics[0].code
    with path.open("wb") as file:
        write_xml(program, file)
    if program.collective.kind == "custom":
        expected = expected_of(module.network, module.demand)
        verdict = check_file(path, collective="custom", profile=profile.value, expected=expected)
    else:
        standard = module.demand.runs[0].standard
        root = standard.root if standard.root >= 0 else None
        verdict = check_file(path, collective=standard.kind, root=root, profile=profile.value)
    return "right" if set(verdict.checks.values()) == {"ok"} else "wrong"


def without_one(module: Module, chance: random.Random) -> Module:
    rows = module.schedule.transfers
    gone = chance.randrange(len(rows))
    kept = [k for k in range(len(rows)) if k != gone]
    left = Transfers.of(rows.chunk[kept], rows.link[kept], rows.start[kept], rows.reduce[kept])
    return replace(module, schedule=RowSchedule(module.model, left))


def assert_readers_agree(seed: int, kind: str, folder: Path) -> set[str]:
    """Check a schedule and a broken one with the three readers; return the features of the schedule."""
    chance = random.Random(f"{kind} {seed}")
    module = synthesized(chance, kind)
    verdict = verify_schedule(module)
    assert verdict.ok, (seed, verdict.diagnostics)
    assert verify_schedule(module, large=0).ok, (seed, "compiled")
    assert all(interpret(module).values()), seed
    read = read_as_file(module, kind, folder)
    assert read == "right", (seed, read)
    network, op = module.network, module.demand.chunks.op
    mixed = len(np.unique(module.demand.chunks.size)) > 1
    there = {"mixed" if mixed else "equal", kind, module.model.value} | (
        {"runs"} if len(module.demand.runs) > 1 else set()
    )
    there |= {"switch"} if network.switch_count else set()
    there |= {"sum"} if (op != Op.COPY).any() else set()
    there |= {network.name}
    if len(module.schedule):
        broken = without_one(module, chance)
        said = verify_schedule(broken).ok
        assert said == all(interpret(broken).values()), seed
        # If a switch has nothing to pass on, the lowering may have a GPU send it again: then the file is right.
        if not said and not network.switch_count:
            assert read_as_file(broken, kind, folder) != "right", seed
    return there


def campaign(kind: str, seeds: range, folder: Path) -> Counter[frozenset[str]]:
    return Counter(frozenset(assert_readers_agree(seed, kind, folder)) for seed in seeds)


KIND = ["collective", "groups", "custom"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize("block", range(4))
def test_three_readers_agree(tmp_path: Path, kind: str, block: int) -> None:
    campaign(kind, range(5 * block, 5 * block + 5), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KIND)
def test_three_readers_agree_on_many(tmp_path: Path, kind: str) -> None:
    seen = campaign(kind, range(1000, 1450), tmp_path)
    together = {"switch", "sum", FAILED}
    for model in ("store", "pipelined"):
        assert sum(count for there, count in seen.items() if {*together, model} <= there) > 5
    if kind == "groups":
        assert sum(count for there, count in seen.items() if {*together, "runs"} <= there) > 5
        assert sum(count for there, count in seen.items() if "mixed" in there) > 50
