"""SimGrid platforms (XML, version 4): hosts, routers, links, routes and clusters of one zone or of nested ones."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import SourceFile, Span
from collc.base.disjoint_sets import DisjointSets
from collc.base.wording import did_you_mean
from collc.machines.kinds import ImportKind
from collc.machines.machine import Edge, Machine, first_names, graph_machine
from collc.machines.reading import Element, ImportOptions, check_devices, element_span, flaw, parse_xml
from collc.source.limits import MAX_HOST_LETTERS

_PREFIX: Final = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4}
_NUMBER: Final = r"(\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,2})?)"
_TIMES: Final = {"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1)}
_ZONES: Final = {"Full", "Floyd", "Dijkstra", "DijkstraCache", "Cluster", "None", ""}


_Route = tuple[str, str, tuple[str, ...], bool, Span]
"""Source, target, links, whether the links lead back too, and where the route stands."""


@dataclass(slots=True)
class _Platform:
    """What was read; hosts and routers in order. links: by name, bytes per second and seconds.

    shared: links whose bandwidth both directions share in SimGrid (sharing_policy SHARED).
    """

    source: SourceFile
    hosts: dict[str, None] = field(default_factory=dict[str, None])
    routers: dict[str, None] = field(default_factory=dict[str, None])
    links: dict[str, tuple[Fraction, Fraction]] = field(default_factory=dict[str, tuple[Fraction, Fraction]])
    shared: set[str] = field(default_factory=set[str])
    edges: list[Edge] = field(default_factory=list[Edge])
    routes: list[_Route] = field(default_factory=list[_Route])


def read_simgrid(source: SourceFile, options: ImportOptions) -> Machine:
    """The network of a platform. Raises SourceError X0601 with the line of what is wrong or cannot be imported."""
    root = parse_xml(source)
    if root.tag != "platform":
        raise flaw(f"a SimGrid file begins with <platform>, not <{root.tag}>", element_span(source, root))
    platform = _Platform(source)
    for zone in root:
        _zone(platform, zone)
    if not platform.hosts:
        hint = "each NPU is a <host>: import the platform with its hosts"
        raise flaw(f"{source.name} has no host", element_span(source, root), hint)
    switches = list(platform.routers)
    shared = _join_routes(platform, switches)
    names = list(dict.fromkeys(shared.values()))
    machine = graph_machine(list(platform.hosts), switches, platform.edges, options, "in the file", shared)
    if not names:
        return machine
    taken = f"both directions share the bandwidth of links with policy SHARED: {first_names(names)}"
    return replace(machine, taken=(taken,))


def _zone(platform: _Platform, zone: Element) -> None:
    span = element_span(platform.source, zone)
    if zone.tag == "cluster":
        _cluster(platform, zone)
        return
    if zone.tag not in {"zone", "AS"}:
        raise flaw(f"<{zone.tag}> cannot be imported here", span, "zones and clusters can")
    if zone.get("routing", "") not in _ZONES:
        raise flaw(f"routing '{zone.get('routing')}' cannot be imported", span, "Full, Floyd and Dijkstra can")
    for child in zone:
        at = element_span(platform.source, child)
        if child.tag in {"zone", "AS", "cluster"}:
            _zone(platform, child)
        elif child.tag in {"host", "router"}:
            name = _new_name(platform, child)
            (platform.hosts if child.tag == "host" else platform.routers)[name] = None
        elif child.tag == "link":
            _link(platform, child)
        elif child.tag == "route":
            hops = tuple(str(hop.get("id")) for hop in child if hop.tag == "link_ctn")
            both = child.get("symmetrical", "YES").upper() != "NO"
            for hop in hops:
                if hop not in platform.links:
                    raise flaw(f"there is no link {hop}", at)
            platform.routes.append((child.get("src"), child.get("dst"), hops, both, at))
        elif child.tag not in {"prop", "backbone", "disk"}:
            raise flaw(f"<{child.tag}> cannot be imported", at)


def _link(platform: _Platform, element: Element) -> None:
    policy = element.get("sharing_policy", "SHARED")
    if policy == "FATPIPE":
        message = "a FATPIPE link limits each flow and not their sum, which no link of a network does"
        raise flaw(message, element_span(platform.source, element))
    name = _new_name(platform, element)
    platform.links[name] = _rate(platform, element, "bandwidth"), _time(platform, element, "latency")
    if policy == "SHARED":
        platform.shared.add(name)


def _new_name(platform: _Platform, element: Element) -> str:
    name = element.get("id")
    if not name or name in platform.hosts or name in platform.routers:
        what = "without id" if not name else f"{name} occurs twice"
        raise flaw(f"<{element.tag}> {what}", element_span(platform.source, element))
    return name


def _rate(platform: _Platform, element: Element, key: str) -> Fraction:
    """Bytes per second; Bps are bytes, bps bits."""
    text = element.get(key, "")
    match = re.fullmatch(rf"\s*+{_NUMBER}\s*+(?:([kMGT]?)(i?)([Bb])ps)?\s*+", text)
    value = Fraction(0) if match is None else Fraction(match[1])
    if match is None or not value:
        raise flaw(f"'{key}' is a rate as in 25GBps, not '{text[:40]}'", element_span(platform.source, element))
    base = 1024 if match[3] else 1000
    return value * base ** _PREFIX[match[2] or ""] / (8 if match[4] == "b" else 1)


def _time(platform: _Platform, element: Element, key: str) -> Fraction:
    text = element.get(key, "0")
    match = re.fullmatch(rf"\s*+{_NUMBER}\s*+(ns|us|ms|s)?\s*+", text)
    if match is None:
        raise flaw(f"'{key}' is a time as in 1us, not '{text[:40]}'", element_span(platform.source, element))
    return Fraction(match[1]) * _TIMES[match[2] or "s"]


def _cluster(platform: _Platform, element: Element) -> None:
    """Hosts with a private link each to a switch; over the backbone, all that they send."""
    span = element_span(platform.source, element)
    name = element.get("id", "cluster")
    if element.get("topology", "FLAT") != "FLAT":
        raise flaw(f"a cluster with topology {element.get('topology')} cannot be imported", span)
    if len(element.get("prefix") + element.get("suffix")) > MAX_HOST_LETTERS:
        raise flaw(f"the hosts have names of more than {MAX_HOST_LETTERS} characters", span)
    numbers = _radical(platform, element)
    hosts = [f"{element.get('prefix', '')}{number}{element.get('suffix', '')}" for number in numbers]
    twice = next((host for host in hosts if host in platform.hosts), None)
    if twice is not None:
        raise flaw(f"{twice} occurs twice", span)
    platform.hosts |= dict.fromkeys(hosts)
    private = (_rate(platform, element, "bw"), _time(platform, element, "lat"))
    up = down = f"{name} switch"
    platform.routers[up] = None
    if element.get("bb_bw"):
        down = f"{name} switch behind the backbone"
        platform.routers[down] = None
        rate = _rate(platform, element, "bb_bw")
        platform.edges.append((up, down, rate, _time(platform, element, "bb_lat"), 1))
    for host in hosts:
        platform.edges += [(host, up, *private, 1), (down, host, *private, 1)]


def _radical(platform: _Platform, element: Element) -> list[int]:
    """The numbers of ranges as in 0-3,7."""
    numbers: list[int] = []
    for part in element.get("radical", "").split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise flaw(f"'radical' has '{part[:40]}', not a range as 0-15", element_span(platform.source, element))
        check_devices(int(match[2] or match[1]) - int(match[1]))
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
        check_devices(len(numbers))
    return numbers


class _Junctions(DisjointSets[tuple[str, int]]):
    """Sets of ends of links that meet. Devices are ends too, named (device, -1), and represent their sets."""

    def join(self, keeper: tuple[str, int], other: tuple[str, int]) -> None:
        """Joins two sets; a device stays the representative of its set."""
        if self.root(other)[1] == -1:
            keeper, other = other, keeper
        super().join(keeper, other)


def _join_routes(platform: _Platform, switches: list[str]) -> dict[int, str]:
    """The links of all routes as edges; if links meet that no router joins, a switch is added.

    Returns the edges of shared links that are used in both directions, and the names of these links.
    """
    junctions, directions = _Junctions(), dict[tuple[str, bool], None]()
    spans: dict[str, Span] = {}
    for source, target, hops, both, span in platform.routes:
        spans |= {source: span, target: span}
        at = (source, -1)
        for hop in hops:
            forward = junctions.root(at) != junctions.root((hop, 1))
            junctions.join(at, (hop, 0 if forward else 1))
            at = (hop, 1 if forward else 0)
            directions[hop, forward] = None
            if both:
                directions[hop, not forward] = None
        junctions.join((target, -1), at)
    names: dict[tuple[str, int], str] = {}
    known = {*platform.hosts, *platform.routers}

    def device(end: tuple[str, int]) -> str:
        found = junctions.root(end)
        if found[1] == -1:
            if found[0] not in known:
                hint = did_you_mean(found[0], known, "declare it with <host> or <router>, or leave the route out")
                raise flaw(f"a route leads to {found[0]}, which is not a host or router", spans[found[0]], hint)
            return found[0]
        if found not in names:
            names[found] = f"junction {len(names)}"
            switches.append(names[found])
        return names[found]

    shared: dict[int, str] = {}
    for hop, forward in directions:
        ends = device((hop, 0)), device((hop, 1))
        rate, latency = platform.links[hop]
        a, b = ends if forward else ends[::-1]
        if a != b:
            if hop in platform.shared and (hop, not forward) in directions:
                shared[len(platform.edges)] = hop
            platform.edges.append((a, b, rate, latency, 1))
    seen: dict[tuple[str, int], str] = {}
    for name in (*platform.hosts, *platform.routers):
        other = seen.setdefault(junctions.root((name, -1)), name)
        if other != name:
            raise flaw(f"the routes join {other} and {name} without a link", hint="write the links in .coll")
    return shared


KINDS: Final = (
    ImportKind(
        "simgrid",
        "network",
        read_simgrid,
        file="XML platform: hosts, routers, links, routes, flat clusters",
        contains="everything; SHARED links are explained below",
        xml="<platform",
    ),
)
