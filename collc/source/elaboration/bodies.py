"""Executes bodies of statements for all iterations of a loop nest at once.

The results have the order in which the statements would run one after another, iteration by iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.values import Frame
from collc.source.parsing.syntax import For, If, Let, Statement
from collc.ten.arrays import Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class BodyRows:
    """The items that statements produced: links, chunks or sends.

    row: int64[items], ascending, the iteration that produced each. table: int64[items, columns], the items.
    """

    row: Int64Array
    table: Int64Array


StatementHandler = Callable[[Statement, Frame], BodyRows | None]


def execute_body(
    statements: Sequence[Statement], frame: Frame, evaluator: Evaluator, handle: StatementHandler
) -> BodyRows | None:
    """The items that a body produces in all iterations of a frame, ordered by iteration, then by statement.

    frame: a frame of the body's own (see Frame.inner), to which `let` statements add names. handle: executes all
    statements other than loops, conditions and lets. Raises SourceError.
    """
    if frame.rows == 0:
        return None
    parts: list[BodyRows] = []
    for statement in statements:
        rows = _statement(statement, frame, evaluator, handle)
        if rows is not None and len(rows.row):
            parts.append(rows)
    return _merge_rows(parts)


def _statement(statement: Statement, frame: Frame, evaluator: Evaluator, handle: StatementHandler) -> BodyRows | None:
    match statement:
        case Let():
            frame.names[statement.name.name] = evaluator.value(statement.value, frame)
            return None
        case For():
            inner = evaluator.loop(statement.clauses, statement.condition, frame)
            made = execute_body(statement.body, inner.inner(), evaluator, handle)
            return _lift_rows(made, inner, frame)
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
            inner = frame.select_rows(chosen)
            made = _lift_rows(execute_body(body, inner, evaluator, handle), inner, frame)
            if made is not None:
                parts.append(made)
    return _merge_rows(parts)


def _lift_rows(made: BodyRows | None, inner: Frame, outer: Frame) -> BodyRows | None:
    """Items of an inner frame as items of an outer one: each with the iteration of the outer frame."""
    return None if made is None else BodyRows(inner.rows_in(outer)[made.row], made.table)


def _merge_rows(parts: list[BodyRows]) -> BodyRows | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    row = np.concatenate([p.row for p in parts])
    table = np.concatenate([p.table for p in parts])
    if int(row.max()) == 0:
        return BodyRows(row, table)
    order = np.argsort(row, kind="stable")
    return BodyRows(row[order], table[order])
