"""The commands about many sizes and cases (sweep, tune), and about machines and networks."""

from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from pathlib import Path

from collc.base.diagnostics import Diagnostic, Exit, UsageError, printable
from collc.command import options as shared
from collc.command import values as read
from collc.command.options import command, flag, option, settings_of
from collc.command.terminal import Output, progress_bar


@command(
    "sweep",
    "compile a program for all combinations of params, algorithms and seeds",
    shared.PROGRAM,
    shared.DEFINITIONS.with_help(
        "values of a param of the program, as in -D size=1MiB,16MiB; may be repeated for other params",
        type=read.values_of,
        metavar="name=v1,v2",
    ),
    shared.SYNTHESIZERS,
    option(
        "--seed N,M", "the seeds of all random choices", read.list_of(read.number_from(0)), dest="seeds", default=[]
    ),
    shared.CHUNKS.with_help(
        "chunks per block, for all runs that take chunks", type=read.list_of(read.chunks_of), default=[]
    ),
    shared.SCHEDULE,
    *(declared for name, declared in shared.SYNTHESIZER_OPTIONS.items() if name != "seed"),
    shared.OUTPUT.with_help(
        "the table: its name ends in .csv, .json or .parquet; beside it is the journal while the sweep runs",
        metavar="FILE",
    ),
    option("--plot FILE.svg", "draw time or bandwidth against a param", read.new_file),
    option("--plot-x PARAM", "the param (default: the first one with several numbers)"),
    option("--plot-y", "what is drawn (default: bandwidth if it is known)", choices=("time", "bandwidth")),
    flag("--timings", "add the CPU seconds of each case to the table"),
    *shared.PROCESSES,
    shared.JSON,
    shared.QUIET,
    ends=False,
)
def sweep_command(chosen: argparse.Namespace) -> Output:
    """`collc sweep`: a program for all combinations of values of its params, algorithms and seeds."""
    from collc.application.sweep.sweep_table import SweepPlot
    from collc.application.sweep.sweeping import SweepSettings, sweep_program
    from collc.parallel.processes import Processes

    definitions: dict[str, tuple[str, ...]] = {}
    for name, values in chosen.definitions:
        definitions[name] = (*definitions.get(name, ()), *values)
    settings = settings_of(
        SweepSettings,
        chosen,
        definitions=tuple(definitions.items()),
        plot=None if chosen.plot is None else SweepPlot(chosen.plot, chosen.plot_x, chosen.plot_y),
        processes=Processes(chosen.jobs, chosen.memory, chosen.scheduler),
    )
    with progress_bar(chosen.quiet) as progress:
        report = sweep_program(chosen.file, settings, progress)
    table = report.table
    return Output(
        lambda: {"rows": table.rows},
        [table.table()],
        notes=report.notes,
        diagnostics=report.failures(),
        exit=report.exit,
    )


@command(
    "tune",
    "find the best schedule for every size, and write files for all of them",
    shared.PROGRAM,
    shared.FOLDER.with_help("folder for all files", required=True),
    option("--sizes LOW..HIGH", "default: 1KiB..4GiB", read.size_range_of, default=(2**10, 2**32)),
    shared.SCHEDULE,
    shared.DEFINITIONS,
    option(
        "--emit KIND",
        "kinds of files, of msccl, mscclpp and run (default: msccl,mscclpp)",
        read.list_of(
            read.reader("a kind of file is msccl, mscclpp or run", {k: k for k in ("msccl", "mscclpp", "run")}.get)
        ),
        dest="kinds",
        default=["msccl", "mscclpp"],
    ),
    shared.PROFILE.with_help("the runtime of MSCCL files: executor (default) or rccl", choices=("executor", "rccl")),
    shared.SYNTHESIZERS.with_help(
        "what is tried (default: what the program says, auto, and the algorithms of std.algorithms)"
    ),
    shared.CHUNKS.with_help(
        "chunks per block that are tried", type=read.list_of(read.positive), default=[], metavar="N,M"
    ),
    option("--instances N,M", "instances that are tried", read.list_of(read.channels_of), default=[]),
    option("--channels N,M", "most channels that are tried", read.list_of(read.channels_of), default=[None]),
    option(
        "--protocol P",
        "a protocol that is tried, and its cost: share of the bandwidth and start-up cost of a message, as in "
        "LL=1/2:0us",
        read.protocol_cost_of,
        action="append",
        default=[],
    ),
    option(
        "--tolerance SHARE",
        "how much slower than the best file one may be, so that fewer files suffice (default: 0.02)",
        read.share_of,
        default=Fraction(1, 50),
    ),
    option(
        "--dtype TYPE", "the type of the elements that run files are for, as NumPy calls it (default: any)", default=""
    ),
    shared.SYNTHESIZER_OPTIONS["seed"],
    *shared.PROCESSES,
    shared.JSON,
    shared.QUIET,
)
def tune_command(chosen: argparse.Namespace) -> Output:
    """`collc tune`: files for all sizes of a collective."""
    from collc.application.tune.tuning import TuningSettings, tune_program
    from collc.msccl.options import Profile
    from collc.parallel.processes import Processes
    from collc.tuning.protocols import DEFAULT_COSTS

    costs = {cost.name: cost for cost in chosen.protocol or DEFAULT_COSTS.values()}
    settings = settings_of(
        TuningSettings,
        chosen,
        definitions=tuple(dict(chosen.definitions).items()),
        profile=Profile(chosen.profile),
        costs=tuple(costs.values()),
        processes=Processes(chosen.jobs, chosen.memory, chosen.scheduler),
    )
    with progress_bar(chosen.quiet) as progress:
        report = tune_program(chosen.file, settings, progress)
    return Output(
        lambda: report.as_json() | {"files": list(report.files)},
        [report.table()] if report.ranges else [],
        notes=report.notes,
        diagnostics=report.diagnostics,
    )


