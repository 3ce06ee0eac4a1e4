"""Slurm's description of a network: `topology.conf` and `topology.yaml` (Slurm 25.05)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from collc.base.diagnostics import SourceFile, Span
from collc.base.host_lists import expanded_hosts
from collc.base.wording import listed
from collc.machines.fabrics import Attachment, Fabric
from collc.machines.reading import MAX_DEVICES, compose_yaml, line_span, too_large, wrong, yaml_fields, yaml_items

MAX_YAML: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch with the hosts or switches below it, and where it stands."""

    name: str
    nodes: tuple[str, ...]
    below: tuple[str, ...]
    span: Span


def read_slurm(source: SourceFile) -> Fabric:
    """The tree of switches; no bandwidths are in the file. Raises SourceError X0601 with the line of what is wrong."""
    is_yaml = re.search(r"^\s*-\s*topology\s*:", source.text, re.MULTILINE) is not None
    switches = list(_yaml(source) if is_yaml else _conf(source))
    if not switches:
        raise wrong(f"{source.name} names no switch", line_span(source, 1))
    known: dict[str, _Switch] = {}
    for switch in switches:
        if switch.name in known:
            raise wrong(f"switch {switch.name} is there twice", switch.span)
        known[switch.name] = switch
    attachments: list[Attachment] = []
    cables: list[tuple[str, str, None]] = []
    parents: dict[str, str] = {}
    for switch in switches:
        for child in (*switch.below, *switch.nodes):
            if child in parents:
                message = f"{child} is below {parents[child]} and below {switch.name}"
                raise wrong(message, switch.span, "each host and each switch has one parent")
            parents[child] = switch.name
        for child in switch.below:
            if child not in known:
                raise wrong(f"switch {child} has no record of its own", switch.span, "is the file cut off?")
            cables.append((child, switch.name, None))
        attachments += [Attachment(host, "", switch.name, None) for host in switch.nodes]
    for switch in switches:
        above, steps = switch.name, 0
        while above in parents and steps <= len(parents):
            above, steps = parents[above], steps + 1
        if steps > len(parents):
            raise wrong(f"switch {switch.name} is below itself", switch.span, f"by way of {parents[switch.name]}")
    if not attachments:
        raise wrong(f"{source.name} names no host", switches[0].span)
    dropped = ["LinkSpeed, whose unit is not defined"] if "linkspeed" in source.text.lower() else []
    return Fabric(tuple(known), tuple(cables), tuple(attachments), tuple(dropped))


def _conf(source: SourceFile) -> Iterator[_Switch]:
    for line, text in enumerate(source.text.split("\n"), 1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        span = line_span(source, line)
        pairs = [word.partition("=") for word in words]
        values = {key.lower(): value for key, _, value in pairs}
        for key, sign, value in pairs:
            if not sign or not value:
                raise wrong(f"'{key[:40]}' is no key=value", span, "is the file cut off?")
        if "blockname" in values or "blocksizes" in values or "ringname" in values:
            raise _unlinked(span)
        if "switchname" not in values:
            raise wrong("a record begins with SwitchName=", span)
        if ("nodes" in values) == ("switches" in values):
            has = "has both Nodes= and Switches=" if "nodes" in values else "has neither Nodes= nor Switches="
            raise wrong(f"switch {values['switchname']} {has}", span, "it has one of them")
        nodes, below = (_hosts(values.get(key, ""), span) for key in ("nodes", "switches"))
        yield _Switch(values["switchname"], nodes, below, span)


def _unlinked(span: Span) -> Exception:
    hint = "write the links in .coll, or import what ibnetdiscover prints"
    return wrong("blocks, rings and tori say which hosts belong together, not which links there are", span, hint)


def _hosts(text: str, span: Span) -> tuple[str, ...]:
    """The names of a host list as node[01-04,7],login."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        try:
            names += expanded_hosts(part, MAX_DEVICES)
        except ValueError as error:
            raise wrong(str(error), span, "as in node[01-16,20]") from None
        except OverflowError as error:
            raise too_large(str(error), span) from None
        if len(names) > MAX_DEVICES:
            raise too_large(f"more than {MAX_DEVICES:,} hosts", span)
    return tuple(names)


def _yaml(source: SourceFile) -> Iterator[_Switch]:
    topologies = [yaml_fields(item) for item in yaml_items(compose_yaml(source, MAX_YAML))]
    trees = [(fields, fields["tree"]) for fields in topologies if "tree" in fields]
    if not trees:
        raise _unlinked(line_span(source, 1))
    default = [tree for fields, tree in trees if _text(fields.get("cluster_default")) in {"true", "yes"}]
    tree = default[0] if default else trees[0][1]
    for item in yaml_items(yaml_fields(tree).get("switches")):
        fields = yaml_fields(item)
        span = line_span(source, item.start_mark.line + 1)
        unknown = [name for name in fields if name not in {"switch", "children", "nodes"}]
        if "switch" not in fields or unknown:
            known = listed(("switch", "children", "nodes"))
            raise wrong(f"a switch has {known}, not {unknown[0] if unknown else 'no name'}", span)
        nodes, below = (_hosts(_text(fields.get(name)), span) for name in ("nodes", "children"))
        yield _Switch(_text(fields["switch"]), nodes, below, span)


def _text(node: Any) -> str:  # noqa: ANN401
    return str(node.value).strip() if node is not None and node.id == "scalar" else ""
