"""A process that runs a collective of torch.distributed over gloo as one rank, for comparison with schedules.

It is spoken to in frames, as `collc.runtime.worker` is: the call; that the network is there; and any number of starts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from collc.lab.emulated_network import DEVICE
from collc.runtime.frames import read_frame, starts, write_frame

CALLS: Final = ("allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce")
"""The collectives, as MSCCL calls them, that there are calls for."""


def main() -> None:
    """Answer the starter until it closes the pipe."""
    commands, answers = sys.stdin.buffer, sys.stdout.buffer
    values, _ = read_frame(commands)
    os.environ["GLOO_SOCKET_IFNAME"] = DEVICE
    torch, dist = _modules()
    torch.set_num_threads(1)
    write_frame(answers, {"ready": True})
    read_frame(commands)
    rank, ranks = values["rank"], values["ranks"]
    store, patience = dist.FileStore(values["store"], ranks), timedelta(seconds=values["seconds"])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=patience)
    call = _call_of(values["coll"], values["root"], values["elements"], ranks)
    call()
    write_frame(answers, {"connected": True})
    for start in starts(commands):
        time.sleep(max(0.0, start["at"] - time.monotonic()))
        call()
        write_frame(answers, {"ended": time.monotonic()})


def _modules() -> tuple[Any, Any]:
    return import_module("torch"), import_module("torch.distributed")


def _call_of(coll: str, root: int, elements: int, ranks: int) -> Callable[[], Any]:
    """A call of a collective. elements: of the buffer that MSCCL counts."""
    torch, dist = _modules()
    whole, part = torch.ones(elements), torch.ones(elements // ranks)
    blocks = torch.ones(elements // ranks * ranks)
    calls: dict[str, Callable[[], Any]] = {
        "allreduce": lambda: dist.all_reduce(whole),
        "allgather": lambda: dist.all_gather_into_tensor(blocks, part),
        "reducescatter": lambda: dist.reduce_scatter_tensor(part, blocks),
        "alltoall": lambda: dist.all_to_all_single(torch.empty_like(blocks), blocks),
        "broadcast": lambda: dist.broadcast(whole, root),
        "reduce": lambda: dist.reduce(whole, root),
    }
    return calls[coll]
