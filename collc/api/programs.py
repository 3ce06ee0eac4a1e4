"""Networks, demands and programs that are built in Python; each of them is text of `.coll` that `print` shows."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from collc.api.arguments import value_text
from collc.base.diagnostics import SourceFile
from collc.base.wording import did_you_mean, phrase

if TYPE_CHECKING:
    from networkx import Graph

    from collc.api.compiling import CompileOptions
    from collc.application.compile.compile_report import CompileReport
    from collc.source.parsing.syntax import Parameter
    from collc.ten.network import Network as NetworkArrays

Quantity = str | int | float
"""A size, time or rate: text as in `.coll` ("9MiB", "0.5us", "50GiB/s"), or a number of bytes, seconds or bytes/s."""

_UNITS: Final = {"bytes": "B", "time": "s", "rate": "B/s"}
"""The unit of a number, by type of the language."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")


@cache
def _declarations(module: str, kind: str) -> dict[str, tuple[Parameter, ...]]:
    """Name -> parameters of the templates or collectives of a standard module. kind: a class of the syntax tree."""
    from collc.source.parsing import syntax
    from collc.source.parsing.parse import parse_library

    chosen: list[Any] = [n for n in parse_library(module).statements if isinstance(n, getattr(syntax, kind))]
    return {node.name.name: tuple(node.parameters or ()) for node in chosen}


def _value(value: object, kind: str) -> str:
    """A value as text of `.coll`. kind: its type in the language, or "" if that is not declared."""
    item: Any = getattr(value, "item", None)
    plain = item() if item is not None else value
    if isinstance(plain, str):
        return f'"{plain}"' if kind == "string" else plain
    if isinstance(plain, Iterable):
        elements = cast("Iterable[object]", plain)
        return f"[{', '.join(_value(element, '') for element in elements)}]"
    return value_text(plain) + ("" if isinstance(plain, bool) else _UNITS.get(kind, ""))


