"""The whole check of one MSCCL file, read from disk: contract, result, deadlock and races."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.outcome import Outcome
from collc.msccl.check.collectives import KNOWN, ROOTED, ExpectedResult, canonical
from collc.msccl.check.connections import connect, waits_of
from collc.msccl.check.contract import check_contract, check_room, overwritten_inputs
from collc.msccl.check.deadlock import SafeSizes, check_deadlock, check_matches
from collc.msccl.check.expected import IMPLIED, implied_result
from collc.msccl.check.findings import Check, Finding, Findings, Verdict, diagnostics, unreadable
from collc.msccl.check.model import FileProgram, Profile
from collc.msccl.check.races import check_races
from collc.msccl.check.reader import Reader
from collc.msccl.check.results import calls_of, check_result, find_root
from collc.msccl.check.symbolic import layout_of
from collc.msccl.interpreter.replay import UNLIMITED, StepWaits, replay


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
    findings = Findings()
    checker = _FileCheck(path, profile, findings)
    try:
        checker.run(collective, root, expected)
    except OSError as error:
        raise unreadable(path, error) from error
    messages = diagnostics(findings, path)
    return Verdict(path, findings.answers(checker.ran), tuple(findings.kept), messages, checker.summary)


def contract_of(path: Path, profile: Profile, collective: str | None = None) -> Outcome:
    """The check of the contract alone: whether a runtime loads the file. Raises UsageError if it can't be opened."""
    findings = Findings()
    try:
        program = Reader(profile, findings).read(path)
    except OSError as error:
        raise unreadable(path, error) from error
    if program is not None:
        check_contract(program, connect(program), findings, canonical(collective or program.coll))
    return "failed" if "contract" in findings.failed else "ok"


class _FileCheck:
    """The checks of one file. ran: the checks made so far. safe: sizes without deadlock. root: -1 if unknown."""

    def __init__(self, path: Path, profile: Profile, findings: Findings) -> None:
        self.path: Path = path
        self.profile: Profile = profile
        self.findings: Findings = findings
        self.ran: set[Check] = set()
        self.summary: Summary | None = None
        self.safe: SafeSizes = SafeSizes(None, (1, 1))
        self.root: int = -1

    def run(self, collective: str | None, root: int | None, expected: ExpectedResult | None) -> None:
        """Make all checks that the findings of earlier ones allow."""
        program = Reader(self.profile, self.findings).read(self.path)
        self.ran.add("contract")
        if program is None:
            return
        if root is not None and not 0 <= root < program.ngpus:
            raise UsageError(Diagnostic("X0203", f"root {root} is not a rank of {self.path}: it has {program.ngpus}"))
        coll = self._collective(program, collective)
        connections = connect(program)
        check_contract(program, connections, self.findings, coll)
        if expected is not None:
            check_room(program, expected, self.findings)
        if not self.findings.broken:
            overwritten_inputs(program, self.findings)
            self._run(program, waits_of(program, connections), coll, root, expected)
        self.summary = _summary(program, coll, self.safe, self.root)

    def _collective(self, program: FileProgram, collective: str | None) -> str:
        named, asked = canonical(program.coll), canonical(collective or program.coll)
        if named not in (asked, "custom"):
            at = program.algo_attribute("coll")
            text = f'coll is "{program.coll}": the runtime selects the file for that collective'
            self.findings.add(Finding("contract", "X0110", text, at, asked), breaks=True)
        return asked

    def _run(
        self, program: FileProgram, waits: StepWaits, coll: str, root: int | None, expected: ExpectedResult | None
    ) -> None:
        matched = check_matches(program, waits, self.findings)
        self.safe = check_deadlock(program, waits, self.findings)
        self.ran.add("deadlock")
        if not matched:
            return
        order, halted = replay(waits, [1] * len(program.steps), UNLIMITED)
        if halted:
            return
        if coll in IMPLIED and expected is None:
            self.ran.add("result")
            expected = implied_result(program, waits, order, coll, self.findings)
        self.root = self._root(program, waits, order, coll, root, expected)
        self._placements(program, waits, order, coll, expected)

    def _root(
        self,
        program: FileProgram,
        waits: StepWaits,
        order: list[int],
        coll: str,
        root: int | None,
        expected: ExpectedResult | None,
    ) -> int:
        if coll not in ROOTED or expected is not None:
            return -1
        if root is not None:
            return root
        return find_root(program, waits, order, coll, inplace=not program.outofplace)

    def _placements(
        self, program: FileProgram, waits: StepWaits, order: list[int], coll: str, expected: ExpectedResult | None
    ) -> None:
        for call in calls_of(coll, self.root, expected, program):
            if coll in KNOWN or expected is not None:
                self.ran.add("result")
                check_result(program, waits, order, self.findings, call)
            self.ran.add("race")
            check_races(program, waits, order, layout_of(program, call)[1], self.findings)


def _summary(program: FileProgram, coll: str, safe: SafeSizes, root: int) -> Summary:
    largest = np.max(program.chunks, axis=0, initial=0).tolist()
    return Summary(
        name=program.name,
        coll=coll,
        proto=program.proto,
        ranks=program.ngpus,
        channels=program.nchannels,
        threadblocks=len(program.tbs),
        steps=len(program.steps),
        nchunksperloop=program.nchunksperloop,
        chunks=(largest[0], largest[1], largest[2]),
        min_bytes=program.min_bytes,
        max_bytes=program.size_limit,
        largest_safe=safe.largest_safe,
        inplace=program.inplace,
        outofplace=program.outofplace,
        root=root,
    )
