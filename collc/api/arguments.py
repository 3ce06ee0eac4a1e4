"""Arguments of the Python API: keywords with types, and TypeErrors and ValueErrors that name the argument."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import wraps
from inspect import Parameter, Signature, signature
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar, cast

from collc.application.compile.compile_report import CompileReport, ScheduleReport
from collc.base.wording import did_you_mean, phrase
from collc.ten.module import Module


def wrong_type(name: str, expected: str, value: object) -> TypeError:
    """The error for an argument of the wrong type. expected: a noun with its article, as in "an int"."""
    hint = '; take one of its schedules, as in report["gather"]' if isinstance(value, CompileReport) else ""
    return TypeError(f"{name} must be {expected}, not {type(value).__name__}{hint}")


# Checks of keywords: each returns the value of a keyword, of Python's own type, for any value but None.


def text(name: str, value: object) -> str:
    """A string. Raises TypeError."""
    if isinstance(value, str):
        return value
    raise wrong_type(name, "a str", value)


def at_least(least: int) -> Callable[[str, object], int]:
    """A check for an integer of at least `least` and less than 2**63; NumPy's count too."""

    def integer(name: str, value: object) -> int:
        """The integer. Raises TypeError or ValueError."""
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise wrong_type(name, "an int", value)
        plain: Any = value
        number = operator.index(plain)
        if not least <= number < 2**63:
            raise ValueError(f"{name} must be at least {least} and less than 2**63, not {value!r}")
        return number

    return integer


def seconds(name: str, value: object) -> float:
    """A positive finite number. Raises TypeError, ValueError."""
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise wrong_type(name, "a number of seconds", value)
    plain: Any = value
    if not 0 < float(plain) < math.inf:
        raise ValueError(f"{name} must be a positive number of seconds, not {value!r}")
    return float(plain)


def sizes(name: str, value: object) -> tuple[int, int | None] | Literal["auto"]:
    """The smallest and the largest of a range of sizes; None: no largest. Raises TypeError, ValueError."""
    if value == "auto":
        return "auto"
    pair = tuple(cast("tuple[object, ...]", value)) if isinstance(value, tuple | list) else ()
    if len(pair) != 2:
        raise TypeError(f"{name} must be a pair (smallest, largest) of ints, not {value!r}")
    smallest, largest = (None if size is None else at_least(0)(f"a size in {name}", size) for size in pair)
    return smallest or 0, largest


def flag(name: str, value: object) -> bool:
    """True or False; NumPy's count too. Raises TypeError."""
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise wrong_type(name, "a bool", value)


def one_of(*choices: str) -> Callable[[str, object], Any]:
    """A check for one of some strings."""

    def choice(name: str, value: object) -> object:
        """The string. Raises ValueError."""
        if isinstance(value, str) and value in choices:
            return value
        raise ValueError(f"{name} must be {phrase([repr(str(choice)) for choice in choices], 'or')}, not {value!r}")

    return choice


def path(name: str, value: object, otherwise: str = "a str or a path") -> Path:
    """A path. otherwise: what the argument may be, for the message. Raises TypeError, ValueError."""
    given: Any = fspath(cast("PathLike[Any]", value)) if isinstance(value, str | PathLike) else value
    if not isinstance(given, str):
        raise wrong_type(name, otherwise, given)
    if "\0" in given:
        raise ValueError(f"{name} must be a path, and {given!r} has a null character")
    return Path(given)


def function(name: str, value: object) -> object:
    """A function. Raises TypeError."""
    if callable(value):
        return value
    raise wrong_type(name, "a function", value)


def module(value: object) -> Module:
    """The module that the argument `source` is or, as the report of a schedule, holds. Raises TypeError, ValueError."""
    if isinstance(value, Module):
        return value
    if isinstance(value, ScheduleReport):
        return value.kept_module()
    raise wrong_type("source", "a Module or the report of a schedule", value)


Definition = int | float | bool | str
"""A value of a param: a string is text in the syntax of `.coll`, as in "9MiB", or the value of a string param."""


def definition_texts(name: str, values: object) -> dict[str, str]:
    """The values of params as text. Raises TypeError or ValueError."""
    if not isinstance(values, Mapping):
        raise wrong_type(name, "a mapping from names to values", values)
    items = cast("Mapping[object, object]", values).items()
    return {text(f"a name in {name}", param): value_text(value) for param, value in items}


def value_text(value: object) -> str:
    """A value of a param in the syntax of `.coll`. NumPy scalars count as Python's."""
    item: Any = getattr(value, "item", None)
    plain = item() if item is not None else value
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise ValueError(f"{plain!r} is not a value of a param")
        return format(Decimal(repr(plain)), "f")
    if isinstance(plain, int | str):
        return str(plain)
    raise TypeError(f"a value of a param is an int, float, bool or str, not {type(value).__name__}")


P = ParamSpec("P")
R = TypeVar("R")


class _Missing:
    """The default of a keyword in a signature: the documentation of the options says what a missing one means."""

    def __repr__(self) -> str:
        return "..."


_MISSING: Final = _Missing()


def with_keywords(
    options: type, checks: Mapping[str, Callable[[str, object], object]], former: Mapping[str, str] = {}
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a function whose last parameter is `**options: Unpack[Options]`, Options being a TypedDict.

    The decorated function raises TypeError for an unknown keyword and names the nearest one, and its signature, which
    `help` and notebooks show, lists every keyword with its type. It passes on what the check of each keyword returns,
    and none that is None. checks: by keyword; a keyword may have none. former: the names that keywords had before.
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
            given: dict[str, Any] = {}
            for name, value in kwargs.items():
                if name not in known:
                    hint = did_you_mean(name, known, f"the keywords are {phrase(known)}")
                    hint = f"it is '{former[name]}'" if name in former else hint
                    raise TypeError(f"{function.__name__}() has no keyword '{name}'; {hint}")
                if value is not None:
                    given[name] = checks[name](name, value) if name in checks else value
            checked: Any = function
            return checked(*args, **given)

        shown: Any = call
        shown.__signature__ = Signature([*positional, *keywords], return_annotation=own.return_annotation)
        return call

    return decorate
