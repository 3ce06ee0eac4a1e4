"""SimGrid platforms (XML, version 4): hosts, routers, links, routes and clusters of zones, and routes between zones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from typing import Final

from collc.base.diagnostics import SourceFile, Span
from collc.base.disjoint_sets import DisjointSets
from collc.base.wording import did_you_mean, phrase
from collc.machines.fabrics import neighbours
from collc.machines.kinds import ImportKind
from collc.machines.machine import Edge, Machine, first_names, graph_machine
from collc.machines.reading import Element, ImportOptions, check_devices, check_links, element_span, flaw, parse_xml
from collc.source.limits import MAX_HOST_LETTERS

_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_NUMBER: Final = r"(\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,2})?)"
_TIMES: Final = {"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1)}
_ZONES: Final = {"Full", "Floyd", "Dijkstra", "DijkstraCache", "Cluster", "None", ""}


_Route = tuple[str, str, tuple[str, ...], bool, Span]
"""Source, target, links, whether the links lead back too, and where the route stands."""


@dataclass(slots=True)
class _Platform:
    """What was read; hosts and routers in order. links: by name, bytes per second and seconds.

    shared: links whose bandwidth both directions share in SimGrid (sharing_policy SHARED). fat_pipes: links with
    policy FATPIPE, which limit each flow. gateways: the routers of clusters with a backbone, with the devices before
    and behind it and its bytes per second. shared_edges: edges of `edges` that are shared, with the name of their
    link. clusters: their names. dropped: sentences on what is left out.
    """

    source: SourceFile
    hosts: dict[str, None] = field(default_factory=dict[str, None])
    routers: dict[str, None] = field(default_factory=dict[str, None])
    links: dict[str, tuple[Fraction, Fraction]] = field(default_factory=dict[str, tuple[Fraction, Fraction]])
    shared: set[str] = field(default_factory=set[str])
    edges: list[Edge] = field(default_factory=list[Edge])
    routes: list[_Route] = field(default_factory=list[_Route])
    fat_pipes: set[str] = field(default_factory=set[str])
    gateways: dict[str, tuple[str, str, Fraction]] = field(default_factory=dict[str, tuple[str, str, Fraction]])
    shared_edges: dict[int, str] = field(default_factory=dict[int, str])
    clusters: set[str] = field(default_factory=set[str])
    dropped: list[str] = field(default_factory=list[str])


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
    ends = {end for source, target, *_ in platform.routes for end in (source, target)}
    for router, (up, down, rate) in platform.gateways.items():
        if router in ends:
            # What enters by the router of a cluster crosses its backbone, and what leaves has crossed it.
            platform.edges += [(router, up, rate, Fraction(0), 1), (down, router, rate, Fraction(0), 1)]
            platform.routers[router] = None
    switches = list(platform.routers)
    _join_routes(platform, switches)
    shared = platform.shared_edges
    names = list(dict.fromkeys(shared.values()))
    machine = graph_machine(list(platform.hosts), switches, platform.edges, options, "in the file", shared)
    machine = replace(machine, dropped=(*machine.dropped, *dict.fromkeys(platform.dropped)))
    if not names:
        return machine
    taken = f"both directions share the bandwidth of links with policy SHARED: {first_names(names)}"
    return replace(machine, taken=(taken,))


def _zone(platform: _Platform, zone: Element) -> None:
    span = element_span(platform.source, zone)
    if zone.tag == "cluster":
        _cluster(platform, zone)
        return
    if zone.tag in {"config", "trace", "trace_connect"}:
        platform.dropped.append("settings and traces of the simulation")
        return
    if zone.tag not in {"zone", "AS"}:
        raise flaw(f"<{zone.tag}> cannot be imported here", span, "zones and clusters can")
    if zone.get("routing", "") not in _ZONES and len(zone.children) > 1:
        raise flaw(f"routing '{zone.get('routing')}' cannot be imported", span, "Full, Floyd, Dijkstra and Cluster can")
    is_star = zone.get("routing") == "Cluster" and any(child.tag in _STAR_PARTS for child in zone)
    for child in zone:
        at = element_span(platform.source, child)
        if is_star and child.tag in {"router", *_STAR_PARTS}:
            continue
        if child.tag in {"zone", "AS", "cluster"}:
            _zone(platform, child)
        elif child.tag in {"host", "router"}:
            name = _new_name(platform, child)
            (platform.hosts if child.tag == "host" else platform.routers)[name] = None
        elif child.tag == "link":
            _link(platform, child)
        elif child.tag in {"route", "zoneRoute", "ASroute"}:
            _route(platform, child, at)
        elif child.tag not in {"prop", "backbone", "disk"}:
            raise flaw(f"<{child.tag}> cannot be imported", at)
    if is_star:
        _star_zone(platform, zone)


_STAR_PARTS: Final = ("cabinet", "host_link")
"""What joins the hosts of a zone with routing Cluster to its middle."""


def _star_zone(platform: _Platform, zone: Element) -> None:
    """Adds the cabinets and the links of hosts of a zone with routing Cluster."""
    span = element_span(platform.source, zone)
    backbone = next((child for child in zone if child.tag == "backbone"), None)
    router = next((child.get("id") for child in zone if child.tag == "router"), f"{zone.get('id')} router")
    rates = None if backbone is None else _rates(platform, backbone, "bandwidth", "latency")
    up, down = _middle(platform, _cluster_name(platform, zone), router, rates, span)
    for cabinet in (child for child in zone if child.tag == "cabinet"):
        _join_hosts(platform, cabinet, _numbered_hosts(platform, cabinet), up, down)
    taken: set[str] = set()
    for link in (child for child in zone if child.tag == "host_link"):
        host, place = link.get("id"), element_span(platform.source, link)
        names = [link.get("up").removesuffix("_UP"), link.get("down").removesuffix("_DOWN")]
        if not set(names) <= platform.links.keys():  # of two links, not of one with policy SPLITDUPLEX
            names = [link.get("up"), link.get("down")]
        if lost := next((name for name in names if name not in platform.links), ""):
            raise flaw(f"there is no link {lost}", place)
        if host not in platform.hosts or not taken.isdisjoint(names) or not platform.fat_pipes.isdisjoint(names):
            raise flaw(f"<host_link> of {host} is not for a link of this host alone", place, "write the links in .coll")
        taken.update(names)
        for name, ends in zip(names, ((host, up), (down, host)), strict=True):
            if names[0] == names[1] and name in platform.shared:
                platform.shared_edges[len(platform.edges)] = name
            platform.edges.append((*ends, *platform.links[name], 1))


def _middle(
    platform: _Platform, name: str, router: str, backbone: tuple[Fraction, Fraction] | None, span: Span
) -> tuple[str, str]:
    """The devices before and behind the backbone of a cluster; without one, both are its router."""
    if router in platform.gateways or router in platform.routers:
        raise flaw(f"{router} occurs twice", span)
    up = down = router
    if backbone is not None:
        up, down = f"{name} before the backbone", f"{name} behind the backbone"
        platform.edges.append((up, down, *backbone, 1))
        platform.gateways[router] = up, down, backbone[0]
    platform.routers |= {up: None, down: None}
    return up, down


def _rates(platform: _Platform, element: Element, bandwidth: str, latency: str) -> tuple[Fraction, Fraction]:
    """Bytes per second and seconds of an element, of attributes with these names."""
    return _rate(platform, element, bandwidth), _time(platform, element, latency)


def _route(platform: _Platform, element: Element, span: Span) -> None:
    """Adds a route between two devices; one between zones joins their gateways."""
    ends = ("src", "dst") if element.tag == "route" else ("gw_src", "gw_dst")
    source, target = (element.get(end) for end in ends)
    if not source or not target:
        raise flaw(f"a <{element.tag}> without {phrase(ends)}", span)
    hops = tuple(str(hop.get("id")) for hop in element if hop.tag == "link_ctn")
    if source == target and element.tag == "route":
        platform.dropped.append("routes from a host to itself")
        return
    for hop in hops:
        if hop in platform.fat_pipes:
            message = f"{hop} is a FATPIPE link, which limits each flow and not their sum, as no link of a network does"
            raise flaw(message, span)
        if hop not in platform.links:
            raise flaw(f"there is no link {hop}", span)
    both = element.get("symmetrical", "YES").upper() != "NO"
    platform.routes.append((source, target, hops, both, span))


def _link(platform: _Platform, element: Element) -> None:
    policy = element.get("sharing_policy", "SHARED")
    name = _new_name(platform, element)
    platform.links[name] = _rates(platform, element, "bandwidth", "latency")
    if policy == "FATPIPE":
        platform.fat_pipes.add(name)
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
    match = re.fullmatch(rf"\s*+{_NUMBER}\s*+(?:([kMGTPEZY]?)(i?)([Bb])ps)?\s*+", text)
    value = Fraction(0) if match is None else Fraction(match[1])
    if match is None or not value:
        raise flaw(f"'{key}' is a rate as in 25GBps, not '{text[:40]}'", element_span(platform.source, element))
    base = 1024 if match[3] else 1000
    return value * base ** _PREFIXES.index(match[2] or "") / (8 if match[4] == "b" else 1)


def _time(platform: _Platform, element: Element, key: str) -> Fraction:
    text = element.get(key, "0")
    match = re.fullmatch(rf"\s*+{_NUMBER}\s*+(ns|us|ms|s)?\s*+", text)
    if match is None:
        raise flaw(f"'{key}' is a time as in 1us, not '{text[:40]}'", element_span(platform.source, element))
    return Fraction(match[1]) * _TIMES[match[2] or "s"]


def _cluster(platform: _Platform, element: Element) -> None:
    """Adds hosts and what joins them: a switch, a torus, a fat tree or a dragonfly."""
    span = element_span(platform.source, element)
    shape = element.get("topology", "FLAT")
    if shape not in {"FLAT", *_SHAPES}:
        raise flaw(f"a cluster with topology {shape} cannot be imported", span, f"FLAT, {', '.join(_SHAPES)} can")
    hosts = _numbered_hosts(platform, element)
    name = _cluster_name(platform, element)
    if element.get("limiter_link"):
        platform.dropped.append("limiter_link, which bounds what a node sends and receives together")
    if shape == "FLAT":
        _flat_cluster(platform, element, hosts)
        return
    rate, latency = _rates(platform, element, "bw", "lat")
    policy = element.get("sharing_policy", "SPLITDUPLEX")
    if policy == "FATPIPE":
        raise flaw("FATPIPE links limit each flow and not their sum, as no link of a network does", span)
    cables, count = _SHAPES[shape](hosts, _topology_parameters(platform, element), name, span)
    rates = {times: rate * times for times in {times for *_, times, _ in cables}}
    platform.routers |= dict.fromkeys(end for a, b, *_ in cables for end in (a, b) if end not in platform.hosts)
    first = len(platform.edges)
    for a, b, times, lanes in cables:
        platform.edges += [(a, b, rates[times], latency, lanes), (b, a, rates[times], latency, lanes)]
    if policy == "SHARED":
        platform.shared_edges |= dict.fromkeys(range(first, len(platform.edges)), f"the links of cluster {name}")
    if count != len(hosts):
        raise flaw(f"topo_parameters is for {count:,} hosts, and there are {len(hosts):,}", span)


def _cluster_name(platform: _Platform, element: Element) -> str:
    """The name of a cluster or zone that no other one has."""
    name = element.get("id", "cluster")
    if name in platform.clusters:
        raise flaw(f"{name} occurs twice", element_span(platform.source, element))
    platform.clusters.add(name)
    return name


def _numbered_hosts(platform: _Platform, element: Element) -> list[str]:
    """Adds the hosts of a cluster or cabinet, and returns their names."""
    span = element_span(platform.source, element)
    if len(element.get("prefix") + element.get("suffix")) > MAX_HOST_LETTERS:
        raise flaw(f"the hosts have names of more than {MAX_HOST_LETTERS} characters", span)
    numbers = _radical(platform, element)
    hosts = [f"{element.get('prefix', '')}{number}{element.get('suffix', '')}" for number in numbers]
    if twice := next((host for host, number in Counter(hosts).items() if number > 1 or host in platform.hosts), ""):
        raise flaw(f"{twice} occurs twice", span)
    platform.hosts |= dict.fromkeys(hosts)
    check_devices(len(platform.hosts))
    return hosts


def _flat_cluster(platform: _Platform, element: Element, hosts: Sequence[str]) -> None:
    """Hosts with a private link each to a router; over the backbone, all that they send and receive."""
    name = element.get("id", "cluster")
    router = element.get("router_id") or f"{element.get('prefix')}{name}_router{element.get('suffix')}"
    backbone = _rates(platform, element, "bb_bw", "bb_lat") if element.get("bb_bw") else None
    up, down = _middle(platform, name, router, backbone, element_span(platform.source, element))
    _join_hosts(platform, element, hosts, up, down)


def _join_hosts(platform: _Platform, element: Element, hosts: Sequence[str], up: str, down: str) -> None:
    """Adds a private link of each host of a cluster or cabinet to and from its middle."""
    private = _rates(platform, element, "bw", "lat")
    for host in hosts:
        platform.edges += [(host, up, *private, 1), (down, host, *private, 1)]


_Cables = tuple[list[tuple[str, str, int, int]], int]
"""Pairs of devices, each with the multiple of the rate of a link and the number of lanes; and the number of hosts."""


def _topology_parameters(platform: _Platform, element: Element) -> list[list[int]]:
    """The numbers of topo_parameters, as in 2;4,4;1,2;1,2."""
    text = element.get("topo_parameters")
    if not re.fullmatch(r"\s*\d{1,6}(\s*[,;]\s*\d{1,6}){0,63}\s*", text):
        message = f"'topo_parameters' is numbers as in 2;4,4;1,2;1,2, not '{text[:40]}'"
        raise flaw(message, element_span(platform.source, element))
    lists = [[int(number) for number in part.split(",")] for part in text.split(";")]
    if not all(number for numbers in lists for number in numbers):
        raise flaw("a number of topo_parameters is 0", element_span(platform.source, element))
    return lists


def _torus(hosts: Sequence[str], parameters: list[list[int]], _name: str, span: Span) -> _Cables:
    if len(parameters) != 1:
        raise flaw("topo_parameters of a TORUS are its sizes, as in 3,2,2", span)
    count = prod(parameters[0])
    check_devices(count)
    pairs = neighbours(parameters[0]) if count == len(hosts) else []
    return [(hosts[a], hosts[b], 1, 1) for a, b in pairs], count


def _fat_tree(hosts: Sequence[str], parameters: list[list[int]], name: str, span: Span) -> _Cables:
    """Levels; children, parents and cables of each. A device of level i has the digits of its parents below i, of its
    children from i on; a parent differs from a child in the digit of the child's level.
    """
    levels, *lists = parameters
    if len(lists) != 3 or any(len(numbers) != levels[0] for numbers in lists):
        raise flaw("topo_parameters of a FAT_TREE are levels;children;parents;cables, as in 2;4,4;1,2;1,2", span)
    children, parents, cables = lists
    count = prod(children)
    check_devices(count)
    sizes = [[*parents[:level], *children[level:]] for level in range(levels[0] + 1)]
    check_devices(sum(map(prod, sizes)))
    check_links(sum(prod(size) * above for size, above in zip(sizes, parents, strict=False)))
    if count != len(hosts):
        return [], count

    def device(level: int, digits: Sequence[int]) -> str:
        position = 0
        for size, digit in zip(reversed(sizes[level]), reversed(digits), strict=True):
            position = position * size + digit
        return f"{name} level {level} switch {position}" if level else hosts[position]

    edges: list[tuple[str, str, int, int]] = []
    for level, lanes in enumerate(cables):
        for reverse in product(*(range(size) for size in reversed(sizes[level]))):
            digits = reverse[::-1]
            above = ((*digits[:level], parent, *digits[level + 1 :]) for parent in range(parents[level]))
            edges += [(device(level, digits), device(level + 1, parent), 1, lanes) for parent in above]
    return edges, count


def _dragonfly(hosts: Sequence[str], parameters: list[list[int]], name: str, span: Span) -> _Cables:
    """Groups of chassis of blades of nodes. In a chassis all blades are linked, between chassis those of one number,
    and blade j of the first chassis of group i to blade i of group j.
    """
    if [len(numbers) for numbers in parameters] != [2, 2, 2, 1]:
        message = "topo_parameters of a DRAGONFLY are groups, chassis, blades, each with links, and nodes"
        raise flaw(message, span, "as in 3,4;4,3;5,1;2")
    (groups, blue), (chassis, black), (blades, green), (nodes,) = parameters
    count = groups * chassis * blades * nodes
    check_devices(count)
    check_links(groups * (chassis * comb(blades, 2) + blades * comb(chassis, 2)) + comb(groups, 2))
    if count != len(hosts):
        return [], count
    if groups > chassis * blades:
        raise flaw(f"{groups} groups need as many blades in each, and there are {chassis * blades}", span)
    routers = [f"{name} router {number}" for number in range(groups * chassis * blades)]
    group = chassis * blades
    cables = [(host, routers[at // nodes], 1, 1) for at, host in enumerate(hosts)]
    for first in range(0, len(routers), blades):
        cables += [(a, b, green, 1) for a, b in combinations(routers[first : first + blades], 2)]
    for first in range(0, len(routers), group):
        for blade in range(blades):
            cables += [(a, b, black, 1) for a, b in combinations(routers[first + blade : first + group : blades], 2)]
    for a, b in combinations(range(groups), 2):
        cables.append((routers[a * group + b], routers[b * group + a], blue, 1))
    return cables, count


_SHAPES: Final = {"TORUS": _torus, "FAT_TREE": _fat_tree, "DRAGONFLY": _dragonfly}


def _radical(platform: _Platform, element: Element) -> list[int]:
    """The numbers of ranges as in 0-3,7."""
    numbers: list[int] = []
    for interval in element.get("radical", "").split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", interval)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise flaw(f"'radical' has '{interval[:40]}', not a range as 0-15", element_span(platform.source, element))
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


def _join_routes(platform: _Platform, switches: list[str]) -> None:
    """Adds the links of all routes as edges, shared ones if both directions are used; if links meet that no router
    joins, a switch is added.
    """
    junctions, directions = _Junctions(), dict[tuple[str, bool], None]()
    spans: dict[str, Span] = {}
    for source, target, hops, both, span in platform.routes:
        spans |= {source: span, target: span}
        joint = (source, -1)
        for hop in hops:
            forward = junctions.root(joint) != junctions.root((hop, 1))
            junctions.join(joint, (hop, 0 if forward else 1))
            joint = (hop, 1 if forward else 0)
            directions[hop, forward] = None
            if both:
                directions[hop, not forward] = None
        junctions.join((target, -1), joint)
    names: dict[tuple[str, int], str] = {}
    known = {*platform.hosts, *platform.routers}

    def device(end: tuple[str, int]) -> str:
        junction = junctions.root(end)
        if junction[1] == -1:
            if junction[0] not in known:
                hint = did_you_mean(junction[0], known, "declare it with <host> or <router>, or leave the route out")
                raise flaw(f"a route leads to {junction[0]}, which is not a host or router", spans[junction[0]], hint)
            return junction[0]
        if junction not in names:
            names[junction] = f"junction {len(names)}"
            switches.append(names[junction])
        return names[junction]

    for hop, forward in directions:
        ends = device((hop, 0)), device((hop, 1))
        rate, latency = platform.links[hop]
        a, b = ends if forward else ends[::-1]
        if a != b:
            if hop in platform.shared and (hop, not forward) in directions:
                platform.shared_edges[len(platform.edges)] = hop
            platform.edges.append((a, b, rate, latency, 1))
    seen: dict[tuple[str, int], str] = {}
    for name in (*platform.hosts, *platform.routers):
        other = seen.setdefault(junctions.root((name, -1)), name)
        if other != name:
            message = f"the routes from {other} and from {name} share all their links: no link joins the two"
            raise flaw(message, hint="give each host a link of its own, or write the links in .coll")


KINDS: Final = (
    ImportKind(
        "simgrid",
        "network",
        read_simgrid,
        file="XML platform: hosts, routers, links, routes, zones, clusters",
        contains="everything; SHARED links are explained below",
        xml="<platform",
    ),
)
