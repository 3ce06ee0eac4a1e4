"""The mutation campaign for the schedule check: every mutation of valid schedules, compared with the interpreter.

`python -m tests.verification.campaign` prints how many of each kind were broken, recognised as harmless, and killed,
and by which codes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from collc.base.diagnostics import Diagnostic
from collc.ten.module import Module
from collc.verification import verify_schedule
from tests.verification.interpreter import interpret
from tests.verification.mutations import MUTATIONS
from tests.verification.random_modules import random_module

EACH = 120
"""Mutants of each kind."""


def outcomes(module: Module, large: int = 10**9) -> dict[str, bool]:
    return {name: outcome == "ok" for name, outcome in verify_schedule(module, large=large).checks.items()}


@dataclass
class Campaign:
    """For each mutation: how often it broke a schedule, was found, or was harmless; the failed checks and messages."""

    broken: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    harmless: Counter[str] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    diagnostics: dict[str, list[Diagnostic]] = field(default_factory=dict)
    codes: dict[str, set[str]] = field(default_factory=dict)

    def rate(self) -> str:
        return (
            f"{len(MUTATIONS)} mutations, {self.broken.total()} breaks, {self.harmless.total()} harmless, "
            f"kill rate {100 * self.killed.total() / self.broken.total():.2f} %"
        )

    def rows(self) -> Iterator[str]:
        for name in MUTATIONS:
            codes = " ".join(sorted(self.codes.get(name, ())))
            yield f"{name:28} {self.broken[name]:5} {self.harmless[name]:9} {self.killed[name]:7}  {codes}"

    def check(self, name: str, seed: int, mutant: Module) -> None:
        """Check one mutant; assert that the check and the interpreter agree on each property."""
        expected = interpret(mutant)
        verdict = verify_schedule(mutant, large=10**9)
        found = {check: outcome == "ok" for check, outcome in verdict.checks.items()}
        assert found == expected, (name, seed)
        if seed % 4 == 0:
            assert outcomes(mutant, large=0) == expected, (name, seed, "compiled")
        if all(expected.values()):
            self.harmless[name] += 1
            return
        self.broken[name] += 1
        self.killed[name] += not all(found.values())
        self.failed.update((name, check) for check, right in expected.items() if not right)
        for diagnostic in verdict.diagnostics:
            self.diagnostics.setdefault(diagnostic.code, []).append(diagnostic)
            self.codes.setdefault(name, set()).add(diagnostic.code)


@cache
def campaign() -> Campaign:
    good = [m for m in map(random_module, range(10_000, 10_900)) if all(interpret(m).values())]
    result = Campaign()
    for name, mutate in MUTATIONS.items():
        for seed, module in enumerate(good):
            if result.broken[name] + result.harmless[name] >= EACH:
                break
            mutant = mutate(module, random.Random(seed))
            if mutant is not None:
                result.check(name, seed, mutant)
    return result


if __name__ == "__main__":
    done = campaign()
    print(f"{'mutation':28} {'broke':>5} {'harmless':>9} {'killed':>7}  codes")
    print("\n".join(done.rows()))
    print(done.rate())
