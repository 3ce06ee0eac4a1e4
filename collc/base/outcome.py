"""The outcome of a check of a schedule or of a file."""

from __future__ import annotations

from typing import Literal

Outcome = Literal["ok", "failed", "skipped", "allowed"]
"""`skipped`: the check did not run, because an earlier one failed or because there was nothing to check. `allowed`:
messages meet on links and wait in their queues, as the program allows."""
