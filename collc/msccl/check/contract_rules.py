"""The base of all rules of the contract: the program, its connections, and how broken rules are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.msccl.check.connections import Connections
from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check.model import FileProgram
from collc.ten.arrays import BoolArray

SHOWN: Final = 13
"""Findings of one rule at most: one more than `findings.PER_CODE`, so that the message "more of this kind" appears."""


@dataclass
class ContractRules:
    """A program, and the findings to which broken rules are added. profile: "executor", "old" or "rccl".

    Arguments of the methods that report: `attribute` is the attribute that is wrong, `text` says what is wrong and
    `expected` what should be there; with `breaks` the program cannot be executed; `warning`: a runtime takes the file.
    """

    program: FileProgram
    connections: Connections
    findings: Findings
    profile: str

    def report_algo(
        self,
        attribute: str,
        text: str,
        expected: str,
        *,
        breaks: bool = False,
        warning: bool = False,
        hint: str = "",
        code: str = "X0110",
    ) -> None:
        """Report the algo element."""
        location = self.program.algo_attribute(attribute)
        self.report(code, text, location, expected, breaks=breaks, warning=warning, hint=hint)

    def report_threadblocks(
        self, wrong: BoolArray, code: str, attribute: str, text: str | Callable[[int], str], expected: str
    ) -> None:
        """Report every threadblock with True in `wrong`; text may depend on the row."""
        for row in np.flatnonzero(wrong).tolist()[:SHOWN]:
            message = text if isinstance(text, str) else text(row)
            location = self.program.tb_location(row, attribute)
            self.report(code, message, location, expected, breaks=code == "X0111")

    def report_steps(
        self,
        wrong: BoolArray,
        code: str,
        attribute: str,
        text: str | Callable[[int], str],
        expected: str | Callable[[int], str],
        *,
        breaks: bool = False,
        warning: bool = False,
    ) -> None:
        """Report every step with True in `wrong`; text and expected may depend on the row."""
        for row in np.flatnonzero(wrong).tolist()[: SHOWN * 4]:
            message = text if isinstance(text, str) else text(row)
            rule = expected if isinstance(expected, str) else expected(row)
            location = self.program.step_location(row, attribute)
            self.report(code, message, location, rule, breaks=breaks, warning=warning)

    def report(
        self,
        code: str,
        message: str,
        location: FileLocation,
        expected: str,
        *,
        breaks: bool = False,
        warning: bool = False,
        hint: str = "",
        also: tuple[tuple[str, FileLocation], ...] = (),
    ) -> None:
        """Report one location. also: other locations that matter, each with what it is."""
        self.findings.add(Finding("contract", code, message, location, expected, hint, warning, also), breaks=breaks)
