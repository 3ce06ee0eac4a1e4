"""Checks of arguments of the Python API: TypeErrors and ValueErrors that name the argument."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

from collc.application.compile.compile_report import CompileReport, ScheduleReport
from collc.base.wording import listed
from collc.ten.module import Module


def wrong_type(name: str, expected: str, value: object) -> TypeError:
    """The error for an argument of the wrong type. expected: a noun with its article, as in "an int"."""
    hint = '; take one of its schedules, as in report["gather"]' if isinstance(value, CompileReport) else ""
    return TypeError(f"{name} must be {expected}, not {type(value).__name__}{hint}")


def text(name: str, value: object) -> str | None:
    """A string, or None. Raises TypeError."""
    if value is None or isinstance(value, str):
        return value
    raise wrong_type(name, "a str", value)


def integer(name: str, value: object, least: int) -> int | None:
    """An integer of at least `least` and less than 2**63, or None; NumPy's count too. Raises TypeError, ValueError."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise wrong_type(name, "an int", value)
    plain: Any = value
    number = operator.index(plain)
    if not least <= number < 2**63:
        raise ValueError(f"{name} must be at least {least} and less than 2**63, not {value!r}")
    return number


def seconds(name: str, value: object) -> float | None:
    """A positive finite number, or None. Raises TypeError, ValueError."""
    if value is None:
        return None
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise wrong_type(name, "a number of seconds", value)
    plain: Any = value
    if not 0 < float(plain) < math.inf:
        raise ValueError(f"{name} must be a positive number of seconds, not {value!r}")
    return float(plain)


def sizes(name: str, value: object) -> tuple[int, int | None]:
    """The smallest and the largest of a range of sizes; None: no largest. Raises TypeError, ValueError."""
    if value is None:
        return (0, None)
    pair = tuple(cast("tuple[object, ...]", value)) if isinstance(value, tuple | list) else ()
    if len(pair) != 2:
        raise TypeError(f"{name} must be a pair (smallest, largest) of ints, not {value!r}")
    smallest, largest = (integer(f"a size in {name}", size, 0) for size in pair)
    return smallest or 0, largest


def flag(name: str, value: object) -> bool:
    """True or False; None is False. Raises TypeError."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if type(value).__name__ in ("bool", "bool_"):  # of NumPy
        return bool(value)
    raise wrong_type(name, "a bool", value)


def one_of(name: str, value: object, choices: Collection[str]) -> Any:  # noqa: ANN401 (a Literal of the caller)
    """One of the choices, or None. Raises ValueError."""
    if value is None or (isinstance(value, str) and value in choices):
        return value
    raise ValueError(f"{name} must be {listed([repr(choice) for choice in choices], 'or')}, not {value!r}")


def path(name: str, value: object, otherwise: str = "a str or a path") -> Path:
    """A path. otherwise: what the argument may be, for the message. Raises TypeError, ValueError."""
    plain: Any = value
    if not isinstance(plain, str | PathLike):
        raise wrong_type(name, otherwise, plain)
    found: Any = fspath(cast("str | PathLike[Any]", plain))
    if not isinstance(found, str):
        raise wrong_type(name, otherwise, found)
    if "\0" in found:
        raise ValueError(f"{name} must be a path, and {found!r} has a null character")
    return Path(found)


def module(value: object) -> Module:
    """The module that the argument `source` is or, as the report of a schedule, holds. Raises TypeError, ValueError."""
    if isinstance(value, Module):
        return value
    if isinstance(value, ScheduleReport):
        return value.kept_module()
    raise wrong_type("source", "a Module or the report of a schedule", value)
