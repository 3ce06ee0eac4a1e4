"""Fallbacks from the program to the index: each failure has a plan that is right on its own damaged network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import collc
from collc.application.fallbacks.fallback_index import FallbackIndex, moved_npus
from collc.application.fallbacks.finding import find_fallbacks
from collc.application.show.fallback_page import fallback_subjects
from collc.base.diagnostics import NoSchedule, SourceError, SourceFile, UsageError
from collc.source.elaboration.elaborate import load_program
from collc.source.program import ScheduleRequest
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Transfers
from collc.verification import verify_schedule

CLUSTER = """
import std.collectives
topology pod {
    npu gpu[3, 2] labels ["a/0", "a/1", "b/0", "b/1", "c/0", "c/1"]
    switch nvswitch[3]
    switch leaf[2]
    for n in 0..3, i in 0..2 {
        link gpu[n, i] <-> nvswitch[n] (bandwidth: 100GB/s, latency: 1us)
        link gpu[n, i] <-> leaf[i] (bandwidth: 25GB/s, latency: 1us)
    }
    part nic[n in 0..3, i in 0..2] = { link gpu[n, i] <-> leaf[i] }
    part node[n in 0..3] = { npu gpu[n, *], switch nvswitch[n] } labels ["a", "b", "c"]
}
"""
FAILURES = "failures any 1 of (nics, gpus, nodes), any 2 of nics, any nic (bandwidth: 1/2)"
RUNS = {
    "gather": "run all_gather(pod.npus, size: 6MiB, chunks: 2)",
    "sum": "run all_reduce(pod.npus, size: 6MiB)",
    "exchange": "run all_to_all(pod.npus, size: 6MiB)",
}


def program(run: str, more: str = "") -> str:
    return f"{CLUSTER}schedule s on pod {{ {run} {FAILURES} {more} }}"


def schedule_on(request: ScheduleRequest, plan: Module, moved: list[int], names: list[str]) -> Module:
    """A plan on the network of another failure: its devices moved, NPUs as told, switches as links follow."""
    own, target = plan.network, request.network
    number = {target.device_name(device): device for device in range(target.device_count)}
    devices = [number[own.device_name(device)] for device in range(own.device_count)]
    npu = {number[name]: number[names[moved[k]]] for k, name in enumerate(names) if name in number}
    image = {device: npu.get(device, -1) for device in devices}
    for switch in (device for device in devices if device >= target.npu_count):
        near = {image[devices[a]] for a, b in zip(own.source, own.target, strict=True) if devices[b] == switch}
        ends = [{*target.target[target.source == device].tolist()} for device in near]
        found = set.intersection(*ends) - {*range(target.npu_count)} if ends else set()
        image[switch] = found.pop() if found else switch
    links = {pair: k for k, pair in enumerate(zip(target.source.tolist(), target.target.tolist(), strict=True))}
    link = [links[image[devices[a]], image[devices[b]]] for a, b in zip(own.source, own.target, strict=True)]
    assert plan.schedule is not None
    rows = plan.schedule.transfers
    left = [own.device_name(int(device)) for device in plan.demand.runs[0].group]
    rank = {image[number[name]]: k for k, name in enumerate(left)}
    ranks = [rank[int(device)] for device in request.demand.runs[0].group]  # of each new member, its rank in the plan
    chunk = _chunks(plan, ranks)[rows.chunk]
    order = np.lexsort((np.array(link)[rows.link], rows.start))
    moved_rows = Transfers.of(
        chunk[order], np.array(link, np.int32)[rows.link][order], rows.start[order], rows.reduce[order]
    )
    return replace(
        plan, network=target, demand=request.demand, schedule=RowSchedule(plan.model, moved_rows), bound=None
    )


def _chunks(plan: Module, ranks: list[int]) -> np.ndarray:
    """The chunk that each chunk of the plan is after its ranks have been renamed."""
    standard = plan.demand.standard
    assert standard is not None
    new = np.argsort(ranks)
    n, parts = len(ranks), standard.chunks
    chunk = np.arange(len(plan.demand.chunks), dtype=np.int64)
    block, part = np.divmod(chunk, parts)
    if standard.kind == "all_to_all":
        sender, target = np.divmod(block, n)
        return (((new[sender] * n) + new[target]) * parts + part).astype(np.int32)
    return (new[block] * parts + part).astype(np.int32)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_each_plan_is_right_after_each_failure_of_its_class(run: str, tmp_path: Path) -> None:
    report = collc.compile(program(run), output=tmp_path, link_model="pipelined", synthesizer="pccl")
    (request,) = load_program(SourceFile("p", program(run))).schedules
    failures = request.failures
    assert failures is not None
    data = json.loads((tmp_path / "fallbacks.json").read_text())
    (own,) = data["sets"]
    index = FallbackIndex(tmp_path / "fallbacks.json")
    assert len(own["failures"]) == 6 + 6 + 3 + 15 + 6
    assert len(own["classes"]) == 7
    assert own["shares"] == ["1/2"]
    for rows in failures.members:
        for row in rows.tolist():
            parts = tuple(failures.parts[part] for part in row)
            dead, slow = ([part.name for part in parts if bool(part.left) is left] for left in (False, True))
            (fallback,) = index.find(dead, slow=slow)
            if fallback.reason:
                with pytest.raises((NoSchedule, SourceError), match="E0412"):
                    failures.request(parts)
                continue
            damaged = failures.request(parts)
            moves = own["failures"][" + ".join(sorted(part.failure for part in parts))][1:]
            moved = moved_npus(own["sizes"], own["places"] or range(6), moves)
            module = schedule_on(damaged, report[fallback.plan].kept_module(), moved, own["npus"])
            verdict = verify_schedule(module)
            assert verdict.ok, (parts, verdict.diagnostics)
            assert damaged.demand.runs[0].group.tolist() == [
                npu for npu, rank in enumerate(fallback.ranks[0].new) if rank is not None
            ]
            assert sorted(rank for rank in fallback.ranks[0].new if rank is not None) == [
                *range(len(damaged.demand.runs[0].group))
            ]
            assert module.schedule is not None
            assert module.schedule.collective_time(module.network, module.demand) == fallback.time_ps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a program with plans for MSCCL and MSCCL++."""
    path = tmp_path_factory.mktemp("fallbacks")
    more = 'emit msccl("sum.xml") emit mscclpp("sum.json")'
    collc.compile(program(RUNS["sum"], more), output=path, link_model="pipelined", synthesizer="pccl")
    return path


