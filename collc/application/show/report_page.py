"""The page of a report: summary, network, schedule, bytes per link and utilisation of each subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from collc.application.compile.compile_report import ScheduleReport
from collc.application.settings import Progress
from collc.application.show.report_subject import Subject, subject_of_report
from collc.base.tables import Table
from collc.base.units import format_time, percent, shown_bytes
from collc.pictures.link_use import LinkUse
from collc.pictures.network_picture import kind_label, network_picture
from collc.pictures.page import Block, Facts, Figure, Page, Panel, Remarks, Section
from collc.pictures.picture import Picture
from collc.pictures.schedule_pictures import SPANS, gantt_picture, load_map, ten_picture, utilisation_chart
from collc.ten.network import Network
from collc.version import __version__

_MEANINGS: Final[Mapping[str, str]] = {
    "causality": "each transfer starts when its source holds the chunk",
    "congestion_free": "no link carries two chunks at once",
    "delivered": "every NPU ends with what the collective demands",
    "reductions": "each contribution is added exactly once",
    "switches": "buffers, multicast and sums of switches are respected",
    "contract": "the file is what the runtime accepts",
    "result": "the file computes the collective",
    "deadlock": "nothing waits forever",
    "race": "no two accesses to one place conflict",
    "optimal": "no schedule is shorter",
    "proved": "Z3 proved all properties",
}
_QUEUES: Final = "messages meet on links and queue, as the program allows"
_BUSIEST: Final = 12
"""Links in the table of those that are busy longest."""


def report_page(title: str, sections: Sequence[Section], subtitle: str = "") -> str:
    """The HTML text of a report."""
    return Page(title, subtitle, sections, f"collc {__version__}").html()


def subject_section(subject: Subject) -> Section:
    """The section of a report about a schedule or a file."""
    failed = subject.failed_checks
    checked = sum(outcome == "ok" for outcome in subject.checks.values())
    badge = (f"failed: {', '.join(failed)}", "failed") if failed else (f"{checked} checks ok", "ok")
    panels = [Panel("Summary", _summary(subject))]
    if subject.network is not None:
        panels.append(Panel("Network", _network(subject.network)))
    if subject.use is not None and len(subject.use):
        panels += [
            Panel("Schedule", _schedule(subject.use)),
            Panel("Load", _load(subject.use)),
            Panel("Utilisation", _utilisation_blocks(subject, subject.use)),
        ]
    if subject.threadblocks is not None:
        caption = "A row for each threadblock, a box for each of its steps; of large files the first GPUs."
        panels.append(Panel("Threadblocks", [Figure(subject.threadblocks, caption)]))
    return Section(subject.name, subject.summary, badge, panels)


def report_of_schedule(report: ScheduleReport, network: Network, progress: Progress) -> str:
    """The page of one schedule as HTML, with the checks made so far and the bounds; nothing is checked again.

    network: of the program, whose switches the schedule may have replaced. Raises ValueError for a report without
    a module.
    """
    made = {name: outcome for name, outcome in report.checks.items() if outcome != "skipped"}
    subject = subject_of_report(replace(report, checks=made), network, progress)
    return report_page(report.name, [subject_section(subject)])


# Panels


def _summary(subject: Subject) -> list[Block]:
    blocks: list[Block] = []
    if subject.facts:
        blocks.append(Facts(subject.facts))
    if subject.messages:
        blocks.append(Remarks("Messages", subject.message_lines(), bad=bool(subject.failed_checks), code=True))
    rows = [
        (name, outcome, subject.reasons.get(name) or (_QUEUES if outcome == "allowed" else _MEANINGS.get(name, "")))
        for name, outcome in subject.checks.items()
    ]
    blocks.append(Table(("check", "outcome", "meaning"), rows, "Checks"))
    if subject.bounds:
        blocks.append(Table(("bound", "time", "set by", "schedule / bound"), subject.bounds, "Lower bounds"))
    if subject.notes:
        blocks.append(Remarks("Notes", subject.notes))
    ranks = [row for run in subject.ranks for row in run.rows()]
    if ranks:
        blocks.append(Table(("run", "rank", "NPU", "of the machine"), ranks, "Ranks of the files for runtimes"))
    return blocks


def topology_picture(network: Network) -> Picture:
    """The devices and links of a network."""
    return network_picture(network, title="Topology")


def _network(network: Network) -> list[Block]:
    counts = np.bincount(network.kind, minlength=len(network.kinds)).tolist()
    rows = [(kind_label(kind), str(count)) for kind, count in zip(network.kinds, counts, strict=True) if count]
    families = [
        (family.name, "x".join(map(str, family.shape)) or "1", "switch" if network.is_switch(family.first) else "NPU")
        for family in network.families
    ]
    blocks: list[Block] = [
        Figure(topology_picture(network), "Numbers are ranks. Each line stands for both directions."),
        Table(("name", "shape", "kind"), families, "Devices"),
        Table(("bandwidth and latency", "links"), rows, "Links (each direction counts)"),
    ]
    return blocks


def _schedule(use: LinkUse) -> list[Block]:
    return [
        Figure(
            ten_picture(use),
            "Each line is a transfer: from its source when it starts to its target when it arrives. "
            "Dashed lines are reduced into what the target holds.",
        ),
        Figure(gantt_picture(use), "Each bar is a chunk that occupies a link. Paler: added to what its target holds."),
    ]


def _load(use: LinkUse) -> list[Block]:
    order = np.argsort(-use.busy_per_link, kind="stable")[:_BUSIEST].tolist()
    rows = [
        (
            use.network.shown_link(link),
            shown_bytes(int(use.bytes_per_link[link])),
            format_time(int(use.busy_per_link[link])),
            percent(min(1.0, int(use.busy_per_link[link]) / max(1, use.time))),
        )
        for link in order
        if use.bytes_per_link[link]
    ]
    return [
        Figure(load_picture(use)),
        Figure(load_map(use), "Row: sender, column: receiver. Cells without colour have no link."),
        Table(("link", "bytes", "busy", "of the time"), rows, "Links that are busy longest"),
    ]


def load_picture(use: LinkUse) -> Picture:
    """The bytes of each link, on the network."""
    return network_picture(use.network, use.bytes_per_link, "Bytes per link on the topology")


_LONGEST: Final = 4
"""Times of the schedule that the picture of utilisation shows; some alternatives take far longer."""

_UTILISATION: Final = f"Mean over {SPANS} equal parts of the time. Latencies during which a link is free do not count."


def utilisation_picture(subject: Subject) -> Picture | None:
    """The share of links in use over time, of the schedule and of its alternatives."""
    use = subject.use
    if use is None or not len(use):
        return None
    curves = [("this schedule", use.time, use.utilisation(SPANS).tolist())]
    simulated = [(other.name, other.simulation) for other in subject.alternatives if other.simulation is not None]
    curves += [(name, found.time_ps, found.utilisation(SPANS).tolist()) for name, found in simulated]
    return utilisation_chart(curves, until=_LONGEST * use.time)


def _utilisation_blocks(subject: Subject, use: LinkUse) -> list[Block]:
    """The share of links in use, of the schedule and its alternatives, and a table of their times."""
    caption = _UTILISATION
    if any(other.simulation is not None for other in subject.alternatives):
        caption += f" Up to {_LONGEST} times the time of the schedule; all are simulated, and messages queue at links."
        caption += " Direct links in the place of switches count as links." if use.network.unwound else ""
    picture = utilisation_picture(subject)
    blocks: list[Block] = [] if picture is None else [Figure(picture, caption)]
    if subject.alternatives:
        columns = ("algorithm", "time", "against this schedule", "remark")
        rows = [("this schedule", format_time(use.time), "1.00 x", "")]
        for other in subject.alternatives:
            time = other.time_ps
            ratio = f"{time / use.time:.2f} x" if time is not None and use.time else "-"
            rows.append((other.name, "-" if time is None else format_time(time), ratio, other.reason))
        if not any(remark for *_, remark in rows):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        blocks.append(Table(columns, rows, "Alternatives on the same network"))
    if subject.remark:
        blocks.append(Remarks("Alternatives", [subject.remark]))
    return blocks
