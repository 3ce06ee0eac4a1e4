"""MSCCL++ execution plans (JSON), as its executor reads them (docs/msccl.md)."""

from __future__ import annotations

import json
from typing import BinaryIO

from collc.msccl.options import MscclOptions
from collc.msccl.plan import plan_of
from collc.ten.module import Module


def write_plan(module: Module, options: MscclOptions, out: BinaryIO) -> None:
    """Write the plan of a module's schedule.

    Raises SourceError where MSCCL++ cannot say it (see plan_of).
    """
    out.write(json.dumps(plan_of(module, options), indent=1).encode("ascii"))
    out.write(b"\n")
