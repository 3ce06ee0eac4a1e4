"""The recipe "A check of plans" of docs/extending.md, followed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from collc.msccl.check_plan import check_plan, reader, rules
from tests.msccl.hand_plans import all_gather, ops

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def test_the_example_finds_idle_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## A check of plans")[2].partition("\n## ")[0]
    (rule,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = dict(vars(rules))
    exec(compile(rule, "rules.py", "exec"), names)
    monkeypatch.setattr(reader, "RULES", [*rules.RULES, names["check_idle_signals"]])
    path, plan = tmp_path / "plan.json", all_gather()
    path.write_text(json.dumps(plan))
    assert check_plan(path).ok
    signal = next(number for number, op in enumerate(ops(plan, 0)) if op["name"] == "signal")
    ops(plan, 0).insert(signal + 1, dict(ops(plan, 0)[signal]))
    path.write_text(json.dumps(plan, indent=1))
    finding = next(finding for finding in check_plan(path).findings if finding.code == "X0999")
    assert (finding.location.gpu, finding.location.step) == (0, signal + 1)
    assert finding.location.line
