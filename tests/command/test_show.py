"""`collc show` and `emit report`: reports and single pictures of programs, schedules and files for runtimes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lxml import html

from collc.application.show.picture_kinds import PICTURE_KINDS
from collc.application.show.report_page import alternatives_of
from collc.base.units import format_time
from collc.command.cli import main
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.verification import Verdict, verify_schedule
from tests.cpu_time import at_most
from tests.support import all_gather, demand_of, ring

pytestmark = pytest.mark.usefixtures("folder")

PICTURES = [kind.name for kind in PICTURE_KINDS.values() if kind.of not in ("design", "fallbacks")]

PROGRAM = """
import std.topologies
import std.collectives
topology t = mesh2d(3, 3, bandwidth: 50GiB/s, latency: 0.5us)
schedule gather on t {
    run all_gather(t.npus, size: 9MiB) synthesize tacos(seed: 7) emit ten emit msccl("gather.xml") emit report
}
schedule sum on t {
    run all_reduce(t.npus, size: 9MiB) synthesize tacos(seed: 7) emit mscclpp("sum.json") emit report("sum/r.html")
}
"""
WRONG = ("send 0:x[1, 0] over npu[0, 1] -> npu[0, 2]", "send 0:x[8, 0] over npu[0, 1] -> npu[0, 2]")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show")
    (folder / "p.coll").write_text(PROGRAM)
    assert main(["compile", str(folder / "p.coll"), "-o", str(folder), "--quiet"]) == 0
    text = (folder / "gather.ten").read_text()
    assert WRONG[0] in text
    (folder / "bad.ten").write_text(text.replace(*WRONG, 1))
    return folder


def panels(path: Path) -> dict[str, html.HtmlElement]:
    """The panels of a report by the name of their tab; the panels of several schedules as one."""
    tree = html.fromstring(path.read_bytes())
    return {
        tab.text_content(): tree.get_element_by_id(tab.get("aria-controls")) for tab in tree.xpath("//*[@role='tab']")
    }


def test_the_report_of_a_compiled_schedule_checks_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def counted(module: Module) -> Verdict:
        checked.append(module.algorithm)
        return verify_schedule(module)

    monkeypatch.setattr("collc.verification.verify_schedule", counted)
    Path("p.coll").write_text(PROGRAM)
    assert main(["compile", "p.coll", "--schedule", "gather", "--quiet"]) == 0
    assert checked.count("tacos") == 1
    text = html.fromstring(Path("gather.html").read_bytes()).text_content()
    assert "9 checks ok" in text  # as "9 ok" of the compilation


def test_a_program(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(files / "p.coll"), "-o", "r.html"]) == 0
    assert capsys.readouterr().out == "r.html\n"
    assert [path.name for path in Path().iterdir()] == ["r.html"]
    found = panels(Path("r.html"))
    assert list(found)[:2] == ["gather", "sum"]
    summary = found["gather"].text_content()
    for words in (
        "80.125us",
        "of ideal",
        "100.00 %",
        "bus bandwidth",
        "causality",
        "no link carries two chunks at once",
    ):
        assert words in summary
    assert "of any schedule with these chunks80.125usthe links into npu[0, 0]met" in summary.replace("\n", "")
    for tab in ("Network", "Summary"):
        assert len(found[tab].xpath(".//*[local-name()='circle'][@class='npu']")) == 9


def test_a_schedule_and_its_reports(files: Path) -> None:
    assert main(["show", str(files / "gather.ten")]) == 0
    found = panels(Path("gather.html"))
    assert list(found) == ["Summary", "Network", "Schedule", "Load", "Utilisation"]
    first = Path("gather.html").read_bytes()
    assert main(["show", str(files / "gather.ten")]) == 0
    assert Path("gather.html").read_bytes() == first
    marks = found["Schedule"].xpath(".//*[local-name()='g'][@class='mark']")
    assert len(marks) == 2 * 72
    emitted = panels(files / "gather.html")
    assert list(emitted) == list(found)
    assert emitted["Schedule"].text_content() == found["Schedule"].text_content()
    assert "sum" in panels(files / "sum" / "r.html")["Summary"].text_content()


def test_the_alternatives_are_those_of_compare(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(files / "gather.ten"), "--json"]) == 0
    models = ("nccl_ring", "nccl_tree")  # no schedules on these links
    found = [one for one in json.loads(capsys.readouterr().out)["algorithms"] if one["name"] not in models]
    assert main(["show", str(files / "gather.ten"), "-o", "r.html"]) == 0
    panel = panels(Path("r.html"))["Utilisation"]
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in panel.xpath(".//tbody/tr")}
    assert {name: row[0] for name, row in rows.items()} == {
        "this schedule" if one["own"] else one["name"]: "-" if one["time_ps"] is None else format_time(one["time_ps"])
        for one in found
    }
    ran = [one["name"] for one in found if one["time_ps"] and not one["own"]]
    legend = panel.xpath("string(.//*[local-name()='svg'])")
    assert all(name in legend for name in ["this schedule", *ran])
    assert len(ran) >= 4


def test_large_and_custom_collectives_have_no_alternatives() -> None:
    module = Module("m", ring(65), all_gather(list(range(65))))
    alternatives, remark = alternatives_of(module, module.network, lambda _share, _phase: None)
    assert remark.startswith("Alternatives are simulated for up to 64 NPUs here")
    module = Module("m", ring(4), demand_of([(1, [0], [1], Op.COPY)], group=range(4)))
    alternatives, remark = alternatives_of(module, module.network, lambda _share, _phase: None)
    assert remark.startswith("There are no alternatives: run ")
    assert alternatives == ()


def test_a_broken_schedule_is_shown_with_what_is_wrong(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(files / "bad.ten"), "-o", "r.html"]) == 4
    assert "V0101" in capsys.readouterr().err
    summary = panels(Path("r.html"))["Summary"]
    assert [cell.text for cell in summary.xpath(".//td/span")].count("failed") == 2
    assert "of any schedule" not in summary.text_content()
    assert "is sent by npu[0, 1], which does not hold it yet" in summary.text_content()


def test_files_for_runtimes(files: Path) -> None:
    assert main(["show", str(files / "gather.xml"), "-o", "x.html"]) == 0
    found = panels(Path("x.html"))
    assert list(found) == ["Summary", "Threadblocks"]
    assert "GPU 8" in found["Threadblocks"].text_content()
    network = ["--on", f"{files / 'p.coll'}:t", "--size", "9MiB"]
    assert main(["show", str(files / "gather.xml"), "-o", "x.html", *network]) == 0
    found = panels(Path("x.html"))
    assert list(found) == ["Summary", "Network", "Schedule", "Load", "Utilisation", "Threadblocks"]
    assert "simulated, congestion-aware" in found["Summary"].text_content()
    assert main(["show", str(files / "sum.json"), "-o", "p.html", *network]) == 0
    assert "bus bandwidth" in panels(Path("p.html"))["Summary"].text_content()


def test_single_pictures(files: Path) -> None:
    seen = set()
    for name in PICTURES:
        for theme in ("light", "dark"):
            words = ["--svg", "x.svg", "--picture", name, "--theme", theme]
            assert main(["show", str(files / "gather.ten"), *words]) == 0
            ElementTree.parse("x.svg")
            seen.add(Path("x.svg").read_bytes())
    assert len(seen) == 2 * len(PICTURES)
    assert [path.name for path in Path().iterdir()] == ["x.svg"]


def test_png(files: Path) -> None:
    pytest.importorskip("resvg_py", reason="the extra 'png' is not installed")
    assert main(["show", str(files / "gather.ten"), "--png", "x.png", "--svg", "x.svg"]) == 0
    data = Path("x.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    size = ElementTree.parse("x.svg").getroot()
    assert int.from_bytes(data[16:20]) == 2 * float(size.get("width", 0))
    assert main(["show", str(files / "gather.ten"), "--png", "y.png"]) == 0
    assert Path("y.png").read_bytes() == data


def failing(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and the messages of a command that writes nothing."""
    code = main(["show", *words])
    assert list(Path().glob("**/*.html")) == list(Path().glob("*.[sp][vn]g")) == []
    return code, capsys.readouterr().err


