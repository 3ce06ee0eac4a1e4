"""`collc import`: files that describe a machine become a program, with measured values in place of nominal ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from collc.application.file_kinds import kind_of as kind_of_file
from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, UsageError
from collc.base.reading import read_text
from collc.base.units import Dimension, format_rate, format_time
from collc.base.wording import did_you_mean, in_one_line, phrase, plural
from collc.machines.fabrics import (
    Fabric,
    HostGroups,
    cabled_groups,
    fabric_without_file,
    join_of,
    machine_of,
    part_of_fabric,
    switched_groups,
)
from collc.machines.hosts import MODELS, Host, HostGpu, HostNic, Hosts, Inside, Kinds, inside_of
from collc.machines.kinds import Description, ImportKind, import_kinds, kind_of, kinds_of
from collc.machines.machine import LinkKind, Machine, unjoined_parts, with_domains
from collc.machines.program import program_text
from collc.machines.reading import MAX_BYTES, MAX_HOSTS, ImportOptions, check_devices, option_error, usage_error
from collc.simulation.astra_file import unused_keys
from collc.source.formatting.format import format_source
from collc.source.host_lists import expanded_hosts

FABRICS: Final = ("rails", "switch")
"""Fabrics that need no file."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*")

_LINKS: Final = ("nvlink", "xgmi", "partition_link", "pcie", "host_link", "cpu_link", "nic", "uplink")
"""The links that a machine may have: a rate or latency of one that it has not is no misspelling."""


def import_machine(options: ImportOptions, remark: Callable[[str], None] = lambda _text: None) -> str:
    """The program of a machine. remark: called with each remark about measured values.

    Raises SourceError X0601, X0603 and as `read_text` for files, UsageError X0602 for what no file says, U0150 for
    arguments that do not fit.
    """
    given = [_open_beside(options.kind, path) for path in options.files]
    options = _completed_options(options, given)
    files = [file for file in given if file.kind.describes != "model"]
    whole = next((file for file in files if file.kind.describes != "node"), None)
    if whole is not None and len(files) > 1:
        raise usage_error(f"{whole.source.name} ({whole.kind.name}) describes all of a network", "import it alone")
    named = [options.node, None if options.fabric in FABRICS else options.fabric]
    read = [*given, *(_open_named(text) for text in named if text is not None)]
    names = [in_one_line(f"{Path(file.source.name).name} ({file.kind.name})") for file in read]
    shown = names if len(names) <= 8 else [*names[:7], f"{len(names) - 7} more"]
    origin = f"Imported by 'collc import' from {phrase(shown)}."
    unread = [one for one in options.files if one.name == "topology.conf" and one.with_name("topology.yaml").exists()]
    for path in unread:
        remark(f"Slurm does not read {path}, since there is a topology.yaml beside it")
    if not files and options.fabric is None:
        if given:
            message = f"{given[0].source.name} names the model of GPUs, and no file says how they are linked"
            raise usage_error(message, "give the output of nvidia-smi topo -m too")
        raise usage_error("no file to import", "as in: collc import nccl topo.xml")
    if whole is not None and whole.kind.describes == "network":
        machine = whole.read(options)
        if isinstance(machine, str):
            for text in unused_keys(whole.source):
                remark(text)
            return _product_program(machine, options, origin)
        assert isinstance(machine, Machine)
    else:
        machine = _machine_of_nodes(options, files)
    if parted := unjoined_parts(machine):
        remark(parted)
        machine = replace(machine, taken=(*machine.taken, parted))
    for text in _unused_definitions(options.definitions, machine.kinds):
        remark(text)
    if not options.measured:
        return program_text(machine, options.name, origin)
    paths, values = _read_measured(options.measured, options.output)
    for text in _remarks(values, machine.kinds):
        remark(text)
    return program_text(machine, options.name, origin, paths, values)


def _unused_definitions(definitions: Mapping[str, str], kinds: Sequence[LinkKind]) -> Iterator[str]:
    """Remarks on rates and latencies of links that a machine has not. Raises UsageError U0150 for other names."""
    names = [name for kind in kinds for name in (kind.name, f"{kind.name}_latency")]
    for unused in (name for name in definitions if name not in names):
        if unused.removesuffix("_latency") not in _LINKS:
            hint = did_you_mean(unused, names, f"there are {phrase(names)}")
            raise usage_error(f"no rate or latency of this machine is called '{unused}'", hint)
        yield f"-D {unused}={definitions[unused]} is not used, since this machine has no such links"


def _product_program(topology: str, options: ImportOptions, origin: str) -> str:
    """The program of a network file that gives all rates. Raises UsageError U0150 if the command line gives one too."""
    if options.definitions:
        hint = "the network file gives all rates and latencies"
        raise usage_error(f"no link of this machine is called '{next(iter(options.definitions))}'", hint)
    head = f"# {origin}\n# Bandwidths are GiB/s, as ASTRA-sim counts.\nimport std.topologies\n\n"
    return format_source(SourceFile(options.name, f"{head}topology {options.name} = {topology}\n"))


