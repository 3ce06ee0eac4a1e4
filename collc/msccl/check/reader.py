"""From tags to a program: elements, attributes and numbers, as the runtimes read them."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from collc.base.diagnostics import CheckFailed
from collc.msccl.check.findings import FileLocation, Finding, Findings, errors_of, unreadable_file
from collc.msccl.check.model import BUFFERS, CAPACITY, FileProgram, Profile, Steps, Threadblocks
from collc.msccl.check.scanner import ScanError, Tag, scan
from collc.runtime.operations import STEP_KINDS
from collc.runtime.run_program import MAGIC, RunProgram
from collc.ten.arrays import Int32Array

CHILD: Final[dict[str, str]] = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "algo": ("nchunksperloop", "nchannels", "ngpus", "proto", "coll", "minBytes", "maxBytes", "inplace", "outofplace"),
    "gpu": ("id", "i_chunks", "o_chunks", "s_chunks"),
    "tb": ("id", "send", "recv", "chan"),
    "step": ("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"),
}
OLD_DEFAULTS: Final = {"minBytes": 0, "maxBytes": 128 * 2**20}
_BUFFER_NUMBERS: Final = {name: number for number, name in enumerate(BUFFERS)}
_WORDS: Final[dict[str, tuple[dict[str, int], str]]] = {
    "type": ({name: int(kind) for name, kind in STEP_KINDS.items()}, f"one of {', '.join(STEP_KINDS)}"),
    "srcbuf": (_BUFFER_NUMBERS, "i, o or s"),
    "dstbuf": (_BUFFER_NUMBERS, "i, o or s"),
    "proto": (CAPACITY, "Simple, LL or LL128"),
}
"""Attributes that have one of some words: the numbers of these, and what they are."""

_C_INTEGER: Final = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")

NOWHERE: Final = FileLocation()


def c_integer(text: str) -> int | None:
    """The value of a C integer of base 0: `0x1F`, `017` (octal), `15`; None if the whole text is none."""
    if _C_INTEGER.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    value = int(digits, 8 if octal else 0)
    return -value if text[0] == "-" else value


def read_file(path: Path, profile: Profile, findings: Findings) -> FileProgram:
    """The program of a file.

    Raises UsageError if it can't be opened, CheckFailed with all mistakes if it can't be understood.
    """
    program = parse_file(path, profile, findings)
    if program is None:
        raise CheckFailed(*errors_of(findings, path))
    return program


def parse_file(path: Path, profile: Profile, findings: Findings) -> FileProgram | None:
    """The program of a file, or None, with findings, if it can't be understood. Raises UsageError as `read_file`.

    profile: the runtime that will load an MSCCL file; a run file has its own.
    """
    try:
        with path.open("rb") as stream:
            is_run_file = stream.read(len(MAGIC)) == MAGIC
        if is_run_file:
            return _run_file(path.read_bytes(), findings)
        return Reader(profile, findings).read(path)
    except OSError as error:
        raise unreadable_file(path, error) from error


def _run_file(data: bytes, findings: Findings) -> FileProgram | None:
    try:
        run = RunProgram.from_bytes(data)
    except ValueError as error:
        findings.add(Finding("contract", "X0108", str(error)), breaks=True)
        return None
    gpu, send, recv, chan = (run.blocks[:, column] for column in range(4))
    none, zero = np.zeros(run.ranks, np.int32), np.zeros(len(gpu), np.int32)
    number = (np.arange(len(gpu)) - np.searchsorted(gpu, gpu)).astype(np.int32)
    tb, kind, srcbuf, srcoff, dstbuf, dstoff, cnt, depid, deps, hasdep = run.steps.T
    position, nowhere = (np.arange(len(tb)) - run.first[tb]).astype(np.int32), np.zeros(len(tb), np.int32)
    return FileProgram(
        name=run.name,
        coll=run.coll,
        proto="Simple",
        ngpus=run.ranks,
        nchannels=int(chan.max(initial=0)) + 1,
        nchunksperloop=run.chunks_per_loop,
        min_bytes=run.sizes[0],
        max_bytes=run.sizes[1],
        inplace=run.in_place,
        outofplace=run.out_of_place,
        chunks=run.chunks,
        gpu_lines=none,
        gpu_columns=none,
        algo_location=NOWHERE,
        tbs=Threadblocks(gpu, number, send, recv, chan, zero, zero, run.first),
        steps=Steps(tb, kind, srcbuf, srcoff, dstbuf, dstoff, cnt, depid, deps, hasdep, position, nowhere, nowhere),
        profile="run",
        redop=run.op,
    )


class Reader:
    """Reads one file, and adds what is wrong with it to the findings.

    rows: by element, one row of numbers for each: `REQUIRED`, line, column, and the row of its parent. open: the
    elements that are not closed. ignored: how many unknown elements are open. location: of the last element.
    """

    def __init__(self, profile: Profile, findings: Findings) -> None:
        self.profile: Profile = profile
        self.findings: Findings = findings
        self.rows: dict[str, array[int]] = {element: array("i") for element in ("gpu", "tb", "step")}
        self.counts: Counter[str] = Counter()
        self.algo: dict[str, str] = {}
        self.algo_location: FileLocation = NOWHERE
        self.numbers: dict[str, int] = {}
        self.cache: dict[str, int | None] = {}
        self.open: list[Tag] = []
        self.ignored: int = 0
        self.location: FileLocation = NOWHERE

    def read(self, path: Path) -> FileProgram | None:
        """The program, or None if the file can't be understood."""
        try:
            with path.open("rb") as stream:
                for tag in scan(stream):
                    self._take(tag)
        except ScanError as error:
            self.findings.add(error.finding, breaks=True)
            return None
        if self.open:
            last = self.open[-1]
            self._report("X0104", f"<{last.name}> is never closed", FileLocation(last.line, last.column))
        elif not self.algo_location.line:
            self._report("X0104", "the file holds no <algo>", FileLocation(1, 1))
        return None if self.findings.broken else self._program()

    def _take(self, tag: Tag) -> None:
        if self.ignored:
            self.ignored += -1 if tag.closing else not tag.single
            return
        parent = self.open[-1].name if self.open else ""
        location = FileLocation(tag.line, tag.column, self.location.gpu, self.location.tb, self.location.step)
        if tag.closing:
            if parent != tag.name:
                text = f"closing tag </{tag.name}> that closes nothing"
                expected = f"</{parent}>" if parent else "no closing tag"
                raise ScanError(Finding("contract", "X0104", text, FileLocation(tag.line, tag.column), expected))
            self.open.pop()
            return
        if parent == "step":
            text = f"<{tag.name}> inside <step>: the runtimes crash on it"
            raise ScanError(Finding("contract", "X0104", text, location, "<step .../>"))
        if CHILD[parent] != tag.name:
            if not parent:
                expected = "<algo> as the first element"
                raise ScanError(Finding("contract", "X0104", f"<{tag.name}> outside <algo>", location, expected))
            text = f"unknown element <{tag.name}> in <{parent}>: the runtimes skip it with all that it holds"
            self.findings.add(Finding("contract", "X0104", text, location, f"<{CHILD[parent]}>", warning=True))
            self.ignored = 0 if tag.single else 1
            return
        if tag.name == "algo" and self.algo_location.line:
            self._report("X0104", "a second <algo>", location, "one <algo> in a file")
        self._add(tag)
        if not tag.single:
            self.open.append(tag)

    def _add(self, tag: Tag) -> None:
        """Add an element to the rows; the algo element to the numbers."""
        begin, here = (tag.line, tag.column), self.location
        if tag.name == "algo":
            self.location = FileLocation(*begin)
            self._algo(tag)
            return
        if tag.name == "step":
            self.location = FileLocation(*begin, here.gpu, here.tb, here.step + 1)
        else:
            number = c_integer(tag.attributes.get("id", "")) or 0
            self.location = FileLocation(*begin, *((number, -1) if tag.name == "gpu" else (here.gpu, number)))
        names = REQUIRED[tag.name]
        numbers = [self._word(tag, name) if name in _WORDS else self._number(tag, name) for name in names]
        parent = {"gpu": "", "tb": "gpu", "step": "tb"}[tag.name]
        self.rows[tag.name].extend((*numbers, *begin, self.counts[parent] - 1))
        self.counts[tag.name] += 1

    def _columns(self, element: str) -> dict[str, Int32Array]:
        names = (*REQUIRED[element], "line", "column", "parent")
        return dict(zip(names, np.array(self.rows[element], np.int32).reshape(-1, len(names)).T, strict=True))

    def _algo(self, tag: Tag) -> None:
        self.algo, self.algo_location = tag.attributes, self.location
        for name in ("proto", "coll", *(("name",) if self.profile == "old" else ())):
            self._word(tag, name)
        for name in ("nchunksperloop", "nchannels", "ngpus", "inplace", "outofplace"):
            if self.profile == "old" and name == "outofplace" and name not in tag.attributes:  # it reads only inplace
                self.numbers[name] = int(self.numbers["inplace"] == 0)
                continue
            self.numbers[name] = self._number(tag, name)
        for name, default in OLD_DEFAULTS.items():
            missing = self.profile == "old" and name not in tag.attributes
            self.numbers[name] = default if missing else self._number(tag, name, 64)
        for name in ("inplace", "outofplace"):
            if self.numbers[name] not in (0, 1):
                text = f"{name} is {self.numbers[name]}"
                self._report("X0110", text, self._location_of(name), "0 or 1", breaks=False)

    def _word(self, tag: Tag, name: str) -> int:
        """The number of the word that an attribute has; 0 for a wrong word, and if any is right."""
        value = tag.attributes.get(name)
        if value is None:
            self._report_missing(tag, name)
        elif not value and name != "name":
            self._report("X0106", f"{name} is empty", self._location_of(name))
        elif name in _WORDS:
            numbers, expected = _WORDS[name]
            if value in numbers:
                return numbers[value]
            self._report("X0106", f'{name} "{value}"', self._location_of(name), expected)
        return 0

    def _report_missing(self, tag: Tag, name: str) -> None:
        text, rule = f"attribute {name} of <{tag.name}> is missing", f"all of: {', '.join(REQUIRED[tag.name])}"
        self._report("X0105", text, self.location, rule, hint="the runtime refuses the file without it")

    def _number(self, tag: Tag, name: str, bits: int = 32) -> int:
        text = tag.attributes.get(name)
        if text is None:
            self._report_missing(tag, name)
            return 0
        if text not in self.cache:
            self.cache[text] = c_integer(text)
        value = self.cache[text]
        if value is None:
            self._report("X0106", f'{name}="{text}" is no number', self._location_of(name), "a C integer")
            return 0
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            self._report("X0106", f'{name}="{text}" does not fit {bits} bits', self._location_of(name))
            return 0
        if len(text) > 1 and text.lstrip("+-")[0] == "0" and text != str(value):
            note = f'{name}="{text}" begins with 0, so the runtimes read it as {value}'
            self.findings.add(Finding("contract", "X0106", note, self._location_of(name), str(value), warning=True))
        return value

    def _location_of(self, attribute: str) -> FileLocation:
        return replace(self.location, attribute=attribute)

    def _report(
        self, code: str, text: str, location: FileLocation, expected: str = "", *, breaks: bool = True, hint: str = ""
    ) -> None:
        self.findings.add(Finding("contract", code, text, location, expected, hint), breaks=breaks)

    def _program(self) -> FileProgram | None:
        """The program, with gpus and threadblocks sorted by id; None if the ids are not contiguous."""
        gpus, tbs, steps = (self._columns(element) for element in self.rows)
        ngpus = self.numbers["ngpus"]
        if not self._contiguous_gpus(gpus, ngpus):
            return None
        tbs["gpu"] = gpus["id"][tbs.pop("parent")]
        order = np.lexsort((tbs["id"], tbs["gpu"]))
        tbs = {name: column[order] for name, column in tbs.items()}
        if not self._contiguous_threadblocks(tbs):
            return None
        tb = np.argsort(order).astype(np.int32)[steps.pop("parent")]
        by_tb = np.argsort(tb, kind="stable")
        steps = {"kind" if name == "type" else name: column[by_tb] for name, column in steps.items()}
        by_id = np.argsort(gpus["id"])
        chunks = np.stack([gpus[f"{buffer}_chunks"] for buffer in BUFFERS], axis=1).astype(np.int64)
        return FileProgram(
            name=self.algo.get("name", ""),
            coll=self.algo["coll"],
            proto=self.algo["proto"],
            ngpus=ngpus,
            nchannels=self.numbers["nchannels"],
            nchunksperloop=self.numbers["nchunksperloop"],
            min_bytes=self.numbers["minBytes"],
            max_bytes=self.numbers["maxBytes"],
            inplace=self.numbers["inplace"] != 0,
            outofplace=self.numbers["outofplace"] != 0,
            chunks=chunks[by_id],
            gpu_lines=gpus["line"][by_id],
            gpu_columns=gpus["column"][by_id],
            algo_location=self.algo_location,
            tbs=Threadblocks(first=np.searchsorted(tb[by_tb], np.arange(len(order) + 1)), **tbs),
            steps=Steps(tb=tb[by_tb], **steps),
            profile=self.profile,
            redop=self.algo.get("redop", ""),
        )

    def _contiguous_gpus(self, gpus: dict[str, Int32Array], ngpus: int) -> bool:
        seen: set[int] = set()
        for identity, line, column in zip(*(gpus[name].tolist() for name in ("id", "line", "column")), strict=True):
            location = FileLocation(line, column, identity, attribute="id")
            if identity in seen:
                self._report("X0107", f"two gpus with id {identity}", location, "unique ids")
            elif not 0 <= identity < ngpus:
                self._report("X0107", f"gpu id {identity}", location, f"0 .. {ngpus - 1} (ngpus)")
            seen.add(identity)
        missing = [str(gpu) for gpu in range(min(ngpus, 2**16)) if gpu not in seen]
        if missing and len(gpus["id"]) < ngpus:
            text = f"no <gpu> with id {', '.join(missing[:8])}{' ...' if len(missing) > 8 else ''}"
            self._report("X0107", text, self.algo_location, f"{ngpus} gpus (ngpus)")
        elif ngpus < 1:
            self._report("X0107", f"ngpus is {ngpus}", self.algo_location, "at least 1")
        return not self.findings.broken

    def _contiguous_threadblocks(self, tbs: dict[str, Int32Array]) -> bool:
        gpu, ids = tbs["gpu"], tbs["id"]
        expected = np.arange(len(gpu)) - np.searchsorted(gpu, gpu)
        for row in np.flatnonzero(ids != expected)[:20].tolist():
            place = (int(column[row]) for column in (tbs["line"], tbs["column"], gpu, ids))
            text = f"threadblock id {ids[row]} is not the next in order"
            location, rule = FileLocation(*place, attribute="id"), f"{expected[row]}: ids unique and contiguous from 0"
            self._report("X0107", text, location, rule)
        return not self.findings.broken
