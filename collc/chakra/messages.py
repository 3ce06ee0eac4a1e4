"""Which send and receive of the traces belong together, and whether all nodes can run."""

from __future__ import annotations

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, Note
from collc.chakra.schema import NodeType
from collc.chakra.traces import Traces
from collc.ten.arrays import Int32Array, Int64Array


def matched_messages(traces: Traces) -> tuple[Int32Array, Int32Array]:
    """(sends, receives): int32[messages], the nodes at both ends of each message, in order of the send.

    The k-th send goes with the k-th receive of the same tag, ranks and size. Raises CheckFailed (X0506) where one of
    them is left.
    """
    rank = np.repeat(np.arange(traces.ranks), np.diff(traces.first))
    sends = np.flatnonzero(traces.kind == NodeType.SEND)
    receives = np.flatnonzero(traces.kind == NodeType.RECV)
    sent = _keys(traces, sends, rank[sends], traces.peer[sends])
    received = _keys(traces, receives, traces.peer[receives], rank[receives])
    keys, number = np.unique(np.concatenate([sent, received]), axis=0, return_inverse=True)
    balance = np.bincount(number[: len(sends)], minlength=len(keys)) - np.bincount(
        number[len(sends) :], minlength=len(keys)
    )
    if balance.any():
        raise _unmatched(traces, sends, receives, number.reshape(-1), balance)
    by_key = sends[np.argsort(number[: len(sends)], kind="stable")]
    partner = receives[np.argsort(number[len(sends) :], kind="stable")]
    order = np.argsort(by_key)
    return by_key[order].astype(np.int32), partner[order].astype(np.int32)


def _keys(
    traces: Traces, nodes: Int64Array, source: Int32Array | Int64Array, target: Int32Array | Int64Array
) -> Int64Array:
    """int64[nodes, 4]: tag, ranks and size."""
    return np.stack([traces.tag[nodes], source, target, traces.size[nodes]], axis=1).astype(np.int64)


def _unmatched(
    traces: Traces, sends: Int64Array, receives: Int64Array, number: Int64Array, balance: Int64Array
) -> CheckFailed:
    """The error about the first node without a partner."""
    more_sends = balance[number[: len(sends)]] > 0
    more_receives = balance[number[len(sends) :]] < 0
    lonely = int(np.concatenate([sends[more_sends], receives[more_receives]]).min())
    other, verb = ("receive", "to") if traces.kind[lonely] == NodeType.SEND else ("send", "from")
    what = f"{traces.size[lonely]} bytes {verb} rank {traces.peer[lonely]} with tag {traces.tag[lonely]}"
    return CheckFailed(Diagnostic("X0506", f"{traces.label(lonely)}: no {other} matches it ({what})"))


def waiting_cycle(traces: Traces, sends: Int32Array, receives: Int32Array) -> list[int]:
    """Nodes that wait for one another, each for the next one and the last for the first; [] if all can run."""
    before = np.concatenate([traces.before, sends])
    after = np.concatenate([traces.after, receives])
    order = np.argsort(before, kind="stable")
    offsets = np.searchsorted(before[order], np.arange(len(traces) + 1)).tolist()
    followers: list[int] = after[order].tolist()
    left: list[int] = np.bincount(after, minlength=len(traces)).tolist()
    free = [node for node, count in enumerate(left) if count == 0]
    while free:
        node = free.pop()
        for follower in followers[offsets[node] : offsets[node + 1]]:
            left[follower] -= 1
            if left[follower] == 0:
                free.append(follower)
    stuck = np.flatnonzero(np.array(left, np.int64) > 0)
    if not len(stuck):
        return []
    blocking = np.isin(before, stuck) & np.isin(after, stuck)
    waits_for = dict(zip(after[blocking].tolist(), before[blocking].tolist(), strict=True))
    seen: dict[int, int] = {}
    node = int(stuck[0])
    while node not in seen:
        seen[node] = len(seen)
        node = waits_for[node]
    return list(seen)[seen[node] :]


def deadlock(traces: Traces, cycle: list[int]) -> CheckFailed:
    """The error about nodes that wait for one another (X0507)."""
    shown = [Note(f"{traces.label(node)} waits for") for node in cycle[:8]]
    last = f"and {len(cycle) - 8} more wait" if len(cycle) > 8 else f"{traces.label(cycle[0])} again"
    message = f"{traces.prefix}: {len(cycle)} nodes wait for one another forever"
    return CheckFailed(Diagnostic("X0507", message, notes=(*shown, Note(last))))
