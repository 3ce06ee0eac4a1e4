"""Graphs of other tools: NetworkX (node-link JSON, GraphML), and the JSON topologies of TACCL and SCCL."""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

from collc.base.diagnostics import SourceFile
from collc.base.wording import phrase
from collc.machines.kinds import ImportKind
from collc.machines.machine import Edge, Machine, graph_machine
from collc.machines.reading import (
    MICROSECOND,
    Element,
    ImportOptions,
    element_span,
    field_span,
    flaw,
    items,
    line_span,
    load_json,
    mapping,
    option_error,
    parse_xml,
)


@dataclass(frozen=True, slots=True)
class _Attributes:
    """Reads the attributes of edges and nodes that the options name."""

    source: SourceFile
    options: ImportOptions

    def number(self, values: Mapping[str, Any], name: str, edge: str) -> Fraction:
        value = values.get(name)
        try:
            number = math.nan if isinstance(value, bool) else float(value)  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not 0 <= number < 1e15:
            known = ", ".join(sorted(map(str, values))) or "none"
            said = f"is {json.dumps(value, default=str)[:60]}" if name in values else "is not there"
            message = f"'{name}' of {edge} {said}; a number of at least 0 is expected"
            raise flaw(message, field_span(self.source, name, value), f"the attributes of this edge: {known}")
        return Fraction(str(value))

    def edges(self, graph: Any) -> list[Edge]:  # noqa: ANN401
        capacity, latency = self.options.capacity_unit, self.options.latency_unit
        if capacity is None:
            hint = "name it with its unit: --capacity bandwidth=GB/s"
            raise option_error("a graph does not say which attribute of an edge is its bandwidth", hint)
        edges: list[Edge] = []
        for a, b, values in graph.edges(data=True):
            edge = f"the edge from {a} to {b}"
            rate = self.number(values, capacity[0], edge) * capacity[1]
            if not rate:
                raise flaw(f"{edge} has a bandwidth of 0", line_span(self.source, 1), "leave the edge out")
            time = None if latency is None else self.number(values, latency[0], edge) * latency[1]
            edges.append((str(a), str(b), rate, time, 1))
            if not graph.is_directed() and a != b:
                edges.append((str(b), str(a), rate, time, 1))
        return edges


def read_networkx(source: SourceFile, options: ImportOptions) -> Machine:
    """The graph of a node-link JSON or GraphML file.

    Raises SourceError X0601 if it is none, UsageError X0602 if an option must say what its attributes mean.
    """
    graph = _graphml(source) if source.text.lstrip().startswith("<") else _node_link(source)
    edges = _Attributes(source, options).edges(graph)
    if options.npu_attribute is None:
        known = sorted({str(name) for _, values in graph.nodes(data=True) for name in values})
        hint = "name an attribute of the nodes that does: --npu type=gpu; --npu all if all are"
        raise option_error(
            f"a graph does not say which nodes are NPUs (attributes: {', '.join(known) or 'none'})", hint
        )
    name, wanted = options.npu_attribute
    npus = [str(node) for node, values in graph.nodes(data=True) if name == "all" or str(values.get(name)) == wanted]
    if not npus:
        known = sorted({str(values[name])[:40] for _, values in graph.nodes(data=True) if name in values})[:8]
        hint = f"--npu {name}=VALUE takes one of {phrase(known)}" if known else "--npu all takes all nodes"
        raise flaw(f"no node has {name} = {wanted}", line_span(source, 1), hint)
    chosen = set(npus)
    switches = [str(node) for node in graph.nodes if str(node) not in chosen]
    return graph_machine(npus, switches, edges, options, "in the file")


