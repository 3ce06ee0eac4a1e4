"""`collc compile`: exit codes, output and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.command.cli import main

HEAD = "import std.topologies\nimport std.collectives\nimport std.algorithms\n"
LOOP = HEAD + "topology loop = ring(8, bandwidth: 50GiB/s, latency: 0.5us)\n"
STEP = 20_031_250
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def schedules(self):
        return json.loads(self.out)["schedules"]


@pytest.fixture
def collc(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*words: str, text: str | None = None) -> Outcome:
        if text is not None:
            Path("p.coll").write_text(text)
        code = main(list(words))
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run


def test_the_quickstart(collc) -> None:
    done = collc("compile", str(EXAMPLES / "quickstart.coll"), "-o", "out", "--json")
    (schedule,) = done.schedules
    assert done.code == 0
    assert {key: schedule[key] for key in ("npus", "devices", "links", "chunks", "steps", "time_ps", "bound_ps")} == {
        "npus": 9,
        "devices": 9,
        "links": 24,
        "chunks": 9,
        "steps": 4,
        "time_ps": 80_125_000,
        "bound_ps": 80_125_000,
    }
    assert (schedule["algorithm"], schedule["seed"], schedule["efficiency"]) == ("tacos", 7, 1.0)
    assert schedule["transfers"] == 9 * 8
    assert set(schedule["checks"].values()) == {"ok"}
    assert set(schedule["checks"]) == {
        *("causality", "congestion_free", "delivered", "reductions", "switches"),
        *("contract", "result", "deadlock", "race", "optimal"),
    }
    assert schedule["files"] == ["out/gather.xml"]
    assert collc("verify", "out/gather.xml", "--collective", "allgather").code == 0


def test_the_readme_shows_what_the_quickstart_prints(collc) -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    command, shown = readme.partition("```\n$ collc ")[2].partition("\n```")[0].split("\n", 1)
    program = readme.partition("```\n")[2].partition("```")[0]
    assert program == (EXAMPLES / "quickstart.coll").read_text()
    Path("examples").symlink_to(EXAMPLES)
    done = collc(*command.split())
    assert (done.out + done.err).rstrip("\n") == shown


def test_a_ring_by_hand_takes_seven_steps(collc) -> None:
    text = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 8MiB) using ring emit msccl }"
    (schedule,) = collc("compile", "p.coll", "--json", text=text).schedules
    assert (schedule["steps"], schedule["time_ps"], schedule["algorithm"]) == (7, 7 * STEP, "ring")
    assert Path("s.msccl").exists()


@pytest.mark.parametrize(("width", "height", "steps"), [(4, 2, 7), (3, 3, 32)])
def test_the_same_ring_on_a_mesh_follows_links_or_is_right_but_long(collc, width: int, height: int, steps: int) -> None:
    """An odd mesh has no cycle of links: each step takes the four links from the last corner to the first."""
    text = (
        HEAD
        + f"topology m = mesh2d({width}, {height}, bandwidth: 50GiB/s, latency: 0.5us)\n"
        + f"schedule s on m {{ run all_gather(m.npus, size: {width * height}MiB) using ring }}"
    )
    done = collc("compile", "p.coll", "--json", text=text)
    assert done.code == 0
    assert done.schedules[0]["steps"] == steps


DIRECT = "schedule s on loop { run all_gather(loop.npus, size: 8MiB) using direct %s emit msccl emit ten }"


def test_congestion_is_reported_and_nothing_is_written(collc) -> None:
    done = collc("compile", "p.coll", "-o", "out", "--json", text=LOOP + DIRECT % "")
    assert done.code == 4
    assert done.schedules[0]["checks"]["congestion_free"] == "failed"
    assert done.schedules[0]["files"] == []
    assert "npu[0] -> npu[1]" in done.err
    assert "0:x[0, 0]" in done.err
    assert "20.03125us" in done.err
    assert not Path("out").exists()


def test_congestion_can_be_allowed(collc) -> None:
    done = collc("compile", "p.coll", "--json", text=LOOP + DIRECT % "allow congestion")
    assert done.code == 0
    schedule = done.schedules[0]
    assert schedule["checks"]["congestion_free"] == "allowed"
    assert schedule["time_ps"] == 10 * 20_031_250  # each link carries ten messages, one after another
    assert schedule["efficiency"] == pytest.approx(4 / 10)
    assert "congestion: messages queue at 16 links" in " ".join(schedule["notes"])
    assert sorted(path.name for path in Path().glob("s.*")) == ["s.msccl", "s.ten"]


def test_existing_files_stay_after_a_failure(collc) -> None:
    Path("s.ten").write_text("precious")
    text = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 8MiB) using ring verify steps <= 6 emit ten }"
    done = collc("compile", "p.coll", "--json", text=text)
    assert done.code == 4
    assert done.schedules[0]["checks"]["steps"] == "failed"
    assert "7 is not <= 6" in done.err
    assert Path("s.ten").read_text() == "precious"
    assert sorted(path.name for path in Path().iterdir()) == ["p.coll", "s.ten"]


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        ("steps <= 7", "ok"),
        ("steps < 7", "failed"),
        ("time <= 140.21875us", "ok"),
        ("time <= 140us", "failed"),
        ("time <= 1.75 * bound", "ok"),
        ("time <= 1.7 * bound", "failed"),
        ("optimal", "failed"),
    ],
)
def test_verify_statements_are_checked(collc, check: str, outcome: str) -> None:
    text = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 8MiB) using ring verify @ }".replace("@", check)
    done = collc("compile", "p.coll", "--json", text=text)
    assert done.schedules[0]["checks"][check.partition(" ")[0]] == outcome
    assert done.code == (0 if outcome == "ok" else 4)


def test_all_schedules_are_tried_and_the_first_failure_counts(collc) -> None:
    text = LOOP + (DIRECT % "").replace("schedule s", "schedule bad") + DIRECT.replace("direct", "ring") % ""
    done = collc("compile", "p.coll", "--json", text=text)
    assert done.code == 4
    assert [schedule["name"] for schedule in done.schedules] == ["bad", "s"]
    assert done.schedules[1]["files"] == ["s.msccl", "s.ten"]
    assert collc("compile", "p.coll", "--schedule", "s").code == 0


def test_text_output_is_a_table_and_json_output_is_json(collc) -> None:
    text = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 8MiB) using ring }"
    done = collc("compile", "p.coll", text=text)
    assert "140.21875us" in done.out
    quiet = collc("compile", "p.coll", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_the_same_seed_gives_the_same_bytes(collc) -> None:
    text = LOOP.replace("ring(8", "ring(9") + (
        "schedule s on loop { run all_reduce(loop.npus, size: 9MiB)"
        " synthesize tacos(seed: 5, trials: 3) emit msccl emit ten }"
    )
    assert collc("compile", "p.coll", "-o", "a", text=text).code == 0
    assert collc("compile", "p.coll", "-o", "b", "--threads", "2").code == 0
    for name in ("s.msccl", "s.ten"):
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()


def test_a_ten_file_reads_back_and_is_checked(collc) -> None:
    text = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 8MiB) using ring emit ten }"
    assert collc("compile", "p.coll", text=text).code == 0
    assert collc("verify", "s.ten").code == 0
    assert collc("verify", "s.ten", "--program", "p.coll", "--schedule", "s").code == 0
    lines = Path("s.ten").read_text().splitlines()
    moved = [k for k, line in enumerate(lines) if "npu[3]" in line and "->" in line][-1]
    Path("s.ten").write_text("\n".join(lines[:moved] + lines[moved + 1 :]) + "\n")
    assert collc("verify", "s.ten").code in (1, 4)


def test_a_ten_file_has_the_link_model_that_its_program_states(collc) -> None:
    text = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 8MiB) synthesize tacos%s emit ten }"
    assert collc("compile", "p.coll", text=text % '(link_model: "pipelined")').code == 0
    assert collc("verify", "s.ten", "--program", "p.coll").code == 0
    other = collc("verify", "s.ten", "--program", "p.coll", text=text % '(link_model: "store")')
    assert (other.code, "V0106" in other.err) == (4, True)
    assert collc("verify", "s.ten", "--program", "p.coll", text=text % "").code == 0


def test_print_after_shows_the_module(collc) -> None:
    text = LOOP + "schedule s on loop { run reduce_scatter(loop.npus, size: 8MiB) synthesize tacos }"
    done = collc("compile", "p.coll", "--print-after", "invert", text=text)
    assert done.code == 0
    Path("shown.ten").write_text(done.out)
    assert collc("verify", "shown.ten").code == 0
    wrong = collc("compile", "p.coll", "--print-after", "inver")
    assert wrong.code == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("compile",), 2, "FILE.coll"),
        (("compile", "nowhere.coll"), 1, "nowhere.coll"),
        (("compile", "p.coll", "--trials", "0"), 2, "at least 1"),
        (("compile", "p.coll", "-D", "x"), 2, "name=value"),
        (("compile", "p.coll", "-D", "nodes=2"), 1, "nodes"),
        (("compile", "p.coll", "--schedule", "t"), 2, "'t'"),
        (("compile", "p.coll", "--emit", "tan"), 2, "did you mean 'ten'"),
        (("compile", "p.coll", "--passes", "tacos{"), 2, "pipeline cannot be read"),
        (("compile", "p.coll", "--passes", "verify"), 2, "without a schedule"),
        (("compile", "p.coll", "--algorithm", "takos"), 2, "did you mean 'tacos'"),
        (("compile", "p.coll", "--link-model", "magic"), 2, "magic"),
        (("verify", "nowhere.ten"), 2, "nowhere.ten"),
        (("verify", "p.coll"), 2, "p.coll is a program, and 'collc verify' takes"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_wrong_arguments_are_explained(collc, words: tuple[str, ...], code: int, message: str) -> None:
    text = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 8MiB) using ring }"
    done = collc(*words, text=text)
    assert done.code == code, done.err
    assert message in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


def test_an_error_in_json_is_json(collc) -> None:
    done = collc("compile", "p.coll", "--json", text="schedule s on nothing { }")
    answer = json.loads(done.out)
    assert done.code == 1
    assert answer["schedules"] == []
    assert answer["diagnostics"][0]["line"] == 1


def test_times_beyond_the_exact_floats(collc) -> None:
    """The bound of a path of 2.5 hours and more is exact."""
    text = HEAD + "topology t = mesh2d(4, 1, bandwidth: 1B/s, latency: 0.333335us)\n"
    text += "schedule s on t { run broadcast(t.npus, size: 30007B) synthesize pccl() verify optimal }"
    done = collc("compile", "p.coll", "--json", text=text)
    assert done.code == 0
    assert done.schedules[0]["time_ps"] == done.schedules[0]["bound_ps"] == 3 * (30_007 * 10**12 + 333_335)
