"""The whole check of one MSCCL file, read from disk: contract, result, deadlock and races."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from collc.base.diagnostics import Outcome
from collc.msccl.check.collectives import KNOWN, ExpectedResult, canonical
from collc.msccl.check.contract import check_contract, check_overwritten_inputs, check_room
from collc.msccl.check.deadlock import check_deadlock, check_matches
from collc.msccl.check.expected import IMPLIED, implied_result
from collc.msccl.check.findings import Check, Finding, Findings, Verdict, check_root, diagnostics
from collc.msccl.check.model import FileProgram, Profile
from collc.msccl.check.races import check_races
from collc.msccl.check.reader import parse_file
from collc.msccl.check.symbolic import call_of, check_result, layout_of, placements_of, root_of
from collc.runtime.collectives import ROOTED


@dataclass(frozen=True, slots=True)
class Summary:
    """The contents of a file in numbers.

    chunks: largest i_chunks, o_chunks and s_chunks of a gpu. root: -1 if the collective has none, or none was found.
    max_bytes: the largest size for which the file is selected, None without limit. largest_safe: the largest size
    without deadlock in bytes, None without limit, 0 if it always hangs; valid if the check `deadlock` was made.
    """

    name: str
    coll: str
    proto: str
    ranks: int
    channels: int
    threadblocks: int
    steps: int
    nchunksperloop: int
    chunks: tuple[int, int, int]
    min_bytes: int
    max_bytes: int | None
    largest_safe: int | None
    inplace: bool
    outofplace: bool
    root: int


def check_file(
    path: Path,
    *,
    collective: str | None = None,
    root: int | None = None,
    profile: Profile = "executor",
    expected: ExpectedResult | None = None,
) -> Verdict[Summary]:
    """Check an MSCCL XML file: the contract of the runtime, the result, deadlock and races.

    collective: what the file must compute, default: its `coll`. root: of broadcast, reduce, gather and scatter,
    default: the rank with which the result is right. expected: the result of a custom collective. Raises UsageError if
    the file can't be opened or the root is not a rank of it.
    """
    findings, ran, summary = Findings(), set[Check](), None
    program = parse_file(path, profile, findings)
    ran.add("contract")
    if program is not None:
        check_root(root, program.ngpus, path)
        coll = _collective(program, collective, findings)
        check_contract(program, findings, coll)
        if expected is not None:
            check_room(program, expected, findings)
        safe, root_used = None, -1
        if not findings.broken:
            check_overwritten_inputs(program, findings)
            matched = check_matches(program, findings)
            safe = check_deadlock(program, findings)
            ran.add("deadlock")
            if matched and not program.unlimited_run[1]:
                root_used = _check_execution(program, coll, root, expected, findings, ran)
        inputs, outputs, scratch = np.max(program.chunks, axis=0, initial=0).tolist()
        summary = Summary(
            name=program.name,
            coll=coll,
            proto=program.proto,
            ranks=program.ngpus,
            channels=program.nchannels,
            threadblocks=len(program.tbs),
            steps=len(program.steps),
            nchunksperloop=program.nchunksperloop,
            chunks=(inputs, outputs, scratch),
            min_bytes=program.min_bytes,
            max_bytes=program.size_limit,
            largest_safe=safe,
            inplace=program.inplace,
            outofplace=program.outofplace,
            root=root_used,
        )
    return Verdict(path, findings.answers(ran), tuple(findings.kept), diagnostics(findings, path), summary)


def contract_of(path: Path, profile: Profile, collective: str | None = None) -> Outcome:
    """The check of the contract alone: whether a runtime loads the file. Raises UsageError if it can't be opened."""
    findings = Findings()
    program = parse_file(path, profile, findings)
    if program is not None:
        check_contract(program, findings, canonical(collective or program.coll))
    return "failed" if "contract" in findings.failed else "ok"


def _collective(program: FileProgram, collective: str | None, findings: Findings) -> str:
    named, asked = canonical(program.coll), canonical(collective or program.coll)
    if named not in (asked, "custom"):
        location = program.algo_attribute("coll")
        text = f'coll is "{program.coll}": the runtime selects the file for that collective'
        findings.add(Finding("contract", "X0110", text, location, asked), breaks=True)
    return asked


def _check_execution(
    program: FileProgram,
    coll: str,
    root: int | None,
    expected: ExpectedResult | None,
    findings: Findings,
    ran: set[Check],
) -> int:
    """Check the result and races in each placement. Returns the root, -1 if there is none or if it is not known."""
    if coll in IMPLIED and expected is None:
        ran.add("result")
        expected = implied_result(program, coll, findings)
    if coll not in ROOTED or expected is not None:
        root = -1
    elif root is None:
        root = root_of(program, coll)
    for inplace in placements_of(program):
        call = call_of(program, coll, root, inplace=inplace, expected=expected)
        if coll in KNOWN or expected is not None:
            ran.add("result")
            check_result(program, call, findings)
        ran.add("race")
        check_races(program, layout_of(program, call)[1], findings)
    return root
