"""Slurm's description of a network: `topology.conf` and `topology.yaml` (Slurm 25.05)."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any, Final

from collc.base.diagnostics import SourceFile, Span
from collc.base.wording import phrase
from collc.machines.fabrics import Attachment, Fabric, HostGroup, HostGroups, checked_groups
from collc.machines.kinds import ImportKind
from collc.machines.reading import (
    MAX_HOSTS,
    ImportOptions,
    check_devices,
    compose_yaml,
    flaw,
    line_span,
    option_error,
    size_error,
    yaml_fields,
    yaml_items,
)
from collc.source.host_lists import expanded_hosts, split_host_list

MAX_YAML: Final = 4 << 20

_GROUPS: Final = {
    "block": ("block", "blocks", "block"),
    "ring": ("ring", "rings", "ring"),
    "torus": ("torus3d", "toruses", "name"),
}
"""What is in a topology.yaml: its key, the key of its list, and that of the name of each."""

_PLANNING: Final = "block sizes, by which jobs are planned, not links"


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch with the hosts or switches below it, and where it stands."""

    name: str
    nodes: tuple[str, ...]
    below: tuple[str, ...]
    span: Span


def read_slurm(source: SourceFile, options: ImportOptions) -> Fabric | HostGroups:
    """The tree of switches, or the groups of hosts; no bandwidths are in the file.

    options.part: the topology of a topology.yaml (else the default of the cluster, or the first), or a ring or torus by
    name.
    Raises SourceError X0601 with the line of what is wrong, UsageError X0602 if it is missing or unknown.
    """
    is_yaml = re.search(r"^[ \t]*+-[ \t]*+topology[ \t]*+:", source.text, re.MULTILINE) is not None
    contents = (_yaml if is_yaml else _conf)(source, options.part, _HostLists())
    return contents if isinstance(contents, HostGroups) else _tree(source, contents)


def _tree(source: SourceFile, switches: list[_Switch]) -> Fabric:
    """The fabric of switches that are a tree or several; in files written by hand hosts have several parents."""
    if not switches:
        raise flaw(f"{source.name} names no switch", line_span(source, 1))
    known: dict[str, _Switch] = {}
    for switch in switches:
        if switch.name in known:
            raise flaw(f"switch {switch.name} occurs twice", switch.span)
        known[switch.name] = switch
    attachments: list[Attachment] = []
    cables: list[tuple[str, str, None]] = []
    parents: dict[str, list[str]] = defaultdict(list)
    for switch in switches:
        for child in (*switch.below, *switch.nodes):
            if switch.name in parents[child]:
                raise flaw(f"{child} is below {switch.name} twice", switch.span)
            parents[child].append(switch.name)
        for child in switch.below:
            if child not in known:
                raise flaw(f"switch {child} has no record of its own", switch.span, "is the file cut off?")
            cables.append((child, switch.name, None))
        attachments += [Attachment(host, "", switch.name, None) for host in switch.nodes]
    try:
        TopologicalSorter({switch.name: switch.below for switch in switches}).prepare()
    except CycleError as error:
        first = next(switch for switch in switches if switch.name in error.args[1])
        hint = f"by way of {parents[first.name][0]}"
        raise flaw(f"switch {first.name} is below itself", first.span, hint) from None
    if not attachments:
        hint = "add the Nodes= of the switches that join hosts"
        raise flaw(f"{source.name} names no host", switches[0].span, hint)
    dropped = ["LinkSpeed, whose unit is not defined"] if "linkspeed" in source.text.lower() else []
    several = next((entry.nodes[0] for entry in switches if entry.nodes and len(parents[entry.nodes[0]]) > 1), "")
    assumed = f"NIC k of a host that is below several switches is on the k-th of them, as {several}" if several else ""
    return Fabric(tuple(known), tuple(cables), tuple(attachments), tuple(dropped), assumed=assumed)


