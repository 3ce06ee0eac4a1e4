"""Tests run kernels in plain Python, or all of them compiled."""

from __future__ import annotations

import pytest

from collc.kernels import compiled


def choose_kernels(patch: pytest.MonkeyPatch, compile_them: bool) -> None:
    """Let all kernels run compiled, or none."""
    patch.setattr(compiled, "MOST_PLAIN", -1 if compile_them else 1 << 62)
    patch.setattr(compiled, "_REQUESTED", set())
