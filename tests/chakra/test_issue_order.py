"""The order of nodes that are free at one moment, as a compiled program and ASTRA-sim itself have given it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from collc.application.simulate.simulating import SimulationSettings, simulate_file
from collc.chakra.issue_order import iteration_order
from collc.kernels import compiled
from tests.chakra.support import Node, compute, receive, send, write

SETS = [
    ([2, 1, 0], [0, 1, 2]),
    ([33, 1, 29, 15, 3], [15, 3, 29, 1, 33]),
    ([57, 10, 7, 23, 30, 15, 24, 34, 6, 36, 54, 0, 46], [0, 6, 34, 24, 54, 15, 30, 46, 7, 36, 23, 10, 57]),
    ([3, 6, 4, 2, 12, 10, 1, 7, 11, 5, 13, 0, 8, 9], [9, 3, 6, 4, 2, 12, 10, 1, 7, 11, 5, 13, 0, 8]),
    ([497, 446, 2, 107, 396, 110, 491, 84, 85, 148, 160, 492, 101, 276], [497, 107, 446, 276, 160, 2, 396, 110,
        84, 101, 491, 85, 148, 492]),
    ([461123261291169, 672812567818071, 813325164584988, 373698296501137, 328092275973011, 146678561189372,
        678597668137577, 7617494473359, 760877970768811, 697962533935334, 1082539231558182, 711103546429841,
        1083608157473926, 128351559103668, 51492100969471, 40683666657593], [40683666657593, 51492100969471,
        128351559103668, 813325164584988, 373698296501137, 697962533935334, 328092275973011, 146678561189372,
        7617494473359, 672812567818071, 678597668137577, 461123261291169, 711103546429841, 760877970768811,
        1083608157473926, 1082539231558182]),
    ([17, 25, 13, 11, 12, 18, 0, 14, 1, 5, 19, 6, 3, 7, 22, 20, 8, 15, 27, 4, 16, 21, 28, 24, 2, 23, 29, 10, 9,
        26], [26, 3, 6, 19, 1, 14, 5, 18, 11, 0, 29, 13, 12, 25, 17, 7, 22, 20, 8, 15, 27, 4, 16, 21, 28, 24, 2,
        23, 10, 9]),
    ([131, 156, 92, 37, 87, 70, 179, 139, 23, 79, 175, 81, 78, 45, 20, 160, 38, 176, 190, 123, 41, 12, 185, 153,
        136, 103, 8, 60, 152, 88, 64], [88, 81, 23, 139, 175, 179, 92, 70, 41, 12, 87, 37, 153, 78, 136, 8, 185,
        20, 79, 160, 45, 131, 190, 103, 156, 38, 176, 60, 64, 123, 152]),
    ([319639013652, 736559249712, 458867559742, 291842162622, 909622574690, 369825162434, 817910186560,
        129490022767, 927046073114, 310503857213, 373027584829, 698917902167, 603352893100, 1032042083654,
        245442375929, 394964401774, 396590746433, 1078419633580, 138990837848, 785012209826, 75866381545,
        673277521714, 581906587105, 751385405325, 393632430485, 1039431824189, 714041286331, 604180105833,
        633348500322, 785109825240, 602789574036, 758680473944], [758680473944, 602789574036, 785109825240,
        603352893100, 129490022767, 604180105833, 373027584829, 698917902167, 310503857213, 369825162434,
        927046073114, 458867559742, 245442375929, 396590746433, 1078419633580, 909622574690, 736559249712,
        1032042083654, 394964401774, 138990837848, 319639013652, 673277521714, 75866381545, 581906587105,
        817910186560, 785012209826, 751385405325, 393632430485, 291842162622, 1039431824189, 714041286331,
        633348500322]),
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
        29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54,
        55, 56, 57, 58, 59, 60], [60, 59, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 0, 1,
        2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45,
        46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58]),
]  # fmt: skip
"""Numbers in order of insertion, and as a std::unordered_set<unsigned long> of libstdc++ (g++ 12) lists them."""


def test_order_of_iteration_as_a_compiled_set_gives_it():
    """One set after the other, and all in one call."""
    for inserted, listed in SETS:
        ids = np.array(inserted)
        assert ids[iteration_order(np.zeros(len(ids), np.int64), ids)].tolist() == listed
    ids = np.concatenate([np.array(inserted) for inserted, _ in SETS])
    group = np.repeat(np.arange(len(SETS)), [len(inserted) for inserted, _ in SETS])
    assert ids[iteration_order(group, ids)].tolist() == [number for _, listed in SETS for number in listed]


def random_traces(seed: int) -> tuple[list[list[Node]], str]:
    """(nodes of all ranks, network file): ids that share buckets, nodes that free many, receives that are issued late,
    compute nodes that end together, files in any order.
    """
    chance = Random(seed)
    ranks, shape = chance.choice([3, 4, 5]), chance.choice(["Ring", "FullyConnected", "Switch"])
    count, fan, hub = chance.choice([10, 40, 120]), chance.choice([1, 2, 4]), chance.random() < 0.5
    sizes = chance.choice([[1000], [2**20], [100, 1000, 2**20], [80, 100, 107, 200]])
    ids = [[13 * k % 997 if seed % 2 else chance.randrange(2**40) for k in range(2 * count)] for _ in range(ranks)]
    nodes: list[list[Node]] = [[compute(10**13, 0)] for _ in range(ranks)]

    def needed(rank: int, share: float) -> list[int]:
        if chance.random() >= share:
            return []
        known = [node[0] for node in nodes[rank]]
        return known[1:2] if hub and chance.random() < 0.7 else chance.sample(known, min(len(known), fan))

    for tag in range(count):
        source, target = chance.sample(range(ranks), 2)
        size, first, second = chance.choice(sizes), ids[source].pop(), ids[target].pop()
        if chance.random() < 0.25:
            nodes[source].append(compute(first, chance.choice([0, 0, 1, 2]), needed(source, 0.7)))
        else:
            nodes[source].append(send(first, target, size, tag, needed(source, 0.8)))
            nodes[target].append(receive(second, source, size, tag, needed(target, 0.4)))
    if seed % 3 == 0:
        for rows in nodes:
            chance.shuffle(rows)
    latency = chance.choice([1, 500])
    file = {"topology": shape, "npus_count": ranks, "bandwidth": 50, "latency": latency}
    return nodes, "".join(f"{key}: [ {value} ]\n" for key, value in file.items())


CYCLES = [
    (1, "aware", [1000, 17, 17]),
    (3, "aware", [4021, 4021, 4017]),
    (8, "aware", [2518, 2000, 2536]),
    (9, "aware", [5235, 5235, 4216, 5234]),
    (10, "aware", [199813, 179782, 199813, 179779, 199813]),
    (11, "aware", [312507, 253912, 273443, 312507]),
    (12, "aware", [351575, 351575, 351572, 351576]),
    (13, "aware", [378089, 377091, 376089, 378089]),
    (14, "aware", [969020, 949489, 969020]),
    (15, "aware", [488280, 527342, 527342]),
    (18, "aware", [354058, 314496, 352058]),
    (19, "aware", [7517, 7517, 7020, 5019, 7020]),
    (23, "aware", [1505, 1503, 2503, 1505]),
    (24, "aware", [156250, 136720, 175781, 156251, 175781]),
    (0, "unaware", [9, 9, 8, 2000]),
    (1, "unaware", [1000, 12, 12]),
    (2, "unaware", [21, 19553, 19553]),
]
"""A seed of `random_traces`, the model, and the cycles of every rank as ASTRA-sim itself (518bd51, built with g++ 12)
has printed them. In ascending order of ids, all but the last three are others.
"""


@pytest.mark.parametrize(("seed", "model", "cycles"), CYCLES)
def test_cycles_of_random_traces_as_in_astra_sim(seed, model, cycles, tmp_path):
    nodes, network = random_traces(seed)
    (tmp_path / "network.yml").write_text(network)
    settings = SimulationSettings(network=tmp_path / "network.yml", astra=True, model=model)
    report = simulate_file(write(tmp_path / "t", nodes), settings)
    assert report.simulation.rank_times.tolist() == cycles


@pytest.mark.slow
def test_compiled_code_and_plain_python_issue_in_one_order(tmp_path, monkeypatch):
    """Also if a set grows while nodes come into it: one node frees 40, and at most 13 were free before."""
    after = [send(k, 1 + k % 2, 1000 * k, k, [0]) for k in range(1, 41)]
    ranks = [[compute(0, 1), *after], [], []]
    for number, _, values, _ in after:
        ranks[values["comm_dst"]].append(receive(number, 0, values["comm_size"], number))
    (tmp_path / "network.yml").write_text("topology: [Ring]\nnpus_count: [3]\nbandwidth: [50]\nlatency: [500]\n")
    prefix, times = write(tmp_path / "t", ranks), []
    for most in (compiled.MOST_PLAIN, -1):
        monkeypatch.setattr(compiled, "MOST_PLAIN", most)
        report = simulate_file(prefix, SimulationSettings(network=tmp_path / "network.yml", astra=True))
        times.append(report.simulation.hops.begin.tolist())
    assert times[0] == times[1] != sorted(times[0])
