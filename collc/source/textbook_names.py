"""The names of the textbook algorithms, as users write them after `using`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from collc.base.wording import did_you_mean, phrase
from collc.source.parsing.parse import parse_library
from collc.source.parsing.syntax import Algorithm


@cache
def textbook_names(kind: str | None = None) -> tuple[str, ...]:
    """The algorithms of `std.algorithms` that implement a standard collective ("all_reduce"), in order of declaration.

    kind: None for those of all collectives.
    """
    algorithms = (node for node in parse_library("algorithms").statements if isinstance(node, Algorithm))
    names = (node.name.name for node in algorithms if kind in (None, node.implements.function.name))
    return tuple(dict.fromkeys(names))


def synthesizer_hint(name: str, synthesizers: Iterable[str], algorithms: Iterable[str] = ()) -> str:
    """What to try if no synthesizer has a name: the name of an algorithm goes after `using`.

    algorithms: of a program, besides the ones of the standard library.
    """
    if name in (*algorithms, *textbook_names()):
        return f"'{name}' is an algorithm: write it after the collective, as in run ... using {name}"
    return did_you_mean(name, synthesizers, f"there are {phrase(synthesizers)}")
