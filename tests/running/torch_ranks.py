"""What the processes of test_torch.py do: `python -m tests.running.torch_ranks CHECK RANKS FOLDER`. Prints JSON."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import multiprocessing, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

DTYPES = (torch.float32, torch.bfloat16, torch.int32, torch.uint8)
SIZES = (1, 64, 20011)


def numbers(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers, whose sums and products every type holds exactly."""
    return torch.randint(0, 3, (count,), generator=torch.Generator().manual_seed(rank)).to(dtype)


def collectives(rank: int, ranks: int) -> dict:
    """Every call, type, reduction and placement against what torch computes in one process."""
    wrong: list[str] = []

    def compare(what: str, got: torch.Tensor, wanted: torch.Tensor) -> None:
        if not torch.equal(got, wanted.to(got.dtype)):
            wrong.append(what)

    for dtype in DTYPES:
        for size in SIZES:
            given = [numbers(number, size, dtype) for number in range(ranks)]
            long = torch.stack(given).double()
            named = {"SUM": long.sum(0), "MAX": long.amax(0), "MIN": long.amin(0), "PRODUCT": long.prod(0)}
            named["AVG"] = long.mean(0) if dtype.is_floating_point else long.mean(0).floor()
            for op, wanted in named.items():
                tensor = given[rank].clone()
                dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
                compare(f"all_reduce {op} {dtype} {size}", tensor, wanted)
            kept = given[rank].clone()
            out = torch.zeros(ranks * size, dtype=dtype)
            dist.all_gather_single(out, kept)
            compare(f"all_gather {dtype} {size}", out, torch.cat(given))
            own = slice(rank * size, (rank + 1) * size)
            out.zero_()
            out[own] = kept
            dist.all_gather_single(out, out[own])
            compare(f"all_gather in place {dtype} {size}", out, torch.cat(given))
            out = torch.zeros(ranks * size, dtype=dtype)
            out[own] = kept
            dist.all_gather_single(out, kept if rank else out[own])
            compare(f"all_gather in place on one rank {dtype} {size}", out, torch.cat(given))
            blocks = [numbers(number + 50, ranks * size, dtype) for number in range(ranks)]
            summed = torch.stack(blocks).double().sum(0)[own]
            tensor, out = blocks[rank].clone(), torch.zeros(size, dtype=dtype)
            dist.reduce_scatter_single(out, tensor)
            compare(f"reduce_scatter {dtype} {size}", out, summed)
            compare(f"input of reduce_scatter {dtype} {size}", tensor, blocks[rank])
            dist.reduce_scatter_single(tensor[own], tensor)
            compare(f"reduce_scatter in place {dtype} {size}", tensor[own], summed)
            tensor = blocks[rank].clone()
            out = torch.zeros(size, dtype=dtype) if rank else tensor[own]
            dist.reduce_scatter_single(out, tensor)
            compare(f"reduce_scatter in place on one rank {dtype} {size}", out, summed)
            out = torch.zeros(ranks * size, dtype=dtype)
            dist.all_to_all_single(out, blocks[rank])
            compare(f"all_to_all {dtype} {size}", out, torch.cat([block[own] for block in blocks]))
            for root in (0, 1):
                tensor = given[rank].clone()
                dist.broadcast(tensor, root)
                compare(f"broadcast {root} {dtype} {size}", tensor, given[root])
            tensors = [given[rank].clone() for _ in range(3)]
            for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
                work.wait()
            for tensor in tensors:
                compare(f"async {dtype} {size}", tensor, named["SUM"])
    compare("calls of two threads", sums_of_two_threads(), torch.full((20, 20000), float(ranks)))
    pair = dist.new_group([0, 1])
    if rank < 2:
        tensor = torch.full((4,), float(rank))
        dist.all_reduce(tensor, group=pair)
        compare("new_group", tensor, torch.ones(4))
    lists = [torch.zeros(2) for _ in range(ranks)]
    dist.all_gather(lists, torch.full((2,), float(rank)))
    compare("lists", torch.stack(lists), torch.arange(ranks)[:, None].expand(-1, 2))
    transposed = torch.ones(4, 3).t()
    dist.all_reduce(transposed)
    compare("strides", transposed, torch.full((3, 4), float(ranks)))
    splits = torch.ones(ranks, ranks, dtype=torch.int64)
    splits[1, 1] = 2  # only rank 1 sees that they are unequal
    received = splits[:, rank].tolist()
    out = torch.zeros(sum(received))
    dist.all_to_all_single(out, torch.full((int(splits[rank].sum()),), float(rank)), received, splits[rank].tolist())
    compare("splits", out, torch.arange(ranks).repeat_interleave(splits[:, rank]))
    for out in (torch.zeros(ranks + 1), torch.zeros(ranks, dtype=torch.int32)):
        try:
            dist.all_gather_single(out, torch.ones(1))
            wrong.append(f"no error for an output {out}")
        except RuntimeError:  # gloo's
            pass
    sent = [dist.isend(torch.full((2,), float(tag)), 1, tag=tag) for tag in range(20)] if not rank else []
    tensor = torch.full((ranks,), float(rank))
    dist.all_reduce(tensor)
    compare("all_reduce while messages are under way", tensor, torch.full((ranks,), float(sum(range(ranks)))))
    for tag in range(20 if rank == 1 else 0):
        dist.recv(tensor[:2], 0, tag=tag)
        compare("a message of the program", tensor[:2], torch.full((2,), float(tag)))
    for work in sent:
        work.wait()
    return {"wrong": wrong}


