"""Collectives of torch.distributed over gloo, on the links of an experiment."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from collc.lab.emulated_network import FORWARDING_COMMAND, EmulatedNetwork, Switches
from collc.lab.gloo_rank import CALLS
from collc.lab.laboratory import Experiment
from collc.msccl.running.over_tcp import Workers, raise_if_failed


def why_no_gloo(experiment: Experiment) -> str:
    """Why gloo cannot run the collective of an experiment here, "" if it can."""
    if find_spec("torch") is None:
        return "PyTorch is not installed"
    return "" if experiment.file.coll in CALLS else f"there is no call for {experiment.file.coll}"


def measure_gloo(experiment: Experiment, runs: int) -> tuple[float, ...]:
    """Seconds of some calls with as many bytes as the experiment, after one that is not measured.

    Raises CheckFailed (X0209) if a rank fails, (X0211) if the network cannot be made, as without a
    path between two NPUs.
    """
    file, network = experiment.file, experiment.network
    npus, switches = network.npus.tolist(), range(network.npu_count, network.device_count)
    patience = 60 + 20 * experiment.plan.time_ps / 1e12
    call = {
        "coll": file.coll,
        "root": file.root,
        "ranks": file.ranks,
        "elements": experiment.elements * file.chunks_per_loop,
        "seconds": patience,
    }
    forwarding = [FORWARDING_COMMAND] * len(npus)
    with (
        TemporaryDirectory() as folder,
        Switches(device for device in switches if network.present[device]) as between,
        Workers(forwarding, patience, "collc.lab.gloo_rank") as workers,
    ):
        call["store"] = str(Path(folder, "store"))
        raise_if_failed(workers.turn([(call | {"rank": rank}, b"") for rank in range(file.ranks)]))
        pids = {npu: process.pid for npu, process in zip(npus, workers.processes, strict=True)}
        pids |= {device: process.pid for device, process in between.processes.items()}
        EmulatedNetwork(network, pids).build_for_all()
        raise_if_failed(workers.turn([({}, b"") for _ in npus]))
        seconds: list[float] = []
        for _ in range(runs):
            start = time.monotonic() + 0.2
            answers = workers.turn([({"at": start}, b"") for _ in npus])
            raise_if_failed(answers)
            seconds.append(max(values["ended"] for values, _ in answers) - start)
    return tuple(seconds)
