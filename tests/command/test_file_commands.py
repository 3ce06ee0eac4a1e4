"""`verify`, `run` and `inspect` of files: the kind of a file, skipped checks and their reasons, and absurd sizes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from collc.command.cli import main
from tests.msccl.programs import ring_all_reduce, write

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
    emit msccl("mix.xml", profile: "old", coll: "custom")
}"""
)
GATHER = (
    HEAD + 'schedule s on t { run all_gather(t.npus, size: 9MiB) emit ten emit msccl("s.xml") emit mscclpp("s.json") }'
)
MAXIMUM = (
    HEAD
    + 'schedule m on t { run reduce_scatter(t.npus, size: 9MiB, op: "max") emit msccl("m.xml") }\n'
    + 'schedule a on t { run reduce_scatter(t.npus, size: 9MiB) emit mscclpp("m.json") }'
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of the programs above, by name."""
    folder = tmp_path_factory.mktemp("compiled")
    texts: dict[str, str] = {}
    for number, text in enumerate((MIX, GATHER, MAXIMUM)):
        (folder / f"{number}.coll").write_text(text)
        assert main(["compile", str(folder / f"{number}.coll"), "-o", str(folder), "--quiet"]) == 0
    texts |= {path.name: path.read_text() for path in folder.iterdir()}
    return texts


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: dict[str, str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in compiled.items():
        Path(name).write_text(text)


class Result:
    """The JSON output of a command, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        self.code = main([*words, "--json"])
        self.answer = json.loads(capsys.readouterr().out)
        self.messages = self.answer["diagnostics"]
        self.codes = [message["code"] for message in self.messages]


def in_text(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main([*words])
    output = capsys.readouterr()
    return code, output.out, output.err


# The reduction of a run


@pytest.mark.parametrize(("words", "op"), [((), "max"), (("--op", "sum"), "sum"), (("--op", "min"), "min")])
def test_a_file_is_run_with_its_own_reduction(capsys: pytest.CaptureFixture[str], words: tuple[str], op: str) -> None:
    result = Result(capsys, "run", "m.xml", "--dtype", "int32", "--count", "5", *words)
    assert result.code == 0
    assert {(run["op"], run["dtype"], run["count"]) for run in result.answer["runs"]} == {(op, "int32", 5)}


def test_the_table_of_runs_shows_reduction_type_and_count(capsys: pytest.CaptureFixture[str]) -> None:
    _, shown, _ = in_text(capsys, "run", "m.xml", "--count", "7")
    assert re.search(r"out of place +0 +float32 +max +7 ", shown)
    _, shown, _ = in_text(capsys, "run", "s.xml", "--count", "7")
    assert re.search(r"out of place +0 +float32 +- +7 ", shown)
    _, shown, _ = in_text(capsys, "run", "m.json", "--count", "7")
    assert re.search(r"out of place +0 +float32 +sum +7 ", shown)


def test_a_file_without_a_reduction_or_with_an_unknown_one(
    capsys: pytest.CaptureFixture[str], compiled: dict[str, str]
) -> None:
    Path("none.xml").write_text(compiled["m.xml"].replace(' redop="max"', ""))
    assert Result(capsys, "run", "none.xml").answer["runs"][0]["op"] == "sum"
    Path("other.xml").write_text(compiled["m.xml"].replace('redop="max"', 'redop="xor"'))
    result = Result(capsys, "run", "other.xml")
    assert (result.code, result.codes) == (2, ["X0200"])
    assert "redop 'xor'" in result.messages[0]["message"]
    assert "--op" in result.messages[0]["hint"]
    assert Result(capsys, "run", "other.xml", "--op", "max").code == 0
    Path("copies.xml").write_text(compiled["s.xml"].replace(' coll="allgather"', ' coll="allgather" redop="nop"'))
    assert Result(capsys, "run", "copies.xml").answer["runs"][0]["op"] is None


# Files that `verify` refuses


def test_run_refuses_what_verify_refuses_also_where_the_data_come_out_right(capsys: pytest.CaptureFixture[str]) -> None:
    file = ring_all_reduce(4)
    steps = [step for gpu in file.gpus for tb in gpu.tbs for step in tb.steps if step["type"] == "rrs"]
    steps[1]["cnt"] = 2  # it adds and forwards as much as comes: what a send of 1 brings
    write(Path("rrs.xml"), file)
    verified = Result(capsys, "verify", "rrs.xml")
    assert (verified.code, "X0130" in verified.codes) == (4, True)
    ran = Result(capsys, "run", "rrs.xml")
    assert all(run["ok"] for run in ran.answer["runs"])
    assert (ran.code, ran.codes) == (4, verified.codes)
    code, shown, said = in_text(capsys, "run", "rrs.xml")
    assert (code, "matches NumPy" in shown, "X0130" in said) == (4, True, True)


def test_run_refuses_plans_that_verify_refuses(capsys: pytest.CaptureFixture[str], compiled: dict[str, str]) -> None:
    plan = json.loads(compiled["s.json"])
    Path("warp.json").write_text(json.dumps(plan | {"num_threads_per_block": 8}))
    for command in ("verify", "run"):
        result = Result(capsys, command, "warp.json")
        assert (result.code, result.codes) == (4, ["X0406"])


# What was not checked


def test_a_skipped_check_of_the_result_gives_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(capsys, "verify", "mix.xml", "--profile", "old")
    assert (result.code, result.codes) == (0, ["C0208"])
    assert result.answer["checks"]["result"] == "skipped"
    assert result.answer["skipped"] == {"result": "'custom' does not say what is computed"}
    assert "--program FILE.coll --schedule NAME" in result.messages[0]["hint"]
    _, shown, errors = in_text(capsys, "verify", "mix.xml", "--profile", "old")
    assert "skipped ('custom' does not say what is computed)" in shown
    assert "warning[C0208]: result was not checked" in errors
    result = Result(capsys, "verify", "mix.xml", "--profile", "old", "--program", "0.coll", "--schedule", "mix")
    assert (result.code, result.codes, result.answer["skipped"]) == (0, [], {})


def test_the_result_of_an_unknown_collective_is_not_checked(
    capsys: pytest.CaptureFixture[str], compiled: dict[str, str]
) -> None:
    Path("foo.json").write_text(compiled["s.json"].replace('"allgather"', '"foo"'))
    result = Result(capsys, "verify", "foo.json")
    assert (result.code, result.answer["checks"]["result"]) == (0, "skipped")
    assert "C0208" in result.codes
    assert "C0208" not in Result(capsys, "verify", "foo.json", "--collective", "all_gather").codes


def test_all_checks_of_a_plan_with_packets_are_made(
    capsys: pytest.CaptureFixture[str], compiled: dict[str, str]
) -> None:
    Path("ll.json").write_text(compiled["s.json"].replace('"Simple"', '"LL"'))
    result = Result(capsys, "verify", "ll.json")
    assert (result.code, result.answer["skipped"]) == (0, {})
    assert set(result.answer["checks"].values()) == {"ok"}


LIMITED = """
import std.topologies
import std.collectives
import std.algorithms
topology t = limited(mesh2d(2, 3, bandwidth: 50GB/s, latency: 1us), inject: 60GB/s)
schedule q on t { run all_reduce(t.npus, size: 6MiB) using direct allow congestion emit ten }
"""


def test_every_skipped_check_has_a_reason(capsys: pytest.CaptureFixture[str], compiled: dict[str, str]) -> None:
    text, tag = compiled["s.ten"], "bandwidth 50GiB/s"
    assert tag in text
    Path("cut.ten").write_text(text[: len(text) // 2])
    Path("slow.ten").write_text(text.replace(tag, "bandwidth 1/1000B/s"))
    Path("cut.json").write_text(compiled["s.json"][:99])
    Path("cut.xml").write_text(compiled["s.xml"][:99])
    Path("t.0.et").write_bytes(b"cut")
    reasons: dict[str, set[str]] = {}
    for name in ("s.ten", "cut.ten", "slow.ten", "cut.json", "cut.xml", "t"):
        answer = Result(capsys, "verify", name).answer
        assert set(answer["skipped"]) == {check for check, outcome in answer["checks"].items() if outcome == "skipped"}
        reasons[name] = set(answer["skipped"].values())
    assert reasons == {
        "s.ten": set(),
        "cut.ten": {"the file cannot be read"},
        "slow.ten": {"not reached: causality failed"},
        "cut.json": {"not reached: contract failed"},
        "cut.xml": {"not reached: contract failed"},
        "t": {"the file cannot be read"},
    }


def test_endpoints_of_a_congested_schedule_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("q.coll").write_text(LIMITED)
    assert in_text(capsys, "compile", "q.coll")[0] == 0
    answer = Result(capsys, "verify", "q.ten").answer
    assert (answer["checks"]["endpoints"], answer["checks"]["congestion_free"]) == ("ok", "allowed")
    assert answer["skipped"] == {}
    Path("q.ten").write_text(Path("q.ten").read_text().replace("inject 60GB/s", "inject 59GB/s"))
    assert Result(capsys, "verify", "q.ten").answer["checks"]["endpoints"] == "failed"


def test_checks_after_a_failed_one_are_skipped_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, errors = in_text(capsys, "verify", "s.xml", "--collective", "all_reduce")
    assert code == 4
    assert "skipped (not reached: contract failed)" in shown
    assert "C0208" not in errors


@pytest.mark.parametrize("command", ["verify", "run"])
def test_the_hint_for_custom_files_names_the_options_that_check_them(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    result = Result(capsys, command, "mix.xml")
    assert result.code == 4
    hint = next(m for m in result.messages if m["code"] == "X0110")["hint"]
    assert "--profile old --program FILE.coll --schedule NAME" in hint


def test_a_name_of_the_other_runtime_gets_a_hint(capsys: pytest.CaptureFixture[str], compiled: dict[str, str]) -> None:
    result = Result(capsys, "verify", "m.xml", "--profile", "old")
    assert "--profile executor" in result.messages[0]["hint"]
    result = Result(capsys, "run", "mix.xml", "--profile", "old")
    assert (result.code, result.codes) == (2, ["X0202"])
    assert "--program" in result.messages[0]["hint"]


# Names of collectives


@pytest.mark.parametrize("file", ["s.xml", "s.json", "s.ten"])
def test_an_unknown_collective_is_refused(capsys: pytest.CaptureFixture[str], file: str) -> None:
    commands = ("verify",) if file == "s.ten" else ("verify", "run")
    for command in commands:
        result = Result(capsys, command, file, "--collective", "bogus")
        assert (result.code, result.codes) == (2, ["U0111"])
        assert "all_gather, reduce_scatter" in result.messages[0]["hint"]
        assert (
            "did you mean 'all_gather'"
            in Result(capsys, command, file, "--collective", "all_gathr").messages[0]["hint"]
        )


def test_another_collective_fails_the_contract_of_files_and_plans(capsys: pytest.CaptureFixture[str]) -> None:
    for file, code in (("s.xml", "X0110"), ("s.json", "X0416")):
        result = Result(capsys, "verify", file, "--collective", "all_reduce")
        assert (result.code, result.answer["checks"]["contract"], result.answer["checks"]["result"]) == (
            4,
            "failed",
            "skipped",
        )
        assert code in result.codes
        assert all(m["line"] for m in result.messages if m["code"] == code)


# Kinds of files


@pytest.mark.parametrize("command", ["verify", "run", "inspect"])
@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("empty.xml", "", "X0104", "holds no <algo>"),
        ("plain.xml", "hello", "X0102", "text between elements"),
        ("empty.json", "", "X0401", "the file is empty"),
        ("list.json", "[]", "X0402", "not an object"),
        ("null.json", "null", "X0402", "not an object"),
        ("open.json", "[[[", "X0401", "ends inside a list or an object"),
        ("cut.json", '{"a": 1', "X0401", "ends inside a list or an object"),
        ("comma.json", '{"a": 1 "b": 2}', "X0401", "',' or the end"),
        ("more.json", "{} {}", "X0401", "text after the end of the plan"),
        ("nan.json", '{"a": NaN}', "X0401", "NaN is not a number"),
        ("deep.json", "[" * 100_000, "X0401", "nested"),
        ("digits.json", '{"a": ' + "9" * 5000 + "}", "X0401", "thousands of digits"),
    ],
)
def test_broken_files_get_the_messages_of_their_kind(
    capsys: pytest.CaptureFixture[str], command: str, name: str, text: str, code: str, words: str
) -> None:
    Path(name).write_text(text)
    result = Result(capsys, command, name)
    assert (result.code, result.codes) == (4, [code])
    (message,) = result.messages
    assert words in message["message"]
    assert (message["file"], message["line"] is not None) == (name, True)
    for phrase in ("Expecting", "recursion", "delimiter", "Extra data", "decoding"):
        assert phrase not in message["message"]


def test_a_plan_that_is_not_utf_8_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.json").write_bytes(b'{"a": "\xff"}')
    result = Result(capsys, "verify", "b.json")
    assert (result.code, result.codes, result.messages[0]["line"]) == (4, ["X0401"], 1)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"inplace": false', '"inplace": 3', 4),
        ('"protocol": "Simple"', '"protocol": "Fast"', 5),
        ('"collective": "allgather"', '"collective": 7', 3),
        ('"gpus": [', '"gpus": 1, "x": [', 9),
    ],
)
def test_errors_in_a_plan_are_reported_with_their_line(
    capsys: pytest.CaptureFixture[str], compiled: dict[str, str], old: str, new: str, line: int
) -> None:
    assert old in compiled["s.json"]
    Path("p.json").write_text(compiled["s.json"].replace(old, new, 1))
    result = Result(capsys, "verify", "p.json")
    assert result.code == 4
    assert [(m["code"], m["file"], m["line"]) for m in result.messages] == [("X0402", "p.json", line)]


def test_schedules_are_not_run_or_inspected(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "inspect"):
        result = Result(capsys, command, "s.ten")
        assert (result.code, result.codes) == (2, ["X0206"])
        assert "collc verify" in result.messages[0]["hint"]


def test_programs_must_be_compiled_first(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.coll").write_text("# comment\nimport std.topologies\n")
    for command in ("run", "inspect", "verify"):
        result = Result(capsys, command, "p.coll")
        assert (result.code, result.codes) == (2, ["X0206"])
        assert "collc compile p.coll" in result.messages[0]["hint"]


TREE = "SwitchName=root Nodes=n[1-2]\n"
DUMP = '<?xml version="1.0"?>\n<system version="1"></system>\n'


@pytest.mark.parametrize("command", ["check", "compile", "fmt", "topology"])
def test_a_file_that_is_no_program_is_named_with_the_command_for_it(
    capsys: pytest.CaptureFixture[str], compiled: dict[str, str], command: str
) -> None:
    texts = {"s.xml": compiled["s.xml"], "p.json": compiled["s.json"], "t.conf": TREE, "topo.xml": DUMP}
    for name, text in texts.items():
        Path(name).write_text(text)
        code, _, told = in_text(capsys, command, name)
        assert (code, "X0206" in told) == (2, True), told
        verb = "import" if name in ("t.conf", "topo.xml") else "verify"
        assert f"'collc {verb} {name}'" in told
    Path("wrong.coll").write_text("topology t = \n")
    assert "E0101" in in_text(capsys, command, "wrong.coll")[2]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<<<<<<< HEAD\nimport std.topologies\n=======\n>>>>>>> other\ntopology t = ring(4)\n", "E01"),
        ("let size = 4 *\nnpus_count: [4]\n", "E01"),
        ("let name =\nSwitchName=4\n", "E01"),
        ("ten = ring(4)\n", "E01"),
        ("# SwitchName=root\n\nSwitchName=root Nodes=n[1-2]\n", "X0206"),
    ],
)
def test_a_program_that_begins_like_another_kind_of_file_keeps_its_message(
    capsys: pytest.CaptureFixture[str], text: str, code: str
) -> None:
    Path("merged.coll").write_text(text)
    told = in_text(capsys, "check", "merged.coll")[2] + in_text(capsys, "check", "merged.coll")[1]
    assert f"[{code}" in told


