"""The arguments of every command, and what to say where they are wrong."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.options import Option
from collc.base.synthesizers import COMMON, SYNTHESIZERS
from collc.base.wording import did_you_mean, listed
from collc.command.values import (
    chunks_of,
    definition_of,
    duration_of,
    list_of,
    memory_of,
    number_from,
    nvlinks_of,
    positive,
    seconds_of,
    size_of,
    values_of,
)
from collc.emit.kinds import EMIT_KINDS
from collc.pictures import DESIGN_PICTURES, PICTURES
from collc.version import __version__

if TYPE_CHECKING:
    from collc.tuning.protocols import ProtocolCost

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 an error in the program; 2 in the command line; "
    "3 no schedule or design exists or none was found; 4 a check failed; "
    "5 an error in collc itself; 130 interrupted by Ctrl-C. "
    "The first Ctrl-C during synthesis keeps the best schedule found so far; the second one ends collc."
)

_PROFILE: Final = (
    "the runtime of the MSCCL file: executor: msccl-executor-nccl (default), old: microsoft/msccl, rccl: RCCL"
)
_ROOT: Final = "rank of the root of a rooted collective"
_EMIT: Final = "also write this kind of file: " + ", ".join(EMIT_KINDS)
_ANY_FILE: Final = "a .ten file, an MSCCL file (XML), an MSCCL++ plan (JSON), or DIR/PREFIX of Chakra traces"
_SIMULATED: Final = "a program, a .ten file, an MSCCL file, an MSCCL++ plan, or DIR/PREFIX of Chakra traces"
_JSON: Final = "print one JSON object on stdout"
_PASSES: Final = 'run these passes instead of the synthesizer\'s, as in "tacos{seed=7},invert,verify"'
_CHUNKS: Final = "chunks per block, for all runs that take chunks; auto: collc picks the number"
_TIME_LIMIT: Final = "end the command after this time, if it has no answer by then"
_MEMORY_LIMIT: Final = "memory that collc may take, as in 8GiB (default: nine tenths of what is free)"
_DEFINITION: Final = "the value of a param of the program, as in -D nodes=4 or -D size=9MiB; may be repeated"


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError U0100 instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(Diagnostic("U0100", message, hint=f"'{self.prog} --help' lists what there is"))


def parse_arguments(words: Sequence[str]) -> argparse.Namespace | None:
    """The parsed arguments, with the command's name in `command`; None where there are none, after printing the help.

    Raises UsageError U0100 where the arguments are wrong, SystemExit after `--help` and `--version`.
    """
    parser, commands = _parsers()
    if not words:
        parser.print_help(sys.stdout)
        return None
    if not words[0].startswith("-") and words[0] not in commands:
        hint = did_you_mean(words[0], commands, f"the commands are {listed(commands)}")
        raise UsageError(Diagnostic("U0100", f"there is no command '{words[0]}'", hint=hint))
    chosen, unknown = parser.parse_known_args(words)
    if unknown:
        own = commands[chosen.command]
        known = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", own.format_help())
        flag = unknown[0].partition("=")[0]
        hint = did_you_mean(flag, known, f"'{own.prog} --help' lists what there is")
        raise UsageError(Diagnostic("U0100", f"'{own.prog}' does not take '{unknown[0]}'", hint=hint))
    return chosen


def _parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and that of each command."""
    description = "Schedules for collective communication: synthesized, verified, and written for MSCCL and MSCCL++."
    parser = _Parser(prog="collc", description=description, epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"collc {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands: dict[str, argparse.ArgumentParser] = {}
    for name, (summary, add_arguments) in COMMANDS.items():
        commands[name] = subparsers.add_parser(name, help=summary, description=summary)
        add_arguments(commands[name])
        if name in ENDED:
            commands[name].add_argument("--time-limit", type=seconds_of, metavar="SECONDS", help=_TIME_LIMIT)
        commands[name].add_argument("--memory-limit", type=memory_of, metavar="BYTES", help=_MEMORY_LIMIT)
    return parser, commands


# Commands


def _add_definitions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-D",
        dest="definitions",
        action="append",
        type=definition_of,
        default=[],
        metavar="name=value",
        help=_DEFINITION,
    )


def _add_synthesizer_option(parser: argparse.ArgumentParser, name: str, option: Option) -> None:
    """An option of the synthesizers as an option of the command line."""
    flag = "--" + name.replace("_", "-")
    if option.choices:
        parser.add_argument(flag, choices=option.choices, help=option.meaning)
    elif option.type == "time":
        parser.add_argument(flag, type=seconds_of, metavar="SECONDS", help=option.meaning)
    else:
        parser.add_argument(flag, type=number_from(option.least or 0), metavar="N", help=option.meaning)


