"""The report of solved designs: for programs as JSON, for people as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from collc.application.reports import Reports, html_of
from collc.base.diagnostics import Diagnostic, Exit
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_time
from collc.graph.dimensions import KINDS

if TYPE_CHECKING:
    from collc.design.comparison import Alternative
    from collc.design.problem import NetworkDimension


def _rates(bandwidth: Sequence[float]) -> str:
    return "  ".join(f"{rate:.1f}" if rate >= 0.05 else f"{rate:.2g}" for rate in bandwidth)


def _time(nanoseconds: float) -> str:
    return format_time(Fraction(round(nanoseconds * 1000)))


def _round_to_nine_digits(value: float | Sequence[float]) -> float | list[float]:
    """Nine significant digits: what the solver finds beyond them differs between processors."""
    if isinstance(value, Sequence):
        return [float(f"{number:.9g}") for number in value]
    return value if isinstance(value, bool) else float(f"{value:.9g}")


CHOICES: Final[Sequence[Column[Alternative]]] = (
    Column("choice", "", lambda choice: choice.name if choice.allowed else f"{choice.name} (not allowed)"),
    Column("GB/s", "bandwidth_GBps", lambda choice: choice.bandwidth, _rates),
    Column("time", "time_ns", lambda choice: choice.time, _time),
    Column("cost", "cost", lambda choice: choice.cost, "${:,.2f}".format),
    Column("speed-up", "speedup", lambda choice: choice.speedup, "{:.3f}".format),
    Column("per cost", "performance_per_cost", lambda choice: choice.performance_per_cost, "{:.3f}".format),
    Column("utilisation", "utilisation", lambda c: c.utilisation, lambda v: "  ".join(f"{share:.1%}" for share in v)),
    Column("", "allowed", lambda choice: choice.allowed),
)
"""The columns of the choices of bandwidths, and their keys in `design --json`."""


@dataclass(frozen=True, slots=True, repr=False)
class DesignReport:
    """The report of one design. Fields that the command did not reach are empty.

    dimensions: of the network. choices: the optimum first, then the closed forms. gap: by how much any other design
    could be better, relative to the objective. left_out: the reason why a closed form does not apply, by its name.
    files: what was written.
    """

    name: str
    topology: str
    objective: str
    dimensions: tuple[NetworkDimension, ...] = ()
    choices: tuple[Alternative, ...] = ()
    gap: float = 0.0
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    files: tuple[Path, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    exit: Exit = Exit.DONE

    @property
    def ok(self) -> bool:
        """Whether the design was solved and its files were written."""
        return self.exit is Exit.DONE

    @property
    def optimum(self) -> Alternative:
        """The best bandwidths, with their time, cost and comparison with equal ones. Raises ValueError without any."""
        if not self.choices:
            raise ValueError(f"design '{self.name}' has no solution")
        return self.choices[0]

    @property
    def alternatives(self) -> dict[str, Alternative]:
        """The closed forms that apply, by name: "equal", "message" and "smart"."""
        return {choice.name: choice for choice in self.choices[1:]}

    def __repr__(self) -> str:
        if not self.choices:
            return f"<DesignReport {self.name}: no solution>"
        best = self.choices[0]
        return f"<DesignReport {self.name}: [{_rates(best.bandwidth)}] GB/s, {_time(best.time)}, ${best.cost:,.2f}>"

    def _repr_html_(self) -> str:
        return html_of(self.table(compare=True), self.diagnostics)

    def as_json(self, *, compare: bool = False) -> dict[str, object]:
        """One element of "designs" in `design --json`. Keys that are here are never removed or renamed."""
        rows = [
            {key: _round_to_nine_digits(value) for key, value in row.items()}
            for row in records_of(CHOICES, self.choices)
        ]
        answer: dict[str, object] = {
            "name": self.name,
            "topology": self.topology,
            "objective": self.objective,
            "dimensions": [
                {
                    "kind": dimension.kind,
                    "npus": dimension.size,
                    "tier": dimension.tier,
                    "cost_per_GBps": _round_to_nine_digits(float(dimension.unit_cost)),
                }
                for dimension in self.dimensions
            ],
            **(rows[0] | {"gap": float(f"{self.gap:.1e}")} if rows else {}),
            "files": [str(path) for path in self.files],
        }
        if compare:
            answer["alternatives"] = [{"name": c.name, **row} for c, row in zip(self.choices, rows, strict=True)][1:]
            answer["left_out"] = dict(self.left_out)
        return answer

    def table(self, *, compare: bool = False) -> Table:
        """The optimum, and with `compare` the closed forms, also those that do not apply."""
        choices = table_of(CHOICES, self.choices if compare else self.choices[:1])
        one = len(self.dimensions) == 1 and self.dimensions[0].kind not in KINDS
        rows = [(self.name, *row, "-") for row in choices.rows]
        if rows and self.files:
            rows[0] = (*rows[0][:-1], ", ".join(map(str, self.files)))
        if one:
            rows = [(name, choice, f"{rates} (as one dimension)", *rest) for name, choice, rates, *rest in rows]
        without = self.left_out.items() if compare else ()
        rows += [(self.name, f"{name} ({reason})", *"-------") for name, reason in without]
        return Table(("design", *choices.columns, "files"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class DesignsReport(Reports[DesignReport]):
    """The report of all designs of a program, by name or in order."""

    noun: ClassVar[str] = "design"
    designs: tuple[DesignReport, ...]

    @property
    def parts(self) -> tuple[DesignReport, ...]:
        """The designs."""
        return self.designs

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All messages."""
        return tuple(message for design in self.designs for message in design.diagnostics)

    @property
    def all_diagnostics(self) -> tuple[Diagnostic, ...]:
        """All messages."""
        return self.diagnostics

    def as_json(self, *, compare: bool = False) -> dict[str, object]:
        """The object that `design --json` prints."""
        return {"designs": [design.as_json(compare=compare) for design in self.designs]}

    def table(self, *, compare: bool = True) -> Table:
        """The rows of all designs."""
        tables = [design.table(compare=compare) for design in self.designs]
        return Table(tables[0].columns, [row for table in tables for row in table.rows])
