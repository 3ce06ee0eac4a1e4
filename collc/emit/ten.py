"""The schedule in the intermediate representation, and the MSCCL program after each stage of the lowering, as text."""

from __future__ import annotations

from pathlib import Path

from collc.base.diagnostics import Diagnostic, SourceError
from collc.emit.output import Emission, WrittenFile
from collc.msccl.communicators import communicators_of
from collc.msccl.lowering.files import stages_of
from collc.msccl.options import msccl_options
from collc.ten.binary import save_module
from collc.ten.module import Module
from collc.ten.text.cursor import too_large_for_text
from collc.ten.text.write import write_module


def emit_ten(emission: Emission) -> WrittenFile:
    """Write the module. Raises SourceError T0108 for one that is too large for text."""
    module, binary = emission.module, emission.options.get("binary")
    if binary is not None and binary.value:
        save_module(module, emission.destination.new())
        return WrittenFile()
    if module.schedule is not None and (reason := too_large_for_text(module.schedule)):
        hint = "write it in the binary form: emit ten(binary: true)"
        raise SourceError(Diagnostic("T0108", reason, hint=hint))
    write_ten(module, emission.destination.new())
    return WrittenFile()


def write_ten(module: Module, path: Path) -> None:
    """Write the module as `.ten` text."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        write_module(module, file)


def emit_stages(emission: Emission) -> WrittenFile:
    """Write a heading and the program for each stage. Raises what `lower` raises."""
    module, options = emission.module, msccl_options(emission.options)
    communicators = communicators_of(module.network, module.demand, joint=options.custom)
    with emission.destination.new().open("w", encoding="utf-8", newline="\n") as out:
        for communicator in communicators:
            if len(communicators) > 1:
                out.write(f"# run {communicator.run}\n")
            for number, (name, program) in enumerate(stages_of(communicator.module(module), options), 1):
                out.write(f"# {number} {name}\n{program}\n\n")
    return WrittenFile()
