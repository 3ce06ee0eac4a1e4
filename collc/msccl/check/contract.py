"""The contract of the runtimes: every rule of docs/msccl-contract.md, sections 2 to 5, that needs no execution.

Each rank of a runtime checks some of these rules, and only for its own `gpu` element. If another one is broken, the
runtime hangs, crashes or computes something else. Here all rules are checked for all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.base.wording import plural
from collc.msccl.check.collectives import NAMES, ExpectedResult
from collc.msccl.check.findings import PER_CODE, FileLocation, Finding, Findings
from collc.msccl.check.model import BUFFERS, MAX_COUNT, PROFILES, FileProgram
from collc.runtime.collectives import INPUT, OUTPUT, SCRATCH, TOTAL, buffer_sizes
from collc.runtime.operations import READS_SOURCE, READS_TARGET, RECEIVES, SENDS, STEP_KINDS, WRITES, StepKind
from collc.ten.arrays import BoolArray

_SHOWN: Final = 4 * (PER_CODE + 1)
"""Findings of one rule at most, so that the message "more of this kind" appears."""

NEVER_CALLED: Final = ("gather", "scatter")
"""Collectives that the executor loads and never selects, since it has no function of NCCL for them."""

# Limits of the runtimes (docs/msccl-contract.md, sections 4 and 5), and of the check itself.
MAX_STEPS: Final = {"executor": 64, "old": 256, "rccl": 64, "run": 2**15}
"""Steps of one threadblock, by profile."""
MAX_THREADBLOCKS: Final = {"executor": 1024, "old": 216, "rccl": 64, "run": 1024}
"""Threadblocks of one GPU, by profile."""
MAX_CHANNELS: Final = {"executor": 32, "old": 32, "rccl": 128, "run": 32}
"""By profile."""
MAX_PEERS_PER_CHANNEL: Final = 32
"""Threadblocks of one GPU that send, and that receive, on one channel."""
MAX_FUSED: Final = 16
"""Consecutive `re` steps that the runtimes fuse."""
MAX_AWAITED: Final = 127
"""The last threadblock that a dependency of the executor can name."""
MAX_NODES: Final = 4095
"""Elements that one rank keeps of a file."""
MAX_CHILDREN: Final = 1024
"""Children of one element."""
MAX_OFFSET: Final = 2**15 - 1
MAX_BUFFER: Final = MAX_OFFSET + MAX_COUNT
"""Chunks of one buffer that steps can reach."""
MAX_SCRATCH_BYTES: Final = 80 * 2**30
"""Scratch of one GPU: all memory of an A100 or H100, the largest GPUs that the old runtime supports."""
LARGE_SCRATCH_BYTES: Final = 2**30
"""Scratch of one GPU above which a file for the old runtime gets a warning."""
MAX_CHUNKS: Final = 2**24
"""Chunks in the buffers of all GPUs together; a limit of the check, not of the runtimes."""

Rows = Mapping[str, NDArray[Any]]
"""Columns of a table."""


def check_contract(program: FileProgram, findings: Findings, coll: str) -> None:
    """Add every broken rule to the findings. coll: canonical name of the collective that the file must do."""
    rules = _Contract(program, findings)
    rules.check_algo()
    rules.check_sizes(coll)
    rules.check_buffers(coll)
    rules.check_scratch()
    rules.check_threadblocks()
    rules.check_ends()
    rules.check_steps()
    rules.check_offsets()
    rules.check_dependencies()
    if program.profile == "run":
        return
    rules.check_nops()
    rules.check_fused_reductions()
    rules.check_nodes()


def check_selection(program: FileProgram, findings: Findings) -> None:
    """Add to the findings why the runtime may never select the file: the rules for the algo element alone."""
    _Contract(program, findings).check_algo()


class _Contract:
    """The rules for a program; what breaks them is added to the findings.

    Arguments of the methods that report: `attribute` is the attribute that is wrong, `text` says what is wrong and
    `expected` what should be there; with `breaks` the program cannot be executed; `warning`: a runtime takes the file.
    """

    def __init__(self, program: FileProgram, findings: Findings) -> None:
        self.program: FileProgram = program
        self.findings: Findings = findings

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

    def report_algo(self, attribute: str, text: str, expected: str, code: str = "X0110", **more: Any) -> None:  # noqa: ANN401
        """Report an attribute of the algo element. more: as for `report`."""
        self.report(code, text, self.program.algo_attribute(attribute), expected, **more)

    def report_rows(
        self,
        element: str,
        code: str,
        attribute: str,
        wrong: BoolArray,
        text: str,
        expected: str,
        columns: Rows | None = None,
        **more: Any,  # noqa: ANN401
    ) -> None:
        """Report the elements with True in `wrong`: "gpu", "tb" or "step".

        text, expected: with attributes of the element and names of `columns` in braces. more: as for `report`.
        """
        program = self.program
        location_of = {"gpu": program.gpu_location, "tb": program.tb_location, "step": program.step_location}[element]
        table = {"gpu": {}, "tb": vars(program.tbs), "step": vars(program.steps)}[element] | dict(columns or {})
        for row in np.flatnonzero(wrong)[:_SHOWN].tolist():
            values = {name: column[row] for name, column in table.items()}
            self.report(code, text.format(**values), location_of(row, attribute), expected.format(**values), **more)

    def report_buffer(self, wrong: BoolArray, buffer: int, what: str, expected: str, *, warning: bool = False) -> None:
        """Report the size of a buffer of the gpus with True in `wrong`. what: is said of it."""
        name, columns = f"{BUFFERS[buffer]}_chunks", {"size": self.program.chunks[:, buffer]}
        more = {"breaks": not warning, "warning": warning}
        self.report_rows("gpu", "X0116", name, wrong, f"{name} is {{size}}, {what}", expected, columns, **more)

    def check_algo(self) -> None:
        """The attributes of the algo element: collective, channels, placement and range of sizes."""
        program, report, names = self.program, self.report_algo, NAMES[self.program.profile]
        if program.coll not in names:
            rule, hint = f"one of {', '.join(names)}", self._hint_of_runtime()
            report("coll", f'coll "{program.coll}"', rule, breaks=True, hint=hint)
        elif program.coll in NEVER_CALLED and program.profile == "executor":
            text = f'coll "{program.coll}": the executor loads the file and never selects it: NCCL has no such call'
            hint = "the Executor of MSCCL++ runs it as a plan ('emit mscclpp')"
            report("coll", text, "a collective that NCCL has a call for", warning=True, hint=hint)
        most, total = MAX_CHANNELS[program.profile], program.nchunksperloop
        if not 1 <= program.nchannels <= most:
            report("nchannels", f"{program.nchannels} channels", f"1 .. {most}")
        if total < 1:
            report("nchunksperloop", f"nchunksperloop is {total}", "at least 1", breaks=True)
        if not program.inplace and not program.outofplace:
            report("outofplace", "neither in place nor out of place: never selected", "one of the flags 1")
        if program.old and program.inplace and program.outofplace:
            text = "the old runtime reads only inplace: it selects this file for calls in place, never out of place"
            hint = 'for calls out of place, write a second file with inplace="0"'
            report("outofplace", text, "one placement in a file", warning=True, hint=hint)
        if program.min_bytes < 0 or program.max_bytes < 0:
            report("minBytes", "negative size", "sizes from 0")
        limit, least = program.size_limit, max(1, -(-program.min_bytes // max(1, total))) * max(1, total)
        if limit is not None and limit < program.min_bytes:
            report("maxBytes", "no size is in range: never selected", "minBytes up to maxBytes")
        elif limit is not None and least > limit:  # it selects the file only for multiples of nchunksperloop
            span = f"from {program.min_bytes} to {limit}"
            text = f"no multiple of nchunksperloop = {max(1, total)} bytes is {span}: never selected"
            report("maxBytes", text, f"a size of {least} bytes in range", warning=True)

    def _hint_of_runtime(self) -> str:
        """The hint for a collective that only the other runtime knows."""
        if self.program.coll == "custom":
            return (
                "only the old runtime knows it, and the file does not say what it computes: "
                "'collc verify FILE --profile old --program FILE.coll --schedule NAME'"
            )
        knows = next((name for name in PROFILES if self.program.coll in NAMES[name]), "")
        return f"another runtime knows it: --profile {knows}" if knows else ""

    def check_sizes(self, coll: str) -> None:
        """Refuse buffers that are too large to be meant, before arrays of their size are allocated."""
        program, total = self.program, self.program.nchunksperloop
        declared = np.clip(program.chunks, 0, None)
        reach = f"at most {MAX_BUFFER}: offsets end at {MAX_OFFSET}, counts at {MAX_COUNT}"
        for buffer in range(len(BUFFERS)):
            self.report_buffer(declared[:, buffer] > MAX_BUFFER, buffer, "more than steps can reach", reach)
        sizes = buffer_sizes(coll, program.ngpus, max(1, total)) or (total, 0)
        if max(sizes) > MAX_BUFFER:
            text = f"nchunksperloop is {total}: {max(sizes)} chunks in one buffer, more than steps can reach"
            self.report_algo("nchunksperloop", text, reach, breaks=True)
        if self.findings.broken:
            return
        # `symbolic.layout_of` enlarges the buffers of the file to those of the collective.
        slots = int(declared[:, SCRATCH].sum())
        for buffer, size in enumerate(sizes):
            only_root = coll == ("scatter", "gather")[buffer]
            named = declared[:, buffer]
            slots += int(named.sum()) + size if only_root else int(np.maximum(named, size).sum())
        if slots > MAX_CHUNKS:
            text = f"{slots} chunks in the buffers of {program.ngpus} ranks"
            self.report_algo("nchunksperloop", text, f"at most {MAX_CHUNKS} to be checked", breaks=True)

    def check_buffers(self, coll: str) -> None:
        """The sizes of buffers in the file, against those that the runtime derives from the collective.

        The buffers of a custom file have the sizes in the file, which must suffice; in place, a buffer that is a part
        of the other one must not extend beyond its part. Buffers that only the root needs are left to the check of the
        result.
        """
        program, total = self.program, self.program.nchunksperloop
        for buffer in range(len(BUFFERS)):
            self.report_buffer(program.chunks[:, buffer] < 0, buffer, "which is negative", "at least 0")
        if coll in TOTAL and total % program.ngpus:
            rule = f"a multiple of ngpus = {program.ngpus} for {coll}"
            self.report_algo("nchunksperloop", f"nchunksperloop is {total}", rule, breaks=True)
            return
        only_root = {"broadcast": INPUT, "scatter": INPUT, "reduce": OUTPUT, "gather": OUTPUT}.get(coll)
        part = {"allgather": INPUT, "gather": INPUT, "reducescatter": OUTPUT, "scatter": OUTPUT}.get(coll)
        for buffer, size in enumerate(buffer_sizes(coll, program.ngpus, max(1, total)) or ()):
            declared, rule = program.chunks[:, buffer], f"{size} (nchunksperloop is {total})"
            what = f"but {coll} over {program.ngpus} ranks has {size}"
            if program.coll == "custom":
                exact = program.inplace and buffer == part
                wrong = (declared < size) & (buffer != only_root) | (exact & (declared > size))
                self.report_buffer(wrong, buffer, what, rule if exact else f"at least {rule}")
                continue
            free = coll == ("scatter", "gather")[buffer]
            exact = program.old and not free
            wrong = (declared != size) & (declared != 0) if exact else declared > size
            self.report_buffer(wrong, buffer, what, rule)
            if not (exact or free):
                short, what = (declared < size) & (declared > 0), f"less than the {size} that {coll} has"
                self.report_buffer(short, buffer, what, str(size), warning=True)

    def check_scratch(self) -> None:
        """The scratch that the old runtime allocates when it starts (docs/msccl-contract.md, section 5)."""
        program = self.program
        if not program.old or self.findings.broken:
            return
        scratch: list[int] = program.chunks[:, SCRATCH].tolist()
        gpu = max(range(program.ngpus), key=scratch.__getitem__)
        needed = program.max_bytes * scratch[gpu] // program.nchunksperloop
        if needed <= LARGE_SCRATCH_BYTES:
            return
        power = min((needed.bit_length() - 1) // 10, 6)
        size = f"{needed / 2 ** (10 * power):.1f} {'KMGTPE'[power - 1]}iB"
        text = f"the old runtime allocates {size} of scratch on gpu {gpu} when it starts"
        most = MAX_SCRATCH_BYTES if needed > MAX_SCRATCH_BYTES else LARGE_SCRATCH_BYTES
        hint = f'maxBytes="{LARGE_SCRATCH_BYTES * program.nchunksperloop // scratch[gpu]}" keeps it to 1 GiB'
        warning = needed <= MAX_SCRATCH_BYTES
        self.report_algo("maxBytes", text, f"at most {most >> 30} GiB", "X0121", warning=warning, hint=hint)

    def check_threadblocks(self) -> None:
        """Peers and channels of threadblocks, and how many there are."""
        program, tbs = self.program, self.program.tbs
        report = partial(self.report_rows, "tb", "X0111", breaks=True)
        for name, peers in (("send", tbs.send), ("recv", tbs.recv)):
            report(name, peers == tbs.gpu, f"{name} peer is the gpu itself", "another gpu")
            wrong, rule = (peers < -1) | (peers >= program.ngpus), f"-1 or 0 .. {program.ngpus - 1}"
            report(name, wrong, name + " peer {peer}", rule, {"peer": peers})
        rule = f"0 .. {program.nchannels - 1} (nchannels, also for threadblocks that only copy)"
        report("chan", (tbs.chan < 0) | (tbs.chan >= program.nchannels), "channel {chan}", rule)
        limit, counts = MAX_THREADBLOCKS[program.profile], np.diff(program.gpu_first)
        rule, columns = f"at most {limit}", {"count": counts}
        self.report_rows("gpu", "X0111", "", counts > limit, "{count} threadblocks", rule, columns)
        for name, peers in (("send", tbs.send), ("recv", tbs.recv)):
            pairs, counts = np.unique(np.stack([tbs.gpu, tbs.chan])[:, peers >= 0], axis=1, return_counts=True)
            for pair in np.flatnonzero(counts > MAX_PEERS_PER_CHANNEL)[:_SHOWN]:
                text = f"{counts[pair]} threadblocks with a {name} peer on channel {pairs[1, pair]}"
                location = program.gpu_location(int(pairs[0, pair]))
                self.report("X0111", text, location, f"at most {MAX_PEERS_PER_CHANNEL} per channel")

    def check_ends(self) -> None:
        """Every connection has exactly one threadblock at each end; the runtimes hang while they connect otherwise."""
        program, steps, connections = self.program, self.program.steps, self.program.connections
        sender = "send", "receives", connections.of_sender, connections.sender, connections.receiver, SENDS
        receiver = "recv", "sends", connections.of_receiver, connections.receiver, connections.sender, RECEIVES
        for name, _, number_of, first, _, _ in (sender, receiver):
            rows = np.flatnonzero(number_of >= 0)
            for row in rows[first[number_of[rows]] != rows][:_SHOWN].tolist():
                number = int(number_of[row])
                text = f"two threadblocks on one connection ({connections.name(number)}) at the {name}ing side"
                other = (("the other one", program.tb_location(int(first[number]), name)),)
                hint = "put one of them on another channel"
                self.report("X0112", text, program.tb_location(row, name), "one", breaks=True, also=other, hint=hint)
        for name, verb, _, here, there, moves in (sender, receiver):
            active = np.bincount(steps.tb[moves[steps.kind]], minlength=len(program.tbs)) > 0
            for number in np.flatnonzero(there < 0)[:_SHOWN].tolist():
                row = int(here[number])
                text = f"no threadblock {verb} on this connection ({connections.name(number)})"
                self.report("X0112", text, program.tb_location(row, name), "one", breaks=bool(active[row]))

    def check_steps(self) -> None:
        """Position, count, dependency flag and peers of steps, and how many there are."""
        program, steps, kind = self.program, self.program.steps, self.program.steps.kind
        report = partial(self.report_rows, "step", "X0113")
        report("s", steps.s != program.position, "s is {s}", "its position in the threadblock")
        wrong = (kind != StepKind.NOP) & ((steps.cnt < 1) | (steps.cnt > MAX_COUNT))
        report("cnt", wrong, "cnt is {cnt}", f"1 .. {MAX_COUNT}", breaks=True)
        report("hasdep", (steps.hasdep != 0) & (steps.hasdep != 1), "hasdep is {hasdep}", "0 or 1")
        names = {"type": np.array(list(STEP_KINDS))[kind]}
        for moves, peers, peer in ((SENDS, program.tbs.send, "send"), (RECEIVES, program.tbs.recv, "recv")):
            text, rule = f"{{type}} in a threadblock without a {peer} peer", f"{peer} >= 0 in the <tb>"
            report("type", moves[kind] & (peers[steps.tb] < 0), text, rule, names, breaks=True)
        limit, lengths = MAX_STEPS[program.profile], np.diff(program.tbs.first)
        rule, columns = f"at most {limit} ({program.profile}), nops counted", {"length": lengths}
        self.report_rows("tb", "X0113", "", lengths > limit, "{length} steps", rule, columns)
        if program.profile == "rccl":  # it loads files with fused operations, and the first call that selects one fails
            fused = ~np.isin(kind, (StepKind.S, StepKind.R, StepKind.CPY, StepKind.RE, StepKind.NOP))
            rule = "s, r, cpy, re or nop; a sum is an r to scratch, then a re"
            report("type", fused, "RCCL does not run {type}", rule, names)

    def check_offsets(self) -> None:
        """Every slot that a step reads or writes is inside its buffer."""
        program, steps, kind = self.program, self.program.steps, self.program.steps.kind
        for name, buffer, offset, used in (
            ("src", steps.srcbuf, steps.srcoff, READS_SOURCE[kind]),
            ("dst", steps.dstbuf, steps.dstoff, READS_TARGET[kind] | WRITES[kind]),
        ):
            report = partial(self.report_rows, "step", "X0114", f"{name}off")
            size, end = program.chunks[program.step_gpu, buffer], offset.astype(np.int64) + steps.cnt
            columns = {"offset": offset, "size": size, "last": end - 1, "buffer": np.array(BUFFERS)[buffer]}
            report((offset < -(2**15)) | (offset > MAX_OFFSET), "offset {offset}", "16 bits", columns)
            text, rule = (
                f"{name} is {{buffer}}[{{offset}} .. {{last}}], outside the buffer",
                "within the {size} chunks of ",
            )
            report(used & ((offset < 0) | (end > size)), text, rule + "{buffer}", columns, breaks=True)

    def check_dependencies(self) -> None:
        """Every dependency names a step of the same gpu from which on its counter moves, at a real step with hasdep."""
        program, steps, gpu = self.program, self.program.steps, self.program.step_gpu
        report = partial(self.report_rows, "step", "X0115")
        depends, last = steps.depid >= 0, np.diff(program.gpu_first)[gpu] - 1
        report("depid", steps.depid < -1, "depid is {depid}", "-1 or a threadblock")
        text = "deps without a depid: no dependency at all"
        report("deps", ~depends & (steps.deps >= 0), text, "depid, or deps -1", warning=True)
        missing, columns = steps.depid > last, {"last": last}
        report("depid", missing, "no threadblock {depid}", "0 .. {last}", columns, breaks=True)
        if not program.old:
            text = f"depends on a threadblock above {MAX_AWAITED}; the runtime keeps 8 bits"
            report("depid", steps.depid > MAX_AWAITED, text, f"at most {MAX_AWAITED}")
        on = program.gpu_first[gpu] + np.where(depends & ~missing, steps.depid, 0)
        columns = {"last": np.diff(program.tbs.first)[on] - 1}
        outside = depends & ~missing & ((steps.deps < 0) | (steps.deps > columns["last"]))
        text = "threadblock {depid} has no step {deps}"
        report("deps", outside, text, "0 .. {last}", columns, breaks=True)
        rows = np.flatnonzero(depends & ~missing & ~outside)
        target = program.tbs.first[on[rows]] + steps.deps[rows]
        moving = np.flatnonzero((steps.hasdep == 1) & (steps.kind != StepKind.NOP))  # the steps that move a counter
        ends = program.tbs.first[on[rows] + 1]
        silent = np.searchsorted(moving, target) == np.searchsorted(moving, ends)
        for row, awaited in list(zip(rows[silent].tolist(), target[silent].tolist(), strict=True))[:_SHOWN]:
            text = (
                f"depends on step {steps.deps[row]} of threadblock {steps.depid[row]}, and no step from that one on "
                "moves the counter of the threadblock"
            )
            hint = f'set hasdep="1" on that step (line {steps.line[awaited]}), or on one after it if it is a nop'
            other = (("the step depended on", program.step_location(awaited, "hasdep")),)
            location = program.step_location(row, "depid")
            self.report("X0115", text, location, 'a step with hasdep="1"', also=other, hint=hint)

    def check_nops(self) -> None:
        """Every nop has a dependency, and so has the real step that follows it."""
        steps = self.program.steps
        report = partial(self.report_rows, "step", "X0118")
        nop, depends = steps.kind == StepKind.NOP, steps.depid >= 0
        last = np.append(steps.tb[1:] != steps.tb[:-1], [True])[: len(steps)]
        follows = np.append([False], nop[:-1] & ~last[:-1])[: len(steps)]
        text = "nop without a dependency: the runtime miscounts the steps after it"
        report("depid", nop & ~depends, text, "one dependency on every nop")
        report("type", nop & last, "nop at the end of a threadblock", "a real step after it")
        text = "step after a nop without a dependency of its own: the runtime refuses the file"
        report("depid", follows & ~nop & ~depends, text, "the last dependency on this step")

    def check_fused_reductions(self) -> None:
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

    def check_nodes(self) -> None:
        """The elements that one rank keeps: the algo, all gpus, its own threadblocks and steps."""
        program, ranks = self.program, self.program.ngpus
        if ranks > MAX_CHILDREN:
            self.report_algo("ngpus", f"{ranks} gpu elements", f"at most {MAX_CHILDREN} children of one element")
        counts = np.bincount(program.step_gpu, minlength=ranks) + np.diff(program.gpu_first) + 1 + ranks
        text, hint = "{count} nodes when this rank loads the file", "fewer chunks or instances, or counts above 1"
        rule, columns = f"at most {MAX_NODES}", {"count": counts}
        self.report_rows("gpu", "X0117", "", counts > MAX_NODES, text, rule, columns, hint=hint)


def check_room(program: FileProgram, expected: ExpectedResult, findings: Findings) -> None:
    """The file divides buffers into the chunks of a custom collective, and those of every rank have room for them."""
    if program.nchunksperloop != expected.width:
        chunks, location = plural(expected.width, "chunk"), program.algo_attribute("nchunksperloop")
        text = f"nchunksperloop is {program.nchunksperloop}, but the longest buffer of the collective has {chunks}"
        findings.add(Finding("contract", "X0110", text, location, str(expected.width)))
    inputs = {given for want in expected.outputs.values() for given in want.contributions}
    for buffer, used in ((INPUT, inputs), (OUTPUT, set(expected.outputs))):
        name = f"{BUFFERS[buffer]}_chunks"
        for rank, count in sorted({rank: slot + 1 for rank, slot in sorted(used)}.items()):
            if rank >= program.ngpus:
                location = program.algo_attribute("ngpus")
                text = f"ngpus is {program.ngpus}, but the collective has rank {rank}"
                findings.add(Finding("contract", "X0110", text, location, f"at least {rank + 1}"), breaks=True)
            elif program.chunks[rank, buffer] < count:
                text = f"{name} is {program.chunks[rank, buffer]}, too few for the collective"
                location = program.gpu_location(rank, name)
                findings.add(Finding("contract", "X0116", text, location, f"at least {count}"), breaks=True)


def check_overwritten_inputs(program: FileProgram, findings: Findings) -> None:
    """Warn of a file for calls out of place that writes to the input buffer, since that changes the caller's data."""
    steps = program.steps
    rows = np.flatnonzero(WRITES[steps.kind] & (steps.dstbuf == INPUT))
    if len(rows) and program.outofplace:
        text = f"out of place, {len(rows)} steps write to the input buffer, which belongs to the caller"
        location, hint = program.step_location(int(rows[0]), "dstbuf"), 'outofplace="0", or scratch'
        findings.add(Finding("contract", "X0120", text, location, "o or s", hint, warning=True))
