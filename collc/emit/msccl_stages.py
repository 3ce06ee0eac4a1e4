"""The MSCCL program of each run after each stage of the lowering, as text for people."""

from __future__ import annotations

from collc.emit.output import Emission, WrittenFile
from collc.msccl.communicators import communicators_of
from collc.msccl.lowering.files import stages_of
from collc.msccl.options import msccl_options


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
