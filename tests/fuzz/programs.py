"""Random programs from the rules of the language: networks, collectives, options and files, right and wrong ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

from collc.passes.synthesizers import SYNTHESIZERS

SIZES = ["0B", "1B", "7", "16PiB", "-1B", "1us", "64KiB * 3", "size", "1GiB"]
TIMES = ["0us", "1e6s", "1ps", "-1us", "0.3ps", "3", "500000s"]
RATES = ["1B/s", "0B/s", "400Gb/s", "10GB/s / 3", "-5GB/s", "10GB", "1e30B/s"]
COUNTS = ["0", "1", "-1", "1000000000", "2.5", "n", "true", "64", "100000"]
COLLECTIVES = ["all_gather", "all_to_all", "reduce_scatter", "all_reduce", "broadcast", "reduce", "scatter", "gather"]
ROOTED = ("broadcast", "reduce", "scatter", "gather")
REDUCING = ("reduce_scatter", "all_reduce", "reduce")
GROUPS = ["[t.npu[0], t.npu[1]]", "t.npu[*]", "{t.npu[0]}", "[]", "t.npu[9]", "t", "t.npus[0..2]"]
NAMES = ["../s.ten", "/nonexistent/s", "a/b/c.x", "n" * 300, "CON", "a\\nb", "s\\e[31m", "", "..", "%s", "~/x", "out/"]
ALGORITHMS = ["ring", "bidirectional_ring", "direct", "recursive_halving_doubling", "binomial_tree", "nothing"]
VERIFY = ["time <= 1us", "proved", "optimal", "steps <= 3", "time <= 0us", "time >= bound", "causality"]
WRONG_OPS = ['"x"', "3"]
OPS = ['"sum"', '"max"', '"min"', '"avg"']


class ProgramWriter:
    """Writes one program. odd: the share of its choices that are unusual, and often wrong."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.pick = chance.choice
        self.odd: float = chance.choice([0.0, 0.0, 0.0, 0.02, 0.05, 0.2])

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def mostly(self, usual: Sequence[str], others: Sequence[str]) -> str:
        """One of the usual choices, or an odd one."""
        return self.pick(others if self.maybe(self.odd) else usual)

    def program(self) -> str:
        """A program with one schedule on a topology `t`."""
        lines = ["import std.topologies", "import std.collectives", "import std.algorithms", "import std.clusters"]
        if self.maybe(self.odd):
            wrong = ['import "other.coll"', 'import "p.coll"', "import std.nothing", 'import "."']
            lines[self.chance.randrange(4)] = self.pick(wrong)
        lines += [f"param n: int = {self.mostly(['2', '4'], COUNTS)}", "param size: bytes = 3MB"]
        lines.append(f"topology t = {self.topology()}" if self.maybe(0.7) else self.by_hand())
        statements = [self.run() for _ in range(self.pick([1, 1, 1, 2]))]
        if self.maybe(0.6):
            names = [*SYNTHESIZERS][:-1]
            statements.append(f"synthesize {self.mostly(names, ['fixed', 'nothing', 'auto'])}{self.options()}")
        if self.maybe(0.15):
            statements.append(f"verify {self.pick(VERIFY)}")
        if self.maybe(0.05):
            statements.append("allow congestion")
        kinds = ["ten", "msccl", "mscclpp", "chakra", "trace", "report"]
        statements += [self.emit(kind) for kind in self.chance.sample(kinds, self.pick([0, 1, 1, 2]))]
        return "\n".join([*lines, f"schedule s on t {{ {'  '.join(statements)} }}", ""])

    def run(self) -> str:
        kind = self.pick(COLLECTIVES)
        text = f"run {kind}({self.mostly(['t.npus'], GROUPS)}, size: {self.mostly(['3MB', '4MiB', '60KB'], SIZES)}"
        if self.maybe(0.3):
            text += f", chunks: {self.mostly(['1', '2', '4', 'auto'], COUNTS)}"
        if self.maybe(0.3 if kind in ROOTED else self.odd):
            text += f", root: {self.mostly(['0', '1'], COUNTS)}"
        if self.maybe(0.3 if kind in REDUCING else self.odd):
            text += f", op: {self.mostly(OPS, WRONG_OPS)}"
        return text + ")" + (f" using {self.mostly(ALGORITHMS[:5], ALGORITHMS)}" if self.maybe(0.15) else "")

    def link(self) -> str:
        bandwidths = ["50GB/s", "25GB/s", "50GiB/s"]
        return f"bandwidth: {self.mostly(bandwidths, RATES)}, latency: {self.mostly(['0.5us', '1us'], TIMES)}"

    def topology(self) -> str:
        one, two = self.mostly(["2", "3", "4", "6"], COUNTS), self.mostly(["2", "3"], COUNTS)
        text = self.pick(
            [
                f"{self.pick(['ring', 'line', 'fully_connected'])}({one}, {self.link()})",
                f"{self.pick(['mesh2d', 'torus2d'])}({one}, {two}, {self.link()})",
                f"hypercube({self.mostly(['1', '2', '3'], COUNTS)}, {self.link()})",
                f"fully_connected({one}, {self.link()})",
                self.pick(["dgx1()", "dgx_h100(1)", "dgx_a100(1)", "dgx2()"]),
            ]
        )
        if self.maybe(0.15):
            text += f" * ring(2, {self.link()})"
        if self.maybe(0.15):
            part = ["link npu[0] -> npu[1]", "npu npu[0]"]
            text += f" without {{ {self.mostly(part, ['switch s', 'npu npu[99]', 'link npu[0] <-> npu[1] lanes 7'])} }}"
        if self.maybe(0.15):
            text = self.pick([f"reversed({text})", f"unwound({text})", f"limited({text}, inject: 30GB/s)"])
        return text

    def by_hand(self) -> str:
        rows = [f"npu npu[{self.mostly(['4'], COUNTS)}]"]
        if self.maybe(0.5):
            flags = ["multicast: true", "reduce: true", f"buffer: {self.mostly(['2', '8'], COUNTS)}"]
            chosen = self.chance.sample(flags, self.pick([0, 1, 2]))
            rows.append("switch s" + (f" ({', '.join(chosen)})" if chosen else ""))
            rows.append(f"for i in 0..4 {{ link npu[i] <-> s ({self.link()}) }}")
        else:
            rows.append(f"for i in 0..4 {{ link npu[i] -> npu[(i + 1) % 4] ({self.link()}) }}")
        for _ in range(self.pick([0, 1, 3])):
            a = self.chance.randrange(4)
            b = (a + self.pick([1, 2, 3])) % 4 if not self.maybe(self.odd) else self.pick([a, 4])
            rows.append(f"link npu[{a}] {self.pick(['->', '<->'])} npu[{b}] ({self.link()})")
        return "topology t { " + "  ".join(rows) + " }"

    def options(self) -> str:
        known = ["seed: 3", "trials: 2", "threads: 1", "time_limit: 0.5s", "seed: 0", "trials: 40"]
        wrong = ["nothing: 1", "seed: -1", "trials: 0", "steps: 3", "points: 2", "trials: 1000000", 'seed: "x"']
        found = [self.mostly(known, wrong) for _ in range(self.pick([0, 0, 1]))]
        return f"({', '.join(found)})" if found else ""

    def emit(self, kind: str) -> str:
        if self.maybe(0.7):
            return f"emit {kind}"
        odd = [*(f'("{name}")' for name in NAMES), '("s", "t")', "(3)", '("s", binary: true)']
        return f"emit {kind}" + self.mostly(['("s.x")', '("a/s.x")'], odd)


def random_program(chance: random.Random) -> str:
    """A program with one schedule."""
    return ProgramWriter(chance).program()
