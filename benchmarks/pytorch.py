"""All-Reduces of torch.distributed on this machine: schedules of collc against gloo. Needs collc[torch].

`python benchmarks/pytorch.py [RANKS]` prints a Markdown table: the median of calls that take turns, in milliseconds.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import multiprocessing

import collc

SIZES = {4: 60, 256 << 10: 60, 4 << 20: 30, 64 << 20: 5}
"""Bytes, and how often each is measured."""
PROGRAM = """
import std.topologies
import std.collectives
topology t = {net}
schedule small on t {{ run all_reduce(t.npus, size: 1KiB) synthesize auto(link_model: "pipelined") emit run }}
schedule large on t {{ run all_reduce(t.npus, size: 4MiB) emit run(sizes: 32KiB .. 1GiB) }}
"""
NETS = ("ring", "fully_connected")


def measure(rank: int, ranks: int, folder: str) -> None:
    """One rank; rank 0 prints a row for each size."""
    import collc.torch

    torch.set_num_threads(1)
    groups = {}
    for net in NETS:
        os.environ[collc.torch.FOLDER] = f"{folder}/{net}"
        init = f"file://{folder}/{net}/rendezvous"
        if not groups:
            dist.init_process_group("collc", init_method=init, rank=rank, world_size=ranks)
        groups[net] = dist.new_group(backend="collc")
    groups["gloo"] = dist.new_group(backend="gloo")
    for size, times in SIZES.items():
        tensor, spent = torch.zeros(max(1, size // 4)), {name: list[float]() for name in groups}
        for _ in range(times + 1):
            for name, group in groups.items():
                dist.barrier(groups["gloo"])
                began = time.perf_counter()
                dist.all_reduce(tensor, group=group)
                spent[name].append(time.perf_counter() - began)
        medians = {name: 1e3 * statistics.median(measured[1:]) for name, measured in spent.items()}
        if not rank:
            row = " | ".join(f"{medians[name]:.2f} ({medians[name] / medians['gloo']:.2f})" for name in NETS)
            print(f"| {size} | {row} | {medians['gloo']:.2f} |", flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Compile a schedule for each network, and measure on all ranks."""
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory() as folder:
        for net in NETS:
            topology = f"{net}({ranks}, bandwidth: 12.5GB/s, latency: 20us)"
            collc.compile_text(PROGRAM.format(net=topology), output=f"{folder}/{net}")
        print("| bytes |", " | ".join(NETS), "| gloo |\n|---|" + "---|" * (len(NETS) + 1))
        multiprocessing.spawn(measure, (ranks, folder), nprocs=ranks)


if __name__ == "__main__":
    main()
