"""The commands about programs, schedules and files for runtimes."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from collc.application.file_kinds import titles, with_other_kind
from collc.application.show.picture_kinds import PICTURE_KINDS
from collc.base.diagnostics import Diagnostic, Exit, NoSchedule, SourceError, UsageError, printable
from collc.base.tables import Table
from collc.command import options as shared
from collc.command import values as read
from collc.command.options import command, flag, option, settings_of
from collc.command.terminal import Output, print_output, progress_bar
from collc.emit.kinds import EMIT_KINDS
from collc.passes.synthesizers import searching_synthesizers

if TYPE_CHECKING:
    from collc.application.compile.compile_report import CompileReport, ScheduleReport
    from collc.msccl.inspecting import Inspection

_KINDS = "also write this kind of file: " + ", ".join(EMIT_KINDS)
_SYNTHESIZER = "use this synthesizer in place of the program's: " + ", ".join(searching_synthesizers())
_PASSES = 'run these passes instead of the synthesizer\'s, as in "tacos{seed=7},invert,verify"'


class CompilationEnded(Exception):
    """`collc compile` ended early, for the reason in `__cause__`, after some schedules were compiled.

    report: of these schedules. As text it is already printed; as JSON it is not, since it goes into one object with the
    message about the reason.
    """

    def __init__(self, report: CompileReport) -> None:
        super().__init__()
        self.report: CompileReport = report


@command(
    "compile",
    "synthesize and verify the schedules of a program, and write their files",
    shared.PROGRAM,
    shared.FOLDER,
    shared.SCHEDULE,
    shared.DEFINITIONS,
    option("--emit KIND", _KINDS, lambda kind: kind.replace("++", "pp"), action="append", default=[]),
    option("--synthesizer, --algorithm NAME", _SYNTHESIZER),
    *shared.SYNTHESIZER_OPTIONS.values(),
    shared.CHUNKS,
    option("--passes PIPELINE", _PASSES),
    option("--print-after PASS", "print the module after this pass, as .ten", action="append", default=[]),
    flag("--prove", "prove all properties with Z3, and look for a shorter schedule"),
    option("--certificate FILE", "write the formulas given to Z3, as SMT-LIB text", read.new_file),
    shared.JSON,
    shared.QUIET,
    ends=False,
)
def compile_command(chosen: argparse.Namespace) -> Output:
    """`collc compile`. Raises CompilationEnded if it ends early and a schedule was compiled before."""
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
            print_output(_compile_output(partial, chosen), as_json=False, quiet=chosen.quiet)
        raise CompilationEnded(partial) from error
    return _compile_output(report, chosen)


def _compile_output(report: CompileReport, chosen: argparse.Namespace) -> Output:
    """The output of a compilation; only messages if modules were printed."""
    shown = not chosen.print_after
    notes = [f"{schedule.name}: {note}" for schedule in report.schedules for note in schedule.notes if shown]
    tables = [report.table()] if shown else []
    return Output(report.as_json, tables, notes=notes, diagnostics=report.all_diagnostics, exit=report.exit)


@command(
    "check",
    "check syntax, names, types and units of programs, without synthesis",
    shared.PROGRAMS,
    shared.DEFINITIONS,
    shared.JSON,
)
def check_command(chosen: argparse.Namespace) -> Output:
    """`collc check`: the messages about programs, without synthesis."""
    from collc.source.elaboration.elaborate import load_program

    messages: list[Diagnostic] = []
    code = Exit.DONE
    for file in chosen.files:
        try:
            load_program(file, dict(chosen.definitions))
        except (SourceError, NoSchedule) as error:
            named = with_other_kind(error.diagnostics, "check")
            code = max(code, error.exit if named is error.diagnostics else Exit.USAGE)
            messages += named
    return Output(dict[str, object], diagnostics=messages, exit=code)


@command(
    "verify",
    "check a schedule, an MSCCL file or an MSCCL++ plan of any origin",
    shared.RUNTIME_FILE.with_help(titles("verify")),
    shared.COLLECTIVE,
    shared.ROOT,
    shared.PROFILE,
    option("--program FILE.coll", "check the file against a schedule of this program", Path),
    shared.SCHEDULE.with_help("the schedule of that program"),
    shared.GPUS_PER_NODE.with_help("for an MSCCL++ plan: ranks of a node, which map each other's memory"),
    shared.JSON,
)
def verify_command(chosen: argparse.Namespace) -> Output:
    """`collc verify`: all checks of a file."""
    from collc.application.verify.file_verification import Expectation, verify_file

    report = verify_file(chosen.file, settings_of(Expectation, chosen))
    exit = Exit.DONE if report.ok else Exit.CHECK_FAILED  # noqa: A001 (as in Output)
    if report.unreadable:
        return Output(report.as_json, diagnostics=report.diagnostics, exit=exit)
    table = Table(("check", "outcome"), report.rows())
    return Output(report.as_json, [table], text=_wrap(report.description()), diagnostics=report.diagnostics, exit=exit)


def _wrap(text: str) -> str:
    return textwrap.fill(text, 80, break_long_words=False, break_on_hyphens=False)


@command(
    "run",
    "run an MSCCL file or an MSCCL++ plan on random data and compare with NumPy",
    shared.RUNTIME_FILE,
    option("--dtype TYPE", "type of the elements: float32 (default), int32, ...", default="float32"),
    option("--op OP", "reduction: sum, prod, max or min (default: what the file says, else sum)"),
    option("--count N", "elements, as NCCL counts them (default: a few)", read.positive),
    option("--runs N", "runs, each with its own data and timing", read.positive, default=1),
    option(
        "--transport",
        "what carries messages: memory (default: one thread, in a random order), threads (one for each threadblock; "
        "not for plans) or tcp (a process for each rank)",
        default="memory",
        choices=("memory", "threads", "tcp"),
    ),
    shared.COLLECTIVE,
    option("--seed N", "the seed of data and timing", read.number_from(0), default=0),
    shared.ROOT,
    shared.PROFILE,
    shared.JSON,
)
def run_command(chosen: argparse.Namespace) -> Output:
    """`collc run`: an MSCCL file or an MSCCL++ plan on random data, compared with NumPy."""
    from collc.application.run.file_runs import RunOptions, run_program

    report = run_program(chosen.file, **{name: getattr(chosen, name) for name in RunOptions.__annotations__})
    exit = Exit.DONE if report.ok else Exit.CHECK_FAILED  # noqa: A001 (as in Output)
    return Output(report.as_json, [Table(report.columns(), report.rows())], diagnostics=report.diagnostics, exit=exit)


@command(
    "fallback",
    "find the files that are ready for a failure, in the index that compile writes for 'failures'",
    option("file FILE.json", "the index, fallbacks.json", Path),
    option(
        "--dead NAME",
        "what failed, by its name or label, as in 'nic[3, 5]'; may be repeated",
        action="append",
        default=[],
    ),
    option("--slow NAME", "what is slow, not dead; may be repeated", action="append", default=[]),
    option("--ras FILE.json", "what failed, as NCCL's RAS reports it: 'ncclras -f json', with -m or without", Path),
    option("--link DIR", "make links to the files in this folder, in place of the links there", Path),
    shared.SCHEDULE,
    shared.JSON,
)
def fallback_command(chosen: argparse.Namespace) -> Output:
    """`collc fallback`: the plans for a failure, and the new ranks."""
    from collc.application.fallbacks.finding import find_fallbacks

    report = find_fallbacks(chosen.file, chosen.dead, chosen.ras, chosen.schedule, chosen.link, chosen.slow)
    return Output(report.as_json, [report.table()], notes=report.notes())


@command(
    "simulate",
    "simulate a schedule, or Chakra traces as ASTRA-sim does",
    shared.RUNTIME_FILE.with_help(titles("simulate")),
    option("--network FILE.yml", "the network, as a network file of ASTRA-sim", Path),
    shared.ON,
    shared.SIZE,
    shared.PROFILE,
    flag("--astra", "ASTRA-sim's truncated nanoseconds in place of exact picoseconds"),
    option(
        "--model",
        "whether messages queue at links: aware (default) or unaware, ASTRA-sim's two analytical models",
        choices=("aware", "unaware"),
        default="aware",
    ),
    shared.SYNTHESIZER_OPTIONS["link_model"].with_help(
        "when a link is free again, for traces and files for runtimes: pipelined (default) or store"
    ),
    shared.SCHEDULE,
    shared.DEFINITIONS,
    shared.JSON,
)
def simulate_command(chosen: argparse.Namespace) -> Output:
    """`collc simulate`: the time of a schedule or of Chakra traces on a network."""
    from collc.application.simulate.simulating import SimulationSettings, simulate_file
    from collc.ten.schedule import LinkModel

    link_model = None if chosen.link_model is None else LinkModel(chosen.link_model)
    report = simulate_file(chosen.file, settings_of(SimulationSettings, chosen, link_model=link_model))
    return Output(report.as_json, report.tables(), notes=report.notes)


@command(
    "lab",
    "run a schedule over rate-limited links of this machine, and compare its time with the plan (Linux, root)",
    shared.PROGRAM,
    option("--rate RATE", "of all links together (default: 300Mb/s), at most what the machine carries", read.rate_of),
    option("--seconds SECONDS", "how long the plan takes, which sets the size (default: 1)", read.seconds_of),
    option("--runs N", "runs that are measured (default: 3), after one that is not", read.positive),
    flag("--textbook", "also run textbook algorithms over these links"),
    flag("--gloo", "also run torch.distributed over gloo, on the same links and with as many bytes"),
    flag("--mpich", "also run MPICH, on the same links and with as many bytes"),
    option("--fail LINK", "take a link away during the run, as in 'link npu[0] -> npu[1]'"),
    option("--at SECONDS", "when, after the start (default: 0.5s)", read.seconds_of),
    shared.OUTPUT.with_help("write a page with the links over time, planned and measured", metavar="FILE.html"),
    shared.SCHEDULE,
    shared.DEFINITIONS,
    shared.JSON,
    shared.QUIET.with_help("show no progress", dest="without_progress"),
)
def lab_command(chosen: argparse.Namespace) -> Output:
    """`collc lab`: a schedule measured on an emulated network."""
    from collc.application.lab.lab import LabSettings, run_lab

    given = {name: value for name, value in vars(chosen).items() if value is not None}
    with progress_bar(chosen.without_progress) as progress:
        report = run_lab(chosen.file, settings_of(LabSettings, argparse.Namespace(**given)), progress)
    exit = Exit.DONE if report.ok else Exit.CHECK_FAILED  # noqa: A001 (as in Output)
    return Output(report.as_json, report.tables(), notes=report.notes(), exit=exit)


@command(
    "compare",
    "simulate a schedule and textbook algorithms on the same network",
    shared.RUNTIME_FILE.with_help("a program or a .ten file"),
    shared.SCHEDULE,
    shared.DEFINITIONS,
    shared.SVG.with_help("draw the times as bars"),
    shared.JSON,
    shared.QUIET.with_help("show no progress", dest="without_progress"),
)
def compare_command(chosen: argparse.Namespace) -> Output:
    """`collc compare`: a schedule against textbook algorithms and the ideal."""
    from collc.application.compare.comparing import compare_file
    from collc.base.atomic_files import write_file

    with progress_bar(chosen.without_progress) as progress:
        report = compare_file(chosen.file, chosen.schedule, dict(chosen.definitions), progress)
    if chosen.svg is not None:
        write_file(chosen.svg, report.svg())
    return Output(report.as_json, [report.table()], heading=report.title())


@command(
    "show",
    "write a report with pictures of a program, a schedule or a file for a runtime",
    option("files FILE", f"{titles('show')}; several are shown side by side", Path, nargs="+"),
    shared.OUTPUT.with_help(
        "the report (default: NAME.html, of several files comparison.html, without --svg or --png)", metavar="FILE.html"
    ),
    shared.SVG.with_help("write one picture"),
    option("--png FILE.png", "write one picture; needs the extra collc[png]", read.new_file),
    option("--picture", "which one (default: topology)", choices=PICTURE_KINDS.keys()),
    option("--theme", "the colours of that picture (default: light)", choices=("light", "dark")),
    shared.SCHEDULE,
    shared.DESIGN,
    shared.DEFINITIONS,
    shared.ON.with_help("the network on which an MSCCL file or a plan is simulated"),
    shared.SIZE,
    shared.PROFILE,
    shared.JSON,
    shared.QUIET,
)
def show_command(chosen: argparse.Namespace) -> Output:
    """`collc show`: a report or a picture."""
    from collc.application.show.showing import ShowSettings, show_files

    single = chosen.svg is not None or chosen.png is not None
    if not single and (chosen.picture is not None or chosen.theme is not None):
        name = "--picture" if chosen.picture is not None else "--theme"
        raise UsageError(Diagnostic("U0135", f"{name} is for single pictures", hint="name a file: --svg FILE.svg"))
    page = chosen.output
    if page is None and not single:
        stem = "comparison" if len(chosen.files) > 1 else chosen.files[0].stem
        page = Path("report.html" if chosen.files == [Path("-")] else f"{stem}.html")
    picture, theme = chosen.picture or "topology", chosen.theme or "light"
    with progress_bar(chosen.quiet) as progress:
        settings = settings_of(ShowSettings, chosen, page=page, picture=picture, theme=theme)
        shown = show_files(chosen.files, settings, progress)
    exit = Exit.DONE if shown.ok else Exit.CHECK_FAILED  # noqa: A001 (as in Output)
    return Output(
        shown.as_json,
        text="\n".join(printable(str(path)) for path in shown.files),
        diagnostics=shown.messages,
        exit=exit,
    )


@command(
    "inspect",
    "show what an MSCCL file or an MSCCL++ plan contains",
    shared.RUNTIME_FILE,
    shared.PROFILE,
    shared.SVG.with_help("draw a picture of the program"),
    shared.JSON,
)
def inspect_command(chosen: argparse.Namespace) -> Output:
    """`collc inspect`: the contents of an MSCCL file or an MSCCL++ plan."""
    from collc.application.file_kinds import call_for
    from collc.application.show.report_page import threadblock_picture
    from collc.base.atomic_files import write_file
    from collc.emit.output import names_of_ranks

    contents: Inspection = call_for(chosen.file, "inspect", chosen.profile)
    names = names_of_ranks(chosen.file, len(contents.gpus))
    if chosen.svg is not None:
        write_file(chosen.svg, threadblock_picture(contents).file())
    columns, rows = contents.table()
    if names:
        columns, rows = (*columns, "npu"), [(*row, name) for row, name in zip(rows, names, strict=True)]
    totals = _wrap(", ".join(f"{name} {value}" for name, value in contents.totals.items()))
    return Output(
        lambda: contents.as_json() | ({"names": list(names)} if names else {}),
        [Table(columns, rows)],
        text=totals,
        diagnostics=contents.warnings,
    )


@command(
    "fmt",
    "rewrite programs in the canonical layout",
    shared.PROGRAMS,
    flag("--check", "change no file; exit code 4 if one would change"),
    ends=False,
)
def fmt_command(chosen: argparse.Namespace) -> Exit:
    """`collc fmt`: the canonical layout of programs."""
    from collc.base.atomic_files import write_file
    from collc.base.reading import read_text
    from collc.source.formatting.format import format_source
    from collc.source.limits import MAX_BYTES

    code = Exit.DONE
    for path in chosen.files:
        source = read_text(path, limit=MAX_BYTES)
        text = format_source(source)
        if str(path) == "-" and not chosen.check:
            print(text, end="")
            continue
        if text == source.text:
            continue
        if chosen.check:
            print(printable(f"{path} would be reformatted"), file=sys.stderr)
            code = Exit.CHECK_FAILED
            continue
        write_file(path, text)
        print(printable(f"{path} reformatted"), file=sys.stderr)
    return code


@command(
    "std",
    "list the standard library, or print the source of one declaration",
    option("name NAME", "print the source of this one", nargs="?"),
    ends=False,
)
def std_command(chosen: argparse.Namespace) -> Exit:
    """`collc std`: the standard library, or the source of one of its declarations."""
    from collc.source.standard_library import std_entries, std_source

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


@command(
    "explain",
    "explain the code of a message",
    option("code CODE", "the code of a message, as in E0203"),
    ends=False,
)
def explain_command(chosen: argparse.Namespace) -> Exit:
    """`collc explain`: the explanation of a message's code."""
    from collc.codes.explain import explain

    print(explain(chosen.code))
    return Exit.DONE


