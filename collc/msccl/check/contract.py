"""The contract of the runtimes: every rule of docs/msccl-contract.md, sections 2 to 5, that needs no execution.

Each rank of a runtime checks some of these rules, and only for its own `gpu` element. If another one is broken, the
runtime hangs, crashes or computes something else. Here all rules are checked for all ranks.
"""

from __future__ import annotations

import numpy as np

from collc.msccl.check.collectives import ExpectedResult
from collc.msccl.check.connections import Connections, connect
from collc.msccl.check.file_rules import FileRules
from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check.model import BUFFERS, INPUT, OUTPUT, FileProgram
from collc.msccl.check.step_rules import StepRules
from collc.msccl.interpreter.operations import WRITES


def check_contract(program: FileProgram, connections: Connections, findings: Findings, coll: str) -> None:
    """Add every broken rule to the findings. coll: canonical name of the collective that the file must do."""
    rules = FileRules(program, connections, findings, program.profile)
    steps = StepRules(program, connections, findings, program.profile)
    rules.algo()
    rules.sizes(coll)
    rules.buffers(coll)
    rules.scratch()
    steps.threadblocks()
    steps.ends()
    steps.steps()
    steps.operations()
    steps.offsets()
    steps.dependencies()
    steps.nops()
    steps.fused_reductions()
    rules.nodes()


def check_selection(program: FileProgram, findings: Findings) -> None:
    """Add to the findings why the runtime may never select the file: the rules for the algo element alone."""
    FileRules(program, connect(program), findings, program.profile).algo()


def check_room(program: FileProgram, expected: ExpectedResult, findings: Findings) -> None:
    """The buffers of every rank have room for the chunks of a custom collective."""
    inputs = {given for want in expected.outputs.values() for given in want.contributions}
    for buffer, used in ((INPUT, inputs), (OUTPUT, set(expected.outputs))):
        needed: dict[int, int] = {}
        for rank, slot in used:
            needed[rank] = max(needed.get(rank, 0), slot + 1)
        name = f"{BUFFERS[buffer]}_chunks"
        for rank, count in sorted(needed.items()):
            if rank >= program.ngpus:
                location = program.algo_attribute("ngpus")
                text = f"ngpus is {program.ngpus}, but the collective has rank {rank}"
                findings.add(Finding("contract", "X0110", text, location, f"at least {rank + 1}"), breaks=True)
            elif program.chunks[rank, buffer] < count:
                text = f"{name} is {program.chunks[rank, buffer]}, too few for the collective"
                location = program.gpu_location(rank, name)
                findings.add(Finding("contract", "X0116", text, location, f"at least {count}"), breaks=True)


def overwritten_inputs(program: FileProgram, findings: Findings) -> None:
    """Warn of a file for calls out of place that writes to the input buffer, since that changes the caller's data."""
    steps = program.steps
    rows = np.flatnonzero(WRITES[steps.kind] & (steps.dstbuf == INPUT))
    if len(rows) and program.outofplace:
        text = f"out of place, {len(rows)} steps write to the input buffer, which belongs to the caller"
        location = program.step_location(int(rows[0]), "dstbuf")
        finding = Finding("contract", "X0120", text, location, "o or s", 'outofplace="0", or scratch', warning=True)
        findings.add(finding)