def _conf(source: SourceFile, part: str | None, lists: _HostLists) -> list[_Switch] | HostGroups:
    """The records of a topology.conf, which are of one plugin."""
    switches: list[_Switch] = []
    groups: dict[str, list[HostGroup]] = {"block": [], "ring": []}
    dropped: list[str] = []
    for line, text in enumerate(source.text.split("\n"), 1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        span, values = line_span(source, line), dict[str, str]()
        for key, sign, value in (word.partition("=") for word in words):
            if not sign or not value:
                raise flaw(f"'{key[:40]}' is not of the form key=value", span, "is the file cut off?")
            values[key.lower()] = value
        what = next((group for group in groups if f"{group}name" in values), None)
        if "blocksizes" in values and len(values) == 1:
            dropped = [_PLANNING]
        elif what is not None:
            hosts = lists.hosts(values.get("nodes", ""), span)
            sizes = (len(hosts),) if what == "ring" else ()
            groups[what].append(HostGroup(values[f"{what}name"], hosts, sizes, span))
        else:
            switches.append(_switch(span, values, lists))
    used = [what for what, members in groups.items() if members]
    if len(used) + bool(switches) > 1:
        span = groups[used[-1]][0].span
        raise flaw("a topology.conf has switches, blocks or rings, not several of these", span)
    if not used:
        return switches
    return checked_groups(used[0], groups[used[0]], dropped, part)


def _switch(span: Span, values: dict[str, str], lists: _HostLists) -> _Switch:
    if "switchname" not in values:
        raise flaw("a record begins with SwitchName=, BlockName= or RingName=", span)
    if ("nodes" in values) == ("switches" in values):
        has = "has both Nodes= and Switches=" if "nodes" in values else "has neither Nodes= nor Switches="
        raise flaw(f"switch {values['switchname']} {has}", span, "it has one of them")
    nodes, below = (lists.hosts(values.get(key, ""), span) for key in ("nodes", "switches"))
    return _Switch(values["switchname"], nodes, below, span)


class _HostLists:
    """Expands the host lists of a file, as node[01-04,7],login. count: the names so far."""

    def __init__(self) -> None:
        self.count = 0

    def hosts(self, text: str, span: Span) -> tuple[str, ...]:
        """The names of a list. Raises SourceError X0603 for more than MAX_HOSTS in the file, before they are made."""
        names: list[str] = []
        for host_list in split_host_list(text):
            try:
                names += expanded_hosts(host_list, MAX_HOSTS - self.count - len(names))
            except ValueError as error:
                raise flaw(str(error), span, "as in node[01-16,20]") from None
            except OverflowError:
                raise size_error(f"more than {MAX_HOSTS:,} hosts", span) from None
        self.count += len(names)
        return tuple(names)


def _yaml(source: SourceFile, part: str | None, lists: _HostLists) -> list[_Switch] | HostGroups:
    """The topology of a topology.yaml that is chosen."""
    topologies = [yaml_fields(item) for item in yaml_items(compose_yaml(source, MAX_YAML))]
    named = [fields for fields in topologies if part is not None and _text(fields.get("topology")) == part]
    inside = [  # those with a ring or torus of that name
        fields
        for fields in topologies
        for key, rows, name in (_GROUPS["ring"], _GROUPS["torus"])
        if any(
            part == _text(yaml_fields(item).get(name)) for item in yaml_items(yaml_fields(fields.get(key)).get(rows))
        )
    ]
    default = [fields for fields in topologies if _text(fields.get("cluster_default")).lower() in {"true", "yes"}]
    if part is not None and not named and not inside:
        names = [_text(fields.get("topology")) for fields in topologies]
        raise option_error(f"{source.name} has no topology '{part}'", f"--part takes {phrase(names)}")
    fields = (named or inside or default or topologies)[0]
    if "tree" in fields:
        return _yaml_switches(source, fields["tree"], lists)
    for what, (key, rows, name) in _GROUPS.items():
        if key in fields:
            members = yaml_items(yaml_fields(fields[key]).get(rows))
            groups = [_yaml_group(source, what, item, name, lists) for item in members]
            if not groups:
                raise flaw(f"'{key}' has no {rows}", line_span(source, fields[key].start_mark.line + 1))
            dropped = [_PLANNING] if "block_sizes" in yaml_fields(fields[key]) else []
            if any("placements" in yaml_fields(item) for item in members):
                dropped.append("placements, by which jobs are planned, not links")
            return checked_groups(what, groups, dropped, part if inside and not named else None)
    said = line_span(source, next(iter(fields.values())).start_mark.line + 1) if fields else line_span(source, 1)
    raise flaw("a flat topology names no links", said, "a topology has tree, block, ring or torus3d; --part chooses")


def _yaml_group(source: SourceFile, what: str, item: Any, name: str, lists: _HostLists) -> HostGroup:  # noqa: ANN401
    fields = yaml_fields(item)
    span = line_span(source, item.start_mark.line + 1)
    if not _text(fields.get(name)):
        raise flaw(f"a {what} has a '{name}' and 'nodes'", span)
    if "nodes" not in fields and not (what == "torus" and "regions" in fields):
        raise flaw(f"{what} {_text(fields[name])} has no 'nodes'", span)
    if what != "torus":
        hosts = lists.hosts(_text(fields["nodes"]), span)
        return HostGroup(_text(fields[name]), hosts, (len(hosts),) if what == "ring" else (), span)
    sizes = _xyz(fields.get("dims"), 1, f"the dims of torus {_text(fields[name])}", span)
    if "regions" in fields:
        if "nodes" in fields:
            raise flaw(f"torus {_text(fields[name])} has both nodes and regions", span, "it has one of them")
        return _of_regions(source, _text(fields[name]), fields["regions"], sizes, span, lists)
    return HostGroup(_text(fields[name]), lists.hosts(_text(fields["nodes"]), span), sizes, span)


def _xyz(node: Any, least: int, what: str, span: Span) -> tuple[int, int, int]:  # noqa: ANN401
    """Three numbers as in {x: 4, y: 4, z: 2}."""
    texts = [_text(yaml_fields(node).get(axis)) for axis in "xyz"]
    if not all(text.isascii() and text.isdigit() and len(text) < 9 and int(text) >= least for text in texts):
        raise flaw(f"{what} are x, y and z, whole numbers of at least {least}", span)
    x, y, z = map(int, texts)
    return x, y, z


def _of_regions(
    source: SourceFile,
    torus: str,
    node: Any,  # noqa: ANN401
    sizes: tuple[int, int, int],
    span: Span,
    lists: _HostLists,
) -> HostGroup:
    """A torus by its regions: boxes of hosts, x fastest, from an anchor on; other places have no host."""
    check_devices(prod(sizes))
    host_at: dict[int, str] = {}
    for item in yaml_items(node):
        fields, line = yaml_fields(item), line_span(source, item.start_mark.line + 1)
        anchor = (
            _xyz(fields["anchor"], 0, f"the anchor of a region of torus {torus}", line)
            if "anchor" in fields
            else (0, 0, 0)
        )
        dims = _xyz(fields.get("dims"), 1, f"the dims of a region of torus {torus}", line)
        hosts = lists.hosts(_text(fields.get("nodes")), line)
        if any(first + size > whole for first, size, whole in zip(anchor, dims, sizes, strict=True)):
            raise flaw(f"a region leads out of torus {torus}", line, f"it has {' x '.join(map(str, sizes))} places")
        if prod(dims) != len(hosts):
            raise flaw(f"a region has {' x '.join(map(str, dims))} places and {len(hosts)} hosts", line)
        for number, host in enumerate(hosts):
            x, y, z = number % dims[0], number // dims[0] % dims[1], number // dims[0] // dims[1]
            place = anchor[0] + x + sizes[0] * (anchor[1] + y + sizes[1] * (anchor[2] + z))
            if place in host_at:
                raise flaw(f"{host_at[place]} and {host} have the same place in torus {torus}", line)
            host_at[place] = host
    places = tuple(sorted(host_at))
    hosts = tuple(host_at[place] for place in places)
    return HostGroup(torus, hosts, sizes, span, places if len(places) < prod(sizes) else ())


def _yaml_switches(source: SourceFile, tree: Any, lists: _HostLists) -> list[_Switch]:  # noqa: ANN401
    switches: list[_Switch] = []
    for item in yaml_items(yaml_fields(tree).get("switches")):
        fields = yaml_fields(item)
        span = line_span(source, item.start_mark.line + 1)
        unknown = [name for name in fields if name not in {"switch", "children", "nodes"}]
        if "switch" not in fields or unknown:
            known = phrase(("switch", "children", "nodes"))
            raise flaw(f"a switch has {known}, not {unknown[0] if unknown else 'no name'}", span)
        nodes, below = (lists.hosts(_text(fields.get(name)), span) for name in ("nodes", "children"))
        switches.append(_Switch(_text(fields["switch"]), nodes, below, span))
    return switches


def _text(node: Any) -> str:  # noqa: ANN401
    return str(node.value).strip() if node is not None and node.id == "scalar" else ""


KINDS: Final = (
    ImportKind(
        "slurm",
        "fabric",
        read_slurm,
        file="'topology.conf', 'topology.yaml'",
        contains="hosts and switches; or blocks, rings, tori of hosts",
        options="'--node' or '--gpus-per-node', '-D nic=', '-D uplink='; '--joined-by', '--part'",
        text=r"^[ \t]*+(SwitchName|BlockName|RingName)[ \t]*+=|^[ \t]*+-[ \t]*+topology[ \t]*+:",
    ),
)
