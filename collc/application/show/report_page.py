"""A report as one page: summary, network, schedule, bytes per link and utilisation of each schedule or file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from collc.application.compile.compile_report import ScheduleReport
from collc.application.settings import Progress
from collc.application.verify.file_report import FileReport
from collc.base.diagnostics import Diagnostic, SourceError, fold_repeated, render
from collc.base.tables import Table
from collc.base.units import format_time, percent, shown_bytes
from collc.base.wording import in_short, phrase, plural
from collc.msccl.inspecting import DrawnStep, Inspection
from collc.pictures.charts import legend, rate_label
from collc.pictures.link_use import LinkUse, drawn_use, use_of_simulation
from collc.pictures.moving_picture import Clip, clip_of
from collc.pictures.network_picture import kind_label, network_picture
from collc.pictures.page import Block, Facts, Figure, Moving, Page, Panel, Remarks, Section
from collc.pictures.picture import MOST_MARKS, WIDTH, Picture, join_lines, mark, rect, text, text_width
from collc.pictures.schedule_pictures import SPANS, gantt_picture, load_map, ten_picture, utilisation_chart
from collc.simulation.bandwidth import bandwidths
from collc.ten.module import Module
from collc.ten.network import Network
from collc.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from collc.application.compile.compile_report import ScheduleReport
    from collc.application.simulate.module_simulation import Alternative
    from collc.emit.output import RunRanks
    from collc.pictures.link_use import LinkUse
    from collc.pictures.picture import Picture


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
_TOPOLOGY: Final = "Circles are NPUs, their numbers are ranks. Each line stands for both directions."
_TRANSFERS: Final = (
    "Each line is a transfer: from its source when it starts to its target when it arrives. "
    "Dashed lines are reduced into what the target holds."
)
_MOVING: Final = (
    "A line has a colour while its link is occupied, and a dot is the front of a chunk. An NPU is filled by the share "
    "of what it will receive. Point at an NPU, a link{} or choose an NPU with the arrow keys, to follow it; a click "
    "keeps it chosen, Escape lets it go."
)
_BARS: Final = "Each bar is a chunk that occupies a link. Paler: added to what its target holds."
_QUEUES: Final = "messages meet on links and queue, as the program allows"


def report_page(title: str, sections: Sequence[Section], subtitle: str = "") -> str:
    """The HTML text of a report."""
    return Page(title, subtitle, sections, f"collc {__version__}").html()


def subject_sections(subjects: Sequence[Subject], compared: bool) -> list[Section]:
    """The sections of a report about schedules and files. compared: whether the first shows all of them together."""
    clips = [clip_of(s.use, s.name) if s.use is not None and len(s.use) else None for s in subjects]
    sections = [_subject_section(subject, clip) for subject, clip in zip(subjects, clips, strict=True)]
    return [*([_comparison(subjects, [clip for clip in clips if clip is not None])] if compared else []), *sections]


def _comparison(subjects: Sequence[Subject], clips: Sequence[Clip]) -> Section:
    """Several schedules or files side by side on one clock, and their numbers."""
    first = next((subject.use.time for subject in subjects if subject.use is not None), 0)
    rows = [
        (
            subject.name,
            "-" if subject.use is None else format_time(subject.use.time),
            "-" if subject.use is None or not first else f"{subject.use.time / first:.2f} x",
            "-" if subject.use is None else f"{len(subject.use):,}",
            "failed" if subject.failed_checks else "ok",
        )
        for subject in subjects
    ]
    blocks: list[Block] = [Moving("Side by side", clips, _MOVING.format(","), together=True)] if len(clips) > 1 else []
    blocks.append(Table(("schedule", "time", "against the first", "transfers", "checks"), rows, "Times"))
    missing = [subject.name for subject in subjects if subject.use is None]
    if missing:
        blocks.append(Remarks("Left out", [f"No transfers are known of {phrase(missing)}: give --on and --size."]))
    return Section("Side by side", "All on one clock.", ("", ""), [Panel("Comparison", blocks)])


def _subject_section(subject: Subject, clip: Clip | None) -> Section:
    """The section of a report about a schedule or a file."""
    failed = subject.failed_checks
    checked = sum(outcome == "ok" for outcome in subject.checks.values())
    badge = (f"failed: {', '.join(failed)}", "failed") if failed else (f"{checked} checks ok", "ok")
    panels = [Panel("Summary", _summary(subject))]
    most = MOST_MARKS // 8  # 30 kB: the moving picture shows all
    if subject.network is not None:
        panels.append(Panel("Network", _network(subject.network)))
    if subject.use is not None and clip is not None:
        panels += [
            Panel(
                "Schedule",
                [
                    _moving_picture(subject, clip),
                    Figure(gantt_picture(subject.use, most=most), _BARS),
                    Figure(ten_picture(subject.use, most=most), _TRANSFERS),
                ],
            ),
            Panel("Load", _load(subject.use)),
            Panel("Utilisation", _utilisation_blocks(subject, subject.use, most)),
        ]
    if subject.threadblocks is not None:
        caption = "A row for each threadblock, a box for each of its steps; of large files the first GPUs."
        panels.append(Panel("Threadblocks", [Figure(subject.threadblocks, caption)]))
    return Section(subject.name, subject.summary, badge, panels)


def _moving_picture(subject: Subject, clip: Clip) -> Moving:
    """The chunks on their way; beside them, on request, the messages of the fastest alternative."""
    simulated = [(other.name, other.simulation) for other in subject.alternatives if other.simulation is not None]
    others = [clip_of(use_of_simulation(simulation), name, named=False) for name, simulation in simulated[:1]]
    return Moving("Chunks on their way", [clip, *others], _MOVING.format(" or a bar below,"))


def report_of_schedule(report: ScheduleReport, network: Network, progress: Progress) -> str:
    """The page of one schedule as HTML, with the checks made so far and the bounds; nothing is checked again.

    network: of the program, whose switches the schedule may have replaced. Raises ValueError for a report without
    a module.
    """
    made = {name: outcome for name, outcome in report.checks.items() if outcome != "skipped"}
    subject = subject_of_schedule(report.kept_module(), replace(report, checks=made), network, progress)
    return report_page(report.name, subject_sections([subject], compared=False))


def _summary(subject: Subject) -> list[Block]:
    blocks: list[Block] = []
    if subject.facts:
        blocks.append(Facts(subject.facts))
    if subject.use is not None:
        blocks.append(Figure(load_picture(subject.use)))
    elif subject.network is not None:
        blocks.append(Figure(topology_picture(subject.network), _TOPOLOGY))
    if subject.messages:
        blocks.append(
            Remarks(
                "Messages",
                [render(fold_repeated((m,))) for m in fold_repeated(subject.messages)],
                bad=bool(subject.failed_checks),
                code=True,
            )
        )
    rows = [
        (name, outcome, subject.reasons.get(name) or (_QUEUES if outcome == "allowed" else _MEANINGS.get(name, "")))
        for name, outcome in subject.checks.items()
    ]
    blocks.append(Table(("check", "outcome", "meaning"), rows, "Checks"))
    if subject.bounds:
        blocks.append(Table(("bound", "time", "set by", "schedule / bound"), subject.bounds, "Lower bounds"))
    if subject.notes:
        blocks.append(Remarks("Notes", subject.notes))
    if subject.ranks:
        rows = [run.row() for run in subject.ranks]
        blocks.append(Table(("run", "collective", "NPUs by rank"), rows, "Ranks of the files for runtimes"))
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
        Figure(topology_picture(network), _TOPOLOGY),
        Table(("name", "shape", "kind"), families, "Devices"),
        Table(("bandwidth and latency", "links"), rows, "Links (each direction counts)"),
    ]
    return blocks


def _load(use: LinkUse) -> list[Block]:
    order = np.argsort(-use.busy_per_link, kind="stable")[:10].tolist()
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
        Figure(load_map(use), "Row: sender, column: receiver. Cells without colour have no link."),
        Table(("link", "bytes", "busy", "of the time"), rows, "Links that are busy longest"),
    ]


def load_picture(use: LinkUse) -> Picture:
    """The bytes of each link, on the network."""
    return network_picture(use.network, use.bytes_per_link, "Bytes per link on the topology")


_UTILISATION: Final = f"Mean over {SPANS} equal parts of the time. Latencies during which a link is free do not count."


def utilisation_picture(subject: Subject, most: int = MOST_MARKS) -> Picture | None:
    """The share of links in use over time, of the schedule and of its alternatives. most: markers."""
    use = subject.use
    if use is None or not len(use):
        return None
    curves = [("this schedule", use.time, use.utilisation(SPANS).tolist())]
    simulated = [(other.name, other.simulation) for other in subject.alternatives if other.simulation is not None]
    curves += [(name, simulation.time_ps, simulation.utilisation(SPANS).tolist()) for name, simulation in simulated]
    return utilisation_chart(curves, until=4 * use.time, most=most)


def _utilisation_blocks(subject: Subject, use: LinkUse, most: int) -> list[Block]:
    """The share of links in use, of the schedule and its alternatives, and a table of their times."""
    caption = _UTILISATION
    if any(other.simulation is not None for other in subject.alternatives):
        caption += " Up to 4 times the time of the schedule; all are simulated, and messages queue at links."
        caption += " Direct links in the place of switches count as links." if use.network.unwound else ""
    picture = utilisation_picture(subject, most)
    blocks: list[Block] = [] if picture is None else [Figure(picture, caption)]
    if subject.alternatives:
        columns = ("algorithm", "time", "against this schedule", "remark")
        own = use.network.launch + use.time
        rows = [("this schedule", format_time(own), "1.00 x", "")]
        for other in subject.alternatives:
            time = other.time_ps
            ratio = f"{time / own:.2f} x" if time is not None and own else "-"
            rows.append((other.name, "-" if time is None else format_time(time), ratio, other.reason))
        if not any(remark for *_, remark in rows):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        blocks.append(Table(columns, rows, "Alternatives on the same network"))
    if subject.remark:
        blocks.append(Remarks("Alternatives", [subject.remark]))
    return blocks


MOST_NPUS: Final = 64
"""NPUs up to which alternatives are simulated: 3 s of CPU time; All-Reduce over 128 takes 11 s."""

Fact = tuple[str, str, str]
"""Name, value and remark."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One schedule or file.

    name, summary: in words. facts: its numbers. bounds: lower bounds of its time, as (what, time, what sets it, time of
    the schedule / bound). checks: the outcome of each check. reasons: why some were skipped. messages: errors and
    warnings. notes: remarks. ranks: of files for runtimes, by run. network: None for a file without one. use: when
    links carry what; None if that is not known. alternatives: what the schedule is compared with, by time. remark: why
    it is compared with nothing. threadblocks: of a file for a runtime.
    """

    name: str
    summary: str
    facts: tuple[Fact, ...]
    checks: Mapping[str, str]
    bounds: tuple[tuple[str, str, str, str], ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    messages: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    ranks: tuple[RunRanks, ...] = ()
    network: Network | None = None
    use: LinkUse | None = None
    alternatives: tuple[Alternative, ...] = ()
    remark: str = ""
    threadblocks: Picture | None = None

    @property
    def failed_checks(self) -> list[str]:
        """The checks that failed."""
        return [name for name, outcome in self.checks.items() if outcome == "failed"]


def subject_of_schedule(
    module: Module, report: ScheduleReport | FileReport, network: Network, progress: Progress | None
) -> Subject:
    """The subject of a module and its report.

    network: of the program, whose switches the schedule may have replaced. progress: None without alternatives.
    """
    checks, notes = report.checks, module.notes
    reasons: Mapping[str, str] = {}
    ranks: tuple[RunRanks, ...] = ()
    numbers: dict[str, Any]
    if isinstance(report, FileReport):
        numbers, reasons = dict(report.summary), report.skipped
    else:
        numbers, ranks, notes = report.as_json(), report.ranks, report.notes
    use, reason = drawn_use(module)
    bounds: list[tuple[str, str, str, str]] = []
    time = numbers.get("time_ps")
    for key, name in (("bound", "of any schedule with these chunks"), ("ideal", "ideal: of any schedule at all")):
        if (least := numbers.get(f"{key}_ps")) is not None:
            ratio = "met" if least == time else f"{time / least:.4f}" if time and least else "-"
            bounds.append((name, format_time(least), str(numbers[key]), ratio))
    alternatives: tuple[Alternative, ...] = ()
    remark = ""
    if progress is not None and use is not None and len(use) and "failed" not in checks.values():
        alternatives, remark = alternatives_of(module, network, progress)
    return Subject(
        name=module.name,
        summary=_module_summary(module),
        facts=_facts(module, numbers, checks.get("congestion_free") == "failed"),
        checks=checks,
        bounds=tuple(bounds),
        reasons=reasons,
        messages=report.diagnostics,
        notes=(*notes, reason) if reason else notes,
        ranks=ranks,
        network=module.network,
        use=use,
        alternatives=alternatives,
        remark=remark,
    )


def alternatives_of(module: Module, network: Network, progress: Progress) -> tuple[tuple[Alternative, ...], str]:
    """The alternatives to a schedule, by time; or none and the reason in words. network: of the program."""
    from collc.application.simulate.module_simulation import simulated_alternatives

    if len(network.npus) > MOST_NPUS:
        return (), f"Alternatives are simulated for up to {MOST_NPUS} NPUs here; 'collc compare' takes more."
    try:
        alternatives = list(simulated_alternatives(module, network, progress))
    except SourceError as error:
        return (), f"There are no alternatives: {error.diagnostics[0].message}."
    return tuple(sorted(alternatives, key=lambda one: (one.time_ps is None, one.time_ps or 0))), ""


def subject_of_program(
    path: Path, found: FileReport, threadblocks: Picture | None, use: LinkUse | None, size: int | None
) -> Subject:
    """The subject of a file for a runtime, its checks, and a simulation of it if there is one. size: its buffer."""
    facts: list[Fact] = []
    if use is not None:
        facts.append(("time", format_time(use.time), "simulated, congestion-aware"))
        facts += _bandwidths(str(found.summary.get("coll") or ""), size, use.time, len(use.network.npus))
    return Subject(
        name=str(found.summary.get("name") or path.name),
        summary=found.description() or f"{path.name}, {found.kind}",
        facts=tuple(facts),
        checks=found.checks,
        reasons=found.skipped,
        messages=found.diagnostics,
        network=None if use is None else use.network,
        use=use,
        threadblocks=threadblocks,
    )


def _module_summary(module: Module) -> str:
    kinds = Counter(
        f"{run.collective} of {shown_bytes(run.standard.size)}" if run.standard else run.collective
        for run in module.demand.runs
    )
    runs = in_short([f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items()])
    network = module.network
    return f"{runs} on {network.name} ({plural(len(network.npus), 'NPU')}, {plural(network.link_count, 'link')})"


def _facts(module: Module, numbers: Mapping[str, Any], congested: bool) -> tuple[Fact, ...]:
    """The numbers of a schedule with their names."""
    facts: list[Fact] = []
    time, bound, ideal = numbers.get("time_ps"), numbers.get("bound_ps"), numbers.get("ideal_ps")
    if time is not None:
        facts.append(("time", format_time(time), "not valid: links carry two chunks at once" if congested else ""))
    if bound is not None:
        facts.append(("lower bound", format_time(bound), "met" if bound == time else "with these chunks"))
    if ideal is not None and time and not congested:
        facts.append(("of ideal", percent(ideal / time), f"of {format_time(ideal)}, the ideal"))
    standard = module.demand.standard
    if time and standard is not None and not congested:
        facts += _bandwidths(standard.kind, standard.size, time, len(module.demand.runs[0].group))
    if numbers.get("steps") is not None:
        facts.append(("steps", str(numbers["steps"]), ""))
    if module.schedule is not None:
        facts.append(("transfers", f"{len(module.schedule):,}", plural(len(module.demand.chunks), "chunk")))
    facts.append(("made by", numbers.get("algorithm") or "-", f"link model {module.model.value}"))
    return tuple(facts)


def _bandwidths(collective: str, size: int | None, time: int, ranks: int) -> list[Fact]:
    """Algorithm and bus bandwidth as nccl-tests define them, if they are known."""
    rates = bandwidths(collective.replace("allreduce", "all_reduce"), size, ranks, time)
    names = (("algorithm bandwidth", "size / time"), ("bus bandwidth", "as nccl-tests define it"))
    return [
        (name, rate_label(float(rate)), remark)
        for (name, remark), rate in zip(names, rates, strict=True)
        if rate is not None
    ]


def threadblock_picture(contents: Inspection) -> Picture:
    """The threadblocks as rows of steps, coloured by operation; of large files the first 16 GPUs."""
    kinds_of_color: dict[int, list[str]] = {}
    for kind, color in contents.colors.items():
        kinds_of_color.setdefault(color, []).append(kind)
    entries = [(partial(_symbol, _look(color)), ", ".join(kinds)) for color, kinds in kinds_of_color.items()]
    parts, y = legend([*entries, (partial(_symbol, "hit awaited"), "others wait for it")])
    gpus = [contents.drawn(gpu) for gpu in range(len(contents.gpus))[:16]]
    cell, row_height = 46, 22
    rows = [row for gpu in gpus for row in gpu.rows]
    left = 34 + max((text_width(label, 10.5) for label, _ in rows), default=0)
    for gpu in gpus:
        parts.append(text(10, y + 18, gpu.heading))
        y += 26
        for label, steps in gpu.rows:
            parts.append(text(24, y + 14, label, "small"))
            parts += (
                _box(left + k * cell, y, cell - 3, row_height - 4, step, contents.colors[step.kind])
                for k, step in enumerate(steps)
            )
            y += row_height
    if len(gpus) < len(contents.gpus):
        y += 18
        parts.append(text(10, y, f"the first {len(gpus)} of {len(contents.gpus)} GPUs are drawn", "muted small"))
    width = max(WIDTH, left + max((len(steps) for _, steps in rows), default=0) * cell + 20)
    counts = f"{len(contents.gpus)} GPUs, {contents.totals['threadblocks']} threadblocks"
    return Picture(width, y + 12, join_lines(parts), f"{contents.name}: {contents.coll}", counts)


def _look(color: int) -> str:
    return f"f{color}" if color >= 0 else "box"


def _symbol(look: str, x: float, y: float) -> str:
    return rect(x + 8, y - 10, 14, 12, look)


def _box(x: float, y: float, width: float, height: float, step: DrawnStep, color: int) -> str:
    shape = rect(x, y, width, height, _look(color) + (" awaited" if step.awaited else ""))
    return mark(step.tip, shape + text(x + 3, y + 13, step.text, "over tiny"))