def test_what_comes_by_standard_input_has_no_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is called stdin: the advice was 'collc import stdin'."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TREE.encode())))
    told = "".join(in_text(capsys, "check", "-")[1:])
    assert "stdin is the description of a machine" in told
    assert "'collc import FILE'" in told


def test_descriptions_of_machines_are_not_verified(capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("t.conf", TREE), ("topo.xml", DUMP)):
        Path(name).write_text(text)
        for command in ("verify", "run", "simulate"):
            result = Result(capsys, command, name)
            assert (result.code, result.codes) == (2, ["X0206"])
            assert f"'collc import {name}'" in result.messages[0]["hint"]


@pytest.mark.parametrize(
    ("name", "text", "title", "advice"),
    [
        ("table.tsv", "1024\t1\n2048\t2\n", "a table", "'collc calibrate table.tsv'"),
        (
            "log.txt",
            "# nThread 1\n#\n      1048576  262144  float  sum  -1  62.1\n",
            "a table",
            "collc calibrate log.txt",
        ),
        ("s.html", "<!DOCTYPE html>\n", "a page, a picture or a timeline", "a browser"),
        (
            "s.trace.json",
            '{"displayTimeUnit": "ns", "traceEvents": []}',
            "a page, a picture or a timeline",
            "ui.perfetto.dev",
        ),
    ],
)
def test_what_no_command_of_these_takes_is_named(
    capsys: pytest.CaptureFixture[str], name: str, text: str, title: str, advice: str
) -> None:
    Path(name).write_text(text)
    for command in ("verify", "run", "inspect", "simulate", "show", "compare"):
        code, _, told = in_text(capsys, command, name)
        assert (code, "X0206" in told, title in told, advice in told) == (2, True, True, True), told


