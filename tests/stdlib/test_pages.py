"""The examples of docs/language.md and the programs of examples/: elaborated, and read by the naive evaluator."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.base.diagnostics import SourceError, SourceFile
from collc.source.elaboration.elaborate import load_program
from collc.source.parsing import syntax as s
from collc.source.parsing.parse import parse
from tests.reference.evaluator import Evaluator, evaluate
from tests.reference.values import BadProgramError
from tests.stdlib.pages import ROOT, Example, examples

PROGRAMS = sorted((ROOT / "examples").glob("*.coll"))
VALUES = (s.Let, s.Param, s.Group, s.TopologyInstance)


def everything(evaluator: Evaluator) -> int:
    """Evaluate all values, groups, instances and schedules of a file; the number of its runs."""
    for x in evaluator.files[0].statements:
        if isinstance(x, VALUES) or (isinstance(x, s.TopologyTemplate) and x.parameters is None):
            assert evaluator.globals[x.name.name] is not None
    return sum(len(schedule.runs) for schedule in evaluator.schedules())


@pytest.mark.parametrize("example", [e for e in examples() if e.code is None], ids=str)
def test_examples_of_the_reference_have_values(example: Example) -> None:
    everything(evaluate(example.text))


@pytest.mark.parametrize("example", examples(), ids=str)
def test_examples_of_the_reference(example: Example, tmp_path: Path) -> None:
    """All compile, except those that are marked with the code of their error."""
    path = tmp_path / "example.coll"
    path.write_text(example.text, encoding="utf-8")
    if example.code is None:
        load_program(path)
        return
    with pytest.raises(SourceError) as caught:
        load_program(path)
    assert [d.code for d in caught.value.diagnostics] == [example.code]


@pytest.mark.parametrize("example", [e for e in examples() if e.code in ("E0210", "E0218")], ids=str)
def test_the_naive_evaluator_rejects_the_same_units(example: Example) -> None:
    with pytest.raises(BadProgramError):
        everything(evaluate(example.text))


def test_the_page_has_examples_of_every_part() -> None:
    kinds = {type(x) for e in examples() for x in parse(SourceFile("page", e.text)).statements}
    assert kinds >= {s.Import, s.Param, s.Let, s.TopologyTemplate, s.TopologyInstance, s.Group, s.Collective}
    assert kinds >= {s.Algorithm, s.ScheduleDeclaration, s.Workload, s.PriceTable, s.Design}
    assert len(examples()) >= 20


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_programs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    runs = everything(Evaluator(SourceFile(path.name, text), path.parent))
    assert runs or "design" in text
    assert text.startswith("# ")
    assert sum(len(schedule.runs) for schedule in load_program(path).schedules) == runs


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 10


def test_the_readme_shows_the_quickstart() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "examples" / "quickstart.coll").read_text(encoding="utf-8") in readme
