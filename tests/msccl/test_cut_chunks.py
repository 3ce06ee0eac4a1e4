"""Files of chunks that are cut into many slots: messages have several slots from the start."""

import random

import pytest

from collc.base.diagnostics import CheckFailed
from collc.msccl import slots
from collc.msccl.check import check_file, expected_of
from collc.msccl.lowering import lower as lowering
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.quality import quality
from collc.msccl.lowering.select import first_program
from collc.msccl.options import MscclOptions, Profile
from collc.ten.demand import Op
from collc.ten.module import Module
from tests import support
from tests.cpu_time import at_most
from tests.msccl.lowering import STEP, random_network, scheduled, xml_of

OLD = MscclOptions(profile=Profile.OLD)


def exchange(npus: int, *sizes: int) -> Module:
    """A ring of NPUs that all have a chunk of each size, and want all of them."""
    members = list(range(npus))
    copies = [(size, [npu], members, Op.COPY) for npu in members for size in sizes]
    return scheduled(support.ring(npus), support.demand_of(copies, None, members))


def random_module(seed: int) -> Module:
    draw = random.Random(seed)
    network = random_network(seed)
    npus = range(network.npu_count)
    rows: list[tuple[int, list[int], list[int], Op]] = []
    for _ in range(draw.randint(2, 5)):
        op = draw.choice((Op.COPY, Op.SUM))
        sources = draw.sample(npus, draw.randint(2, len(npus)) if op is Op.SUM else 1)
        targets = draw.sample(npus, draw.randint(1, len(npus)))
        rows.append((STEP * draw.choice((1, 3, 36, 71, 72, 150)), sorted(sources), sorted(targets), op))
    return scheduled(network, support.demand_of(rows, None, list(npus)))


def assert_checked(module: Module, options: MscclOptions, tmp_path) -> None:
    program = lower(module, options)
    path = tmp_path / "f.xml"
    path.write_bytes(xml_of(program))
    verdict = check_file(path, profile="old", expected=expected_of(module.network, module.demand, options.instances))
    assert "failed" not in verdict.checks.values(), verdict.checks


@pytest.mark.sampled(5)
@pytest.mark.parametrize("most", [0, 40])
@pytest.mark.parametrize("seed", range(12))
def test_files_of_several_slots_a_message_are_right(seed, most, monkeypatch, tmp_path):
    monkeypatch.setattr(slots, "_MOST_MESSAGES", most)
    module = random_module(seed)
    assert_checked(module, OLD, tmp_path)
    assert_checked(module, MscclOptions(profile=Profile.OLD, instances=2), tmp_path)


def test_several_slots_of_a_message_fill_steps_as_single_ones_do(monkeypatch):
    module = exchange(4, 1_000_000, 640_000, 10_000)
    single = quality(lower(module, OLD), module)
    monkeypatch.setattr(slots, "_MOST_MESSAGES", 0)
    assert quality(lower(module, OLD), module).replay <= single.replay * 1.01


@pytest.mark.slow
def test_the_time_for_many_slots_is_bounded():
    """112,000 messages of one slot take 10 seconds."""
    npus = list(range(8))
    rows = [(kilobytes * 1000, [npu], npus, Op.COPY) for npu in npus for kilobytes in (1000, 999)]
    module = scheduled(support.fully_connected(8), support.demand_of(rows, None, npus))
    assert len(first_program(module, OLD, several_slots=True).messages) <= 20_000
    with at_most(4):
        assert len(lower(module, OLD).messages) == 8 * 7 * 29  # of at most 71 slots


def test_where_several_slots_block_single_ones_are_tried(monkeypatch):
    monkeypatch.setattr(slots, "_MOST_MESSAGES", 0)
    tried: list[int] = []
    lowered = lowering._lower

    def blocked(runner):
        tried.append(max(message.count for message in runner.start.messages))
        if tried[-1] > 1:
            raise CheckFailed(lowering._deadlocks().diagnostics[0])
        return lowered(runner)

    monkeypatch.setattr(lowering, "_lower", blocked)
    assert lower(exchange(3, 2_000, 1_000), OLD).chunk_bytes == 1_000
    assert tried == [2, 1]
