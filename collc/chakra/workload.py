"""The workload that belongs to the traces of an algorithm: which collective it is, of how many bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from collc.base.diagnostics import SourceError
from collc.chakra.reader import first_node_attributes
from collc.chakra.schema import CollectiveType, NodeType
from collc.chakra.traces import trace_path
from collc.kernels.trace_nodes import SIZE, TYPE

WORKLOAD: Final = "workload"
"""Name of the files that `emit chakra` writes beside those of the algorithm."""


def workload_beside(prefix: Path, ranks: int) -> tuple[str, int]:
    """(collective, bytes) of the workload of rank 0 in the same folder; ("", 0) if there is none, or more in it.

    comm_size counts what one rank puts in, which of an All-Gather is one block of the output.
    """
    try:
        kind, values = first_node_attributes(trace_path(prefix.with_name(WORKLOAD), 0))
    except SourceError:
        return "", 0
    known = {int(kind): kind.name.lower() for kind in CollectiveType}
    collective, size = known.get(values.get(TYPE, -1), ""), values.get(SIZE, 0)
    if kind != NodeType.COLL or not collective or not 0 < size < 2**62:
        return "", 0
    return collective, size * ranks if collective == "all_gather" else size
