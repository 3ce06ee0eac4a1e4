"""What a pass is, and what it may know beside the module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from collc.base.diagnostics import Span
from collc.synthesis.task import Effort
from collc.ten.algorithm import AlgorithmSends
from collc.ten.module import Module


@dataclass(frozen=True, eq=False)
class HandwrittenRun:
    """A run whose algorithm is written by hand: its name and its sends, and the place of the run in the program."""

    algorithm: str
    sends: AlgorithmSends
    span: Span


@dataclass(frozen=True, slots=True)
class PassContext:
    """What passes may know beside the module.

    handwritten: the runs whose algorithms are written by hand, by number. effort: seed, trials and threads if a pass
    does not set its own, the time limit, and the receiver of progress. allow_congestion: messages of algorithms may
    meet on links, and queue there.
    """

    handwritten: Mapping[int, HandwrittenRun] = field(default_factory=dict[int, HandwrittenRun])
    effort: Effort = field(default_factory=Effort)
    allow_congestion: bool = False


class Pass(Protocol):
    """One step from module to module."""

    @property
    def name(self) -> str:
        """The name in pipelines."""
        ...

    def run(self, module: Module, context: PassContext) -> Module:
        """The module with the pass applied.

        Raises CollcError if the pass fails.
        """
        ...
