"""All synthesizers, with one record each. The language, passes, command line, documents and `auto` derive from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collc.base.options import Option, Options
from collc.synthesis.auto.record import IntOptions, ModulePlanner, PhasePlanner, Synthesizer

if TYPE_CHECKING:
    from types import ModuleType

    from collc.synthesis.task import Effort
    from collc.ten.module import Module

LINK_MODEL: Final[Options] = {
    "link_model": Option(
        "string",
        "when a link is free again: after the chunk arrived (store) or was sent (pipelined)",
        "store",
        choices=("store", "pipelined"),
    ),
}

SEARCH: Final[Options] = {
    "seed": Option("int", "the seed of all random choices", 0, least=0),
    "trials": Option("int", "independent attempts; the best schedule is kept", 1, least=1),
    "threads": Option("int", "threads at most; the result is the same with any number", 1, least=1),
}
"""The effort of a search; see collc.synthesis.task.Effort."""

TIME_LIMIT: Final[Options] = {
    "time_limit": Option("time", "end the search after this time; the best schedule found by then is kept", least=1),
}

COMMON: Final[Options] = {**SEARCH, **TIME_LIMIT, **LINK_MODEL}
"""The options of every synthesizer that searches; each is an option of `collc compile` too."""

EXACT: Final[Options] = {
    **COMMON,
    "steps": Option("int", "steps at most, in each phase", least=1),
    "pareto": Option("int", "find the Pareto points too, for 1 up to this many chunks per block", least=1),
    "extra_rounds": Option("int", "rounds that a Pareto point may have more than steps", 0, least=1),
}


def pass_options(synthesizer: Synthesizer) -> Options:
    """The options of the pass that runs a synthesizer: those that do not concern the whole compilation."""
    return {key: option for key, option in synthesizer.options.items() if key not in {*TIME_LIMIT, *LINK_MODEL}}


def searching_synthesizers() -> list[str]:
    """The names of the synthesizers that plan, in the order of the table."""
    return [name for name, synthesizer in SYNTHESIZERS.items() if synthesizer.load is not None]


def auto(module: Module, effort: Effort) -> Module:
    """The module with the best schedule of the synthesizers that have an estimate, see synthesis/auto."""
    from collc.synthesis.auto.synthesizer import choose

    return choose(module, effort, [record for record in SYNTHESIZERS.values() if record.estimate is not None])


def _tacos() -> PhasePlanner:
    from collc.synthesis.tacos import tacos

    return PhasePlanner(tacos)


def _pccl() -> PhasePlanner:
    from collc.synthesis.pccl import pccl

    return PhasePlanner(pccl)


def _exact() -> ModulePlanner:
    from collc.synthesis.exact.planner import plan_exact
    from collc.synthesis.tacos import tacos

    return ModulePlanner(lambda module, effort, options: plan_exact(module, effort, options, tacos))


def _symmetric() -> ModulePlanner:
    from collc.synthesis.symmetric import symmetric_module

    return ModulePlanner(lambda module, effort, _: symmetric_module(module, effort))


def _overlapped() -> ModulePlanner:
    from collc.synthesis.overlapped import overlap

    return ModulePlanner(lambda module, effort, _: overlap(module, effort))


def _exchange() -> ModulePlanner:
    from collc.synthesis.exchange import exchange
    from collc.synthesis.tacos import tacos

    return ModulePlanner(lambda module, effort, _: exchange(module, effort, tacos))
