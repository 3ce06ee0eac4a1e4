"""Measured latencies and bandwidths, which `collc calibrate` writes, in the place of what a machine's files say."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.reading import read_text
from collc.base.units import Dimension, format_rate, format_time
from collc.base.wording import listed
from collc.machines.machine import LinkKind

NOTABLE: Final = Fraction(1, 5)
"""From this difference on, relative to what the files say, a remark names both values."""


@dataclass(frozen=True, slots=True)
class MeasuredLinks:
    """The lets of files of `collc calibrate`.

    paths: as the program imports them. values: picoseconds and bytes per second, by name.
    """

    paths: tuple[str, ...]
    values: dict[str, Fraction]

    def remarks(self, kinds: tuple[LinkKind, ...]) -> list[str]:
        """Where measured and nominal values differ by more than 20 %. Raises UsageError U0150 for lets of no link."""
        names = [name for kind in kinds for name in (f"{kind.name}_bandwidth", f"{kind.name}_latency")]
        for name in self.values:
            if name not in names:
                hint = f"the links of this machine are {listed([kind.name for kind in kinds])}: collc calibrate --name"
                raise UsageError(
                    Diagnostic("U0150", f"'{name}' is measured, but no link of this machine has that name", hint=hint)
                )
        found: list[str] = []
        for kind in kinds:
            rate, time = kind.rate * kind.times, kind.latency * 10**12
            pairs = ((f"{kind.name}_bandwidth", rate, format_rate), (f"{kind.name}_latency", time, format_time))
            for name, nominal, text in pairs:
                measured = self.values.get(name)
                if measured is not None and abs(measured - nominal) > NOTABLE * nominal:
                    share = f"{abs(float(measured / nominal) - 1):.0%}" if nominal else "far"
                    more = "more" if measured > nominal else "less"
                    found.append(f"{name}: measured {text(measured)}, nominal {text(nominal)} ({share} {more})")
        return found


def read_measured(files: tuple[Path, ...], output: Path | None) -> MeasuredLinks:
    """Read files of `collc calibrate`. output: the program that will import them.

    Raises SourceError for errors of the files, UsageError U0150 if one has something else than lets of a time or
    rate, or a let occurs twice.
    """
    from collc.source.parsing.expressions import QuantityLiteral
    from collc.source.parsing.parse import parse
    from collc.source.parsing.syntax import Let

    values: dict[str, Fraction] = {}
    for path in files:
        for node in parse(read_text(path)).statements:
            if not isinstance(node, Let) or not isinstance(node.value, QuantityLiteral):
                message = f"{path} has more than lets of times and rates"
                raise UsageError(Diagnostic("U0150", message, node.span, hint="as 'collc calibrate' writes them"))
            name, wanted = node.name.name, Dimension.TIME if node.name.name.endswith("_latency") else Dimension.RATE
            if node.value.dimension is not wanted or name in values:
                message = f"'{name}' occurs twice" if name in values else f"'{name}' is not a {wanted.name.lower()}"
                raise UsageError(Diagnostic("U0150", message, node.span))
            values[name] = node.value.value
    folder = Path() if output is None else output.parent
    return MeasuredLinks(tuple(Path(os.path.relpath(path, folder)).as_posix() for path in files), values)
