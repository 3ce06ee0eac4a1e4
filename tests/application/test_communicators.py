"""A file for each run: its ranks are the members of the run's group."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from collc.application.compile.compilation import compile_program
from collc.application.compile.compile_report import ScheduleReport
from collc.application.settings import Settings
from collc.application.verify.file_verification import Expectation, verify_file
from collc.base.diagnostics import CheckFailed
from collc.emit.output import names_of_ranks, ranks_name, run_name
from collc.graph.digraph import Digraph, reachable_vertices
from collc.msccl.communicators import for_one_run

HEAD = "import std.topologies\nimport std.collectives\nimport std.algorithms\n"
LINK = "bandwidth: 50GiB/s, latency: 0.5us"


def compiled(folder: Path, text: str, synthesizer: str | None = None) -> ScheduleReport:
    program = folder / "p.coll"
    program.write_text(HEAD + text)
    settings = Settings(output=folder, synthesizer=synthesizer, keep_modules=True)
    (report,) = compile_program(program, settings)
    return report


def on_mesh(body: str, rows: int = 2, columns: int = 3) -> str:
    return f"topology t = mesh2d({rows}, {columns}, {LINK})\nschedule s on t {{ {body} }}\n"


def peers(file: Path) -> set[tuple[int, int]]:
    """(sender, receiver) of all connections of an MSCCL file, in ranks."""
    found: set[tuple[int, int]] = set()
    for gpu in re.findall(r'<gpu id="(\d+)".*?</gpu>', file.read_text(), re.DOTALL):
        block = file.read_text().split(f'<gpu id="{gpu}"')[1].split("</gpu>")[0]
        found |= {(int(gpu), int(peer)) for peer in re.findall(r'send="(\d+)"', block)}
    return found


def assert_links_of_the_group(report: ScheduleReport, file: Path, run: int, names: list[str]) -> None:
    """Every connection of the file leads over a link, or over switches, from the one NPU to the other."""
    network = report.kept_module().network
    number = {network.device_name(npu): npu for npu in range(network.npu_count)}
    npus = [number[name] for name in names]
    assert npus == report.kept_module().demand.runs[run].group.tolist()
    for sender, receiver in peers(file):
        two = for_one_run(network, report.kept_module().demand.runs[run].group[[sender, receiver]])
        assert reachable_vertices(Digraph.of(two), [npus[sender]])[npus[receiver]], (names[sender], names[receiver])


def test_the_ranks_of_a_permuted_group(tmp_path: Path) -> None:
    """A ring over a snake through a mesh: rank r sends to its two neighbours on the snake only."""
    snake = "group g = [t.npu[0, 0], t.npu[0, 1], t.npu[0, 2], t.npu[1, 2], t.npu[1, 1], t.npu[1, 0]]\n"
    topology = f"topology t = mesh2d(3, 2, {LINK})\n"
    report = compiled(
        tmp_path,
        topology
        + snake
        + 'schedule s on t { run all_gather(g, size: 6MiB) using ring emit report("s.html") emit msccl("s.xml") }',
    )
    assert report.ok, report.diagnostics
    names = json.loads((tmp_path / "s.ranks.json").read_text())["runs"][0]["ranks"]
    assert names == [f"npu[0, {k}]" for k in (0, 1, 2)] + [f"npu[1, {k}]" for k in (2, 1, 0)]
    assert peers(tmp_path / "s.xml") <= {(a, b) for a in range(6) for b in ((a + 1) % 6, (a - 1) % 6)}
    assert_links_of_the_group(report, tmp_path / "s.xml", 0, names)
    assert any(note.startswith("rank 0 is npu[0, 0], 1 is npu[0, 1], 2 is npu[0, 2], 3 is") for note in report.notes)
    assert report.as_json()["ranks"] == [{"run": 0, "collective": "all_gather", "ranks": names}]
    page = (tmp_path / "s.html").read_text()
    assert "Ranks of the files for runtimes" in page
    assert "rank 0 is npu[0, 0]" in page
    assert f"<td>{', '.join(names)}</td>" in page


TWO = """
run all_gather(t.npu[*, 0], size: 3MiB)
run all_reduce(t.npu[*, 1], size: 6MiB)
"""


def test_concurrent_runs_become_a_file_each(tmp_path: Path) -> None:
    report = compiled(tmp_path, on_mesh(TWO + 'emit msccl("a.xml") emit mscclpp("a.json") emit msccl_stages("a.txt")'))
    assert report.ok, report.diagnostics
    assert set(report.checks.values()) == {"ok"}
    written = {path.name for path in report.files}
    assert written == {"a.0.xml", "a.1.xml", "a.0.json", "a.1.json", "a.ranks.json", "a.txt"}
    assert ['coll="allgather"' in (tmp_path / "a.0.xml").read_text(), 'ngpus="2"' in (tmp_path / "a.0.xml").read_text()]
    runs = json.loads((tmp_path / "a.ranks.json").read_text())["runs"]
    assert [run["run"] for run in runs] == [0, 1]
    assert [run["collective"] for run in runs] == ["all_gather", "all_reduce"]
    for run in runs:
        assert_links_of_the_group(report, tmp_path / f"a.{run['run']}.xml", run["run"], run["ranks"])
    assert any("shared as planned if the collectives start together" in note for note in report.notes)
    plans = [json.loads((tmp_path / f"a.{k}.json").read_text()) for k in (0, 1)]
    assert plans[0]["name"] != plans[1]["name"]  # MSCCL++ keeps contexts by name
    assert "# run 1" in (tmp_path / "a.txt").read_text()


def test_names_with_the_number_of_the_run(tmp_path: Path) -> None:
    report = compiled(tmp_path, on_mesh(TWO + 'emit msccl("x-{run}.xml", profile: "old")'))
    names = {path.name for path in report.files}
    assert names == {"x-0.out.xml", "x-0.in.xml", "x-1.out.xml", "x-1.in.xml", "x.ranks.json"}


@pytest.mark.parametrize("name", ["x-{run}.xml", "{run}-a.xml", "a{run}-b2.xml", "{run}.xml", "a.xml"])
def test_the_file_of_ranks_is_found_from_the_name_of_a_program(tmp_path: Path, name: str) -> None:
    compiled(tmp_path, on_mesh(TWO + f'emit msccl("{name}")'))
    (ranks,) = tmp_path.glob("*.ranks.json")
    for run in json.loads(ranks.read_text())["runs"]:
        path = tmp_path / run_name(name, run["run"], several=True)
        assert names_of_ranks(path, len(run["ranks"])) == tuple(run["ranks"])


@pytest.mark.parametrize(
    ("name", "ranks"), [("a.xml", "a"), ("a-{run}.xml", "a"), ("a-{run}-b.xml", "a-b"), ("{run}.xml", "runs")]
)
def test_names_of_the_files_of_ranks(name: str, ranks: str) -> None:
    assert ranks_name(f"d/{name}") == f"d/{ranks}.ranks.json"


def test_files_that_fit_the_same_calls_are_named(tmp_path: Path) -> None:
    body = 'run all_reduce(t.npu[*, 0], size: 6MiB) run all_reduce(t.npu[*, 1], size: 6MiB) emit msccl("b.xml")'
    report = compiled(tmp_path, on_mesh(body))
    assert any("b.0.xml, b.1.xml fit the same calls (all_reduce of" in note for note in report.notes)


def test_remarks_on_several_files_are_made_once(tmp_path: Path) -> None:
    body = "".join(f"run all_gather(t.npu[*, {k}], size: 6MiB) " for k in range(4)) + 'emit msccl("b.xml")'
    report = compiled(tmp_path, on_mesh(body, 4, 2))
    assert sum(note.startswith("b.0.xml .. b.3.xml (4): MSCCL: ") for note in report.notes) == 1
    assert "b.ranks.json says which NPU is which rank of each file" in report.notes
    assert not any(" is npu[" in note for note in report.notes)


def test_one_joint_file_on_request(tmp_path: Path) -> None:
    report = compiled(tmp_path, on_mesh(TWO + 'emit msccl("j.xml", profile: "old", coll: "custom")'))
    assert [path.name for path in report.files] == ["j.xml", "j.ranks.json"]
    (ranks,) = json.loads((tmp_path / "j.ranks.json").read_text())["runs"]
    assert (ranks["collective"], len(ranks["ranks"])) == ("custom", 6)
    text = (tmp_path / "j.xml").read_text()
    assert 'coll="custom"' in text
    assert 'ngpus="6"' in text


@pytest.mark.parametrize("first", ["msccl", "mscclpp"])
def test_a_joint_file_beside_others_is_over_all_npus(tmp_path: Path, first: str) -> None:
    """The files of runs are planned without the third NPU, which no group has; the joint file has a rank for it."""
    runs = "run all_gather([t[0], t[1]], size: 2MiB) run all_gather([t[3], t[4]], size: 2MiB)"
    suffix, old = ("xml", 'profile: "old", ') if first == "msccl" else ("json", "")
    joint = f'emit {first}("j.{suffix}", {old}coll: "custom")'
    report = compiled(tmp_path, f"topology t = line(5, {LINK})\nschedule s on t {{ {runs} emit {first} {joint} }}")
    assert report.ok, report.diagnostics
    text = (tmp_path / f"j.{suffix}").read_text()
    assert ('ngpus="5"' in text) if first == "msccl" else len(json.loads(text)["gpus"]) == 5
    (ranks,) = json.loads((tmp_path / "j.ranks.json").read_text())["runs"]
    assert ranks["ranks"] == [f"npu[{k}]" for k in range(5)]
    program = tmp_path / "p.coll"
    program.write_text(HEAD + f"topology t = line(5, {LINK})\nschedule s on t {{ {runs} }}")
    against = Expectation(program=program, schedule="s", profile="old")
    assert verify_file(tmp_path / f"j.{suffix}", against).checks["result"] == "ok"


def test_more_files_than_the_old_runtime_loads(tmp_path: Path) -> None:
    """Three runs, each with a file for each placement."""
    runs = " ".join(f"run all_gather([t[{2 * k}], t[{2 * k + 1}]], size: 2MiB)" for k in range(3))
    text = f'topology t = line(6, {LINK})\nschedule s on t {{ {runs} emit msccl("a.xml", profile: "old") }}'
    report = compiled(tmp_path, text)
    assert len([path for path in report.files if path.suffix == ".xml"]) == 6
    note = "6 files: this runtime loads the first 4 that MSCCL_XML_FILES names, and ignores the others"
    assert note in report.notes
    two = compiled(tmp_path, text.replace(runs, "run all_gather(t.npus, size: 6MiB)"))
    assert not any("MSCCL_XML_FILES" in remark for remark in two.notes)


@pytest.mark.parametrize("placement", ["out", "in", "both"])
def test_rooted_files_for_one_placement_have_a_caution(tmp_path: Path, placement: str) -> None:
    """Each rank decides by its own pointers whether a call is in place, so that ranks may take different programs."""
    text = f'schedule s on t {{ run broadcast(t.npus, size: 2MiB) emit msccl("b.xml", placement: "{placement}") }}'
    report = compiled(tmp_path, LINE + text)
    assert report.ok, report.diagnostics
    caution = [note for note in report.notes if "the call hangs" in note]
    assert len(caution) == (placement != "both")


@pytest.mark.parametrize(("name", "profile"), [("a.0.xml", "executor"), ("a.1.json", "executor"), ("j.xml", "old")])
def test_files_of_runs_against_their_program(tmp_path: Path, name: str, profile: str) -> None:
    emits = 'emit msccl("a.xml") emit mscclpp("a.json") emit msccl("j.xml", profile: "old", coll: "custom")'
    wrong = "schedule other on t { run all_to_all(t.npus, size: 6MiB) }"
    compiled(tmp_path, on_mesh(TWO + emits))
    both = tmp_path / "both.coll"
    both.write_text(HEAD + on_mesh(TWO + emits) + wrong)
    against = Expectation(program=both, schedule="s", profile=profile)  # type: ignore[arg-type]
    assert verify_file(tmp_path / name, against).checks["result"] == "ok"
    against = Expectation(program=both, schedule="other", profile=profile)  # type: ignore[arg-type]
    if name == "j.xml":
        assert verify_file(tmp_path / name, against).checks["result"] == "failed"
        return
    with pytest.raises(CheckFailed) as caught:
        verify_file(tmp_path / name, against)
    assert caught.value.diagnostics[0].code == "V0108"


LINE = f"topology t = line(3, {LINK})\n"


@pytest.mark.parametrize("kind", ["msccl", "mscclpp", "msccl_stages"])
def test_paths_over_others_only_are_an_error_before_synthesis(tmp_path: Path, kind: str) -> None:
    report = compiled(tmp_path, LINE + f"schedule s on t {{ run all_gather([t[0], t[2]], size: 2MiB) emit {kind} }}")
    assert [message.code for message in report.diagnostics] == ["M0115"]
    assert report.transfer_count is None
    assert report.diagnostics[0].span is not None


def test_npus_outside_are_relays_in_a_joint_file_only(tmp_path: Path) -> None:
    run = "run all_gather([t[0], t[2]], size: 2MiB)"
    report = compiled(
        tmp_path, LINE + f'schedule s on t {{ {run} emit msccl("f.xml", profile: "old", coll: "custom") }}'
    )
    assert report.ok
    assert 'ngpus="3"' in (tmp_path / "f.xml").read_text()


def test_algorithms_by_hand_that_leave_their_group(tmp_path: Path) -> None:
    """The shortest path from 0 to 2 leads over 1, which is not in the group."""
    text = f"""
