"""Elaboration of training loops: how the times of layers add up to the time of an iteration."""

from __future__ import annotations

from fractions import Fraction

from collc.base.wording import did_you_mean, listed
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.parsing.expressions import Binary, Call, Expr, Name
from collc.source.problems import fail
from collc.source.types import NUMBERS
from collc.ten.training import LOOP_TIMES, LOOPS, LoopNode


def loop_node(node: Expr, frame: Frame, evaluator: Evaluator) -> LoopNode:
    """The training loop of an expression. Raises SourceError E0905 for anything but sums, maxima and multiples."""
    match node:
        case Name(name=name) if name in LOOPS:
            return LOOPS[name]
        case Name(name=name) if name in LOOP_TIMES:
            return LoopNode("time", name=name)
        case Name(name=name):
            known = (*LOOPS, *LOOP_TIMES)
            hint = did_you_mean(name, known, f"there are {listed(known)}")
            raise fail("E0905", f"a training loop has no time '{name}'", node.span, hint=hint)
        case Binary(operator="+"):
            return LoopNode("add", tuple(loop_node(part, frame, evaluator) for part in (node.left, node.right)))
        case Binary(operator="*"):
            return _multiple(node, frame, evaluator)
        case Call() if node.function.name in ("max", "sum"):
            return _call(node, frame, evaluator)
        case _:
            hint = "write sums, max(...), sum(...) over all layers, and multiples: 2 * forward_compute"
            raise fail("E0905", "a training loop cannot contain this", node.span, hint=hint)


def _multiple(node: Binary, frame: Frame, evaluator: Evaluator) -> LoopNode:
    """A product with a number on its left."""
    value = evaluator.value(node.left, frame)
    if value.type.kind not in NUMBERS or Fraction(value.data) < 0:
        raise fail("E0905", "a time is multiplied by a number of 0 or more", node.left.span)
    return LoopNode("scale", (loop_node(node.right, frame, evaluator),), factor=Fraction(value.data))


def _call(node: Call, frame: Frame, evaluator: Evaluator) -> LoopNode:
    """`max(a, b, ...)` or `sum(a)`."""
    name = node.function.name
    parts = [loop_node(argument.value, frame, evaluator) for argument in node.arguments if argument.name is None]
    if len(parts) != len(node.arguments) or not parts or (name == "sum" and len(parts) > 1):
        wanted = "one time" if name == "sum" else "times"
        raise fail("E0905", f"'{name}' takes {wanted} without names", node.span)
    if any(_has_sum(part) for part in parts) and name == "sum":
        raise fail("E0905", "a 'sum' over all layers cannot contain another one", node.span)
    if name == "sum":
        return LoopNode("sum", tuple(parts))
    return parts[0] if len(parts) == 1 else LoopNode("max", tuple(parts))


def _has_sum(node: LoopNode) -> bool:
    return node.operation == "sum" or any(_has_sum(part) for part in node.parts)
