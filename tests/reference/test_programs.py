"""The naive evaluator accepts all random programs (another module compares it with the elaborator)."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.reference.evaluator import evaluate
from tests.reference.programs import programs


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_random_programs_are_well_formed(text: str) -> None:
    schedule = evaluate(text).schedules()[0]
    assert schedule.runs
    for run in schedule.runs:
        assert len(set(run.group)) == len(run.group) >= 2
        for chunk in run.chunks:
            assert chunk.pre
            assert chunk.post
