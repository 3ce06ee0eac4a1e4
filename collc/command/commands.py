"""The commands, after their arguments were parsed."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collc.base.diagnostics import Diagnostic, Exit, NoSchedule, SourceError, UsageError
from collc.base.interrupts import OutOfTime, ended_after
from collc.command.arguments import ENDED
from collc.command.machine_commands import calibrate_command, import_command, topology_command
from collc.command.terminal import print_json, print_messages, print_table, progress_bar
from collc.command.values import settings_of

if TYPE_CHECKING:
    from collc.application.compile.compile_report import CompileReport, ScheduleReport
    from collc.msccl.inspecting.inspection import Inspection


class CompilationEnded(Exception):
    """`collc compile` ended early, for the reason in `__cause__`, after some schedules were compiled.

    report: those schedules. As text it is already printed; as JSON it is not, since it goes into one object with the
    message about the reason.
    """

    def __init__(self, report: CompileReport) -> None:
        super().__init__()
        self.report: CompileReport = report


def compile_command(chosen: argparse.Namespace) -> Exit:
    """`collc compile`. Raises CompilationEnded where it ends early and a schedule was compiled before."""
    from collc.application.compile.compilation import compile_program
    from collc.application.compile.compile_report import CompileReport
    from collc.application.settings import Callbacks, Settings

    settings = settings_of(Settings, chosen, only=chosen.schedule, write_shorter=True, keep_best=True)
    finished: list[ScheduleReport] = []
    try:
        with progress_bar(chosen.quiet) as progress:
            report = compile_program(chosen.file, settings, Callbacks(progress, print, finished.append))
    except (Exception, KeyboardInterrupt) as error:
        if not finished:
            raise
        partial = CompileReport(tuple(finished))
        if not chosen.json:
            print_report(partial, chosen)
        raise CompilationEnded(partial) from error
    print_report(report, chosen)
    return report.exit


def print_report(report: CompileReport, chosen: argparse.Namespace) -> None:
    """Print the report of a compilation: JSON or a table on stdout, notes and messages on stderr."""
    from collc.application.compile.compile_report import COLUMNS
    from collc.base.rendering import printable

    messages = report.all_diagnostics
    if chosen.json:
        print_json(report.as_json(), messages)
    elif not chosen.quiet and not chosen.print_after and report.schedules:
        print_table(COLUMNS, [schedule.cells() for schedule in report.schedules])
        for schedule in report.schedules:
            for note in schedule.notes:
                print(printable(f"{schedule.name}: {note}"), file=sys.stderr)
    print_messages(messages)


def check_command(chosen: argparse.Namespace) -> Exit:
    """`collc check`: the messages about a program, without synthesis."""
    from collc.source.elaboration.elaborate import load_program

    diagnostics: tuple[Diagnostic, ...] = ()
    code = Exit.DONE
    try:
        load_program(chosen.file, dict(chosen.definitions))
    except (SourceError, NoSchedule) as error:
        diagnostics, code = error.diagnostics, error.exit
    if chosen.json:
        print_json({}, diagnostics)
    print_messages(diagnostics)
    return code


def verify_command(chosen: argparse.Namespace) -> Exit:
    """`collc verify`: all checks of a file."""
    from collc.application.verify.file_verification import Expectation, verify_file

    expected = Expectation(
        chosen.collective, chosen.root, chosen.profile, chosen.program, chosen.schedule, chosen.gpus_per_node
    )
    report = verify_file(chosen.file, expected)
    if chosen.json:
        print_json(report.as_json(), report.diagnostics)
    elif not report.unreadable:
        print_table(("check", "outcome"), report.rows())
        if description := report.description():
            print(textwrap.fill(description, 80, break_long_words=False, break_on_hyphens=False))
    print_messages(report.diagnostics)
    return Exit.DONE if report.ok else Exit.CHECK_FAILED


def design_command(chosen: argparse.Namespace) -> Exit:
    """`collc design`: the best bandwidths for the designs of a program, or the parts of a network."""
    from collc.application.design.design_report import COLUMNS
    from collc.application.design.designs import DesignSettings, solve_designs

    parts = [chosen.gpus, chosen.radix, chosen.domain]
    if chosen.network is not None and chosen.file is None:
        return _network_command(chosen)
    if chosen.file is None or chosen.network is not None or any(parts):
        message = "'collc design' takes a program, or --network with --gpus"
        raise UsageError(Diagnostic("U0119", message, hint="as in: collc design --network rail_only --gpus 32768"))
    report = solve_designs(chosen.file, DesignSettings(chosen.output, chosen.design, dict(chosen.definitions)))
    if chosen.json:
        print_json(report.as_json(compare=chosen.compare), report.diagnostics)
    else:
        rows = [row for design in report.designs for row in design.rows(compare=chosen.compare)]
        if rows:
            print_table(COLUMNS, rows)
    print_messages(report.diagnostics)
    return report.exit


def _network_command(chosen: argparse.Namespace) -> Exit:
    """`collc design --network`: the parts, cost and power of a network."""
    from collc.application.topology.network_parts import COLUMNS, priced_networks

    found = priced_networks(chosen.network, chosen.gpus, chosen.radix, chosen.domain)
    if chosen.json:
        print_json({"networks": [network.as_json() for network in found]})
    else:
        print_table(COLUMNS, [network.cells() for network in found])
    return Exit.DONE


def fmt_command(chosen: argparse.Namespace) -> Exit:
    """`collc fmt`: the canonical layout of programs."""
    from collc.base.atomic_files import write_file
    from collc.base.reading import read_text
    from collc.source.formatting.format import format_source
    from collc.source.parsing.parse import MAX_BYTES

    code = Exit.DONE
    for path in chosen.files:
        source = read_text(path, limit=MAX_BYTES)
        text = format_source(source)
        if text == source.text:
            continue
        if chosen.check:
            print(f"{path} would be reformatted", file=sys.stderr)
            code = Exit.CHECK_FAILED
            continue
        write_file(path, text)
        print(f"{path} reformatted", file=sys.stderr)
    return code


def std_command(chosen: argparse.Namespace) -> Exit:
    """`collc std`: the standard library, or the source of one of its declarations."""
    from collc.source.std_listing import std_entries, std_source

    if chosen.name is not None:
        print(std_source(chosen.name))
        return Exit.DONE
    entries = std_entries()
    wide = max(len(entry.signature) for entry in entries if len(entry.signature) < 50)
    module = ""
    for entry in entries:
        if entry.module != module:
            module = entry.module
            print(f"\n{module}" if module else module)
        print(f"  {entry.signature:<{wide}}  {entry.summary}")
    return Exit.DONE


def explain_command(chosen: argparse.Namespace) -> Exit:
    """`collc explain`: the explanation of a message's code."""
    from collc.codes.explain import explain

    print(explain(chosen.code))
    return Exit.DONE


