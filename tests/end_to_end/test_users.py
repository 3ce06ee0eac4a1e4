"""Unusual valid programs, and common mistakes: each ends with the right exit code and a helpful message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from collc.command.cli import main
from tests.end_to_end.programs import FILE_CHECKS, HEAD, LINK, assert_all_checks_ok, assert_file_ok, build

TACOS = "synthesize tacos(seed: 1)"
GATHER = f"run all_gather(t.npus, size: 4MiB) {TACOS}"
RING = f"ring(4, {LINK})"


def one(body: str, topology: str = RING, more: str = "") -> str:
    return HEAD + f"topology t = {topology}\n{more}\nschedule s on t {{ {body} }}\n"


class Outcome:
    def __init__(self, folder: Path, code: int, out: str, err: str) -> None:
        self.folder, self.code, self.out, self.err = folder, code, out, err
        assert code != 5, err
        assert "Traceback" not in err

    @property
    def files(self) -> list[str]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in found if path.suffix != ".coll")


@pytest.fixture
def collc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    monkeypatch.chdir(tmp_path)

    def run(text: str | bytes | None, *words: str, command: str = "compile", file: str = "p.coll") -> Outcome:
        if text is not None:
            Path(file).write_bytes(text if isinstance(text, bytes) else text.encode())
        code = main([command, file, *words])
        out, err = capsys.readouterr()
        return Outcome(tmp_path, code, out, err)

    return run


# ---- What is legal

UNEVEN = f"""topology t {{
    npu n[4]
    link n[0] -> n[1] ({LINK})
    link n[1] -> n[2] (bandwidth: 1GiB/s, latency: 30us)
    link n[2] -> n[3] (bandwidth: 7GB/s, latency: 3ns)
    link n[3] -> n[0] (bandwidth: 333Gb/s, latency: 1ps)
}}
"""

COLLECTIVES = {
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "all_reduce": "allreduce",
    "all_to_all": "alltoall",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "scatter": "scatter",
    "gather": "gather",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("synthesizer", ["tacos()", 'pccl(link_model: "pipelined")', 'tacos(link_model: "pipelined")'])
def test_links_that_all_differ(tmp_path: Path, synthesizer: str) -> None:
    text = HEAD + UNEVEN
    for name in COLLECTIVES:
        text += f"schedule {name}_s on t {{ run {name}(t.npus, size: 4MiB) synthesize {synthesizer} "
        text += "emit msccl emit ten }\n"
    for schedule in build(tmp_path, text):
        assert_all_checks_ok(schedule, *FILE_CHECKS)
        assert schedule.steps is None
        name = schedule.name.removesuffix("_s")
        assert_file_ok(
            schedule.files[0], COLLECTIVES[name], 0 if name in ("broadcast", "reduce", "scatter", "gather") else None
        )
        assert main(["verify", str(schedule.files[1])]) == 0


@pytest.mark.parametrize("size", ["4B", "4TiB"])
def test_very_small_and_very_large_chunks(tmp_path: Path, size: str) -> None:
    text = one(f"run all_gather(t.npus, size: {size}) {TACOS} emit msccl emit ten")
    (schedule,) = build(tmp_path, text)
    assert_all_checks_ok(schedule, *FILE_CHECKS)
    assert schedule.steps == 2
    assert_file_ok(schedule.files[0], "allgather")


def test_one_npu_has_nothing_to_do(tmp_path: Path) -> None:
    """A network of one NPU has no links, and its files are valid."""
    text = HEAD + f"topology t = ring(1, {LINK})\n"
    for name in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast"):
        text += f"schedule {name}_s on t {{ run {name}(t.npus, size: 4MiB) {TACOS} emit msccl emit ten }}\n"
    text += "schedule hand on t { run all_reduce(t.npus, size: 4MiB) using ring emit msccl emit ten }\n"
    for schedule in build(tmp_path, text):
        assert (schedule.time_ps, schedule.bound_ps, len(schedule.transfers()), schedule.efficiency) == (0, 0, 0, 1.0)
        assert_all_checks_ok(schedule, *FILE_CHECKS)
        assert_file_ok(schedule.files[0], COLLECTIVES.get(schedule.name.removesuffix("_s"), "allreduce"))
        assert main(["verify", str(schedule.files[1])]) == 0


def test_a_group_of_one_among_others(tmp_path: Path) -> None:
    text = one(f"run all_reduce(g, size: 4MiB) {TACOS} emit ten", more="group g = t.npu[2..3]")
    (schedule,) = build(tmp_path, text)
    assert (schedule.time_ps, len(schedule.transfers())) == (0, 0)


def test_ranks_are_those_of_the_remaining_npus(tmp_path: Path) -> None:
    topology = f"mesh2d(4, 2, {LINK}) without {{ npu 0, link 2 <-> 1 }}"
    (schedule,) = build(tmp_path, one(f"run all_reduce(t.npus, size: 7MiB) {TACOS} emit msccl", topology))
    assert_all_checks_ok(schedule, *FILE_CHECKS)
    assert schedule.npus == 7
    assert 'ngpus="7"' in schedule.files[0].read_text()
    assert_file_ok(schedule.files[0], "allreduce")


def test_runs_by_hand_and_synthesized_together(tmp_path: Path) -> None:
    hand = "run all_gather(t.npus, size: 4MiB) using ring run all_reduce(t.npus, size: 4MiB)"
    (schedule,) = build(tmp_path, one(f"{hand} {TACOS} emit ten"))
    assert_all_checks_ok(schedule)
    assert schedule.synthesizer == "ring+tacos"


def test_files_in_folders_and_with_odd_names(collc: Callable[..., Outcome]) -> None:
    text = one(f'{GATHER} emit ten("größe 数/a b.ten") emit msccl("x/y/z")')
    assert collc(text, "-o", "out/deep").files == ["out/deep/größe 数/a b.ten", "out/deep/x/y/z"]


@pytest.mark.parametrize("change", [lambda t: t.replace("\n", "\r\n"), lambda t: t + "# the end, and no line end"])
def test_line_ends(collc: Callable[..., Outcome], change: Callable[[str], str]) -> None:
    done = collc(change("# first\n" + one(GATHER + " emit ten")))
    assert (done.code, done.files) == (0, ["s.ten"])


def test_a_file_in_a_folder_imports_its_neighbours(collc: Callable[..., Outcome]) -> None:
    Path("lib").mkdir()
    Path("lib/a.coll").write_text('import "b.coll"\ntopology t = mine(4)\n')
    Path("lib/b.coll").write_text(
        f"import std.topologies\ntopology mine(n: int) {{ use ring(n, {LINK}) as r }}\n",
    )
    done = collc(f'import "lib/a.coll"\nimport std.collectives\nschedule s on t {{ {GATHER} emit ten }}')
    assert (done.code, done.files) == (0, ["s.ten"])


def test_sixty_schedules(collc: Callable[..., Outcome]) -> None:
    text = HEAD + f"topology t = ring(2, {LINK})\n"
    text += "".join(f"schedule s{i} on t {{ run all_gather(t.npus, size: 2MiB) {TACOS} }}\n" for i in range(60))
    done = collc(text, "--json")
    assert done.code == 0
    assert [s["name"] for s in json.loads(done.out)["schedules"]] == [f"s{i}" for i in range(60)]


@pytest.mark.parametrize(
    "pipeline",
    [
        "tacos,invert",
        "tacos{seed=7 trials=2},invert,verify",
        "fixed,tacos,invert,verify",
        "pccl,invert,invert,verify,verify",
    ],
)
def test_pipelines(collc: Callable[..., Outcome], pipeline: str) -> None:
    done = collc(one("run all_reduce(t.npus, size: 4MiB) emit ten emit msccl"), "--passes", pipeline)
    assert (done.code, done.files) == (0, ["s.msccl", "s.ten"])


# ---- What is wrong

GROUP = "group g = t.npu[0, *]"
SQUARE = f"mesh2d(2, 2, {LINK})"
SLOW = "ring(16, bandwidth: 1B/s, latency: 1s)"

WRONG: dict[str, tuple[str, tuple[str, ...], int, list[str]]] = {
    "msccl for a part": (
        one(f"run all_gather(g, size: 4MiB) {TACOS} emit msccl", f"line(3, {LINK})", "group g = [t[0], t[2]]"),
        (),
        1,
        ["p.coll:7:", "only NPUs outside the group of run 0 lead from npu[0] to npu[2]", 'coll: "custom"'],
    ),
    "msccl by hand for a part": (
        one("run all_gather(g, size: 4MiB) using ring emit msccl", f"line(3, {LINK})", "group g = [t[0], t[2]]"),
        (),
        1,
        ["p.coll:7:", "only NPUs outside"],
    ),
    "joint file for the executor": (
        one(f'run all_gather(t.npus, size: 4MiB) {TACOS} emit msccl(coll: "custom")'),
        (),
        1,
        ["p.coll:7:", "only the old runtime has the collective 'custom'"],
    ),
    "sizes without a common slot": (
        one(
            f'run odd(t.npus) {TACOS} emit msccl(profile: "old")',
            more="collective odd(n: group) { chunk a: 1000001B pre a at n[0] post a at n[1] "
            "chunk b: 999999B pre b at n[0] post b at n[1] }",
        ),
        (),
        1,
        ["common divisor"],
    ),
    "unreachable": (
        one(f"run all_gather(t.npus, size: 4MiB) {TACOS} emit ten", f"line(4, {LINK}) without {{ link 1 -> 2 }}"),
        (),
        3,
        ["can't get to npu[2]", "no link leads from {npu[0], npu[1]} to another device"],
    ),
    "unreachable by hand": (
        one("run all_gather(t.npus, size: 4MiB) using ring emit ten", f"line(4, {LINK}) without {{ link 1 -> 2 }}"),
        (),
        3,
        ["can't get to npu[2]"],
    ),
    "13 days": (one("run all_gather(t.npus, size: 16MiB) emit ten", SLOW), (), 1, ["longer than 13 days", "units"]),
    "13 days, one chunk": (
        one(f"run all_gather(t.npus, size: 4096PiB) {TACOS} emit ten"),
        (),
        1,
        ["longer than 13 days", "p.coll:7:"],
    ),
    "13 days, by hand": (
        one("run all_reduce(t.npus, size: 64MiB) using ring emit ten", "ring(64, bandwidth: 1B/s, latency: 1s)"),
        (),
        1,
        ["longer than 13 days"],
    ),
    "nothing by hand": (one(f"{GATHER} emit ten"), ("--passes", "fixed"), 2, ["only 0 of the 1 runs"]),
    "something by hand": (
        one(f"run all_gather(t.npus, size: 4MiB) using ring {GATHER} emit ten"),
        ("--passes", "fixed,verify"),
        2,
        ["only 1 of the 2 runs", "synthesize the others"],
    ),
    "not inverted": (one(f"{GATHER} emit ten"), ("--passes", "fixed,tacos"), 2, ["without a schedule", "invert"]),
    "no synthesizer": (
        one(f"{GATHER} emit ten"),
        ("--algorithm", "fixed"),
        2,
        ["no synthesizer named 'fixed'", "tacos"],
    ),
    "seed below 0": (one(f"{GATHER} emit ten"), ("--seed", "-1"), 2, ["--seed"]),
    "seed of a pass below 0": (one(f"{GATHER} emit ten"), ("--passes", "pccl{seed=-3},invert"), 2, ["at least 0"]),
    "trials of a pass": (one(f"{GATHER} emit ten"), ("--passes", "pccl{trials=0},invert"), 2, ["at least 1"]),
    "not enough time": (
        one("run all_gather(t.npus, size: 4MiB) synthesize exact(steps: 2) emit ten"),
        ("--time-limit", "0.000001"),
        3,
        ["within 1e-06 s"],
    ),
    "too many steps": (
        one(f"{GATHER} verify steps <= 1 emit ten"),
        (),
        4,
        ["p.coll:7:", "2 is not <= 1", "no schedule can take less"],
    ),
    "out of the folder": (one(f'{GATHER} emit ten("../a.ten")'), (), 1, ["../a.ten", "p.coll:7:"]),
    "one name twice": (one(f'{GATHER} emit ten("a") emit msccl("./a")'), (), 1, ["two files are called", "p.coll:7:"]),
    "one name in two schedules": (
        one(f'{GATHER} emit ten("a")') + f'schedule u on t {{ {GATHER} emit ten("a") }}',
        (),
        1,
        ["two files are called a", "p.coll:8:", "p.coll:7:"],
    ),
    "the program itself": (one(f'{GATHER} emit ten("p.coll")'), (), 1, ["would overwrite the program"]),
    "a byte order mark": ("\ufeff" + one(GATHER), (), 1, ["byte order mark"]),
    "a hundred thousand levels": (one(f"run all_gather(t.npus, size: {'(' * 10**5}4MiB)"), (), 1, ["p.coll:7:"]),
    "a link to itself": (HEAD + f"topology t {{ npu n[2] link n[0] -> n[0] ({LINK}) }}", (), 1, ["to itself"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes(collc: Callable[..., Outcome], name: str) -> None:
    text, words, code, message = WRONG[name]
    done = collc(text, *words)
    assert done.code == code, done.err
    assert done.files == []
    for part in message:
        assert part in done.err
    assert Path("p.coll").read_text() == text


def test_more_parallel_links_than_channels(collc: Callable[..., Outcome]) -> None:
    """50 links share 32 channels, and the user learns what that costs."""
    done = collc(
        HEAD
        + f"topology t {{ npu n[2] for i in 0..50 {{ link n[0] <-> n[1] ({LINK}) }} }}\n"
        + f"schedule s on t {{ run all_gather(t.npus, size: 100MiB, chunks: 50) {TACOS} emit msccl }}"
    )
    assert done.code == 0
    assert "32 channels" in done.err
    assert "takes 100 % longer than its schedule" in done.err


@pytest.mark.parametrize(("text", "message"), [("# größe".encode("latin-1"), "UTF-8"), (b"\xff\xfea\0", "UTF-8")])
def test_files_that_are_not_text_are_refused(collc: Callable[..., Outcome], text: bytes, message: str) -> None:
    done = collc(text)
    assert done.code == 1
    assert message in done.err


@pytest.mark.parametrize("file", [".", "/dev/null", "a/b.coll", "x" * 300, "p.coll/q"])
@pytest.mark.parametrize("command", ["compile", "check", "verify", "run", "inspect", "fmt"])
def test_paths_that_are_not_files_are_refused(collc: Callable[..., Outcome], command: str, file: str) -> None:
    Path("p.coll").write_text(one(GATHER))
    done = collc(None, command=command, file=file)
    assert done.code in (1, 2, 4)
    assert "error" in done.err


@pytest.mark.parametrize("output", ["f", "f/g"])
def test_a_file_where_a_folder_should_be(collc: Callable[..., Outcome], output: str) -> None:
    Path("f").write_text("precious")
    done = collc(one(GATHER + " emit ten"), "-o", output)
    assert done.code == 2
    assert "cannot write" in done.err
    assert "f is a file, not a folder" in done.err
    assert "choose another output folder" in done.err
    assert Path("f").read_text() == "precious"


def test_a_good_schedule_beside_a_bad_one(collc: Callable[..., Outcome]) -> None:
    bad = f"schedule bad on t {{ {GATHER} verify steps <= 1 emit ten }}\n"
    good = f'schedule good on t {{ {GATHER} emit ten("x/y.ten") }}\n'
    done = collc(HEAD + f"topology t = {RING}\n" + bad + good, "--json", "-o", "out")
    assert (done.code, done.files) == (4, ["out/x/y.ten"])
    assert [s["files"] for s in json.loads(done.out)["schedules"]] == [[], ["out/x/y.ten"]]


def test_a_schedule_of_another_network(collc: Callable[..., Outcome]) -> None:
    """Links are compared by name, so that a network with equal numbers for other links is not accepted."""
    text = one(GATHER + " emit ten") + f"topology line4 = line(4, {LINK})\nschedule other on line4 {{ {GATHER} }}\n"
    text = text.replace("on line4 { run all_gather(t.npus", "on line4 { run all_gather(line4.npus")
    assert collc(text).code == 0
    good = collc(None, "--program", "p.coll", "--schedule", "s", command="verify", file="s.ten")
    assert good.code == 0
    wrong = collc(None, "--program", "p.coll", "--schedule", "other", command="verify", file="s.ten")
    assert wrong.code == 4
    assert "are not those of 'line4'" in wrong.err
    assert "the file has npu[0] -> npu[3], not" in wrong.err or "the file has 8 links" in wrong.err


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + "/a", "a/" + "x" * 300])
def test_names_that_are_too_long_are_refused(collc: Callable[..., Outcome], name: str) -> None:
    done = collc(one(f'{GATHER} emit ten("{name}")'))
    assert done.code in (1, 2)
    assert "File name too long" in done.err
    assert done.files == []