def _completed_options(options: ImportOptions, files: Sequence[_File]) -> ImportOptions:
    """The options with the model that files name, and host lists expanded. Raises UsageError U0150 for wrong values."""
    if _NAME.fullmatch(options.name) is None:
        raise usage_error(f"'{options.name}' is not a valid name for a topology", "letters, digits and _")
    if options.gpu is not None and options.gpu not in MODELS:
        hint = did_you_mean(options.gpu, MODELS, f"there are {phrase(MODELS)}")
        raise usage_error(f"there is no GPU model '{options.gpu}'", hint)
    named = files if options.gpu is None else ()
    models = [str(file.read(options)) for file in named if file.kind.describes == "model"]
    if len(set(models)) > 1:
        raise usage_error(f"files of several models: {phrase(sorted(set(models)))}", "import the nodes one by one")
    model = options.gpu or next(iter(models), None)
    return replace(options, gpu=model, nodes=_expanded_nodes(options.nodes))


def _expanded_nodes(lists: Sequence[str]) -> tuple[str, ...]:
    """The names of host lists as c[01-17]. Raises UsageError U0150 for others and for more than MAX_HOSTS names."""
    names: list[str] = []
    for text in lists:
        try:
            names += expanded_hosts(text, MAX_HOSTS - len(names))
        except (ValueError, OverflowError) as error:
            raise usage_error(f"--nodes: {error}", "as in --nodes node[01-16],login") from None
    return tuple(names)


@dataclass(frozen=True, slots=True)
class _File:
    """A file to import, and its kind."""

    kind: ImportKind
    source: SourceFile

    def read(self, options: ImportOptions) -> Description:
        """What it describes."""
        return self.kind.read(self.source, options)


def _open(kind: str | None, path: Path) -> _File:
    """The file at a path, without its mark of UTF-8. kind: its name; None: by the content.

    Raises SourceError X0601 if nothing says its kind, UsageError X0206 if it is a file of another command.
    """
    source, kinds = read_text(path, limit=MAX_BYTES), import_kinds()
    source = SourceFile(source.name, source.text.removeprefix("\ufeff"))
    try:
        name = kind or kind_of(source)
    except SourceError:
        other = kind_of_file(path)
        if other is None or path == Path("-") or other.mark.decode() not in source.text:
            raise
        message = f"{path} is {other.title}, and 'collc import' takes the description of a machine"
        advice = other.advice or f"'collc verify {path}' checks it"
        raise UsageError(Diagnostic("X0206", message, hint=advice.replace("FILE.coll", str(path)))) from None
    if name not in kinds:
        raise usage_error(f"there is no kind '{name}'", did_you_mean(name, kinds, f"there are {phrase(kinds)}"))
    return _File(kinds[name], source)


def _open_beside(kind: str | None, path: Path) -> _File:
    """The file at a path, of a kind or of one that names the model of the GPUs of such files."""
    file = _open(kind, path)
    if kind is not None and file.kind.describes == "node":
        with suppress(SourceError):
            recognized = import_kinds()[kind_of(file.source)]
            file = replace(file, kind=recognized) if recognized.describes == "model" else file
    return file


def _open_named(text: str) -> _File:
    """The file of KIND:FILE, or FILE."""
    kind, sign, path = text.partition(":")
    return _open(kind, Path(path)) if sign and kind in import_kinds() else _open(None, Path(text))


