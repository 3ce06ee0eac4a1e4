"""Three readers that share no code agree: the schedule check, the interpreter of the tests, the check of the file.

Synthesized schedules on random networks (switches, failed links, unequal links, both link models) are right for all
three. A schedule from which a transfer is taken is judged alike by the first two, and where it is wrong and no switch
is involved, its file is not written or is wrong.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from collc.diagnostics import CollcError
from collc.emit.msccl import write_xml
from collc.msccl.check import check_file
from collc.msccl.lower import lower
from collc.passes import Context, Invert, Pccl, Tacos
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification import verify_schedule
from tests import support
from tests.verification.interpreter import interpret

GiB = 2**30
KINDS = [LinkKind(500_000, Fraction(50 * GiB)), LinkKind(1_000_000, Fraction(25 * GiB))]
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


def random_network(chance: random.Random) -> Network:
    """A ring with chords, some of them one way; or NPUs on a switch with a few direct links."""
    n = chance.randrange(3, 8)
    switch = chance.random() < 0.3
    links = []
    for i in range(n):
        a, b = (i, n) if switch else (i, (i + 1) % n)
        kind = chance.choice(KINDS)
        links += [(a, b, kind), (b, a, kind)]
    for _ in range(chance.randrange(2 * n)):
        a, b = chance.sample(range(n), 2)
        links.append((a, b, chance.choice(KINDS)))
    if not switch and chance.random() < 0.5:
        del links[chance.randrange(2 * n)]  # one link of the ring has failed; the other way round still joins all
    return support.network(n, links, switches=int(switch))


def synthesized(chance: random.Random) -> Module:
    network = random_network(chance)
    everyone = network.npus.tolist()
    demand = chance.choice(MAKERS)(everyone, chance.choice([4096, support.MiB]), chance.randrange(1, 3))
    model = chance.choice(list(LinkModel))
    module = Module("m", network, demand, model, relays=True)
    way = Pccl() if network.switch_count or chance.random() < 0.5 else Tacos()
    context = Context(effort=Effort(seed=chance.randrange(1000)))
    return Invert().run(way.run(module, context), context)


def file_is_right(module: Module, folder: Path) -> bool:
    """Whether a file is written for the schedule, and stands up to its check."""
    path = folder / "f.xml"
    try:
        program = lower(module)
    except CollcError:
        return False
    with path.open("wb") as file:
        write_xml(program, file)
    root = module.demand.runs[0].standard.root
    verdict = check_file(path, root=root if root >= 0 else None)
    return set(verdict.checks.values()) == {"ok"}


def without_one(module: Module, chance: random.Random) -> Module:
    rows = module.schedule.transfers
    gone = chance.randrange(len(rows))
    kept = [k for k in range(len(rows)) if k != gone]
    left = Transfers.of(rows.chunk[kept], rows.link[kept], rows.start[kept], rows.reduce[kept])
    return replace(module, schedule=RowSchedule(module.model, left))


def agree(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    module = synthesized(chance)
    verdict = verify_schedule(module)
    assert verdict.ok, (seed, verdict.diagnostics)
    assert all(interpret(module).values()), seed
    assert file_is_right(module, folder), seed
    broken = without_one(module, chance)
    said = verify_schedule(broken).ok
    assert said == all(interpret(broken).values()), seed
    # Where a switch has nothing to pass on, the lowering may have a GPU send it again: then the file is right.
    if not said and not module.network.switch_count:
        assert not file_is_right(broken, folder), seed


@pytest.mark.parametrize("block", range(4))
def test_three_readers_agree(tmp_path: Path, block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        agree(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_three_readers_agree_on_many(tmp_path: Path, block: int) -> None:
    for seed in range(1000 + block * 200, 1200 + block * 200):
        agree(seed, tmp_path)
