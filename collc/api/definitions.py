"""The values of params that are given in Python, as text of `.coll`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from collc.api import arguments

Definition = int | float | bool | str
"""A value of a param: a string is text in the syntax of `.coll`, as in "9MiB", or the value of a string param."""


def definition_texts(values: object) -> dict[str, str]:
    """The values of params as text. Raises TypeError or ValueError."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise arguments.wrong_type("definitions", "a mapping from names to values", values)
    found: dict[str, str] = {}
    for name, value in cast("Mapping[object, Any]", values).items():
        if not isinstance(name, str):
            raise arguments.wrong_type("a name in definitions", "a str", name)
        found[name] = _as_text(value)
    return found


def _as_text(value: Definition) -> str:
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
