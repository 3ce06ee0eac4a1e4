"""The values of arguments: each function reads one, and raises ArgumentTypeError where it is none."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, TypeVar

from collc.base.memory import LEAST
from collc.base.units import PICOSECONDS, Dimension, quantity_in

T = TypeVar("T")


def settings_of(record: type[T], chosen: argparse.Namespace, /, **own: object) -> T:
    """The settings whose fields are the arguments of the same names; lists are tuples, definitions a mapping.

    own: the values of fields that are no argument, or another form of one.
    """
    values: dict[str, Any] = {f.name: getattr(chosen, f.name) for f in fields(record) if hasattr(chosen, f.name)}  # pyright: ignore[reportArgumentType]
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}  # pyright: ignore[reportUnknownArgumentType]
    values |= {"definitions": dict(chosen.definitions)} if "definitions" in values else {}
    return record(**values | own)


def definition_of(text: str) -> tuple[str, str]:
    """The name and the value of `name=value`."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip().isidentifier() and value.strip()):
        raise argparse.ArgumentTypeError(f"-D takes name=value, not {text!r}")
    return name.strip(), value.strip()


def values_of(text: str) -> tuple[str, tuple[str, ...]]:
    """The values of a param to sweep, as in `size=1MiB,16MiB`."""
    name, value = definition_of(text)
    return name, tuple(parts_of(value))


def parts_of(text: str) -> list[str]:
    """What commas separate, but for those in brackets and quotes."""
    parts = [""]
    depth, quoted = 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "([") - (letter in ")]")
        if letter == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    parts = [part.strip() for part in parts]
    if not all(parts):
        raise argparse.ArgumentTypeError(f"values separated by commas are expected, not {text!r}")
    return parts


def list_of(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    """A reader of several values, separated by commas."""
    return lambda text: [read(part) for part in parts_of(text)]


def number_from(least: int) -> Callable[[str], int]:
    """A reader of whole numbers from `least` to 2**63 - 1."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = -1
        if not least <= value < 2**63:
            raise argparse.ArgumentTypeError(
                f"a whole number of at least {least} and below 2**63 is expected, not {text!r}"
            )
        return value

    return read


def nvlinks_of(text: str) -> int | str:
    """NVLinks of a GPU to switches, or `dgx1`."""
    return text if text == "dgx1" else number_from(0)(text)


positive: Final = number_from(1)
"""Reads whole numbers from 1 on."""


def chunks_of(text: str) -> int | str:
    """A number of chunks, or "auto"."""
    if text == "auto":
        return text
    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"auto or {error}") from None


def seconds_of(text: str) -> float:
    """A time limit in seconds, from a time as in 2s or 500ms; a number alone is seconds."""
    value = _seconds(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"a positive number of seconds is expected, not {text!r}")
    return value


def duration_of(text: str) -> float:
    """Seconds, 0 included, from a time as in 3us; a number alone is seconds."""
    value = _seconds(text)
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"a time is expected, as in 3us, not {text!r}")
    return value


def _seconds(text: str) -> float:
    """The seconds of a time or a number; -1 for any other text."""
    time = quantity_in(text, Dimension.TIME)
    try:
        return float(text) if time is None else float(time / PICOSECONDS)
    except ValueError:
        return -1.0


def size_of(text: str) -> int:
    """Bytes, as in 64MiB."""
    size = quantity_in(text if text[-1:].isalpha() else f"{text}B", Dimension.BYTES)
    if size is None or size.denominator != 1 or not 0 < size < 2**60:
        raise argparse.ArgumentTypeError(f"a size in whole bytes is expected, as in 64MiB, not {text!r}")
    return int(size)


def memory_of(text: str) -> int:
    """Bytes of a memory limit."""
    size = size_of(text)
    if size < LEAST:
        raise argparse.ArgumentTypeError(f"at least {LEAST >> 20}MiB are needed, not {text!r}")
    return size
