"""The binary form of a module: one file, an uncompressed `.npz` archive whose columns can be memory-mapped.

Members: `module.ten`, the module without its schedule in the text form; where there is a schedule, `schedule.json`, its
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
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, QueuedMessages, RowSchedule, Schedule, StepSchedule, Transfers
from collc.ten.text.read import parse_module
from collc.ten.text.write import format_module

VERSION: Final = 1
SIGNATURE: Final = b"PK\x03\x04"
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
_RELAYED: Final = "relayed"
"""The column of `Transfers.relayed`, which is there only if some transfer relays."""
_KEPT: Final = "kept"
"""The column of `Transfers.kept`, which is there only if some arrival is kept apart."""
_MESSAGE: Final = "message"
_READY: Final = "ready"
_INJECTED: Final = "injected"
_RECEIVED: Final = "received"
"""The columns of `Transfers.messages`, which are there only if some transfer is a hop of a message."""
_OPTIONAL: Final = (_RELAYED, _KEPT, _MESSAGE, _READY, _INJECTED, _RECEIVED)
_MEMBERS: Final = frozenset({"module.ten", "schedule.json", *(f"{name}.npy" for name in (*_COLUMNS, *_OPTIONAL))})
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
_IN_EXTRA: Final = 0xFFFFFFFF
"""The size of a member whose size is in its extra field."""
_DIRECTORY: Final = b"PK\x01\x02"
_END: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
_DATE: Final = (1980, 1, 1, 0, 0, 0)


def save_module(module: Module, path: Path) -> None:
    """Write a module to a file. Raises OSError where it cannot be written."""
    schedule = module.schedule
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _write_bytes(archive, "module.ten", format_module(replace(module, schedule=None)).encode())
        if schedule is None:
            return
        fields: dict[str, int | str] = {"version": VERSION, "model": schedule.model.value}
        columns: dict[str, NDArray[Any]]
        if isinstance(schedule, StepSchedule):
            fields |= {"layout": "steps", "step": schedule.step, "reduce_steps": schedule.reduce_steps}
            columns = {"chunk": schedule.chunk}
        else:
            fields |= {"layout": "rows"}
            rows = schedule.transfers
            columns = {"chunk": rows.chunk, "link": rows.link, "start": rows.start, "reduce": rows.reduce}
            columns |= {} if rows.relayed is None else {_RELAYED: rows.relayed}
            columns |= {} if rows.kept is None else {_KEPT: rows.kept}
            queued = rows.messages
            columns |= {} if queued is None else {_MESSAGE: queued.number, _READY: queued.ready}
            if queued is not None and not np.array_equal(queued.injected, rows.start):
                columns |= {_INJECTED: queued.injected}
            if queued is not None and queued.received is not None:
                columns |= {_RECEIVED: queued.received}
        _write_bytes(archive, "schedule.json", (json.dumps(fields, indent=1, sort_keys=True) + "\n").encode())
        for name, column in columns.items():
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

    Raises SourceError (T0110) where the file is damaged or its parts do not fit, and what `parse_module` raises.
    """
    try:
        with path.open("rb") as file:
            archive = _Archive.of(path, file)
            text = archive.content("module.ten", _MOST_TEXT)
            try:
                module = parse_module(SourceFile(f"{path}/module.ten", text.decode()))
            except UnicodeDecodeError:
                _damaged(path, "module.ten is not text in UTF-8")
            if "schedule.json" not in archive.members:
                return module
            return replace(module, schedule=_schedule(archive, module))
    except OSError as error:
        _damaged(path, f"it cannot be read ({error.strerror or error})")


def _damaged(path: Path, why: str) -> NoReturn:
    hint = "write it anew with emit ten(..., binary: true)"
    raise SourceError(
        Diagnostic("T0110", f"{path} is not a module in the binary form, or was damaged: {why}", hint=hint)
    )


