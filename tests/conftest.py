"""What all tests share: in CI, Hypothesis tries the same examples each time; elsewhere it goes on looking."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
