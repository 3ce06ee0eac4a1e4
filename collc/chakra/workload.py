"""The workload that belongs to the traces of an algorithm: which collective it is, of how many bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from collc.base.diagnostics import SourceError
from collc.chakra.reader import messages_of
from collc.chakra.schema import CollectiveType, NodeType, schema
from collc.chakra.traces import trace_path

WORKLOAD: Final = "workload"
"""Name of the files that `emit chakra` writes beside those of the algorithm."""


def workload_beside(prefix: Path, ranks: int) -> tuple[str, int]:
    """(collective, bytes) of the workload of rank 0 in the same folder; ("", 0) if there is none, or more in it.

    comm_size counts what one rank puts in, which of an All-Gather is one block of the output.
    """
    try:
        messages = [data for _, data in messages_of(trace_path(prefix.with_name(WORKLOAD), 0))]
        node = schema().node()
        node.ParseFromString(messages[1] if len(messages) == 2 else b"")
    except (SourceError, schema().decode_error):
        return "", 0
    values = {attribute.name: attribute.int64_val for attribute in node.attr}
    known = {int(kind): kind.name.lower() for kind in CollectiveType}
    collective, size = known.get(values.get("comm_type", -1), ""), values.get("comm_size", 0)
    if node.type != NodeType.COLL or not collective or not 0 < size < 2**62:
        return "", 0
    return collective, size * ranks if collective == "all_gather" else size
