"""From tags to a program: elements, attributes and numbers, as the runtimes read them."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from collc.base.diagnostics import CheckFailed
from collc.msccl.check.findings import FileLocation, Finding, Findings, errors_of, unreadable
from collc.msccl.check.model import BUFFERS, CAPACITY, FileProgram, Profile, Steps, Threadblocks
from collc.msccl.check.scanner import ScanError, Tag, scan
from collc.msccl.interpreter.operations import STEP_KINDS, StepKind
from collc.ten.arrays import Int64Array

CHILD: Final[dict[str, str]] = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step"}
REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "algo": ("nchunksperloop", "nchannels", "ngpus", "proto", "coll", "minBytes", "maxBytes", "inplace", "outofplace"),
    "gpu": ("id", "i_chunks", "o_chunks", "s_chunks"),
    "tb": ("id", "send", "recv", "chan"),
    "step": ("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"),
}
OLD_DEFAULTS: Final = {"minBytes": 0, "maxBytes": 128 * 2**20}
STEP_NUMBERS: Final = ("srcoff", "dstoff", "cnt", "depid", "deps", "hasdep", "s")
STEP_COLUMNS: Final = ("tb", "kind", "srcbuf", "dstbuf", *STEP_NUMBERS, "line", "column")
TB_COLUMNS: Final = ("gpu", "id", "send", "recv", "chan", "line", "column")

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


@dataclass
class _ReadElements:
    """The elements read so far, as growing columns."""

    algo: dict[str, str] = field(default_factory=dict[str, str])
    algo_location: FileLocation = NOWHERE
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    gpus: list[tuple[int, int, int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int, int, int]])
    tbs: dict[str, array[int]] = field(default_factory=lambda: {name: array("i") for name in TB_COLUMNS})
    first: array[int] = field(default_factory=lambda: array("q"))
    steps: dict[str, array[int]] = field(default_factory=lambda: {name: array("i") for name in STEP_COLUMNS})


def read_file(path: Path, profile: Profile, findings: Findings) -> FileProgram:
    """The program of a file.

    Raises UsageError if it can't be opened, CheckFailed with all mistakes if it can't be understood.
    """
    program = parse_file(path, profile, findings)
    if program is None:
        raise CheckFailed(*errors_of(findings, path))
    return program


def parse_file(path: Path, profile: Profile, findings: Findings) -> FileProgram | None:
    """The program of a file, or None, with findings, if it can't be understood. Raises UsageError as `read_file`."""
    try:
        return Reader(profile, findings).read(path)
    except OSError as error:
        raise unreadable(path, error) from error


