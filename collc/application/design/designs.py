"""The designs of a program: solved, compared with closed forms, written to files, and reported as a table or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from collc.application.emit.libra_files import write_libra
from collc.application.reports import Reports, html_of
from collc.application.settings import OUTPUT_HINT
from collc.base.atomic_files import open_draft
from collc.base.diagnostics import (
    CollcError,
    Diagnostic,
    Exit,
    NoSchedule,
    Note,
    SourceError,
    SourceFile,
    Span,
    UsageError,
)
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_time
from collc.base.wording import did_you_mean, phrase
from collc.emit.kinds import EMIT_KINDS
from collc.graph.coordinates import KINDS
from collc.source.elaboration.elaborate import load_program
from collc.source.program import DesignRequest, Program

if TYPE_CHECKING:
    from collc.design.comparison import Alternative, Communication
    from collc.design.problem import DesignProblem, ExactRow, NetworkDimension, NoDesign


PICOSECONDS: Final = 1000
"""In a nanosecond."""

MODELLED: Final = ("ring", "fully_connected", "switched")
"""The kinds of dimensions that LIBRA has formulas and prices for."""

_LIKE_A_RING: Final = "timed and priced like a ring, as if all links of an NPU were always busy"


def solve_designs(
    source: Path | SourceFile, definitions: Mapping[str, str], only: str | None = None, output: Path = Path()
) -> DesignsReport:
    """Solve all designs of a program, or the one named `only`. Errors that concern one design are in its report.

    definitions: values of the program's params. output: folder that the files are written to. Raises SourceError if the
    program is wrong, if a kind of file is not for designs (U0205) or a folder is named twice (U0204); UsageError if the
    program has no design (of that name).
    """
    program = load_program(source, definitions)
    chosen = chosen_designs(program, only)
    if not chosen:
        hint = "a design says what to find: design d on t { train w  require sum(bandwidth) == 1TB/s  minimize time }"
        raise UsageError(Diagnostic("U0118", "the program has no design", hint=hint))
    taken: dict[str, Span] = {}
    for design, emit in [(wanted, emit) for wanted in chosen for emit in wanted.emits]:
        if not EMIT_KINDS[emit.kind].of_designs:
            hint = 'write: emit libra("pod/")'
            raise SourceError(Diagnostic("U0205", f"a design cannot be written as {emit.kind}", emit.span, hint=hint))
        main_file = str(Path(EMIT_KINDS[emit.kind].path(emit.path, design.name)))
        if main_file in taken:
            notes = (Note("the other is written here", taken[main_file]),)
            raise SourceError(Diagnostic("U0204", f"'{design.name}' is written twice to one folder", emit.span, notes))
        taken[main_file] = emit.span
    return DesignsReport(tuple(solved_design(request, output) for request in chosen))


def chosen_designs(program: Program, only: str | None) -> list[DesignRequest]:
    """All designs, or the one of a name. Raises UsageError U0118 if there is none of that name."""
    names = [design.name for design in program.designs]
    if only is not None and only not in names:
        hint = did_you_mean(only, names, f"there are {phrase(names)}" if names else "")
        raise UsageError(Diagnostic("U0118", f"the program has no design '{only}'", hint=hint))
    return [design for design in program.designs if only in (None, design.name)]


def solved_design(request: DesignRequest, output: Path | None = None) -> DesignReport:
    """Solve a design, compare it with closed forms and write its files. Errors are in the report."""
    from collc.design.comparison import compare_designs, left_out
    from collc.design.optimize import optimum
    from collc.design.problem import NoDesign

    warnings = _dimension_warnings(request)
    report = DesignReport(request.name, request.network.name, request.objective, diagnostics=warnings)
    try:
        problem, communication = problem_of(request)
        try:
            best = optimum(problem)
        except NoDesign as error:
            raise _no_design(error, request) from error
        choices = compare_designs(problem, communication, best.bandwidth)
        report = replace(
            report,
            dimensions=problem.dimensions,
            choices=choices,
            gap=float(best.gap),
            left_out=left_out(communication),
        )
        return _write_files(report, request, problem, output or Path())
    except CollcError as error:
        return replace(report, diagnostics=(*report.diagnostics, *error.diagnostics), exit=error.exit)


def _dimension_warnings(request: DesignRequest) -> tuple[Diagnostic, ...]:
    """Warnings E0923 about dimensions that are none of MODELLED, or have several switches between two NPUs."""
    network = request.network
    texts: list[tuple[str, str]] = []
    if not network.axes:
        text = f"the dimensions of '{network.name}' are not known: it is designed as one of {len(network.npus):,} NPUs"
        hint = "products of rings, fully_connected and switched networks have dimensions; so have meshes and tori"
        texts.append((f"{text}, {'priced like one switch' if network.has_switches else _LIKE_A_RING}", hint))
    for number, axis in enumerate(network.axes):
        if axis.kind not in MODELLED:
            text = f"dimension {number} of '{network.name}' is a {axis.kind} of {axis.size:,} NPUs, {_LIKE_A_RING}"
            known = axis.kind in KINDS
            texts.append(
                (text, "" if known else "write the factor as a product too: ring(4) * ring(4) for torus2d(4, 4)")
            )
    if bool(((network.source >= network.npu_count) & (network.target >= network.npu_count)).any()):
        text = f"links between switches of '{network.name}' have no price: a dimension costs what one switch does"
        texts.append((text, ""))
    return tuple(Diagnostic("E0923", text, request.network_span, hint=hint, warning=True) for text, hint in texts)


def _write_files(report: DesignReport, request: DesignRequest, problem: DesignProblem, output: Path) -> DesignReport:
    """The report with the files that were written."""
    from collc.design.training_time import training_time
    from collc.emit.libra.inputs import obstacle
    from collc.emit.libra.solver_files import LibraModel, TrainedTime

    if not request.emits:
        return report
    best = report.choices[0]
    deadline = min((d.time / PICOSECONDS for d in request.deadlines), default=None)
    model = LibraModel(
        request.name,
        problem.dimensions,
        problem.time,
        _exact_rows(request, problem.dimensions),
        deadline,
        request.objective,
        best.bandwidth,
        best.time,
        best.cost,
        request.prices,
        tuple(TrainedTime(t.workload, t.weight, training_time(t.workload, problem.dimensions)) for t in request.train),
    )
    with open_draft(OUTPUT_HINT) as draft:
        for emit in request.emits:
            write_libra(model, emit, output, draft)
        files = tuple(draft.publish())
    reason = obstacle(model)
    if reason is None:
        return replace(report, files=files)
    message = f"there are no files for LIBRA itself: {reason}"
    warning = Diagnostic("E0920", message, request.emits[0].span, hint="the other files are complete", warning=True)
    return replace(report, files=files, diagnostics=(*report.diagnostics, warning))


def _exact_rows(request: DesignRequest, dimensions: Sequence[NetworkDimension]) -> tuple[ExactRow, ...]:
    from collc.design.problem import exact_rows

    return exact_rows([r.constraint for r in request.constraints], [d.unit_cost for d in dimensions])


def problem_of(request: DesignRequest) -> tuple[DesignProblem, Communication]:
    """The design problem in numbers, and all communication of its workloads, by their weights."""
    import numpy as np

    from collc.design.comparison import Communication
    from collc.design.problem import DesignProblem, Objective, dimensions_of, rows_of, weighted_sum
    from collc.design.training_time import communication_time, group_traffic, training_time

    dimensions = dimensions_of(request.network, request.kind, request.tiers, request.prices)
    count = len(dimensions)
    unit_cost = np.array([float(d.unit_cost) for d in dimensions])
    weighted = [(t.weight, t.workload) for t in request.train]
    time = weighted_sum([(weight, training_time(w, dimensions)) for weight, w in weighted], count)
    deadline = min((d.time / PICOSECONDS for d in request.deadlines), default=None)
    problem = DesignProblem(
        dimensions,
        time,
        unit_cost,
        rows_of(_exact_rows(request, dimensions)),
        None if deadline is None else float(deadline),
        Objective(request.objective),
    )
    groups = [(float(weight), group_traffic(w, dimensions)) for weight, w in weighted]
    tensor, data = (
        tuple(sum(weight * float(group[side][k]) for weight, group in groups) for k in range(count)) for side in (0, 1)
    )
    whole = weighted_sum([(weight, communication_time(w, dimensions)) for weight, w in weighted], count)
    return problem, Communication(tensor, data, whole)


def _no_design(error: NoDesign, request: DesignRequest) -> CollcError:
    """The message about a design without a solution."""
    from collc.design.problem import NoDesignReason

    deadline = min(request.deadlines, key=lambda d: d.time, default=None)
    match error.reason:
        case NoDesignReason.INFEASIBLE:
            spans = list(dict.fromkeys(request.constraints[k].span for k in error.statements))
            message = f"no bandwidths satisfy all constraints of '{request.name}'"
            notes = tuple(
                Note("this contradicts the others" if len(spans) > 1 else "no bandwidths satisfy this", span)
                for span in spans[1:]
            )
            if error.dimensions:
                notes += (Note(f"dimension {error.dimensions[0]} has traffic, so its bandwidth must be more than 0"),)
            return NoSchedule(
                Diagnostic("E0917", message, spans[0], notes, "relax one of them; bandwidths are 0 or more")
            )
        case NoDesignReason.DEADLINE:
            assert deadline is not None
            least = format_time(Fraction(round(error.time * PICOSECONDS)))
            message = (
                f"'{request.name}' cannot meet its deadline: within the other constraints the least time is {least}"
            )
            return NoSchedule(Diagnostic("E0918", message, deadline.span, _notes(request, "this limits the network")))
        case NoDesignReason.UNBOUNDED:
            names = phrase([f"bandwidth[{k}]" for k in error.dimensions], "and")
            message = f"nothing limits {names}, and every increase reduces the time"
            hint = "add: require sum(bandwidth) == 1000GB/s"
        case NoDesignReason.NO_FLOOR:
            message = f"{request.objective} is least for a network without bandwidth"
            hint = "fix the sum (require sum(bandwidth) == 1000GB/s), or give a lower limit or a deadline"
        case NoDesignReason.NO_COMPUTE:
            message = "the workloads have no compute time, so that time * cost does not grow with the bandwidths"
            hint = "fix the sum: require sum(bandwidth) == 1000GB/s"
        case NoDesignReason.NUMBERS:
            message = f"the solver finds no bandwidths for '{request.name}', since its numbers are too far apart"
            hint = "leave out limits that no network reaches; a deadline must be well above the least time"
            notes = _notes(request, "this is a constraint of the design")
            return SourceError(Diagnostic("E0924", message, request.objective_span, notes, hint))
    notes = _notes(request, "this does not limit it")
    return SourceError(Diagnostic("E0919", message, request.objective_span, notes, hint))


def _notes(request: DesignRequest, text: str) -> tuple[Note, ...]:
    return tuple(Note(text, span) for span in dict.fromkeys(required.span for required in request.constraints))


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
        is_one_switch = len(self.dimensions) == 1 and self.dimensions[0].kind not in KINDS
        rows = [(self.name, *row, "-") for row in choices.rows]
        if rows and self.files:
            rows[0] = (*rows[0][:-1], ", ".join(map(str, self.files)))
        if is_one_switch:
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
