"""Random programs from the rules of the language: networks, collectives, options and files, right and wrong ones."""

from __future__ import annotations

import random

from collc.base.synthesizers import SYNTHESIZERS

SIZES = ["0B", "1B", "3MB", "4MiB", "1GiB", "16EiB", "-1B", "7", "1us", "64KiB * 3", "size"]
TIMES = ["0us", "0.5us", "1e6s", "1ps", "-1us", "0.3ps", "3"]
RATES = ["50GB/s", "1B/s", "0B/s", "400Gb/s", "1/3 * 10GB/s", "-5GB/s", "10GB", "1e30B/s"]
COUNTS = ["1", "2", "3", "4", "4", "5", "8", "0", "-1", "1000000000", "2.5", "n", "true"]
SHAPES = ["ring", "line", "fully_connected", "star", "hypercube", "switch"]
GRIDS = ["mesh2d", "torus2d"]
WHOLE = ["dgx1()", "dgx_h100(2)", "dgx_a100(1)", "fat_tree(4)", "rail_only(2, 2)"]
COLLECTIVES = ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "reduce", "scatter", "gather"]
GROUPS = ["t.npus", "t.npus", "t.npus", "[t.npu[0], t.npu[1]]", "t.npu[*]", "{t.npu[0]}", "[]", "t.npu[9]", "t"]
NAMES = ["", '("s.ten")', '("../s.ten")', '("/nonexistent/s")', '("a/b/c.x")', '("' + "n" * 300 + '")', '("CON")']
NAMES += [
    '("a\\nb")',
    '("s\\u001b[31m")',
    '("")',
    '("..")',
    '("s", "t")',
    "(3)",
    '("s", binary: true)',
    '("%s")',
    '("~/x")',
]
OPS = ['"sum"', '"max"', '"avg"', '"x"', "3"]
VERIFY = ["time <= 1us", "proved", "optimal", "steps <= 3", "time <= 0us", "time >= bound", "causality"]


def random_program(chance: random.Random) -> str:
    """A program with one schedule."""
    pick = chance.choice
    lines = ["import std.topologies", "import std.collectives", "import std.algorithms", "import std.clusters"]
    if chance.random() < 0.1:
        lines[chance.randrange(4)] = pick(
            ['import "other.coll"', 'import "p.coll"', "import std.nothing", 'import "."']
        )
    lines += [f"param n: int = {pick(COUNTS[:6])}", f"param size: bytes = {pick(SIZES[:5])}"]
    lines.append(f"topology t = {_topology(chance)}" if chance.random() < 0.7 else _by_hand(chance))
    run = f"run {pick(COLLECTIVES)}({pick(GROUPS)}, size: {_mostly(chance, '4MiB', SIZES)}{_arguments(chance)})"
    if chance.random() < 0.2:
        run += f" using {pick(['ring', 'bidirectional_ring', 'direct', 'recursive_halving_doubling', 'binomial_tree', 'nothing'])}"
    statements = [run] * pick([1, 1, 1, 2])
    if chance.random() < 0.7:
        statements.append(f"synthesize {pick([*SYNTHESIZERS, 'auto', 'fixed', 'nothing'])}{_options(chance)}")
    if chance.random() < 0.2:
        statements.append(f"verify {pick(VERIFY)}")
    if chance.random() < 0.1:
        statements.append("allow congestion")
    for kind in chance.sample(["ten", "msccl", "mscclpp", "chakra", "trace", "report"], pick([0, 1, 1, 2])):
        statements.append(f"emit {kind}{pick(NAMES) if chance.random() < 0.5 else ''}")
    chance.shuffle(statements)
    return "\n".join([*lines, f"schedule s on t {{ {'  '.join(statements)} }}", ""])


def _mostly(chance: random.Random, usual: str, others: list[str]) -> str:
    return usual if chance.random() < 0.7 else chance.choice(others)


def _link(chance: random.Random) -> str:
    return f"bandwidth: {_mostly(chance, '50GB/s', RATES)}, latency: {_mostly(chance, '0.5us', TIMES)}"


def _topology(chance: random.Random) -> str:
    pick = chance.choice
    count = _mostly(chance, pick(["2", "4", "6"]), COUNTS)
    text = pick(
        [
            f"{pick(SHAPES)}({count}, {_link(chance)})",
            f"{pick(GRIDS)}({count}, {pick(['2', '3', '3'])}, {_link(chance)})",
            pick(WHOLE),
        ]
    )
    if chance.random() < 0.15:
        text += f" * ring(2, {_link(chance)})"
    if chance.random() < 0.15:
        part = pick(
            ["npu npu[0]", "link npu[0] -> npu[1]", "link npu[0] <-> npu[1] lanes 1", "switch s", "npu npu[99]"]
        )
        text = f"{text} without {{ {part} }}"
    if chance.random() < 0.15:
        text = pick([f"reversed({text})", f"unwound({text})", f"limited({text}, inject: {pick(RATES)})"])
    return text


def _by_hand(chance: random.Random) -> str:
    pick = chance.choice
    rows = [f"npu npu[{_mostly(chance, '4', COUNTS)}]"]
    if chance.random() < 0.4:
        flags = chance.sample(
            ["multicast: true", "reduce: true", "buffer: 2", "buffer: 0", "buffer: -1"], pick([0, 1, 2])
        )
        rows.append("switch s" + (f" ({', '.join(flags)})" if flags else ""))
        rows.append(f"for i in 0..4 {{ link npu[i] <-> s ({_link(chance)}) }}")
    for _ in range(pick([1, 3, 6])):
        a, b = chance.randrange(5), chance.randrange(4)
        rows.append(f"link npu[{a}] {pick(['->', '<->'])} npu[{b}] ({_link(chance)})")
    if chance.random() < 0.5:
        rows.append(f"for i in 0..4 {{ link npu[i] -> npu[(i + 1) % 4] ({_link(chance)}) }}")
    return "topology t { " + "  ".join(rows) + " }"


def _arguments(chance: random.Random) -> str:
    pick, found = chance.choice, []
    if chance.random() < 0.4:
        found.append(f"chunks: {pick([*COUNTS, '16', '1000', 'auto'])}")
    if chance.random() < 0.2:
        found.append(f"root: {pick(COUNTS)}")
    if chance.random() < 0.15:
        found.append(f"op: {pick(OPS)}")
    return "".join(f", {one}" for one in found)


def _options(chance: random.Random) -> str:
    names = ["seed", "trials", "threads", "time_limit", "steps", "chunks", "points", "effort", "nothing"]
    values = [*COUNTS[:8], "1s", "0.1s", '"x"', "true"]
    found = [f"{name}: {chance.choice(values)}" for name in chance.sample(names, chance.choice([0, 0, 1, 2]))]
    return f"({', '.join(found)})" if found else ""
