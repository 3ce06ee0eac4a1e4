"""A naive evaluator of .coll files: loop by loop from the syntax tree to plain lists.

It shares nothing with the elaborator but the parser, so that the two can be compared. It is a second implementation of
the language, no checker: a wrong program may get any answer or exception.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from collc.base.diagnostics import SourceFile
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.parse import parse
from tests.reference.values import (
    BadProgramError,
    Device,
    Family,
    Link,
    Quantity,
    Topology,
    binary,
    compare,
    in_order,
)

LIBRARY = Path(__file__).resolve().parents[2] / "stdlib"


@cache
def library(module: str) -> s.File:
    """A module of the standard library."""
    path = LIBRARY / f"{module}.coll"
    return parse(SourceFile(str(path), path.read_text(encoding="utf-8")))


@dataclass
class Chunk:
    name: str
    indices: tuple[int, ...]
    size: int
    pre: list[int] = field(default_factory=list)
    post: list[int] = field(default_factory=list)
    op: str = "copy"


@dataclass(frozen=True)
class AlgorithmSend:
    chunk: int
    source: int
    target: int
    step: int
    reduce: bool


@dataclass
class Run:
    collective: str
    group: list[int]
    chunks: list[Chunk]
    moves: list[AlgorithmSend] | None


@dataclass
class Schedule:
    name: str
    topology: Topology
    runs: list[Run]


class Scope:
    """Names, innermost first."""

    def __init__(self, outer: Scope | None, look_up: Callable[[str], Any] | None = None) -> None:
        self.names: dict[str, Any] = {}
        self.outer = outer
        self.look_up = look_up

    def __getitem__(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        if self.outer is not None:
            return self.outer[name]
        return self.look_up(name) if self.look_up else None


@dataclass(frozen=True)
class Part:
    """A family of a topology before or after it is indexed."""

    topology: Topology
    family: Family


class Several(list[Any]):
    """The value of a slice of copies: topologies, or the same part of each."""


class Evaluator:
    """One file with everything that it imports; params: values that are set with definitions."""

    def __init__(self, source: SourceFile, folder: Path | None = None, params: dict[str, Any] | None = None) -> None:
        self.params = params or {}
        self.files: list[s.File] = []
        self.folder = folder
        self._load(parse(source))
        self.globals = Scope(None, self._global)
        self.cache: dict[str, Any] = {}

    def _load(self, tree: s.File) -> None:
        if any(f.source.name == tree.source.name for f in self.files):
            return
        self.files.append(tree)
        for statement in tree.statements:
            if isinstance(statement, s.Import) and statement.module:
                self._load(library(statement.module.removeprefix("std.")))
            elif isinstance(statement, s.Import):
                path = (self.folder or Path()) / str(statement.path)
                self._load(parse(SourceFile(str(path), path.read_text(encoding="utf-8"))))

    def declarations(self, kind: type | tuple[type, ...]) -> Iterator[Any]:
        """All declarations of a kind, those of the file itself before imported ones."""
        for tree in self.files:
            yield from (x for x in tree.statements if isinstance(x, kind))

    def _global(self, name: str) -> Any:
        if name not in self.cache:
            self.cache[name] = self._declared(name)
        return self.cache[name]

    def _declared(self, name: str) -> Any:
        for x in self.declarations((s.Let, s.Param, s.TopologyInstance, s.TopologyTemplate, s.Group)):
            if x.name.name != name:
                continue
            match x:
                case s.Param():
                    return self.params[name] if name in self.params else self.value(x.default, self.globals)
                case s.Let():
                    return self.value(x.value, self.globals)
                case s.TopologyInstance():
                    topology = self.value(x.value, self.globals)
                    topology.name = name
                    return topology
                case s.TopologyTemplate(parameters=None):
                    return self.instantiate(x, ())
                case s.Group(clauses=()):
                    return self.group(self.value(x.value, self.globals))
                case s.Group():
                    return self.group_family(x)
        raise BadProgramError(f"no {name}")

    # Expressions

    def value(self, e: Any, scope: Scope) -> Any:
        """The value of an expression."""
        match e:
            case ex.IntLiteral() | ex.BoolLiteral() | ex.StringLiteral() | ex.FloatLiteral():
                return e.value
            case ex.QuantityLiteral():
                return Quantity(str(e.dimension), e.value)
            case ex.Name():
                return scope[e.name]
            case ex.Unary():
                return self.unary(e, scope)
            case ex.Binary():
                return self.binary(e, scope)
            case ex.Comparison():
                values = [self.value(o, scope) for o in e.operands]
                return all(compare(op, a, b) for op, a, b in zip(e.operators, values, values[1:], strict=False))
            case ex.Range():
                return range(self.value(e.low, scope), self.value(e.high, scope))
            case ex.Collection() | ex.Comprehension():
                return self.collection(e, scope)
            case ex.Member() | ex.Index():
                return self.part(e, scope)
            case ex.Call():
                return self.call(e, scope)
            case ex.Without():
                return self.without(e, scope)
            case s.With():
                return self.changed(e, scope)
        raise BadProgramError(type(e).__name__)

    def binary(self, e: ex.Binary, scope: Scope) -> Any:
        left = self.value(e.left, scope)
        if e.operator in ("and", "or"):
            return self.value(e.right, scope) if left == (e.operator == "and") else left
        right = self.value(e.right, scope)
        if isinstance(left, Topology):
            return multiply(left, right)
        return None if left is None or right is None else binary(e.operator, left, right)

    def unary(self, e: ex.Unary, scope: Scope) -> Any:
        operand = self.value(e.operand, scope)
        match e.operator:
            case "not":
                return not operand
            case "~":
                return ~operand
            case "-":
                return Quantity(operand.dimension, -operand.value) if isinstance(operand, Quantity) else -operand
        return operand

    def collection(self, e: ex.Collection | ex.Comprehension, scope: Scope) -> tuple[str, list[Any]]:
        if isinstance(e, ex.Collection):
            items = [self.value(x, scope) for x in e.items]
        else:
            items = [self.value(e.item, inner) for inner in self.iterations(e.clauses, e.condition, scope)]
        return (e.kind, in_order(items) if e.kind == "set" else items)

    def iterations(self, clauses: tuple[ex.ForClause, ...], condition: Any, scope: Scope) -> Iterator[Scope]:
        """A scope for each iteration of a loop nest."""
        if not clauses:
            if condition is None or self.value(condition, scope):
                yield Scope(scope)
            return
        iterable = self.value(clauses[0].iterable, scope)
        for item in iterable[1] if isinstance(iterable, tuple) else iterable:
            inner = Scope(scope)
            inner.names[clauses[0].name.name] = item
            yield from self.iterations(clauses[1:], condition, inner)

    def call(self, e: ex.Call, scope: Scope) -> Any:
        name = e.function.name
        if name == "limited":
            rates = {a.name.name: self.value(a.value, scope) for a in e.arguments[1:] if a.name is not None}
            return limit(self.value(e.arguments[0].value, scope), rates)
        if name in ("unwound", "reversed"):
            base = self.value(e.arguments[0].value, scope)
            degree = self.value(e.arguments[1].value, scope) if len(e.arguments) > 1 else 1
            return unwind(base, degree) if name == "unwound" else turn_round(base)
        if name in BUILTINS:
            return BUILTINS[name](*(self.value(a.value, scope) for a in e.arguments))
        for template in self.declarations(s.TopologyTemplate):
            if template.name.name == name:
                return self.instantiate(template, e.arguments, scope)
        raise BadProgramError(f"no {name}")

    def part(self, e: ex.Member | ex.Index, scope: Scope) -> Any:
        base = self.value(e.base, scope)
        if isinstance(e, ex.Member):
            return member(base, e.member.name)
        indices = [None if isinstance(i, ex.Star) else self.value(i, scope) for i in e.indices]
        if isinstance(base, Several):
            found = [x for part in base for x in flat(select(part, indices))]
            return Several(found) if any(isinstance(x, Topology) for x in found) else found
        if isinstance(base, Topology):
            return pick(base.npus, indices[0])
        if isinstance(base, Part):
            return select(base, indices)
        if isinstance(base, dict):
            return base[tuple(indices)]
        items = base[1] if isinstance(base, tuple) else list(base)
        return pick(items, indices[0])

    def group(self, value: Any) -> list[Device]:
        """A value as a list of NPUs."""
        match value:
            case Part():
                return select(value, [None] * len(value.family.shape))
            case Device():
                return [value]
            case Several():
                return [d for x in value for d in self.group(x if isinstance(x, Part) else member(x, "npus"))]
            case ("set" | "list", items):
                return list(items)
            case _:
                return list(value)

    def group_family(self, x: s.Group) -> dict[tuple[int, ...], list[Device]]:
        names = [c.name.name for c in x.clauses]
        found = {}
        for scope in self.iterations(x.clauses, None, self.globals):
            found[tuple(scope[n] for n in names)] = self.group(self.value(x.value, scope))
        return found

    def named(self, x: ex.Expr, base: Topology, scope: Scope) -> list[Device]:
        """The devices of a part of `with` or `without`."""
        inner = Scope(scope, None)
        inner.names.update({name: only(Part(base, family)) for name, family in base.families.items()})
        found = base.npus[x.value] if isinstance(x, ex.IntLiteral) else self.value(x, inner)
        return [found] if isinstance(found, Device) else list(self.group(found))

    def root(self, x: ex.Expr) -> str:
        """The first name of a device."""
        while not isinstance(x, ex.Name):
            x = x.base
        return x.name

    def changed(self, e: s.With, scope: Scope) -> Topology:
        base = self.value(e.base, scope)
        new: set[str] = set()
        for part in e.parts:
            if isinstance(part, s.ChangedDevice) and self.root(part.device) not in base.families:
                assert part.declaration is not None
                self.declare(part.declaration, base, Scope(scope, None), Scope(scope, None))
                new.add(self.root(part.device))
        base.numbered()
        for part in e.parts:
            if isinstance(part, s.ChangedDevice) and self.root(part.device) not in new:
                given = {a.name.name: self.value(a.value, scope) for a in part.attributes}
                for device in self.named(part.device, base, scope):
                    device.buffer = given.get("buffer", device.buffer)
                    device.multicast = given.get("multicast", device.multicast)
                    device.reduces = given.get("reduce", device.reduces)
        there, done = len(base.links), set()
        for part in e.parts:
            if isinstance(part, s.ChangedLink):
                loop = [scope] if part.loop is None else self.iterations([part.loop], None, scope)
                for inner in loop:
                    self.change(part, base, inner, there, done)
        return base

    def change(self, part: s.ChangedLink, base: Topology, scope: Scope, there: int, done: set[int]) -> None:
        ends = [self.named(x, base, scope) for x in (part.source, part.target)]
        given = {a.name.name: self.value(a.value, scope) for a in part.attributes}
        rates: dict[str, Any] = {"latency": int(given["latency"].value)} if "latency" in given else {}
        rates |= {"bandwidth": given["bandwidth"].value} if "bandwidth" in given else {}
        lanes = None if part.lanes is None else self.value(part.lanes, scope)
        for sources, targets in (ends, ends[::-1]) if part.both else (ends,):
            for a, b in itertools.product(sources, targets):
                old = [i for i in range(there) if (base.links[i].source, base.links[i].target) == (a, b)]
                if not old and len(sources) * len(targets) == 1:
                    base.links += [Link(a, b, **rates)] * (lanes or 1)
                for i in old if lanes is None else [i for i in old if i not in done][-lanes:]:
                    base.links[i] = replace(base.links[i], **rates)
                    done.add(i)

    def removed(self, parts: Any, base: Topology, scope: Scope) -> Iterator[tuple[Any, Scope]]:
        """The devices and links that `without` removes, those of parts too, each with its scope."""
        for part in parts:
            if not isinstance(part, ex.RemovedDevice) or part.kind != "part":
                yield part, scope
                continue
            name = part.device.base if isinstance(part.device, ex.Index) else part.device
            indices = part.device.indices if isinstance(part.device, ex.Index) else ()
            wanted = [None if isinstance(i, ex.Star) else self.value(i, scope) for i in indices]
            for key, (own, inner) in base.parts[name.name].items():
                if all(want in (None, number) for number, want in zip(key, wanted, strict=True)):
                    yield from ((each, inner) for each in own)

    def without(self, e: ex.Without, scope: Scope) -> Topology:
        base = self.value(e.base, scope)
        gone: set[int] = set()
        for part, inner in self.removed(e.parts, base, scope):
            if isinstance(part, ex.RemovedDevice):
                for one in self.named(part.device, base, inner):
                    one.present = False
                continue
            lanes = None if part.lanes is None else self.value(part.lanes, inner)
            for a, b in itertools.product(*(self.named(x, base, inner) for x in (part.source, part.target))):
                for pair in ((a, b), (b, a)) if part.both else ((a, b),):
                    parallel = [i for i, k in enumerate(base.links) if (k.source, k.target) == pair]
                    left = [i for i in parallel if i not in gone]
                    gone |= set(parallel if lanes is None else left[-lanes:])
        base.links = [k for i, k in enumerate(base.links) if i not in gone and k.source.present and k.target.present]
        return base

    # Bodies

    def bind(self, parameters: Any, arguments: Any, scope: Scope) -> Scope:
        """A scope with the parameters, of which quantities may be left out."""
        inner = Scope(self.globals)
        places = [p.name.name for p in parameters or ()]
        for place, argument in enumerate(arguments):
            name = argument.name.name if argument.name else places[place]
            inner.names[name] = self.value(argument.value, scope)
        for p in parameters or ():
            if p.name.name not in inner.names:
                inner.names[p.name.name] = self.value(p.default, inner) if p.default is not None else None
            if p.type is not None and p.type.name == "group":
                inner.names[p.name.name] = self.group(inner.names[p.name.name])
        return inner

    def statements(self, body: Any, scope: Scope, do: Callable[[Any, Scope], None]) -> None:
        """Execute a body; do: executes all statements but lets, loops and conditions."""
        for x in body:
            match x:
                case s.Let():
                    scope.names[x.name.name] = self.value(x.value, scope)
                case s.For():
                    for inner in self.iterations(x.clauses, x.condition, scope):
                        self.statements(x.body, inner, do)
                case s.If():
                    self.statements(x.then if self.value(x.condition, scope) else x.otherwise, Scope(scope), do)
                case _:
                    do(x, scope)

    def instantiate(self, template: s.TopologyTemplate, arguments: Any, scope: Scope | None = None) -> Topology:
        topology = Topology(template.name.name)
        inner = self.bind(template.parameters, arguments, scope or self.globals)

        def do(x: Any, here: Scope) -> None:
            match x:
                case s.DeviceDeclaration():
                    self.declare(x, topology, here, inner)
                case s.Use():
                    self.use(x, topology, here, inner)
                case s.PartDeclaration():
                    topology.parts[x.name.name] = {
                        tuple(each[c.name.name] for c in x.clauses): (x.parts, each)
                        for each in self.iterations(x.clauses, None, here)
                    }
                case s.LinkDeclaration():
                    a, b = self.value(x.source, here), self.value(x.target, here)
                    self.connect(topology, [(a, b), (b, a)] if x.both else [(a, b)], x.attributes, here)
                case s.LinkMatrix():
                    rows = [row[1] for row in self.value(x.matrix, here)[1]]
                    npus = topology.npus
                    pairs = [
                        (npus[i], npus[j]) for i, row in enumerate(rows) for j, k in enumerate(row) for _ in range(k)
                    ]
                    self.connect(topology, pairs, x.attributes, here)

        self.statements(template.body, inner, do)
        return topology.numbered()

    def declare(self, x: s.DeviceDeclaration, topology: Topology, here: Scope, top: Scope) -> None:
        shape = tuple(self.value(n, here) for n in x.shape)
        given = {a.name.name: self.value(a.value, here) for a in x.attributes}
        family = Family(shape)
        for index in product(*map(range, shape)):
            label = x.name.name + (f"[{', '.join(map(str, index))}]" if shape else "")
            device = Device(x.kind, label)
            device.buffer = given.get("buffer", -1)
            device.multicast = given.get("multicast", False)
            device.reduces = given.get("reduce", False)
            family.items[index] = device
            family.order.append(index)
            topology.devices.append(device)
        topology.families[x.name.name] = family
        here.names[x.name.name] = top.names[x.name.name] = only(Part(topology, family))

    def use(self, x: s.Use, topology: Topology, here: Scope, top: Scope) -> None:
        shape = tuple(self.value(n, here) for n in x.shape)
        family = Family(shape)
        for index in product(*map(range, shape)):
            copy = self.value(x.topology, here)
            copy = copy_of(copy)
            prefix = x.name.name + (f"[{', '.join(map(str, index))}]" if shape else "")
            for device in copy.devices:
                device.label = f"{prefix}.{device.label}"
            topology.devices += copy.devices
            topology.links += copy.links
            family.items[index] = copy
            family.order.append(index)
        topology.families[x.name.name] = family
        here.names[x.name.name] = top.names[x.name.name] = Part(topology, family) if shape else family.items[()]

    def connect(self, topology: Topology, pairs: Any, attributes: Any, here: Scope) -> None:
        given = {a.name.name: self.value(a.value, here) for a in attributes}
        bandwidth, latency = given.get("bandwidth"), given.get("latency")
        for a, b in pairs:
            if not isinstance(a, Device) or not isinstance(b, Device):
                raise BadProgramError("a link joins two devices")
            topology.links.append(
                Link(a, b, None if latency is None else int(latency.value), bandwidth.value if bandwidth else None)
            )

    def chunks(self, x: s.Collective, scope: Scope) -> list[Chunk]:
        """The chunks of a collective; scope has its parameters."""
        found: dict[tuple[str, tuple[int, ...]], Chunk] = {}

        def key(reference: s.ChunkReference, here: Scope) -> tuple[str, tuple[int, ...]]:
            return reference.name.name, tuple(self.value(i, here) for i in reference.indices)

        def do(x: Any, here: Scope) -> None:
            name, indices = key(x.chunk, here)
            if isinstance(x, s.ChunkDeclaration):
                size = self.value(x.size, here).value
                if size.denominator != 1 or (name, indices) in found:
                    raise BadProgramError("a chunk")
                found[name, indices] = Chunk(name, indices, int(size))
                return
            place = [d.number for d in self.group(self.value(x.place, here))]
            chunk = found[name, indices]
            if isinstance(x, s.Precondition):
                chunk.pre = sorted({*chunk.pre, *place})
            else:
                chunk.post = sorted({*chunk.post, *place})
                chunk.op = self.value(x.reduction, here) if x.reduction is not None else "copy"

        self.statements(x.body, scope, do)
        return list(found.values())

    def moves(self, x: s.Algorithm, scope: Scope, chunks: list[Chunk]) -> list[AlgorithmSend]:
        """The sends of an algorithm; scope has its parameters."""
        numbers = {(c.name, c.indices): i for i, c in enumerate(chunks)}
        found: list[AlgorithmSend] = []

        def do(x: Any, here: Scope) -> None:
            chunk = numbers[x.chunk.name.name, tuple(self.value(i, here) for i in x.chunk.indices)]
            a, b = self.value(x.source, here), self.value(x.target, here)
            step = self.value(x.step, here) if x.step is not None else -1
            found.append(AlgorithmSend(chunk, a.number, b.number, step, x.kind == "reduce"))

        self.statements(x.body, scope, do)
        return found

    def algorithm(self, name: str, collective: str) -> s.Algorithm:
        return next(
            x
            for x in self.declarations(s.Algorithm)
            if x.name.name == name and x.implements.function.name == collective
        )

    def run(self, x: s.RunStatement, scope: Scope) -> Run:
        """One run with its chunks and, with `using`, its moves."""
        name = x.collective.function.name
        collective = next(c for c in self.declarations(s.Collective) if c.name.name == name)
        arguments = [
            a for a in x.collective.arguments if not (a.name and a.name.name == "chunks" and _is_auto(a.value))
        ]
        inner = self.bind(collective.parameters, arguments, scope)
        first = next(p.name.name for p in collective.parameters)
        given = dict(inner.names)
        chunks = self.chunks(collective, inner)
        moves = None
        if x.using is not None:
            algorithm = self.algorithm(x.using.name, name)
            bound = Scope(self.globals)
            names = [p.name.name for p in collective.parameters]
            for place, argument in enumerate(algorithm.implements.arguments):
                if isinstance(argument.value, ex.Name):
                    target = argument.name.name if argument.name else names[place]
                    bound.names[argument.value.name] = given[target]
            for argument in x.arguments:
                bound.names[argument.name.name] = self.value(argument.value, scope)
            for p in algorithm.parameters:
                if p.name.name not in bound.names:
                    bound.names[p.name.name] = self.value(p.default, bound)
            moves = self.moves(algorithm, bound, chunks)
        return Run(name, [d.number for d in given[first]], chunks, moves)

    def schedules(self) -> list[Schedule]:
        """The schedules of the file itself."""
        found = []
        for x in self.files[0].statements:
            if isinstance(x, s.ScheduleDeclaration):
                runs: list[Run] = []

                def do(y: Any, here: Scope, runs: list[Run] = runs) -> None:
                    if isinstance(y, s.RunStatement):
                        runs.append(self.run(y, here))

                topology = self.value(x.topology, self.globals)
                self.statements(x.body, Scope(self.globals), do)
                found.append(Schedule(x.name.name, topology, runs))
        return found


def only(part: Part) -> Any:
    """The device of a family without indices, else the part."""
    return part.family.items[()] if part.family.shape == () else part


def pick(items: list[Any], index: Any) -> Any:
    """One or several items of a list."""
    if index is None:
        return list(items)
    if isinstance(index, int):
        if not 0 <= index < len(items):
            raise BadProgramError("index")
        return items[index]
    return [items[i] for i in (index[1] if isinstance(index, tuple) else index)]


def select(part: Part, indices: list[Any]) -> Any:
    """`gpu[1, *]`: one device or topology, or a list of devices in order of the indices."""
    family = part.family
    if len(indices) != len(family.shape):
        raise BadProgramError("number of indices")
    axes = []
    for index, size in zip(indices, family.shape, strict=True):
        if index is None:
            axes.append(list(range(size)))
        elif isinstance(index, int):
            axes.append([index])
        else:
            axes.append(list(index[1] if isinstance(index, tuple) else index))
    found = [family.items[i] for i in product(*axes)]
    if all(isinstance(i, int) for i in indices):
        return found[0]
    if any(isinstance(x, Topology) for x in found):
        return Several(found)
    return [d for d in found if d.present]


def member(base: Any, name: str) -> Any:
    """`pod.gpu`, `pod.npus`, and the same of all in a slice of copies."""
    if isinstance(base, Several):
        found = [member(x, name) for x in base]
        return [d for npus in found for d in npus] if name == "npus" else Several(found)
    if isinstance(base, Part):
        base = base.family.items[()]
    if name == "npus":
        return [d for d in base.npus if d.present]
    return only(Part(base, base.families[name]))


def flat(value: Any) -> list[Any]:
    """One or several as a list."""
    return value if isinstance(value, list) else [value]


def copy_of(base: Topology) -> Topology:
    """A copy of a topology, with its own devices."""
    twin = {id(d): Device(d.kind, d.label, d.number, d.present, d.buffer, d.multicast, d.reduces) for d in base.devices}

    def copied(topology: Topology) -> Topology:
        new = Topology(topology.name, [twin[id(d)] for d in topology.devices])
        new.links = [Link(twin[id(k.source)], twin[id(k.target)], k.latency, k.bandwidth) for k in topology.links]
        new.axes = list(topology.axes)
        for name, family in topology.families.items():
            items = {i: copied(x) if isinstance(x, Topology) else twin[id(x)] for i, x in family.items.items()}
            new.families[name] = Family(family.shape, items, list(family.order))
        return new

    return copied(base)


def factor(topology: Topology) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The shape of a factor's only array of NPUs, and its indices by number."""
    family = next(f for f in topology.families.values() if any(d.kind == "npu" for d in f.items.values()))
    return family.shape, family.order


