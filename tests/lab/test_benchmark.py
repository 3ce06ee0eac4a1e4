"""`python -m benchmarks lab`, with measurements that are given."""

from __future__ import annotations

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


def test_a_word_that_no_network_has(capsys):
    with pytest.raises(SystemExit):
        lab.main(["butterfly"])
    assert "no network has 'butterfly' in its name; there are mesh 2x4, " in capsys.readouterr().err
