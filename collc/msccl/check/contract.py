"""The contract of the runtimes: every rule of docs/msccl-contract.md, sections 2 to 4, for every rank.

The runtimes check part of it, each rank its own gpu element; the rest they take on trust and hang,
crash or compute something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.msccl.check.collectives import NAMES, TOTAL, ExpectedResult, buffer_sizes
from collc.msccl.check.connections import Connections
from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check.model import (
    BUFFERS,
    INPUT,
    MAX_COUNT,
    OUTPUT,
    READS_SOURCE,
    READS_TARGET,
    RECEIVES,
    SCRATCH,
    SENDS,
    STEP_KINDS,
    WRITES,
    FileProgram,
    StepKind,
)
from collc.ten.arrays import BoolArray, Int64Array

MAX_CHANNELS: Final = 32
MAX_PEERS_PER_CHANNEL: Final = 32
MAX_FUSED: Final = 16
MAX_DEPENDED: Final = 127
MAX_NODES: Final = 4095
MAX_CHILDREN: Final = 1024
MAX_OFFSET: Final = 2**15 - 1
MAX_BUFFER: Final = MAX_OFFSET + MAX_COUNT
"""Chunks of one buffer that steps can reach."""
MAX_CHUNKS: Final = 2**24
"""In the buffers of all gpus together; a limit of the check, not of the runtimes."""
MAX_STEPS: Final = {"executor": 64, "old": 256}
MAX_THREADBLOCKS: Final = {"executor": 1024, "old": 216}
SHOWN: Final = 13


def check_contract(program: FileProgram, connections: Connections, findings: Findings, coll: str) -> None:
    """All rules that can be judged without running the program; coll: the collective, by its canonical name."""
    contract = _Contract(program, connections, findings, "old" if program.old else "executor")
    contract.algo()
    contract.sizes(coll)
    contract.buffers(coll)
    contract.threadblocks()
    contract.ends()
    contract.steps()
    contract.offsets()
    contract.dependencies()
    contract.nops()
    contract.fused_reductions()
    contract.nodes()


@dataclass
class _Contract:
    program: FileProgram
    connections: Connections
    findings: Findings
    profile: str

    def algo(self) -> None:
        program = self.program
        names = NAMES[self.profile]
        if program.coll not in names:
            rule, hint = f"one of {', '.join(names)}", self._elsewhere()
            self._algo("coll", f'coll "{program.coll}"', rule, breaks=True, hint=hint)
        if not 1 <= program.nchannels <= MAX_CHANNELS:
            self._algo("nchannels", f"{program.nchannels} channels", f"1 .. {MAX_CHANNELS}")
        if program.nchunksperloop < 1:
            self._algo("nchunksperloop", f"nchunksperloop is {program.nchunksperloop}", "at least 1", breaks=True)
        if not program.inplace and not program.outofplace:
            self._algo("outofplace", "neither in place nor out of place: never chosen", "one of the flags 1")
        if program.min_bytes < 0 or program.max_bytes < 0:
            self._algo("minBytes", "negative size", "sizes from 0")
        limit = program.size_limit
        if limit is not None and limit < program.min_bytes:
            self._algo("maxBytes", "no size is in range: never chosen", "minBytes up to maxBytes")
        elif limit is not None:
            self._whole_size(limit)

    def _whole_size(self, limit: int) -> None:
        """The runtime picks the file for whole multiples of nchunksperloop alone."""
        program, total = self.program, max(1, self.program.nchunksperloop)
        least = max(1, -(-program.min_bytes // total)) * total
        if least > limit:
            text = f"no multiple of nchunksperloop = {total} bytes is from {program.min_bytes} to {limit}: never chosen"
            self._algo("maxBytes", text, f"a size of {least} bytes in range", warning=True)

    def _elsewhere(self) -> str:
        """What to try where only the other runtime knows the collective."""
        if self.program.coll == "custom":
            return (
                "only the old runtime knows it, and the file does not say what it computes: "
                "'collc verify FILE --profile old --program FILE.coll --schedule NAME'"
            )
        other = next(name for name in NAMES if name != self.profile)
        return f"the other runtime knows it: --profile {other}" if self.program.coll in NAMES[other] else ""

    def sizes(self, coll: str) -> None:
        """Buffers so large that nobody means them, before anything of their size is made."""
        program, total = self.program, self.program.nchunksperloop
        declared = np.clip(program.chunks, 0, None)
        reach = f"at most {MAX_BUFFER}: offsets end at {MAX_OFFSET}, counts at {MAX_COUNT}"
        for gpu, buffer in np.argwhere(declared > MAX_BUFFER)[:SHOWN]:
            name = f"{BUFFERS[buffer]}_chunks"
            text = f"{name} is {declared[gpu, buffer]}, more than steps can reach"
            self._add("X0116", text, program.gpu_location(int(gpu), name), reach, breaks=True)
        sizes = buffer_sizes(coll, program.ngpus, max(1, total)) or (total, 0)
        if max(sizes) > MAX_BUFFER:
            text = f"nchunksperloop is {total}: {max(sizes)} chunks in one buffer, more than steps can reach"
            self._algo("nchunksperloop", text, reach, breaks=True)
        if self.findings.broken:
            return
        # As the check will lay them out: those that the file names grow to what the collective has.
        slots = int(declared[:, SCRATCH].sum())
        for buffer, size in enumerate(sizes):
            named = declared[:, buffer]
            only_root = coll == ("scatter", "gather")[buffer]
            slots += int(named.sum()) + size if only_root else int(np.maximum(named, size).sum())
        if slots > MAX_CHUNKS:
            text = f"{slots} chunks in the buffers of {program.ngpus} ranks"
            self._algo("nchunksperloop", text, f"at most {MAX_CHUNKS} to be checked", breaks=True)

    def buffers(self, coll: str) -> None:
        """Sizes that the gpus name, against those that the collective gives at run time."""
        program, total = self.program, self.program.nchunksperloop
        for gpu, buffer in np.argwhere(program.chunks < 0)[:SHOWN]:
            name = f"{BUFFERS[buffer]}_chunks"
            self._add("X0116", f"{name} is negative", program.gpu_location(int(gpu), name), "at least 0", breaks=True)
        if coll in TOTAL and total % program.ngpus:
            text = f"nchunksperloop is {total}"
            self._algo("nchunksperloop", text, f"a multiple of ngpus = {program.ngpus} for {coll}", breaks=True)
            return
        sizes = buffer_sizes(coll, program.ngpus, max(1, total))
        if sizes is None:
            return
        if program.coll == "custom":
            self._room(coll, sizes)
            return
        for buffer, size in enumerate(sizes):
            declared = program.chunks[:, buffer]
            free = coll == ("scatter", "gather")[buffer]
            exact = self.profile == "old" and not free
            wrong = (declared != size) if exact else (declared > size)
            for gpu in np.flatnonzero(wrong)[:SHOWN]:
                name = f"{BUFFERS[buffer]}_chunks"
                text = f"{name} is {declared[gpu]}, but {coll} over {program.ngpus} ranks has {size}"
                rule = f"{size} (nchunksperloop is {total})"
                self._add("X0116", text, program.gpu_location(int(gpu), name), rule, breaks=True)
            short = np.flatnonzero((declared < size) & (declared > 0)) if not (exact or free) else np.empty(0, np.int64)
            for gpu in short[:SHOWN]:
                name = f"{BUFFERS[buffer]}_chunks"
                text = f"{name} is {declared[gpu]}, less than the {size} that {coll} has"
                self._add("X0116", text, program.gpu_location(int(gpu), name), str(size), warning=True)

    def _room(self, coll: str, sizes: tuple[int, int]) -> None:
        """A custom file has the buffers that it names: they must have room for the collective it is to do.

        Buffers that only the root needs are left to the result. In place, one that lies inside the
        other must not reach beyond its part of it.
        """
        program = self.program
        only_root = {"broadcast": INPUT, "scatter": INPUT, "reduce": OUTPUT, "gather": OUTPUT}.get(coll)
        part = {"allgather": INPUT, "gather": INPUT, "reducescatter": OUTPUT, "scatter": OUTPUT}.get(coll)
        for buffer, size in enumerate(sizes):
            declared, name = program.chunks[:, buffer], f"{BUFFERS[buffer]}_chunks"
            exact = program.inplace and buffer == part
            wrong = (declared < size) & (buffer != only_root) | (exact & (declared > size))
            for gpu in np.flatnonzero(wrong)[:SHOWN]:
                text = f"{name} is {declared[gpu]}, but {coll} over {program.ngpus} ranks has {size}"
                rule = f"{'' if exact else 'at least '}{size} (nchunksperloop is {program.nchunksperloop})"
                self._add("X0116", text, program.gpu_location(int(gpu), name), rule, breaks=True)

    def threadblocks(self) -> None:
        program, tbs = self.program, self.program.tbs
        for name, peers in (("send", tbs.send), ("recv", tbs.recv)):
            self._tbs(peers == tbs.gpu, "X0111", name, f"{name} peer is the gpu itself", "another gpu")
            wrong = (peers < -1) | (peers >= program.ngpus)
            rule = f"-1 or 0 .. {program.ngpus - 1}"
            self._tbs(wrong, "X0111", name, lambda row, p=peers, n=name: f"{n} peer {p[row]}", rule)
        wrong = (tbs.chan < 0) | (tbs.chan >= program.nchannels)
        rule = f"0 .. {program.nchannels - 1} (nchannels, also for threadblocks that only copy)"
        self._tbs(wrong, "X0111", "chan", lambda row: f"channel {tbs.chan[row]}", rule)
        limit = MAX_THREADBLOCKS[self.profile]
        for gpu in np.flatnonzero(np.diff(program.gpu_first) > limit)[:SHOWN]:
            count = int(np.diff(program.gpu_first)[gpu])
            self._add("X0111", f"{count} threadblocks", program.gpu_location(int(gpu)), f"at most {limit}")
        for name, peers in (("send", tbs.send), ("recv", tbs.recv)):
            used = peers >= 0
            pairs, counts = np.unique(np.stack([tbs.gpu, tbs.chan])[:, used], axis=1, return_counts=True)
            for at in np.flatnonzero(counts > MAX_PEERS_PER_CHANNEL)[:SHOWN]:
                gpu, channel = int(pairs[0, at]), int(pairs[1, at])
                text = f"{counts[at]} threadblocks with a {name} peer on channel {channel}"
                self._add("X0111", text, program.gpu_location(gpu), f"at most {MAX_PEERS_PER_CHANNEL} per channel")

    def ends(self) -> None:
        """Every connection has exactly one threadblock at each end."""
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
                self._add("X0112", text, location, "one", breaks=True, also=other, hint=hint)
        kinds = program.steps.kind
        active_out = np.bincount(program.steps.tb[SENDS[kinds]], minlength=len(program.tbs)) > 0
        active_in = np.bincount(program.steps.tb[RECEIVES[kinds]], minlength=len(program.tbs)) > 0
        for number in np.flatnonzero(connections.receiver < 0)[: SHOWN * 4]:
            row = int(connections.sender[number])
            text = f"no threadblock receives on this connection ({connections.name(int(number))})"
            self._add("X0112", text, program.tb_location(row, "send"), "one", breaks=bool(active_out[row]))
        for number in np.flatnonzero(connections.sender < 0)[: SHOWN * 4]:
            row = int(connections.receiver[number])
            text = f"no threadblock sends on this connection ({connections.name(int(number))})"
            self._add("X0112", text, program.tb_location(row, "recv"), "one", breaks=bool(active_in[row]))

    def steps(self) -> None:
        program, steps = self.program, self.program.steps
        kind = steps.kind
        real = kind != StepKind.NOP
        rule = "its position in the threadblock"
        self._steps(steps.s != program.position, "X0113", "s", lambda row: f"s is {steps.s[row]}", rule)
        wrong = real & ((steps.cnt < 1) | (steps.cnt > MAX_COUNT))
        self._steps(wrong, "X0113", "cnt", lambda row: f"cnt is {steps.cnt[row]}", f"1 .. {MAX_COUNT}", breaks=True)
        wrong = (steps.hasdep != 0) & (steps.hasdep != 1)
        self._steps(wrong, "X0113", "hasdep", lambda row: f"hasdep is {steps.hasdep[row]}", "0 or 1")
        no_peer = SENDS[kind] & (program.tbs.send[steps.tb] < 0)
        names = list(STEP_KINDS)
        for mask, peer in ((no_peer, "send"), (RECEIVES[kind] & (program.tbs.recv[steps.tb] < 0), "recv")):
            self._steps(
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
        self._tbs(lengths > limit, "X0113", "", lambda row: f"{lengths[row]} steps", rule)

    def offsets(self) -> None:
        program, steps = self.program, self.program.steps
        gpu, kind = program.step_gpu, steps.kind
        for name, buffer, offset, used in (
            ("src", steps.srcbuf, steps.srcoff, READS_SOURCE[kind]),
            ("dst", steps.dstbuf, steps.dstoff, READS_TARGET[kind] | WRITES[kind]),
        ):
            wide = (offset < -(2**15)) | (offset > MAX_OFFSET)
            self._steps(wide, "X0114", f"{name}off", lambda row, o=offset: f"offset {o[row]}", "16 bits")
            size = program.chunks[gpu, buffer]
            end = offset.astype(np.int64) + steps.cnt
            outside = used & ((offset < 0) | (end > size))
            self._steps(
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
        program, steps, tbs = self.program, self.program.steps, self.program.tbs
        gpu = program.step_gpu
        depends = steps.depid >= 0
        self._steps(
            steps.depid < -1, "X0115", "depid", lambda row: f"depid is {steps.depid[row]}", "-1 or a threadblock"
        )
        half = ~depends & (steps.deps >= 0)
        text = "deps without a depid: no dependency at all"
        self._steps(half, "X0115", "deps", text, "depid, or deps -1", warning=True)
        count = np.diff(program.gpu_first)[gpu]
        missing = depends & (steps.depid >= count)
        self._steps(
            missing,
            "X0115",
            "depid",
            lambda row: f"no threadblock {steps.depid[row]}",
            lambda row: f"0 .. {count[row] - 1}",
            breaks=True,
        )
        if self.profile == "executor":
            wide = depends & (steps.depid > MAX_DEPENDED)
            text = f"depends on a threadblock above {MAX_DEPENDED}; the runtime keeps 8 bits"
            self._steps(wide, "X0115", "depid", text, f"at most {MAX_DEPENDED}")
        rows = np.flatnonzero(depends & ~missing)
        on = program.gpu_first[gpu[rows]] + steps.depid[rows]
        length = np.diff(tbs.first)[on]
        outside = (steps.deps[rows] < 0) | (steps.deps[rows] >= length)
        mask = np.zeros(len(steps), np.bool_)
        mask[rows[outside]] = True
        lengths = dict(zip(rows[outside].tolist(), length[outside].tolist(), strict=True))
        self._steps(
            mask,
            "X0115",
            "deps",
            lambda row: f"threadblock {steps.depid[row]} has no step {steps.deps[row]}",
            lambda row: f"0 .. {lengths[row] - 1}",
            breaks=True,
        )
        self._depended(rows[~outside], tbs.first[on[~outside]] + steps.deps[rows[~outside]])

    def _depended(self, rows: Int64Array, target: Int64Array) -> None:
        """What is depended on must move the counter: a real step with hasdep."""
        program, steps = self.program, self.program.steps
        silent = (steps.hasdep[target] != 1) | (steps.kind[target] == StepKind.NOP)
        for row, on in list(zip(rows[silent].tolist(), target[silent].tolist(), strict=True))[: SHOWN * 4]:
            nop = steps.kind[on] == StepKind.NOP
            what = "is a nop, which moves no counter" if nop else 'has hasdep="0", so its counter does not move'
            text = f"depends on step {steps.deps[row]} of threadblock {steps.depid[row]}, which {what}"
            location = program.step_location(row, "depid")
            hint = f'set hasdep="1" on that step (line {steps.line[on]})'
            other = (("the step depended on", program.step_location(on, "hasdep")),)
            self._add("X0115", text, location, 'a step with hasdep="1"', also=other, hint=hint)

    def nops(self) -> None:
        """K dependencies: k - 1 nops right before the step, each with one, and the k-th on the step itself."""
        steps = self.program.steps
        nop, depends = steps.kind == StepKind.NOP, steps.depid >= 0
        bare = "nop without a dependency: the runtime miscounts the steps after it"
        self._steps(nop & ~depends, "X0118", "depid", bare, "one dependency on every nop")
        if not len(steps):
            return
        last = np.append(steps.tb[1:] != steps.tb[:-1], [True])
        self._steps(nop & last, "X0118", "type", "nop at the end of a threadblock", "a real step after it")
        follows = np.append([False], nop[:-1] & ~last[:-1])
        text = "step after a nop without a dependency of its own: the runtime refuses the file"
        self._steps(follows & ~nop & ~depends, "X0118", "depid", text, "the last dependency on this step")

    def fused_reductions(self) -> None:
        """Runs of `re` that the parser fuses into one: same buffers and destination, no dependency between."""
        program, steps = self.program, self.program.steps
        reduces = np.flatnonzero(steps.kind == StepKind.RE)
        previous, run = -2, 0
        for row in reduces.tolist():
            joined = row == previous + 1 and steps.tb[row] == steps.tb[previous] and self._fuses(previous, row)
            run = run + 1 if joined else 1
            if joined and steps.cnt[row] != steps.cnt[previous]:
                text = "fused with the re before it, whose cnt differs: the runtime takes one count for both"
                self._add("X0119", text, program.step_location(row, "cnt"), f"cnt {steps.cnt[previous]}")
            if run == MAX_FUSED + 1:
                text = f"more than {MAX_FUSED} re in a row are fused into one"
                hint = 'set hasdep="1" on one of them to break the row'
                self._add("X0119", text, program.step_location(row, "type"), f"at most {MAX_FUSED}", hint=hint)
            previous = row

    def _fuses(self, before: int, row: int) -> bool:
        steps = self.program.steps
        same = all(column[before] == column[row] for column in (steps.dstbuf, steps.dstoff, steps.srcbuf))
        return bool(same and steps.depid[row] < 0 and steps.hasdep[before] == 0)

    def nodes(self) -> None:
        """What one rank's parser holds: the algo, all gpu elements, its own threadblocks and steps."""
        program = self.program
        if program.ngpus > MAX_CHILDREN:
            self._algo("ngpus", f"{program.ngpus} gpu elements", f"at most {MAX_CHILDREN} children of one element")
        counts = np.bincount(program.step_gpu, minlength=program.ngpus) + np.diff(program.gpu_first)
        for gpu in np.flatnonzero(counts + 1 + program.ngpus > MAX_NODES)[:SHOWN]:
            total = int(counts[gpu]) + 1 + program.ngpus
            text = f"{total} nodes when this rank loads the file"
            hint = "fewer chunks or instances, or counts above 1"
            self._add("X0117", text, program.gpu_location(int(gpu)), f"at most {MAX_NODES}", hint=hint)

    def _algo(
        self, attribute: str, text: str, rule: str, *, breaks: bool = False, warning: bool = False, hint: str = ""
    ) -> None:
        layout = self.program.algo_location
        location = FileLocation(layout.line, layout.column, attribute=attribute)
        self._add("X0110", text, location, rule, breaks=breaks, warning=warning, hint=hint)

    def _tbs(self, mask: BoolArray, code: str, attribute: str, text: str | Callable[[int], str], rule: str) -> None:
        for row in np.flatnonzero(mask).tolist()[:SHOWN]:
            self._add(
                code,
                text if isinstance(text, str) else text(row),
                self.program.tb_location(row, attribute),
                rule,
                breaks=code == "X0111",
            )

    def _steps(
        self,
        mask: BoolArray,
        code: str,
        attribute: str,
        text: str | Callable[[int], str],
        rule: str | Callable[[int], str],
        *,
        breaks: bool = False,
        warning: bool = False,
    ) -> None:
        for row in np.flatnonzero(mask).tolist()[: SHOWN * 4]:
            expected = rule if isinstance(rule, str) else rule(row)
            location = self.program.step_location(row, attribute)
            said = text if isinstance(text, str) else text(row)
            self._add(code, said, location, expected, breaks=breaks, warning=warning)

    def _add(
        self,
        code: str,
        message: str,
        location: FileLocation,
        expected: str,
        *,
        breaks: bool = False,
        warning: bool = False,
        hint: str = "",
        also: tuple[tuple[str, FileLocation], ...] = (),
    ) -> None:
        self.findings.add(Finding("contract", code, message, location, expected, hint, warning, also), breaks=breaks)


