"""Results of send, recv and alltoallv, which a file does not define.

An alltoallv of equal blocks is an All-to-All. The pairs of a send or recv are derived from what the program does: a
rank that ends with the first chunk of another rank must end with all chunks of that rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collc.msccl.check.collectives import ExpectedResult, WantedChunk, wanted_copy
from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check.model import INPUT, OUTPUT, FileProgram
from collc.msccl.check.symbolic import CollectiveCall, execute
from collc.msccl.interpreter.replay import StepWaits

IMPLIED: Final = ("send", "recv", "alltoallv")
"""Collectives whose result is derived from the file."""


def implied(
    program: FileProgram, waits: StepWaits, order: Sequence[int], coll: str, findings: Findings
) -> ExpectedResult | None:
    """The result that the program must have; None, with a finding, if it can have none."""
    if coll == "alltoallv":
        return _equal_blocks(program, findings)
    return _pairs(program, waits, order, coll, findings)


def _equal_blocks(program: FileProgram, findings: Findings) -> ExpectedResult | None:
    ranks, total = program.ngpus, program.nchunksperloop
    uneven = (program.chunks[:, (INPUT, OUTPUT)] != total).any(axis=1)
    if uneven.any() or total % ranks:
        gpu = int(uneven.argmax())
        sizes = f"{program.chunks[gpu, INPUT]} input and {program.chunks[gpu, OUTPUT]} output chunks"
        text = f"ragged alltoallv: {sizes}, and the sizes of the blocks are not in the file"
        rule = f"nchunksperloop = {total} of each, the same number for each of the {ranks} ranks"
        findings.add(Finding("contract", "X0116", text, program.gpu_location(gpu), rule))
        return None
    wants: dict[tuple[int, int], WantedChunk] = {}
    for rank in range(ranks):
        copies = wanted_copy("alltoall", rank, ranks, total, -1) or ()
        wants.update({(rank, slot): WantedChunk(frozenset((copy,))) for slot, copy in enumerate(copies)})
    return ExpectedResult(wants)


def _pairs(
    program: FileProgram, waits: StepWaits, order: Sequence[int], coll: str, findings: Findings
) -> ExpectedResult | None:
    values, memory, layout = execute(program, waits, order, CollectiveCall(coll, -1, not program.outofplace))
    firsts = {values.input(rank, 0): rank for rank in range(program.ngpus) if program.chunks[rank, INPUT]}
    wants: dict[tuple[int, int], WantedChunk] = {}
    for target in range(program.ngpus):
        if not program.chunks[target, OUTPUT]:
            continue
        source = firsts.get(memory[int(layout.base[target, OUTPUT])], target)
        if source != target:
            count = min(int(program.chunks[source, INPUT]), int(program.chunks[target, OUTPUT]))
            wants.update({(target, slot): WantedChunk(frozenset(((source, slot),))) for slot in range(count)})
    if wants:
        return ExpectedResult(wants)
    text = "no rank ends with the first input chunk of another one"
    location = program.algo_attribute("coll")
    findings.add(Finding("result", "X0131", text, location, f"data of one rank at another ({coll})"))
    return None