def multiply(a: Topology, b: Topology) -> Topology:
    """The Cartesian product: the indices of a first and varying fastest."""
    (shape_a, order_a), (shape_b, order_b) = factor(a), factor(b)
    result = Topology(f"{a.name} * {b.name}")
    family = Family(shape_a + shape_b)
    grid: dict[tuple[int, int], Device] = {}
    for j, index_b in enumerate(order_b):
        for i, index_a in enumerate(order_a):
            index = index_a + index_b
            device = Device("npu", f"npu[{', '.join(map(str, index))}]")
            family.items[index] = grid[i, j] = device
            family.order.append(index)
            result.devices.append(device)
    result.families["npu"] = family
    for j in range(len(order_b)):
        _line(result, a, [grid[i, j] for i in range(len(order_a))])
    for i in range(len(order_a)):
        _line(result, b, [grid[i, j] for j in range(len(order_b))])
    return result.numbered()


def _line(result: Topology, along: Topology, npus: list[Device]) -> None:
    twins = dict(zip(map(id, along.npus), npus, strict=True))
    for switch in along.switches:
        label = f"switch {len(result.devices)}"
        twins[id(switch)] = Device("switch", label, -1, True, switch.buffer, switch.multicast, switch.reduces)
        result.devices.append(twins[id(switch)])
    for k in along.links:
        result.links.append(Link(twins[id(k.source)], twins[id(k.target)], k.latency, k.bandwidth))