def _machine_of_nodes(options: ImportOptions, files: Sequence[_File]) -> Machine:
    """The machine of nodes, alone or on a fabric."""
    hosts, remarks, fabric = _read_nodes(options, files)
    kinds, groups, join = Kinds(options), None, ""
    if isinstance(fabric, HostGroups):
        groups = fabric
        join = _join_of_hosts(groups, hosts, options)
        remarks = [groups.remark(), *remarks]
        fabric = switched_groups(groups) if join == "switch" else None
    elif options.joined_by is not None:
        raise usage_error("--joined-by is for blocks, rings and tori of Slurm", "leave it out")
    elif isinstance(fabric, Fabric):
        known = set(fabric.hosts)
        for name in options.nodes:
            if name not in known:
                hint = did_you_mean(name, known, "see the file")
                raise usage_error(f"no host of the fabric is called '{name}'", hint)
        if options.nodes:
            fabric = part_of_fabric(fabric, set(options.nodes))
    with_ports = fabric is not None or options.fabric is not None or join == "nic"
    hosts = hosts or [_plain_host(options, in_domain=join == "nvlink")]
    insides = [inside_of(host, kinds, with_ports=with_ports) for host in hosts]
    if fabric is not None:
        machine = machine_of(_for_each(fabric.hosts, insides), fabric, kinds)
    elif groups is None:
        machine = _machine_without_file(options.nodes, insides, kinds)
    elif join == "nic":
        machine = cabled_groups(groups, _for_each(groups.hosts, insides), kinds)
    else:
        names = [(host, group.name) for group in groups.groups for host in group.hosts]
        insides = [replace(insides[0], node=replace(insides[0].node, label=h, domain=domain)) for h, domain in names]
        machine = _machine_without_file(groups.hosts, insides, kinds, groups)
    machine = with_domains(machine)
    gpus = sum(family.count for node in machine.nodes for family in node.families if not family.is_switch)
    parts = [f"{plural(len(machine.nodes), 'node')} with {plural(gpus, 'GPU')}"]
    for family in machine.families:
        name = "NVSwitch" if family.name == "nvswitch" else f"{family.name} switch"
        parts.append(f"{family.count} {name}{'es' if family.count > 1 else ''}")
    summary = [phrase(parts)] if machine.nodes else []
    return replace(machine, taken=(*summary, *dict.fromkeys(remarks)))


_Described = tuple[list[Host], list[str], Fabric | HostGroups | None]


def _read_nodes(options: ImportOptions, files: Sequence[_File]) -> _Described:
    """The hosts of all files of nodes, remarks on these, and what the file of a fabric describes."""
    of_fabric = None
    if files and files[0].kind.describes == "fabric":
        of_fabric, files = files[0], ()
        if options.fabric is not None and options.joined_by != "nvlink":
            raise usage_error("two fabrics", "give the file of the nodes with --node")
    elif options.fabric is not None and options.fabric not in FABRICS:
        of_fabric = _open_named(options.fabric)
        if of_fabric.kind.describes != "fabric":
            raise usage_error(f"{of_fabric.kind.name} describes no fabric", f"{phrase(kinds_of('fabric'))} do")
    if options.node is not None:
        files = [*files, _open_named(options.node)]
    hosts: list[Host] = []
    remarks: list[str] = []
    for file in files:
        described = file.read(options) if file.kind.describes == "node" else None
        if not isinstance(described, Hosts):
            hint = f"{phrase(kinds_of('node'))} do"
            raise usage_error(f"{file.kind.name} does not describe the inside of a node", hint)
        hosts += described.hosts
        remarks += described.remarks
    fabric = None if of_fabric is None else of_fabric.read(options)
    assert fabric is None or isinstance(fabric, Fabric | HostGroups)
    return hosts, remarks, fabric


def _join_of_hosts(groups: HostGroups, hosts: Sequence[Host], options: ImportOptions) -> str:
    """What joins the hosts of groups. Raises UsageError for options that do not fit."""
    if options.nodes:
        raise usage_error("--nodes takes hosts of a tree, not of blocks, rings and tori", "--part chooses a ring")
    join = join_of(groups, options.joined_by, options.gpus_per_node if not hosts else len(hosts[0].gpus))
    if join == "nvlink":
        if hosts:
            raise usage_error("--joined-by nvlink takes no file of a node", "give --gpus-per-node 4 -D nvlink=900GB/s")
        if len(groups.groups) > 1 and options.fabric not in FABRICS:
            message = f"{len(groups.groups)} blocks, and no file says how they are connected"
            raise option_error(message, "give --fabric rails, or --fabric switch")
        check_devices(len(groups.hosts) * (options.gpus_per_node or 0))
    return join


def _machine_without_file(
    names: Sequence[str], insides: list[Inside], kinds: Kinds, groups: HostGroups | None = None
) -> Machine:
    """The machine of nodes on a fabric that needs no file, or on none. names: of hosts, () if no one names them."""
    dropped = () if groups is None else groups.dropped
    if kinds.options.fabric is None:
        if len(insides) > 1 and (not insides[0].node.domain or len({inside.node.domain for inside in insides}) > 1):
            message = f"{len(insides)} nodes, and no file says how they are connected"
            raise option_error(message, "give --fabric rails, --fabric switch, or --fabric ibnetdiscover:FILE")
        names = names if len(names) == len(insides) else ("",) * len(insides)
        nodes = tuple(replace(inside.node, label=name) for inside, name in zip(insides, names, strict=True))
        return Machine(tuple(kinds.found.values()), nodes, dropped=(*insides[0].dropped, *dropped))
    names = names or [f"node{at}" for at in range(len(insides))]
    insides = insides * len(names) if len(insides) == 1 else insides
    if len(names) != len(insides):
        message = f"{plural(len(names), 'name')} in --nodes, {plural(len(insides), 'node')}"
        raise usage_error(message, "one for each")
    _check_ports(insides)
    fabric = fabric_without_file(names, insides, kinds.options)
    fabric = replace(fabric, ordered=groups is not None, dropped=dropped)
    by_name = dict(zip(names, insides, strict=True))
    return machine_of([by_name[host] for host in fabric.hosts], fabric, kinds)


