"""The exit code after Ctrl-C. It is apart from `Exit` since it is read before the rest of collc is loaded."""

from __future__ import annotations

TYPE_CHECKING = False  # see collc/__init__.py
if TYPE_CHECKING:
    from typing import Final

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells."""
