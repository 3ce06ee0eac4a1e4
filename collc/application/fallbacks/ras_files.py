"""Which GPUs NCCL's RAS reports as dead: `ncclras -f json` and `ncclras -m -f json` (NVIDIA, NCCL user guide, RAS).

A status lists `missing_ranks` of each communicator. In monitoring mode, `PEER_DEAD` events follow each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.reading import read_text


@dataclass(frozen=True, slots=True)
class DeadGpu:
    """A GPU that RAS calls dead or does not reach.

    host: as RAS prints it. device: its number on the host. rank: in a communicator of `size` ranks; both -1 if the
    report is about a process.
    """

    host: str
    device: int
    rank: int = -1
    size: int = -1


def read_dead_gpus(path: Path) -> list[DeadGpu]:
    """The dead GPUs of a file, each once. Raises SourceError X0802 if it is no such file, or no GPU is dead."""
    gpus = dict.fromkeys(gpu for value in _values(path) for gpu in _gpus_of(value, path))
    if not gpus:
        message = f"{path} reports no dead GPU: it has neither PEER_DEAD events nor missing ranks"
        raise SourceError(Diagnostic("X0802", message))
    return [*gpus]


def _values(path: Path) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a file, one after another. What monitoring prints before the first is skipped."""
    text = read_text(path).text
    position, decoder = text.find("{"), json.JSONDecoder()
    while 0 <= position < len(text):
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise SourceError(Diagnostic("X0802", f"{path} is not JSON: {error}")) from None
        yield value
        position = text.find("{", end)


def _gpus_of(value: Mapping[str, Any], path: Path) -> Iterator[DeadGpu]:
    try:
        if value.get("event") == "PEER_DEAD":
            peer = value["peer"]
            yield from (DeadGpu(str(peer["host"]), int(device)) for device in peer["nvml_devs"])
        for communicator in cast("Sequence[Any]", value.get("communicators", ())):
            for rank in communicator["missing_ranks"]:
                if rank["status"]["unresponsive"] or rank["status"]["considered_dead"]:
                    where = str(rank["host"]), int(rank["nvml_dev"])
                    yield DeadGpu(*where, int(rank["rank"]), int(communicator["size"]))
    except (KeyError, TypeError, ValueError) as error:
        message = f"{path} is not what NCCL's RAS prints: {type(error).__name__}: {error}"
        raise SourceError(Diagnostic("X0802", message)) from None