def _compile_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.coll", help="the program; - for standard input")
    add("-o", "--output", type=Path, default=Path(), metavar="DIR", help="folder for all files (default: this one)")
    add("--schedule", metavar="NAME", help="compile only this schedule of the program")
    _add_definitions(parser)
    add(
        "--emit",
        action="append",
        default=[],
        metavar="KIND",
        help=_EMIT,
    )
    names = [name for name in SYNTHESIZERS if name != "fixed"]
    synthesizers = "use this synthesizer in place of the program's: " + ", ".join(names)
    add("--synthesizer", "--algorithm", metavar="NAME", help=synthesizers)
    for name, option in COMMON.items():
        _add_synthesizer_option(parser, name, option)
    add("--chunks", type=chunks_of, metavar="N|auto", help=_CHUNKS)
    add("--passes", metavar="PIPELINE", help=_PASSES)
    add("--print-after", action="append", default=[], metavar="PASS", help="print the module after this pass, as .ten")
    add("--prove", action="store_true", help="prove all properties with Z3, and look for a shorter schedule")
    add("--certificate", type=Path, metavar="FILE", help="write the formulas given to Z3, as SMT-LIB text")
    add("--json", action="store_true", help=_JSON)
    add("--quiet", action="store_true", help="print only messages: no table, no notes, no progress")


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.coll", help="the program; - for standard input")
    _add_definitions(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "file",
        type=Path,
        metavar="FILE",
        help=_ANY_FILE,
    )
    add("--collective", metavar="NAME", help="what the file must compute (default: what it says itself)")
    add("--root", type=int, metavar="R", help=_ROOT)
    add("--profile", choices=("executor", "old", "rccl"), default="executor", help=_PROFILE)
    add("--program", type=Path, metavar="FILE.coll", help="check the file against a schedule of this program")
    add("--schedule", metavar="NAME", help="the schedule of that program")
    add(
        "--gpus-per-node",
        type=positive,
        metavar="N",
        help="for an MSCCL++ plan: ranks of a node, which map each other's memory",
    )
    add("--json", action="store_true", help=_JSON)


def _fmt_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.coll", help="a program")
    parser.add_argument("--check", action="store_true", help="change no file; exit code 4 where one would change")


def _std_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="print the source of this one")


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", metavar="CODE", help="the code of a message, as in E0203")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="an MSCCL file (XML) or an MSCCL++ plan (JSON)")
    add("--dtype", default="float32", metavar="TYPE", help="type of the elements: float32 (default), int32, ...")
    add("--op", metavar="OP", help="reduction: sum, prod, max or min (default: what the file says, else sum)")
    add("--count", type=positive, metavar="N", help="number of elements, as NCCL counts them (default: a few)")
    add("--runs", type=positive, default=1, metavar="N", help="number of runs, each with its own data and timing")
    add("--threads", action="store_true", help="run each threadblock in a thread, instead of all in a random order")
    add("--collective", metavar="NAME", help="what the file must compute (default: what it says itself)")
    add("--seed", type=number_from(0), default=0, metavar="N", help="the seed of data and timing")
    add("--root", type=int, metavar="R", help=_ROOT)
    add("--profile", choices=("executor", "old", "rccl"), default="executor", help=_PROFILE)
    add("--json", action="store_true", help=_JSON)


def _simulate_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help=_SIMULATED)
    add("--network", type=Path, metavar="FILE.yml", help="the network, as a network file of ASTRA-sim")
    add("--on", metavar="FILE.coll:TOPOLOGY", help="the network, as a topology of a program")
    add("--size", type=size_of, metavar="BYTES", help="the buffer of an MSCCL file or a plan, as in 64MiB")
    add("--profile", choices=("executor", "old", "rccl"), default="executor", help=_PROFILE)
    add("--astra", action="store_true", help="ASTRA-sim's truncated nanoseconds in place of exact picoseconds")
    congestion = "whether messages queue at links: aware (default) or unaware, ASTRA-sim's two analytical models"
    add("--model", choices=("aware", "unaware"), default="aware", help=congestion)
    free = "when a link is free again, for traces and files for runtimes: pipelined (default) or store"
    add("--link-model", choices=("store", "pipelined"), help=free)
    add("--schedule", metavar="NAME", help="the schedule of the program")
    _add_definitions(parser)
    add("--json", action="store_true", help=_JSON)