def test_files_are_for_the_ranks_that_are_left(folder: Path) -> None:
    report = find_fallbacks(folder / "fallbacks.json", ["gpu[1, 0]"], None, None, None)
    (fallback,) = report.fallbacks
    assert [Path(name).name for name in fallback.files] == ["sum.xml", "sum.json", "sum.ranks.json"]
    for name in fallback.files[:2]:
        assert collc.verify(folder / name).ok
    plan = json.loads((folder / fallback.files[1]).read_text())
    assert plan["name"] == fallback.plan != "s"
    assert len(plan["gpus"]) == 5
    assert fallback.ranks[0].new.count(None) == 1
    assert fallback.ranks[0].new[2] is None


def test_ranks_are_those_of_nccl_for_the_first_failure_of_a_class(folder: Path) -> None:
    report = find_fallbacks(folder / "fallbacks.json", ["gpu[0, 0]"], None, None, None)
    assert report.fallbacks[0].ranks[0].new == (None, 0, 1, 2, 3, 4)
    assert report.fallbacks[0].ranks[0].in_order
    assert "ncclCommShrink" in report.notes()[0]


@pytest.mark.parametrize(
    ("names", "plan"),
    [
        (["node[1].nic[1]"], "s-without-nic-0-0"),
        (["b"], "s-without-node-0"),
        (["b/1"], "s-without-gpu-0-0"),
        (["gpu[2, 0]", "gpu[2, 1]"], "s-without-node-0"),
        (["nic[2, 1]", "nic[2, 0]"], None),
        (["b/[0-1]"], "s-without-node-0"),
        (["nic[1,1]"], "s-without-nic-0-0"),
    ],
)
def test_failures_have_several_names(folder: Path, names: list[str], plan: str | None) -> None:
    if plan is None:
        with pytest.raises(NoSchedule, match="can't get to"):
            find_fallbacks(folder / "fallbacks.json", names, None, None, None)
    else:
        assert find_fallbacks(folder / "fallbacks.json", names, None, None, None).fallbacks[0].plan == plan


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ('RAS Monitor\n===\n{"event": "PEER_DEAD", "peer": {"host": "c", "nvml_devs": [1]}}', ("gpu[2, 1]",)),
        ('{"event": "PEER_RECOVERING"}{"event": "PEER_DEAD", "peer": {"host": "a", "nvml_devs": [0, 1]}}', None),
        (
            '{"communicators": [{"size": 6, "missing_ranks": [{"rank": 3, "host": "10.0.0.1", "nvml_dev": 1, "status": '
            '{"unresponsive": true, "considered_dead": false}}, {"rank": 4, "host": "", "nvml_dev": 1, "status": '
            '{"unresponsive": false, "considered_dead": false}}]}]}',
            ("gpu[1, 1]",),
        ),
    ],
)
def test_what_ras_reports(folder: Path, tmp_path: Path, text: str, dead: tuple[str, ...] | None) -> None:
    (tmp_path / "ras.json").write_text(text)
    report = find_fallbacks(folder / "fallbacks.json", [], tmp_path / "ras.json", None, None)
    assert report.dead == (dead or ("gpu[0, 0]", "gpu[0, 1]"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"communicators": [3]}', '{"event": "PEER_DEAD", "peer": {}}', "{}"])
def test_files_that_are_not_of_ras(folder: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "ras.json").write_text(text)
    with pytest.raises(SourceError, match="X0802"):
        find_fallbacks(folder / "fallbacks.json", [], tmp_path / "ras.json", None, None)


def test_wrong_requests(folder: Path, tmp_path: Path) -> None:
    index = folder / "fallbacks.json"
    with pytest.raises(UsageError, match="did you mean 'nic"):
        find_fallbacks(index, ["nik[0, 0]"], None, None, None)
    with pytest.raises(UsageError, match="U0158"):
        find_fallbacks(index, [], None, None, None)
    with pytest.raises(UsageError, match="U0110"):
        find_fallbacks(index, ["nic[0, 0]"], None, "t", None)
    below = (
        '{"communicators": [{"size": 6, "missing_ranks": [{"rank": -3, "host": "a", "nvml_dev": -1, "status": '
        '{"unresponsive": true, "considered_dead": true}}]}]}'
    )
    for text in ('{"event": "PEER_DEAD", "peer": {"host": "z", "nvml_devs": [1]}}', below):
        (tmp_path / "ras.json").write_text(text)
        with pytest.raises(UsageError, match="U0158"):
            find_fallbacks(index, [], tmp_path / "ras.json", None, None)
    for text in ("{", "[]", "{}"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(SourceError, match="X0801"):
            find_fallbacks(tmp_path / "x.json", ["nic[0, 0]"], None, None, None)


@pytest.mark.parametrize(
    ("dead", "slow", "hint"),
    [
        (["b/[1-3]"], [], "b/2 has none alone, either"),
        (["c/[0-1]", "b"], [], "any 3 of (gpu, node)'"),
        (["a", "c"], [], "for all at once, compile with 'failures any 2 of node'"),
        (["node[0]", "nic[2, 1]"], [], "any 2 of (nic, node)'"),
        (["gpu[0, 0] ", "b/1", "node[2].gpu[0]"], [], "any 3 of gpu'"),
        ([], ["nic[0, 0]", "nic[1, 0]"], "any 2 of nic (bandwidth: SHARE)'"),
        (["a"], ["nic[1, 0]"], "dead parts or of slow ones"),
        ([], ["nic[0, 0]", "gpu[1, 0]"], "slow gpu[1, 0] has none alone, either"),
        (["a", "nic[0, 9]"], [], "nic[0, 9] has none alone, either; did you mean 'nic[0, "),
    ],
)
def test_several_parts_without_a_plan_together(folder: Path, dead: list[str], slow: list[str], hint: str) -> None:
    """The hint is what to write into the program, or which of them is wrong."""
    with pytest.raises(UsageError) as raised:
        find_fallbacks(folder / "fallbacks.json", dead, None, None, None, slow)
    assert hint in (raised.value.diagnostics[0].hint or "")


def test_links_are_replaced_and_files_stay(folder: Path, tmp_path: Path) -> None:
    index, links = folder / "fallbacks.json", tmp_path / "current"
    for name in ("nic[0, 0]", "gpu[0, 0]"):
        report = find_fallbacks(index, [name], None, None, links)
        assert [link.name for link in report.links] == ["sum.json", "sum.ranks.json", "sum.xml"]
        (fallback,) = report.fallbacks
        assert {os.path.realpath(link) for link in report.links} == {
            os.path.realpath(folder / f) for f in fallback.files
        }
    (links / "sum.xml").unlink()
    (links / "sum.xml").write_text("mine")
    with pytest.raises(UsageError, match="U0159"):
        find_fallbacks(index, ["nic[0, 0]"], None, None, links)
    assert (links / "sum.xml").read_text() == "mine"


def test_files_of_one_name_are_not_linked(tmp_path: Path) -> None:
    text = CLUSTER + "".join(
        f'schedule {name} on pod {{ {run} emit msccl("{name}/p.xml") failures any nic }}\n'
        for name, run in RUNS.items()
    )
    collc.compile(text, output=tmp_path, link_model="pipelined", synthesizer="pccl")
    links = tmp_path / "current"
    with pytest.raises(UsageError, match="U0159"):
        find_fallbacks(tmp_path / "fallbacks.json", ["nic[0, 0]"], None, None, links)
    assert not links.exists()
    report = find_fallbacks(tmp_path / "fallbacks.json", ["nic[0, 0]"], None, "sum", links)
    assert [link.name for link in report.links] == ["p.ranks.json", "p.xml"]


@pytest.mark.parametrize("name", ["/etc/hosts", "../x.xml", "", ".."])
def test_an_index_links_to_no_file_outside_its_folder(folder: Path, tmp_path: Path, name: str) -> None:
    data = json.loads((folder / "fallbacks.json").read_text())
    data["schedules"][0]["plans"][0]["files"] = [name]
    (tmp_path / "fallbacks.json").write_text(json.dumps(data))
    with pytest.raises(SourceError, match="X0801"):
        find_fallbacks(tmp_path / "fallbacks.json", ["nic[0, 0]"], None, None, tmp_path / "current")
    assert not (tmp_path / "current").exists()


WRONG: list[tuple[list[str | int], object]] = [
    (["sets"], 5),
    (["schedules", 0], []),
    (["schedules", 0, "set"], 7),
    (["schedules", 0, "plans"], []),
    (["schedules", 0, "plans", 0, "time_ps"], "x"),
    (["sets", 0, "npus", 1], None),
    (["sets", 0, "sizes", 0], 0),
    (["sets", 0, "classes", 0], {}),
    (["sets", 0, "parts", "nic[0, 0]"], [3]),
    (["sets", 0, "failures", "nic[1, 1]"], [9]),
    (["sets", 0, "failures", "nic[1, 1]", 1], ["swap", 5, 0, 1]),
]


@pytest.mark.parametrize(("place", "value"), WRONG, ids=[".".join(map(str, place)) for place, _ in WRONG])
def test_a_damaged_index(folder: Path, tmp_path: Path, place: list[str | int], value: object) -> None:
    data = json.loads((folder / "fallbacks.json").read_text())
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    index = tmp_path / "fallbacks.json"
    index.write_text(json.dumps(data))
    (tmp_path / "fallbacks").symlink_to(folder / "fallbacks")
    codes: list[str] = []
    for read in (
        lambda: find_fallbacks(index, ["nic[1, 1]"], None, None, None),
        lambda: fallback_subjects(index, None),
    ):
        try:
            read()
        except SourceError as error:
            codes.append(error.diagnostics[0].code)
    assert {*codes} == {"X0801"}


def test_the_command_answers_without_numpy(folder: Path) -> None:
    code = (
        "import sys; from collc.command.cli import main\n"
        f"assert main(['fallback', {str(folder / 'fallbacks.json')!r}, '--dead', 'nic[1, 1]', '--json']) == 0\n"
        "assert 'numpy' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["fallbacks"][0]["plan"] == "s-without-nic-0-0"


def test_schedules_with_the_same_failures_share_them(tmp_path: Path) -> None:
    text = CLUSTER + "".join(f"schedule {name} on pod {{ {run} failures any nic }}\n" for name, run in RUNS.items())
    collc.compile(text, output=tmp_path, link_model="pipelined", synthesizer="pccl")
    data = json.loads((tmp_path / "fallbacks.json").read_text())
    assert [each["set"] for each in data["schedules"]] == [0, 0, 0]
    assert len(FallbackIndex(tmp_path / "fallbacks.json").find(["nic[2, 0]"])) == 3


def test_slow_parts_may_keep_different_shares_and_have_the_names_of_dead_ones(tmp_path: Path) -> None:
    pair = """
        import std.collectives
        topology pair {
            npu gpu[2]
            switch leaf
            for i in 0..2 { link gpu[i] <-> leaf (bandwidth: (1 + i) * 20GB/s, latency: 1us) }
            part nic[i in 0..2] = { link gpu[i] <-> leaf }
        }
        schedule s on pair {
            run all_gather(pair.npus, size: 1MiB)
            failures any cable (bandwidth: 10GB/s), any 2 of nics (bandwidth: 10GB/s), any 2 of nics (bandwidth: 0.9)
            failures any nic
        }
    """
    collc.compile(pair, output=tmp_path, link_model="pipelined", synthesizer="pccl")
    index = FallbackIndex(tmp_path / "fallbacks.json")
    (both,) = index.find([], slow=["nic[1]", "nic[0]"])
    (one,) = index.find([], slow=["nic[1]"])
    assert (both.plan, one.plan) == ("s-with-slow-gpu-0-leaf-gpu-1-leaf", "s-with-slow-gpu-1-leaf")
    assert both.time_ps == 2 * (52_428_800 + 1_000_000)  # 512 KiB over two links at 10 GB/s
    for name in ("nic[1]", "gpu[1] <-> leaf"):
        assert index.find([name])[0].plan == "s-without-gpu-1-leaf"


def test_a_slow_part_loses_no_gpu(folder: Path) -> None:
    index = FallbackIndex(folder / "fallbacks.json")
    (fallback,) = index.find([], slow=["node[2].nic[1]"])
    assert fallback.plan == "s-with-slow-nic-0-0"
    assert sorted(rank for rank in fallback.ranks[0].new if rank is not None) == [*range(6)]
    for dead, slow in (([], ["gpu[0, 0]"]), (["nic[0, 0]"], ["nic[0, 1]"])):
        with pytest.raises(UsageError, match=r"U0157.*slow"):
            index.find(dead, slow=slow)


def test_each_plan_has_a_name_of_its_own(tmp_path: Path) -> None:
    text = program(RUNS["gather"]).replace(FAILURES, "failures any link, any 1 of cables")
    collc.compile(text, output=tmp_path, link_model="pipelined", synthesizer="pccl")
    names = [plan["name"] for plan in json.loads((tmp_path / "fallbacks.json").read_text())["schedules"][0]["plans"]]
    assert len(names) == len({*names}) > 2
    assert any(name.endswith("-no-2") for name in names)


def test_fallbacks_with_any_number_of_chunks_have_files_of_their_own(tmp_path: Path) -> None:
    text = program("run all_gather(pod.npus, size: 6MiB, chunks: auto)", 'emit msccl("s.xml")')
    collc.compile(text.replace(FAILURES, "failures any 1 of (gpus, nodes)"), output=tmp_path)
    plans = json.loads((tmp_path / "fallbacks.json").read_text())["schedules"][0]["plans"]
    files = [Path(file) for plan in plans for file in plan["files"]]
    assert len({*files}) == len(files) == 2 * len(plans) == 4
    assert all(file.parts[0] == "fallbacks" and (tmp_path / file).exists() for file in files)


def test_runs_of_groups_swap_their_files(tmp_path: Path) -> None:
    run = "for i in 0..2 { run all_gather(pod.gpu[*, i], size: 3MiB) }"
    collc.compile(f"{CLUSTER}schedule s on pod {{ {run} failures any gpu }}", output=tmp_path)
    (fallback,) = FallbackIndex(tmp_path / "fallbacks.json").find(["gpu[1, 1]"])
    assert [(each.run, each.file_run, each.new) for each in fallback.ranks] == [
        (0, 1, (1, 0, 2)),
        (1, 0, (0, None, 1)),
    ]


def test_a_demand_without_symmetry_has_a_class_for_each_failure(tmp_path: Path) -> None:
    text = f"{CLUSTER}schedule s on pod {{ run broadcast(pod.npus, size: 1MiB, root: 3) failures any gpu }}"
    collc.compile(text, output=tmp_path)
    data = json.loads((tmp_path / "fallbacks.json").read_text())
    reasons = [plan.get("reason", "") for plan in data["schedules"][0]["plans"]]
    assert len(reasons) == 4  # the root, the GPUs in its node, on its rail, and elsewhere
    assert [reason for reason in reasons if reason] == ["the root of broadcast is lost"]


def test_a_demand_that_no_symmetry_keeps(tmp_path: Path) -> None:
    run = "run send_recv(pod.npus, size: 1MiB, source: 0, target: 3) failures nic[0, *]"
    collc.compile(f"{CLUSTER}schedule s on pod {{ {run} }}", output=tmp_path)
    (fallback,) = FallbackIndex(tmp_path / "fallbacks.json").find(["nic[0, 1]"])
    assert fallback.plan == "s-without-nic-0-1"
    assert fallback.ranks[0].new == (0, 1, 2, 3, 4, 5)


def test_switches_that_are_alike_have_one_plan(tmp_path: Path) -> None:
    text = "import std.clusters\nimport std.collectives\ntopology t = dgx_h100(2, nvswitches: 2)\n"
    more = 'synthesize symmetric(link_model: "pipelined")'
    text += (
        f"schedule s on t {{ run all_gather(t.npus, size: 1MiB) failures any 1 of (nvswitches, nvlink_ports) {more} }}"
    )
    collc.compile(text, output=tmp_path)
    index = FallbackIndex(tmp_path / "fallbacks.json")
    assert [len(own["classes"]) for own in index.sets] == [2]
    (first,) = index.find(["nvswitch[1]"])
    assert (first.plan, first.ranks[0].in_order) == ("s-without-nvswitch-0", True)
