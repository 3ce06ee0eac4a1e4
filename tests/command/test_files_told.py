"""What `verify`, `run` and `inspect` say of files: their kind, what was not checked and why, what is absurdly large."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from collc.command.cli import main

HEAD = """
import std.topologies
import std.collectives
topology t = mesh2d(3, 3, bandwidth: 50GiB/s, latency: 0.5us)
"""
MIX = (
    HEAD
    + """schedule mix on t {
    run all_gather(t.npu[0, *], size: 3MiB)
    run all_reduce(t.npu[*, 0], size: 3MiB)
    emit msccl("mix.xml", profile: "old")
}"""
)
GATHER = (
    HEAD + 'schedule s on t { run all_gather(t.npus, size: 9MiB) emit ten emit msccl("s.xml") emit mscclpp("s.json") }'
)
MAXIMUM = (
    HEAD
    + 'schedule m on t { run reduce_scatter(t.npus, size: 9MiB, op: "max") emit msccl("m.xml") emit mscclpp("m.json") }'
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of the programs above, by name."""
    folder = tmp_path_factory.mktemp("made")
    texts: dict[str, str] = {}
    for number, text in enumerate((MIX, GATHER, MAXIMUM)):
        (folder / f"{number}.coll").write_text(text)
        assert main(["compile", str(folder / f"{number}.coll"), "-o", str(folder), "--quiet"]) == 0
    texts |= {path.name: path.read_text() for path in folder.iterdir()}
    return texts


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: dict[str, str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in made.items():
        Path(name).write_text(text)


class Said:
    """What a command says as JSON, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        self.code = main([*words, "--json"])
        self.answer = json.loads(capsys.readouterr().out)
        self.messages = self.answer["diagnostics"]
        self.codes = [message["code"] for message in self.messages]


def in_text(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main([*words])
    said = capsys.readouterr()
    return code, said.out, said.err


# The reduction of a run


@pytest.mark.parametrize(("words", "op"), [((), "max"), (("--op", "sum"), "sum"), (("--op", "min"), "min")])
def test_a_file_is_run_with_its_own_reduction(capsys: pytest.CaptureFixture[str], words: tuple[str], op: str) -> None:
    said = Said(capsys, "run", "m.xml", "--dtype", "int32", "--count", "5", *words)
    assert said.code == 0
    assert {(run["op"], run["dtype"], run["count"]) for run in said.answer["runs"]} == {(op, "int32", 5)}


def test_the_table_of_runs_says_reduction_type_and_count(capsys: pytest.CaptureFixture[str]) -> None:
    _, shown, _ = in_text(capsys, "run", "m.xml", "--count", "7")
    assert re.search(r"out of place +0 +float32 +max +7 ", shown)
    _, shown, _ = in_text(capsys, "run", "s.xml", "--count", "7")
    assert re.search(r"out of place +0 +float32 +- +7 ", shown)
    _, shown, _ = in_text(capsys, "run", "m.json", "--op", "max", "--count", "7")
    assert re.search(r"out of place +0 +float32 +max +7 ", shown)


def test_a_file_without_or_with_another_reduction(capsys: pytest.CaptureFixture[str], made: dict[str, str]) -> None:
    Path("none.xml").write_text(made["m.xml"].replace(' redop="max"', ""))
    assert Said(capsys, "run", "none.xml").answer["runs"][0]["op"] == "sum"
    Path("other.xml").write_text(made["m.xml"].replace('redop="max"', 'redop="avg"'))
    said = Said(capsys, "run", "other.xml")
    assert (said.code, said.codes) == (2, ["X0200"])
    assert "redop 'avg'" in said.messages[0]["message"]
    assert "--op" in said.messages[0]["hint"]
    assert Said(capsys, "run", "other.xml", "--op", "max").code == 0
    Path("copies.xml").write_text(made["s.xml"].replace(' coll="allgather"', ' coll="allgather" redop="nop"'))
    assert Said(capsys, "run", "copies.xml").answer["runs"][0]["op"] is None


# What was not checked


def test_a_result_that_nobody_checked_is_no_silent_success(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, "verify", "mix.xml", "--profile", "old")
    assert (said.code, said.codes) == (0, ["C0208"])
    assert said.answer["checks"]["result"] == "skipped"
    assert said.answer["skipped"] == {"result": "'custom' does not say what is computed"}
    assert "--program FILE.coll --schedule NAME" in said.messages[0]["hint"]
    _, shown, told = in_text(capsys, "verify", "mix.xml", "--profile", "old")
    assert "skipped ('custom' does not say what is computed)" in shown
    assert "warning[C0208]: result was not checked" in told
    said = Said(capsys, "verify", "mix.xml", "--profile", "old", "--program", "0.coll", "--schedule", "mix")
    assert (said.code, said.codes, said.answer["skipped"]) == (0, [], {})


def test_a_plan_of_an_unknown_collective(capsys: pytest.CaptureFixture[str], made: dict[str, str]) -> None:
    Path("foo.json").write_text(made["s.json"].replace('"allgather"', '"foo"'))
    said = Said(capsys, "verify", "foo.json")
    assert (said.code, said.answer["checks"]["result"]) == (0, "skipped")
    assert "C0208" in said.codes
    assert "C0208" not in Said(capsys, "verify", "foo.json", "--collective", "all_gather").codes


def test_packets_are_told_to_be_read_only(capsys: pytest.CaptureFixture[str], made: dict[str, str]) -> None:
    Path("ll.json").write_text(made["s.json"].replace('"Simple"', '"LL"'))
    said = Said(capsys, "verify", "ll.json")
    assert said.code == 0
    assert set(said.answer["skipped"]) == {"result", "deadlock", "race"}
    assert "packets" in next(m for m in said.messages if m["code"] == "C0208")["message"]


def test_checks_that_others_kept_from_being_made_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, told = in_text(capsys, "verify", "s.xml", "--collective", "all_reduce")
    assert code == 4
    assert "skipped (not reached: contract failed)" in shown
    assert "C0208" not in told


@pytest.mark.parametrize("command", ["verify", "run"])
def test_custom_files_name_the_way_to_check_them(capsys: pytest.CaptureFixture[str], command: str) -> None:
    said = Said(capsys, command, "mix.xml")
    assert said.code == 4
    hint = next(m for m in said.messages if m["code"] == "X0110")["hint"]
    assert "--profile old --program FILE.coll --schedule NAME" in hint


def test_a_name_of_the_other_runtime(capsys: pytest.CaptureFixture[str], made: dict[str, str]) -> None:
    said = Said(capsys, "verify", "m.xml", "--profile", "old")
    assert "--profile executor" in said.messages[0]["hint"]
    said = Said(capsys, "run", "mix.xml", "--profile", "old")
    assert (said.code, said.codes) == (2, ["X0202"])
    assert "--program" in said.messages[0]["hint"]


# Names of collectives


@pytest.mark.parametrize("file", ["s.xml", "s.json", "s.ten"])
def test_a_collective_that_there_is_not(capsys: pytest.CaptureFixture[str], file: str) -> None:
    commands = ("verify",) if file == "s.ten" else ("verify", "run")
    for command in commands:
        said = Said(capsys, command, file, "--collective", "bogus")
        assert (said.code, said.codes) == (2, ["U0111"])
        assert "all_gather, reduce_scatter" in said.messages[0]["hint"]
        assert (
            "did you mean 'all_gather'" in Said(capsys, command, file, "--collective", "all_gathr").messages[0]["hint"]
        )


def test_another_collective_fails_the_contract_of_files_and_plans(capsys: pytest.CaptureFixture[str]) -> None:
    for file, code in (("s.xml", "X0110"), ("s.json", "X0416")):
        said = Said(capsys, "verify", file, "--collective", "all_reduce")
        assert (said.code, said.answer["checks"]["contract"], said.answer["checks"]["result"]) == (
            4,
            "failed",
            "skipped",
        )
        assert code in said.codes
        assert all(m["line"] for m in said.messages if m["code"] == code)


# Kinds of files


@pytest.mark.parametrize("command", ["verify", "run", "inspect"])
@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("empty.xml", "", "X0104", "holds no <algo>"),
        ("plain.xml", "hello", "X0102", "text between elements"),
        ("empty.json", "", "X0401", "the file is empty"),
        ("list.json", "[]", "X0402", "no object"),
        ("null.json", "null", "X0402", "no object"),
        ("open.json", "[[[", "X0401", "ends before all that was begun is closed"),
        ("cut.json", '{"a": 1', "X0401", "ends before all that was begun is closed"),
        ("comma.json", '{"a": 1 "b": 2}', "X0401", "',' or the end"),
        ("more.json", "{} {}", "X0401", "has ended before"),
        ("nan.json", '{"a": NaN}', "X0401", "NaN is no number"),
        ("deep.json", "[" * 100_000, "X0401", "nested"),
        ("digits.json", '{"a": ' + "9" * 5000 + "}", "X0401", "thousands of digits"),
    ],
)
def test_broken_files_get_the_messages_of_their_kind(
    capsys: pytest.CaptureFixture[str], command: str, name: str, text: str, code: str, words: str
) -> None:
    Path(name).write_text(text)
    said = Said(capsys, command, name)
    assert (said.code, said.codes) == (4, [code])
    (message,) = said.messages
    assert words in message["message"]
    assert (message["file"], message["line"] is not None) == (name, True)
    for voice in ("Expecting", "recursion", "delimiter", "Extra data", "decoding"):
        assert voice not in message["message"]


def test_a_plan_that_is_no_utf_8(capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.json").write_bytes(b'{"a": "\xff"}')
    said = Said(capsys, "verify", "b.json")
    assert (said.code, said.codes, said.messages[0]["line"]) == (4, ["X0401"], 1)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"inplace": false', '"inplace": 3', 4),
        ('"protocol": "Simple"', '"protocol": "Fast"', 5),
        ('"collective": "allgather"', '"collective": 7', 3),
        ('"gpus": [', '"gpus": 1, "x": [', 9),
    ],
)
def test_what_is_wrong_with_a_plan_has_its_line(
    capsys: pytest.CaptureFixture[str], made: dict[str, str], old: str, new: str, line: int
) -> None:
    assert old in made["s.json"]
    Path("p.json").write_text(made["s.json"].replace(old, new, 1))
    said = Said(capsys, "verify", "p.json")
    assert said.code == 4
    assert [(m["code"], m["file"], m["line"]) for m in said.messages] == [("X0402", "p.json", line)]


def test_schedules_are_not_run_or_inspected(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "inspect"):
        said = Said(capsys, command, "s.ten")
        assert (said.code, said.codes) == (2, ["X0206"])
        assert "collc verify" in said.messages[0]["hint"]


def test_programs_are_compiled_first(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.coll").write_text("# comment\nimport std.topologies\n")
    for command in ("run", "inspect", "verify"):
        said = Said(capsys, command, "p.coll")
        assert (said.code, said.codes) == (2, ["X0206"])
        assert "collc compile p.coll" in said.messages[0]["hint"]


def test_kinds_are_told_by_content_before_suffix(capsys: pytest.CaptureFixture[str], made: dict[str, str]) -> None:
    Path("s.txt").write_text(made["s.xml"])
    Path("odd.xml").write_text("\n  " + made["s.json"])
    Path("ten.json").write_text("# a schedule\n" + made["s.ten"])
    assert Said(capsys, "verify", "s.txt").answer["kind"] == "msccl"
    assert Said(capsys, "verify", "odd.xml").answer["kind"] == "mscclpp"
    assert Said(capsys, "verify", "ten.json").answer["kind"] == "ten"
    assert Said(capsys, "verify", "1.coll").codes == ["X0206"]


# Schedules in words


def test_a_schedule_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, told = in_text(capsys, "verify", "s.ten")
    assert (code, told) == (0, "")
    words = " ".join(shown.split())
    assert "9 NPUs, 24 links; 72 transfers; time 80.125us (4 steps); lower bound 80.125us (in-degree of" in words
    assert "efficiency 100.00 %; made by tacos" in words


# Sizes that nobody means


@pytest.mark.parametrize("name", ["nchunksperloop", "i_chunks", "o_chunks", "s_chunks", "ngpus", "nchannels"])
@pytest.mark.parametrize("command", ["verify", "run"])
def test_absurd_numbers_are_refused_at_their_place(
    capsys: pytest.CaptureFixture[str], made: dict[str, str], command: str, name: str
) -> None:
    text = re.sub(rf' {name}="\d+"', f' {name}="2000000000"', made["s.xml"], count=1)
    Path("big.xml").write_text(text)
    said = Said(capsys, command, "big.xml")
    if command == "run" and name == "nchannels":
        assert said.code == 0
        return
    assert said.code == 4
    assert said.messages[0]["code"] in {"X0107", "X0110", "X0116"}
    assert said.messages[0]["line"] in {1, 2}


def test_a_custom_file_with_an_absurd_number(capsys: pytest.CaptureFixture[str], made: dict[str, str]) -> None:
    text = re.sub(r'nchunksperloop="\d+"', 'nchunksperloop="2000000000"', made["mix.xml"])
    Path("big.xml").write_text(text)
    said = Said(capsys, "verify", "big.xml", "--profile", "old", "--program", "0.coll")
    assert (said.code, said.messages[0]["code"], said.messages[0]["line"]) == (4, "X0110", 1)


@pytest.mark.parametrize("what", ["npus", "switches"])
def test_a_schedule_of_more_devices_than_it_can_join(
    capsys: pytest.CaptureFixture[str], made: dict[str, str], what: str
) -> None:
    Path("big.ten").write_text(re.sub(rf"\b{what} \d+", f"{what} 9999000", made["s.ten"], count=1))
    said = Said(capsys, "verify", "big.ten")
    assert (said.code, said.codes) == (4, ["T0108"])
    assert said.messages[0]["line"] > 1


@pytest.mark.parametrize("file", ["m.xml", "m.json"])
def test_runs_of_too_many_elements_are_refused_early(capsys: pytest.CaptureFixture[str], file: str) -> None:
    said = Said(capsys, "run", file, "--count", "200000000")
    assert (said.code, said.codes) == (2, ["X0205"])
    most = int(said.messages[0]["hint"].split()[1])
    assert 10**5 < most < 10**8
