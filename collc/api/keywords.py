"""Functions with typed keywords: their signatures, and TypeErrors that name the keyword that was meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Final, ParamSpec, TypeVar

from collc.base.wording import did_you_mean, listed

P = ParamSpec("P")
R = TypeVar("R")


class _Missing:
    """The default of a keyword in a signature: the documentation of the options says what a missing one means."""

    def __repr__(self) -> str:
        return "..."


_MISSING: Final = _Missing()


def with_keywords(options: type, former: Mapping[str, str] = {}) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a function whose last parameter is `**options: Unpack[Options]`, Options being a TypedDict.

    The decorated function raises TypeError for an unknown keyword and names the nearest one, and its signature, which
    `help` and notebooks show, lists every keyword with its type. former: the names that keywords had before.
    """
    keywords = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=_MISSING, annotation=getattr(kind, "__forward_arg__", kind))
        for name, kind in options.__annotations__.items()
    ]

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own = signature(function)
        positional = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        known = [parameter.name for parameter in (*positional, *keywords)]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    hint = did_you_mean(name, known, f"the keywords are {listed(known)}")
                    hint = f"it is '{former[name]}'" if name in former else hint
                    raise TypeError(f"{function.__name__}() has no keyword '{name}'; {hint}")
            return function(*args, **kwargs)

        shown: Any = call
        shown.__signature__ = Signature([*positional, *keywords], return_annotation=own.return_annotation)
        return call

    return decorate
