"""Random programs in the language: networks of all kinds and sizes with unlike links, switches with and without
buffers, failed parts, groups, several collectives, both link models; from LIMITED on with limits of NPUs too, from WIDE
on with up to about a thousand NPUs. The same number gives the same program.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

IMPORTS = "import std.topologies\nimport std.clusters\nimport std.collectives\nimport std.algorithms\n"
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "reduce", "scatter", "gather")
WEIGHTS = (24, 12, 24, 14, 10, 8, 4, 4)
BLOCKS = frozenset({"all_gather", "reduce_scatter", "all_reduce", "all_to_all", "scatter", "gather"})
"""Collectives whose `size` is divided by the members of their group."""

LIMITED = 100_000
"""The number from which on NPUs have limits on what they send and receive, and switches have no limited buffers."""

WIDE = 150_000
"""The number from which on networks have up to WIDER times as many NPUs, without limits."""

WIDER = 16

MOST_CHUNKS = 6_000
"""Chunks of a program, at most."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run statement without its algorithm: the collective, the group in the language, its members."""

    collective: str
    text: str


@dataclass(frozen=True, slots=True)
class Program:
    """A program with one schedule, `s`. kind: of its network. category: a wider one."""

    kind: str
    category: str
    topology: str
    runs: tuple[Run, ...]
    link_model: str

    def text(self, algorithm: str = "") -> str:
        """The program; algorithm: for its runs, as after `using`."""
        using = f" using {algorithm}" if algorithm else ""
        runs = "".join(f"    run {run.text}{using}\n" for run in self.runs)
        synthesize = f'    synthesize {"fixed" if algorithm else "auto"}(link_model: "{self.link_model}")\n'
        return f"{IMPORTS}\n{self.topology}\nschedule s on t {{\n{runs}{synthesize}}}\n"


class Chance(random.Random):
    """Random choices of a program. wider: the factor by which its network may have more NPUs."""

    def __init__(self, seed: int, wider: int) -> None:
        super().__init__(seed)
        self.wider = wider

    def extent(self, least: int, most: int, dimensions: int = 1) -> int:
        """NPUs or nodes along one of some dimensions; most: if the network is not wider."""
        return self.randint(least, round(most * self.wider ** (1 / dimensions)))


def random_program(number: int) -> Program:
    """The program of a number. It can be wrong: a failed part may leave an NPU without a path."""
    chance = Chance(7_919 * number + 11, 1 if number < WIDE else WIDER)
    kinds: dict[str, tuple[int, Callable[[Chance], tuple[str, str, int]]]] = {
        "direct links": (3, _direct), "clusters": (3, _cluster), "products": (2, _product),
        "scattered": (3, _scattered), "pods": (3, _pods), "one switch": (1, _one_switch),
    }  # fmt: skip
    category = chance.choices([*kinds], [weight for weight, _ in kinds.values()])[0]
    name, topology, npus = kinds[category][1](chance)
    if chance.random() < 0.2 and npus > 3:
        npus, topology = _failed(topology, npus)
    program = Program(name, category, topology, _runs(chance, npus), chance.choice(("store", "pipelined")))
    return _limited(chance, program) if LIMITED <= number < WIDE else program


def _rate(chance: Chance) -> str:
    return f"{chance.choice((5, 12, 25, 50, 100, 300, 450))}GB/s"


def _latency(chance: Chance) -> str:
    return f"{chance.choice((100, 350, 500, 700, 1000, 2000))}ns"


def _link(chance: Chance) -> str:
    return f"bandwidth: {_rate(chance)}, latency: {_latency(chance)}"


def _direct(chance: Chance) -> tuple[str, str, int]:
    """Networks of direct links of the standard library."""
    link = _link(chance)
    n, width, height = chance.extent(2, 16), chance.extent(2, 6, 2), chance.extent(2, 6, 2)
    x, y, z = (chance.extent(2, 4, 3) for _ in range(3))
    dimensions = chance.randint(2, 4 + chance.wider.bit_length())
    groups, size = chance.extent(2, 5, 2), chance.extent(2, 4, 2)
    one_way = chance.choice(("true", "false"))
    local, wide, latency = _rate(chance), _rate(chance), _latency(chance)
    name, arguments, npus = chance.choice(
        (
            ("ring", f"{n}, {link}, one_way: {one_way}", n),
            ("line", f"{n}, {link}", n),
            ("fully_connected", f"{n}, {link}", n),
            ("mesh2d", f"{width}, {height}, {link}", width * height),
            ("torus2d", f"{width}, {height}, {link}", width * height),
            ("mesh3d", f"{x}, {y}, {z}, {link}", x * y * z),
            ("torus3d", f"{x}, {y}, {z}, {link}", x * y * z),
            ("hypercube", f"{dimensions}, {link}", 2**dimensions),
            ("dragonfly", f"{groups}, {size}, local: {local}, global: {wide}, latency: {latency}", groups * size),
        )
    )
    return name, f"topology t = {name}({arguments})", npus


