"""MSCCL files, MSCCL++ plans and Chakra traces: written, read back and checked before they get their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from collc.application.verify.file_verification import verify_traces
from collc.base.diagnostics import Diagnostic, Note, SourceError
from collc.base.memory import without_collection
from collc.base.options import OptionValue
from collc.base.wording import in_short, plural
from collc.emit.chakra import write_chakra
from collc.emit.output import Announcer, Destination, Emission, RunRanks, WrittenFile, combine, ranks_name
from collc.msccl.limits import OLD_FILES
from collc.msccl.options import MscclOptions, Profile, msccl_options
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import Network

if TYPE_CHECKING:
    from collc.application.emit.file_times import Runtime
    from collc.msccl.communicators import Communicator
    from collc.msccl.lowering.files import ProgramFile


def emit_runtime_files(emission: Emission) -> WrittenFile:
    """Write, read back and check MSCCL files or MSCCL++ plans, with remarks on their speed over switches that they were
    planned without. Raises what `write_msccl` and `write_mscclpp` raise.
    """
    module, network, kind = emission.module, emission.network, cast("Runtime", emission.kind)
    options = msccl_options(emission.options, emission.kind)
    if options.custom and network is not None:  # beside files of single runs, NPUs in no group were left out
        present = np.concatenate([network.present[: network.npu_count], module.network.present[network.npu_count :]])
        module = replace(module, network=replace(module.network, present=present))
    write = write_mscclpp if kind == "mscclpp" else write_msccl
    with without_collection():
        written = write(replace(emission, module=module), options)
    if not module.network.unwound or network is None or "failed" in written.checks.values():
        return written
    from collc.application.emit.file_times import switched_notes

    notes = switched_notes(list(emission.destination.finals), kind, module, network, options)
    return replace(written, notes=(*written.notes, *notes))


def write_msccl(emission: Emission, options: MscclOptions) -> WrittenFile:
    """Lower the schedule to MSCCL, write it as XML, read the files back and check them. Raises what `lower` raises.

    Each run has a file; the old runtime needs one for each placement too.
    """
    from collc.msccl.lowering.files import program_files

    destination, announce = emission.destination, emission.announce

    def write(part: Module, run: int | None) -> WrittenFile:
        chosen, sizes_note = _choose_sizes(part, options, "msccl", announce)
        announce("lowering to MSCCL")
        written: list[WrittenFile] = []
        files = program_files(part, chosen, lambda stage: announce(f"lowering to MSCCL, {stage}"), emission.hurried)
        for file in files:
            path = destination.new(file.variant, run)
            result = _write_program(file, part, chosen, path, announce)
            if len(files) > 1:
                placement = "in place" if file.program.placement.in_place else "out of place"
                notes = (f"for calls {placement}", *result.notes)
                result = replace(result, name=destination.finals[path].name, notes=notes)
            written.append(result)
        return combine([WrittenFile(notes=sizes_note), *written])

    written = _for_runs(emission.module, options, destination, write)
    count, most = len(destination.finals), OLD_FILES if options.profile is Profile.OLD else None
    if most is None or count <= most:
        return written
    note = f"{count} files: this runtime loads the first {most} that MSCCL_XML_FILES names, and ignores the others"
    return replace(written, notes=(*written.notes, note))


def _write_program(
    file: ProgramFile, module: Module, options: MscclOptions, path: Path, announce: Announcer
) -> WrittenFile:
    """Write one program as XML or as a run file, and check the file."""
    from collc.emit.msccl import write_xml
    from collc.emit.run import write_run
    from collc.msccl.check import check_file, expected_of
    from collc.msccl.lowering.quality import quality, slowdown_note

    program, is_run_file = file.program, options.profile is Profile.RUN
    title, subject = ("run file", "run file") if is_run_file else ("MSCCL file", "MSCCL")
    if is_run_file:
        write_run(program, module, path, options.dtype)
    else:
        with path.open("wb") as out:
            write_xml(program, out)
    collective, root = _collective_of(module)
    custom = program.collective.kind == "custom"
    announce(f"reading the {title} back and checking it")
    verdict = check_file(
        path,
        collective=None if custom else collective,
        root=None if custom else root,
        profile=options.profile.value,
        expected=expected_of(module.network, module.demand, options.instances) if custom else None,
    )
    announce(f"simulating the {title}")
    measured = quality(program, module)
    average = "" if is_run_file else average_note(module.demand)
    notes = (*program.notes, f"{subject}: {measured}", slowdown_note(program, measured), average)
    return WrittenFile({**verdict.checks}, tuple(filter(None, notes)), verdict.diagnostics)


def write_mscclpp(emission: Emission, options: MscclOptions) -> WrittenFile:
    """Write MSCCL++ execution plans, read them back and check them. Raises what `plan_of` raises."""
    from collc.application.emit.file_times import fastest_plan, plan_speed_notes
    from collc.emit.msccl import write_plan
    from collc.msccl.check import expected_of
    from collc.msccl.check_plan import check_plan as check_plan_file
    from collc.msccl.plans.plan import remarks_of
    from collc.msccl.plans.precheck import nodes_of_ranks

    destination, announce = emission.destination, emission.announce

    def write(part: Module, run: int | None) -> WrittenFile:
        chosen, sizes_note = _choose_sizes(part, options, "mscclpp", announce)
        path = destination.new(run=run)
        announce("lowering to MSCCL++")
        plan = fastest_plan(part, chosen)
        with path.open("wb") as file:
            write_plan(plan, file)
        collective, root = _collective_of(part)
        announce("reading the MSCCL++ plan back and checking it")
        nodes = nodes_of_ranks(part.network, chosen)
        if plan["collective"] == "custom":
            expected = expected_of(part.network, part.demand, options.instances)
            verdict = check_plan_file(path, collective="custom", expected=expected, nodes=nodes)
        else:
            verdict = check_plan_file(path, collective=collective, root=root, nodes=nodes)
        announce("simulating the MSCCL++ plan")
        speed = plan_speed_notes(path, part, chosen) if verdict.ok else ()
        notes = [
            *sizes_note,
            *remarks_of(plan, chosen, part.network),
            *speed,
            *filter(None, [average_note(part.demand)]),
        ]
        return WrittenFile({**verdict.checks}, tuple(notes), verdict.diagnostics)

    return _for_runs(emission.module, options, destination, write)


def _choose_sizes(
    part: Module, options: MscclOptions, kind: Runtime, announce: Announcer
) -> tuple[MscclOptions, tuple[str, ...]]:
    """The options with sizes, and a remark if the program leaves them to collc."""
    if not options.best_known:
        return options, ()
    from collc.application.emit.file_times import with_best_sizes

    chosen, remark = with_best_sizes(part, options, kind, announce)
    return chosen, (remark,)


def average_note(demand: Demand) -> str:
    """What is left to do if a demand asks for averages, "" if it does not."""
    chunks = demand.chunks
    counts = np.unique(chunks.sets.sizes[chunks.pre[chunks.op == Op.AVG]]).tolist()
    if not counts:
        return ""
    by = " or ".join(f"{count}" for count in counts[:8])
    return f"avg: the file adds and does not divide; call it with ncclSum and divide the result by {by}"


def check_program(network: Network, demand: Demand, values: Mapping[str, OptionValue]) -> None:
    """Raise SourceError for a schedule that no MSCCL file can hold, before it is synthesized."""
    _check_runs(network, demand, msccl_options(values), plan=False)


def check_run(network: Network, demand: Demand, values: Mapping[str, OptionValue]) -> None:
    """Raise SourceError for a schedule that no run file can hold, before it is synthesized."""
    _check_runs(network, demand, msccl_options(values, "run"), plan=False)


def check_plan(network: Network, demand: Demand, values: Mapping[str, OptionValue]) -> None:
    """Raise SourceError for a schedule that no plan can hold, before it is synthesized."""
    _check_runs(network, demand, msccl_options(values, "mscclpp"), plan=True)


def _check_runs(network: Network, demand: Demand, options: MscclOptions, *, plan: bool) -> None:
    from collc.msccl.communicators import communicators_of
    from collc.msccl.lowering.precheck import precheck
    from collc.msccl.plans.precheck import precheck_plan

    communicators = communicators_of(network, demand, joint=options.custom)
    if options.best_known:
        for group in communicators:
            runs = group.demand.runs
            if len(runs) > 1 or any(run.standard is None for run in runs):
                names = " and ".join(dict.fromkeys(run.collective for run in runs))
                message = f"'sizes: auto' is for collectives of std.collectives with 'chunks', not for {names}"
                hint = "leave it out, or give the sizes, as in sizes: 64MiB .. 4GiB"
                raise SourceError(Diagnostic("M0119", message, hint=hint))
    for communicator in communicators:
        try:
            (precheck_plan if plan else precheck)(communicator.network, communicator.demand, options)
        except SourceError as error:
            if len(communicators) == 1:
                raise
            note = Note(f"it is run {communicator.run} of {len(communicators)}")
            raise SourceError(*(replace(d, notes=(*d.notes, note)) for d in error.diagnostics)) from error
    if not options.custom:
        _check_paths_inside(network, demand)


def _for_runs(
    module: Module, options: MscclOptions, destination: Destination, write: Callable[[Module, int | None], WrittenFile]
) -> WrittenFile:
    """The files of all runs. write: writes those of one run, whose number is in their names unless it is None."""
    from collc.msccl.communicators import communicators_of, rank_names

    communicators = communicators_of(module.network, module.demand, joint=options.custom)
    several = len(communicators) > 1
    written: list[WrittenFile] = []
    for communicator in communicators:
        module_of_run = communicator.module(module)
        if several:
            module_of_run = replace(module_of_run, name=f"{module.name} run {communicator.run}")
        run = (communicator.run or 0) if several or "{run}" in destination.path.name else None
        before = len(destination.finals)
        result = write(module_of_run, run)
        if several and len(destination.finals) == before + 1:
            result = replace(result, name=destination.run_file(communicator.run or 0))
        joint = communicator.run is None and len(module.demand.runs) > 1
        if joint or not communicator.in_order or module.network.has_labels:
            names = tuple(rank_names(module.network, communicator.members))
            labels = tuple(module.network.real_name(npu) for npu in map(int, communicator.members))
            run_number, collective = communicator.run or 0, module_of_run.demand.runs[0].collective
            collective = "custom" if joint else collective
            ranks = RunRanks(run_number, collective, names, labels if any(labels) else ())
            result = replace(result, ranks=(ranks,))
        if not communicator.in_order and not several:
            shown = [module.network.shown_name(int(npu)) for npu in communicator.members]
            named = ", ".join(f"{rank} is {name}" for rank, name in enumerate(shown[:8]))
            named += f" .. {len(shown) - 1} is {shown[-1]}" if len(shown) > 8 else ""
            result = replace(result, notes=(f"rank {named}", *result.notes))
        written.append(result)
    everything = combine(written)
    return replace(everything, notes=(*_joint_notes(module, communicators, destination), *everything.notes))


def _joint_notes(module: Module, found: Sequence[Communicator], destination: Destination) -> list[str]:
    """Remarks on the files of several runs: when they share links as planned, and which calls more than one fits."""
    if len(found) == 1:
        return []
    together = "the links are shared as planned if the collectives start together"
    notes = [f"{plural(len(found), 'run')}, a file each: {together}"]
    if not all(communicator.in_order for communicator in found):
        notes.append(f"{ranks_name(destination.path.name)} says which NPU is which rank of each file")
    same: dict[tuple[str, int], list[str]] = {}
    for communicator in found:
        run = module.demand.runs[communicator.run or 0]
        kind = run.standard.kind if run.standard else "custom"
        same.setdefault((kind, len(run.group)), []).append(destination.run_file(communicator.run or 0))
    for (kind, ranks), names in same.items():
        if len(names) > 1:
            notes.append(
                f"{in_short(names)} fit the same calls ({kind} of {ranks} ranks): give the processes of each group a "
                "folder that contains only their file"
            )
    return notes


def _collective_of(module: Module) -> tuple[str | None, int | None]:
    """The collective of the standard library that a module computes, and its root; None if there is none."""
    standard = module.demand.standard
    if standard is None:
        return None, None
    return standard.kind, standard.root if standard.root >= 0 else None


def _check_paths_inside(network: Network, demand: Demand) -> None:
    """Raise SourceError M0115 if only NPUs outside a group lead from one of its members to another."""
    from collc.msccl.communicators import for_one_run
    from collc.source.elaboration.unreachable import unreachable_chunk

    for number, run in enumerate(demand.runs):
        alone = Demand((run,))
        unreachable = unreachable_chunk(for_one_run(network, run.group), alone)
        if unreachable is None or unreachable_chunk(network, alone) is not None:
            continue
        ends = f"{network.shown_name(unreachable.source)} to {network.shown_name(unreachable.target)}"
        message = f"only NPUs outside the group of run {number} lead from {ends}, and its file has no rank for them"
        hint = 'add these to the group, or write one file for all NPUs: \'profile: "old", coll: "custom"\''
        raise SourceError(Diagnostic("M0115", message, hint=hint))


def emit_chakra(emission: Emission) -> WrittenFile:
    """Write Chakra traces, read them back and check them. Raises what `write_chakra` raises."""
    module, name = emission.module, emission.module.name
    emission.announce("writing Chakra traces")
    folder = emission.destination.new_folder(rf"(?:{re.escape(name)}|workload)\.\d+\.et|network\.yml|system\.json")
    notes = write_chakra(module, name, folder)
    emission.announce("reading the traces back and checking them")
    report = verify_traces(folder / name, demand=(module.demand, module.network))
    return WrittenFile(dict(report.checks), tuple(notes), report.diagnostics)
