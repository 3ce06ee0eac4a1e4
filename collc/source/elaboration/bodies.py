"""Bodies executed for all iterations at once, with results in the order of a plain loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.parsing.syntax import For, If, Let, Statement
from collc.ten.arrays import Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class BodyRows:
    """What statements make.

    row: int64[items], ascending, the iteration that made each. table: int64[items, columns].
    """

    row: Int64Array
    table: Int64Array


StatementHandler = Callable[[Statement, Frame], BodyRows | None]


def execute_body(
    statements: Sequence[Statement], frame: Frame, evaluator: Evaluator, handle: StatementHandler
) -> BodyRows | None:
    """What a body makes in all iterations of a frame, in order of iteration, then of statement.

    frame: one of the body's own (see Frame.inner); lets go into it. handle: does everything that is
    no loop, condition or let. Raises SourceError.
    """
    if frame.rows == 0:
        return None
    parts: list[BodyRows] = []
    for statement in statements:
        part = _statement(statement, frame, evaluator, handle)
        if part is not None and len(part.row):
            parts.append(part)
    return _merged(parts)


def _statement(statement: Statement, frame: Frame, evaluator: Evaluator, handle: StatementHandler) -> BodyRows | None:
    match statement:
        case Let():
            frame.names[statement.name.name] = evaluator.value(statement.value, frame)
            return None
        case For():
            inner = evaluator.loop(statement.clauses, statement.condition, frame)
            made = execute_body(statement.body, inner.inner(), evaluator, handle)
            return _lifted(made, inner, frame)
        case If():
            return _branches(statement, frame, evaluator, handle)
        case _:
            return handle(statement, frame)


def _branches(statement: If, frame: Frame, evaluator: Evaluator, handle: StatementHandler) -> BodyRows | None:
    mask = evaluator.condition(statement.condition, frame)
    if not isinstance(mask, np.ndarray):
        return execute_body(statement.then if mask else statement.otherwise, frame.inner(), evaluator, handle)
    parts: list[BodyRows] = []
    for chosen, body in ((mask, statement.then), (~mask, statement.otherwise)):
        if body and chosen.any():
            inner = frame.where(chosen)
            made = _lifted(execute_body(body, inner, evaluator, handle), inner, frame)
            if made is not None:
                parts.append(made)
    return _merged(parts)


def _lifted(made: BodyRows | None, inner: Frame, outer: Frame) -> BodyRows | None:
    """With rows of an outer frame."""
    if made is None:
        return None
    row = made.row
    frame = inner
    while frame is not outer and frame.parent is not None:
        row = frame.up(row)
        frame = frame.parent
    return BodyRows(row, made.table)


def _merged(parts: list[BodyRows]) -> BodyRows | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    row = np.concatenate([p.row for p in parts])
    table = np.concatenate([p.table for p in parts])
    if int(row.max()) == 0:
        return BodyRows(row, table)
    order = np.argsort(row, kind="stable")
    return BodyRows(row[order], table[order])
