"""Random well-typed .coll programs, for Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass
class Writer:
    """Draws choices and writes lines."""

    draw: Draw
    lines: list[str] = field(default_factory=list)
    fresh: int = 0

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, items: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(items))

    def chance(self, percent: int = 50) -> bool:
        return self.number(0, 99) < percent

    def name(self, stem: str) -> str:
        self.fresh += 1
        return f"{stem}{self.fresh}"

    def write(self, line: str) -> None:
        self.lines.append(line)

    def expression(self, names: Sequence[str], depth: int = 2) -> str:
        """A whole number in terms of loop variables, of any sign."""
        if depth == 0 or self.chance(30):
            return self.pick([*names, str(self.number(0, 9))])
        a, b = self.expression(names, depth - 1), self.expression(names, depth - 1)
        k = self.number(1, 5)
        return self.pick(
            [
                f"({a} + {b})",
                f"({a} - {b})",
                f"({a} * {b})",
                f"({a} // {k})",
                f"({a} % {k})",
                f"({a} ^ {b})",
                f"min({a}, {b})",
                f"max({a}, {b}, {k})",
                f"({k} ** ({a} % 3))",
                f"(-{a})",
                f"len({{{a}, {b}, {k}}})",
                f"sum([{a}, {b}])",
                f"({a} << ({b} % 4))",
                f"ceil({a} / {k})",
            ]
        )

    def guard(self, names: Sequence[str]) -> str:
        """A condition in terms of loop variables."""
        a, b = self.expression(names, 1), self.expression(names, 1)
        plain = self.pick(
            [
                f"{a} != {b}",
                f"({a} + {b}) % 2 == {self.number(0, 1)}",
                f"{a} <= {b}",
                f"0 <= {a} < {self.number(2, 6)}",
                f"{a} in {{{b}, 1, 3}}",
                f"{a} not in 0..{self.number(1, 4)}",
                f"not is_pow2({a})",
            ]
        )
        if self.chance(25):
            return f"({plain}) {self.pick(['and', 'or'])} {a} < {self.number(1, 6)}"
        return plain

    def loop(self, names: list[str]) -> str:
        """The head of a loop nest, whose variables are added to the names in scope."""
        clauses = []
        for _ in range(self.number(1, 2)):
            name = self.name("i")
            low = self.pick(["0", "1", *names])
            span = self.number(1, 4)
            kinds = [f"0..{span}", f"{low}..{span + 1}", f"[{self.number(0, 5)}, {self.number(0, 5)}]"]
            kinds += [f"{{2 * q for q in 0..{span} if q != 1}}", f"0..({self.expression(names, 1)}) % 4"]
            clauses.append(f"{name} in {self.pick(kinds)}")
            names.append(name)
        condition = f" if {self.guard(names)}" if self.chance(40) else ""
        return f"for {', '.join(clauses)}{condition}"

    def statements(self, names: list[str], leaf: Callable[[list[str]], None], depth: int = 2) -> None:
        """Some nested loops and conditions around single statements."""
        for _ in range(self.number(1, 2)):
            kind = self.pick(["leaf", "for", "if", "let"]) if depth else "leaf"
            inner = list(names)
            if kind == "for":
                self.write(f"{self.loop(inner)} {{")
                self.statements(inner, leaf, depth - 1)
                self.write("}")
            elif kind == "if":
                self.write(f"if {self.guard(names)} {{")
                self.statements(inner, leaf, depth - 1)
                self.write("} else {" if self.chance() else f"}} else if {self.guard(names)} {{")
                self.statements(list(names), leaf, depth - 1)
                self.write("}")
            elif kind == "let":
                value = self.expression(names)
                name = self.name("v")
                self.write(f"let {name} = {value}")
                names.append(name)
                leaf(names)
            else:
                leaf(names)


@dataclass(frozen=True)
class Array:
    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        total = 1
        for n in self.shape:
            total *= n
        return total


def write_template(w: Writer, name: str) -> tuple[int, list[Array]]:
    """A template with a random body; all NPUs are on a ring, so that every NPU reaches every other.

    Returns the number of its NPUs and their arrays.
    """
    arrays = [Array("a", (w.number(2, 4),)), Array("b", w.pick([(), (2,), (2, 2), (1, 3)]))][: w.number(1, 2)]
    switches = [Array("s", w.pick([(), (2,)]))] if w.chance() else []
    w.write(f"topology {name}(speed: rate = {w.number(1, 9)}GB/s, hop: time = {w.number(1, 9)}00ns) {{")
    for array in [*arrays, *switches]:
        kind = "switch" if array in switches else "npu"
        shape = f"[{', '.join(map(str, array.shape))}]" if array.shape else ""
        options = " (buffer: 8, multicast: true)" if kind == "switch" and w.chance() else ""
        w.write(f"{kind} {array.name}{shape}{options}")
    count = sum(a.size for a in arrays)
    rows = [[int((j - i) % count in (1, count - 1)) * w.number(1, 2) for j in range(count)] for i in range(count)]
    w.write(f"links {rows} (bandwidth: speed, latency: hop)")

    def place(array: Array, names: list[str]) -> str:
        if not array.shape:
            return array.name
        return f"{array.name}[{', '.join(f'{w.expression(names)} % {n}' for n in array.shape)}]"

    def link(names: list[str]) -> None:
        options = f"(bandwidth: speed * {w.number(1, 4)} / {w.number(1, 3)}, latency: hop + {w.number(0, 3)}ns)"
        arrow = w.pick(["->", "<->"])
        others = [x for x in [*arrays, *switches] if x is not arrays[0]]
        if others and w.chance():
            w.write(f"link {place(arrays[0], names)} {arrow} {place(w.pick(others), names)} {options}")
            return
        n = arrays[0].shape[0]
        e = w.expression(names)
        w.write(f"link a[{e} % {n}] {arrow} a[({e} + {w.number(1, n - 1)}) % {n}] {options}")

    w.statements([], link)
    w.write("}")
    return count, arrays


def write_topology(w: Writer) -> tuple[int, str, bool]:
    """An instance `t`; its number of NPUs, the name of an array of them or "", and whether all are present."""
    kind = w.pick(["plain", "plain", "without", "use", "product", "reversed", "unwound"])
    if kind == "product":
        return write_product(w)
    if kind == "unwound":
        n = w.number(3, 6)
        w.write(f"topology t = unwound(switched({n}, bandwidth: 60GB/s, latency: 1us), degree: {w.number(1, 2)})")
        return n, "npu", True
    count, arrays = write_template(w, "part")
    if kind == "use":
        copies = w.number(2, 3)
        w.write(f"topology t {{ use part(speed: 7GB/s) as node[{copies}] switch top")
        ends = f"node[n].a[i] <-> top (bandwidth: {w.number(1, 5)}GB/s, latency: n * 10ns + i * 1ns)"
        w.write(f"for n in 0..{copies}, i in 0..{arrays[0].size} {{ link {ends} }} }}")
        return copies * count, "", True
    if kind == "reversed":
        w.write("topology t = reversed(part(hop: 3us))")
    elif kind == "without" and count > 2:
        gone = w.pick([f"npu {w.number(0, count - 1)}", "npu a[1]", "link 0 <-> 1", "link a[0] -> a[1]"])
        w.write(f"topology t = part() without {{ {gone} }}")
        return count, "a", gone.startswith("link")
    else:
        w.write(f"topology t = part({w.pick(['', '3GB/s', 'hop: 20ns', '5GB/s, 1us'])})")
    return count, "a", True


def write_product(w: Writer) -> tuple[int, str, bool]:
    factors, count = [], 1
    for _ in range(w.number(2, 3)):
        n = w.number(2, 3)
        kind = w.pick(["ring", "line", "fully_connected", "switched"])
        factors.append(f"{kind}({n}, bandwidth: {w.number(1, 9)}GB/s, latency: {w.number(1, 9)}us)")
        count *= n
    w.write(f"topology t = {' * '.join(factors)}")
    return count, "", True


def write_groups(w: Writer, count: int, array: str, whole: bool) -> list[str]:
    """Groups of at least two members, as they are written in a run."""
    found = ["t.npus"]
    if array:
        w.write(f"group slice = t.{array}[*]")
        found += ["slice"] if whole else []
    if whole:
        chosen = w.draw(st.permutations(range(count)))[: w.number(2, count)]
        w.write(f"group some = [{', '.join(f't[{i}]' for i in chosen)}]")
        w.write(f"group stride = [t[i] for i in 0..{count} if i % 2 == 0 or i == 1]")
        w.write(f"group pair[k in 0..{count - 1}] = [t[k], t[k + 1]]")
        found += ["some", "stride", f"pair[{w.number(0, count - 2)}]"]
        if count > 2:
            w.write("group first = t.npus[0..2]")
            found.append("first")
    return found


def write_collective(w: Writer) -> str:
    """A collective `mine(g, size, parts)`; returns the guard of its chunks x."""
    w.write('collective mine(g: group, size: bytes, parts: int = 2, op: string = "sum") {')
    w.write("let n = len(g)")
    place = w.pick(["g", "g[(i + 1) % n]", "{g[j] for j in 0..n if j != i or n == 1}", "{g[0], g[i % n]}"])
    end = w.pick(["g", "g[i]", "[g[(2 * j) % n] for j in 0..2]", "{g[i]} | {g[0]}"])
    what = w.pick(["x[i, c]", "sum(x[i, c])", "max(x[i, c])", "reduce(x[i, c], op)"])
    guard = w.pick(["", " if i <= c + 1", " if (i + c) % 2 == 0"])
    w.write(f"for i in 0..n, c in 0..parts{guard} {{")
    w.write(f"chunk x[i, c]: size * (i + 1) / {w.pick(['1', 'parts', '2'])}")
    w.write(f"pre x[i, c] at {place}")
    w.write(f"post {what} at {end}")
    w.write("}")
    if w.chance():
        w.write(
            "for i in 0..n, j in i..n { chunk y[i, j]: max(size, 8B * j) pre y[i, j] at g[i] post y[i, j] at g[j] }"
        )
    if w.chance():
        w.write("chunk z: size pre z at g[0] if n > 1 { pre z at g[1] } post z at g")
    w.write("}")
    return guard


def write_algorithm(w: Writer, guard: str) -> None:
    """An algorithm `moved` for `mine`, with random sends."""
    w.write("algorithm moved(k: group, amount: bytes, parts: int) implements mine(k, amount, parts: parts) {")
    w.write("let n = len(k)")
    hop = w.pick(["(i + 1) % n", "(i + n - 1) % n"])
    step = w.pick(["", " at i * parts + c", " at s + c"])
    w.write(f"for s in 0..2, i in 0..n, c in 0..parts{guard} {{")
    w.write(f"{w.pick(['send', 'reduce'])} x[i, c] from k[i] to k[{hop}]{step}")
    w.write("} }")


STANDARD = [
    ("all_gather", "", "ring"),
    ("reduce_scatter", ', op: "max"', "bidirectional_ring"),
    ("all_reduce", "", "recursive_halving_doubling"),
    ("all_reduce", "", "double_binary_tree"),
    ("all_to_all", "", "pairwise"),
    ("broadcast", ", root: 1", "double_binary_tree"),
    ("reduce", ", root: 1", "binomial_tree"),
    ("scatter", "", "direct"),
    ("gather", ", root: 1", "ring"),
    ("send_recv", ", source: 1, target: 0", ""),
    ("multicast", ", targets: {1}", ""),
    ("all_reduce", "", "hierarchical"),
]


@st.composite
def programs(draw: Draw) -> str:
    """The text of a program with one schedule `s` on a topology `t`."""
    w = Writer(draw)
    w.write("import std.topologies import std.collectives import std.algorithms")
    groups = write_groups(w, *write_topology(w))
    write_algorithm(w, write_collective(w))
    w.write("schedule s on t {")
    for _ in range(w.number(1, 3)):
        group = w.pick(groups)
        if w.chance():
            using = w.pick(["", " using moved"])
            w.write(f"run mine({group}, size: {w.number(1, 9) * 12}kB, parts: {w.number(1, 3)}){using}")
        else:
            name, more, algorithm = w.pick(STANDARD)
            using = f" using {algorithm}" if algorithm and w.chance() else ""
            w.write(f"run {name}({group}, size: {15120 * w.number(1, 3)}kB{more}){using}")
    w.write("}")
    return "\n".join(w.lines)