def run_command(chosen: argparse.Namespace) -> Exit:
    """`collc run`: an MSCCL file or an MSCCL++ plan on random data, compared with NumPy."""
    from collc.application.run.file_runs import COLUMNS, run_program

    found = run_program(
        chosen.file,
        dtype=chosen.dtype,
        count=chosen.count,
        seed=chosen.seed,
        runs=chosen.runs,
        op=chosen.op,
        collective=chosen.collective,
        root=chosen.root,
        profile=chosen.profile,
        threads=chosen.threads,
    )
    if chosen.json:
        print_json(found.as_json(), found.diagnostics)
    else:
        print_table(COLUMNS, found.rows())
    print_messages(found.diagnostics)
    return Exit.DONE if found.ok else Exit.CHECK_FAILED


def inspect_command(chosen: argparse.Namespace) -> Exit:
    """`collc inspect`: the contents of an MSCCL file or an MSCCL++ plan."""
    from collc.application.file_kinds import call_for
    from collc.application.rank_names import names_of_ranks
    from collc.base.atomic_files import write_file

    found: Inspection = call_for(chosen.file, "inspect", chosen.profile)
    names = names_of_ranks(chosen.file, len(found.gpus))
    if chosen.svg is not None:
        write_file(chosen.svg, found.svg())
    if chosen.json:
        print_json(found.as_json() | ({"names": list(names)} if names else {}), found.warnings)
        return Exit.DONE
    columns, rows = found.table()
    if names:
        columns, rows = (*columns, "npu"), [(*row, name) for row, name in zip(rows, names, strict=True)]
    print_table(columns, rows)
    totals = ", ".join(f"{name} {value}" for name, value in found.totals.items())
    print(textwrap.fill(totals, 80, break_long_words=False, break_on_hyphens=False))
    print_messages(found.warnings)
    return Exit.DONE


def simulate_command(chosen: argparse.Namespace) -> Exit:
    """`collc simulate`: the time of a schedule or of Chakra traces on a network."""
    from collc.application.simulate.simulating import SimulationSettings, simulate_file
    from collc.application.simulate.simulation_report import COLUMNS, LINK_COLUMNS
    from collc.ten.schedule import LinkModel

    link_model = None if chosen.link_model is None else LinkModel(chosen.link_model)
    found = simulate_file(chosen.file, settings_of(SimulationSettings, chosen, link_model=link_model))
    if chosen.json:
        print_json(found.as_json())
        return Exit.DONE
    print_table(COLUMNS, list(found.rows()))
    if rows := found.link_rows():
        print_table(LINK_COLUMNS, rows)
    return Exit.DONE


def compare_command(chosen: argparse.Namespace) -> Exit:
    """`collc compare`: a schedule against textbook algorithms and the ideal."""
    from collc.application.compare.comparing import CompareSettings, compare_file
    from collc.application.compare.comparison_report import COLUMNS
    from collc.base.atomic_files import write_file

    with progress_bar(chosen.quiet) as progress:
        found = compare_file(chosen.file, settings_of(CompareSettings, chosen), progress)
    if chosen.svg is not None:
        write_file(chosen.svg, found.svg())
    if chosen.json:
        print_json(found.as_json())
    else:
        print(found.title())
        print_table(COLUMNS, list(found.rows()))
    return Exit.DONE


