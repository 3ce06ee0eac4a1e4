"""All synthesizers, with one record each. The language, passes, command line, documents and `auto` derive from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collc.base.options import Option, Options
from collc.synthesis.auto.record import ModulePlanner, PhasePlanner, Synthesizer
from collc.ten.link_model import LinkModel

if TYPE_CHECKING:
    from collc.synthesis.task import Effort
    from collc.ten.module import Module

LINK_MODEL: Final[Options] = {
    "link_model": Option(
        "string",
        "when a link is free again: " + " or ".join(f"{model.frees} ({model})" for model in LinkModel),
        LinkModel.STORE.value,
        choices=tuple(model.value for model in LinkModel),
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
    """The module with the best schedule of the synthesizers that apply (collc/synthesis/auto)."""
    from collc.synthesis.auto.synthesizer import choose

    return choose(module, effort, list(SYNTHESIZERS.values()))


def _auto() -> ModulePlanner:
    return ModulePlanner(lambda module, effort, _: auto(module, effort))


def _tacos() -> PhasePlanner:
    from collc.synthesis.tacos import tacos

    return PhasePlanner(tacos, takes_bound=True)


def _pccl() -> PhasePlanner:
    from collc.synthesis.pccl import pccl

    return PhasePlanner(pccl, takes_bound=True)


def _exact() -> ModulePlanner:
    from collc.synthesis.exact.pareto import plan_exact
    from collc.synthesis.tacos import tacos

    return ModulePlanner(lambda module, effort, options: plan_exact(module, effort, options, tacos))


def _symmetric() -> ModulePlanner:
    from collc.synthesis.symmetric import symmetric_module

    return ModulePlanner(lambda module, effort, _: symmetric_module(module, effort))


def _overlap_planner() -> ModulePlanner:
    from collc.synthesis.overlapped import overlap

    return ModulePlanner(lambda module, effort, _: overlap(module, effort))


def _exchange() -> ModulePlanner:
    from collc.synthesis.exchange import exchange
    from collc.synthesis.tacos import tacos

    return ModulePlanner(lambda module, effort, _: exchange(module, effort, tacos), takes_bound=True)


def _one_shot() -> ModulePlanner:
    from collc.synthesis.one_shot import one_shot

    return ModulePlanner(lambda module, effort, _: one_shot(module, effort))


def _hierarchical() -> PhasePlanner:
    from collc.synthesis.by_dimension.orders import hierarchical

    return PhasePlanner(hierarchical)


def _themis() -> PhasePlanner:
    from collc.synthesis.by_dimension.orders import themis

    return PhasePlanner(themis)


def _swarm() -> PhasePlanner:
    from collc.synthesis.swarm import swarm

    return PhasePlanner(swarm, takes_bound=True)


def _forest() -> ModulePlanner:
    from collc.synthesis.forest import plan_forest

    return ModulePlanner(lambda module, effort, _: plan_forest(module, effort))


_RECORDS: Final = (
    Synthesizer("auto", "everything", COMMON, _auto, chooses_others=True),
    Synthesizer(
        "tacos",
        "demands that many NPUs share (All-Gather, Reduce-Scatter, All-Reduce, ...); no switches",
        COMMON,
        _tacos,
        applies=lambda problem: not problem.has_switches,
    ),
    Synthesizer("pccl", "everything, including switches and groups", COMMON, _pccl, applies=lambda _: True),
    Synthesizer("exact", "small demands", EXACT, _exact, is_optimal=True),
    Synthesizer(
        "symmetric",
        "All-Gather, Reduce-Scatter, All-Reduce, All-to-All on rings, tori, hypercubes, fully connected networks and "
        "products of them, and on clusters: equal nodes on switches, rails, pods, fat trees",
        COMMON,
        _symmetric,
        applies=lambda problem: problem.is_symmetric,
    ),
    Synthesizer(
        "overlapped",
        "reductions, also of groups and with copies beside them; no switches",
        COMMON,
        _overlap_planner,
        applies=lambda problem: problem.reduces and not problem.has_switches,
    ),
    Synthesizer(
        "exchange",
        "sums that all contributors get (All-Reduce), also of groups; no switches",
        COMMON,
        _exchange,
        applies=lambda problem: problem.shares_sums and not problem.has_switches,
    ),
    Synthesizer(
        "one_shot",
        "sums that all contributors get (All-Reduce), also of groups and with switches; for small buffers",
        COMMON,
        _one_shot,
        applies=lambda problem: problem.is_one_shot,
    ),
    Synthesizer(
        "hierarchical",
        "standard collectives over all NPUs of a network with dimensions",
        COMMON,
        _hierarchical,
        applies=lambda problem: problem.has_dimensions,
    ),
    Synthesizer("themis", "as 'hierarchical'", COMMON, _themis, applies=lambda problem: problem.has_dimensions),
    Synthesizer(
        "swarm",
        "chunks that few NPUs hold and many need (broadcast, multicast, reduce), and other demands with many "
        "destinations; also with switches",
        COMMON,
        _swarm,
        applies=lambda _: True,
    ),
    Synthesizer(
        "forest",
        "one All-Gather, Reduce-Scatter, All-Reduce, broadcast or reduce, also with switches; for large buffers in "
        "many chunks and 'link_model: \"pipelined\"'",
        COMMON,
        _forest,
        applies=lambda problem: problem.is_gathered,
    ),
    Synthesizer("fixed", "runs with 'using'", LINK_MODEL),
)

SYNTHESIZERS: Final = {record.name: record for record in _RECORDS}
"""All synthesizers by name, in the order of docs/language.md. `auto` decides between equals by this order."""