@dataclass(frozen=True, slots=True)
class _Archive:
    """An open archive. members: by name, the first byte of the content and its number of bytes."""

    path: Path
    file: IO[bytes]
    members: dict[str, tuple[int, int]]

    @staticmethod
    def of(path: Path, file: IO[bytes]) -> _Archive:
        """Find the members and compare their checksums. Raises SourceError.

        The members are read one after another from the start of the file, and its directory is only looked for: a
        damaged or hostile one cannot name places or sizes that are not there.
        """
        size = file.seek(0, 2)
        found: dict[str, tuple[int, int]] = {}
        position = 0
        while True:
            file.seek(position)
            head = file.read(_LOCAL_HEADER.size)
            if head.startswith(_DIRECTORY):
                break
            member = _Member.of(path, head, file)
            if member.name not in _MEMBERS or member.name in found:
                other = "two members" if member.name in found else "a member"
                _damaged(path, f"it has {other} called {member.name!r}")
            begin = file.tell()
            position = begin + member.size
            if position > size:
                _damaged(path, f"{member.name} is cut off")
            if _checksum(file, member.size) != member.checksum:
                _damaged(path, f"the checksum of {member.name} is wrong")
            found[member.name] = begin, member.size
        file.seek(max(0, size - _END_BYTES))
        if not file.read(_END_BYTES).startswith(_END):
            _damaged(path, "its end is cut off")
        return _Archive(path, file, found)

    def content(self, name: str, most: int) -> bytes:
        """The bytes of a member. Raises SourceError where there are more than `most`."""
        if name not in self.members:
            _damaged(self.path, f"{name} is missing")
        begin, size = self.members[name]
        if size > most:
            _damaged(self.path, f"{name} has more than {most} bytes")
        self.file.seek(begin)
        return self.file.read(size)

    def array(self, name: str) -> NDArray[Any]:
        """A member as an array on disk. Raises SourceError where it is no plain array in C order."""
        if name not in self.members:
            _damaged(self.path, f"{name} is missing")
        begin, size = self.members[name]
        self.file.seek(begin)
        prefix = self.file.read(_ARRAY_PREFIX.size).ljust(_ARRAY_PREFIX.size, b"\0")
        magic, version, length = _ARRAY_PREFIX.unpack(prefix)
        if magic == np.lib.format.MAGIC_PREFIX and version != b"\1\0":
            _damaged(self.path, f"{name} is not a NumPy array of format 1.0")
        header = _ARRAY_HEADER.fullmatch(self.file.read(length))
        if magic != np.lib.format.MAGIC_PREFIX or header is None:
            _damaged(self.path, f"{name} is not a NumPy array of plain numbers")
        dtype = _NUMBERS.get(header["descr"].decode())
        shape = tuple(int(count) for count in header["shape"].split(b",") if count)
        bytes_of_all = math.prod(shape) * (dtype.itemsize if dtype is not None else 1)
        data = begin + _ARRAY_PREFIX.size + length
        if dtype is None or header["fortran"] == b"True" or data + bytes_of_all != begin + size:
            _damaged(self.path, f"{name} is not an array of plain numbers in C order, or has other than {size} bytes")
        if bytes_of_all == 0:
            return np.zeros(shape, dtype)
        mapped = np.memmap(self.path, dtype, "r", data, shape)
        return mapped.view(np.ndarray)


@dataclass(frozen=True, slots=True)
class _Member:
    """The header of a member. size: bytes of the content."""

    name: str
    size: int
    checksum: int

    @staticmethod
    def of(path: Path, head: bytes, file: IO[bytes]) -> _Member:
        """Parse a header, of which `head` is already read. Raises SourceError."""
        if len(head) < _LOCAL_HEADER.size or not head.startswith(SIGNATURE):
            _damaged(path, f"there is no member at byte {file.tell() - len(head)}")
        _, _, flags, method, _, _, checksum, stored, size, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(head)
        name, extra = file.read(name_bytes)[:40].decode("ascii", "replace"), file.read(extra_bytes)
        if flags or method != zipfile.ZIP_STORED:
            _damaged(path, f"{name!r} is compressed, encrypted or written by another program")
        if size == stored == _IN_EXTRA:
            size, stored = _zip64_sizes(extra)
        if size != stored:
            _damaged(path, f"{name!r} has two sizes")
        return _Member(name, size, checksum)


def _zip64_sizes(extra: bytes) -> tuple[int, int]:
    """The two sizes of a member in its extra field; two different ones where they are not there."""
    while len(extra) >= 4:
        identifier, length = struct.unpack_from("<HH", extra)
        if identifier == 1 and length >= 16 and len(extra) >= 20:
            size, stored = struct.unpack_from("<QQ", extra, 4)
            return size, stored
        extra = extra[4 + length :]
    return 0, 1


