"""Programs for the tests of parser and formatter, and their trees as plain values."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from collc.base.resources import standard_library
from collc.source.parsing import expressions as ex

EVERYTHING = """
import std.topologies import "pod.coll"
param nodes: int = 2 param free
topology a(npu: int, link: list = [], time = 3us,) {  # names of every kind
  npu npu[2,] (inject: 5GB/s) labels ["a"] use dgx() as node use ring(4) * ring(2) as more[3] labels "b[1-2]"
  links [[0]] links m (a: 1) links [[i] for i in 0..4 if i != 2] (x: 2)
  link npu[0].a[1] -> use (latency: 0.5us)
  switch s (multicast: false, buffer: 64)
  if not a and b or c { } else if 1 < 2 <= 3 not in {} in x { let a = -1 ** -2 } else {let b = ~(1+2)*3}
  for i in 0..4, j in {1, 2} if i ^ j | 3 & 1 << 2 >> 1 != 1e3 // 2.5 % 3 { link s[i] <-> s[j] }
}
topology t = a * b without { npu gpu[0,1], npu 3, link 0 -> x, }
topology u = a with { npu b[2] (inject: 5GB/s), switch s,
  npu a.b[1,*] (inject: 5GB/s) labels "x", npu 5 (eject: 1GB/s),
  link 0 <-> a.b[1] (x: 3) lanes 1 + 1 for i in 0..3, link a -> b, }
group tp[n in 0..4, m in {1, 2}] = t.npu[n, *]
group reduce = t[0] | t.npu[1, 2..6]
collective reduce(g: group, op: string = "s\\"u\\\\m",) {
  chunk chunk: 1MiB pre chunk at g post reduce(x, op) at g post x at g post max(reduce) at g }
algorithm r() implements reduce(op, op: "sum") {
  reduce x[1, 2] from t.npu to (a) send x from y to x at s+1}
if nodes > 1 { schedule s on reduce { run reduce(reduce, reduce: reduce) using reduce(a: 1)
  allow congestion emit ten verify optimal, time <= 1.05 * bound synthesize auto emit a("x", b: true) } }
workload w { loop no_overlap repeat 2 { layer { forward forward all_reduce 64MiB } layer (a: 1ms) {} } }
workload v from "a" (tensor: 3)
prices a { let x = 1 price b (link: x) if true { price c (nic: 2) } }
design d on t { prices a tiers [a, b,]
price a (link: 1.5, nic: 2) train a train b (weight: 2) require x[0] <= 3 minimize time }
"""


def samples() -> dict[str, str]:
    """Name -> text: the standard library, the examples and a program with every form of the language."""
    examples = Path(__file__).parents[2] / "examples"
    paths = [*standard_library().values(), *sorted(examples.glob("**/*.coll"))]
    return {"everything": EVERYTHING} | {path.name: path.read_text() for path in paths}


def plain(node: object) -> object:
    """A tree as tuples, without spans, for comparisons."""
    if isinstance(node, tuple):
        return tuple(plain(part) for part in node)
    if isinstance(node, ex.Node):
        fields = [field.name for field in dataclasses.fields(node) if field.name != "span"]
        return (type(node).__name__, *(plain(getattr(node, field)) for field in fields))
    return node
