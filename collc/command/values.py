"""The values of arguments: each function reads one, and raises ArgumentTypeError for a text that is none."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from collc.base.memory import LEAST
from collc.base.units import PICOSECONDS, Dimension, quantity_in

if TYPE_CHECKING:
    from collc.tuning.protocols import ProtocolCost

T = TypeVar("T")


def reader(expected: str, read: Callable[[str], T | None]) -> Callable[[str], T]:
    """A function that reads a value. expected: what the message says if `read` gives None or raises ValueError."""

    def read_or_raise(text: str) -> T:
        try:
            value = read(text)
        except (ValueError, ZeroDivisionError):
            value = None
        if value is None:
            raise argparse.ArgumentTypeError(f"{expected}, not {text!r}")
        return value

    return read_or_raise


def new_file(text: str) -> Path:
    """The path of a file to write, which is no folder."""
    path = Path(text)
    with suppress(OSError):  # a name that no file can have is an error when it is written
        if path.is_dir():
            raise argparse.ArgumentTypeError(f"a file and no folder is expected, not {text!r}")
    return path


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
    """What commas separate, but for commas in brackets and quotes."""
    parts = [""]
    depth, quoted = 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "([") - (letter in ")]")
        if letter == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    parts = [word.strip() for word in parts]
    if not all(parts):
        raise argparse.ArgumentTypeError(f"values separated by commas are expected, not {text!r}")
    return parts


def list_of(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    """A reader of several values, separated by commas."""
    return lambda text: [read(part) for part in parts_of(text)]


def _whole_number(text: str, least: int) -> int | None:
    return number if least <= (number := int(text)) < 2**63 else None


def number_from(least: int) -> Callable[[str], int]:
    """A reader of whole numbers from `least` to 2**63 - 1."""
    expected = f"a whole number of at least {least} and below 2**63 is expected"
    return reader(expected, lambda text: _whole_number(text, least))


positive: Final = number_from(least=1)
"""Reads whole numbers from 1 on."""

chunks_of: Final[Callable[[str], int | str]] = reader(
    "auto or a whole number of at least 1 and below 2**63 is expected",
    lambda text: text if text == "auto" else _whole_number(text, 1),
)
"""Reads a number of chunks, or "auto"."""

channels_of: Final = reader(
    "a number of channels from 1 to 32 is expected",
    lambda text: n if (n := _whole_number(text, 1) or 33) <= 32 else None,
)
"""Reads a number of channels of a runtime."""

share_of: Final = reader(
    "a share from 0 to 1 is expected", lambda text: share if 0 <= (share := Fraction(text)) <= 1 else None
)
"""Reads a share, as in 0.02 or 1/50."""

identifier_of: Final = reader(
    "a name of small letters, digits and _ is expected",
    lambda text: text if re.fullmatch(r"[a-z_][a-z0-9_]*", text) else None,
)
"""Reads the name of a let."""


def nvlinks_of(text: str) -> int | str:
    """NVLinks of a GPU to switches, or `dgx1`."""
    return text if text == "dgx1" else number_from(0)(text)


def _seconds(text: str) -> float:
    if text.endswith("min"):
        return 60 * float(text.removesuffix("min"))
    time = quantity_in(text, Dimension.TIME)
    return float(text) if time is None else float(time / PICOSECONDS)


seconds_of: Final = reader(
    "a positive number of seconds is expected", lambda text: time if 0 < (time := _seconds(text)) < 1e9 else None
)
"""Reads a time limit in seconds, from a time as in 2s, 500ms or 5min; a number alone is seconds."""

duration_of: Final = reader(
    "a time is expected, as in 3us", lambda text: time if 0 <= (time := _seconds(text)) < 1e9 else None
)
"""Reads seconds, 0 included, from a time as in 3us; a number alone is seconds."""


def _bytes(text: str) -> int | None:
    size = quantity_in(text if text[-1:].isalpha() else f"{text}B", Dimension.BYTES)
    return int(size) if size is not None and size.denominator == 1 and 0 < size < 2**60 else None


size_of: Final = reader("a size in whole bytes is expected, as in 64MiB", _bytes)
"""Reads bytes, as in 64MiB."""


rate_of: Final = reader(
    "a rate is expected, as in 600Mb/s", lambda text: rate if (rate := quantity_in(text, Dimension.RATE)) else None
)
"""Reads bytes per second, as in 600Mb/s."""


def size_range_of(text: str) -> tuple[int, int]:
    """The two ends of a range of sizes, as in 1KiB..4GiB."""
    low, dots, high = text.partition("..")
    if not dots or size_of(low.strip()) > size_of(high.strip()):
        raise argparse.ArgumentTypeError(f"a range of sizes is expected, as in 1KiB..4GiB, not {text!r}")
    return size_of(low.strip()), size_of(high.strip())


def memory_of(text: str) -> int:
    """Bytes of a memory limit."""
    size = size_of(text)
    if size < LEAST:
        raise argparse.ArgumentTypeError(f"at least {LEAST >> 20}MiB are needed, not {text!r}")
    return size


def protocol_cost_of(text: str) -> ProtocolCost:
    """A protocol with its usual cost, or with the cost that the text gives."""
    from collc.tuning.protocols import DEFAULT_COSTS, cost_of

    expected = "a protocol is Simple, LL or LL128, alone or with its cost as in LL128=120/128:1.3us"
    return DEFAULT_COSTS.get(text) or reader(expected, cost_of)(text)