def _node_link(source: SourceFile) -> Any:  # noqa: ANN401
    nx: Any = import_module("networkx")

    data = mapping(load_json(source))
    key = next((key for key in ("edges", "links") if key in data), None)
    if key is None or not isinstance(data.get("nodes"), list):
        message = f"{source.name} is not node-link JSON: it has no 'nodes' and 'edges' (or 'links')"
        raise flaw(message, line_span(source, 1))
    edges = [mapping(edge) for edge in items(data[key])]
    lost = next((end for edge in edges for end in ("source", "target") if end not in edge), None)
    if lost is not None:
        raise flaw(f"{source.name} has an edge without '{lost}'", line_span(source, 1))
    ids = [mapping(node).get("id") for node in items(data["nodes"])]
    ends_of = [edge[end] for edge in edges for end in ("source", "target")]
    large = next(filter(_is_large, ids + ends_of), None)
    if large is not None:
        message = f"{source.name} has a node with the id {json.dumps(large, default=str)[:40]}"
        raise flaw(message, line_span(source, 1), "numbers of nodes have at most 18 digits")
    ends = {edge[end] for edge in edges for end in ("source", "target") if isinstance(edge[end], int)}
    if edges and not any(isinstance(node_id, int) for node_id in ids) and max(ends, default=-1) < len(ids):
        # NetworkX 1 wrote the places of nodes.
        edges = [
            {**edge, "source": _end_name(ids, edge["source"]), "target": _end_name(ids, edge["target"])}
            for edge in edges
        ]
        data[key] = edges
    try:
        nodes = set(nx.node_link_graph({**data, key: []}, edges=key))
        graph = nx.node_link_graph(data, edges=key)
    except (nx.NetworkXException, KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"{source.name} is not node-link JSON: its nodes and edges are not as NetworkX writes them"
        raise flaw(message, line_span(source, 1)) from error
    names = Counter(map(str, ids))
    if len(names) < len(ids) or len(nodes) < len(ids):
        twice = next((f" {name[:40]}" for name, count in names.items() if count > 1), "")
        raise flaw(f"{source.name} has two nodes with the id{twice}", line_span(source, 1), '1 and "1" are one name')
    unknown = next((node for node in graph if node not in nodes), None)
    if unknown is not None:
        end = next((end for edge in edges for end in ("source", "target") if edge[end] == unknown), "source")
        raise flaw(f"an edge has an end {unknown!s:.40}, and there is no such node", field_span(source, end, unknown))
    return graph


def _is_large(name: object) -> bool:
    """Whether a name is, or has, a number beyond 18 digits: Python stores many of them in one place, one by one."""
    return any(map(_is_large, items(name))) or (isinstance(name, int | float) and abs(name) >= 10**18)


def _end_name(ids: Sequence[object], end: object) -> object:
    """The name of a node that is given by its place, else the end itself."""
    return ids[end] if isinstance(end, int) and 0 <= end < len(ids) else end


def _graphml(source: SourceFile) -> Any:  # noqa: ANN401
    nx: Any = import_module("networkx")

    _check_ends(source, parse_xml(source))
    try:
        graph = nx.read_graphml(io.BytesIO(source.text.encode()))
    except nx.NetworkXException as error:
        raise flaw(f"{source.name} is not GraphML: {error}", line_span(source, 1)) from error
    except (KeyError, TypeError, ValueError) as error:
        quoted = re.search(r"'([^']+)'$", str(error))
        place = re.search(rf">\s*{re.escape(quoted[1])}\s*<", source.text) if quoted is not None else None
        span = line_span(source, source.text.count("\n", 0, place.start()) + 1 if place is not None else 1)
        what = f"'{quoted[1][:40]}'" if quoted is not None else "a value"
        raise flaw(f"{what} is not of the type that its <key> has", span) from error
    for default, records in (("node_default", graph.nodes(data=True)), ("edge_default", graph.edges(data=True))):
        for *_, values in records:
            for name, value in graph.graph.get(default, {}).items():
                values.setdefault(name, value)
    return graph


def _check_ends(source: SourceFile, root: Element) -> None:
    """Raise SourceError X0601 for an edge of GraphML to a node that the file does not have."""
    elements = [root]
    for element in elements:  # graphs may be in nodes
        elements += element.children
    nodes = {element.get("id") for element in elements if element.tag == "node"}
    for edge in elements:
        lost = [end for end in ("source", "target") if edge.tag == "edge" and edge.get(end) not in nodes]
        if lost:
            message = f"an edge has an end {edge.get(lost[0])[:40]}, and there is no such node"
            raise flaw(message, element_span(source, edge))


def read_taccl(source: SourceFile, options: ImportOptions) -> Machine:
    """TACCL's topology of one node: matrices [target][source] of links, alpha and beta in microseconds.

    Raises SourceError X0601 if the matrices do not fit, UsageError X0602 without `options.chunk`.
    """
    data = mapping(load_json(source))
    links, betas = _matrix(source, data, "links"), _matrix(source, data, "betas")
    if len(betas) != len(links):
        raise flaw(f"'betas' has {len(betas)} rows, 'links' {len(links)}", line_span(source, 1))
    alpha, latency = data.get("alpha"), None
    if alpha is not None:
        if not _is_number(alpha) or not 0 <= alpha < 1e9:
            raise flaw(f"'alpha' is in microseconds, not {alpha!r:.40}", line_span(source, 1))
        latency = Fraction(repr(alpha)) * MICROSECOND
    if options.chunk is None:
        hint = "give it: --chunk 1MB (the name of the file often does)"
        raise option_error("betas are microseconds for one chunk, whose size the file does not say", hint)
    edges: list[Edge] = []
    for target, row in enumerate(links):
        for origin, lanes in enumerate(row):
            beta = betas[target][origin]
            if lanes and beta <= 0:
                message = f"the link from {origin} to {target} has a beta of {float(beta):g}"
                raise flaw(message, line_span(source, 1))
            if lanes:
                rate = Fraction(options.chunk) / (beta * MICROSECOND)
                edges.append((str(origin), str(target), rate, latency, int(lanes)))
    names = [str(at) for at in range(len(links))]
    machine = graph_machine(names, [], edges, options, "the size of a chunk / beta")
    between = [key for key in data if key.startswith("remote_") or key == "nics_per_node"]
    said = [f"links between nodes ({', '.join(between)})"] if between else []
    sums = _matrix(source, data, "invbws") if items(data.get("invbws")) else []
    if any(
        abs(row[at] - betas[to][at] - Fraction(str(alpha or 0))) > row[at] / 100
        for to, row in enumerate(sums)
        for at in range(len(row))
        if len(sums) == len(betas) and betas[to][at]
    ):
        said.append("invbws, which are not alpha + beta: the numbers may be scaled, so check the rates")
    return replace(machine, dropped=(*machine.dropped, *said))


def _matrix(source: SourceFile, data: object, key: str) -> list[list[Fraction]]:
    table = mapping(data)
    rows = [items(row) for row in items(table.get(key))]
    if not rows and "node_betas_list" in table:
        message = "this file names a machine that TACCL contains; its links are not in the file"
        raise flaw(message, line_span(source, 1), "dgx1 and others are in the standard library: collc std")
    if not rows or any(len(row) != len(rows) for row in rows):
        raise flaw(f"'{key}' is a square matrix [target][source]", line_span(source, 1))
    odd = [value for row in rows for value in row if not _is_number(value)]
    if odd:
        row = next(at for at, row in enumerate(rows) if not all(map(_is_number, row)))
        message = f"'{key}' has {json.dumps(odd[0])[:40]} in row {row}, which is not a number"
        raise flaw(message, line_span(source, 1))
    return [[Fraction(str(value)) for value in row] for row in rows]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def read_sccl(source: SourceFile, options: ImportOptions) -> Machine:
    """The topology of msccl-tools: a matrix [target][source] of relative bandwidths.

    Raises SourceError X0601 if it is none, UsageError X0602 without the rate of a link, `-D link=25GB/s`.
    """
    data = mapping(load_json(source))
    links = _matrix(source, data, "links")
    unit = options.rates.get("link")
    if unit is None:
        message = "the bandwidths of this file are relative to one another"
        raise option_error(message, "give that of a link with 1: -D link=25GB/s")
    if data.get("switches"):
        message = "'switches' limit sums of links, which no device of a network does"
        raise flaw(message, line_span(source, 1), "write the switches in .coll")
    whole = all(value.denominator == 1 for row in links for value in row)
    edges: list[Edge] = []
    for target, row in enumerate(links):
        for origin, value in enumerate(row):
            if value < 0 or (value and origin == target):
                raise flaw(f"'links' has {value} from {origin} to {target}", line_span(source, 1))
            if value:
                rate, lanes = (unit, int(value)) if whole and value <= 64 else (unit * value, 1)
                edges.append((str(origin), str(target), rate, None, lanes))
    names = [str(at) for at in range(len(links))]
    return graph_machine(names, [], edges, options, "given when imported, for each lane")


KINDS: Final = (
    ImportKind(
        "sccl",
        "network",
        read_sccl,
        file="topology JSON of msccl-tools",
        contains="links with relative bandwidths",
        options="'-D link=25GB/s'",
        json=r'"msccl_type"',
    ),
    ImportKind(
        "taccl",
        "network",
        read_taccl,
        file="topology JSON",
        contains="links, alpha and beta",
        options="'--chunk 1MB'",
        json=r'"betas"|"invbws"|"node_betas_list"',
    ),
    ImportKind(
        "networkx",
        "network",
        read_networkx,
        file="node-link JSON, GraphML",
        contains="a graph",
        options="'--capacity bw=GB/s', '--npu type=gpu'; '--latency delay=us'",
        xml="<graphml",
        json=r'"nodes"\s*:',
    ),
)
