"""The binary form reads back exactly, stays on disk, and damaged files are refused with a message."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import collc
from collc.base.diagnostics import SourceError
from collc.command.cli import main
from collc.ten.binary import load_module, read_module, save_module
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, StepSchedule, Transfers
from collc.ten.text import write_module
from tests.support import all_gather, ring
from tests.ten.modules import content, modules


def rows_module() -> Module:
    rows = Transfers.of(np.array([0, 3, 1]), np.array([0, 1, 2]), np.array([0, 0, 20_031_250]))
    return Module("m", ring(4), all_gather([0, 1, 2, 3]), schedule=RowSchedule(LinkModel.STORE, rows))


def table_module() -> Module:
    table = np.full((2, 8), 65535, np.uint16)
    table[1, 2] = 3
    model = LinkModel.PIPELINED
    return replace(rows_module(), model=model, schedule=StepSchedule(model, table, 7, 1))


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules())
def test_reads_back(tmp_path: Path, module: Module) -> None:
    save_module(module, tmp_path / "m.ten")
    assert content(load_module(tmp_path / "m.ten")) == content(module)
    if module.planned is None and not module.phases:
        assert content(read_module(tmp_path / "m.ten")) == content(module)
        return
    with pytest.raises(SourceError, match="between passes"):
        read_module(tmp_path / "m.ten")


def test_both_forms_are_read_by_what_they_hold(tmp_path: Path) -> None:
    save_module(rows_module(), tmp_path / "binary")
    with (tmp_path / "text.bin").open("w") as file:
        write_module(rows_module(), file)
    assert content(collc.load(tmp_path / "binary")) == content(collc.load(tmp_path / "text.bin"))


@pytest.mark.parametrize("module", [rows_module(), table_module()])
def test_columns_stay_on_disk_and_are_aligned(tmp_path: Path, module: Module) -> None:
    save_module(module, tmp_path / "m.ten")
    schedule = load_module(tmp_path / "m.ten").schedule
    if isinstance(schedule, RowSchedule):
        columns = [schedule.rows.chunk, schedule.rows.link, schedule.rows.start, schedule.rows.reduce]
    else:
        columns = [schedule.chunk]
    for column in columns:
        assert isinstance(column.base, np.memmap)
        assert column.base.offset % 64 == 0
        assert column.flags.aligned
        assert not column.flags.writeable


def test_equal_modules_give_equal_bytes(tmp_path: Path) -> None:
    for name in "ab":
        save_module(rows_module(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_numpy_reads_the_columns(tmp_path: Path) -> None:
    save_module(rows_module(), tmp_path / "m.ten")
    with np.load(tmp_path / "m.ten", allow_pickle=False) as file:
        assert file["link"].tolist() == [0, 1, 2]
        assert b'module "m"' in file["module.ten"]


def test_a_table_of_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collc.ten.binary._BLOCK", 100)
    table = np.arange(8 * 200, dtype=np.uint16).reshape(200, 8)
    module = replace(rows_module(), schedule=StepSchedule(LinkModel.STORE, np.asfortranarray(table), 7))
    save_module(module, tmp_path / "m.ten")
    assert load_module(tmp_path / "m.ten").schedule.chunk.tolist() == table.tolist()


Members = dict[str, bytes]


def array(values: np.ndarray, *, pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, values, allow_pickle=pickle)
    return file.getvalue()


def fields(**changed: object) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        members["schedule.json"] = json.dumps(json.loads(members["schedule.json"]) | changed).encode()

    return change


def put(name: str, data: bytes) -> Callable[[Members], None]:
    return lambda members: members.update({name: data})


def removed(name: str) -> Callable[[Members], None]:
    return lambda members: (members.pop(name), None)[1]


LINK = "link.npy"
ROWS_DAMAGE: dict[str, tuple[Callable[[Members], None], str]] = {
    "no text": (removed("module.ten"), "module.ten is missing"),
    "no utf-8": (put("module.ten", b"\xff\xfe"), "not text in UTF-8"),
    "wrong text": (put("module.ten", b"ten 2"), "version 2"),
    "no json": (put("schedule.json", b"{"), "not JSON"),
    "deep json": (put("schedule.json", b"[" * 60_000), "not JSON"),
    "long json": (put("schedule.json", b" " * 70_000), "more than 65536 bytes"),
    "no object": (put("schedule.json", b"[]"), "not a JSON object"),
    "version": (fields(version=2), "of version 2"),
    "model": (fields(model="magic"), "no 'model' that is store or pipelined"),
    "layout": (fields(layout=["rows"]), "no 'layout'"),
    "no column": (removed(LINK), "link.npy is missing"),
    "empty column": (put(LINK, b""), "not a NumPy array"),
    "cut column": (put(LINK, array(np.zeros(3, np.int32))[:-2]), "has other than"),
    "bool of 2": (put("reduce.npy", array(np.zeros(3, np.bool_))[:-1] + b"\2"), "other than false and true"),
    "long column": (put(LINK, array(np.zeros(3, np.int32)) + b"xx"), "has other than"),
    "rubbish column": (put(LINK, b"\x93NUMPY\x01\x00\x10\x00{'descr': boo}  "), "not a NumPy array"),
    "newer column": (put(LINK, b"\x93NUMPY\x03\x00"), "not a NumPy array of format 1.0"),
    "pickled column": (put(LINK, array(np.array([{}] * 3, object), pickle=True)), "not an array of plain numbers"),
    "fortran column": (put(LINK, array(np.asfortranarray(np.zeros((3, 2), np.int32)))), "in C order"),
    "short column": (put(LINK, array(np.zeros(2, np.int32))), r"link.npy is int32\[2\], not int32\[3\]"),
    "wide column": (put(LINK, array(np.zeros((3, 1), np.int32))), r"link.npy is int32\[3, 1\]"),
    "other type": (put(LINK, array(np.zeros(3, np.int64))), r"link.npy is int64\[3\]"),
    "not sorted": (put("start.npy", array(np.array([5, 4, 3]))), "not sorted at row 1"),
    "unknown member": (put("x.npy", b""), "a member called 'x.npy'"),
}
TABLE_DAMAGE: dict[str, tuple[Callable[[Members], None], str]] = {
    "no step": (fields(step=0), "no whole number 'step' of at least 1"),
    "true step": (fields(step=True), "no whole number 'step'"),
    "huge step": (fields(step=2**70), "no whole number 'step'"),
    "reduce steps": (fields(reduce_steps=-1), "no whole number 'reduce_steps'"),
    "more reduce steps": (fields(reduce_steps=3), "3 of 2 steps cannot reduce"),
    "steps beyond 64 bits": (fields(step=2**62), "2 steps of .* are longer than 53 days"),
    "empty last step": (
        put("chunk.npy", array(np.full((2, 8), 65535, np.uint16))),
        "the last of 2 steps has no transfer: a schedule ends with its last transfer",
    ),
    "other links": (put("chunk.npy", array(np.zeros((3, 7), np.uint16))), r"chunk.npy is uint16\[3, 7\]"),
    "signed table": (put("chunk.npy", array(np.zeros((3, 8), np.int16))), "chunk.npy is int16"),
    "flat table": (put("chunk.npy", array(np.zeros(24, np.uint16))), "chunk.npy is uint16"),
}


def refused(path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        load_module(path)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.message


def test_a_schedule_for_another_link_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.ten"
    save_module(replace(table_module(), model=LinkModel.STORE), path)
    assert "schedule.json is for the link model pipelined, module.ten for store" in refused(path)


def write_members(path: Path, members: Members) -> None:
    """Write an archive whose checksums are right."""
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)


@pytest.mark.parametrize("name", [*ROWS_DAMAGE, *TABLE_DAMAGE])
def test_damaged_members_are_refused_with_a_message(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.ten"
    save_module(table_module() if name in TABLE_DAMAGE else rows_module(), path)
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    change, why = (ROWS_DAMAGE | TABLE_DAMAGE)[name]
    change(members)
    write_members(path, members)
    message = refused(path)
    assert re.search(why, message), message


@pytest.mark.sampled(2)
@pytest.mark.parametrize("module", [rows_module(), table_module()])
def test_a_damaged_header_of_an_array_is_refused_or_means_the_same(tmp_path: Path, module: Module) -> None:
    """The checksums are right; each byte of the header is replaced by ones that a parser of Python treats specially."""
    path = tmp_path / "m.ten"
    save_module(module, path)
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    good = members["chunk.npy"]
    known = content(module)
    for place in range(good.index(b"\n") + 1):
        for byte in b"\0\n\\'()9\xff":
            damaged = bytearray(good)
            damaged[place] = byte
            write_members(path, members | {"chunk.npy": bytes(damaged)})
            try:
                found = load_module(path)
            except SourceError:
                continue
            assert content(found) == known


def test_an_empty_array_of_a_huge_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.ten"
    save_module(rows_module(), path)
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (0, 999999999999, 999999999999), }\n"
    write_members(path, members | {LINK: b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header})
    assert "link.npy is not a NumPy array" in refused(path)


def test_damaged_archives_are_refused_with_a_message(tmp_path: Path) -> None:
    path = tmp_path / "m.ten"
    save_module(rows_module(), path)
    good = path.read_bytes()
    for length in range(0, len(good), 5):
        path.write_bytes(good[:length])
        assert str(path) in refused(path)
    path.write_bytes(good.replace(b"schedule.json", b"module.ten\0\0\0"))
    assert "module.ten" in refused(path)
    members = good[: good.index(b"PK\x01\x02")]
    path.write_bytes(members + good)
    assert "does not begin with its first member" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("module.ten", "x")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("module.ten", "y")
    assert "two members called 'module.ten'" in refused(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("module.ten", "x" * 100)
    assert "compressed" in refused(path)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    """In the contents by their checksums; elsewhere the file is refused or has the same meaning."""
    path = tmp_path / "m.ten"
    save_module(rows_module(), path)
    good, rng = path.read_bytes(), random.Random(1)
    known = content(rows_module())
    for _ in range(400):
        data = bytearray(good)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        try:
            found = load_module(path)
        except SourceError:
            continue
        assert content(found) == known


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "none.ten")
    with pytest.raises(SourceError, match="there is no file"):
        read_module(tmp_path / "none.ten")
    with pytest.raises(SourceError, match="is not a file"):
        read_module(tmp_path)


# From the command line

PROGRAM = """
import std.topologies import std.collectives
topology loop = ring(4, bandwidth: 50GiB/s, latency: 0.5us)
schedule s on loop { run all_gather(loop.npus, size: 4MiB) emit ten("s.ten") emit ten("b.ten", binary: %s) }
"""


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    monkeypatch.chdir(tmp_path)

    def run(binary: str) -> int:
        Path("p.coll").write_text(PROGRAM % binary)
        return main(["compile", "p.coll", "-o", "out"])

    return run


def test_emit_and_verify(compiled: Callable[[str], int], capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled("true") == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["b.ten", "s.ten"]
    assert Path("out/b.ten").read_bytes().startswith(b"PK\x03\x04")
    assert content(collc.load("out/b.ten")) == content(collc.load("out/s.ten"))
    reports = []
    for name in ("out/b.ten", "out/s.ten"):
        capsys.readouterr()
        assert main(["verify", name, "--json"]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert [report.pop("file") for report in reports] == ["out/b.ten", "out/s.ten"]
    assert reports[0] == reports[1]
    assert compiled("false") == 0
    assert Path("out/b.ten").read_bytes() == Path("out/s.ten").read_bytes()


def test_verify_refuses_a_damaged_file(compiled: Callable[[str], int], capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled("true") == 0
    data = bytearray(Path("out/b.ten").read_bytes())
    data[len(data) // 2] ^= 4
    Path("out/b.ten").write_bytes(data)
    assert main(["verify", "out/b.ten"]) != 0
    assert "error[T0110]" in capsys.readouterr().err


def test_a_schedule_too_large_for_text_is_refused(
    compiled: Callable[[str], int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collc.ten.text.cursor.MOST_CELLS", 1)
    monkeypatch.setattr("collc.ten.text.cursor.MOST_TRANSFERS", 1)
    assert compiled("true") != 0
    errors = capsys.readouterr().err
    assert "too large for the text form" in errors
    assert "binary: true" in errors
    assert not list(Path().glob("out/*"))
