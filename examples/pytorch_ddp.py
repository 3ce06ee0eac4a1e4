"""Train a small model with PyTorch's DDP on four processes, whose All-Reduces run by a schedule of collc.

pip install collc[torch]
python examples/pytorch_ddp.py
"""

from __future__ import annotations

import os
import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

RANKS = 4
PROGRAM = """
import std.topologies
import std.collectives
topology net = ring(4, bandwidth: 12.5GB/s, latency: 5us)
schedule gradients on net {
    run all_reduce(net.npus, size: 1MiB)
    emit run
}
"""


def train(rank: int, folder: str) -> None:
    """Train on one rank."""
    import collc.torch  # makes the backend known

    torch.set_num_threads(1)
    os.environ[collc.torch.FOLDER] = folder
    dist.init_process_group("collc", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(64, 64, generator=torch.Generator().manual_seed(rank))
    for step in range(20):
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not rank and step % 5 == 4:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    if not rank:
        for (collective, by), count in sorted(collc.torch.counts().items()):
            print(f"{collective}: {count} calls by {by}")
    dist.destroy_process_group()


def main() -> None:
    """Compile the schedule, then train on all ranks."""
    import collc

    with tempfile.TemporaryDirectory() as folder:
        collc.compile_text(PROGRAM, output=folder)
        multiprocessing.spawn(train, (folder,), nprocs=RANKS)


if __name__ == "__main__":
    main()
