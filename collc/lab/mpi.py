"""Collectives of MPICH, on the links of an experiment."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.lab.emulated_network import DEVICE, PARENT_DEATH, EmulatedNetwork, Switches
from collc.lab.laboratory import Experiment
from collc.lab.mpi_rank import CALLS

_ENVIRONMENT: Final = {
    "MPIR_CVAR_NOLOCAL": "1",  # no shared memory between ranks of one machine
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": DEVICE,
}

_ALL_ENDED: Final = (*PARENT_DEATH, "unshare", "--pid", "--fork", "--kill-child")
"""Before a command all of whose processes, also those that left their parents, end with the process that starts it."""


def _mpiexec() -> str | None:
    """MPICH's, beside this Python or on the path."""
    return shutil.which("mpiexec.hydra", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec.hydra")


def why_no_mpich(experiment: Experiment) -> str:
    """Why MPICH cannot run the collective of an experiment here, "" if it can."""
    if find_spec("mpi4py") is None or _mpiexec() is None:
        return "mpi4py and MPICH are not installed"
    return "" if experiment.file.coll in CALLS else f"there is no call for {experiment.file.coll}"


def measure_mpich(experiment: Experiment, runs: int) -> tuple[float, ...]:
    """Seconds of some calls with as many bytes as the experiment, after one that is not measured.

    Raises CheckFailed (X0209) if MPICH fails, (X0211) if the network cannot be made, as without a path between two
    NPUs.
    """
    file, network, mpiexec = experiment.file, experiment.network, _mpiexec()
    assert mpiexec is not None
    patience = 60 + 20 * (runs + 1) * experiment.plan.time_ps / 1e12
    call = {"coll": file.coll, "root": file.root, "elements": experiment.elements * file.chunks_per_loop, "runs": runs}
    devices = [device for device in range(network.device_count) if network.present[device]]
    with TemporaryDirectory() as folder, Switches(devices) as holders:
        pids = {device: process.pid for device, process in holders.processes.items()}
        emulated = EmulatedNetwork(network, pids)
        emulated.build_for_all()
        spaces = {
            emulated.npu_address(rank): f"/proc/{pids[npu]}/ns/net" for rank, npu in enumerate(network.npus.tolist())
        }
        launcher = Path(folder, "launcher")
        cases = " ".join(f"{address}) space={space};;" for address, space in spaces.items())
        launcher.write_text(
            f'#!/bin/sh\nwhile [ "${{1#-}}" != "$1" ]; do shift; done\ncase $1 in {cases} esac\nshift\n'
            'exec nsenter --net=$space sh -c "$*"\n'
        )
        launcher.chmod(0o700)
        hydra = [mpiexec, "-launcher", "ssh", "-launcher-exec", str(launcher), "-iface", DEVICE]
        settings = [word for name, value in _ENVIRONMENT.items() for word in ("-genv", name, value)]
        rank = [sys.executable, "-m", "collc.lab.mpi_rank", json.dumps(call)]
        first = next(iter(spaces.values()))
        command = [
            *_ALL_ENDED,
            "nsenter",
            f"--net={first}",
            *hydra,
            "-hosts",
            ",".join(spaces),
            "-ppn",
            "1",
            *settings,
        ]
        try:
            done = subprocess.run([*command, *rank], capture_output=True, text=True, check=False, timeout=patience)
        except subprocess.TimeoutExpired as error:
            raise CheckFailed(Diagnostic("X0209", f"the run of MPICH took longer than {patience:.0f} s")) from error
    if done.returncode:
        raise CheckFailed(Diagnostic("X0209", f"the run of MPICH failed: {(done.stderr or done.stdout).strip()[:400]}"))
    return tuple(json.loads(done.stdout))