def _compare_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a program or a .ten file")
    add("--schedule", metavar="NAME", help="the schedule of the program")
    _add_definitions(parser)
    add("--svg", type=Path, metavar="FILE.svg", help="draw the times as bars")
    add("--json", action="store_true", help=_JSON)
    add("--quiet", action="store_true", help="show no progress")


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.coll", help="the program; - for standard input")
    values = "values of a param of the program, as in -D size=1MiB,16MiB; may be repeated for other params"
    add("-D", dest="definitions", action="append", type=values_of, default=[], metavar="name=v1,v2", help=values)
    algorithms = "synthesizers, or algorithms of std.algorithms for all runs, as in tacos,forest,ring"
    add("--algorithm", "--synthesizer", type=list_of(str), default=[], metavar="A,B", help=algorithms)
    add("--seed", type=list_of(number_from(0)), default=[], metavar="N,M", help="the seeds of all random choices")
    add("--chunks", type=list_of(chunks_of), default=[], metavar="N,M", help=_CHUNKS)
    add("--schedule", metavar="NAME", help="compile only this schedule of the program")
    for name, option in COMMON.items():
        if name != "seed":
            _add_synthesizer_option(parser, name, option)
    formats = "the table: its name ends in .csv, .json or .parquet; beside it is the journal while the sweep runs"
    add("-o", "--output", type=Path, metavar="FILE", help=formats)
    add("--plot", type=Path, metavar="FILE.svg", help="draw time or bandwidth against a param")
    add("--plot-x", metavar="PARAM", help="the param (default: the first one with several numbers)")
    add("--plot-y", choices=("time", "bandwidth"), help="what is drawn (default: bandwidth where it is known)")
    add("--timings", action="store_true", help="add the CPU seconds of each case to the table")
    _add_processes(parser)
    add("--json", action="store_true", help=_JSON)
    add("--quiet", action="store_true", help="print only messages: no table, no notes, no progress")


def _add_processes(parser: argparse.ArgumentParser) -> None:
    """Where many independent cases run."""
    add = parser.add_argument
    add("--jobs", type=positive, metavar="N", help="processes (default: one for each core)")
    memory = "of each process, as in 4GiB (default: its part of what is free)"
    add("--memory", type=memory_of, metavar="BYTES", help=memory)
    add("--scheduler", metavar="tcp://HOST:PORT", help="use the workers of this Dask cluster instead")


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a program, a .ten file, an MSCCL file (XML) or an MSCCL++ plan (JSON)")
    add(
        "-o", "--output", type=Path, metavar="FILE.html", help="the report (default: NAME.html, without --svg or --png)"
    )
    add("--svg", type=Path, metavar="FILE.svg", help="write one picture")
    add("--png", type=Path, metavar="FILE.png", help="write one picture; needs the extra collc[png]")
    add("--json", action="store_true", help=_JSON)
    add("--quiet", action="store_true", help="print only messages: no names of files, no progress")
    add("--picture", choices=(*PICTURES, *DESIGN_PICTURES), help="which one (default: topology)")
    add("--theme", choices=("light", "dark"), help="the colours of that picture (default: light)")
    add("--schedule", metavar="NAME", help="show only this schedule of the program")
    add("--design", metavar="NAME", help="show only this design of the program")
    _add_definitions(parser)
    add("--on", metavar="FILE.coll:TOPOLOGY", help="the network on which an MSCCL file or a plan is simulated")
    add("--size", type=size_of, metavar="BYTES", help="the buffer of an MSCCL file or a plan, as in 64MiB")
    add("--profile", choices=("executor", "old", "rccl"), default="executor", help=_PROFILE)


def _tune_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.coll", help="the program; - for standard input")
    add("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for all files")
    add("--sizes", type=_size_range, default=(2**10, 2**32), metavar="LOW..HIGH", help="default: 1KiB..4GiB")
    add("--schedule", metavar="NAME", help="the schedule of the program")
    _add_definitions(parser)
    kinds = "kinds of files, of msccl and mscclpp (default: both)"
    add("--emit", type=list_of(_file_kind), default=["msccl", "mscclpp"], metavar="KIND", help=kinds)
    runtime = "the runtime of MSCCL files: executor (default) or rccl"
    add("--profile", choices=("executor", "rccl"), default="executor", help=runtime)
    algorithms = "what is tried (default: what the program says, auto, and the algorithms of std.algorithms)"
    add("--algorithm", "--synthesizer", type=list_of(str), default=[], metavar="A,B", help=algorithms)
    add("--chunks", type=list_of(positive), default=[], metavar="N,M", help="chunks per block that are tried")
    add("--instances", type=list_of(_channels), default=[], metavar="N,M", help="instances that are tried")
    add("--channels", type=list_of(_channels), default=[None], metavar="N,M", help="most channels that are tried")
    costs = "a protocol that is tried, and its cost: share of the bandwidth and start-up cost of a message, as in "
    add("--protocol", action="append", type=_protocol_cost, default=[], metavar="P", help=costs + "LL=1/2:0us")
    add(
        "--tolerance",
        type=_share,
        default=Fraction(1, 50),
        metavar="SHARE",
        help="how much slower than the best file one may be, so that fewer files suffice (default: 0.02)",
    )
    add("--seed", type=number_from(0), metavar="N", help="the seed of all random choices")
    _add_processes(parser)
    add("--json", action="store_true", help=_JSON)
    add("--quiet", action="store_true", help="print only messages: no table, no progress")


