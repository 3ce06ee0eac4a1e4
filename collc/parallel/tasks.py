"""What runs tasks: a function that is named, because a process that begins anew must find it, and its arguments."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Lost:
    """A task without a result: its process ended each time that it was tried. reason: in words."""

    reason: str


def named_function(name: str) -> Callable[[Any], Any]:
    """The function of a module, as in "collc.application.sweep.sweep_case:run_case"."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def run_named(name: str, task: object) -> object:
    """Run the function of that name."""
    return named_function(name)(task)