def _call(name: str, parameters: Sequence[Parameter], values: Sequence[object], keywords: dict[str, object]) -> str:
    """A call as text. Raises TypeError for arguments that the declaration does not have."""
    types = {parameter.name.name: parameter.type.name if parameter.type else "" for parameter in parameters}
    if len(values) > len(types):
        raise TypeError(f"{name}() takes at most {len(types)} arguments, not {len(values)}")
    for keyword in keywords:
        if keyword not in types:
            raise TypeError(f"{name}() has no '{keyword}'; {did_you_mean(keyword, types, f'it has {phrase(types)}')}")
    texts = [_value(value, types[key]) for key, value in zip(types, values, strict=False)]
    texts += [f"{key}: {_value(value, types[key])}" for key, value in keywords.items() if value is not None]
    return f"{name}({', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class Network:
    """A network, declared as in `.coll`; `str(network)` is its text.

    expression: what follows `topology net =`. declarations: the templates that the expression uses and that the
    standard library does not have.
    """

    expression: str
    declarations: tuple[str, ...] = ()

    @staticmethod
    def of(template: str, *values: object, **keywords: object) -> Network:
        """A topology or machine of the standard library, as in `Network.of("dgx_h100", 4)`. `collc std` lists them.

        Raises ValueError for an unknown template, TypeError for an unknown argument.
        """
        known = _declarations("topologies", "TopologyTemplate") | _declarations("clusters", "TopologyTemplate")
        if template not in known:
            raise ValueError(f"no template is named '{template}'; {did_you_mean(template, known, 'see collc std')}")
        return Network(_call(template, known[template], values, keywords))

    @staticmethod
    def mesh(*sizes: int, bandwidth: Quantity, latency: Quantity) -> Network:
        """A mesh of two or three dimensions. Sizes as for `mesh2d` and `mesh3d`: the first varies fastest."""
        return Network.of(f"mesh{len(sizes)}d", *sizes, bandwidth=bandwidth, latency=latency)

    @staticmethod
    def torus(*sizes: int, bandwidth: Quantity, latency: Quantity) -> Network:
        """A torus of two or three dimensions. Sizes as for `torus2d` and `torus3d`: the first varies fastest."""
        return Network.of(f"torus{len(sizes)}d", *sizes, bandwidth=bandwidth, latency=latency)

    @staticmethod
    def from_links(
        links: Iterable[Sequence[int]],
        npus: int,
        *,
        bandwidth: Quantity | Sequence[Quantity],
        latency: Quantity | Sequence[Quantity],
        switches: int = 0,
    ) -> Network:
        """A network of directed links.

        links: int[links, 2], source and target of each link; devices 0 to npus - 1 are NPUs, the next ones switches.
        bandwidth, latency: of all links, or one of each. Raises ValueError for a self-loop, an unknown device, or if
        the numbers of links and of their attributes differ.
        """
        pairs = [(int(source), int(target)) for source, target in links]
        rates, delays = _of_each(bandwidth, len(pairs), "bandwidth"), _of_each(latency, len(pairs), "latency")
        for source, target in pairs:
            if source == target or not (0 <= source < npus + switches and 0 <= target < npus + switches):
                raise ValueError(
                    f"link {source} -> {target}: there are devices 0 to {npus + switches - 1}, no self-loops"
                )
        devices = [f"npu npu[{npus}]", *([f"switch switch[{switches}]"] if switches else [])]
        names = [*(f"npu[{n}]" for n in range(npus)), *(f"switch[{n}]" for n in range(switches))]
        return _listed_links(devices, [(names[s], names[t]) for s, t in pairs], rates, delays)

    @staticmethod
    def from_networkx(graph: Graph[Any], bandwidth: Quantity | None = None, latency: Quantity | None = None) -> Network:
        """The network of a NetworkX graph. An edge of an undirected graph is two links.

        Nodes with a true attribute `switch` are switches; NPUs and switches are numbered in the order of the nodes.
        Edges have the attributes `bandwidth` and `latency`, or the values that are given here. Raises ValueError for a
        self-loop or an edge without one of them.
        """
        switches = {node for node, attributes in graph.nodes(data=True) if attributes.get("switch")}
        npus = [node for node in graph if node not in switches]
        number = {node: n for n, node in enumerate([*npus, *(node for node in graph if node in switches)])}
        links: list[tuple[int, int]] = []
        rates: list[Quantity] = []
        delays: list[Quantity] = []
        for source, target, attributes in graph.edges(data=True):
            if source == target:
                raise ValueError(f"node {source!r} has an edge to itself: a link joins two devices")
            rate, delay = attributes.get("bandwidth", bandwidth), attributes.get("latency", latency)
            if rate is None or delay is None:
                absent = "bandwidth" if rate is None else "latency"
                raise ValueError(f"edge {source!r} - {target!r} has no {absent}: give the edge one, or all of them")
            pair = (number[source], number[target])
            both = [pair] if graph.is_directed() else [pair, (pair[1], pair[0])]
            links.extend(both)
            rates.extend([rate] * len(both))
            delays.extend([delay] * len(both))
        return Network.from_links(links, len(npus), bandwidth=rates, latency=delays, switches=len(switches))

    def without_parts(self, *parts: str) -> Network:
        """The network after failures. parts: as in `.coll`: "npu 5", "link 0 <-> 1", "switch leaf[2]"."""
        return replace(self, expression=f"({self.expression}) without {{ {', '.join(parts)} }}")

    def __mul__(self, other: Network) -> Network:
        """The Cartesian product; the first factor is dimension 1."""
        texts = [network.expression for network in (self, other)]
        return Network(" * ".join(texts), (*self.declarations, *other.declarations))

    def elaborate(self) -> NetworkArrays:
        """The network as arrays of devices and links. Raises SourceError for a wrong argument."""
        from collc.source.elaboration.elaborate import load_topology

        return load_topology(SourceFile("<network>", f"{imports_text()}{self}\n"), "net")

    def __str__(self) -> str:
        return "\n".join([*dict.fromkeys(self.declarations), f"topology net = {self.expression}"])


def _of_each(value: Quantity | Sequence[Quantity], count: int, name: str) -> list[Quantity]:
    """The value of each link. Raises ValueError if there are values for another number of links."""
    if isinstance(value, str | int | float):
        return [value] * count
    values = list(value)
    if len(values) != count:
        raise ValueError(f"{name} has {len(values)} values for {count} links")
    return values


def _listed_links(
    devices: Sequence[str], ends: Sequence[tuple[str, str]], rates: Sequence[Quantity], delays: Sequence[Quantity]
) -> Network:
    """A network with a template of its own. The template's name depends on its text, so that products can be formed."""
    lines = [
        f"    link {source} -> {target} (bandwidth: {_value(rate, 'rate')}, latency: {_value(delay, 'time')})"
        for (source, target), rate, delay in zip(ends, rates, delays, strict=True)
    ]
    body = "\n".join([*(f"    {text}" for text in devices), *lines])
    name = f"links_{zlib.crc32(body.encode()):08x}"
    return Network(f"{name}()", (f"topology {name}() {{\n{body}\n}}",))


