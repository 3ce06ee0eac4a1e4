"""What all tests share: Hypothesis profiles, compiled kernels that test workers share, and campaigns.

The same tree gives the same result: Hypothesis takes fixed examples, and no result depends on how fast the machine is.
`pytest --hypothesis-profile new` takes new examples.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kernel_locks import share_compiled_kernels

for name, fixed in (("fixed", True), ("new", False)):
    settings.register_profile(name, derandomize=fixed, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """In a worker of a parallel run, share compiled kernels with the others."""
    if hasattr(config, "workerinput"):
        share_compiled_kernels()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is marked `sampled(n)`, mark all but every n-th as slow."""
    cases: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            if cases[test] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            cases[test] += 1