topology t = ring(4, {LINK})
algorithm direct(g: group, size: bytes, chunks: int = 1) implements all_gather(g, size, chunks) {{
    for i in 0..len(g), j in 0..len(g) if i != j {{ send x[i, 0] from g[i] to g[j] }}
}}
schedule s on t {{ run all_gather([t[0], t[2], t[3]], size: 3MiB) using direct allow congestion emit msccl }}
"""
    report = compiled(tmp_path, text)
    assert [message.code for message in report.diagnostics if not message.warning] == ["M0114"], report.diagnostics
    assert report.files == ()


@pytest.mark.parametrize("synthesizer", ["auto", "pccl", "swarm", "tacos"])
def test_no_chunk_is_relayed_by_another_group(tmp_path: Path, synthesizer: str) -> None:
    """The short way from 2 to 0 leads over 1, which only the other run may use."""
    text = """
topology t = ring(6, bandwidth: 50GiB/s, latency: 0.5us)
schedule s on t {
    run all_to_all([t[0], t[1], t[2]], size: 3MiB)
    run all_gather([t[2], t[3], t[4], t[5], t[0]], size: 5MiB)
    emit msccl("r.xml")
}
"""
    report = compiled(tmp_path, text, synthesizer)
    assert report.ok, report.diagnostics
    for run in json.loads((tmp_path / "r.ranks.json").read_text())["runs"]:
        assert_links_of_the_group(report, tmp_path / f"r.{run['run']}.xml", run["run"], run["ranks"])


@pytest.mark.parametrize("groups", [("0, 1", "3, 4"), ("0, 1, 2", "2, 3, 4, 5, 0")])
def test_planned_runs_beside_one_by_hand_stay_inside_their_groups(tmp_path: Path, groups: tuple[str, str]) -> None:
    """Idle NPUs, and the group of the run by hand, would be shorter ways or more links."""
    first, second = (", ".join(f"t[{k}]" for k in group.split(", ")) for group in groups)
    text = f"""
