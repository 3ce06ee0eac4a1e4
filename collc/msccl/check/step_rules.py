"""Rules for threadblocks, connections and steps (docs/msccl-contract.md, sections 2 to 5)."""

from __future__ import annotations

import numpy as np

from collc.msccl.check.contract_rules import SHOWN, ContractRules
from collc.msccl.check.limits import (
    MAX_AWAITED,
    MAX_FUSED,
    MAX_OFFSET,
    MAX_PEERS_PER_CHANNEL,
    MAX_STEPS,
    MAX_THREADBLOCKS,
)
from collc.msccl.check.model import BUFFERS, MAX_COUNT
from collc.msccl.interpreter.operations import READS_SOURCE, READS_TARGET, RECEIVES, SENDS, STEP_KINDS, WRITES, StepKind
from collc.ten.arrays import Int64Array


class StepRules(ContractRules):
    """Rules for the tb elements and the step elements."""

    def threadblocks(self) -> None:
        """Peers and channels of threadblocks, and how many there are."""
        program, tbs = self.program, self.program.tbs
        for name, peers in (("send", tbs.send), ("recv", tbs.recv)):
            self.report_threadblocks(peers == tbs.gpu, "X0111", name, f"{name} peer is the gpu itself", "another gpu")
            wrong = (peers < -1) | (peers >= program.ngpus)
            rule = f"-1 or 0 .. {program.ngpus - 1}"
            self.report_threadblocks(wrong, "X0111", name, lambda row, p=peers, n=name: f"{n} peer {p[row]}", rule)
        wrong = (tbs.chan < 0) | (tbs.chan >= program.nchannels)
        rule = f"0 .. {program.nchannels - 1} (nchannels, also for threadblocks that only copy)"
        self.report_threadblocks(wrong, "X0111", "chan", lambda row: f"channel {tbs.chan[row]}", rule)
        limit = MAX_THREADBLOCKS[self.profile]
        for gpu in np.flatnonzero(np.diff(program.gpu_first) > limit)[:SHOWN]:
            count = int(np.diff(program.gpu_first)[gpu])
            self.report("X0111", f"{count} threadblocks", program.gpu_location(int(gpu)), f"at most {limit}")
        for name, peers in (("send", tbs.send), ("recv", tbs.recv)):
            used = peers >= 0
            pairs, counts = np.unique(np.stack([tbs.gpu, tbs.chan])[:, used], axis=1, return_counts=True)
            for at in np.flatnonzero(counts > MAX_PEERS_PER_CHANNEL)[:SHOWN]:
                gpu, channel = int(pairs[0, at]), int(pairs[1, at])
                text = f"{counts[at]} threadblocks with a {name} peer on channel {channel}"
                self.report("X0111", text, program.gpu_location(gpu), f"at most {MAX_PEERS_PER_CHANNEL} per channel")

    def ends(self) -> None:
        """Every connection has exactly one threadblock at each end; the runtimes hang while they connect otherwise."""
        program, connections = self.program, self.connections
        ends = (
            (connections.of_sender, connections.sender, "send"),
            (connections.of_receiver, connections.receiver, "recv"),
        )
        for of, first, name in ends:
            rows = np.flatnonzero(of >= 0)
            for row in rows[first[of[rows]] != rows][:SHOWN]:
                number = int(of[row])
                text = f"two threadblocks on one connection ({connections.name(number)}) at the {name}ing side"
                other = (("the other one", program.tb_location(int(first[number]), name)),)
                hint = "put one of them on another channel"
                location = program.tb_location(int(row), name)
                self.report("X0112", text, location, "one", breaks=True, also=other, hint=hint)
        kinds = program.steps.kind
        active_out = np.bincount(program.steps.tb[SENDS[kinds]], minlength=len(program.tbs)) > 0
        active_in = np.bincount(program.steps.tb[RECEIVES[kinds]], minlength=len(program.tbs)) > 0
        for number in np.flatnonzero(connections.receiver < 0)[: SHOWN * 4]:
            row = int(connections.sender[number])
            text = f"no threadblock receives on this connection ({connections.name(int(number))})"
            self.report("X0112", text, program.tb_location(row, "send"), "one", breaks=bool(active_out[row]))
        for number in np.flatnonzero(connections.sender < 0)[: SHOWN * 4]:
            row = int(connections.receiver[number])
            text = f"no threadblock sends on this connection ({connections.name(int(number))})"
            self.report("X0112", text, program.tb_location(row, "recv"), "one", breaks=bool(active_in[row]))

    def steps(self) -> None:
        """Position, count, dependency flag and peers of steps, and how many there are."""
        program, steps = self.program, self.program.steps
        kind = steps.kind
        real = kind != StepKind.NOP
        rule = "its position in the threadblock"
        self.report_steps(steps.s != program.position, "X0113", "s", lambda row: f"s is {steps.s[row]}", rule)
        wrong = real & ((steps.cnt < 1) | (steps.cnt > MAX_COUNT))
        self.report_steps(
            wrong, "X0113", "cnt", lambda row: f"cnt is {steps.cnt[row]}", f"1 .. {MAX_COUNT}", breaks=True
        )
        wrong = (steps.hasdep != 0) & (steps.hasdep != 1)
        self.report_steps(wrong, "X0113", "hasdep", lambda row: f"hasdep is {steps.hasdep[row]}", "0 or 1")
        no_peer = SENDS[kind] & (program.tbs.send[steps.tb] < 0)
        names = list(STEP_KINDS)
        for mask, peer in ((no_peer, "send"), (RECEIVES[kind] & (program.tbs.recv[steps.tb] < 0), "recv")):
            self.report_steps(
                mask,
                "X0113",
                "type",
                lambda row, p=peer: f"{names[kind[row]]} in a threadblock without a {p} peer",
                f"{peer} >= 0 in the <tb>",
                breaks=True,
            )
        limit = MAX_STEPS[self.profile]
        lengths = np.diff(program.tbs.first)
        rule = f"at most {limit} ({self.profile}), nops counted"
        self.report_threadblocks(lengths > limit, "X0113", "", lambda row: f"{lengths[row]} steps", rule)

    def operations(self) -> None:
        """RCCL loads files with fused operations, and the first call that selects one fails."""
        if self.profile != "rccl":
            return
        kind, names = self.program.steps.kind, list(STEP_KINDS)
        fused = ~np.isin(kind, (StepKind.S, StepKind.R, StepKind.CPY, StepKind.RE, StepKind.NOP))
        rule = "s, r, cpy, re or nop; a sum is an r to scratch, then a re"
        self.report_steps(fused, "X0113", "type", lambda row: f"RCCL does not run {names[kind[row]]}", rule)

    def offsets(self) -> None:
        """Every slot that a step reads or writes is inside its buffer."""
        program, steps = self.program, self.program.steps
        gpu, kind = program.step_gpu, steps.kind
        for name, buffer, offset, used in (
            ("src", steps.srcbuf, steps.srcoff, READS_SOURCE[kind]),
            ("dst", steps.dstbuf, steps.dstoff, READS_TARGET[kind] | WRITES[kind]),
        ):
            wide = (offset < -(2**15)) | (offset > MAX_OFFSET)
            self.report_steps(wide, "X0114", f"{name}off", lambda row, o=offset: f"offset {o[row]}", "16 bits")
            size = program.chunks[gpu, buffer]
            end = offset.astype(np.int64) + steps.cnt
            outside = used & ((offset < 0) | (end > size))
            self.report_steps(
                outside,
                "X0114",
                f"{name}off",
                lambda row, n=name, b=buffer, o=offset, e=end: (
                    f"{n} is {BUFFERS[b[row]]}[{o[row]} .. {int(e[row]) - 1}], outside the buffer"
                ),
                lambda row, b=buffer, s=size: f"within the {s[row]} chunks of {BUFFERS[b[row]]}",
                breaks=True,
            )

    def dependencies(self) -> None:
        """Every dependency names a step of the same gpu that moves its counter."""
        program, steps, tbs = self.program, self.program.steps, self.program.tbs
        gpu = program.step_gpu
        depends = steps.depid >= 0
        self.report_steps(
            steps.depid < -1, "X0115", "depid", lambda row: f"depid is {steps.depid[row]}", "-1 or a threadblock"
        )
        half = ~depends & (steps.deps >= 0)
        text = "deps without a depid: no dependency at all"
        self.report_steps(half, "X0115", "deps", text, "depid, or deps -1", warning=True)
        count = np.diff(program.gpu_first)[gpu]
        missing = depends & (steps.depid >= count)
        self.report_steps(
            missing,
            "X0115",
            "depid",
            lambda row: f"no threadblock {steps.depid[row]}",
            lambda row: f"0 .. {count[row] - 1}",
            breaks=True,
        )
        if self.profile != "old":
            wide = depends & (steps.depid > MAX_AWAITED)
            text = f"depends on a threadblock above {MAX_AWAITED}; the runtime keeps 8 bits"
            self.report_steps(wide, "X0115", "depid", text, f"at most {MAX_AWAITED}")
        rows = np.flatnonzero(depends & ~missing)
        on = program.gpu_first[gpu[rows]] + steps.depid[rows]
        length = np.diff(tbs.first)[on]
        outside = (steps.deps[rows] < 0) | (steps.deps[rows] >= length)
        mask = np.zeros(len(steps), np.bool_)
        mask[rows[outside]] = True
        lengths = dict(zip(rows[outside].tolist(), length[outside].tolist(), strict=True))
        self.report_steps(
            mask,
            "X0115",
            "deps",
            lambda row: f"threadblock {steps.depid[row]} has no step {steps.deps[row]}",
            lambda row: f"0 .. {lengths[row] - 1}",
            breaks=True,
        )
        self._check_awaited(rows[~outside], tbs.first[on[~outside]] + steps.deps[rows[~outside]])

    def _check_awaited(self, rows: Int64Array, target: Int64Array) -> None:
        """The steps `target` that the steps `rows` depend on move their counters: real steps with hasdep."""
        program, steps = self.program, self.program.steps
        silent = (steps.hasdep[target] != 1) | (steps.kind[target] == StepKind.NOP)
        for row, on in list(zip(rows[silent].tolist(), target[silent].tolist(), strict=True))[: SHOWN * 4]:
            nop = steps.kind[on] == StepKind.NOP
            what = "is a nop, which moves no counter" if nop else 'has hasdep="0", so its counter does not move'
            text = f"depends on step {steps.deps[row]} of threadblock {steps.depid[row]}, which {what}"
            location = program.step_location(row, "depid")
            hint = f'set hasdep="1" on that step (line {steps.line[on]})'
            other = (("the step depended on", program.step_location(on, "hasdep")),)
            self.report("X0115", text, location, 'a step with hasdep="1"', also=other, hint=hint)

    def nops(self) -> None:
        """Every nop has a dependency, and so has the real step that follows it."""
        steps = self.program.steps
        nop, depends = steps.kind == StepKind.NOP, steps.depid >= 0
        bare = "nop without a dependency: the runtime miscounts the steps after it"
        self.report_steps(nop & ~depends, "X0118", "depid", bare, "one dependency on every nop")
        if not len(steps):
            return
        last = np.append(steps.tb[1:] != steps.tb[:-1], [True])
        self.report_steps(nop & last, "X0118", "type", "nop at the end of a threadblock", "a real step after it")
        follows = np.append([False], nop[:-1] & ~last[:-1])
        text = "step after a nop without a dependency of its own: the runtime refuses the file"
        self.report_steps(follows & ~nop & ~depends, "X0118", "depid", text, "the last dependency on this step")

    def fused_reductions(self) -> None:
        """Consecutive `re` steps that the parser fuses into one must have one count, and be at most 16."""
        program, steps = self.program, self.program.steps
        reduces = np.flatnonzero(steps.kind == StepKind.RE)
        previous, run = -2, 0
        for row in reduces.tolist():
            joined = row == previous + 1 and steps.tb[row] == steps.tb[previous] and self._fuses(previous, row)
            run = run + 1 if joined else 1
            if joined and steps.cnt[row] != steps.cnt[previous]:
                text = "fused with the re before it, whose cnt differs: the runtime takes one count for both"
                self.report("X0119", text, program.step_location(row, "cnt"), f"cnt {steps.cnt[previous]}")
            if run == MAX_FUSED + 1:
                text = f"more than {MAX_FUSED} re in a row are fused into one"
                hint = 'set hasdep="1" on one of them to break the row'
                self.report("X0119", text, program.step_location(row, "type"), f"at most {MAX_FUSED}", hint=hint)
            previous = row

    def _fuses(self, before: int, row: int) -> bool:
        """Whether the parser fuses two consecutive `re`: same buffers and destination, no dependency between."""
        steps = self.program.steps
        same = all(column[before] == column[row] for column in (steps.dstbuf, steps.dstoff, steps.srcbuf))
        return bool(same and steps.depid[row] < 0 and steps.hasdep[before] == 0)
