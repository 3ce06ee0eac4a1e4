"""What all tests share: fixed Hypothesis examples in CI, and compiled kernels that test workers share."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.kernel_locks import share_compiled_kernels

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    """In a worker of a parallel run, share compiled kernels with the others."""
    if hasattr(config, "workerinput"):
        share_compiled_kernels()
