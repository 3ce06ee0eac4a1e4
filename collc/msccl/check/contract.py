"""The contract of the runtimes: every rule of docs/msccl-contract.md, sections 2 to 5, that needs no execution.

Each rank of a runtime checks some of these rules, and only for its own `gpu` element. If another one is broken, the
runtime hangs, crashes or computes something else. Here all rules are checked for all ranks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.msccl.check.collectives import NAMES, TOTAL, ExpectedResult, buffer_sizes
from collc.msccl.check.connections import Connections, connect
from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check.limits import (
    LARGE_SCRATCH_BYTES,
    MAX_BUFFER,
    MAX_CHANNELS,
    MAX_CHILDREN,
    MAX_CHUNKS,
    MAX_NODES,
    MAX_OFFSET,
    MAX_SCRATCH_BYTES,
)
from collc.msccl.check.model import BUFFERS, INPUT, MAX_COUNT, OUTPUT, PROFILES, SCRATCH, FileProgram
from collc.msccl.check.step_rules import SHOWN, ContractRules, check_steps
from collc.msccl.interpreter.operations import WRITES
from collc.ten.arrays import BoolArray

NEVER_CALLED: Final = ("gather", "scatter")
"""Collectives that the executor loads and never selects, since it has no function of NCCL for them."""


class FileRules(ContractRules):
    """Rules for the algo element and the gpu elements."""

    def _report_algo(
        self,
        attribute: str,
        text: str,
        expected: str,
        *,
        breaks: bool = False,
        warning: bool = False,
        hint: str = "",
        code: str = "X0110",
    ) -> None:
        location = self.program.algo_attribute(attribute)
        self.report(code, text, location, expected, breaks=breaks, warning=warning, hint=hint)

    def _report_buffer(self, wrong: BoolArray, buffer: int, what: str, expected: str, *, warning: bool = False) -> None:
        """Report the size of a buffer of the gpus with True in `wrong`. what: is said of it."""
        name, declared = f"{BUFFERS[buffer]}_chunks", self.program.chunks[:, buffer]
        for gpu in np.flatnonzero(wrong)[:SHOWN].tolist():
            location, text = self.program.gpu_location(gpu, name), f"{name} is {declared[gpu]}, {what}"
            self.report("X0116", text, location, expected, breaks=not warning, warning=warning)

    def algo(self) -> None:
        """The attributes of the algo element: collective, channels, placement and range of sizes."""
        program = self.program
        names = NAMES[program.profile]
        if program.coll not in names:
            rule, hint = f"one of {', '.join(names)}", self._hint_of_runtime()
            self._report_algo("coll", f'coll "{program.coll}"', rule, breaks=True, hint=hint)
        elif program.coll in NEVER_CALLED and program.profile == "executor":
            text = f'coll "{program.coll}": the executor loads the file and never selects it: NCCL has no such call'
            hint = "the Executor of MSCCL++ runs it as a plan ('emit mscclpp')"
            self._report_algo("coll", text, "a collective that NCCL has a call for", warning=True, hint=hint)
        most = MAX_CHANNELS[program.profile]
        if not 1 <= program.nchannels <= most:
            self._report_algo("nchannels", f"{program.nchannels} channels", f"1 .. {most}")
        if program.nchunksperloop < 1:
            self._report_algo(
                "nchunksperloop", f"nchunksperloop is {program.nchunksperloop}", "at least 1", breaks=True
            )
        if not program.inplace and not program.outofplace:
            self._report_algo("outofplace", "neither in place nor out of place: never selected", "one of the flags 1")
        if program.old and program.inplace and program.outofplace:
            text = "the old runtime reads only inplace: it selects this file for calls in place, never out of place"
            hint = 'for calls out of place, write a second file with inplace="0"'
            self._report_algo("outofplace", text, "one placement in a file", warning=True, hint=hint)
        if program.min_bytes < 0 or program.max_bytes < 0:
            self._report_algo("minBytes", "negative size", "sizes from 0")
        limit = program.size_limit
        if limit is not None and limit < program.min_bytes:
            self._report_algo("maxBytes", "no size is in range: never selected", "minBytes up to maxBytes")
        elif limit is not None:
            self._whole_size(limit)

    def _whole_size(self, limit: int) -> None:
        """The runtime selects the file only for sizes that are multiples of nchunksperloop."""
        program, total = self.program, max(1, self.program.nchunksperloop)
        least = max(1, -(-program.min_bytes // total)) * total
        if least > limit:
            span = f"from {program.min_bytes} to {limit}"
            text = f"no multiple of nchunksperloop = {total} bytes is {span}: never selected"
            self._report_algo("maxBytes", text, f"a size of {least} bytes in range", warning=True)

    def _hint_of_runtime(self) -> str:
        """The hint for a collective that only the other runtime knows."""
        if self.program.coll == "custom":
            return (
                "only the old runtime knows it, and the file does not say what it computes: "
                "'collc verify FILE --profile old --program FILE.coll --schedule NAME'"
            )
        knows = next((name for name in PROFILES if self.program.coll in NAMES[name]), "")
        return f"another runtime knows it: --profile {knows}" if knows else ""

    def sizes(self, coll: str) -> None:
        """Refuse buffers that are too large to be meant, before arrays of their size are allocated."""
        program, total = self.program, self.program.nchunksperloop
        declared = np.clip(program.chunks, 0, None)
        reach = f"at most {MAX_BUFFER}: offsets end at {MAX_OFFSET}, counts at {MAX_COUNT}"
        for buffer in range(len(BUFFERS)):
            self._report_buffer(declared[:, buffer] > MAX_BUFFER, buffer, "more than steps can reach", reach)
        sizes = buffer_sizes(coll, program.ngpus, max(1, total)) or (total, 0)
        if max(sizes) > MAX_BUFFER:
            text = f"nchunksperloop is {total}: {max(sizes)} chunks in one buffer, more than steps can reach"
            self._report_algo("nchunksperloop", text, reach, breaks=True)
        if self.findings.broken:
            return
        # `symbolic.layout_of` enlarges the buffers of the file to those of the collective.
        slots = int(declared[:, SCRATCH].sum())
        for buffer, size in enumerate(sizes):
            named = declared[:, buffer]
            only_root = coll == ("scatter", "gather")[buffer]
            slots += int(named.sum()) + size if only_root else int(np.maximum(named, size).sum())
        if slots > MAX_CHUNKS:
            text = f"{slots} chunks in the buffers of {program.ngpus} ranks"
            self._report_algo("nchunksperloop", text, f"at most {MAX_CHUNKS} to be checked", breaks=True)

    def buffers(self, coll: str) -> None:
        """The sizes of buffers in the file, against those that the runtime derives from the collective."""
        program, total = self.program, self.program.nchunksperloop
        for buffer in range(len(BUFFERS)):
            self._report_buffer(program.chunks[:, buffer] < 0, buffer, "which is negative", "at least 0")
        if coll in TOTAL and total % program.ngpus:
            text = f"nchunksperloop is {total}"
            self._report_algo("nchunksperloop", text, f"a multiple of ngpus = {program.ngpus} for {coll}", breaks=True)
            return
        sizes = buffer_sizes(coll, program.ngpus, max(1, total))
        if sizes is None:
            return
        if program.coll == "custom":
            self._custom_buffers(coll, sizes)
            return
        for buffer, size in enumerate(sizes):
            declared = program.chunks[:, buffer]
            free = coll == ("scatter", "gather")[buffer]
            exact = program.profile == "old" and not free
            wrong = (declared != size) if exact else (declared > size)
            what = f"but {coll} over {program.ngpus} ranks has {size}"
            self._report_buffer(wrong, buffer, what, f"{size} (nchunksperloop is {total})")
            if not (exact or free):
                short = (declared < size) & (declared > 0)
                self._report_buffer(short, buffer, f"less than the {size} that {coll} has", str(size), warning=True)

    def _custom_buffers(self, coll: str, sizes: tuple[int, int]) -> None:
        """The buffers of a custom file have the sizes in the file, which must suffice for the collective.

        Buffers that only the root needs are left to the check of the result. In place, a buffer that is a part of the
        other one must not extend beyond its part.
        """
        program = self.program
        only_root = {"broadcast": INPUT, "scatter": INPUT, "reduce": OUTPUT, "gather": OUTPUT}.get(coll)
        part = {"allgather": INPUT, "gather": INPUT, "reducescatter": OUTPUT, "scatter": OUTPUT}.get(coll)
        for buffer, size in enumerate(sizes):
            declared, exact = program.chunks[:, buffer], program.inplace and buffer == part
            wrong = (declared < size) & (buffer != only_root) | (exact & (declared > size))
            rule = f"{'' if exact else 'at least '}{size} (nchunksperloop is {program.nchunksperloop})"
            self._report_buffer(wrong, buffer, f"but {coll} over {program.ngpus} ranks has {size}", rule)

    def scratch(self) -> None:
        """The scratch that the old runtime allocates when it starts (docs/msccl-contract.md, section 5)."""
        program = self.program
        if not program.old or self.findings.broken:
            return
        scratch: list[int] = program.chunks[:, SCRATCH].tolist()
        gpu = max(range(program.ngpus), key=scratch.__getitem__)
        needed = program.max_bytes * scratch[gpu] // program.nchunksperloop
        if needed <= LARGE_SCRATCH_BYTES:
            return
        text = f"the old runtime allocates {_size_text(needed)} of scratch on gpu {gpu} when it starts"
        most = MAX_SCRATCH_BYTES if needed > MAX_SCRATCH_BYTES else LARGE_SCRATCH_BYTES
        rule = f"at most {most >> 30} GiB"
        hint = f'maxBytes="{LARGE_SCRATCH_BYTES * program.nchunksperloop // scratch[gpu]}" keeps it to 1 GiB'
        self._report_algo("maxBytes", text, rule, warning=needed <= MAX_SCRATCH_BYTES, hint=hint, code="X0121")

    def nodes(self) -> None:
        """The elements that one rank keeps: the algo, all gpus, its own threadblocks and steps."""
        program = self.program
        if program.ngpus > MAX_CHILDREN:
            self._report_algo(
                "ngpus", f"{program.ngpus} gpu elements", f"at most {MAX_CHILDREN} children of one element"
            )
        counts = np.bincount(program.step_gpu, minlength=program.ngpus) + np.diff(program.gpu_first)
        for gpu in np.flatnonzero(counts + 1 + program.ngpus > MAX_NODES)[:SHOWN]:
            total = int(counts[gpu]) + 1 + program.ngpus
            text = f"{total} nodes when this rank loads the file"
            hint = "fewer chunks or instances, or counts above 1"
            self.report("X0117", text, program.gpu_location(int(gpu)), f"at most {MAX_NODES}", hint=hint)


def _size_text(size: int) -> str:
    """The text of a size of at least 1 GiB: `1.5 GiB`, `2.0 EiB`."""
    power = min((size.bit_length() - 1) // 10, 6)
    return f"{size / 2 ** (10 * power):.1f} {'KMGTPE'[power - 1]}iB"


def check_contract(program: FileProgram, connections: Connections, findings: Findings, coll: str) -> None:
    """Add every broken rule to the findings. coll: canonical name of the collective that the file must do."""
    rules = FileRules(program, connections, findings)
    rules.algo()
    rules.sizes(coll)
    rules.buffers(coll)
    rules.scratch()
    check_steps(program, connections, findings)
    rules.nodes()


def check_selection(program: FileProgram, findings: Findings) -> None:
    """Add to the findings why the runtime may never select the file: the rules for the algo element alone."""
    FileRules(program, connect(program), findings).algo()


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
