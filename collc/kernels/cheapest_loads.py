"""What cheapest paths to many targets put on the links.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import MutableSequence

from collc.kernels.compiled import without_references

PathTable = namedtuple("PathTable", "first out target price distance order")
"""D devices, L links, T targets. first: [D + 1], where the links out of a device begin in out: [L]. target, price: [L],
prices above 0. distance: [T D], the price of the cheapest path to each target. order: [T D], for each target the
devices, the farthest first.
"""


@without_references
def add_loads(table: PathTable, waiting: MutableSequence[float], load: MutableSequence[float]) -> None:
    """Moves all that waits, [T D] by target and device, to its target, to which a path leads; a device divides it
    evenly among its links on cheapest paths. load: [L], to which what each link carries is added.
    """
    first, out, target, price = table.first, table.out, table.target, table.price
    distance, order = table.distance, table.order
    devices = len(first) - 1
    for row in range(0, len(order), devices):
        for place in range(row, row + devices):
            device = order[place]
            left, branches = distance[row + device], 0
            if waiting[row + device] == 0 or left == 0:
                continue
            for k in range(first[device], first[device + 1]):
                branches += distance[row + target[out[k]]] + price[out[k]] == left
            part = waiting[row + device] / branches
            for k in range(first[device], first[device + 1]):
                link = out[k]
                if distance[row + target[link]] + price[link] == left:
                    load[link] += part
                    waiting[row + target[link]] += part