@command(
    "serve",
    "answer requests for schedules on a network over HTTP (docs/planner.md)",
    option("network FILE.coll:TOPOLOGY", "the network, as a topology of a program"),
    option(
        "--host ADDRESS", "listen on this address (default: 127.0.0.1); any other needs a token", default="127.0.0.1"
    ),
    option("--port N", "listen on this port (default: 8765)", read.positive, default=8765),
    option("--socket PATH", "listen on a Unix socket instead", Path),
    option("--token-file FILE", "clients must present the first line of this file", Path),
    option("--cache DIR", "keep plans in this folder", Path),
    option("--memory BYTES", "of the plans in memory (default: 1GiB)", read.size_of, default=1 << 30),
    option("--body BYTES", "of a request, at most (default: 1MiB)", read.size_of, default=1 << 20),
    option("--answer-limit SECONDS", "for an answer (default: 30s)", read.seconds_of, default=30.0),
    option("--queue N", "plans that may wait (default: 64)", read.positive, default=64),
    ends=False,
)
def serve_command(chosen: argparse.Namespace) -> Exit:
    """`collc serve`. Raises UsageError U0164 without the extra collc[serve], U0165 without a token that is needed."""
    from collc.application.serve.starting import ServeSettings, start_server

    settings = settings_of(ServeSettings, chosen)
    start_server(chosen.network, settings, lambda text: print(text, file=sys.stderr, flush=True))
    return Exit.DONE


@command("lsp", "run the language server for editors, on standard input and output", ends=False)
def lsp_command(_chosen: argparse.Namespace) -> Exit:
    """`collc lsp`: the language server. Raises UsageError U0153 without the extra collc[lsp]."""
    try:
        from collc.editor.server import server
    except ModuleNotFoundError as error:
        if error.name not in {"pygls", "lsprotocol"}:
            raise
        hint = "install it: pip install 'collc[lsp]'"
        raise UsageError(Diagnostic("U0153", "the language server needs the package pygls", hint=hint)) from None
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # what anything else prints is no part of the protocol
        server.start_io(sys.stdin.buffer, output)
    return Exit.DONE
