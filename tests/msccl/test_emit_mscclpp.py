"""MSCCL++ plans, judged by the checker that interprets them."""

import io
import json
from pathlib import Path

import pytest

from collc.diagnostics import SourceError, SourceFile, Span
from collc.emit.mscclpp import write_plan
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement, plan_options_of
from collc.msccl.plan import plan_of
from collc.options import OptionValue
from collc.ten.module import Module
from tests import support
from tests.msccl.lowering import COLLECTIVES, direct_all_to_all, ring_all_reduce, scheduled


def option(value: object) -> OptionValue:
    return OptionValue("string", value, Span(SourceFile("f.coll", ""), 0, 0))


def assert_right(module: Module, folder: Path, options: MscclOptions) -> None:
    out = io.BytesIO()
    write_plan(module, options, out)
    path = folder / "plan.json"
    path.write_bytes(out.getvalue())
    verdict = check_plan(path)
    assert set(verdict.checks.values()) == {"ok"}, [d.message for d in verdict.diagnostics]


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    "network",
    [support.ring(2), support.ring(8), support.grid(3, 3), support.fully_connected(4), support.dgx1()],
    ids=lambda n: f"{n.name}x{n.npu_count}",
)
def test_every_collective_is_right(collective, network, tmp_path):
    module = scheduled(network, collective(list(range(network.npu_count))))
    assert_right(module, tmp_path, MscclOptions())
    if collective is not support.all_to_all:
        assert_right(module, tmp_path, MscclOptions(placement=Placement.IN))


def test_all_to_all_in_place_keeps_what_has_not_left(tmp_path):
    for chunks in (1, 2):
        assert_right(direct_all_to_all(4, chunks), tmp_path, MscclOptions(placement=Placement.IN))


def test_instances(tmp_path):
    assert_right(ring_all_reduce(4), tmp_path, MscclOptions(instances=2))


def test_long_threadblocks_are_split(tmp_path):
    plan = plan_of(ring_all_reduce(8))
    assert {len(gpu["threadblocks"]) for gpu in plan["gpus"]} == {2}
    assert max(len(tb["ops"]) for gpu in plan["gpus"] for tb in gpu["threadblocks"]) <= 64
    assert_right(ring_all_reduce(8), tmp_path, MscclOptions())


@pytest.mark.parametrize("chunks", [1, 2])
def test_all_reduce_on_a_mesh_takes_more_threadblocks(tmp_path, chunks):
    module = scheduled(support.grid(3, 3), support.all_reduce(list(range(9)), chunks=chunks))
    assert_right(module, tmp_path, MscclOptions())
    assert max(len(gpu["threadblocks"]) for gpu in plan_of(module)["gpus"]) == 4 * chunks


def test_a_plan_that_does_not_fit_is_refused():
    module = scheduled(support.grid(3, 3), support.all_reduce(list(range(9)), chunks=8))
    with pytest.raises(SourceError, match=r"the MSCCL program has \d+ .* more than the \d+ that the runtime takes"):
        plan_of(module)


@pytest.mark.parametrize(("name", "value"), [("protocol", "LL"), ("profile", "old"), ("channels", 4)])
def test_options_that_plans_do_not_have(name, value):
    with pytest.raises(SourceError, match=f"'emit mscclpp' has no option '{name}'"):
        plan_options_of({name: option(value)})


def test_a_plan_has_one_placement():
    assert plan_options_of({"placement": option("in")}).placement is Placement.IN
    with pytest.raises(SourceError, match="either in place or out of place"):
        plan_options_of({"placement": option("both")})


def test_the_smallest_plan():
    module = scheduled(support.ring(2), support.broadcast([0, 1]))
    plan = plan_of(module, MscclOptions(placement=Placement.IN, sizes=(1024, 4096)))
    assert (plan["min_message_size"], plan["max_message_size"], plan["inplace"]) == (1024, 4096, True)
    ops = [[op["name"] for op in gpu["threadblocks"][0]["ops"]] for gpu in plan["gpus"]]
    assert ops == [["wait", "nop", "put", "nop", "signal"], ["signal", "wait", "nop"]]
    assert json.dumps(plan) == json.dumps(plan_of(module, MscclOptions(placement=Placement.IN, sizes=(1024, 4096))))