@command(
    "calibrate",
    "fit the latency and bandwidth of a link, and what messages and launches cost, to measurements",
    option(
        "files FILE",
        "what sendrecv_perf or another test of nccl-tests printed (mscclpp-test, or 'collc lab --json'); - for stdin; "
        "several are fitted together",
        Path,
        nargs="+",
    ),
    shared.OUTPUT.with_help("write the lets to this file (default: print them)"),
    option("--name", "the link class: the names of the lets begin with it", read.identifier_of, default="link"),
    option(
        "--collective",
        "the test (default: what the file says, else sendrecv)",
        choices=("sendrecv", "all_reduce", "all_gather", "reduce_scatter", "alltoall"),
    ),
    option(
        "--algorithm",
        "how the test runs, to fit the launch and overhead too (default with several files: ring)",
        choices=("ring", "two_shot", "one_shot"),
    ),
    option("--ranks N", "ranks of the test (default: those that the file lists)", read.number_from(2)),
    option(
        "--launch TIME",
        "launch overhead of each call, which is not part of the latency of links, as in 3us",
        read.duration_of,
        default=0.0,
    ),
    option(
        "--hops N",
        "links between two ranks, as 2 over an NVSwitch: the latency is that of one (default: 1)",
        read.positive,
        default=1,
    ),
    option("--sizes LOW..HIGH", "fit only these sizes", read.size_range_of, default=(0, 2**62)),
    flag("--in-place", "fit the times in place (default: out of place)"),
    shared.JSON,
)
def calibrate_command(chosen: argparse.Namespace) -> Output:
    """`collc calibrate`: the latency and bandwidth of a link, and what messages cost, as lets that programs import."""
    from collc.application.tune.calibration import CalibrationSettings, calibrate
    from collc.application.tune.joint_fit import calibrate_jointly
    from collc.base.atomic_files import write_file

    settings = settings_of(CalibrationSettings, chosen, launch=round(chosen.launch * 1e12))
    files: list[Path] = chosen.files
    if len(files) > 1 or files[0].suffix == ".json" or chosen.algorithm is not None:
        report = calibrate_jointly(files, settings, chosen.algorithm or "ring")
    else:
        report = calibrate(files[0], settings)
    if chosen.output is None:
        return Output(report.as_json, text=report.program().rstrip("\n"), diagnostics=report.diagnostics)
    write_file(chosen.output, report.program())
    return Output(report.as_json, [report.table()], diagnostics=report.diagnostics)


@command(
    "design",
    "find the best bandwidth of each dimension for the designs of a program",
    shared.PROGRAM.with_help("the program; - for standard input", nargs="?"),
    shared.FOLDER,
    shared.DESIGN,
    shared.DEFINITIONS,
    flag("--compare", "also show the closed-form divisions equal, message and smart"),
    option("--network", "instead of FILE: count and price the parts of this network", choices=("clos", "rail_only")),
    option("--gpus N", "GPUs of that network", read.positive),
    option("--radix K", "ports of its switches (default: 64)", read.positive),
    option("--domain X", "GPUs in a high-bandwidth domain of rail_only (default: 256)", read.positive),
    shared.JSON,
)
def design_command(chosen: argparse.Namespace) -> Output:
    """`collc design`: the best bandwidths for the designs of a program, or the parts, cost and power of a network."""
    from collc.application.design.designs import solve_designs
    from collc.base.tables import records_of, table_of
    from collc.design.clos import COLUMNS, priced_networks

    if chosen.network is not None and chosen.file is None:
        networks = priced_networks(chosen.network, chosen.gpus, chosen.radix, chosen.domain)
        return Output(lambda: {"networks": records_of(COLUMNS, networks)}, [table_of(COLUMNS, networks)])
    if chosen.file is None or chosen.network is not None or any((chosen.gpus, chosen.radix, chosen.domain)):
        message = "'collc design' takes a program, or --network with --gpus"
        raise UsageError(Diagnostic("U0119", message, hint="as in: collc design --network rail_only --gpus 32768"))
    report = solve_designs(chosen.file, dict(chosen.definitions), chosen.design, chosen.output)
    return Output(
        lambda: report.as_json(compare=chosen.compare),
        [report.table(compare=chosen.compare)],
        diagnostics=report.diagnostics,
        exit=report.exit,
    )