class Reader:
    """Reads one file, and adds what is wrong with it to the findings."""

    def __init__(self, profile: Profile, findings: Findings) -> None:
        self.profile: Profile = profile
        self.old: bool = profile == "old"
        self.findings: Findings = findings
        self.rows: _ReadElements = _ReadElements()
        self.cache: dict[str, int | None] = {}
        self.open: list[Tag] = []
        self.ignored: int = 0
        self.location: FileLocation = FileLocation()

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
            self._report("X0104", f"<{last.name}> is never closed", FileLocation(last.line, last.column), breaks=True)
        elif not self.rows.algo_location.line:
            self._report("X0104", "the file holds no <algo>", FileLocation(1, 1), breaks=True)
        if self.findings.broken:
            return None
        return self._program()

    def _take(self, tag: Tag) -> None:
        if tag.closing:
            self._close(tag)
        elif self.ignored:
            self.ignored += not tag.single
        else:
            self._element(tag)

    def _close(self, tag: Tag) -> None:
        if self.ignored:
            self.ignored -= 1
            return
        if not self.open or self.open[-1].name != tag.name:
            inside = f"</{self.open[-1].name}>" if self.open else "no closing tag"
            location = FileLocation(tag.line, tag.column)
            self._stop(Finding("contract", "X0104", f"closing tag </{tag.name}> that closes nothing", location, inside))
        self.open.pop()

    def _element(self, tag: Tag) -> None:
        parent = self.open[-1].name if self.open else ""
        location = FileLocation(tag.line, tag.column, self.location.gpu, self.location.tb, self.location.step)
        if parent == "step":
            text = f"<{tag.name}> inside <step>: the runtimes crash on it"
            self._stop(Finding("contract", "X0104", text, location, "<step .../>"))
        if CHILD[parent] != tag.name:
            self._unknown(tag, parent, location)
            return
        if tag.name == "algo" and self.rows.algo_location.line:
            self._report("X0104", "a second <algo>", location, "one <algo> in a file", breaks=True)
        self._row(tag)
        if not tag.single:
            self.open.append(tag)

    def _unknown(self, tag: Tag, parent: str, location: FileLocation) -> None:
        if not parent:
            known = "<algo> as the first element"
            self._stop(Finding("contract", "X0104", f"<{tag.name}> outside <algo>", location, known))
        text = f"unknown element <{tag.name}> in <{parent}>: the runtimes skip it with all that it holds"
        self.findings.add(Finding("contract", "X0104", text, location, f"<{CHILD[parent]}>", warning=True))
        self.ignored = 0 if tag.single else 1

    def _row(self, tag: Tag) -> None:
        at = tag.line, tag.column
        if tag.name == "step":
            self.location = FileLocation(*at, self.location.gpu, self.location.tb, self.location.step + 1)
            self._step(tag)
        elif tag.name == "tb":
            self.location = FileLocation(*at, self.location.gpu, self._peek(tag))
            self._threadblock(tag)
        elif tag.name == "gpu":
            self.location = FileLocation(*at, self._peek(tag))
            values = [self._number(tag, name) for name in REQUIRED["gpu"]]
            self.rows.gpus.append((values[0], values[1], values[2], values[3], *at))
        else:
            self.location = FileLocation(*at)
            self._algo(tag)

    def _algo(self, tag: Tag) -> None:
        rows = self.rows
        rows.algo, rows.algo_location = tag.attributes, self.location
        for name in ("proto", "coll", *(("name",) if self.old else ())):
            self._text(tag, name)
        for name in ("nchunksperloop", "nchannels", "ngpus", "inplace", "outofplace"):
            rows.numbers[name] = self._number(tag, name)
        for name in ("minBytes", "maxBytes"):
            missing = self.old and name not in tag.attributes
            rows.numbers[name] = OLD_DEFAULTS[name] if missing else self._number(tag, name, 64)
        for name in ("inplace", "outofplace"):
            if rows.numbers[name] not in (0, 1):
                self._report("X0110", f"{name} is {rows.numbers[name]}", self._at(name), "0 or 1")
        proto = tag.attributes.get("proto")
        if proto is not None and proto not in CAPACITY:
            self._report("X0106", f'proto "{proto}"', self._at("proto"), "Simple, LL or LL128", breaks=True)

    def _threadblock(self, tag: Tag) -> None:
        rows = self.rows
        rows.first.append(len(rows.steps["tb"]))
        for name in REQUIRED["tb"]:
            rows.tbs[name].append(self._number(tag, name))
        rows.tbs["gpu"].append(len(rows.gpus) - 1)
        rows.tbs["line"].append(tag.line)
        rows.tbs["column"].append(tag.column)

    def _step(self, tag: Tag) -> None:
        columns = self.rows.steps
        for name in STEP_NUMBERS:
            columns[name].append(self._number(tag, name))
        text = self._text(tag, "type")
        kind = STEP_KINDS.get(text)
        if kind is None and text:
            known = ", ".join(STEP_KINDS)
            self._report("X0106", f'type "{text}"', self._at("type"), f"one of {known}", breaks=True)
        columns["kind"].append(StepKind.NOP if kind is None else kind)
        for name in ("srcbuf", "dstbuf"):
            text = self._text(tag, name)
            known = text in BUFFERS
            if not known and text:
                self._report("X0106", f'{name} "{text}"', self._at(name), "i, o or s", breaks=True)
            columns[name].append(BUFFERS.index(text) if known else 0)
        columns["tb"].append(len(self.rows.first) - 1)
        columns["line"].append(tag.line)
        columns["column"].append(tag.column)

    def _peek(self, tag: Tag) -> int:
        """The id of a gpu or threadblock, for messages."""
        return c_integer(tag.attributes.get("id", "")) or 0

    def _text(self, tag: Tag, name: str) -> str:
        value = tag.attributes.get(name)
        if value is None:
            self._report_missing(tag, name)
            return ""
        if not value and name != "name":
            self._report("X0106", f"{name} is empty", self._at(name), breaks=True)
        return value

    def _report_missing(self, tag: Tag, name: str) -> None:
        text = f"attribute {name} of <{tag.name}> is missing"
        rule = f"all of: {', '.join(REQUIRED[tag.name])}"
        self._report("X0105", text, self.location, rule, breaks=True, hint="the runtime refuses the file without it")

    def _number(self, tag: Tag, name: str, bits: int = 32) -> int:
        text = tag.attributes.get(name)
        if text is None:
            self._report_missing(tag, name)
            return 0
        if text not in self.cache:
            self.cache[text] = c_integer(text)
        value = self.cache[text]
        if value is None:
            self._report("X0106", f'{name}="{text}" is no number', self._at(name), "a C integer", breaks=True)
            return 0
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            self._report("X0106", f'{name}="{text}" does not fit {bits} bits', self._at(name), breaks=True)
            return 0
        if len(text) > 1 and text.lstrip("+-")[0] == "0" and text != str(value):
            note = f'{name}="{text}" begins with 0, so the runtimes read it as {value}'
            self.findings.add(Finding("contract", "X0106", note, self._at(name), str(value), warning=True))
        return value

    def _at(self, attribute: str) -> FileLocation:
        return replace(self.location, attribute=attribute)

    def _report(
        self,
        code: str,
        message: str,
        location: FileLocation,
        expected: str = "",
        *,
        breaks: bool = False,
        hint: str = "",
    ) -> None:
        self.findings.add(Finding("contract", code, message, location, expected, hint), breaks=breaks)

    def _stop(self, finding: Finding) -> None:
        raise ScanError(finding)

    def _program(self) -> FileProgram | None:
        """The program, with gpus and threadblocks sorted by id; None if the ids are not contiguous."""
        rows = self.rows
        ngpus = rows.numbers["ngpus"]
        ids = [row[0] for row in rows.gpus]
        if not self._contiguous_gpus(ids, ngpus):
            return None
        gpu_rank = np.array(ids, np.int32)
        tbs = {name: np.array(column, np.int32) for name, column in rows.tbs.items()}
        tbs["gpu"] = gpu_rank[tbs["gpu"]] if ids else tbs["gpu"]
        first = np.array([*rows.first, len(rows.steps["tb"])], np.int64)
        order = np.lexsort((tbs["id"], tbs["gpu"]))
        tbs = {name: column[order] for name, column in tbs.items()}
        if not self._contiguous_threadblocks(tbs):
            return None
        lengths = np.diff(first)[order]
        new_first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        take: Int64Array = np.repeat(first[:-1][order] - new_first[:-1], lengths) + np.arange(int(new_first[-1]))
        steps = {name: np.array(column, np.int32)[take] for name, column in rows.steps.items()}
        steps["tb"] = np.repeat(np.arange(len(order), dtype=np.int32), lengths)
        table = np.array(rows.gpus, np.int64).reshape(-1, 6)[np.argsort(ids)]
        return FileProgram(
            name=rows.algo.get("name", ""),
            coll=rows.algo["coll"],
            proto=rows.algo["proto"],
            ngpus=ngpus,
            nchannels=rows.numbers["nchannels"],
            nchunksperloop=rows.numbers["nchunksperloop"],
            min_bytes=rows.numbers["minBytes"],
            max_bytes=rows.numbers["maxBytes"],
            inplace=rows.numbers["inplace"] != 0,
            outofplace=rows.numbers["outofplace"] != 0,
            chunks=table[:, 1:4],
            gpu_lines=table[:, 4].astype(np.int32),
            gpu_columns=table[:, 5].astype(np.int32),
            algo_location=rows.algo_location,
            tbs=Threadblocks(first=new_first, **tbs),
            steps=Steps(**steps),
            profile=self.profile,
            redop=rows.algo.get("redop", ""),
        )

    def _contiguous_gpus(self, ids: list[int], ngpus: int) -> bool:
        seen: set[int] = set()
        for identity, _, _, _, line, column in self.rows.gpus:
            location = FileLocation(line, column, identity, attribute="id")
            if identity in seen:
                self._report("X0107", f"two gpus with id {identity}", location, "unique ids", breaks=True)
            elif not 0 <= identity < ngpus:
                self._report("X0107", f"gpu id {identity}", location, f"0 .. {ngpus - 1} (ngpus)", breaks=True)
            seen.add(identity)
        missing = [str(gpu) for gpu in range(min(ngpus, 2**16)) if gpu not in seen] if len(ids) < ngpus else []
        if missing:
            text = f"no <gpu> with id {', '.join(missing[:8])}{' ...' if len(missing) > 8 else ''}"
            self._report("X0107", text, self.rows.algo_location, f"{ngpus} gpus (ngpus)", breaks=True)
        elif ngpus < 1:
            self._report("X0107", f"ngpus is {ngpus}", self.rows.algo_location, "at least 1", breaks=True)
        return not self.findings.broken

    def _contiguous_threadblocks(self, tbs: dict[str, np.ndarray]) -> bool:
        if not len(tbs["gpu"]):
            return True
        gpu = tbs["gpu"]
        expected = np.arange(len(gpu)) - np.searchsorted(gpu, gpu)
        for row in np.flatnonzero(tbs["id"] != expected)[:20]:
            identity = int(tbs["id"][row])
            location = FileLocation(
                int(tbs["line"][row]), int(tbs["column"][row]), int(gpu[row]), identity, attribute="id"
            )
            text = f"threadblock id {identity} is not the next in order"
            self._report("X0107", text, location, f"{expected[row]}: ids unique and contiguous from 0", breaks=True)
        return not self.findings.broken
