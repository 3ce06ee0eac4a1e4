"""`sizes: auto`: the sizes for which the file of a schedule is the best that collc knows.

It is compared, in the model of `collc tune`, with rings and trees of NCCL's shape and, on small networks, with what
`auto` finds for a small, a middle and a large buffer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np

from collc.application.emit.file_times import Runtime, costs_of, file_times, read_tasks, write_file
from collc.base.diagnostics import CollcError, Diagnostic, SourceError
from collc.base.units import format_bytes
from collc.base.wording import phrase
from collc.emit.output import Announcer
from collc.msccl.options import MscclOptions, Protocol
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.ten.demand import Demand, Standard
from collc.ten.module import Module
from collc.tuning.nccl_shapes import nccl_times, shapes_of
from collc.tuning.protocols import DEFAULT_COSTS
from collc.tuning.ranges import Times, first_size_of_later

SIZES: Final = tuple(2**power for power in range(10, 33))
"""Bytes of the buffers for which files are simulated: 1 KiB to 4 GiB."""

PLANNED: Final = (2**14, 2**21, 2**28)
"""Bytes of the buffers for which `auto` plans."""

MOST_NPUS: Final = 32
"""On larger networks `auto` takes too long to ask it three times."""

TOLERANCE: Final = Fraction(1, 50)
"""A file is the best known if no other one is faster by more than this."""


def with_best_sizes(
    module: Module, options: MscclOptions, kind: Runtime, announce: Announcer
) -> tuple[MscclOptions, str]:
    """The options with the sizes for which the schedule is the best known, and a remark about them.

    module: of one run of a standard collective over all NPUs. Raises SourceError M0119 if there is no such size, and
    what writing the file raises.
    """
    standard = module.demand.runs[0].standard
    assert standard is not None
    announce("simulating the file for all sizes")
    own = _own_times(module, replace(options, best_known=False), kind)
    others = _other_times(module, standard, kind, announce)
    compared = _Comparison(own, others)
    kept = compared.longest_range()
    if not kept:
        message = f"{module.name} is the best known for no size: {compared.nearest()}"
        raise SourceError(Diagnostic("M0119", message, hint="give the sizes, as in sizes: 64MiB .. 4GiB"))
    low, high = compared.ends(kept)
    last = f"{format_bytes(high + 1)} - 1" if high % 2 else format_bytes(high)
    remark = f"sizes: auto: {format_bytes(low)} .. {last}; {compared.gain(kept)}"
    return replace(options, sizes=(low, high), best_known=False), remark


def _own_times(module: Module, options: MscclOptions, kind: Runtime) -> Times:
    with tempfile.TemporaryDirectory(prefix="collc-") as folder:
        path = Path(folder) / "file"
        write_file(module, options, kind, path)
        file = read_tasks(path, module.network, kind, None, options.profile)
    return file_times(SIZES, module.network, file, DEFAULT_COSTS[options.protocol.value], kind)


def _other_times(module: Module, standard: Standard, kind: Runtime, announce: Announcer) -> dict[str, Times]:
    """The times of what the schedule is compared with, by name."""
    costs, root = tuple(DEFAULT_COSTS.values()), max(0, standard.root)
    found: dict[str, Times] = {}
    for shape in shapes_of(standard.kind):
        announce(f"simulating NCCL's {shape}")
        found[f"NCCL's {shape}"] = nccl_times(module.network, standard.kind, shape, SIZES, costs, root)
    if len(module.network.npus) > MOST_NPUS:
        return found
    for size in PLANNED:
        announce(f"auto for {format_bytes(size)}")
        try:
            other = _plan_for_size(module, standard, size)
            for protocol, times in _times_with_protocols(other, kind).items():
                found[f"auto for {format_bytes(size)} ({protocol})"] = times
        except CollcError:  # what auto found has no such file
            continue
    return found


def _plan_for_size(module: Module, standard: Standard, size: int) -> Module:
    """What `auto` finds for another size of the buffer, in as many chunks."""
    run = module.demand.runs[0]
    table = run.pattern.expand()
    sizes = np.maximum(1, -(-table.size * size // standard.size))
    demand = Demand((replace(run, pattern=replace(table, size=sizes), standard=replace(standard, size=size)),))
    blank = Module(module.name, module.network, demand, module.model, relays=True)
    context = PassContext()
    return Invert().run(Synthesize("auto").run(blank, context), context)


def _times_with_protocols(module: Module, kind: Runtime) -> dict[str, Times]:
    with tempfile.TemporaryDirectory(prefix="collc-") as folder:
        path = Path(folder) / "file"
        found: dict[str, Times] = {}
        for cost in costs_of(kind, DEFAULT_COSTS.values()):
            if kind == "mscclpp" or not found:  # a plan of packets is another program
                write_file(module, MscclOptions(protocol=Protocol(cost.name)), kind, path)
            file = read_tasks(path, module.network, kind, cost.name)
            found[cost.name] = file_times(SIZES, module.network, file, cost, kind)
    return found


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The times of a file for SIZES, and those of others by name."""

    own: Times
    others: Mapping[str, Times]

    def best(self) -> Times:
        """The least time of the others for each size; None if none serves it."""
        columns = zip(*self.others.values(), strict=True)
        return [min((time for time in column if time is not None), default=None) for column in columns]

    def _ratios(self) -> list[Fraction | None]:
        """The time of the others by that of the file, for each size; None if the file does not serve it."""
        pairs = zip(self.own, self.best(), strict=True)
        return [None if own is None else Fraction(own if best is None else best, max(1, own)) for own, best in pairs]

    def longest_range(self) -> list[int]:
        """The longest sequence of sizes, by their places, for which the file is the best; of equal ones the largest."""
        good = [ratio is not None and ratio * (1 + TOLERANCE) >= 1 for ratio in self._ratios()]
        runs = [[place for place, _ in group] for same, group in groupby(enumerate(good), lambda p: p[1]) if same]
        return max(runs, key=lambda places: (len(places), places)) if runs else []

    def ends(self, kept: Sequence[int]) -> tuple[int, int]:
        """The smallest and the largest of these sizes: beyond them others become faster."""
        first, last, best = kept[0], kept[-1], self.best()
        low = SIZES[0] if first == 0 else first_size_of_later(SIZES, best, self.own, first - 1)
        high = SIZES[-1] if last + 1 == len(SIZES) else first_size_of_later(SIZES, self.own, best, last) - 1
        return low, high

    def gain(self, kept: Sequence[int]) -> str:
        """How much faster than the others it is at the size at which it gains most, and what the others are."""
        ratios = self._ratios()
        ratio, place = max((ratios[k] or Fraction(0), k) for k in kept)
        names = list(self.others)
        shapes = [name for name in names if name.startswith("NCCL")]
        planned = f" and what auto finds for {phrase(map(format_bytes, PLANNED))}" if len(names) > len(shapes) else ""
        faster = f"at {format_bytes(SIZES[place])} it is {float(ratio):.2f} times as fast as the best of them"
        return f"for these, the model of 'collc tune' finds {phrase(shapes)}{planned} at most 2 % faster; {faster}"

    def nearest(self) -> str:
        """The size for which the file comes closest to the others, and how close."""
        known = [(ratio, place) for place, ratio in enumerate(self._ratios()) if ratio is not None]
        if not known:
            return "its file serves none from 1KiB to 4GiB"
        ratio, place = max(known)
        fastest = min(
            (time, name) for name, times in self.others.items() for time in [times[place]] if time is not None
        )
        times = float(1 / max(ratio, Fraction(1, 10**6)))
        return f"at {format_bytes(SIZES[place])} it takes {times:.2f} times as long as {fastest[1]}"