def _for_each(hosts: Sequence[str], insides: list[Inside]) -> list[Inside]:
    """The inside of each host; one inside is that of all."""
    insides = insides * len(hosts) if len(insides) == 1 else insides
    if len(insides) != len(hosts):
        message = f"{len(insides)} files of nodes, and {len(hosts)} hosts in the fabric: {', '.join(hosts[:8])}"
        hint = "give one file for all (--node), or one for each host in this order; --nodes chooses"
        raise usage_error(message, hint)
    _check_ports(insides)
    return insides


def _check_ports(insides: Sequence[Inside]) -> None:
    if any(not inside.ports for inside in insides):
        raise option_error("a node has no NIC that a fabric could be attached to", "import files that list NICs")


def _plain_host(options: ImportOptions, *, in_domain: bool = False) -> Host:
    """A node of which only the number of GPUs is known: an NVSwitch, and NICs. in_domain: of several hosts."""
    count, rate = options.gpus_per_node, options.rates.get("nvlink")
    if count is None:
        message = "the file says nothing about the inside of nodes"
        raise option_error(message, "give a file of one (--node nccl:topo.xml), or --gpus-per-node 8 -D nvlink=450GB/s")
    linked = in_domain or count > 1
    if rate is None and linked:
        message = f"nothing says how the {plural(count, 'GPU')} of a node {'are' if count > 1 else 'is'} linked"
        raise option_error(message, "give the rate of each to the switch of its node: -D nvlink=450GB/s")
    gpus = [HostGpu(f"GPU{at}", (), rate or Fraction(1), int(linked)) for at in range(count)]
    nics = [HostNic(f"NIC{at}", (), None) for at in range(count)]
    return Host(tuple(gpus), tuple(nics), assumed_pcie="not in the file")


def _remarks(values: Mapping[str, Fraction], kinds: tuple[LinkKind, ...]) -> Iterator[str]:
    """Remarks on values measured over 20 % off the nominal ones. Raises UsageError U0150 for lets of no link."""
    nominal: dict[str, tuple[Fraction, Callable[[Fraction], str]]] = {}
    for kind in kinds:
        nominal[f"{kind.name}_bandwidth"] = kind.rate * kind.times, format_rate
        nominal[f"{kind.name}_latency"] = kind.latency * 10**12, format_time
    if unknown := next((name for name in values if name not in nominal), ""):
        hint = f"the links of this machine are {phrase([kind.name for kind in kinds])}: collc calibrate --name"
        raise usage_error(f"'{unknown}' is measured, but no link of this machine has that name", hint)
    for name, (said, text) in nominal.items():
        measured = values.get(name)
        if measured is not None and abs(measured - said) > said / 5:
            share = f"{abs(float(measured / said) - 1):.0%}" if said else "far"
            more = "more" if measured > said else "less"
            yield f"{name}: measured {text(measured)}, nominal {text(said)} ({share} {more})"


def _read_measured(files: tuple[Path, ...], output: Path | None) -> tuple[tuple[str, ...], dict[str, Fraction]]:
    """The paths of files of `collc calibrate`, as `output`, the program that will import them, names them; and values.

    Values are picoseconds and bytes per second, by name.
    Raises SourceError for errors of the files, UsageError U0150 if one has something else than lets of a time or
    rate, or a let occurs twice.
    """
    from collc.source.parsing.expressions import QuantityLiteral
    from collc.source.parsing.parse import parse
    from collc.source.parsing.syntax import Let

    values: dict[str, Fraction] = {}
    for path in files:
        if in_one_line(str(path)) != str(path) or any(sign in str(path) for sign in '"\\'):
            raise usage_error(f"{path} has a name that no program can import", "rename the file")
        for node in parse(read_text(path)).statements:
            if not isinstance(node, Let) or not isinstance(node.value, QuantityLiteral):
                message = f"{path} has more than lets of times and rates"
                raise UsageError(Diagnostic("U0150", message, node.span, hint="as 'collc calibrate' writes them"))
            name, wanted = node.name.name, Dimension.TIME if node.name.name.endswith("_latency") else Dimension.RATE
            if node.value.dimension is not wanted or name in values:
                message = f"'{name}' occurs twice" if name in values else f"'{name}' is not a {wanted.name.lower()}"
                raise UsageError(Diagnostic("U0150", message, node.span))
            values[name] = node.value.value
    folder = Path() if output is None else output.parent
    return tuple(Path(os.path.relpath(path, folder)).as_posix() for path in files), values