def sweep_command(chosen: argparse.Namespace) -> Exit:
    """`collc sweep`: a program for all combinations of values of its params, algorithms and seeds."""
    from collc.application.sweep.sweep_chart import SweepPlot
    from collc.application.sweep.sweeping import SweepSettings, sweep_program
    from collc.parallel.processes import Processes

    definitions: dict[str, tuple[str, ...]] = {}
    for name, values in chosen.definitions:
        definitions[name] = (*definitions.get(name, ()), *values)
    settings = settings_of(
        SweepSettings,
        chosen,
        definitions=tuple(definitions.items()),
        algorithms=tuple(chosen.algorithm),
        seeds=tuple(chosen.seed),
        plot=None if chosen.plot is None else SweepPlot(chosen.plot, chosen.plot_x, chosen.plot_y),
        processes=Processes(chosen.jobs, chosen.memory),
    )
    with progress_bar(chosen.quiet) as progress:
        report = sweep_program(chosen.file, settings, progress)
    if chosen.json:
        print_json({"rows": report.table.rows}, report.failures())
    elif not chosen.quiet:
        print_table(report.table.columns(), report.table.cells())
        for note in report.notes:
            print(note, file=sys.stderr)
    print_messages(report.failures())
    return report.exit


def show_command(chosen: argparse.Namespace) -> Exit:
    """`collc show`: a report or a picture."""
    from collc.application.show.showing import ShowSettings, show_file

    single = chosen.svg is not None or chosen.png is not None
    if not single and (chosen.picture is not None or chosen.theme is not None):
        option = "--picture" if chosen.picture is not None else "--theme"
        raise UsageError(Diagnostic("U0135", f"{option} is for single pictures", hint="name a file: --svg FILE.svg"))
    page = chosen.output
    if page is None and not single:
        page = Path("report.html" if chosen.file == Path("-") else f"{chosen.file.stem}.html")
    picture, theme = chosen.picture or "topology", chosen.theme or "light"
    settings = settings_of(ShowSettings, chosen, page=page, picture=picture, theme=theme)
    with progress_bar(chosen.quiet) as progress:
        shown = show_file(chosen.file, settings, progress)
    if chosen.json:
        print_json(shown.as_json(), shown.messages)
    elif not chosen.quiet:
        print("\n".join(map(str, shown.files)))
    print_messages(shown.messages)
    return Exit.DONE if shown.ok else Exit.CHECK_FAILED


def tune_command(chosen: argparse.Namespace) -> Exit:
    """`collc tune`: files for all sizes of a collective."""
    from collc.application.tune.tuning import TuningSettings, tune_program
    from collc.application.tune.tuning_report import COLUMNS
    from collc.msccl.options import Profile
    from collc.parallel.processes import Processes
    from collc.tuning.protocols import DEFAULT_COSTS

    costs = {cost.name: cost for cost in chosen.protocol or DEFAULT_COSTS.values()}
    settings = settings_of(
        TuningSettings,
        chosen,
        definitions=tuple(dict(chosen.definitions).items()),
        kinds=tuple(chosen.emit),
        profile=Profile(chosen.profile),
        algorithms=tuple(chosen.algorithm),
        costs=tuple(costs.values()),
        processes=Processes(chosen.jobs, chosen.memory),
    )
    with progress_bar(chosen.quiet) as progress:
        report = tune_program(chosen.file, settings, progress)
    if chosen.json:
        print_json(report.as_json() | {"files": list(report.files)}, report.diagnostics)
    elif not chosen.quiet:
        print_table(COLUMNS, list(report.rows()))
        for note in report.notes:
            print(note, file=sys.stderr)
    print_messages(report.diagnostics)
    return Exit.DONE


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], Exit]]] = {
    "compile": compile_command,
    "check": check_command,
    "verify": verify_command,
    "run": run_command,
    "simulate": simulate_command,
    "compare": compare_command,
    "sweep": sweep_command,
    "show": show_command,
    "tune": tune_command,
    "calibrate": calibrate_command,
    "inspect": inspect_command,
    "design": design_command,
    "topology": topology_command,
    "import": import_command,
    "fmt": fmt_command,
    "std": std_command,
    "explain": explain_command,
}


def run(chosen: argparse.Namespace) -> Exit:
    """Run the chosen command; returns its exit code. Raises CollcError, NoSchedule S0207 where its time is over."""
    command = COMMANDS[chosen.command]
    if chosen.command not in ENDED or chosen.time_limit is None:
        return command(chosen)
    try:
        with ended_after(chosen.time_limit):
            return command(chosen)
    except OutOfTime:
        message = f"stopped at the time limit of {chosen.time_limit:g} s: there is no answer yet"
        hint = "give it more time with --time-limit, or use a smaller file"
        raise NoSchedule(Diagnostic("S0207", message, hint=hint)) from None
