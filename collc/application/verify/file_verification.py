"""`collc verify`: all checks of a file or module of any origin, and of Chakra traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from collc.application.file_kinds import call_for, kind_for
from collc.application.program_files import not_one_schedule
from collc.application.schedule_times import check_possible, step_count
from collc.application.verify.file_report import FileReport, reasons_of
from collc.application.verify.named_collectives import check_demand, collective_named, named_chunks
from collc.base.diagnostics import CheckFailed, Diagnostic, Note, Outcome, SourceError, UsageError
from collc.base.units import format_time
from collc.base.wording import phrase
from collc.ten.module import Module

if TYPE_CHECKING:
    from collc.chakra.results import Wanted
    from collc.chakra.traces import Traces
    from collc.msccl.check.findings import Verdict
    from collc.msccl.check.model import Profile
    from collc.msccl.communicators import Communicator
    from collc.source.program import ScheduleRequest
    from collc.ten.demand import Demand
    from collc.ten.network import Network


_UNCHECKED_NAMES: Final = ("send", "recv", "alltoallv", "custom")
"""Names of collectives that a file may have although collc does not know their results."""

_ALL_CONTRACTS: Final = 8 * 2**20
"""Bytes of an MSCCL file up to which the report says also whether the other runtimes accept the file."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a file is checked against. None: what the file says itself.

    collective, root: the collective over all NPUs that the file must compute, and the rank of its root.
    profile: the runtime that will load an MSCCL file.
    program, schedule: a `.coll` file and the name of one of its schedules, whose network and demand count.
    gpus_per_node: of an MSCCL++ plan, how many consecutive ranks map each other's memory; None: not known.
    """

    collective: str | None = None
    root: int | None = None
    profile: Profile = "executor"
    program: Path | None = None
    schedule: str | None = None
    gpus_per_node: int | None = None


def verify_file(path: Path, expected: Expectation) -> FileReport:
    """Check a `.ten` file (as text or binary), an MSCCL file, an MSCCL++ plan, or Chakra traces PREFIX.<rank>.et.

    Raises UsageError if the file cannot be opened or is of no kind that can be checked, or if a name is unknown;
    CheckFailed if the file is not what the expectation says.
    """
    if expected.collective is not None:
        collective_named(expected.collective, _UNCHECKED_NAMES)
    if expected.gpus_per_node is not None and kind_for(path, "verify").name != "mscclpp":
        message = f"{path} is not an MSCCL++ plan: it has no nodes"
        raise UsageError(Diagnostic("X0208", message, hint="leave --gpus-per-node out"))
    report: FileReport = call_for(path, "verify", expected)
    return report


def verify_chakra(path: Path, expected: Expectation) -> FileReport:
    """Check the Chakra traces PREFIX.<rank>.et. Raises as `verify_file` does."""
    request = None if expected.program is None else _request(expected.program, expected.schedule)
    demand = None if request is None else (request.demand, request.network)
    return verify_traces(path, expected.collective, expected.root, demand)


def verify_ten(path: Path, expected: Expectation) -> FileReport:
    """Check a `.ten` file. Raises as `verify_file` does."""
    from collc.ten.binary import read_module
    from collc.verification import CHECKS

    try:
        module = read_module(path)
    except SourceError as error:
        checks: dict[str, Outcome] = dict.fromkeys(CHECKS, "skipped")
        reasons = reasons_of(checks, unreadable=True)
        return FileReport(path, "ten", checks, {}, error.diagnostics, unreadable=True, skipped=reasons)
    return verify_module(module, expected, path)


def verify_module(module: Module, expected: Expectation, path: Path | None = None) -> FileReport:
    """Check a module, which was read from `path` or is in no file (None). Raises as `verify_file` does."""
    from collc.verification import verify_schedule

    if expected.program is not None:
        module = _with_demand_of(module, expected.program, expected.schedule)
    if expected.collective is not None:
        check_demand(module, expected.collective, expected.root or 0)
    verdict = verify_schedule(module)
    summary: dict[str, object] = {
        "name": module.name,
        "npus": len(module.network.npus),
        "links": module.network.link_count,
        "chunks": len(module.demand.chunks),
        "algorithm": module.algorithm,
        "link_model": module.model.value,
        "transfers": None if module.schedule is None else len(module.schedule),
    }
    warnings: list[Diagnostic] = []
    skipped = reasons_of(verdict.checks, "there is no schedule")
    if module.schedule is None:
        message = f"{path or module.name} has no schedule: there was nothing to check"
        warnings.append(Diagnostic("C0205", message, warning=True))
    elif verdict.ok:
        bound, time = module.bound, module.collective_time()
        if bound is not None and bound.time > time:
            message = f"'{module.name}' says that no schedule takes less than {format_time(bound.time)} ({bound.name})"
            note = Note(f"its own schedule takes {format_time(time)}{_without_launch(module)}, and is right")
            raise CheckFailed(Diagnostic("V0111", message, notes=(note,)))
        times, warnings = _times(module)
        summary |= times
    return FileReport(path, "ten", verdict.checks, summary, (*verdict.diagnostics, *warnings), skipped=skipped)


def _times(module: Module) -> tuple[Mapping[str, object], list[Diagnostic]]:
    """Time, steps, lower bound and ideal for the summary; warning C0206 if the module claims a higher bound."""
    from collc.synthesis.bounds import ideal_bound, lower_bound

    ideal = ideal_bound(module.network, module.demand, module.model)
    bound = lower_bound(module.network, module.demand, module.model, ideal=ideal)
    time = module.collective_time()
    check_possible(module.name, time, (bound.time, bound.name), (ideal.time, ideal.name))
    launch = module.network.launch
    times = {"time_ps": launch + time, "steps": step_count(module, time), "bound_ps": launch + bound.time}
    times |= {"bound": bound.name, "ideal_ps": launch + ideal.time, "ideal": ideal.name}
    if module.bound is None or module.bound.time <= bound.time:
        return times, []
    claimed, shown = format_time(module.bound.time), format_time(bound.time)
    message = f"the file says that no schedule takes less than {claimed}, but collc can only show {shown}"
    message += _without_launch(module)
    return times, [Diagnostic("C0206", message, warning=True)]


def _without_launch(module: Module) -> str:
    """What a message adds to times as the file has them, which count from the end of the launch."""
    launch = module.network.launch
    return f" (without the launch of {format_time(launch)})" if launch else ""


def _with_demand_of(module: Module, program: Path, schedule: str | None) -> Module:
    """The module's schedule with the network and demand of a program.

    Raises CheckFailed V0106 if links differ, or the link model from the one that the program states.
    """
    request = _request(program, schedule)
    theirs, ours = request.network, module.network
    names = [[network.link_name(link) for link in range(network.link_count)] for network in (theirs, ours)]
    if names[0] != names[1]:
        message = f"the links of '{module.name}' are not those of '{theirs.name}' in {program}"
        other = next((pair for pair in zip(*names, strict=False) if pair[0] != pair[1]), None)
        difference = f"{len(names[1])} links, not {len(names[0])}" if other is None else f"{other[1]}, not {other[0]}"
        raise CheckFailed(Diagnostic("V0106", message, notes=(Note(f"the file has {difference}"),)))
    stated = request.options.get("link_model")
    if stated is not None and stated.value != module.model.value:
        message = f"'{module.name}' is planned for link model {module.model.value}, and {program} for {stated.value}"
        raise CheckFailed(Diagnostic("V0106", message))
    return replace(module, network=theirs, demand=request.demand)


def _request(program: Path, schedule: str | None) -> ScheduleRequest:
    """The schedule of a program to check against. Raises UsageError U0107 if `schedule` must say which."""
    from collc.source.elaboration.elaborate import load_program

    requests = load_program(program, {}, schedule).schedules
    if len(requests) != 1:
        raise not_one_schedule(program, len(requests))
    return requests[0]


def verify_msccl(path: Path, expected: Expectation) -> FileReport:
    """Check an MSCCL file. Raises as `verify_file` does."""
    from collc.msccl.check import check_file, contract_of
    from collc.msccl.check.model import PROFILES

    report = _runtime_report(path, "msccl", expected, partial(check_file, path, profile=expected.profile))
    if not report.summary or path.stat().st_size > _ALL_CONTRACTS:
        return report
    coll, outcome = str(report.summary["coll"]), report.checks["contract"]
    others = {name: outcome if name == expected.profile else contract_of(path, name, coll) for name in PROFILES}
    return replace(report, summary={**report.summary, "contracts": others})


def verify_run(path: Path, expected: Expectation) -> FileReport:
    """Check a run file. Raises as `verify_file` does."""
    from collc.msccl.check import check_file

    return _runtime_report(path, "run", expected, partial(check_file, path))


def verify_plan(path: Path, expected: Expectation) -> FileReport:
    """Check an MSCCL++ plan. Raises as `verify_file` does."""
    from collc.msccl.check_plan import check_plan

    return _runtime_report(path, "mscclpp", expected, partial(check_plan, path, nodes=expected.gpus_per_node))


def _runtime_report(path: Path, kind: str, expected: Expectation, check: Callable[..., Verdict[Any]]) -> FileReport:
    """The report on a file, with the reason for each skipped check.

    check: of the file, given `collective`, `root` or the `expected` result. Warning C0208 if no check failed and some
    were skipped.
    """
    verdict = _run_check(path, expected, check)
    summary = {} if verdict.summary is None else asdict(verdict.summary)
    reason = f"'{summary.get('coll')}' does not say what is computed"
    checks: dict[str, Outcome] = {**verdict.checks}
    skipped, messages = reasons_of(checks, reason), verdict.diagnostics
    if skipped and verdict.ok:
        message = f"{phrase(list(skipped))} {'was' if len(skipped) == 1 else 'were'} not checked: {reason}"
        hint = "--collective NAME says what it should do, or --program FILE.coll --schedule NAME"
        messages = (*messages, Diagnostic("C0208", message, hint=hint, warning=True))
    return FileReport(path, kind, checks, summary, messages, skipped=skipped)


def _run_check(path: Path, expected: Expectation, check: Callable[..., Verdict[Any]]) -> Verdict[Any]:
    """The verdict on a file; if a program is given, against the run that the file is for."""
    from collc.msccl.check import expected_of

    if expected.program is None:
        return check(collective=expected.collective, root=expected.root)
    request, verdict = _request(expected.program, expected.schedule), check()
    if verdict.summary is None or verdict.checks.get("contract") == "failed":
        return verdict  # its numbers may be absurd
    module_of_file = _part_for_file(path, request, verdict.summary.coll, verdict.summary.ranks)
    standard = module_of_file.demand.standard
    if standard is not None and verdict.summary.coll != "custom":
        root = standard.root if standard.root >= 0 else None
        return check(collective=expected.collective or standard.kind, root=root)
    width = expected_of(module_of_file.network, module_of_file.demand).width
    chunks = getattr(verdict.summary, "nchunksperloop", None) or verdict.summary.chunks
    result = expected_of(module_of_file.network, module_of_file.demand, max(1, chunks // max(1, width)))
    return check(collective="custom", expected=result)


def _part_for_file(path: Path, request: ScheduleRequest, coll: str, ranks: int) -> Communicator:
    """The run of a schedule that a file is for, by its collective and number of ranks, or all runs together.

    Raises CheckFailed V0108 if there is none.
    """
    from collc.msccl.check.collectives import canonical
    from collc.msccl.communicators import communicators_of

    runs = communicators_of(request.network, request.demand)
    fitting: list[Communicator] = []
    for communicator in runs:
        standard = communicator.demand.standard
        if len(communicator.members) == ranks and (
            len(runs) == 1 or canonical(standard.kind if standard else "custom") == coll
        ):
            fitting.append(communicator)
    if coll == "custom":
        joint = communicators_of(request.network, request.demand, joint=True)
        fitting += [communicator for communicator in joint if len(communicator.members) == ranks]
    if not fitting:
        what = f"the collective {coll} of {ranks} ranks"
        message = f"{path} is for {what}, and no run of '{request.name}' is that"
        raise CheckFailed(Diagnostic("V0108", message, hint="name the schedule that the file was made from"))
    return fitting[0]


TRACE_CHECKS: Final = ("contract", "deadlock", "result")
"""Each send has its receive; no nodes wait for one another; every rank ends with what it must hold."""

_NOT_READ: Final = ("X0501", "X0502", "X0508")
"""Codes of traces that cannot be read at all."""

_NO_CHUNKS: Final = "the names of the nodes do not say which chunk they carry"
_NO_COLLECTIVE: Final = "nothing says which collective the traces are: --collective NAME does"


def verify_traces(
    path: Path, collective: str | None = None, root: int | None = None, demand: tuple[Demand, Network] | None = None
) -> FileReport:
    """Check the traces PREFIX.<rank>.et.

    What they must do is the demand, or else the collective of the standard library, or else what the workload beside
    them says. Raises UsageError for an unknown collective or a root that is not a rank.
    """
    from collc.chakra.messages import deadlock, matched_messages, waiting_cycle
    from collc.chakra.reader import read_traces
    from collc.chakra.results import node_chunks, result_errors

    checks: dict[str, Outcome] = dict.fromkeys(TRACE_CHECKS, "skipped")
    summary: dict[str, object] = {}
    messages: list[Diagnostic] = []
    reason, unreadable = "", False
    try:
        traces = read_traces(path)
        summary |= {"name": path.name, "npus": traces.ranks, "nodes": len(traces)}
        sends, receives = matched_messages(traces)
        summary["messages"], checks["contract"] = len(sends), "ok"
        cycle = waiting_cycle(traces, sends, receives)
        checks["deadlock"] = "failed" if cycle else "ok"
        if cycle:
            raise deadlock(traces, cycle)
        chunks = node_chunks(traces)
        wanted = None if chunks is None else _expected_chunks(traces, chunks, collective, root, demand)
        if chunks is None or wanted is None:
            reason = _NO_CHUNKS if chunks is None else _NO_COLLECTIVE
            hint = "collc names the chunks in the traces it writes"
            messages.append(Diagnostic("C0208", f"result was not checked: {reason}", hint=hint, warning=True))
        else:
            messages = result_errors(traces, sends, receives, chunks, wanted)
            checks["result"] = "failed" if messages else "ok"
    except (SourceError, CheckFailed) as error:
        messages = [*error.diagnostics]
        unreadable = messages[0].code in _NOT_READ
        if checks["contract"] != "ok" and not unreadable:
            checks["contract"] = "failed"
    skipped = reasons_of(checks, reason, unreadable=unreadable)
    return FileReport(path, "chakra", checks, summary, tuple(messages), unreadable, skipped)


def _expected_chunks(
    traces: Traces, chunks: list[str], collective: str | None, root: int | None, demand: tuple[Demand, Network] | None
) -> Mapping[str, Wanted] | None:
    """The chunks of the collective that the traces are, None if nothing says which one."""
    from collc.chakra.results import Wanted, wanted_by
    from collc.chakra.workload import workload_beside

    if demand is not None:
        return wanted_by(*demand)
    name = workload_beside(traces.prefix, traces.ranks)[0] if collective is None else collective_named(collective)
    if not name:
        return None
    last = [int(index[1]) for chunk in set(chunks) if (index := re.search(r"(\d{1,18})\]$", chunk))]
    count = min(1 + max(last, default=0), len(traces) + 1)
    named = named_chunks(name, traces.ranks, count, root or 0)

    def bits(ranks: list[int]) -> int:
        return sum(1 << rank for rank in ranks)

    return {chunk: Wanted(bits(pre), bits(post), sums) for chunk, (pre, post, sums) in named.items()}
