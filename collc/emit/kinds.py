"""The kinds of files that `emit` writes: one record for each.

The checks of the language, `collc compile --emit`, the Python API and the documents derive from these records. A new
kind is a module with its writer, a record here, and tests (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final, Literal

from collc.base.options import Option, Options, OptionValue

if TYPE_CHECKING:
    from collc.emit.output import Emission, WrittenFile
    from collc.ten.demand import Demand
    from collc.ten.network import Network


@dataclass(frozen=True, slots=True)
class EmitKind:
    """A kind of file, as in `emit NAME("FILE", options)`.

    help: one line, for the documents. writer: MODULE:FUNCTION, imported when it is first called; the function takes an
    `Emission` and returns a `WrittenFile`. options: of the statement.
    precheck: MODULE:FUNCTION as well, called before the search with the network, the demand and the options; it raises
    SourceError if no schedule fits.
    needs: what the file is made of. "schedule": any schedule. "messages": one without switches that multicast or add.
    "program", "plan": likewise, and each run stays among the NPUs of its group, which are its ranks; the schedule for
    plans alone may use switches. "report": the report of the schedule, so it is written last.
    output: "file", "files" (one for each run) or "folder". suffix: of a file that the program does not name, if it is
    not `name`. main_file: of a folder that several statements may write into, the name of the file that is in no other
    one, with {name} for the name of the schedule. checks: of the file, which is read back. of_designs: whether `emit`
    in a design writes it too.
    """

    name: str
    help: str
    writer: str
    options: Options = field(default_factory=dict[str, Option])
    precheck: str = ""
    needs: Literal["schedule", "messages", "program", "plan", "report"] = "schedule"
    output: Literal["file", "files", "folder"] = "file"
    suffix: str = ""
    main_file: str = ""
    checks: tuple[str, ...] = ()
    of_designs: bool = False

    def write(self, emission: Emission) -> WrittenFile:
        """Write the file. Raises what the writer raises."""
        writer: Callable[[Emission], WrittenFile] = resolve_name(self.writer)
        return writer(emission)

    def check(self, network: Network, demand: Demand, options: Mapping[str, OptionValue]) -> None:
        """Raise SourceError for a file that can hold no schedule of the demand."""
        if self.precheck:
            precheck: Callable[[Network, Demand, Mapping[str, OptionValue]], None] = resolve_name(self.precheck)
            precheck(network, demand, options)

    @property
    def has_ranks(self) -> bool:
        """Whether each run has ranks of its own."""
        return self.needs in ("program", "plan")

    @property
    def only_messages(self) -> bool:
        """Whether the file is for a runtime that sends from NPU to NPU."""
        return self.has_ranks or self.needs == "messages"

    def path(self, given: str | None, schedule: str) -> str:
        """The path of the file, or of the main file of the folder. given: what the statement names."""
        path = given or f"{schedule}.{self.suffix or self.name}"
        return f"{path.rstrip('/')}/{self.main_file.format(name=schedule)}" if self.main_file else path


ELEMENT_TYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
)
"""Types of elements of calls, as torch and NumPy call them."""

_MSCCL: Final[Options] = {
    "instances": Option("int", "repeats the program n times, each time for 1/n of every chunk", 1, least=1, most=32),
    "protocol": Option(
        "string", "LL and LL128 have less latency and less bandwidth", "Simple", choices=("Simple", "LL", "LL128")
    ),
    "channels": Option("int", "most channels", 32, least=1, most=32),
    "sizes": Option("range", "smallest and largest buffer, both included, or auto", least=0, choices=("auto",)),
    "profile": Option("string", "the runtime", "executor", choices=("executor", "old", "rccl")),
    "placement": Option("string", "whether input and output share memory", choices=("in", "out", "both")),
    "coll": Option("string", "one file for all runs, instead of one for each", choices=("custom",)),
}
_PLANS: Final[Options] = {
    **{name: _MSCCL[name] for name in ("instances", "sizes", "coll")},
    "protocol": Option("string", _MSCCL["protocol"].meaning, "Simple", choices=("Simple", "LL")),
    "placement": Option("string", _MSCCL["placement"].meaning, "out", choices=("in", "out")),
    "gpus_per_node": Option("int", "consecutive ranks that map each other's memory", least=1),
    "same_offsets": Option("bool", "whether tensors begin at one offset in their allocations on all ranks", True),
}
_FILE_CHECKS: Final = ("contract", "result", "deadlock", "race")

_RECORDS: Final = (
    EmitKind(
        "ten",
        "the schedule in the intermediate representation",
        "collc.emit.ten:emit_ten",
        {"binary": Option("bool", "the binary form, for large schedules")},
    ),
    EmitKind(
        "msccl",
        "MSCCL XML",
        "collc.application.emit.runtime_files:emit_runtime_files",
        _MSCCL,
        "collc.application.emit.runtime_files:check_program",
        needs="program",
        output="files",
        checks=_FILE_CHECKS,
    ),
    EmitKind(
        "msccl_stages",
        "the MSCCL program after each stage of the lowering, as text",
        "collc.emit.ten:emit_stages",
        _MSCCL,
        "collc.application.emit.runtime_files:check_program",
        needs="program",
    ),
    EmitKind(
        "mscclpp",
        "an MSCCL++ execution plan",
        "collc.application.emit.runtime_files:emit_runtime_files",
        _PLANS,
        "collc.application.emit.runtime_files:check_plan",
        needs="plan",
        output="files",
        checks=_FILE_CHECKS,
    ),
    EmitKind(
        "run",
        "the programs of all ranks, for collc's own runtime",
        "collc.application.emit.runtime_files:emit_runtime_files",
        {
            **{name: _MSCCL[name] for name in ("instances", "channels", "placement")},
            "sizes": Option("range", "smallest and largest buffer, both included", least=0),
            "dtype": Option(
                "string",
                "the type of elements, as torch and NumPy call it; any if it is left out",
                choices=ELEMENT_TYPES,
            ),
        },
        "collc.application.emit.runtime_files:check_run",
        needs="program",
        output="files",
        checks=_FILE_CHECKS,
    ),
    EmitKind(
        "chakra",
        "Chakra traces and what ASTRA-sim needs beside them",
        "collc.application.emit.runtime_files:emit_chakra",
        needs="messages",
        output="folder",
        checks=("contract", "deadlock", "result"),
    ),
    EmitKind("trace", "a timeline that Perfetto shows", "collc.emit.trace:emit_trace"),
    EmitKind(
        "report", "a page with pictures of the schedule", "collc.emit.output:emit_report", needs="report", suffix="html"
    ),
    EmitKind(
        "libra",
        "the design of the network, for other solvers",
        "collc.application.emit.libra_files:emit_libra",
        precheck="collc.application.emit.libra_files:check_dimensions",
        output="folder",
        main_file="{name}.libra.json",
        of_designs=True,
    ),
)

EMIT_KINDS: Final = {kind.name: kind for kind in _RECORDS}
