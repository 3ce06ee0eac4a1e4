"""The commands about machines: import their files, look at their networks, measure their links."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from collc.base.diagnostics import Exit
from collc.command.terminal import print_json, print_messages, print_table
from collc.command.values import settings_of


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
    from collc.machines.kinds import import_kinds

    words: list[str] = chosen.words
    named = bool(words) and (
        words[0] in (*import_kinds(), "pod") and not (len(words) == 1 and Path(words[0]).is_file())
    )
    settings = settings_of(
        ImportSettings,
        chosen,
        files=tuple(Path(word) for word in words[named:]),
        kind=words[0] if named and words[0] != "pod" else None,
        nodes=tuple(name.strip() for name in (chosen.nodes or "").split(",") if name.strip()),
    )
    text = import_machine(settings, lambda text: print(text, file=sys.stderr))
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

    settings = settings_of(CalibrationSettings, chosen, launch=round(chosen.launch * 1e12))
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
