"""The report of solved designs: for programs as JSON, for people as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collc.base.diagnostics import CollcError, Diagnostic, Exit, NoSchedule, SourceError
from collc.base.html import html_table
from collc.base.rendering import render
from collc.base.units import format_time
from collc.base.wording import did_you_mean, listed
from collc.graph.network_axes import KINDS

if TYPE_CHECKING:
    from collc.design.comparison import Alternative
    from collc.design.dimensions import NetworkDimension

COLUMNS: Final = ("design", "choice", "GB/s", "time", "cost", "speed-up", "per cost", "utilisation", "files")
"""The columns of the table of designs; `DesignReport.rows` are its rows."""


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
        rates, time = _rates(best.bandwidth), format_time(Fraction(round(best.time * 1000)))
        return f"<DesignReport {self.name}: [{rates}] GB/s, {time}, ${best.cost:,.2f}>"

    def _repr_html_(self) -> str:
        return html_table(COLUMNS, self.rows(compare=True), _remarks(self.diagnostics))

    def solved(
        self,
        dimensions: tuple[NetworkDimension, ...],
        choices: tuple[Alternative, ...],
        gap: float,
        left_out: Mapping[str, str],
    ) -> DesignReport:
        """The report with a solution."""
        return replace(self, dimensions=dimensions, choices=choices, gap=float(gap), left_out=left_out)

    def failed(self, error: CollcError) -> DesignReport:
        """The report with an error."""
        return replace(self, diagnostics=(*self.diagnostics, *error.diagnostics), exit=error.exit)

    def as_json(self, *, compare: bool = False) -> dict[str, object]:
        """One element of "designs" in `design --json`. Keys that are here are never removed or renamed."""
        found: dict[str, object] = {
            "name": self.name,
            "topology": self.topology,
            "objective": self.objective,
            "dimensions": [
                {
                    "kind": d.kind,
                    "npus": d.size,
                    "tier": d.tier,
                    "cost_per_GBps": _round_to_nine_digits(float(d.unit_cost)),
                }
                for d in self.dimensions
            ],
        }
        if self.choices:
            found |= _choice_json(self.choices[0])
            found["gap"] = float(f"{self.gap:.1e}")
        found["files"] = [str(path) for path in self.files]
        if compare:
            found["alternatives"] = [{"name": choice.name, **_choice_json(choice)} for choice in self.choices[1:]]
            found["left_out"] = dict(self.left_out)
        return found

    def _dimension_remark(self) -> str:
        """What the table says beside bandwidths of a network whose dimensions are not known."""
        one = len(self.dimensions) == 1 and self.dimensions[0].kind not in KINDS
        return " (as one dimension)" if one else ""

    def rows(self, *, compare: bool = False) -> list[tuple[str, ...]]:
        """The rows of the table under `COLUMNS`: the optimum, and with `compare` the closed forms."""
        solved = [
            (
                self.name,
                choice.name if choice.allowed else f"{choice.name} (not allowed)",
                _rates(choice.bandwidth) + self._dimension_remark(),
                format_time(Fraction(round(choice.time * 1000))),
                f"${choice.cost:,.2f}",
                f"{choice.speedup:.3f}",
                f"{choice.performance_per_cost:.3f}",
                "  ".join(f"{share:.1%}" for share in choice.utilisation),
                ", ".join(str(path) for path in self.files) or "-" if choice is self.choices[0] else "-",
            )
            for choice in (self.choices if compare else self.choices[:1])
        ]
        without = self.left_out.items() if compare else ()
        return [*solved, *((self.name, f"{name} ({reason})", *"-------") for name, reason in without)]


def _choice_json(choice: Alternative) -> dict[str, object]:
    return {
        "bandwidth_GBps": [_round_to_nine_digits(rate) for rate in choice.bandwidth],
        "time_ns": _round_to_nine_digits(choice.time),
        "cost": _round_to_nine_digits(choice.cost),
        "speedup": _round_to_nine_digits(choice.speedup),
        "performance_per_cost": _round_to_nine_digits(choice.performance_per_cost),
        "utilisation": [_round_to_nine_digits(share) for share in choice.utilisation],
        "allowed": choice.allowed,
    }


def _rates(bandwidth: Sequence[float]) -> str:
    return "  ".join(f"{rate:.1f}" if rate >= 0.05 else f"{rate:.2g}" for rate in bandwidth)


def _remarks(messages: Sequence[Diagnostic]) -> list[str]:
    return [render(messages)] if messages else []


def _round_to_nine_digits(value: float) -> float:
    """Nine significant digits: what the solver finds beyond them differs between processors."""
    return float(f"{value:.9g}")


@dataclass(frozen=True, slots=True, repr=False)
class DesignsReport:
    """The report of all designs of a program, by name or in order."""

    designs: tuple[DesignReport, ...]

    @property
    def exit(self) -> Exit:
        """The exit code of the first design that failed."""
        return next((d.exit for d in self.designs if d.exit is not Exit.DONE), Exit.DONE)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All messages."""
        return tuple(message for design in self.designs for message in design.diagnostics)

    def as_json(self, *, compare: bool = False) -> dict[str, object]:
        """The object that `design --json` prints."""
        return {"designs": [design.as_json(compare=compare) for design in self.designs]}

    @property
    def ok(self) -> bool:
        """Whether all designs were solved and written."""
        return self.exit is Exit.DONE

    def raise_if_failed(self) -> None:
        """Raise SourceError or NoSchedule with all errors where a design failed."""
        if not self.ok:
            errors = [message for message in self.diagnostics if not message.warning]
            raise (NoSchedule if self.exit is Exit.NO_SCHEDULE else SourceError)(*errors)

    def __len__(self) -> int:
        return len(self.designs)

    def __iter__(self) -> Iterator[DesignReport]:
        return iter(self.designs)

    def __getitem__(self, name: str | int) -> DesignReport:
        """The design of that name, or at that place. Raises KeyError, with the names that there are; IndexError."""
        if isinstance(name, int):
            return self.designs[name]
        for design in self.designs:
            if design.name == name:
                return design
        names = [design.name for design in self.designs]
        raise KeyError(f"no design is named '{name}'; {did_you_mean(name, names, f'the designs are {listed(names)}')}")

    def __repr__(self) -> str:
        return f"<DesignsReport: {', '.join(map(repr, self.designs))}>"

    def _repr_html_(self) -> str:
        rows = [row for design in self.designs for row in design.rows(compare=True)]
        return html_table(COLUMNS, rows, _remarks(self.diagnostics))