def sums_of_two_threads() -> torch.Tensor:
    """Equal All-Reduces, whose order does not matter."""
    tensors = [torch.ones(20000) for _ in range(20)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(dist.all_reduce, tensors))
    return torch.stack(tensors)


def model() -> nn.Sequential:
    """A small model, equal on all ranks."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 40), nn.Tanh(), nn.Linear(40, 16)).double()


def train(parallel: nn.Module, inputs: torch.Tensor) -> None:
    """Three steps."""
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        parallel(inputs).square().mean().backward()
        optimizer.step()


def full(parameters: list) -> torch.Tensor:
    """All parameters in one vector."""
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in parameters]
    return torch.cat([p.detach().reshape(-1) for p in whole])


def training(rank: int, ranks: int) -> dict:
    """DDP, FSDP2, tensor parallel and compiled functional collectives against one process, and against gloo."""
    inputs = torch.randn(4 * ranks, 16, generator=torch.Generator().manual_seed(1)).double()
    alone, own_mesh = model(), init_device_mesh("cpu", (ranks,))
    train(alone, inputs)
    wanted, differences, trained = full(list(alone.parameters())), {}, []
    over_gloo = DeviceMesh.from_group(dist.new_group(backend="gloo"), "cpu")
    for mesh in (own_mesh, own_mesh, over_gloo):
        ddp = DistributedDataParallel(model(), process_group=mesh.get_group())
        fsdp, tensor_parallel, found = model(), model(), []
        for layer in fsdp:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(fsdp, mesh=mesh)
        parallelize_module(tensor_parallel, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        own = inputs[4 * rank : 4 * rank + 4]
        for name, parallel, given in (("ddp", ddp, own), ("fsdp", fsdp, own), ("tensor", tensor_parallel, inputs)):
            train(parallel, given)
            found.append(full(list(parallel.parameters())))
            differences[name] = float((found[-1] - wanted).abs().max())
        trained.append(full(found))
    differences["gloo"] = float((trained[2] - trained[0]).abs().max())
    digests = [hashlib.sha256(vector.numpy().tobytes()).hexdigest() for vector in trained[:2]]

    def step(x: torch.Tensor) -> torch.Tensor:
        reduced = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
        gathered = functional.all_gather_tensor(reduced, 0, dist.group.WORLD)
        return functional.reduce_scatter_tensor(gathered, "sum", 0, dist.group.WORLD) + 1

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    x = torch.full((8,), float(rank + 1), dtype=torch.float64)
    total = ranks * (ranks + 1)
    differences["compiled"] = float((compiled(x) - (total * ranks + 1)).abs().max())
    return {"differences": differences, "digests": digests}


def lost(rank: int, ranks: int) -> dict:
    """One rank leaves; the others get an error that names a rank, and further calls fail too."""
    dist.all_reduce(torch.ones(8))
    return lost_early(rank, ranks)


def aborted(rank: int, ranks: int) -> dict:
    """One rank aborts the group, and stays."""
    if rank == ranks - 1:
        dist.group.WORLD.abort()
        time.sleep(5)
    return lost_early(rank, ranks)


def lost_early(rank: int, ranks: int) -> dict:
    """One rank leaves before its first call, though the others may wait for a minute."""
    if rank == ranks - 1:
        os._exit(0)
    messages = []
    for is_async in (False, True):
        try:
            work = dist.all_reduce(torch.ones(8), async_op=is_async)
            if is_async:
                work.wait()
        except RuntimeError as error:
            messages.append(str(error))
    tell({"rank": rank, "messages": messages})
    time.sleep(2)
    os._exit(0)


def subgroups(rank: int, ranks: int) -> dict:
    """Which file serves each of two groups, and why none serves the group of all."""
    import collc.torch

    sums, files = [], []
    for group in (None, *(dist.new_group(part) for part in ([0, 1], [2, 3]))):
        if group is None or rank in dist.get_process_group_ranks(group):
            tensor = torch.full((3,), float(rank))
            dist.all_reduce(tensor, group=group)
            sums.append(tensor[0].item())
            files += [by for _, by in collc.torch.counts(group)]
    return {"sums": sums, "files": files}


class Batches:
    """Gloo as if it took point-to-point calls in batches, as NCCL does: nothing moves before the end of a batch.

    Batches have a tag of their own, since messages of the program may be under way.
    """

    def __init__(self, inner: dist.ProcessGroup) -> None:
        self.inner, self.open, self.sizes = inner, False, []
        self.calls: list = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def _start_coalescing(self, _device: torch.device) -> None:
        assert not self.open
        self.open, self.calls = True, []

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> object:
        if not self.open:
            return self.inner.send(tensors, peer, tag)
        return self.calls.append((self.inner.send, (tensors, peer, 99)))

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> object:
        if not self.open:
            return self.inner.recv(tensors, peer, tag)
        return self.calls.append((self.inner.recv, (tensors, peer, 99)))

    def _end_coalescing(self, _device: torch.device) -> Batches:
        self.open = False
        self.sizes.append(len(self.calls))
        return self

    def wait(self) -> None:
        for work in [call(*arguments) for call, arguments in self.calls]:
            work.wait()


def batches(rank: int, ranks: int) -> dict:
    """The results of `collectives` again, with the messages of a round in one batch of the inner backend."""
    group = dist.group.WORLD
    group.inner, group._is_batched = Batches(group.inner), lambda _tensor: True
    dist.all_reduce(torch.ones(4 * ranks))
    return {"sizes": group.inner.sizes} | collectives(rank, ranks)


def tell(answer: dict) -> None:
    """Print in one piece, since other ranks print too."""
    os.write(1, (json.dumps(answer) + "\n").encode())


def run(rank: int, check: str, ranks: int, folder: str) -> None:
    """One rank."""
    import collc.torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if check == "subgroups":
        os.environ[collc.torch.NPU] = f"npu[{rank}]"
    if check == "lost_in_making" and rank == ranks - 1:  # when the others know its address
        collc.torch.Rendezvous.check_files = lambda *_: os._exit(0)
    init = f"file://{folder}/rendezvous"
    try:
        dist.init_process_group("collc", init_method=init, rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    except RuntimeError as error:
        tell({"rank": rank, "messages": [str(error)]})
        os._exit(0)
    answer = globals()[check](rank, ranks)
    counts = {f"{coll}: {by}": count for (coll, by), count in collc.torch.counts().items()}
    tell(answer | {"rank": rank, "counts": counts})
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(run, (sys.argv[1], int(sys.argv[2]), sys.argv[3]), nprocs=int(sys.argv[2]))
