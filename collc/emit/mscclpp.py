"""MSCCL++ execution plans in JSON (docs/msccl-contract.md, section 6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO, Final

from collc.msccl.options import MscclOptions
from collc.msccl.plans.operations import Json
from collc.msccl.plans.plan import plans_of, remarks_of
from collc.ten.module import Module

MOST_MESSAGES: Final = 20_000
"""Messages of a schedule up to which its plans are simulated."""


def write_plan(module: Module, options: MscclOptions, out: BinaryIO) -> tuple[bool, list[str]]:
    """Write the plan of a module's schedule, one operation per line.

    Returns whether the collective of the plan is `custom`, and remarks for the report. Raises SourceError as `plan_of`
    does.
    """
    plan = fastest_plan(module, options)
    out.writelines(line.encode("ascii") for line in plan_lines(plan))
    return plan["collective"] == "custom", remarks_of(plan, options, module.network)


def fastest_plan(module: Module, options: MscclOptions) -> Json:
    """The plan that takes least time for the buffer of the module, of equally fast ones the first.

    Raises SourceError as `plan_of` does.
    """
    found = plans_of(module, options)
    first = next(found)
    if module.schedule is None or len(module.schedule) > MOST_MESSAGES:
        return first
    rest = list(found)
    if not rest:
        return first
    from collc.msccl.simulating.plan_times import plan_time

    return min([first, *rest], key=lambda plan: plan_time(plan, module, options.instances))


def plan_lines(plan: Json) -> Iterator[str]:
    """The lines of the file, including line ends."""
    yield "{\n"
    yield from (f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in plan.items() if name != "gpus")
    yield ' "gpus": [\n'
    for number, gpu in enumerate(plan["gpus"]):
        yield from _gpu(gpu)
        yield "  },\n" if number + 1 < len(plan["gpus"]) else "  }\n"
    yield " ]\n}\n"


def _gpu(gpu: Json) -> Iterator[str]:
    yield "  {\n"
    for name, value in gpu.items():
        if name != "threadblocks":
            yield f"   {json.dumps(name)}: {json.dumps(value)},\n"
    yield '   "threadblocks": [\n'
    for number, tb in enumerate(gpu["threadblocks"]):
        rest = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in tb.items() if name != "ops")
        yield f'    {{{rest}, "ops": [\n'
        yield from _separated([json.dumps(op) for op in tb["ops"]])
        yield "    ]}\n" if number + 1 == len(gpu["threadblocks"]) else "    ]},\n"
    yield "   ]\n"


def _separated(texts: list[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"     {text},\n" if number + 1 < len(texts) else f"     {text}\n"