def unwind(base: Topology, degree: int) -> Topology:
    """Each switch replaced by direct links between its NPUs, in order."""
    new = copy_of(base)
    kept = [k for k in new.links if "switch" not in (k.source.kind, k.target.kind)]
    for switch in new.switches:
        ports = [k.source for k in new.links if k.target is switch]
        into = {id(k.source): k for k in new.links if k.target is switch}
        out = {id(k.target): k for k in new.links if k.source is switch}
        ports.sort(key=lambda d: d.number)
        for i, a in enumerate(ports):
            for d in range(1, degree + 1):
                b = ports[(i + d) % len(ports)]
                first, second = into[id(a)], out[id(b)]
                rate = min(first.bandwidth or 0, second.bandwidth or 0) / degree
                kept.append(Link(a, b, (first.latency or 0) + (second.latency or 0), Fraction(rate)))
    new.links = kept
    new.devices = new.npus
    return new


TRAFFIC = {"baseline": Fraction(3, 2), "offload": Fraction(1, 2)}
"""Of an All-Reduce along one dimension: no program that is evaluated limits the memory of another one."""


def limit(base: Topology, given: dict[str, Any]) -> Topology:
    """The topology with no link faster than what NPUs with the same rates can send and receive.

    Links as a schedule gets them, so that only the last topology of a program may be a limited one.
    """
    sends = [given["inject"].value] if "inject" in given else []
    if "memory" in given:
        sends.append(given["memory"].value / TRAFFIC[given.get("endpoint", "baseline")])
    receives = [given["eject"].value] if "eject" in given else []
    new = copy_of(base)
    npus = {id(npu) for npu in new.npus}
    for number, k in enumerate(new.links):
        rates = (sends if id(k.source) in npus else []) + (receives if id(k.target) in npus else [])
        rates += [] if k.bandwidth is None else [k.bandwidth]
        new.links[number] = replace(k, bandwidth=min(rates, default=None))
    return new


