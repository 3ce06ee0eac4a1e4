"""What happens to a file or a plan in many orders of events, at many sizes: right in all, or how it fails in one."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.emulation.clocks import FileClocks
from tests.emulation.file_machine import PARTS, FileRun, Outcome, chunk_sizes, message_bytes
from tests.emulation.orders import ORDERS, Fair, Order
from tests.emulation.plan_machine import PlanRun
from tests.emulation.plan_program import load as load_plan
from tests.emulation.values import Call, Refused
from tests.emulation.xml_files import File, load

RUNS = ("right", "input")
"""Outcomes after which other orders may still show a worse one."""
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def judge_file(
    text: bytes | str, *, profile: str = "executor", root: int = -1, runs: int = 8, seed: int = 0, coll: str = ""
) -> Outcome:
    """runs: orders with data, besides one run with clocks in each placement. Refused counts as an outcome."""
    worst = Outcome("right")
    try:
        file = load(text)
        sizes = chunk_sizes(file, profile)
        if not sizes:
            return Outcome("refused", "no size fits the file")
        for inplace in _placements(file, profile):
            named = coll or file.coll
            call = Call(named, inplace, root if named in ROOTED else -1, file.coll == "custom")
            for found in _file_runs(file, call, profile, sizes, runs, seed):
                if found.kind not in RUNS:
                    return found
                worst = max(worst, found, key=lambda one: RUNS.index(one.kind))
    except Refused as error:
        return Outcome("refused", str(error))
    return worst


def _placements(file: File, profile: str) -> list[bool]:
    return [True in file.placements] if profile == "old" else file.placements


def _file_runs(file: File, call: Call, profile: str, sizes: list[int], runs: int, seed: int) -> Iterator[Outcome]:
    """First a run with clocks, of as many messages as possible; then hostile orders with data, at all sizes."""
    most = message_bytes(file, profile)
    finest = max((size for size in sizes if size <= most), default=sizes[0])
    checked = FileRun(file, call, finest, Fair(seed), profile)
    checked.clocks = FileClocks(len(checked.blocks), PARTS)
    yield checked.run()
    draw = random.Random(seed + call.inplace)
    for number in range(runs):
        size = sizes[number % len(sizes)]
        order, victim = _order(draw, number, [len(gpu) for gpu in file.blocks])
        run = FileRun(file, call, size, order, profile)
        if number % 2 and victim is not None:
            steps = run.blocks[victim].steps
            run.held = (victim, draw.choice(steps).number) if steps else None
        yield run.run()


def _order(draw: random.Random, number: int, blocks: list[int]) -> tuple[Order, int | None]:
    """An order of each kind in turn; some threadblocks, or a whole gpu, wait for all others. And one to be held."""
    total = sum(blocks)
    slow: set[int] = set()
    if number % 3 == 1 and total:
        slow = set(draw.sample(range(total), 1 + draw.randrange(min(3, total))))
    elif number % 3 == 2:
        gpu = draw.randrange(len(blocks))
        slow = set(range(sum(blocks[:gpu]), sum(blocks[: gpu + 1])))
    kind = ORDERS[number % len(ORDERS)]
    return kind(draw.getrandbits(32), slow), draw.randrange(total) if total else None


def judge_plan(text: bytes | str, *, root: int = -1, runs: int = 8, seed: int = 0, coll: str = "") -> Outcome:
    """runs: orders with data, besides one run with clocks; every run is two launches."""
    try:
        plan = load_plan(text)
        named = coll or plan.coll
        call = Call(named, plan.inplace, root if named in ROOTED else -1, plan.coll == "custom")
        found = PlanRun(plan, call, Fair(seed)).with_clocks().run()
        draw = random.Random(seed)
        blocks = [len(gpu["threadblocks"]) for gpu in plan.gpus]
        for number in range(runs if found.kind in RUNS else 0):
            order, victim = _order(draw, number, blocks)
            run = PlanRun(plan, call, order, eager=("any", "moves", "entries")[number % 3])
            run.held = (victim, 0) if number % 2 and victim is not None else None
            found = max(found, run.run(), key=lambda one: RUNS.index(one.kind) if one.kind in RUNS else len(RUNS))
            if found.kind not in RUNS:
                return found
    except Refused as error:
        return Outcome("refused", str(error))
    return found
