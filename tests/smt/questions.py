"""Questions for Z3 that several tests ask."""

from __future__ import annotations

from collc.smt.script import Script, any_of


def pigeons(holes: int) -> Script:
    """A question that takes much work: whether holes + 1 pigeons have a hole each."""
    script = Script("QF_UF")
    rows = [[script.declare(f"p{i}_{j}") for j in range(holes)] for i in range(holes + 1)]
    for row in rows:
        script.require(any_of(row))
    for column in zip(*rows, strict=True):
        script.at_most(1, column)
    return script