def _size_range(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    if not dots or size_of(low.strip()) > size_of(high.strip()):
        raise argparse.ArgumentTypeError(f"a range of sizes is expected, as in 1KiB..4GiB, not {text!r}")
    return size_of(low.strip()), size_of(high.strip())


def _file_kind(text: str) -> str:
    if text not in ("msccl", "mscclpp"):
        raise argparse.ArgumentTypeError(f"a kind of file is msccl or mscclpp, not {text!r}")
    return text


def _channels(text: str) -> int:
    if positive(text) > 32:
        raise argparse.ArgumentTypeError(f"a runtime has 1 to 32 channels, not {text}")
    return positive(text)


def _protocol_cost(text: str) -> ProtocolCost:
    from collc.tuning.protocols import DEFAULT_COSTS, cost_of

    if text in DEFAULT_COSTS:
        return DEFAULT_COSTS[text]
    try:
        return cost_of(text)
    except ValueError as error:
        message = f"a protocol is Simple, LL or LL128, alone or with its cost as in LL128=120/128:1.3us, not {text!r}"
        raise argparse.ArgumentTypeError(message) from error


def _share(text: str) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"a share from 0 to 1 is expected, not {text!r}")
    return value


def _calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="what sendrecv_perf or another test of nccl-tests printed; - for stdin")
    add("-o", "--output", type=Path, metavar="FILE.coll", help="write the lets to this file (default: print them)")
    add("--name", type=_name, default="link", help="the link class: the names of the lets begin with it")
    tests = ("sendrecv", "all_reduce", "all_gather", "reduce_scatter", "alltoall")
    add("--collective", choices=tests, help="the test (default: what the file says, else sendrecv)")
    add("--ranks", type=number_from(2), metavar="N", help="ranks of the test (default: those that the file lists)")
    add(
        "--launch",
        type=duration_of,
        default=0.0,
        metavar="TIME",
        help="launch overhead of each call, which is not part of the latency of links, as in 3us",
    )
    hops = "links between two ranks, as 2 over an NVSwitch: the latency is that of one (default: 1)"
    add("--hops", type=positive, default=1, metavar="N", help=hops)
    add("--sizes", type=_size_range, default=(0, 2**62), metavar="LOW..HIGH", help="fit only these sizes")
    add("--in-place", action="store_true", help="fit the times in place (default: out of place)")
    add("--json", action="store_true", help=_JSON)


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", text):
        raise argparse.ArgumentTypeError(f"a name of small letters, digits and _ is expected, not {text!r}")
    return text


def _inspect_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="an MSCCL file (XML) or an MSCCL++ plan (JSON)")
    add("--profile", choices=("executor", "old", "rccl"), default="executor", help=_PROFILE)
    add("--svg", type=Path, metavar="FILE.svg", help="draw a picture of the program")
    add("--json", action="store_true", help=_JSON)


def _design_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, nargs="?", metavar="FILE.coll", help="the program; - for standard input")
    add("-o", "--output", type=Path, default=Path(), metavar="DIR", help="folder for all files (default: this one)")
    add("--design", metavar="NAME", help="solve only this design of the program")
    _add_definitions(parser)
    add("--compare", action="store_true", help="also show the closed-form divisions equal, message and smart")
    add("--network", choices=("clos", "rail_only"), help="instead of FILE: count and price the parts of this network")
    add("--gpus", type=positive, metavar="N", help="GPUs of that network")
    add("--radix", type=positive, metavar="K", help="ports of its switches (default: 64)")
    add("--domain", type=positive, metavar="X", help="GPUs in a high-bandwidth domain of rail_only (default: 256)")
    add("--json", action="store_true", help=_JSON)


