"""`collc verify DIR/PREFIX`: all checks of Chakra traces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collc.application.verify.file_report import FileReport, reasons_of
from collc.application.verify.named_collectives import collective_named, named_chunks
from collc.base.diagnostics import CheckFailed, Diagnostic, Outcome, SourceError

if TYPE_CHECKING:
    from collc.chakra.results import Wanted
    from collc.chakra.traces import Traces
    from collc.ten.demand import Demand
    from collc.ten.network import Network

TRACE_CHECKS: Final = ("contract", "deadlock", "result")
"""Each send has its receive; no nodes wait for one another; every rank ends with what it must hold."""

_NOT_READ: Final = ("X0501", "X0502", "X0508")
"""Codes of traces that cannot be read at all."""

_NO_CHUNKS: Final = "the names of the nodes do not say which chunk they carry"
_NO_COLLECTIVE: Final = "nothing says which collective the traces are: --collective NAME does"


def verify_traces(
    path: Path,
    collective: str | None = None,
    root: int | None = None,
    demand: tuple[Demand, Network] | None = None,
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
