"""The outcome of a check, the same type for schedules, for files and in reports."""

from __future__ import annotations

from typing import Literal

Outcome = Literal["ok", "failed", "skipped"]
"""`skipped`: the check was not made, because an earlier one failed or because there was nothing to check."""
