"""Modules and tasks that several tests of synthesis use."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from collc.synthesis.task import Task
from collc.ten.demand import Demand
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from tests.support import GiB, network


def task_of(net: Network, demand: Demand, model: LinkModel = LinkModel.STORE) -> Task:
    return Task(net, demand, model, np.arange(len(demand.chunks), dtype=np.int32))


def kind(gib: int, microseconds: Fraction) -> LinkKind:
    return LinkKind(int(microseconds * 10**6), Fraction(gib * GiB))


def unequal_mesh(height: int, width: int, along: LinkKind, across: LinkKind) -> Network:
    """A mesh whose links in a row and in a column differ."""
    links = []
    for npu in range(height * width):
        if npu % width + 1 < width:
            links += [(npu, npu + 1, along), (npu + 1, npu, along)]
        if npu + width < height * width:
            links += [(npu, npu + width, across), (npu + width, npu, across)]
    return network(height * width, links, shape=(height, width))


def ring_fc_switch(pods: int, kinds: list[LinkKind]) -> Network:
    """Ring(2) x fully connected(4) x a switch unwound to a ring one way."""
    links = []
    for pod in range(pods):
        for row in range(4):
            for column in range(2):
                here = (pod * 4 + row) * 2 + column
                links.append((here, here ^ 1, kinds[0]))
                links += [(here, (pod * 4 + other) * 2 + column, kinds[1]) for other in range(4) if other != row]
                links.append((here, ((pod + 1) % pods * 4 + row) * 2 + column, kinds[2]))
    return network(8 * pods, links)