def check_room(program: FileProgram, expected: ExpectedResult, findings: Findings) -> None:
    """The buffers of every rank hold the chunks that a custom collective has there."""
    inputs = {given for want in expected.outputs.values() for given in want.contributions}
    for buffer, used in ((INPUT, inputs), (OUTPUT, set(expected.outputs))):
        needed: dict[int, int] = {}
        for rank, slot in used:
            needed[rank] = max(needed.get(rank, 0), slot + 1)
        name = f"{BUFFERS[buffer]}_chunks"
        for rank, count in sorted(needed.items()):
            if rank >= program.ngpus:
                layout = program.algo_location
                location = FileLocation(layout.line, layout.column, attribute="ngpus")
                text = f"ngpus is {program.ngpus}, but the collective has rank {rank}"
                findings.add(Finding("contract", "X0110", text, location, f"at least {rank + 1}"), breaks=True)
            elif program.chunks[rank, buffer] < count:
                text = f"{name} is {program.chunks[rank, buffer]}, too few for the collective"
                location = program.gpu_location(rank, name)
                findings.add(Finding("contract", "X0116", text, location, f"at least {count}"), breaks=True)


def overwritten_inputs(program: FileProgram, findings: Findings) -> None:
    """Out of place, a write to the input buffer changes the caller's data: a warning."""
    steps = program.steps
    rows = np.flatnonzero(WRITES[steps.kind] & (steps.dstbuf == INPUT))
    if len(rows) and program.outofplace:
        text = f"out of place, {len(rows)} steps write to the input buffer, which belongs to the caller"
        location = program.step_location(int(rows[0]), "dstbuf")
        finding = Finding("contract", "X0120", text, location, "o or s", 'outofplace="0", or scratch', warning=True)
        findings.add(finding)
