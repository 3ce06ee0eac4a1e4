"""`collc show` of an index of fallbacks: classes in colour, slowdowns, and what failures cost a long run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from collc.command.cli import main

PROGRAM = """
import std.clusters
import std.collectives
topology pod = dgx_h100(2)
schedule sum on pod {
    run all_reduce(pod.npus, size: 16MiB)
    synthesize symmetric(link_model: "pipelined")
    failures any 1 of (nics, gpus, nodes), any 2 of nics within node
}
schedule gather on pod {
    run all_gather(pod.npus, size: 16MiB)
    synthesize symmetric(link_model: "pipelined")
    failures any leaf, any leaf (bandwidth: 1 / 2)
}
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fallbacks")
    (folder / "p.coll").write_text(PROGRAM)
    assert main(["compile", str(folder / "p.coll"), "-o", str(folder), "--quiet"]) == 0
    return folder / "fallbacks.json"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_page_and_its_numbers(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(index), "-o", "r.html", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["files"] == ["r.html"]
    first, second = shown["fallbacks"]
    assert (first["network"], first["copies"], first["gpus"], first["days"]) == ("pod", 1024, 16_384, 54)
    (own,) = first["schedules"]
    plans = {plan["failure"]: plan for plan in own["plans"]}
    assert [(name, plan["failures"], plan["lost"]) for name, plan in plans.items()] == [
        ("nic[0, 0]", 16, 0),
        ("gpu[0, 0]", 16, 1),
        ("node[0]", 2, 8),
        ("nic[0, 0] + nic[0, 1]", 56, 0),
    ]
    written = json.loads(index.read_text())["schedules"][0]
    for plan, row in zip(own["plans"], written["plans"], strict=True):
        assert plan["of_undamaged"] == row["time_ps"] / written["time_ps"]
        assert plan["of_ideal"] == row["time_ps"] / row["ideal_ps"]
    costs = {(row["rates"], row["recovery"]): row for row in own["costs"]}
    assert {name for _, name in costs} == {"fallbacks", "ring", "R2CCL", "restart"}
    llama = {name: costs["Llama 3", name] for name in ("fallbacks", "ring", "R2CCL", "restart")}
    assert llama["restart"]["slowdown"] == pytest.approx(1 + 419 * 200 / 86_400 / 54, rel=1e-3)
    assert llama["ring"]["restarts"] == pytest.approx(419 - 42, rel=0.05)
    assert llama["fallbacks"]["restarts"] == pytest.approx(63, rel=0.2)
    assert llama["fallbacks"]["slowdown"] < llama["R2CCL"]["slowdown"] <= llama["ring"]["slowdown"]
    assert llama["ring"]["slowdown"] < llama["restart"]["slowdown"]
    points = own["by_failures"]["restart"]
    assert [point["failures"] for point in points][::4] == [0, 419, 838]
    assert [point["slowdown"] for point in points] == pytest.approx(
        [1 + point["failures"] * 200 / 86_400 / 54 for point in points]
    )
    assert {row["recovery"] for row in second["schedules"][0]["costs"]} == {"fallbacks", "ring", "restart"}
    page = Path("r.html").read_bytes()
    assert main(["show", str(index), "-o", "again.html"]) == 0
    assert Path("again.html").read_bytes() == page
    text = page.decode()
    assert 'role="tab"' in text
    assert "gpu[1, 5] -&gt; leaf[5] and back: 50GB/s, 850ns; fails as nic[0, 0] does" in text
    assert re.search(r"https?://(?!www\.w3\.org)", text) is None


def test_the_file_is_named(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(index), "--schedule", "gather"]) == 0
    assert capsys.readouterr().out == "fallbacks.html\n"
    assert ">sum<" not in Path("fallbacks.html").read_text()


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["--picture", "classes", "--schedule", "sum"], ["nic[0, 0]: 16 failures", "node[0]: 2 failures"]),
        (["--picture", "slowdown", "--schedule", "sum"], ["nic[0, 0] + nic[0, 1]", "without failures: 1.000"]),
        (["--picture", "classes", "--schedule", "gather"], ["leaf[0] (bandwidth: 1/2): 8 failures"]),
        (["--picture", "failures", "--schedule", "gather"], ["fallbacks", "ring", "restart"]),
    ],
)
def test_single_pictures(index: Path, words: list[str], texts: list[str]) -> None:
    assert main(["show", str(index), "--svg", "x.svg", *words]) == 0
    picture = Path("x.svg").read_text()
    assert all(text in picture for text in texts)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--svg", "x.svg", "--picture", "failures"], 2, "error[U0136]"),
        (["--svg", "x.svg"], 2, "error[U0107]"),
        (["--schedule", "none"], 2, "error[U0110]"),
        (["--design", "d"], 2, "error[U0135]"),
        (["--on", "p.coll:pod", "--size", "1MiB"], 2, "error[U0131]"),
    ],
)
def test_wrong_requests(
    index: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(index), *words]) == code
    assert message in capsys.readouterr().err
    assert not [*Path().iterdir()]


def test_an_index_without_its_folder(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("fallbacks.json").write_text(index.read_text())
    assert main(["show", "fallbacks.json"]) == 1
    assert "error[X0801]: fallbacks.json has no network to show" in capsys.readouterr().err


def test_other_commands_say_what_it_is(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(index)]) == 2
    assert "is an index of fallbacks, and 'collc verify' takes" in capsys.readouterr().err
