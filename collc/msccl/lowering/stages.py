"""The program after each stage of a lowering, as text (`emit msccl_stages`)."""

from __future__ import annotations

from collections.abc import Iterator

from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions
from collc.msccl.program import Program
from collc.ten.module import Module


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


def stages_text(stages: list[tuple[str, Program]]) -> Iterator[str]:
    """Lines of text: for each stage a heading and the program."""
    for number, (name, program) in enumerate(stages, 1):
        yield f"# {number} {name}\n{program}\n"
