"""The files that a schedule is written to: its programs, for the old runtime one for each placement, or the stages that
lead to them (`emit msccl_stages`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from collc.msccl.lowering.lower import Announcer, lower
from collc.msccl.lowering.select import first_program
from collc.msccl.options import MscclOptions, Placement, Profile
from collc.msccl.program import Program
from collc.ten.module import Module

VARIANTS: Final = ("out", "in")
"""Parts of the names of two files for the old runtime: `NAME.out.xml` and `NAME.in.xml`."""


class ProgramFile(NamedTuple):
    """A program and the part that its file's name has before the suffix: one of `VARIANTS`, or "" for none."""

    variant: str
    program: Program


def may_be_two_files(options: MscclOptions) -> bool:
    """Whether a schedule may need a file for each placement.

    The old runtime uses a file with `inplace="1"` for calls in place and any other for calls out of place; it ignores
    `outofplace` (docs/msccl-contract.md, section 2). The executor reads both attributes.
    """
    return options.profile is Profile.OLD and options.placement in {None, Placement.BOTH}


def program_files(
    module: Module,
    options: MscclOptions,
    announce: Announcer | None = None,
    hurried: Callable[[], bool] = lambda: False,
) -> list[ProgramFile]:
    """The programs of a module's schedule, one for each file. announce, hurried, errors: see `lower`."""
    if not may_be_two_files(options) or not first_program(module, options, several_slots=True).placement.in_place:
        return [ProgramFile("", lower(module, options, announce=announce, hurried=hurried))]
    placements = (Placement.OUT, Placement.IN)
    return [
        ProgramFile(variant, lower(module, replace(options, placement=placement), announce=announce, hurried=hurried))
        for variant, placement in zip(VARIANTS, placements, strict=True)
    ]


def stages_of(module: Module, options: MscclOptions) -> list[tuple[str, Program]]:
    """The stages, by name and in order, that led to the program of a module's schedule.

    Stages of attempts that were discarded are left out. Raises what `lower` raises.
    """
    seen: list[tuple[str, Program]] = []
    final = lower(module, options, observe=lambda stage, program: seen.append((stage, program)))
    last = next(k for k, (_, program) in enumerate(seen) if program.gpus is final.gpus)
    found: dict[str, Program] = {}
    for name, program in reversed(seen[: last + 1]):
        found.setdefault(name, program)
    return [*reversed(found.items())]