def _checksum(file: IO[bytes], size: int) -> int:
    """The CRC-32 of the next bytes of a file."""
    found = 0
    for low in range(0, size, _BLOCK):
        found = zlib.crc32(file.read(min(_BLOCK, size - low)), found)
    return found


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of schedule.json."""

    path: Path
    fields: dict[str, object]

    @staticmethod
    def of(archive: _Archive) -> _Fields:
        """Raises SourceError."""
        try:
            found: object = json.loads(archive.content("schedule.json", _MOST_JSON))
        except (ValueError, RecursionError):
            _damaged(archive.path, "schedule.json is not JSON")
        if not isinstance(found, dict):
            _damaged(archive.path, "schedule.json is not a JSON object")
        return _Fields(archive.path, cast("dict[str, object]", found))

    def integer(self, name: str, low: int) -> int:
        """A whole number, at least `low`."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= _INT64:
            _damaged(self.path, f"schedule.json has no whole number {name!r} of at least {low}")
        return value

    def one_of(self, name: str, *choices: str) -> str:
        """One of several strings."""
        value = self.fields.get(name)
        if not isinstance(value, str) or value not in choices:
            _damaged(self.path, f"schedule.json has no {name!r} that is {' or '.join(choices)}")
        return value


def _schedule(archive: _Archive, module: Module) -> Schedule:
    fields, path, links = _Fields.of(archive), archive.path, module.network.link_count
    if fields.integer("version", 0) != VERSION:
        _damaged(path, f"schedule.json is of version {fields.fields['version']}; this collc reads version {VERSION}")
    model = LinkModel(fields.one_of("model", "store", "pipelined"))
    if model is not module.model:
        _damaged(path, f"schedule.json is for the link model {model.value}, module.ten for {module.model.value}")
    if fields.one_of("layout", "rows", "steps") == "steps":
        table = archive.array("chunk.npy")
        if table.ndim != 2 or table.shape[1] != links or table.dtype.name not in {"uint16", "uint32"}:
            _damaged(path, f"chunk.npy is {table.dtype}{list(table.shape)}, not uint16 or uint32[steps, {links}]")
        return StepSchedule(model, table, fields.integer("step", 1), fields.integer("reduce_steps", 0))
    columns = {name: archive.array(f"{name}.npy") for name in _COLUMNS}
    count = columns["chunk"].shape
    for name, dtype in _COLUMNS.items():
        column = columns[name]
        if column.ndim != 1 or column.shape != count or column.dtype.name != dtype:
            _damaged(path, f"{name}.npy is {column.dtype}{list(column.shape)}, not {dtype}{list(count)}")
    relayed = _optional(archive, _RELAYED, "int32", count)
    number, ready = _optional(archive, _MESSAGE, "int32", count), _optional(archive, _READY, "int64", count)
    injected = _optional(archive, _INJECTED, "int64", count)
    received = _optional(archive, _RECEIVED, "int64", count)
    if (number is None) != (ready is None) or (number is None and (injected is not None or received is not None)):
        _damaged(path, f"{_MESSAGE}.npy or {_READY}.npy is missing")
    messages = None
    if number is not None and ready is not None:
        messages = QueuedMessages(number, ready, columns["start"] if injected is None else injected, received)
    kept = _optional(archive, _KEPT, "bool", count)
    if kept is not None and bool((kept & ~columns["reduce"]).any()):
        _damaged(path, f"{_KEPT}.npy marks a transfer that reduce.npy does not mark")
    rows = Transfers(columns["chunk"], columns["link"], columns["start"], columns["reduce"], relayed, messages, kept)
    _require_sorted(path, rows)
    return RowSchedule(model, rows)


def _optional(archive: _Archive, name: str, dtype: str, count: tuple[int, ...]) -> NDArray[Any] | None:
    """A column that is there only where some transfer needs it."""
    if f"{name}.npy" not in archive.members:
        return None
    column = archive.array(f"{name}.npy")
    if column.shape != count or column.dtype.name != dtype:
        _damaged(archive.path, f"{name}.npy is {column.dtype}{list(column.shape)}, not {dtype}{list(count)}")
    return column


def _require_sorted(path: Path, rows: Transfers, block: int = 1 << 22) -> None:
    """Raise SourceError unless the rows are sorted by (start, link, chunk); blocks overlap by one row."""
    for low in range(0, len(rows), block):
        part = slice(low, low + block + 1)
        start, link, chunk = rows.start[part], rows.link[part], rows.chunk[part]
        same_start, same_link = start[1:] == start[:-1], link[1:] == link[:-1]
        falls = (start[1:] < start[:-1]) | (same_start & (link[1:] < link[:-1]))
        falls |= same_start & same_link & (chunk[1:] < chunk[:-1])
        if falls.any():
            _damaged(path, f"the transfers are not sorted at row {low + int(falls.argmax()) + 1}")
