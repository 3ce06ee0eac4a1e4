"""The schedule in the intermediate representation, as text or in the binary form."""

from __future__ import annotations

from pathlib import Path

from collc.base.diagnostics import Diagnostic, SourceError
from collc.emit.output import Emission, WrittenFile
from collc.ten.binary import save_module
from collc.ten.module import Module
from collc.ten.text.limits import too_large_for_text
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
