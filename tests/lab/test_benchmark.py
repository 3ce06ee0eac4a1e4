"""`python -m benchmarks lab`, with measurements that are given."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import lab


def report(spread: float) -> SimpleNamespace:
    """A measurement whose runs differ by a share."""
    own = SimpleNamespace(ratio=1.0, spread=(1.0, 1 + spread), predicted_time=1.0, measured_time=1.0)
    return SimpleNamespace(results=[own], links=(), cpu=0.5, ok=True)


def test_the_page_is_of_the_measurement_in_the_table(monkeypatch, tmp_path, capsys):
    unsteady, steadiest, last = map(report, (0.5, 0.1, 0.3))
    taken = iter([unsteady, steadiest, last] * 3)
    written = {}
    monkeypatch.setattr(lab, "measure", lambda *_: next(taken))
    monkeypatch.setattr(lab, "write_page", lambda title, shown, path: written.update({path.name: shown}))
    assert lab.main(["ring", "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("1.000 to 1.100 s") == 3
    assert written == {f"ring_6.{name}.html": steadiest for name in ("all_gather", "all_reduce", "all_to_all")}


def test_all_schedules_are_the_table_of_the_page(monkeypatch, tmp_path):
    """Of steady measurements each is made once; what is around the table and the pictures stays."""
    (tmp_path / "pictures").mkdir()
    page, before = tmp_path / "measured.md", lab.PAGE.read_text()
    page.write_text(before)
    monkeypatch.setattr(lab, "PAGE", page)
    monkeypatch.setattr(lab, "measure", lambda *_: report(0.02))
    monkeypatch.setattr(lab, "pictures", lambda _: [SimpleNamespace(file=lambda w=w: w) for w in ("plan", "run")])
    assert lab.main([]) == 0
    text = page.read_text()
    assert text.count("| 1.000 s | 1.000 s | 1.000 | 1.000 to 1.020 s | 50% |\n") == 30
    assert "The median of the rows is 0.0% off the prediction, the worst 0.0%.\n\n| network |" in text
    assert text.split("The median")[0] == before.split("The median")[0]
    assert text[text.index("The links of ring 6") :] == before[before.index("The links of ring 6") :]
    assert [Path(tmp_path, "pictures", f"lab_{name}.svg").read_text() for name in ("planned", "measured")] == [
        "plan",
        "run",
    ]


def test_not_all_schedules_are_measured_again(monkeypatch):
    again, made = [0, 0, 0], []
    monkeypatch.setattr(lab, "measure", lambda *which: made.append(which) or report(0.5))
    for name in ("a", "b", "c"):
        lab.measured_steadily(name, "all_gather", again)
    assert [name for name, _ in made] == ["a", "a", "a", "b", "b", "c"]


def test_a_word_that_no_network_has(capsys):
    with pytest.raises(SystemExit):
        lab.main(["butterfly"])
    assert "no network has 'butterfly' in its name; there are mesh 2x4, " in capsys.readouterr().err
