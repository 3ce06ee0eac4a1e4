"""Sections of a report about designs: the bandwidths, and what other budgets would bring (the figures of LIBRA)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collc.application.design.designs import DesignReport, problem_of, solved_design
from collc.base.diagnostics import Exit, NoSchedule, SourceError, fold_repeated, render
from collc.base.tables import Table
from collc.base.units import format_time
from collc.base.wording import plural
from collc.design.comparison import Alternative, Communication, compare_designs
from collc.design.optimize import optimum
from collc.design.problem import DesignProblem, NoDesign, Row
from collc.pictures.charts import Axis, Bars, Series, bar_chart, line_chart, number_label, percent_label, rate_label
from collc.pictures.network_picture import network_picture
from collc.pictures.page import Block, Facts, Figure, Panel, Remarks, Section
from collc.pictures.picture import Picture
from collc.source.program import DesignRequest

_FACTORS: Final = tuple(2 ** (k / 2) for k in range(-4, 5))
"""Other budgets, as multiples of the one of the design."""

_GIGA: Final = 1e9


@dataclass(frozen=True, slots=True)
class Budgets:
    """What the design is at other budgets.

    label: what the budget is. text: of its values. points: budgets with the choices at each, the optimum first.
    missing: how many budgets have no solution.
    """

    label: str
    text: Callable[[float], str]
    points: Sequence[tuple[float, Sequence[Alternative]]]
    missing: int


@dataclass(frozen=True, slots=True)
class DesignSubject:
    """A solved design with its dimensions in words. budgets: None if no constraint is a budget."""

    request: DesignRequest
    report: DesignReport
    dimensions: tuple[str, ...]
    budgets: Budgets | None


def design_subject(request: DesignRequest) -> DesignSubject:
    """Solve a design at its budget and at others. Raises SourceError or NoSchedule if it has no solution."""
    report = solved_design(replace(request, emits=()))
    if not report.choices:
        raise (NoSchedule if report.exit is Exit.NO_SCHEDULE else SourceError)(*report.diagnostics)
    names = tuple(f"{k}: {d.kind} of {d.size}" for k, d in enumerate(report.dimensions))
    return DesignSubject(request, report, names, _budgets(*problem_of(request), report.choices))


def _budgets(problem: DesignProblem, communication: Communication, solved: Sequence[Alternative]) -> Budgets | None:
    """The design with the first constraint that limits all bandwidths at multiples of its limit.

    solved: the choices at the limit itself.
    """
    number = next(
        (k for k, row in enumerate(problem.rows) if row.limit > 0 and bool((row.coefficients > 0).all())), None
    )
    if number is None:
        return None
    points: list[tuple[float, Sequence[Alternative]]] = []
    label, text, unit = _measure(problem, problem.rows[number])
    for factor in _FACTORS:
        rows = list(problem.rows)
        rows[number] = replace(rows[number], limit=rows[number].limit * factor)
        other = replace(problem, rows=tuple(rows))
        try:
            choices = solved if factor == 1 else compare_designs(other, communication, optimum(other).bandwidth)
        except NoDesign:
            continue
        points.append((rows[number].limit * unit, choices))
    return Budgets(label, text, points, len(_FACTORS) - len(points))


def _measure(problem: DesignProblem, row: Row) -> tuple[str, Callable[[float], str], float]:
    """What a budget counts: its label, the text of a value, and the value for a limit of 1."""
    if bool((row.coefficients == row.coefficients[0]).all()):
        return "bandwidth of an NPU, all dimensions", rate_label, _GIGA / float(row.coefficients[0])
    per_dollar = row.coefficients / problem.unit_cost
    if float(per_dollar.max()) <= float(per_dollar.min()) * (1 + 1e-9):
        return "cost of the network", lambda value: f"${number_label(value)}", 1 / float(per_dollar[0])
    return "limit, relative to that of the design", number_label, 1 / row.limit


def _label(choice: Alternative) -> str:
    return choice.name if choice.allowed else f"{choice.name} (not allowed)"


def bandwidths_picture(subject: DesignSubject) -> Picture:
    """The bandwidth of each dimension, of the optimum and the closed forms."""
    return bar_chart(
        subject.dimensions,
        [Bars(_label(choice), [rate * _GIGA for rate in choice.bandwidth]) for choice in subject.report.choices],
        title="Bandwidth per dimension",
        value=Axis("bandwidth of an NPU", text=rate_label),
    )


def budgets_picture(subject: DesignSubject) -> Picture | None:
    """The bandwidth of each dimension of the optimum over budgets."""
    budgets = subject.budgets
    if budgets is None:
        return None
    series = [
        Series(name, [(budget, choices[0].bandwidth[k] * _GIGA) for budget, choices in budgets.points])
        for k, name in enumerate(subject.dimensions)
    ]
    x = Axis(budgets.label, "log2", budgets.text, [budget for budget, _ in budgets.points])
    y = Axis("bandwidth of an NPU", text=rate_label)
    return line_chart(series, title="Bandwidth per dimension over budgets", x=x, y=y)


def _ratios(subject: DesignSubject, title: str, label: str, value: Callable[[Alternative], float]) -> Picture | None:
    """A ratio to equal bandwidths over budgets, for the optimum and each closed form."""
    budgets = subject.budgets
    if budgets is None:
        return None
    curves: dict[str, list[tuple[float, float]]] = {choice.name: [] for choice in subject.report.choices}
    for budget, alternatives in budgets.points:
        for choice in alternatives:
            curves[choice.name].append((budget, value(choice)))
    labels = {choice.name: _label(choice) for choice in subject.report.choices}
    series = [Series(labels[name], points) for name, points in curves.items()]
    x = Axis(budgets.label, "log2", budgets.text, [budget for budget, _ in budgets.points])
    return line_chart(series, title=title, x=x, y=Axis(label))


def speedup_picture(subject: DesignSubject) -> Picture | None:
    """The speed-up over equal bandwidths, over budgets."""
    return _ratios(subject, "Speed-up over equal bandwidths", "time of equal / time", lambda choice: choice.speedup)


def performance_picture(subject: DesignSubject) -> Picture | None:
    """The performance per cost over equal bandwidths, over budgets."""
    title, label = "Performance per cost over equal bandwidths", "time * cost of equal / time * cost"
    return _ratios(subject, title, label, lambda choice: choice.performance_per_cost)


def design_section(subject: DesignSubject) -> Section:
    """The section of a report about a design."""
    request, report = subject.request, subject.report
    workloads = ", ".join(trained.workload.name for trained in request.train)
    summary = (
        f"minimize {report.objective} for {workloads} on {report.topology} ({plural(len(request.network.npus), 'NPU')})"
    )
    utilisation = bar_chart(
        subject.dimensions,
        [Bars(_label(choice), choice.utilisation) for choice in report.choices],
        title="Utilisation per dimension",
        value=Axis("share of the communication time in which it sends", text=percent_label),
    )
    panels = [
        Panel("Summary", _summary(report)),
        Panel("Bandwidths", [Figure(bandwidths_picture(subject)), Figure(utilisation)]),
    ]
    drawn = (budgets_picture(subject), speedup_picture(subject), performance_picture(subject))
    figures = [Figure(picture) for picture in drawn if picture is not None]
    if subject.budgets is not None and figures:
        missing = f" {plural(subject.budgets.missing, 'budget')} have no solution." if subject.budgets.missing else ""
        note = f"The design at other budgets; the other constraints stay.{missing}"
        panels.append(Panel("Budgets", [replace(figures[0], caption=note), *figures[1:]]))
    panels.append(Panel("Network", [Figure(network_picture(request.network, title="Topology"), "Numbers are ranks.")]))
    return Section(request.name, summary, ("solved", "ok"), panels)


def _summary(report: DesignReport) -> list[Block]:
    best = report.choices[0]
    facts = [
        ("training iteration", format_time(round(best.time * 1000)), "sum of all workloads, by weight"),
        ("cost of the network", f"${best.cost:,.0f}", ""),
        ("speed-up", f"{best.speedup:.3f}", "over equal bandwidths"),
        ("performance per cost", f"{best.performance_per_cost:.3f}", "over equal bandwidths"),
        ("proved gap", f"{report.gap:.1e}", "no design is better by more"),
    ]
    choices = report.table(compare=True)
    rows = [row[1:-1] for row in choices.rows]
    blocks: list[Block] = [Facts(facts), Table(choices.columns[1:-1], rows, "Choices")]
    if report.diagnostics:
        blocks.append(Remarks("Messages", [render((m,)) for m in fold_repeated(report.diagnostics)], code=True))
    return blocks
