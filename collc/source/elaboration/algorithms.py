"""Elaboration of algorithms written by hand: the sends of a run."""

from __future__ import annotations

import numpy as np

from collc.source import limits
from collc.source.elaboration.bodies import BodyRows, execute_body
from collc.source.elaboration.collectives import NamedChunks
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.values import Data, is_column
from collc.source.parsing.expressions import Expr
from collc.source.parsing.syntax import Algorithm, Statement, TransferStatement
from collc.source.problems import fail
from collc.source.types import INT, NPU
from collc.ten.algorithm import AlgorithmSends


def moves_of(
    node: Algorithm, frame: Frame, evaluator: Evaluator, chunks: NamedChunks, first_chunk: int
) -> AlgorithmSends:
    """The moves of an algorithm whose parameters are in a frame; first_chunk: of the run in its demand.

    Raises SourceError.
    """
    builder = _SendBuilder(evaluator, chunks)
    made = execute_body(node.body, frame.inner(), evaluator, builder.handle)
    table = made.table if made is not None else np.empty((0, 5), np.int64)
    return AlgorithmSends(
        chunk=(table[:, 0] + first_chunk).astype(np.int32),
        source=table[:, 1].astype(np.int32),
        target=table[:, 2].astype(np.int32),
        step=table[:, 3].astype(np.int32),
        reduce=table[:, 4].astype(np.bool_),
    )


class _SendBuilder:
    """The moves of one run under construction."""

    def __init__(self, evaluator: Evaluator, chunks: NamedChunks) -> None:
        self.evaluator = evaluator
        self.chunks = chunks
        self.count = 0

    def handle(self, statement: Statement, frame: Frame) -> BodyRows | None:
        """A `send` or `reduce` in all iterations of a frame; the columns are chunk, source, target, step, reduce."""
        assert isinstance(statement, TransferStatement)
        count = 1 if frame.rows is None else frame.rows
        self.count += count
        limits.check_count("iterations", self.count, statement.span)
        table = np.empty((count, 5), np.int64)
        table[:, 0] = self.chunks.find(statement.chunk, frame, self.evaluator)
        table[:, 1] = self.evaluator.wanted(statement.source, frame, NPU, "'from'").data
        table[:, 2] = self.evaluator.wanted(statement.target, frame, NPU, "'to'").data
        table[:, 3] = self.step(statement.step, frame)
        table[:, 4] = statement.kind == "reduce"
        same = table[:, 1] == table[:, 2]
        if same.any():
            row = int(np.argmax(same))
            message = f"this is a {statement.kind} from an NPU to itself"
            raise fail("E0502", message, statement.span, frame.note(row), hint="exclude this case with an 'if'")
        return BodyRows(np.arange(count, dtype=np.int64), table)

    def step(self, node: Expr | None, frame: Frame) -> Data:
        """The logical step of each iteration, -1 where the statement has none."""
        if node is None:
            return -1
        data = self.evaluator.wanted(node, frame, INT, "a step").data
        wrong = np.atleast_1d(np.asarray((data < 0) | (data >= 2**31)))
        if wrong.any():
            row = int(np.argmax(wrong))
            step = data[row] if is_column(data) else data
            raise fail(
                "E0503", f"step {step} is not possible: steps count from 0 to 2^31 - 1", node.span, frame.note(row)
            )
        return data
