"""The campaign: what collc's own check says of a file or plan against what happens to it in the emulation."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import collc
from collc.msccl.check import check_file
from collc.msccl.check_plan import check_plan
from tests.emulation.cases import Case, case
from tests.emulation.file_machine import Outcome
from tests.emulation.judge import judge_file, judge_plan
from tests.emulation.mutants import mutated_file, mutated_plan

LARGEST = 60_000
"""Bytes of a file or plan of which mutants are made."""
INPUT_WRITTEN = "X0120"
"""The warning about a file or plan that writes to the input, out of place."""
MANY = 40
"""Orders of events for a mutant that the check refuses and that is right in the first few."""


@dataclass(frozen=True)
class Written:
    """A file or plan that collc wrote for a case; text None: it did not, for the reason given."""

    case: Case
    text: bytes | None
    reason: str = ""


@dataclass(frozen=True)
class Compared:
    """What both say of a mutant, which is drawn from case and seed.

    codes: of the errors of the check, "ok" if it has none; warnings: of its warnings.
    """

    case: Case
    seed: int
    change: str
    codes: str
    warnings: frozenset[str]
    found: Outcome

    @property
    def missed(self) -> bool:
        """The check says ok, and the emulation found an order in which it is not."""
        warned = self.found.kind == "input" and INPUT_WRITTEN in self.warnings
        return self.codes == "ok" and self.found.kind != "right" and not warned


def written(number: int, *, plan: bool) -> Iterator[Written]:
    """The files of a case: one, or one for each placement."""
    one = case(number, plan=plan)
    with tempfile.TemporaryDirectory() as folder:
        try:
            collc.compile(one.text, output=folder)
        except collc.CollcError as error:
            yield Written(one, None, str(error).partition("\n")[0])
            return
        for path in sorted(Path(folder).glob("*.json" if plan else "*.xml")):
            if not path.name.endswith(".ranks.json"):
                yield Written(one, path.read_bytes())


def emulated(one: Case, text: bytes | str, runs: int, seed: int = 0) -> Outcome:
    if one.plan:
        return judge_plan(text, root=one.root, runs=runs, seed=seed, coll=one.collective)
    return judge_file(text, profile=one.profile, root=one.root, runs=runs, seed=seed, coll=one.collective)


def checked(one: Case, text: bytes | str, folder: Path) -> tuple[str, frozenset[str]]:
    """What collc's check of the file or plan says: "ok", or the codes of its errors; and those of its warnings."""
    path = folder / ("mutant.json" if one.plan else "mutant.xml")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    root = one.root if one.root >= 0 else None
    if one.plan:
        verdict = check_plan(path, root=root, collective=one.collective)
    else:
        verdict = check_file(path, root=root, profile=one.profile, collective=one.collective)  # pyright: ignore[reportArgumentType]
    errors = {message.code for message in verdict.diagnostics if not message.warning}
    warnings = frozenset(message.code for message in verdict.diagnostics if message.warning)
    return "ok" if verdict.ok else " ".join(sorted(errors)), warnings


def compared(found: Written, seed: int, folder: Path) -> Compared:
    """A mutant of a file or plan, checked and emulated: in more orders if the check refuses it."""
    assert found.text is not None
    draw = random.Random(f"{found.case.name} {seed}")
    text, change = (mutated_plan if found.case.plan else mutated_file)(found.text, draw)
    codes, warnings = checked(found.case, text, folder)
    outcome = emulated(found.case, text, 8, seed)
    if codes != "ok" and outcome.kind == "right":
        outcome = emulated(found.case, text, MANY, seed + 1)
    return Compared(found.case, seed, change, codes, warnings, outcome)