NOT_A_PROGRAM = "is for programs, and gather.ten is a compiled file"
SINGLE = "is for single pictures\nhelp: name a file: --svg FILE.svg"
ERRORS = {
    "missing.coll": """error[U0106]: cannot read missing.coll: No such file or directory
help: check the name and the folder""",
    "gather.ten --picture ten": f"error[U0135]: --picture {SINGLE}",
    "gather.ten --theme dark": f"error[U0135]: --theme {SINGLE}",
    "gather.ten -D n=3": f"error[U0135]: -D {NOT_A_PROGRAM}",
    "gather.ten --schedule s": f"error[U0135]: --schedule {NOT_A_PROGRAM}",
    "gather.ten --on p.coll:t --size 9MiB": "error[U0131]: gather.ten has a network of its own: --on is for others",
    "gather.xml --on p.coll:t": """error[U0134]: gather.xml serves many sizes: give the one to simulate
help: as in --size 64MiB""",
    "gather.xml --svg x.svg": """error[U0136]: there is no picture 'topology' of gather.xml: it names no network
help: give a network with --on FILE.coll:TOPOLOGY --size BYTES""",
    "p.coll --svg x.svg": """error[U0107]: p.coll has 2 schedules, and a picture shows one
help: choose one with --schedule NAME""",
    "gather.ten gather.xml --svg x.svg": """error[U0135]: a single picture is of one file
help: give one, or no --svg, --png""",
    "empty.coll": """error[U0136]: empty.coll has no schedule: there is nothing to show
help: write one, as in: schedule s on t { run all_gather(t.npus, size: 9MiB) }""",
    "none.ten --svg x.svg --picture ten": "error[U0136]: there is no picture 'ten' of none.ten: no transfers are known",
}


