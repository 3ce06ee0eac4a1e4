"""`collc show` of designs: bandwidths, and what other budgets bring."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from lxml import html

from collc.application.design.design_pages import design_subject
from collc.application.show.picture_kinds import PICTURE_KINDS
from collc.command.cli import main
from collc.source.elaboration.elaborate import load_program
from tests.pictures.drawn import overlaps, tips

pytestmark = pytest.mark.usefixtures("folder")

DESIGN_PICTURES = [kind.name for kind in PICTURE_KINDS.values() if kind.of == "design"]

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "design.coll"
COST = "require sum(bandwidth) == 800GB/s\n    minimize time * cost"


def program(change: str = COST) -> Path:
    text = EXAMPLE.read_text()
    assert COST in text
    Path("d.coll").write_text(text.replace(COST, change))
    return Path("d.coll")


def test_the_report_has_both_designs() -> None:
    assert main(["show", str(EXAMPLE), "-o", "r.html"]) == 0
    tree = html.fromstring(Path("r.html").read_bytes())
    assert [tab.text for tab in tree.xpath("//*[@role='tab']")][:2] == ["fastest", "cheapest_per_speed"]
    assert tree.text_content().count("Bandwidth per dimension over budgets") >= 2
    first = Path("r.html").read_bytes()
    assert main(["show", str(EXAMPLE), "-o", "r.html"]) == 0
    assert Path("r.html").read_bytes() == first
    assert main(["show", str(EXAMPLE), "-o", "r.html", "--design", "fastest"]) == 0
    assert "cheapest_per_speed" not in Path("r.html").read_text()


def test_other_budgets_are_solved_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The point at half the budget is the design with half the budget."""
    subject = design_subject(load_program(EXAMPLE).designs[0])
    assert subject.budgets is not None
    points = dict(subject.budgets.points)
    assert sorted(points) == pytest.approx([800e9 * 2 ** (k / 2) for k in range(-4, 5)])
    text = EXAMPLE.read_text().replace("sum(bandwidth) == 800GB/s", "sum(bandwidth) == 400GB/s", 1)
    Path("half.coll").write_text(text)
    half = design_subject(load_program(Path("half.coll")).designs[0]).report.choices
    found = points[min(points, key=lambda budget: abs(budget - 400e9))]
    for ours, theirs in zip(found, half, strict=True):
        assert (ours.name, ours.allowed) == (theirs.name, theirs.allowed)
        assert ours.bandwidth == pytest.approx(theirs.bandwidth, rel=1e-6)
        assert ours.speedup == pytest.approx(theirs.speedup, rel=1e-6)
    for name in DESIGN_PICTURES:
        picture = PICTURE_KINDS[name].function()(subject)
        assert picture is not None
        assert overlaps(picture) == []
    picture = PICTURE_KINDS["speedup"].function()(subject)
    assert picture is not None
    assert any(tip.startswith("equal (not allowed): 1 at bandwidth") for tip in tips(picture))


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ("require cost <= 3000000\n    minimize time", "cost of the network"),
        (
            "require bandwidth[0] + 2 * bandwidth[1] + 3 * bandwidth[2] <= 900GB/s\n    minimize time",
            "limit, relative to that of the design",
        ),
    ],
)
def test_other_kinds_of_budgets(change: str, label: str) -> None:
    subject = design_subject(load_program(program(change)).designs[1])
    assert subject.budgets is not None
    assert subject.budgets.label == label
    own = subject.budgets.points[4]
    assert own[0] == pytest.approx(3_000_000 if label.startswith("cost") else 1)
    assert own[1][0].bandwidth == pytest.approx(subject.report.choices[0].bandwidth, rel=1e-6)


def test_budgets_that_contradict_other_constraints_are_left_out() -> None:
    change = "require sum(bandwidth) == 800GB/s\n    require bandwidth[1] >= 300GB/s\n    minimize time"
    subject = design_subject(load_program(program(change)).designs[1])
    assert subject.budgets is not None
    assert (len(subject.budgets.points), subject.budgets.missing) == (7, 2)  # 200 and 283 GB/s are too little


def test_single_pictures_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for name in DESIGN_PICTURES:
        assert main(["show", str(EXAMPLE), "--svg", "x.svg", "--picture", name, "--design", "fastest"]) == 0
        ElementTree.parse("x.svg")
        Path("x.svg").unlink()
    capsys.readouterr()
    assert main(["show", str(EXAMPLE), "--svg", "x.svg", "--picture", "budgets"]) == 2
    assert "U0136" in (said := capsys.readouterr().err)
    assert "has 2 designs, and a picture 'budgets' shows one\nhelp: choose one with --design NAME" in said
    assert main(["show", str(EXAMPLE), "--design", "fast"]) == 2
    assert "U0118" in (said := capsys.readouterr().err)
    assert "there are fastest and cheapest_per_speed" in said
    limits = "".join(f"require bandwidth[{k}] <= 200GB/s\n    " for k in range(3))
    words = ["--svg", "x.svg", "--picture", "budgets", "--design", "cheapest_per_speed"]
    assert main(["show", str(program(f"{limits}minimize time")), *words]) == 2
    assert "no constraint of the design is a budget" in capsys.readouterr().err
    contradiction = "require sum(bandwidth) == 800GB/s\n    require sum(bandwidth) <= 700GB/s\n    minimize time"
    assert main(["show", str(program(contradiction))]) == 3
    assert "E0917" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["d.coll"]