def _cluster(chance: Chance) -> tuple[str, str, int]:
    """Machines and clusters of the standard library."""
    nodes, size = chance.choice((1, 2, 2, 3, 4, 4, 8)) * chance.wider, chance.choice((2, 4, 8))
    arity = 4 if chance.wider == 1 else chance.choice((4, 6, 8, 12))
    local, rail, spines = _rate(chance), _rate(chance), chance.choice((1, 2))
    latencies = f"local_latency: {_latency(chance)}, rail_latency: {_latency(chance)}"
    speeds = f"local: {local}, rail: {rail}, {latencies}"
    name, arguments, npus = chance.choice(
        (
            ("dgx1", "", 8),
            ("dgx_a100", f"{nodes}", 8 * nodes),
            ("dgx_h100", f"{nodes}", 8 * nodes),
            ("mi300x_node", "", 8),
            ("rail_only", f"{nodes}, {size}, {speeds}", nodes * size),
            ("rail_optimized", f"{nodes}, {size}, {speeds}, spines: {spines}", nodes * size),
            (
                "leaf_spine",
                f"{nodes}, {size}, {spines}, bandwidth: {local}, uplink: {rail}, latency: {_latency(chance)}",
                nodes * size,
            ),
            ("fat_tree", f"{arity}, {_link(chance)}", arity**3 // 4),
        )
    )
    return name, f"topology t = {name}({arguments})", npus


def _product(chance: Chance) -> tuple[str, str, int]:
    """Products of two or three rings, lines, fully connected networks and switches."""
    dimensions = chance.choice((2, 2, 3))
    sizes = [chance.extent(2, 5, dimensions) for _ in range(dimensions)]
    factors = [
        f"{chance.choice(('ring', 'line', 'fully_connected', 'switched'))}({size}, {_link(chance)})" for size in sizes
    ]
    return "product", f"topology t = {' * '.join(factors)}", math.prod(sizes)


def _switch_options(chance: Chance) -> str:
    """Options of a switch: none, a limited buffer, multicast, reductions."""
    options = [f"buffer: {chance.choice((1, 2, 4, 16))}"] if chance.random() < 0.3 else []
    options += ["multicast: true"] if chance.random() < 0.3 else []
    options += ["reduce: true"] if chance.random() < 0.2 else []
    return f" ({', '.join(options)})" if options else ""


def _scattered(chance: Chance) -> tuple[str, str, int]:
    """A cycle with chords and parallel links, all unlike, and perhaps a switch or two."""
    npus, switches = chance.extent(3, 16), chance.choice((0, 0, 1, 2))
    both = chance.random() < 0.6
    kinds = [_link(chance) for _ in range(chance.randint(1, 4))]
    lines = [f"    npu n[{npus}]"]
    lines += [f"    switch w{k}{_switch_options(chance)}" for k in range(switches)]
    arrow = "<->" if both else "->"
    ends = [(f"n[{k}]", f"n[{(k + 1) % npus}]") for k in range(npus)]
    ends += [
        (f"n[{a}]", f"n[{b}]") for a, b in (chance.sample(range(npus), 2) for _ in range(chance.randint(0, 2 * npus)))
    ]
    lines += [f"    link {a} {arrow} {b} ({chance.choice(kinds)})" for a, b in ends]
    for k in range(switches):
        members = chance.sample(range(npus), chance.randint(2, npus))
        lines += [f"    link n[{member}] <-> w{k} ({chance.choice(kinds)})" for member in members]
    return "scattered", "topology t {\n" + "\n".join(lines) + "\n}", npus


def _pods(chance: Chance) -> tuple[str, str, int]:
    """Nodes, with a switch or direct links each, joined by one switch, by rails, or by links between neighbours."""
    nodes, size = chance.extent(2, 6), chance.choice((2, 3, 4, 4, 6, 8))
    inner, outer = _link(chance), _link(chance)
    lines = [f"    npu n[{nodes}, {size}]"]
    if chance.random() < 0.7:
        lines.append(f"    switch node[{nodes}]{_switch_options(chance)}")
        lines.append(f"    for a in 0..{nodes}, i in 0..{size} {{ link n[a, i] <-> node[a] ({inner}) }}")
    else:
        lines.append(f"    for a in 0..{nodes}, i in 0..{size}, j in 0..i {{ link n[a, i] <-> n[a, j] ({inner}) }}")
    between = chance.choice(("switch", "rails", "neighbours", "slow switch of some"))
    if between == "switch":
        lines.append(f"    switch all{_switch_options(chance)}")
        lines.append(f"    for a in 0..{nodes}, i in 0..{size} {{ link n[a, i] <-> all ({outer}) }}")
    elif between == "rails":
        lines.append(f"    switch rail[{size}]{_switch_options(chance)}")
        lines.append(f"    for a in 0..{nodes}, i in 0..{size} {{ link n[a, i] <-> rail[i] ({outer}) }}")
    elif between == "neighbours":
        lines.append(f"    for a in 0..{nodes} {{ link n[a, 0] <-> n[(a + 1) % {nodes}, {size - 1}] ({outer}) }}")
    else:
        few = chance.randint(1, size)
        lines.append(f"    switch all{_switch_options(chance)}")
        lines.append(f"    for a in 0..{nodes}, i in 0..{few} {{ link n[a, i] <-> all ({outer}) }}")
    return f"pods by {between}", "topology t {\n" + "\n".join(lines) + "\n}", nodes * size


def _one_switch(chance: Chance) -> tuple[str, str, int]:
    """NPUs on one switch."""
    npus = chance.choice((4, 6, 8, 16, 24)) * chance.wider
    lines = [f"    npu n[{npus}]", f"    switch w{_switch_options(chance)}"]
    lines.append(f"    for i in 0..{npus} {{ link n[i] <-> w ({_link(chance)}) }}")
    return "one switch", "topology t {\n" + "\n".join(lines) + "\n}", npus


def _failed(topology: str, npus: int) -> tuple[int, str]:
    """(NPUs, topology) after the last NPU has failed."""
    whole = topology.replace("topology t", "topology whole", 1)
    return npus - 1, f"{whole}\ntopology t = whole without {{ npu {npus - 1} }}"


def _limited(chance: Chance, program: Program) -> Program:
    """The program with limits of its NPUs."""
    limits = {
        "inject": _rate(chance),
        "eject": _rate(chance),
        "memory": f'{_rate(chance)}, endpoint: "{chance.choice(("baseline", "offload"))}"',
    }
    chosen = chance.sample(sorted(limits), chance.choice((1, 1, 2)))
    free = re.sub(r"buffer: \d+(, )?", "", program.topology).replace(" ()", "").replace("topology t", "topology free")
    given = ", ".join(f"{name}: {limits[name]}" for name in chosen)
    topology = f"{free}\ntopology t = limited(free, {given})"
    return replace(program, category="limits of NPUs", topology=topology)


def _runs(chance: Chance, npus: int) -> tuple[Run, ...]:
    """One collective over all NPUs, one over a group, several over groups, or two over all NPUs."""
    pick = chance.random()
    everyone = list(range(npus))
    if pick < 0.6 or npus < 4:
        return (_run(chance, everyone, npus),)
    if pick < 0.75:
        return (_run(chance, chance.sample(everyone, chance.randint(2, npus)), npus),)
    if pick < 0.9:
        mixed = chance.sample(everyone, npus)
        cut = chance.randint(2, npus - 2)
        return _run(chance, mixed[:cut], npus), _run(chance, mixed[cut:], npus)
    return _run(chance, everyone, npus), _run(chance, everyone, npus)


def _run(chance: Chance, members: list[int], npus: int) -> Run:
    collective = chance.choices(COLLECTIVES, WEIGHTS)[0]
    n = len(members)
    blocks = n if collective in BLOCKS else 1
    in_all = blocks * (n if collective == "all_to_all" else 1)
    chunks = max(1, min(chance.choice((1, 1, 1, 2, 2, 4, 8)), MOST_CHUNKS // (2 * in_all)))
    whole = 2 ** chance.randint(10, 30)
    size = max(16, whole // (blocks * chunks) // 16 * 16) * blocks * chunks
    group = "t.npus" if members == list(range(npus)) else f"[{', '.join(f't[{m}]' for m in members)}]"
    root = f", root: {chance.randrange(n)}" if collective in ("broadcast", "reduce", "scatter", "gather") else ""
    return Run(collective, f"{collective}({group}, size: {size}B, chunks: {chunks}{root})")
