"""The report of one schedule: what `emit report` writes."""

from __future__ import annotations

from dataclasses import replace

from collc.application.compile.compile_report import ScheduleReport
from collc.application.settings import Progress
from collc.application.show.report_page import report_page, subject_section
from collc.application.show.report_subject import subject_of_report
from collc.ten.network import Network


def report_of_schedule(report: ScheduleReport, network: Network, progress: Progress) -> str:
    """The page of one schedule as HTML, with the checks made so far and the bounds; nothing is checked again.

    network: that of the program, whose switches the schedule may have replaced. Raises ValueError for a report without
    a module.
    """
    made = {name: outcome for name, outcome in report.checks.items() if outcome != "skipped"}
    subject = subject_of_report(replace(report, checks=made), network, progress)
    return report_page(report.name, [subject_section(subject)])
