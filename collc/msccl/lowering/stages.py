"""The stages of a lowering, for people to read."""

from __future__ import annotations

from collections.abc import Iterator

from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions
from collc.msccl.program import Program
from collc.ten.module import Module


def stages_of(module: Module, options: MscclOptions) -> list[tuple[str, Program]]:
    """The stages by name that led to the program of a module's schedule, in order.

    Ways that were tried and left are not among them. Raises what `lower` raises.
    """
    seen: list[tuple[str, Program]] = []
    final = lower(module, options, observe=lambda stage, program: seen.append((stage, program)))
    last = next(k for k, (_, program) in enumerate(seen) if program.gpus is final.gpus)
    found: dict[str, Program] = {}
    for name, program in reversed(seen[: last + 1]):
        found.setdefault(name, program)
    return [*reversed(found.items())]


def stages_text(stages: list[tuple[str, Program]]) -> Iterator[str]:
    """The program after each stage, a heading before each."""
    for number, (name, program) in enumerate(stages, 1):
        yield f"# {number} {name}\n{program}\n"
