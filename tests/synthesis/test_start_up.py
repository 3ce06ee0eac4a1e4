"""Small problems do not wait for compilation: Numba is not loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from collc.passes.synthesizers import auto
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule
from tests.support import all_gather, grid, hypercube
from tests.synthesis.cases import task_of

net = {"mesh": grid(8, 8), "hypercube": hypercube(6)}[sys.argv[1]]
demand, model = all_gather(net.npus.tolist()), LinkModel(sys.argv[2])
tacos(task_of(net, demand, model), Effort())
assert verify_schedule(auto(Module("small", net, demand, model), Effort())).ok
print("numba" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["store", "pipelined"])
@pytest.mark.parametrize("net", ["mesh", "hypercube"])
def test_64_npus_without_numba(net, model):
    command = [sys.executable, "-c", PROGRAM, net, model]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