topology t = ring(6, {LINK})
algorithm by_hand(g: group, size: bytes, chunks: int = 1) implements all_gather(g, size, chunks) {{
    for i in 0..len(g), j in i..len(g) - 1 {{ send x[i, 0] from g[j] to g[j + 1] }}
    for i in 0..len(g), k in 0..i {{ send x[i, 0] from g[i - k] to g[i - k - 1] }}
}}
schedule s on t {{
    run all_gather([{first}], size: 6MiB) using by_hand
    run all_gather([{second}], size: 10MiB, chunks: 4)
    emit msccl("r.xml")
}}
"""
    report = compiled(tmp_path, text)
    assert report.ok, report.diagnostics
    for run in json.loads((tmp_path / "r.ranks.json").read_text())["runs"]:
        assert_links_of_the_group(report, tmp_path / f"r.{run['run']}.xml", run["run"], run["ranks"])


def random_program(seed: int) -> str:
    """One to three runs over random groups of a random network; each group is linked within itself or by switches."""
    draw = random.Random(seed)
    network, size = draw.choice(
        [("ring(6, {l})", 6), ("mesh2d(2, 3, {l})", 6), ("switched(6, {l})", 6), ("fully_connected(5, {l})", 5)]
    )
    kinds = ["all_gather", "all_reduce", "reduce_scatter", "all_to_all", "broadcast"]
    runs: list[str] = []
    for _ in range(draw.randint(1, 3)):
        members = draw.sample(range(size), draw.randint(2, size))
        kind = draw.choice(kinds)
        root = ", root: 1" if kind == "broadcast" else ""
        runs.append(
            f"run {kind}([{', '.join(f't.npus[{m}]' for m in members)}], size: {draw.choice([60, 120])}KiB{root})"
        )
    return f"topology t = {network.format(l=LINK)}\nschedule s on t {{ {' '.join(runs)} emit msccl emit mscclpp }}"


def assert_right_or_foreseen(seed: int, folder: Path) -> str:
    report = compiled(folder, random_program(seed))
    if not report.ok:
        assert [message.code for message in report.diagnostics] == ["M0115"], (seed, report.diagnostics)
        return "foreseen"
    assert set(report.checks.values()) == {"ok"}, seed
    ranks = folder / "s.ranks.json"
    if ranks.exists():
        runs = json.loads(ranks.read_text())["runs"]
        for run in runs:
            name = f"s.{run['run']}.msccl" if len(report.kept_module().demand.runs) > 1 else "s.msccl"
            assert_links_of_the_group(report, folder / name, run["run"], run["ranks"])
        ranks.unlink()
    return "right"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_random_groups(tmp_path: Path, seed: int) -> None:
    assert_right_or_foreseen(seed, tmp_path)


@pytest.mark.slow
def test_many_random_groups(tmp_path: Path) -> None:
    seen = [assert_right_or_foreseen(seed, tmp_path) for seed in range(100, 150)]
    assert min(seen.count("right"), seen.count("foreseen")) > 10