def test_a_file_of_no_known_kind(capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes.txt").write_text("a note\n")
    for command in ("verify", "run", "inspect", "simulate", "show"):
        result = Result(capsys, command, "notes.txt")
        assert (result.code, result.codes) == (2, ["X0206"])
        assert "of no kind that collc knows" in result.messages[0]["message"]


def test_what_no_import_reads_is_named(capsys: pytest.CaptureFixture[str], compiled: dict[str, str]) -> None:
    Path("plan.json").write_text(compiled["s.json"])
    Path("sum.xml").write_text(compiled["s.xml"])
    Path("p.coll").write_text("import std.topologies\n")
    told = {"plan.json": "an MSCCL++ plan", "sum.xml": "an MSCCL file", "s.ten": "a .ten file", "p.coll": "a program"}
    for name, title in told.items():
        code, _, errors = in_text(capsys, "import", name)
        assert (code, f"{name} is {title}" in errors) == (2, True), errors
    Path("other.json").write_text('{"a": 1}')
    assert "[X0601]" in in_text(capsys, "import", "other.json")[2]


def test_a_folder_of_traces_is_named_with_their_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    Path("traces").mkdir()
    Path("traces/sum.0.et").write_text("")
    result = Result(capsys, "verify", "traces")
    assert (result.code, result.codes) == (2, ["U0106"])
    assert result.messages[0]["hint"] == "for the traces in it: traces/sum"
    result = Result(capsys, "verify", "traces/sum.0.et")
    assert (result.code, result.codes) == (2, ["X0206"])
    assert "leave out rank and suffix" in result.messages[0]["hint"]


def test_plans_have_the_name_of_their_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    Path("q.coll").write_text(HEAD + "schedule q on t { run all_gather(t.npus, size: 9MiB) }")
    code, _, _ = in_text(capsys, "compile", "q.coll", "--emit", "msccl++", "-o", "plans")
    assert (code, Path("plans/q.mscclpp").is_file()) == (0, True)


def test_the_content_of_a_file_decides_its_kind(capsys: pytest.CaptureFixture[str], compiled: dict[str, str]) -> None:
    Path("s.txt").write_text(compiled["s.xml"])
    Path("odd.xml").write_text("\n  " + compiled["s.json"])
    Path("ten.json").write_text("# a schedule\n" + compiled["s.ten"])
    assert Result(capsys, "verify", "s.txt").answer["kind"] == "msccl"
    assert Result(capsys, "verify", "odd.xml").answer["kind"] == "mscclpp"
    assert Result(capsys, "verify", "ten.json").answer["kind"] == "ten"
    assert Result(capsys, "verify", "1.coll").codes == ["X0206"]


# The summary of a schedule


def test_verify_prints_a_summary_of_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, errors = in_text(capsys, "verify", "s.ten")
    assert (code, errors) == (0, "")
    words = " ".join(shown.split())
    assert "9 NPUs, 24 links; 72 transfers; time 80.125us (4 steps); lower bound 80.125us, met (the links into" in words
    assert "100.00 % of ideal (the links into npu[0, 0]); made by tacos" in words


# Absurd sizes


@pytest.mark.parametrize("name", ["nchunksperloop", "i_chunks", "o_chunks", "s_chunks", "ngpus", "nchannels"])
@pytest.mark.parametrize("command", ["verify", "run"])
def test_absurd_numbers_are_refused_at_their_position(
    capsys: pytest.CaptureFixture[str], compiled: dict[str, str], command: str, name: str
) -> None:
    text = re.sub(rf' {name}="\d+"', f' {name}="2000000000"', compiled["s.xml"], count=1)
    Path("big.xml").write_text(text)
    result = Result(capsys, command, "big.xml")
    assert result.code == 4
    assert result.messages[0]["code"] in {"X0107", "X0110", "X0116"}
    assert result.messages[0]["line"] in {1, 2}


def test_a_custom_file_with_an_absurd_number_is_refused(
    capsys: pytest.CaptureFixture[str], compiled: dict[str, str]
) -> None:
    text = re.sub(r'nchunksperloop="\d+"', 'nchunksperloop="2000000000"', compiled["mix.xml"])
    Path("big.xml").write_text(text)
    result = Result(capsys, "verify", "big.xml", "--profile", "old", "--program", "0.coll")
    assert (result.code, result.messages[0]["code"], result.messages[0]["line"]) == (4, "X0110", 1)


@pytest.mark.parametrize("what", ["npus", "switches"])
def test_a_schedule_with_too_many_devices_is_refused(
    capsys: pytest.CaptureFixture[str], compiled: dict[str, str], what: str
) -> None:
    Path("big.ten").write_text(re.sub(rf"\b{what} \d+", f"{what} 9999000", compiled["s.ten"], count=1))
    result = Result(capsys, "verify", "big.ten")
    assert (result.code, result.codes) == (4, ["T0108"])
    assert result.messages[0]["line"] > 1


@pytest.mark.parametrize("file", ["m.xml", "m.json"])
def test_runs_of_too_many_elements_are_refused_early(capsys: pytest.CaptureFixture[str], file: str) -> None:
    result = Result(capsys, "run", file, "--count", "200000000")
    assert (result.code, result.codes) == (2, ["X0205"])
    most = int(result.messages[0]["hint"].split()[1])
    assert 10**5 < most < 10**8


def test_files_for_runtimes_do_not_load_the_readers_of_machines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, compiled: dict[str, str]
) -> None:
    for name in ("s.xml", "s.json", "t.conf"):
        Path(name).write_text(TREE if name == "t.conf" else compiled[name])
    calls: list[str] = []
    monkeypatch.setattr("collc.machines.kinds.kind_of", lambda source: calls.append(source.name))
    assert [in_text(capsys, "verify", name)[0] for name in ("s.xml", "s.json")] == [0, 0]
    assert not calls
    in_text(capsys, "verify", "t.conf")
    assert calls == ["t.conf"]