@dataclass(frozen=True, slots=True)
class Demand:
    """A collective of one's own: chunks with the NPUs that hold them before and after.

    chunks: (size, ranks that hold it at first, ranks that hold it at the end, operation): the operation is None for a
    copy, "sum", "max", "min" or "prod" for a reduction of what all its holders put in.
    """

    chunks: tuple[tuple[Quantity, tuple[int, ...], tuple[int, ...], str | None], ...] = ()

    def chunk(
        self, size: Quantity, *, pre: int | Sequence[int], post: int | Sequence[int], reduce: str | None = None
    ) -> Demand:
        """The demand with one more chunk. pre, post: ranks."""
        pre, post = (tuple([ranks] if isinstance(ranks, int) else ranks) for ranks in (pre, post))
        return Demand((*self.chunks, (size, pre, post, reduce)))

    def __str__(self) -> str:
        lines = ["collective demand(g: group) {"]
        for number, (size, pre, post, reduce) in enumerate(self.chunks):
            before, after = (f"{{{', '.join(f'g[{rank}]' for rank in ranks)}}}" for ranks in (pre, post))
            chunk = f"x{number}" if reduce is None else f'reduce(x{number}, "{reduce}")'
            lines += [
                f"    chunk x{number}: {_value(size, 'bytes')}",
                f"    pre x{number} at {before}",
                f"    post {chunk} at {after}",
            ]
        return "\n".join([*lines, "}"])


def imports_text() -> str:
    """The imports of the standard library with which programs begin."""
    return "".join(f"import std.{module}\n" for module in ("topologies", "clusters", "collectives", "algorithms"))


@dataclass(frozen=True, slots=True)
class Program:
    """A program with one schedule, named `schedule`; `str(program)` is its text.

    runs, statements: the lines of the schedule. demands: the collectives that the program declares.
    """

    network: Network
    runs: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    demands: tuple[Demand, ...] = ()
    name: str = field(default="schedule")

    def run(
        self,
        collective: str | Demand,
        *,
        npus: Sequence[int] | None = None,
        using: str | None = None,
        **options: object,
    ) -> Program:
        """The program with one more collective, which runs beside the others.

        collective: a name of the standard library, or a Demand. npus: numbers of the NPUs of its group, None for all.
        using: a handwritten algorithm, as "ring". options: the arguments of the collective, such as size and chunks.
        Raises ValueError for an unknown collective, TypeError for an unknown argument.
        """
        group = "net.npus" if npus is None else f"[{', '.join(f'net[{int(npu)}]' for npu in npus)}]"
        if isinstance(collective, Demand):
            demands = (*self.demands, *([] if collective in self.demands else [collective]))
            text = f"demand{demands.index(collective)}({group})"
        else:
            known, demands = _declarations("collectives", "Collective"), self.demands
            if collective not in known:
                hint = did_you_mean(collective, known, f"there are {phrase(known)}")
                raise ValueError(f"no collective is named '{collective}'; {hint}")
            text = _call(collective, known[collective][1:], (), options).replace("(", f"({group}, ", 1)
        if using is not None and _IDENTIFIER.fullmatch(using) is None:
            raise ValueError(f"using: '{using}' is not the name of an algorithm")
        line = f"    run {text}" + ("" if using is None else f" using {using}")
        return replace(self, runs=(*self.runs, line), demands=demands)

    def with_statement(self, statement: str) -> Program:
        """The program with one more statement of its schedule, as `verify optimal` or `emit msccl("sum.xml")`."""
        return replace(self, statements=(*self.statements, f"    {statement}"))

    def compile(self, **options: Unpack[CompileOptions]) -> CompileReport:
        """Compile the program. The keywords are those of `collc.compile`."""
        from collc.api.compiling import compile_text

        return compile_text(str(self), **options)

    def save(self, path: str | Path) -> None:
        """Write the text to a file."""
        from collc.base.atomic_files import write_file

        write_file(Path(path), str(self))

    def __str__(self) -> str:
        demands = [str(demand).replace("demand", f"demand{n}", 1) for n, demand in enumerate(self.demands)]
        lines = [str(self.network), *demands, f"schedule {self.name} on net {{", *self.runs, *self.statements, "}"]
        return imports_text() + "\n" + "\n".join(lines) + "\n"


def collective(name: str) -> Callable[..., Program]:
    """A function that makes a program of a network and the arguments of a collective of the standard library.

    Raises KeyError if no collective has this name.
    """
    _declarations("collectives", "Collective")[name]

    def program(
        network: Network, *, npus: Sequence[int] | None = None, using: str | None = None, **options: object
    ) -> Program:
        return Program(network).run(name, npus=npus, using=using, **options)

    program.__name__ = program.__qualname__ = name
    program.__doc__ = f"A program that runs '{name}' on a network. Arguments as for 'Program.run'."
    return program


def collective_names() -> list[str]:
    """The names of the collectives of the standard library."""
    return [*_declarations("collectives", "Collective")]