@command(
    "topology",
    "show what a network is: devices, links, symmetry, diameter, bounds",
    option("topology FILE.coll[:TOPOLOGY]", "a topology of a program; the only one of a file"),
    shared.DEFINITIONS,
    shared.JSON,
    shared.SVG.with_help("draw the nodes with their switches and links"),
)
def topology_command(chosen: argparse.Namespace) -> Output:
    """`collc topology`: what a person checks about a network."""
    from collc.application.topology.topology_summary import summarize

    summary = summarize(chosen.topology, dict(chosen.definitions))
    if chosen.svg is not None:
        from collc.base.atomic_files import write_file
        from collc.pictures.network_picture import network_picture

        write_file(chosen.svg, network_picture(summary.network).file())
    return Output(summary.as_json, summary.tables())


def _describe_import_kinds() -> str:
    from collc.machines.kinds import import_kinds

    kinds = [f"{kind.name} ({kind.file})".replace("'", "") for kind in import_kinds().values()]
    return f"Kinds of files: {', '.join(kinds)}."


@command(
    "import",
    "turn files of NCCL, nvidia-smi, InfiniBand, ... into a program",
    option("words [KIND] FILE", "files of this kind (default: by their content)", nargs="*"),
    shared.OUTPUT.with_help("the program to write (default: standard output)"),
    option("--name NAME", "name of the topology (default: pod)", default="pod"),
    option("--node [KIND:]FILE", "the inside of each node of a fabric"),
    option("--fabric rails|switch|[KIND:]FILE", "the network between nodes"),
    option("--nodes HOST,...", "take these hosts of the fabric, in its order, as c[01-17],login; or name the nodes"),
    option(
        "--joined-by",
        "what links the hosts of Slurm's blocks (nvlink, switch), rings and tori (nic, switch)",
        choices=("nvlink", "switch", "nic"),
    ),
    option("--part NAME", "the topology, ring or torus of a Slurm file that has several"),
    option("--gpu MODEL", "the GPUs, if the file does not say: v100, a100, h100, b200, ..."),
    shared.GPUS_PER_NODE.with_help("GPUs of a node, if no file describes its inside"),
    option(
        "--nvlink N|dgx1",
        "NVLinks of each GPU to NVSwitches, if the file names none; or dgx1: the NVLinks of a DGX-1",
        read.nvlinks_of,
    ),
    flag("--addresses", "name NICs by their PCI addresses and GUIDs, too: with a line for each"),
    flag("--mirror", "NVLinks that an NCCL file lists in one direction exist in both"),
    option("--pcie", "keep paths over PCIe, also if NVLinks join all GPUs", action=argparse.BooleanOptionalAction),
    option("--npu ATTRIBUTE=VALUE", "which nodes of a graph are NPUs; all: all of them"),
    option("--capacity ATTRIBUTE=UNIT", "bandwidth of the edges of a graph, as in capacity=GB/s"),
    option("--latency ATTRIBUTE=UNIT", "latency of the edges of a graph, as in latency=us"),
    option("--chunk BYTES", "size of the chunk for which a TACCL file was made", read.size_of),
    option(
        "--measured FILE.coll",
        "what 'collc calibrate --name LINK' wrote, to be imported in place of nominal values; may be repeated",
        Path,
        action="append",
        default=[],
    ),
    shared.DEFINITIONS.with_help(
        "rate or latency of links that the file does not say, as in -D nic=400Gb/s or -D nic_latency=0.9us"
    ),
    epilog=_describe_import_kinds,
)
def import_command(chosen: argparse.Namespace) -> Exit:
    """`collc import`: files that describe a machine as a program."""
    from collc.application.machines.importing import import_machine
    from collc.base.atomic_files import write_file
    from collc.machines.kinds import import_kinds
    from collc.machines.reading import ImportOptions
    from collc.source.host_lists import split_host_list

    words: list[str] = chosen.words
    named = bool(words) and (
        words[0] in (*import_kinds(), "pod") and not (len(words) == 1 and Path(words[0]).is_file())
    )
    settings = settings_of(
        ImportOptions,
        chosen,
        files=tuple(Path(word) for word in words[named:]),
        kind=words[0] if named and words[0] != "pod" else None,
        nodes=tuple(name.strip() for name in split_host_list(chosen.nodes or "") if name.strip()),
    )
    text = import_machine(settings, lambda text: print(printable(text), file=sys.stderr))
    if chosen.output is None:
        print(text, end="")
    else:
        write_file(chosen.output, text)
        name = printable(str(chosen.output))
        print(f"{name} written; 'collc check {name}' checks it", file=sys.stderr)
    return Exit.DONE
