"""The example of a synthesizer in docs/extending.md works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import collc
from collc.base.diagnostics import SourceError, UsageError
from collc.passes.synthesizers import SYNTHESIZERS
from collc.synthesis.auto.candidates import candidates
from collc.synthesis.task import Effort
from collc.ten.module import Bound, Module
from tests.end_to_end.programs import HEAD
from tests.support import all_gather, grid

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
PROGRAM = """
topology t = mesh2d(2, 3, bandwidth: 50GB/s, latency: 1us)
schedule s on t { run %s(t.npus, size: 6MiB) synthesize %s emit ten }
"""


@pytest.fixture(autouse=True)
def flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """The synthesizer of the example, in the table."""
    recipe = PAGE.read_text(encoding="utf-8").partition("## A synthesizer\n")[2]
    example = re.search(r"^```python\n(.*?)^```$", recipe, re.MULTILINE | re.DOTALL)
    assert example is not None
    names: dict[str, object] = {}
    exec(compile(example[1], "flood", "exec"), names)
    monkeypatch.setitem(SYNTHESIZERS, "flood", names["RECORD"])


def schedule(collective: str, statement: str, folder: Path, **more: str):
    (report,) = collc.compile(source=HEAD + PROGRAM % (collective, statement), output=folder, **more)
    return report


@pytest.mark.parametrize("collective", ["all_gather", "all_reduce", "all_to_all", "reduce_scatter"])
def test_the_example_plans_every_collective(collective: str, tmp_path: Path) -> None:
    report = schedule(collective, "flood(seed: 3, patience: 2)", tmp_path)
    assert (report.synthesizer, set(report.checks.values())) == ("flood", {"ok"})


def test_the_language_python_and_auto_know_the_example(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="flood has no option 'patient'"):
        schedule("all_gather", "flood(patient: 2)", tmp_path)
    with pytest.raises(SourceError, match="'patience' must be at least 1"):
        schedule("all_gather", "flood(patience: 0)", tmp_path)
    with pytest.raises(UsageError, match="did you mean 'flood'"):
        schedule("all_gather", "auto", tmp_path, synthesizer="flod")
    assert schedule("all_gather", "tacos", tmp_path, synthesizer="flood").synthesizer == "flood"
    module = Module("m", grid(2, 3), all_gather(list(range(6)), 6))
    known = candidates(module, Effort(), lambda: Bound(0, ""), list(SYNTHESIZERS.values()), lambda inner, _: inner, 0)
    assert "flood" in {candidate.name for candidate in known}
