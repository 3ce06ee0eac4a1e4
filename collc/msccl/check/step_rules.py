"""Rules for threadblocks, connections and steps (docs/msccl-contract.md, sections 2 to 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from collc.msccl.check.connections import Connections
from collc.msccl.check.findings import PER_CODE, FileLocation, Finding, Findings
from collc.msccl.check.limits import (
    MAX_AWAITED,
    MAX_FUSED,
    MAX_OFFSET,
    MAX_PEERS_PER_CHANNEL,
    MAX_STEPS,
    MAX_THREADBLOCKS,
)
from collc.msccl.check.model import BUFFERS, MAX_COUNT, FileProgram
from collc.msccl.interpreter.operations import READS_SOURCE, READS_TARGET, RECEIVES, SENDS, STEP_KINDS, WRITES, StepKind
from collc.ten.arrays import BoolArray, Int64Array

SHOWN: Final = PER_CODE + 1
"""Findings of one rule at most, so that the message "more of this kind" appears."""

Text = str | Callable[[int], str]
"""A text, or one for each row."""


@dataclass(frozen=True)
class ContractRules:
    """A program, and the findings to which broken rules are added.

    Arguments of the methods that report: `attribute` is the attribute that is wrong, `text` says what is wrong and
    `expected` what should be there; with `breaks` the program cannot be executed; `warning`: a runtime takes the file.
    """

    program: FileProgram
    connections: Connections
    findings: Findings

    def report(
        self,
        code: str,
        text: str,
        location: FileLocation,
        expected: str,
        *,
        breaks: bool = False,
        warning: bool = False,
        hint: str = "",
        also: tuple[tuple[str, FileLocation], ...] = (),
    ) -> None:
        """Report one location. also: other locations that matter, each with what it is."""
        self.findings.add(Finding("contract", code, text, location, expected, hint, warning, also), breaks=breaks)

    def report_rows(
        self,
        rows: BoolArray | dict[int, Any],
        location_of: Callable[[int, str], FileLocation],
        code: str,
        attribute: str,
        text: Text,
        expected: Text,
        *,
        breaks: bool = False,
        warning: bool = False,
    ) -> None:
        """Report rows of a table, given by a mask or as the keys of a dict."""
        chosen: list[int] = list(rows) if isinstance(rows, dict) else np.flatnonzero(rows).tolist()
        for row in chosen[: SHOWN * 4]:
            words = (words if isinstance(words, str) else words(row) for words in (text, expected))
            self.report(code, next(words), location_of(row, attribute), next(words), breaks=breaks, warning=warning)


def check_steps(program: FileProgram, connections: Connections, findings: Findings) -> None:
    """Add every broken rule for the tb elements and the step elements to the findings."""
    rules = _StepRules(program, connections, findings)
    rules.threadblocks()
    rules.ends()
    rules.steps()
    rules.offsets()
    rules.dependencies()
    rules.nops()
    rules.fused_reductions()


class _StepRules(ContractRules):
    def threadblocks(self) -> None:
        """Peers and channels of threadblocks, and how many there are."""
        program, tbs = self.program, self.program.tbs
        report = partial(self.report_rows, location_of=program.tb_location, code="X0111", breaks=True)
        for name, peers in (("send", tbs.send), ("recv", tbs.recv)):
            text, rule = f"{name} peer is the gpu itself", "another gpu"
            report(peers == tbs.gpu, attribute=name, text=text, expected=rule)
            wrong, rule = (peers < -1) | (peers >= program.ngpus), f"-1 or 0 .. {program.ngpus - 1}"
            report(wrong, attribute=name, text=lambda row, p=peers, n=name: f"{n} peer {p[row]}", expected=rule)
        wrong = (tbs.chan < 0) | (tbs.chan >= program.nchannels)
        rule = f"0 .. {program.nchannels - 1} (nchannels, also for threadblocks that only copy)"
        report(wrong, attribute="chan", text=lambda row: f"channel {tbs.chan[row]}", expected=rule)
        limit, counts = MAX_THREADBLOCKS[program.profile], np.diff(program.gpu_first)
        for gpu in np.flatnonzero(counts > limit)[:SHOWN].tolist():
            self.report("X0111", f"{counts[gpu]} threadblocks", program.gpu_location(gpu), f"at most {limit}")
        for name, peers in (("send", tbs.send), ("recv", tbs.recv)):
            used = peers >= 0
            pairs, counts = np.unique(np.stack([tbs.gpu, tbs.chan])[:, used], axis=1, return_counts=True)
            for pair in np.flatnonzero(counts > MAX_PEERS_PER_CHANNEL)[:SHOWN]:
                gpu, channel = int(pairs[0, pair]), int(pairs[1, pair])
                text = f"{counts[pair]} threadblocks with a {name} peer on channel {channel}"
                self.report("X0111", text, program.gpu_location(gpu), f"at most {MAX_PEERS_PER_CHANNEL} per channel")

    def ends(self) -> None:
        """Every connection has exactly one threadblock at each end; the runtimes hang while they connect otherwise."""
        program, connections, steps = self.program, self.connections, self.program.steps
        sender = "send", "recv", "receives", connections.of_sender, connections.sender, connections.receiver, SENDS
        receiver = "recv", "send", "sends", connections.of_receiver, connections.receiver, connections.sender, RECEIVES
        for name, _, _, number_of, first, _, _ in (sender, receiver):
            rows = np.flatnonzero(number_of >= 0)
            for row in rows[first[number_of[rows]] != rows][:SHOWN].tolist():
                number = int(number_of[row])
                text = f"two threadblocks on one connection ({connections.name(number)}) at the {name}ing side"
                other = (("the other one", program.tb_location(int(first[number]), name)),)
                hint = "put one of them on another channel"
                self.report("X0112", text, program.tb_location(row, name), "one", breaks=True, also=other, hint=hint)
        for name, _, verb, _, here, there, moves in (sender, receiver):
            active = np.bincount(steps.tb[moves[steps.kind]], minlength=len(program.tbs)) > 0
            for number in np.flatnonzero(there < 0)[: SHOWN * 4].tolist():
                row = int(here[number])
                text = f"no threadblock {verb} on this connection ({connections.name(number)})"
                self.report("X0112", text, program.tb_location(row, name), "one", breaks=bool(active[row]))

    def steps(self) -> None:
        """Position, count, dependency flag and peers of steps, and how many there are."""
        program, steps, kind, names = self.program, self.program.steps, self.program.steps.kind, list(STEP_KINDS)
        report = partial(self.report_rows, location_of=program.step_location, code="X0113")
        wrong, rule = steps.s != program.position, "its position in the threadblock"
        report(wrong, attribute="s", text=lambda row: f"s is {steps.s[row]}", expected=rule)
        wrong, rule = (kind != StepKind.NOP) & ((steps.cnt < 1) | (steps.cnt > MAX_COUNT)), f"1 .. {MAX_COUNT}"
        report(wrong, attribute="cnt", text=lambda row: f"cnt is {steps.cnt[row]}", expected=rule, breaks=True)
        wrong = (steps.hasdep != 0) & (steps.hasdep != 1)
        report(wrong, attribute="hasdep", text=lambda row: f"hasdep is {steps.hasdep[row]}", expected="0 or 1")
        for moves, peers, peer in ((SENDS, program.tbs.send, "send"), (RECEIVES, program.tbs.recv, "recv")):
            report(
                moves[kind] & (peers[steps.tb] < 0),
                attribute="type",
                text=lambda row, p=peer: f"{names[kind[row]]} in a threadblock without a {p} peer",
                expected=f"{peer} >= 0 in the <tb>",
                breaks=True,
            )
        limit, lengths = MAX_STEPS[program.profile], np.diff(program.tbs.first)
        rule = f"at most {limit} ({program.profile}), nops counted"
        text = {row: f"{lengths[row]} steps" for row in np.flatnonzero(lengths > limit).tolist()}
        self.report_rows(text, program.tb_location, "X0113", "", text.__getitem__, rule)
        if program.profile == "rccl":  # it loads files with fused operations, and the first call that selects one fails
            fused = ~np.isin(kind, (StepKind.S, StepKind.R, StepKind.CPY, StepKind.RE, StepKind.NOP))
            rule = "s, r, cpy, re or nop; a sum is an r to scratch, then a re"
            report(fused, attribute="type", text=lambda row: f"RCCL does not run {names[kind[row]]}", expected=rule)

    def offsets(self) -> None:
        """Every slot that a step reads or writes is inside its buffer."""
        program, steps, kind = self.program, self.program.steps, self.program.steps.kind
        for name, buffer, offset, used in (
            ("src", steps.srcbuf, steps.srcoff, READS_SOURCE[kind]),
            ("dst", steps.dstbuf, steps.dstoff, READS_TARGET[kind] | WRITES[kind]),
        ):
            report = partial(self.report_rows, location_of=program.step_location, code="X0114", attribute=f"{name}off")
            wide = (offset < -(2**15)) | (offset > MAX_OFFSET)
            report(wide, text=lambda row, o=offset: f"offset {o[row]}", expected="16 bits")
            size, end = program.chunks[program.step_gpu, buffer], offset.astype(np.int64) + steps.cnt
            report(
                used & ((offset < 0) | (end > size)),
                text=lambda row, n=name, b=buffer, o=offset, e=end: (
                    f"{n} is {BUFFERS[b[row]]}[{o[row]} .. {int(e[row]) - 1}], outside the buffer"
                ),
                expected=lambda row, b=buffer, s=size: f"within the {s[row]} chunks of {BUFFERS[b[row]]}",
                breaks=True,
            )

    def dependencies(self) -> None:
        """Every dependency names a step of the same gpu that moves its counter."""
        program, steps, gpu = self.program, self.program.steps, self.program.step_gpu
        report = partial(self.report_rows, location_of=program.step_location, code="X0115")
        depends, count = steps.depid >= 0, np.diff(program.gpu_first)[gpu]
        wrong, rule = steps.depid < -1, "-1 or a threadblock"
        report(wrong, attribute="depid", text=lambda row: f"depid is {steps.depid[row]}", expected=rule)
        text, rule = "deps without a depid: no dependency at all", "depid, or deps -1"
        report(~depends & (steps.deps >= 0), attribute="deps", text=text, expected=rule, warning=True)
        missing = depends & (steps.depid >= count)
        report(
            missing,
            attribute="depid",
            text=lambda row: f"no threadblock {steps.depid[row]}",
            expected=lambda row: f"0 .. {count[row] - 1}",
            breaks=True,
        )
        if program.profile != "old":
            wide = depends & (steps.depid > MAX_AWAITED)
            text = f"depends on a threadblock above {MAX_AWAITED}; the runtime keeps 8 bits"
            report(wide, attribute="depid", text=text, expected=f"at most {MAX_AWAITED}")
        rows = np.flatnonzero(depends & ~missing)
        awaited = program.gpu_first[gpu[rows]] + steps.depid[rows]
        length = np.diff(program.tbs.first)[awaited]
        outside = (steps.deps[rows] < 0) | (steps.deps[rows] >= length)
        lengths = dict(zip(rows[outside].tolist(), length[outside].tolist(), strict=True))
        report(
            lengths,
            attribute="deps",
            text=lambda row: f"threadblock {steps.depid[row]} has no step {steps.deps[row]}",
            expected=lambda row: f"0 .. {lengths[row] - 1}",
            breaks=True,
        )
        self._check_awaited(rows[~outside], program.tbs.first[awaited[~outside]] + steps.deps[rows[~outside]])

    def _check_awaited(self, rows: Int64Array, target: Int64Array) -> None:
        """The steps `target` that the steps `rows` depend on move their counters: real steps with hasdep."""
        program, steps = self.program, self.program.steps
        silent = (steps.hasdep[target] != 1) | (steps.kind[target] == StepKind.NOP)
        for row, awaited in list(zip(rows[silent].tolist(), target[silent].tolist(), strict=True))[: SHOWN * 4]:
            nop = steps.kind[awaited] == StepKind.NOP
            what = "is a nop, which moves no counter" if nop else 'has hasdep="0", so its counter does not move'
            text = f"depends on step {steps.deps[row]} of threadblock {steps.depid[row]}, which {what}"
            location = program.step_location(row, "depid")
            hint = f'set hasdep="1" on that step (line {steps.line[awaited]})'
            other = (("the step depended on", program.step_location(awaited, "hasdep")),)
            self.report("X0115", text, location, 'a step with hasdep="1"', also=other, hint=hint)

    def nops(self) -> None:
        """Every nop has a dependency, and so has the real step that follows it."""
        steps = self.program.steps
        report = partial(self.report_rows, location_of=self.program.step_location, code="X0118")
        nop, depends = steps.kind == StepKind.NOP, steps.depid >= 0
        last = np.append(steps.tb[1:] != steps.tb[:-1], [True])[: len(steps)]
        follows = np.append([False], nop[:-1] & ~last[:-1])[: len(steps)]
        text, rule = "nop without a dependency: the runtime miscounts the steps after it", "one dependency on every nop"
        report(nop & ~depends, attribute="depid", text=text, expected=rule)
        text, rule = "nop at the end of a threadblock", "a real step after it"
        report(nop & last, attribute="type", text=text, expected=rule)
        text = "step after a nop without a dependency of its own: the runtime refuses the file"
        report(follows & ~nop & ~depends, attribute="depid", text=text, expected="the last dependency on this step")

    def fused_reductions(self) -> None:
        """Consecutive `re` steps that the parser fuses into one must have one count, and be at most 16.

        It fuses those with equal buffers and destination and no dependency between.
        """
        program, steps = self.program, self.program.steps
        previous, run = -2, 0
        for row in np.flatnonzero(steps.kind == StepKind.RE).tolist():
            same = (steps.tb, steps.dstbuf, steps.dstoff, steps.srcbuf)
            fused = row == previous + 1 and all(column[previous] == column[row] for column in same)
            fused = bool(fused and steps.depid[row] < 0 and steps.hasdep[previous] == 0)
            run = run + 1 if fused else 1
            if fused and steps.cnt[row] != steps.cnt[previous]:
                text = "fused with the re before it, whose cnt differs: the runtime takes one count for both"
                self.report("X0119", text, program.step_location(row, "cnt"), f"cnt {steps.cnt[previous]}")
            if run == MAX_FUSED + 1:
                text = f"more than {MAX_FUSED} re in a row are fused into one"
                hint = 'set hasdep="1" on one of them to break the row'
                self.report("X0119", text, program.step_location(row, "type"), f"at most {MAX_FUSED}", hint=hint)
            previous = row
