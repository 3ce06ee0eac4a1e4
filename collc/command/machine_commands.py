"""The commands about machines: import their files, look at their networks, measure their links."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from collc.base.diagnostics import Exit
from collc.command.terminal import print_json, print_messages, print_table


def topology_command(chosen: argparse.Namespace) -> Exit:
    """`collc topology`: what a person checks about a network."""
    from collc.application.topology.topology_summary import summarize, tables

    found = summarize(chosen.topology, dict(chosen.definitions))
    if chosen.svg is not None:
        from collc.base.atomic_files import write_file
        from collc.pictures.network_picture import network_picture

        write_file(chosen.svg, network_picture(found.network).file())
    if chosen.json:
        print_json(found.as_json())
        return Exit.DONE
    for columns, rows in tables(found):
        if rows:
            print_table(columns, rows)
    return Exit.DONE


def import_command(chosen: argparse.Namespace) -> Exit:
    """`collc import`: files that describe a machine as a program."""
    from collc.application.machines.importing import ImportSettings, import_machine
    from collc.base.atomic_files import write_file
    from collc.machines.kinds import KINDS

    words: list[str] = chosen.words
    named = bool(words) and (words[0] in (*KINDS, "pod") and not (len(words) == 1 and Path(words[0]).is_file()))
    text = import_machine(
        ImportSettings(
            files=tuple(Path(word) for word in words[named:]),
            kind=words[0] if named and words[0] != "pod" else None,
            name=chosen.name,
            node=chosen.node,
            fabric=chosen.fabric,
            nodes=tuple(name.strip() for name in (chosen.nodes or "").split(",") if name.strip()),
            gpu=chosen.gpu,
            gpus_per_node=chosen.gpus_per_node,
            nvlink=chosen.nvlink,
            mirror=chosen.mirror,
            pcie=chosen.pcie,
            definitions=dict(chosen.definitions),
            npu=chosen.npu,
            capacity=chosen.capacity,
            latency=chosen.latency,
            chunk=chosen.chunk,
            measured=tuple(chosen.measured),
            output=chosen.output,
            joined_by=chosen.joined_by,
            part=chosen.part,
        ),
        lambda text: print(text, file=sys.stderr),
    )
    if chosen.output is None:
        print(text, end="")
    else:
        write_file(chosen.output, text)
        print(f"{chosen.output} written; 'collc check {chosen.output}' checks it", file=sys.stderr)
    return Exit.DONE


def calibrate_command(chosen: argparse.Namespace) -> Exit:
    """`collc calibrate`: the latency and bandwidth of a link, as lets that programs import."""
    from collc.application.tune.calibration import COLUMNS, CalibrationSettings, calibrate
    from collc.base.atomic_files import write_file

    settings = CalibrationSettings(
        name=chosen.name,
        collective=chosen.collective,
        ranks=chosen.ranks,
        launch=round(chosen.launch * 1e12),
        hops=chosen.hops,
        sizes=chosen.sizes,
        in_place=chosen.in_place,
    )
    report = calibrate(chosen.file, settings)
    if chosen.output is not None:
        write_file(chosen.output, report.program())
    if chosen.json:
        print_json(report.as_json(), report.diagnostics)
    elif chosen.output is not None:
        print_table(COLUMNS, report.rows())
    else:
        print(report.program(), end="")
    print_messages(report.diagnostics)
    return Exit.DONE
