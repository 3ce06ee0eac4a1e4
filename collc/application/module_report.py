"""The report of one module: what `emit report` writes."""

from __future__ import annotations

from collc.application.file_verification import Expectation, verify_module
from collc.application.report_page import report_page, subject_section
from collc.application.report_subject import subject_of_module
from collc.application.settings import Progress
from collc.ten.module import Module


def report_of_module(module: Module, progress: Progress) -> str:
    """The page of one schedule as HTML, with its checks and bounds."""
    subject = subject_of_module(module, verify_module(module, Expectation()), progress)
    return report_page(module.name, [subject_section(subject)])
