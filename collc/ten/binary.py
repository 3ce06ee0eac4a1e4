"""The binary form of a module: one file, an uncompressed `.npz` archive whose columns can be memory-mapped.

Members: `module.ten`, the module without its schedule in the text form; if there is a schedule, `schedule.json`, its
layout, and the columns as `.npy` arrays: `chunk.npy` for a step-by-link table, `chunk.npy`, `link.npy`, `start.npy` and
`reduce.npy` for rows. `numpy.load` opens the file as well. Nothing is pickled, equal modules give equal bytes, and the
data of each array begins at a multiple of 64 bytes.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile
from collc.base.reading import read_text
from collc.ten.declared import wrong_steps
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, QueuedMessages, RowSchedule, Schedule, StepSchedule, Transfers
from collc.ten.text.read import parse_module
from collc.ten.text.write import format_module

VERSION: Final = 1
_SIGNATURE: Final = b"PK\x03\x04"
"""The first bytes of a file in the binary form."""

_MOST_TEXT: Final = 1 << 30
"""Bytes of module.ten."""
_MOST_JSON: Final = 1 << 16
"""Bytes of schedule.json."""
_INT64: Final = 2**63 - 1
_ALIGNMENT: Final = 64
_BLOCK: Final = 1 << 24
"""Bytes that are read or written at once."""
_COLUMNS: Final = {"chunk": "int32", "link": "int32", "start": "int64", "reduce": "bool"}
_OPTIONAL: Final = {
    "relayed": "int32",
    "kept": "bool",
    "message": "int32",
    "ready": "int64",
    "injected": "int64",
    "received": "int64",
}
"""Columns of `Transfers` and of its messages that are there only if some transfer needs them."""
_MEMBERS: Final = frozenset({"module.ten", "schedule.json", *(f"{name}.npy" for name in _COLUMNS | _OPTIONAL)})
_ARRAY_PREFIX: Final = struct.Struct("<6s2sH")
"""The first bytes of an array: a signature, the version of the format, and the number of bytes of the header."""
_ARRAY_HEADER: Final = re.compile(
    rb"\{'descr': '(?P<descr>[!-&(-~]{1,8})', 'fortran_order': (?P<fortran>False|True), "
    rb"'shape': \((?P<shape>[0-9]{1,10},(?: [0-9]{1,10})?)\), \} *\n"
)
"""The header of an array of one or two dimensions, in the only form that NumPy writes. It is matched here because the
parser of NumPy raises exceptions of many kinds for a damaged header, or accepts it with a warning."""
_NUMBERS: Final = {
    np.dtype(name).str: np.dtype(name)
    for name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
}
"""The types of numbers that are read, by their names in the header."""
_LOCAL_HEADER: Final = struct.Struct("<4s5H3L2H")
_ZIP64_BYTES: Final = 20
"""Bytes that `zipfile` adds to the extra field of a member that may be larger than 4 GiB."""
_MOST_HEADER: Final = 512
"""Bytes of the name and the extra field of the first member, at most."""
_DATE: Final = (1980, 1, 1, 0, 0, 0)


def save_module(module: Module, path: Path) -> None:
    """Write a module to a file. Raises OSError if it cannot be written."""
    schedule = module.schedule
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _write_bytes(archive, "module.ten", format_module(replace(module, schedule=None)).encode())
        if schedule is None:
            return
        fields: dict[str, int | str] = {"version": VERSION, "model": schedule.model.value}
        columns: dict[str, NDArray[Any] | None]
        if isinstance(schedule, StepSchedule):
            fields |= {"layout": "steps", "step": schedule.step, "reduce_steps": schedule.reduce_steps}
            columns = {"chunk": schedule.chunk}
        else:
            fields |= {"layout": "rows"}
            rows = schedule.transfers
            columns = {"chunk": rows.chunk, "link": rows.link, "start": rows.start, "reduce": rows.reduce}
            columns |= {"relayed": rows.relayed, "kept": rows.kept}
            if rows.messages is not None:
                columns |= {"message": rows.messages.number, "ready": rows.messages.ready}
                columns["injected"] = (
                    None if np.array_equal(rows.messages.injected, rows.start) else rows.messages.injected
                )
                columns["received"] = rows.messages.received
        _write_bytes(archive, "schedule.json", (json.dumps(fields, indent=1, sort_keys=True) + "\n").encode())
        for name, column in columns.items():
            if column is not None:
                _write_array(archive, f"{name}.npy", column)


def _write_bytes(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _DATE), data)


def _write_array(archive: zipfile.ZipFile, name: str, column: NDArray[Any]) -> None:
    """Write an array block by block, its header at a multiple of _ALIGNMENT bytes of the file."""
    member = zipfile.ZipInfo(name, _DATE)
    archive_file = cast("IO[bytes]", archive.fp)
    begin = archive_file.tell() + _LOCAL_HEADER.size + len(name) + _ZIP64_BYTES
    # An extra field that readers skip: an unused identifier, its length, and zeros.
    padding = -(begin + 4) % _ALIGNMENT
    member.extra = struct.pack("<HH", 0xC0C0, padding) + bytes(padding)
    with archive.open(member, "w", force_zip64=True) as file:
        descr = np.lib.format.dtype_to_descr(column.dtype)
        np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": column.shape})
        rows = max(1, _BLOCK // max(1, column[:1].nbytes))
        for low in range(0, len(column), rows):
            file.write(np.ascontiguousarray(column[low : low + rows]).tobytes())


def load_module(path: Path) -> Module:
    """Read a module that `save_module` wrote; the columns of the schedule stay on disk (memory-mapped, read-only).

    Raises SourceError (T0110) if the file is damaged or its parts do not fit, and what `parse_module` raises.
    """
    try:
        with path.open("rb") as file:
            archive = _Archive(path, file, _find_members(path, file))
            text = archive.content("module.ten", _MOST_TEXT)
            try:
                module = parse_module(SourceFile(f"{path}/module.ten", text.decode()))
            except UnicodeDecodeError:
                _fail(path, "module.ten is not text in UTF-8")
            if "schedule.json" not in archive.members:
                return module
            return replace(module, schedule=_schedule(archive, module))
    except OSError as error:
        _fail(path, f"it cannot be read ({error.strerror or error})")


def read_module(path: Path) -> Module:
    """Read a finished module in either form, which the first bytes of the file tell apart.

    The text form may also come from a pipe, or from standard input (`-`). Raises SourceError, also for a module as it
    is between passes, with `planned` or `phase`.
    """
    try:
        is_binary = False
        if path.is_file():  # a pipe must not be opened twice
            with path.open("rb") as file:
                is_binary = file.read(len(_SIGNATURE)) == _SIGNATURE
    except OSError:
        is_binary = False
    module = load_module(path) if is_binary else parse_module(read_text(path))
    if module.planned is not None or module.phases:
        message = f"{path} is a module between passes ('{'phase' if module.phases else 'planned'}'), not a finished one"
        raise SourceError(Diagnostic("T0107", message, hint="write it after the last pass, with 'emit ten'"))
    return module


def _fail(path: Path, why: str) -> NoReturn:
    hint = "write it anew with emit ten(..., binary: true)"
    message = f"{path} is not a module in the binary form, or was damaged: {why}"
    raise SourceError(Diagnostic("T0110", message, hint=hint))


def _find_members(path: Path, file: IO[bytes]) -> dict[str, tuple[int, int]]:
    """The members by name: the first byte of the content and its number of bytes.

    Raises SourceError if the file is no archive of plain members with known names, or a checksum is wrong.
    """
    members: dict[str, tuple[int, int]] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if info.filename not in _MEMBERS or info.filename in members:
                    other = "two members" if info.filename in members else "a member"
                    _fail(path, f"it has {other} called {info.filename[:40]!r}")
                if info.compress_type != zipfile.ZIP_STORED or info.flag_bits or info.compress_size != info.file_size:
                    _fail(path, f"{info.filename!r} is compressed, encrypted or written by another program")
                with archive.open(info) as member:  # at the end of the content it compares the checksums
                    while member.read(_BLOCK):
                        pass
                file.seek(info.header_offset)
                *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
                members[info.filename] = file.tell() + name_bytes + extra_bytes, info.file_size
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error) as error:
        _fail(path, f"it is no archive ({str(error)[:100] or type(error).__name__})")
    if min((begin for begin, _ in members.values()), default=0) > _LOCAL_HEADER.size + _MOST_HEADER:
        _fail(path, "it does not begin with its first member")
    return members


@dataclass(frozen=True, slots=True)
class _Archive:
    """An open archive. members: by name, the first byte of the content and its number of bytes."""

    path: Path
    file: IO[bytes]
    members: dict[str, tuple[int, int]]

    def content(self, name: str, most: int) -> bytes:
        """The bytes of a member. Raises SourceError if there are more than `most`."""
        if name not in self.members:
            _fail(self.path, f"{name} is missing")
        begin, size = self.members[name]
        if size > most:
            _fail(self.path, f"{name} has more than {most} bytes")
        self.file.seek(begin)
        return self.file.read(size)

    def array(self, name: str) -> NDArray[Any]:
        """A member as an array on disk. Raises SourceError if it is no plain array in C order."""
        if name not in self.members:
            _fail(self.path, f"{name} is missing")
        begin, size = self.members[name]
        self.file.seek(begin)
        prefix = self.file.read(_ARRAY_PREFIX.size).ljust(_ARRAY_PREFIX.size, b"\0")
        magic, version, length = _ARRAY_PREFIX.unpack(prefix)
        if magic == np.lib.format.MAGIC_PREFIX and version != b"\1\0":
            _fail(self.path, f"{name} is not a NumPy array of format 1.0")
        header = _ARRAY_HEADER.fullmatch(self.file.read(length))
        if magic != np.lib.format.MAGIC_PREFIX or header is None:
            _fail(self.path, f"{name} is not a NumPy array of plain numbers")
        dtype = _NUMBERS.get(header["descr"].decode())
        shape = tuple(int(count) for count in header["shape"].split(b",") if count)
        bytes_of_all = math.prod(shape) * (dtype.itemsize if dtype is not None else 1)
        data = begin + _ARRAY_PREFIX.size + length
        if dtype is None or header["fortran"] == b"True" or data + bytes_of_all != begin + size:
            _fail(self.path, f"{name} is not an array of plain numbers in C order, or has other than {size} bytes")
        if bytes_of_all == 0:
            return np.zeros(shape, dtype)
        mapped = np.memmap(self.path, dtype, "r", data, shape).view(np.ndarray)
        if dtype == np.bool_ and (mapped.view(np.uint8) > 1).any():
            _fail(self.path, f"{name} has values other than false and true")
        return mapped


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of schedule.json."""

    path: Path
    fields: dict[str, object]

    @staticmethod
    def of(archive: _Archive) -> _Fields:
        """Raises SourceError."""
        try:
            content: object = json.loads(archive.content("schedule.json", _MOST_JSON))
        except (ValueError, RecursionError):
            _fail(archive.path, "schedule.json is not JSON")
        if not isinstance(content, dict):
            _fail(archive.path, "schedule.json is not a JSON object")
        return _Fields(archive.path, cast("dict[str, object]", content))

    def integer(self, name: str, low: int) -> int:
        """A whole number, at least `low`."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= _INT64:
            _fail(self.path, f"schedule.json has no whole number {name!r} of at least {low}")
        return value

    def one_of(self, name: str, *choices: str) -> str:
        """One of several strings."""
        value = self.fields.get(name)
        if not isinstance(value, str) or value not in choices:
            _fail(self.path, f"schedule.json has no {name!r} that is {' or '.join(choices)}")
        return value


def _schedule(archive: _Archive, module: Module) -> Schedule:
    fields, path, links = _Fields.of(archive), archive.path, module.network.link_count
    if fields.integer("version", 0) != VERSION:
        _fail(path, f"schedule.json is of version {fields.fields['version']}; this collc reads version {VERSION}")
    model = LinkModel(fields.one_of("model", *LinkModel))
    if model is not module.model:
        _fail(path, f"schedule.json is for the link model {model.value}, module.ten for {module.model.value}")
    if fields.one_of("layout", "rows", "steps") == "steps":
        table = archive.array("chunk.npy")
        if table.ndim != 2 or table.shape[1] != links or table.dtype.name not in {"uint16", "uint32"}:
            _fail(path, f"chunk.npy is {table.dtype}{list(table.shape)}, not uint16 or uint32[steps, {links}]")
        steps = StepSchedule(model, table, fields.integer("step", 1), fields.integer("reduce_steps", 0))
        return steps if not (wrong := wrong_steps(steps)) else _fail(path, wrong)
    present = [name for name in _COLUMNS | _OPTIONAL if name in _COLUMNS or f"{name}.npy" in archive.members]
    columns = {name: archive.array(f"{name}.npy") for name in present}
    count = columns["chunk"].shape[:1]
    for name, column in columns.items():
        dtype = (_COLUMNS | _OPTIONAL)[name]
        if column.shape != count or column.dtype.name != dtype:
            _fail(path, f"{name}.npy is {column.dtype}{list(column.shape)}, not {dtype}{list(count)}")
    messages = None
    if {"message", "ready", "injected", "received"} & set(present):
        if not {"message", "ready"} <= set(present):
            _fail(path, "message.npy or ready.npy is missing")
        injected = columns.get("injected", columns["start"])
        messages = QueuedMessages(columns["message"], columns["ready"], injected, columns.get("received"))
    kept = columns.get("kept")
    if kept is not None and bool((kept & ~columns["reduce"]).any()):
        _fail(path, "kept.npy marks a transfer that reduce.npy does not mark")
    own = columns["chunk"], columns["link"], columns["start"], columns["reduce"]
    rows = Transfers(*own, columns.get("relayed"), messages, kept)
    _require_sorted(path, rows)
    return RowSchedule(model, rows)


def _require_sorted(path: Path, rows: Transfers, block: int = 1 << 22) -> None:
    """Raise SourceError unless the rows are sorted by (start, link, chunk); blocks overlap by one row."""
    for low in range(0, len(rows), block):
        part = slice(low, low + block + 1)
        start, link, chunk = rows.start[part], rows.link[part], rows.chunk[part]
        same_start, same_link = start[1:] == start[:-1], link[1:] == link[:-1]
        falls = (start[1:] < start[:-1]) | (same_start & (link[1:] < link[:-1]))
        falls |= same_start & same_link & (chunk[1:] < chunk[:-1])
        if falls.any():
            _fail(path, f"the transfers are not sorted at row {low + int(falls.argmax()) + 1}")
