"""The files for solvers of linear and quadratic programs: CPLEX LP and MPS.

The time is in ms, the cost in thousands of dollars; a maximum is a time over the largest number in it, so that no
coefficient is far from 1.

The set of files of one design.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from collc.design.problem import ExactRow
from collc.design.time_expression import Maximum, TimeExpression, maxima_of
from collc.emit.libra.inputs import input_files, obstacle
from collc.emit.libra.model import LibraModel, json_text
from collc.emit.libra.smt import smt_text


def libra_files(model: LibraModel) -> dict[str, str]:
    """The texts of all files by their names in the folder; without LIBRA's own inputs if it cannot read them."""
    name = model.name
    found = {
        f"{name}.libra.json": json_text(model),
        f"{name}.lp": lp_text(model),
        f"{name}_deadline.mps": mps_text(model),
        f"{name}.smt2": smt_text(model),
    }
    if obstacle(model) is None:
        found |= {f"{name}/{file}": text for file, text in input_files(model).items()}
    return found


MEGA: Final = 10**6
KILO: Final = 10**3
ROUNDED_DOWN: Final = 1 - 1e-9
"""Factor of the lower limits: the solution satisfies the constraints up to its own rounding errors."""
_MPS_TYPES: Final = {"<=": "L", ">=": "G", "==": "E"}


def lp_text(model: LibraModel) -> str:
    """NAME.lp: the whole problem in the LP format of CPLEX, with B_i x_i >= 1 as quadratic rows.

    B_i is the bandwidth of dimension i, x_i at least 1 / B_i, m_k a maximum, T the time and C the cost.
    """
    maxima = maxima_of(model.time)
    rows = [f" time: T{_minus(model.time, maxima, MEGA)} >= {_decimal(model.time.constant / MEGA)}"]
    for option, k in [(option, k) for maximum, k in maxima.items() for option in maximum.options]:
        rows.append(f" m{k}_option: m{k}{_minus(option, maxima)} >= {_decimal(option.constant)}")
    cost = "".join(f" - {_decimal(d.unit_cost / KILO)} B{k}" for k, d in enumerate(model.dimensions))
    rows.append(f" cost: C{cost} = 0")
    for k, row in enumerate(map(_scale_row, model.rows)):
        left = "".join(_term(value, f"B{i}") for i, value in enumerate(row.coefficients) if value)
        rows.append(f" require{k}:{left} {row.operator.replace('==', '=')} {_decimal(row.limit)}")
    if model.deadline is not None:
        rows.append(f" deadline: T <= {_decimal(model.deadline / MEGA)}")
    rows += [f" reciprocal{k}: [ B{k} * x{k} ] >= 1" for k, used in enumerate(model.time.has_traffic) if used]
    objective = {"time": "T", "cost": "C"}.get(model.objective, "[ 2 T * C ] / 2")
    names = ["T", "C", *(f"B{k}" for k in range(len(model.dimensions)))]
    return "\n".join(
        [
            f"\\ Design {model.name}: bandwidths B in GB/s, time T in ms, cost C in thousands of dollars",
            "Minimize",
            f" objective: {objective}",
            "Subject To",
            *_with_distinct_names(rows),
            "Bounds",
            *(f" {name} >= 0" for name in names),
            "End",
            "",
        ]
    )


def _with_distinct_names(rows: list[str]) -> list[str]:
    """The rows with distinct names."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for row in rows:
        name, _, rest = row.partition(":")
        seen[name] = seen.get(name, 0) + 1
        found.append(row if seen[name] == 1 else f"{name}_{seen[name]}:{rest}")
    return found


def _minus(time: TimeExpression, maxima: Mapping[Maximum, int], unit: int = 1) -> str:
    """A time without its constant, divided by `unit` and subtracted: " - 3 x0 - 2 m1"."""
    sizes = [_term(-size / unit, f"x{k}") for k, size in enumerate(time.bytes) if size]
    return "".join([*sizes, *(_term(-weight / unit, f"m{maxima[maximum]}") for weight, maximum in time.maxima)])


def _scale_row(row: ExactRow) -> ExactRow:
    """A constraint whose largest coefficient is 1 or -1."""
    scale = max(abs(value) for value in row.coefficients)
    return replace(row, coefficients=tuple(value / scale for value in row.coefficients), limit=row.limit / scale)


def mps_text(model: LibraModel) -> str:
    """NAME_deadline.mps: the least cost at which each communication is as fast as in the solution, a pure LP.

    A communication of a bytes in dimension i that ends after t needs B_i >= a / t. The constraints of the design hold
    too, so that the optimum of `cost` and of `time * cost` is an optimum of this program.
    """
    rounding = ROUNDED_DOWN if model.rows else 1.0
    floors = [floor * rounding for floor in deadline_floors(model)]
    rows = [_scale_row(row) for row in model.rows]
    lines = [f"NAME          {model.name[:60]}", "ROWS", " N  cost"]
    lines += [f" G  floor{k}" for k in range(len(floors))]
    lines += [f" {_MPS_TYPES[row.operator]}  require{k}" for k, row in enumerate(rows)]
    lines.append("COLUMNS")
    for k, dimension in enumerate(model.dimensions):
        lines.append(f"    B{k}  cost  {_decimal(dimension.unit_cost / KILO)}")
        lines.append(f"    B{k}  floor{k}  1")
        entries = [(i, row.coefficients[k]) for i, row in enumerate(rows) if row.coefficients[k]]
        lines += [f"    B{k}  require{i}  {_decimal(value)}" for i, value in entries]
    lines.append("RHS")
    lines += [f"    RHS  floor{k}  {_decimal(Fraction(floor))}" for k, floor in enumerate(floors)]
    lines += [f"    RHS  require{k}  {_decimal(row.limit)}" for k, row in enumerate(rows)]
    return "\n".join([*lines, "ENDATA", ""])


def deadline_floors(model: LibraModel) -> tuple[float, ...]:
    """The least bandwidth of each dimension in GB/s at which no communication is slower than in the solution."""
    floors = [0.0] * len(model.dimensions)

    def visit(time: TimeExpression, limit: float | None) -> None:
        """limit: the time in ns that a lone communication may take; None: as long as in the solution."""
        sent = [k for k, size in enumerate(time.bytes) if size]
        for k in sent:
            if limit is not None and len(sent) == 1 and not time.maxima:
                floors[k] = max(floors[k], float(time.bytes[k]) / (limit - float(time.constant)))
            else:
                floors[k] = max(floors[k], model.bandwidth[k])
        for _, maximum in time.maxima:
            for option in maximum.options:
                visit(option, maximum.value(model.bandwidth))

    visit(model.time, None)
    return tuple(floors)


def _term(value: Fraction, name: str) -> str:
    return f" {'-' if value < 0 else '+'} {_decimal(abs(value))} {name}"


def _decimal(value: Fraction) -> str:
    """A number in floating point, with as few digits as give it back."""
    return repr(float(value)).removesuffix(".0")
