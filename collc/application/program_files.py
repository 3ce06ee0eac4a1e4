"""The text of a program and of the files that it imports, to be compiled in another process or on another machine."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceFile, UsageError
from collc.base.reading import real_path
from collc.source.elaboration.elaborate import load_program, load_topology
from collc.source.imports import GivenFiles, load_source_files
from collc.source.parsing.syntax import ScheduleDeclaration
from collc.source.program import Program
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.version import __version__


def not_one_schedule(path: Path, count: int, why: str = "") -> UsageError:
    """The error U0107 of a program that has no schedule, or several, if one must be meant. why: of what is done."""
    message = f"{path} has {count} schedules{why}"
    return UsageError(Diagnostic("U0107", message, hint="choose one with --schedule NAME"))


def no_size(path: Path) -> UsageError:
    """The error U0134 of a file for a runtime of which no size is given."""
    message = f"{path} serves many sizes: give the one to simulate"
    return UsageError(Diagnostic("U0134", message, hint="as in --size 64MiB"))


def named_network(target: str, definitions: Mapping[str, str]) -> Network:
    """The network of FILE.coll:TOPOLOGY, or of the only topology of FILE.coll.

    Raises SourceError for errors of the program, U0133 if it has no such topology, U0151 if the argument names
    none and the program has several.
    """
    file, colon, name = target.rpartition(":")
    named = bool(colon) and name.isidentifier()
    return load_topology(Path(file if named else target), name if named else None, definitions)


def standard_demand(network: Network, collective: str, size: int) -> Demand:
    """The demand of a collective of the standard library over all NPUs. size: a multiple of their number."""
    gone: list[int] = np.flatnonzero(~network.present[: network.npu_count]).tolist()
    without = f" without {{ {', '.join(f'npu {npu}' for npu in gone)} }}" if gone else ""
    text = (
        "import std.topologies\nimport std.collectives\n"
        f"topology t = switched({network.npu_count}, bandwidth: 1GB/s, latency: 1us){without}\n"
        f"schedule s on t {{ run {collective}(t.npus, size: {size}B) }}\n"
    )
    return load_program(SourceFile("standard", text)).schedules[0].demand


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """A program: its files as (path, text), paths relative to the folder that has them all.

    shown: what messages call the first file, which is the program itself. folder: the folder, which need not exist on
    the machine that compiles the program.
    """

    shown: str
    files: tuple[tuple[str, str], ...]
    folder: str

    def digest(self) -> str:
        """A hash of all that a compilation depends on besides its settings: the files and collc's version."""
        return hashlib.sha256(json.dumps([__version__, self.files]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ProgramOutline:
    """A program that was read, and the names of its params and schedules."""

    files: ProgramFiles
    params: tuple[str, ...]
    schedules: tuple[str, ...]


def read_program(path: Path) -> ProgramOutline:
    """Read a program and all files that it imports. Raises SourceError if one cannot be read or parsed."""
    loaded = load_source_files(path, tables=True)
    main = loaded.main
    own = {real: file for real, file in loaded.files.items() if file.module is None}
    folder = Path(os.path.commonpath([real.parent for real in own]))
    first = real_path(path)
    files = [(first, own[first]), *((real, file) for real, file in sorted(own.items()) if real != first)]
    texts = tuple((real.relative_to(folder).as_posix(), file.source.text) for real, file in files)
    schedules = tuple(node.name.name for node in main.declarations("schedule") if isinstance(node, ScheduleDeclaration))
    return ProgramOutline(ProgramFiles(str(path), texts, str(folder)), tuple(main.params()), schedules)


def load_files(
    program: ProgramFiles,
    definitions: dict[str, str],
    only: str | None,
    chunks: int | Literal["auto"] | None,
    size: int | None = None,
) -> Program:
    """The elaborated program: `load_program`, from files that may have come from elsewhere."""
    texts = {Path(program.folder) / name: text for name, text in program.files}
    return load_program(GivenFiles(program.shown, texts), definitions, only, chunks=chunks, size=size)