def test_several_files_are_shown_side_by_side(files: Path) -> None:
    shown = [str(files / name) for name in ("gather.ten", "gather.xml", "sum.json", "p.coll")]
    words = ["--on", f"{files / 'p.coll'}:t", "--size", "9MiB", "--schedule", "gather"]
    assert main(["show", *shown, *words]) == 0
    page = Path("comparison.html")
    tree = html.fromstring(page.read_bytes())
    names = ["gather of gather.ten", "gather of gather.xml", "sum of sum.json", "gather of p.coll"]
    tabs = [tab.text_content() for tab in tree.xpath("//*[@aria-label='schedules']/*[@role='tab']")]
    assert tabs == ["Side by side", *names]
    (together,) = tree.xpath("//*[@id='s0']//figure[@class='moving']")
    assert [
        option.text_content() for option in together.xpath(".//select[@class='beside']/option[@selected]")
    ] == names[1:2]
    rows = [[cell.text_content() for cell in row] for row in tree.xpath("//*[@id='s0']//tbody/tr")]
    assert [row[0] for row in rows] == names
    assert [row[2] for row in rows[::3]] == ["1.00 x"] * 2
    assert {row[4] for row in rows} == {"ok"}
    clips = [json.loads(text)["name"] for text in tree.xpath("//script[@class='clip']/text()")]
    assert sorted(set(names) & set(clips)) == sorted(name for name in clips if name in names)  # none is there twice


