"""Elaboration of `verify` statements: the checks that they request."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from collc.base.diagnostics import SourceError
from collc.base.wording import did_you_mean, listed
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.parsing.expressions import Binary, Comparison, Expr, FloatLiteral, IntLiteral, Name
from collc.source.problems import fail
from collc.source.program import CheckRequest
from collc.source.types import FLOAT, NUMBER, NUMBERS, TIME, Type

CHECKS: Final = (
    "causality",
    "congestion_free",
    "delivered",
    "reductions",
    "switches",
    "optimal",
    "proved",
)
MEASURES: Final = ("time", "steps")
_MIRRORED: Final = {"<": ">", "<=": ">=", "==": "==", ">=": "<=", ">": "<"}


def check_request(node: Expr, frame: Frame, evaluator: Evaluator) -> CheckRequest:
    """The request of one check: a name, or a comparison of `time` or `steps` with a limit. Raises SourceError."""
    if isinstance(node, Name):
        if node.name not in CHECKS:
            hint = did_you_mean(node.name, (*CHECKS, *MEASURES), f"there are {listed(CHECKS)}")
            if node.name in MEASURES:
                hint = f"compare it: {node.name} <= ..."
            raise fail("E0612", f"unknown check '{node.name}'", node.span, hint=hint)
        return CheckRequest(node.name, node.span)
    if not isinstance(node, Comparison) or len(node.operators) != 1 or node.operators[0] not in _MIRRORED:
        raise fail(
            "E0613", "a check must be a name, or compare time or steps with a limit", node.span, hint="time <= 2ms"
        )
    left, right = node.operands
    operator = node.operators[0]
    if not _is_measure(left):
        left, right, operator = right, left, _MIRRORED[operator]
    if not isinstance(left, Name) or left.name not in MEASURES:
        raise fail(
            "E0613", "a check must compare time or steps with a limit", node.span, hint="time <= 2ms, steps <= 4"
        )
    factor = _of_bound(right, frame, evaluator)
    if factor is not None:
        if left.name == "steps":
            raise fail("E0210", "'steps' is a number, but 'bound' is a time", node.span, hint="time <= 1.05 * bound")
        return CheckRequest(left.name, node.span, operator, factor, of_bound=True)
    wanted = TIME if left.name == "time" else NUMBER
    value = evaluator.value(right, frame)
    if value.type.kind is not wanted.kind and not (wanted is NUMBER and value.type.kind in NUMBERS):
        raise _wrong_unit(left.name, operator, value.type, right, node)
    return CheckRequest(left.name, node.span, operator, Fraction(value.data))


def _is_measure(node: Expr) -> bool:
    return isinstance(node, Name) and node.name in MEASURES


def _wrong_unit(measure: str, operator: str, given: Type, limit: Expr, node: Expr) -> SourceError:
    """The error for a limit of `time` that is no time, or one of `steps` that is no number."""
    if measure == "steps":
        return fail("E0210", f"'steps' is a number, this limit is {given}", node.span, hint="steps <= 4")
    if given.kind not in NUMBERS:
        return fail("E0210", f"'time' is a time, this limit is {given}", node.span, hint="time <= 2ms")
    number = limit.span.text
    limit_with_unit = f"{number}us" if isinstance(limit, IntLiteral | FloatLiteral) else f"({number}) * 1us"
    hint = f"write time {operator} {limit_with_unit}, or another unit"
    return fail("E0210", f"a time needs a unit, this is {given}", limit.span, hint=hint)


def _of_bound(node: Expr, frame: Frame, evaluator: Evaluator) -> Fraction | None:
    """The factor of `1.05 * bound`, None where an expression is not a multiple of the bound."""
    if isinstance(node, Name) and node.name == "bound" and frame.find("bound") is None:
        return Fraction(1)
    if isinstance(node, Binary) and node.operator in ("*", "/"):
        for inner, other in ((node.left, node.right), (node.right, node.left)):
            factor = _of_bound(inner, frame, evaluator) if isinstance(inner, Name | Binary) else None
            if factor is None or (node.operator == "/" and inner is node.right):
                continue
            value = evaluator.wanted(other, frame, FLOAT, "a multiple of the bound")
            number = Fraction(value.data)
            if node.operator == "/" and number == 0:
                raise fail("E0217", "division by zero", node.span)
            return factor * number if node.operator == "*" else factor / number
    return None