def turn_round(base: Topology) -> Topology:
    """The topology with the direction of every link reversed."""
    new = copy_of(base)
    new.links = [Link(k.target, k.source, k.latency, k.bandwidth) for k in new.links]
    return new


def _items(*values: Any) -> list[Any]:
    if len(values) == 1:
        return list(values[0][1] if isinstance(values[0], tuple) else values[0])
    return list(values)


def _largest(*values: Any) -> Any:
    return max(_items(*values), key=lambda v: v.value if isinstance(v, Quantity) else v)


def _smallest(*values: Any) -> Any:
    return min(_items(*values), key=lambda v: v.value if isinstance(v, Quantity) else v)


def _total(*values: Any) -> Any:
    items = _items(*values)
    total = items[0] if items else 0
    for item in items[1:]:
        total = binary("+", total, item)
    return total


def _length(value: Any) -> int:
    if isinstance(value, Part):
        return len(value.family.items)
    return len(value[1] if isinstance(value, tuple) else value)


def _log2(n: Any) -> Fraction:
    return Fraction(math.log2(n))


BUILTINS: dict[str, Callable[..., Any]] = {
    "len": _length,
    "min": _smallest,
    "max": _largest,
    "sum": _total,
    "ceil": math.ceil,
    "log2": _log2,
    "is_pow2": lambda n: n > 0 and n & (n - 1) == 0,
    "index": lambda group, npu: list(group).index(npu),
}


def evaluate(text: str, folder: Path | None = None, **params: Any) -> Evaluator:
    """An evaluator of a program's text."""
    return Evaluator(SourceFile("test.coll", text), folder, params)


def _is_auto(value: ex.Expr) -> bool:
    """Whether it is the `auto` of `chunks: auto`, for which the demand has one chunk per block."""
    return isinstance(value, ex.Name) and value.name == "auto"