def test_files_of_one_name_are_shown_with_their_folders(files: Path, tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    later = tmp_path / "later" / "gather.ten"
    later.write_bytes((files / "gather.ten").read_bytes())
    assert main(["show", str(files / "gather.ten"), str(later), "-o", "two.html"]) == 0
    tree = html.fromstring(Path("two.html").read_bytes())
    tabs = [tab.text_content() for tab in tree.xpath("//*[@aria-label='schedules']/*[@role='tab']")]
    assert tabs == ["Side by side", f"gather of {files / 'gather.ten'}", f"gather of {later}"]


def test_files_without_a_network_are_compared_by_their_checks(files: Path) -> None:
    assert main(["show", str(files / "gather.xml"), str(files / "gather.ten"), "-o", "two.html"]) == 0
    first = html.fromstring(Path("two.html").read_bytes()).get_element_by_id("s0")
    assert first.xpath(".//figure") == []
    assert "No transfers are known of gather of gather.xml: give --on and --size." in first.text_content()


@pytest.mark.parametrize("words", ERRORS)
def test_errors(files: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    for name in ("gather.ten", "gather.xml"):
        Path(name).write_bytes((files / name).read_bytes())
    Path("p.coll").write_text(PROGRAM.replace("9MiB", "9KiB"))
    Path("empty.coll").write_text("let x = 1\n")
    text = Path("gather.ten").read_text()
    Path("none.ten").write_text(text[: text.index("\nschedule ")] + "\n")
    assert failing(words.split(), capsys) == (2, ERRORS[words] + "\n")


def test_broken_files_write_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in [("a.ten", "ten 1\n"), ("a.xml", "<algo"), ("a.json", "{"), ("a.coll", "topology")]:
        Path(name).write_text(text)
        code, message = failing([name], capsys)
        assert code in (1, 4)
        assert message.startswith("error[")


def test_png_without_a_converter(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    assert failing([str(files / "gather.ten"), "-o", "r.html", "--png", "x.png"], capsys) == (
        2,
        "error[U0137]: a PNG file needs the package resvg-py\n"
        "help: install it with: python -m pip install 'collc[png]', or write --svg\n",
    )


def test_png_without_fonts(files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    resvg = pytest.importorskip("resvg_py", reason="the extra 'png' is not installed")
    draw = resvg.svg_to_bytes
    monkeypatch.setattr(resvg, "svg_to_bytes", lambda *words, **more: draw(*words, skip_system_fonts=True, **more))
    code, message = failing([str(files / "gather.ten"), "--png", "x.png"], capsys)
    assert (code, message.splitlines()[0]) == (2, "error[U0137]: a PNG file needs a font, and the system has none")


def test_json_and_standard_input(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["show", str(files / "bad.ten"), "-o", "r.html", "--json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["files"], found["designs"]) == (["r.html"], [])
    assert found["schedules"][0]["name"] == "gather"
    assert found["schedules"][0]["checks"]["causality"] == "failed"
    assert found["diagnostics"][0]["code"] == "V0101"
    text = PROGRAM.replace("9MiB", "9KiB")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["show", "-", "--schedule", "gather", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert Path("report.html").exists()


def test_names_of_files_are_escaped(files: Path) -> None:
    text = (files / "gather.ten").read_text().replace("gather", "g", 1)
    name = "<script>alert(1)<!--.ten"
    Path(name).write_text(text)
    assert main(["show", name, "-o", "r.html"]) == 0
    tree = html.fromstring(Path("r.html").read_bytes())
    assert len(tree.xpath("//script[not(@type='application/json')]")) == 1
    assert [json.loads(node.text)["time"] > 0 for node in tree.xpath("//script[@class='clip']")] == [True, True]
    assert tree.xpath("string(//h1)") == name


def test_a_folder_that_cannot_be_written(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    code, message = failing([str(files / "gather.ten"), "-o", "file/r.html"], capsys)
    assert code == 2
    assert message.startswith("error[U0203]: cannot write file/r.html: file is a file, not a folder")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topology", "run"),
    [
        ("dgx_h100(16)", "all_to_all(t.npus, size: 64MiB)"),
        ("dgx_h100(64)", "all_gather(t.npus, size: 512MiB)"),
        ("torus2d(32, 32, bandwidth: 50GiB/s, latency: 0.5us)", "all_gather(t.npus, size: 1GiB)"),
    ],
)
def test_reports_of_large_networks_are_small(topology: str, run: str) -> None:
    head = "import std.topologies\nimport std.clusters\nimport std.collectives\n"
    Path("p.coll").write_text(f"{head}topology t = {topology}\nschedule s on t {{ run {run} }}\n")
    with at_most(30):
        assert main(["show", "p.coll", "-o", "r.html"]) == 0
        assert Path("r.html").stat().st_size < 2_000_000
    assert list(panels(Path("r.html"))) == ["Summary", "Network", "Schedule", "Load", "Utilisation"]
