"""Chakra traces, read back and checked."""

from __future__ import annotations

import re

from collc.application.verify.file_verification import verify_traces
from collc.emit.chakra import write_chakra
from collc.emit.output import Emission, WrittenFile


def emit_chakra(emission: Emission) -> WrittenFile:
    """Write Chakra traces, read them back and check them. Raises what `write_chakra` raises."""
    module, name = emission.module, emission.module.name
    emission.announce("writing Chakra traces")
    folder = emission.destination.new_folder(rf"(?:{re.escape(name)}|workload)\.\d+\.et|network\.yml|system\.json")
    notes = write_chakra(module, name, folder)
    emission.announce("reading the traces back and checking them")
    report = verify_traces(folder / name, demand=(module.demand, module.network))
    return WrittenFile(dict(report.checks), tuple(notes), report.diagnostics)
