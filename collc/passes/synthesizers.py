"""All synthesizers, with one record each. The language, passes, command line, documents and `auto` derive from it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
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


def _copies(module: str, name: str) -> Callable[[], PhasePlanner]:
    """Loads a synthesizer of copies. module: of collc.synthesis, imported when it is first used."""
    return lambda: PhasePlanner(getattr(import_module(f"collc.synthesis.{module}"), name))


def _modules(module: str, name: str) -> Callable[[], ModulePlanner]:
    """Loads a synthesizer of whole modules."""

    def load() -> ModulePlanner:
        plan = getattr(import_module(f"collc.synthesis.{module}"), name)
        return ModulePlanner(lambda given, effort, _: plan(given, effort))

    return load


def _auto() -> ModulePlanner:
    return ModulePlanner(lambda module, effort, _: auto(module, effort))


def _exact() -> ModulePlanner:
    from collc.synthesis.exact.pareto import plan_exact
    from collc.synthesis.tacos import tacos

    return ModulePlanner(lambda module, effort, options: plan_exact(module, effort, options, tacos))


def _exchange() -> ModulePlanner:
    from collc.synthesis.exchange import exchange
    from collc.synthesis.tacos import tacos

    return ModulePlanner(lambda module, effort, _: exchange(module, effort, tacos))


_RECORDS: Final = (
    Synthesizer("auto", "everything", COMMON, _auto, chooses_others=True),
    Synthesizer(
        "tacos",
        "demands that many NPUs share (All-Gather, Reduce-Scatter, All-Reduce, ...); no switches",
        COMMON,
        _copies("tacos", "tacos"),
        applies=lambda problem: not problem.module.network.has_switches,
    ),
    Synthesizer(
        "pccl",
        "everything, including switches and groups",
        COMMON,
        _copies("pccl", "pccl"),
        applies=lambda _: True,
    ),
    Synthesizer("exact", "small demands", EXACT, _exact, is_optimal=True),
    Synthesizer(
        "symmetric",
        "All-Gather, Reduce-Scatter, All-Reduce, All-to-All on rings, tori, hypercubes, fully connected networks and "
        "products of them, and on clusters: equal nodes on switches, rails, pods, fat trees",
        COMMON,
        _modules("symmetric", "symmetric_module"),
        applies=lambda problem: problem.is_symmetric,
    ),
    Synthesizer(
        "overlapped",
        "reductions, also of groups and with copies beside them; no switches",
        COMMON,
        _modules("overlapped", "overlap"),
        applies=lambda problem: problem.reduces and not problem.module.network.has_switches,
    ),
    Synthesizer(
        "exchange",
        "sums that all contributors get (All-Reduce), also of groups; no switches",
        COMMON,
        _exchange,
        applies=lambda problem: problem.shares_sums and not problem.module.network.has_switches,
    ),
    Synthesizer(
        "one_shot",
        "sums that all contributors get (All-Reduce), also of groups and with switches; for small buffers",
        COMMON,
        _modules("one_shot", "one_shot"),
        applies=lambda problem: problem.is_one_shot,
    ),
    Synthesizer(
        "hierarchical",
        "standard collectives over all NPUs of a network with dimensions",
        COMMON,
        _copies("by_dimension.orders", "hierarchical"),
        applies=lambda problem: problem.has_dimensions,
    ),
    Synthesizer(
        "themis",
        "as 'hierarchical'",
        COMMON,
        _copies("by_dimension.orders", "themis"),
        applies=lambda problem: problem.has_dimensions,
    ),
    Synthesizer(
        "swarm",
        "chunks that few NPUs hold and many need (broadcast, multicast, reduce), and other demands with many "
        "destinations; also with switches",
        COMMON,
        _copies("swarm", "swarm"),
        applies=lambda _: True,
    ),
    Synthesizer(
        "forest",
        "one All-Gather, Reduce-Scatter, All-Reduce, broadcast or reduce, also with switches; for large buffers in "
        "many chunks and 'link_model: \"pipelined\"'",
        COMMON,
        _modules("forest", "plan_forest"),
        applies=lambda problem: problem.is_gathered,
    ),
    Synthesizer("fixed", "runs with 'using'", LINK_MODEL),
)

SYNTHESIZERS: Final = {record.name: record for record in _RECORDS}
"""All synthesizers by name, in the order of docs/language.md. `auto` decides between equals by this order."""
