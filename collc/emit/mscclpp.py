"""MSCCL++ execution plans in JSON (docs/msccl-contract.md, section 6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

from collc.msccl.plans.operations import Json


def write_plan(plan: Json, out: BinaryIO) -> None:
    """Write a plan, one operation per line."""
    out.writelines(line.encode("ascii") for line in plan_lines(plan))


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
        yield from _lines_with_commas([json.dumps(op) for op in tb["ops"]])
        yield "    ]}\n" if number + 1 == len(gpu["threadblocks"]) else "    ]},\n"
    yield "   ]\n"


def _lines_with_commas(texts: list[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"     {text},\n" if number + 1 < len(texts) else f"     {text}\n"
