"""The request stream of a training run as of Llama 3, against `collc serve`: synthetic (Poisson), since no rates of
requests are published. Groups and failures are as in arXiv 2407.21783, tables 4 and 5, scaled to the network.

    python benchmarks/planner_load.py [NODES] [REQUESTS] [RATE]

The server runs on one core, and is warm: each class of requests was asked for once. Prints a row of a Markdown table.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import collc

SIZES = ("1MiB", "4MiB", "16MiB", "64MiB", "256MiB")
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
NODE, STAGE = 8, 4
"""GPUs of a node (tensor parallel), and nodes of a pipeline."""


def groups_of(nodes: int) -> list[list[list[int]]]:
    """The groups of each kind: tensor parallel, pipeline, data parallel."""
    gpus = nodes * NODE
    tensor = [[*range(first, first + NODE)] for first in range(0, gpus, NODE)]
    span = NODE * STAGE
    pipeline = [[*range(base + k, base + span, NODE)] for base in range(0, gpus, span) for k in range(NODE)]
    return [tensor, pipeline, [[*range(first, gpus, span)] for first in range(span)]]


def requests_of(nodes: int, count: int, seed: int) -> list[dict[str, object]]:
    """The stream. A NIC dies every thousand requests, as one of 500 nodes does in a day of 10 network failures."""
    rng = random.Random(seed)
    kinds = groups_of(nodes)
    requests: list[dict[str, object]] = []
    for _ in range(count):
        request: dict[str, object] = {"npus": rng.choice(rng.choice(kinds)), "chunks": 1}
        request |= {"collective": rng.choice(COLLECTIVES), "size": rng.choice(SIZES)}
        if rng.random() < 0.001:
            dead = f"nic[{rng.randrange(nodes)}, {rng.randrange(NODE)}]"
            request |= {"npus": None, "collective": "all_gather", "size": "256MiB", "dead": dead}
        requests.append(request)
    return requests


def measure(client: collc.Client, requests: list[dict[str, object]], rate: float) -> list[float]:
    """Seconds from the time at which each request was due until its answer, at Poisson times."""
    rng, due, lock, seconds = random.Random(1), [0.0], threading.Lock(), list[float]()
    for _ in requests[1:]:
        due.append(due[-1] + rng.expovariate(rate))
    waiting = iter(zip(due, requests, strict=True))
    began = time.perf_counter() + 0.2

    def work() -> None:
        while True:
            with lock:
                at, request = next(waiting, (None, None))
            if at is None or request is None:
                return
            time.sleep(max(0.0, began + at - time.perf_counter()))
            client.plan(**request)
            seconds.append(time.perf_counter() - began - at)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(seconds)


def main() -> None:
    nodes, count, rate = (int(word) for word in (*sys.argv[1:], *("64", "6000", "200")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        program, path = Path(folder, "pod.coll"), str(Path(folder, "socket"))
        program.write_text(f"import std.clusters\ntopology pod = dgx_h100({nodes})\n")
        words = [sys.executable, "-m", "collc", "serve", str(program), "--socket", path, "--answer-limit", "600"]
        server = subprocess.Popen(["taskset", "-c", "0", *words], stderr=subprocess.DEVNULL)
        try:
            while not Path(path).exists():
                time.sleep(0.2)
            client = collc.Client(path, timeout=600)
            began = time.perf_counter()
            for kind in groups_of(nodes):
                for collective in COLLECTIVES:
                    for size in SIZES:
                        client.plan(collective, npus=kind[0], size=size, chunks=1)
            client.plan("all_gather", size="256MiB", chunks=1, dead="nic[0, 0]")
            print(f"warm after {time.perf_counter() - began:.0f} s", file=sys.stderr)
            seconds = measure(client, requests_of(nodes, count, 2), rate)
            shown = [f"{1e3 * seconds[int(len(seconds) * share)]:.1f}" for share in (0.5, 0.95, 0.99, 0.999)]
            print(f"| {nodes * NODE} | {count} | {rate} | {' | '.join(shown)} | {1e3 * seconds[-1]:.1f} |")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