def _topology_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topology", metavar="FILE.coll[:TOPOLOGY]", help="a topology of a program; the only one of a file"
    )
    _add_definitions(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)
    parser.add_argument("--svg", type=Path, metavar="FILE.svg", help="draw the nodes with their switches and links")


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="[KIND] FILE", help="files of this kind (default: by their content)")
    add("-o", "--output", type=Path, metavar="FILE.coll", help="the program to write (default: standard output)")
    add("--name", default="pod", metavar="NAME", help="name of the topology (default: pod)")
    add("--node", metavar="[KIND:]FILE", help="the inside of each node of a fabric")
    add("--fabric", metavar="rails|switch|[KIND:]FILE", help="the network between nodes")
    add("--nodes", metavar="HOST,...", help="take these hosts of the fabric, in its order; or name the nodes")
    joined = "what links the hosts of Slurm's blocks (nvlink, switch), rings and tori (nic, switch)"
    add("--joined-by", choices=("nvlink", "switch", "nic"), help=joined)
    add("--part", metavar="NAME", help="the topology, ring or torus of a Slurm file, where it has several")
    add("--gpu", metavar="MODEL", help="the GPUs, where the file does not say: v100, a100, h100, b200, ...")
    add("--gpus-per-node", type=positive, metavar="N", help="GPUs of a node, where no file describes its inside")
    nvlinks = "NVLinks of each GPU to NVSwitches, where the file names none; or those of a DGX-1"
    add("--nvlink", type=nvlinks_of, metavar="N|dgx1", help=nvlinks)
    add("--mirror", action="store_true", help="NVLinks that an NCCL file lists in one direction exist in both")
    add("--pcie", action=argparse.BooleanOptionalAction, help="keep paths over PCIe, also where NVLinks join all GPUs")
    add("--npu", metavar="ATTRIBUTE=VALUE", help="which nodes of a graph are NPUs; all: all of them")
    add("--capacity", metavar="ATTRIBUTE=UNIT", help="bandwidth of the edges of a graph, as in capacity=GB/s")
    add("--latency", metavar="ATTRIBUTE=UNIT", help="latency of the edges of a graph, as in latency=us")
    add("--chunk", type=size_of, metavar="BYTES", help="size of the chunk for which a TACCL file was made")
    measured = "what 'collc calibrate --name LINK' wrote, to be imported in place of nominal values; may be repeated"
    add("--measured", type=Path, action="append", default=[], metavar="FILE.coll", help=measured)
    links = "rate or latency of links that the file does not say, as in -D nic=400Gb/s or -D nic_latency=0.9us"
    add("-D", dest="definitions", action="append", type=definition_of, default=[], metavar="name=value", help=links)


COMMANDS: Final[dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]] = {
    "compile": ("synthesize and verify the schedules of a program, and write their files", _compile_arguments),
    "check": ("check syntax, names, types and units of a program, without synthesis", _check_arguments),
    "verify": ("check a schedule, an MSCCL file or an MSCCL++ plan of any origin", _verify_arguments),
    "run": ("run an MSCCL file or an MSCCL++ plan on random data and compare with NumPy", _run_arguments),
    "simulate": ("simulate a schedule, or Chakra traces as ASTRA-sim does", _simulate_arguments),
    "compare": ("simulate a schedule and textbook algorithms on the same network", _compare_arguments),
    "sweep": ("compile a program for all combinations of params, algorithms and seeds", _sweep_arguments),
    "show": ("write a report with pictures of a program, a schedule or a file for a runtime", _show_arguments),
    "tune": ("find the best schedule for every size, and write files for all of them", _tune_arguments),
    "calibrate": ("fit the latency and bandwidth of a link to measurements of nccl-tests", _calibrate_arguments),
    "inspect": ("show what an MSCCL file or an MSCCL++ plan contains", _inspect_arguments),
    "design": ("find the best bandwidth of each dimension for the designs of a program", _design_arguments),
    "topology": ("show what a network is: devices, links, symmetry, diameter, bounds", _topology_arguments),
    "import": (
        "turn files of NCCL, nvidia-smi, InfiniBand, ... into a program",
        _import_arguments,
    ),
    "fmt": ("rewrite programs in the canonical layout", _fmt_arguments),
    "std": ("list the standard library, or print the source of one declaration", _std_arguments),
    "explain": ("explain the code of a message", _explain_arguments),
}
"""For each command its summary and the function that adds its arguments."""

_OWN_LIMIT: Final = ("compile", "sweep", "fmt", "std", "explain")
"""Commands with a `--time-limit` of the search, and those that take no time."""

ENDED: Final = frozenset(COMMANDS) - {*_OWN_LIMIT}
"""Commands that `--time-limit` ends, without an answer."""
