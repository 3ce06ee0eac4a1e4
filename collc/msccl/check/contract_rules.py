"""How rules of the contract report what breaks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from collc.msccl.check.connections import Connections
from collc.msccl.check.findings import PER_CODE, FileLocation, Finding, Findings
from collc.msccl.check.model import FileProgram
from collc.ten.arrays import BoolArray

SHOWN: Final = PER_CODE + 1
"""Findings of one rule at most, so that the message "more of this kind" appears."""

Text = str | Callable[[int], str]
"""A text, or one for each row."""


@dataclass(frozen=True)
class ContractRules:
    """A program, and the findings to which broken rules are added.

    Arguments of the methods that report: `attribute` is the attribute that is wrong, `text` says what is wrong and
    `expected` what should be there; with `breaks` the program cannot be executed; `warning`: a runtime takes the file.
    """

    program: FileProgram
    connections: Connections
    findings: Findings

    def report(
        self,
        code: str,
        text: str,
        location: FileLocation,
        expected: str,
        *,
        breaks: bool = False,
        warning: bool = False,
        hint: str = "",
        also: tuple[tuple[str, FileLocation], ...] = (),
    ) -> None:
        """Report one location. also: other locations that matter, each with what it is."""
        self.findings.add(Finding("contract", code, text, location, expected, hint, warning, also), breaks=breaks)

    def report_rows(
        self,
        rows: BoolArray | dict[int, Any],
        location_of: Callable[[int, str], FileLocation],
        code: str,
        attribute: str,
        text: Text,
        expected: Text,
        *,
        breaks: bool = False,
        warning: bool = False,
    ) -> None:
        """Report rows of a table, given by a mask or as the keys of a dict."""
        chosen: list[int] = list(rows) if isinstance(rows, dict) else np.flatnonzero(rows).tolist()
        for row in chosen[: SHOWN * 4]:
            words = (words if isinstance(words, str) else words(row) for words in (text, expected))
            self.report(code, next(words), location_of(row, attribute), next(words), breaks=breaks, warning=warning)
