"""The inspection of a file: rows, totals and the picture."""

from __future__ import annotations

import json

import pytest

from collc.application.file_kinds import call_for
from collc.application.show.report_page import threadblock_picture
from collc.base.diagnostics import CheckFailed, UsageError
from collc.command.cli import main
from collc.msccl.inspecting import inspect_file, inspect_plan, ranges
from collc.msccl.lowering.lower import lower
from collc.msccl.plans.plan import plan_of
from tests import support
from tests.pictures.drawn import overlaps, texts, tips

from .lowering import ring_all_reduce as ring_module
from .lowering import scheduled, xml_of
from .programs import Block, File, Gpu, all_to_all, direct_all_reduce, direct_gather, ring_all_reduce, write


def test_ring_all_reduce(tmp_path):
    found = inspect_file(write(tmp_path / "f.xml", ring_all_reduce(8)))
    row = found.gpus[3]
    assert [row[name] for name in ("threadblocks", "sends_to", "receives_from", "channels")] == [1, (4,), (2,), (0,)]
    assert row["kinds"] == {"s": 1, "r": 1, "rcs": 6, "rrs": 6, "rrcs": 1}
    assert (row["steps"], row["longest"]) == (15, 15)
    totals = {
        "threadblocks": 8,
        "steps": 120,
        "connections": 8,
        "messages": 112,
        "fused": 100 * 104 // 120,
        "chain": 15,
    }
    assert totals.items() <= found.totals.items()


def test_dependencies_and_scratch(tmp_path):
    found = inspect_file(write(tmp_path / "f.xml", direct_all_reduce(3)))
    assert found.totals["scratch"] == 6
    assert [row["dependencies"] for row in found.gpus] == [4, 4, 4]
    # s, r, re, re, s, r: the second receive is of a peer whose chain is as long
    assert found.totals["chain"] == 6


def test_chain_of_a_program_that_never_ends(tmp_path):
    file = all_to_all(2)
    for gpu in file.gpus:
        gpu.tbs[0].steps.reverse()
    assert inspect_file(write(tmp_path / "f.xml", file)).totals["chain"] == 0


@pytest.mark.parametrize("deps", [-1, 99])
def test_a_dependency_on_no_step(tmp_path, deps):
    """The contract refuses it, and so the program has no chain; in the last threadblock nothing moves a counter."""
    gpus = [
        Gpu((1, 2, 0), [Block().add("cpy", ("i", 0), ("o", 0), dep=(1, deps)), Block().add("cpy", ("i", 0), ("o", 1))])
    ]
    path = write(tmp_path / "f.xml", File("allgather", 2, gpus * 2))
    assert inspect_file(path).totals["chain"] == 0
    assert main(["inspect", str(path), "--svg", str(tmp_path / "f.svg")]) == 0
    assert main(["show", str(path), "-o", str(tmp_path / "f.html")]) == 4


def test_the_picture_is_xml_with_a_box_for_every_step(tmp_path):
    file = all_to_all(4)
    file.name = "a<b"
    text = file.text().replace("a<b", "a>b")
    picture = threadblock_picture(inspect_file(write(tmp_path / "f.xml", text)))
    assert len(tips(picture)) == 4 * 7
    assert any("waits" in tip or "reads" in tip for tip in tips(picture))


def test_large_files_are_drawn_in_part(tmp_path):
    picture = threadblock_picture(inspect_file(write(tmp_path / "f.xml", all_to_all(20))))
    assert "the first 16 of 20 GPUs are drawn" in texts(picture)
    assert "GPU 16" not in picture.body
    assert overlaps(picture) == []


def test_errors(tmp_path):
    with pytest.raises(UsageError):
        inspect_file(tmp_path / "none.xml")
    with pytest.raises(CheckFailed):
        inspect_file(write(tmp_path / "f.xml", "<algo"))


def test_numbers_in_few_letters():
    assert ranges(()) == ""
    assert ranges((0, 1, 2, 5, 8, 9)) == "0-2 5 8-9"


def test_plans(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_of(ring_module(4))))
    found = inspect_plan(path)
    columns, rows = found.table()
    assert all(len(row) == len(columns) for row in rows)
    assert rows[1][:4] == ("1", "1", "0 2", "0 2")
    assert found.totals["coll"] == "allreduce"
    # 6 hops of 4 chunks, and each receiver says once that it has begun
    assert found.totals["signals"] == 4 * 6 + 4
    assert len(tips(threadblock_picture(found))) == found.totals["operations"]
    with pytest.raises(CheckFailed):
        inspect_plan(write(path, '{"name": 3}'))


def test_the_table_fits_80_columns(tmp_path):
    program = lower(scheduled(support.dgx1(), support.all_reduce(list(range(8)), chunks=2)))
    path = tmp_path / "f.xml"
    path.write_bytes(xml_of(program))
    columns, rows = inspect_file(path).table()
    assert sum(max(map(len, column)) + 3 for column in zip(columns, *rows, strict=True)) <= 80


def test_a_file_that_the_executor_never_selects_has_a_warning(tmp_path):
    assert not inspect_file(write(tmp_path / "f.xml", ring_all_reduce(3))).warnings
    (warning,) = inspect_file(write(tmp_path / "g.xml", direct_gather(3))).warnings
    assert (warning.code, warning.warning) == ("X0110", True)
    assert "never selects it" in warning.message


@pytest.mark.parametrize("text", ["# a comment\nimport std.topologies\n", "", "schedule s on t {}\n"])
def test_source_text_is_no_file_to_inspect(tmp_path, text):
    path = tmp_path / "p.coll"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        call_for(path, "inspect", "executor")
    assert caught.value.diagnostics[0].code == "X0206"
    assert f"{path} is a program" in caught.value.diagnostics[0].message
    assert f"collc compile {path}" in caught.value.diagnostics[0].hint
