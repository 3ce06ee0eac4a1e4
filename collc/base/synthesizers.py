"""The options of all synthesizers. The checks of the language, the passes, the command line and the documents are
derived from this table.
"""

from __future__ import annotations

from typing import Final

from collc.base.options import Option, Options

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

OF_COMPILATION: Final = frozenset({*TIME_LIMIT, *LINK_MODEL})
"""The options that concern the whole compilation of a schedule, not one pass of it."""

SYNTHESIZERS: Final[dict[str, Options]] = {
    "auto": COMMON,
    "tacos": COMMON,
    "pccl": COMMON,
    "exact": {
        **COMMON,
        "steps": Option("int", "steps at most, in each phase", least=1),
        "pareto": Option("int", "find the Pareto points too, for 1 up to this many chunks per block", least=1),
        "extra_rounds": Option("int", "rounds that a Pareto point may have more than steps", 0, least=1),
    },
    "symmetric": COMMON,
    "overlapped": COMMON,
    "exchange": COMMON,
    "hierarchical": COMMON,
    "themis": COMMON,
    "swarm": COMMON,
    "forest": COMMON,
    "fixed": LINK_MODEL,
}
"""The synthesizers that `synthesize` accepts, with their options. `fixed` is for schedules whose runs all use
handwritten algorithms."""


def pass_options(name: str) -> Options:
    """The options of the pass that runs a synthesizer."""
    return {key: option for key, option in SYNTHESIZERS[name].items() if key not in OF_COMPILATION}
