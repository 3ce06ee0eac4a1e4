"""`collc import`: files that describe a machine become a program, with measured values in place of nominal ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal

from collc.base.diagnostics import Diagnostic, SourceFile, UsageError
from collc.base.reading import read_text
from collc.base.units import PICOSECONDS, UNITS, Dimension, format_rate, format_time, quantity_in
from collc.base.wording import did_you_mean, listed, plural
from collc.machines.domains import are_one_domain, with_domains
from collc.machines.fabrics import Fabric, machine_of, one_switch, rails
from collc.machines.gpu_models import MODELS
from collc.machines.host_groups import HostGroups, cabled_groups, join_of, switched_groups
from collc.machines.hosts import Host, HostGpu, HostNic, Hosts, Inside, Kinds, inside_of
from collc.machines.kinds import Description, ImportKind, import_kinds, kind_of, kinds_of
from collc.machines.machine import LinkKind, Machine
from collc.machines.program import program_text
from collc.machines.reading import MAX_BYTES, ImportOptions, check_devices, option_error

FABRICS: Final = ("rails", "switch")
"""Fabrics that need no file."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """The arguments of `collc import`, as text.

    kind: of `files`; None: by their content. node, fabric: as KIND:FILE, or FILE; fabric also as in FABRICS. nodes: the
    hosts to take, in this order; () for all. measured: files of `collc calibrate`, which the program at `output` will
    import. definitions: `-D`. npu, capacity, latency: as attribute=value or =unit. joined_by, part: of files
    of Slurm, see `host_groups.JOINS` and `read_slurm`.
    """

    files: tuple[Path, ...]
    kind: str | None = None
    name: str = "pod"
    node: str | None = None
    fabric: str | None = None
    nodes: tuple[str, ...] = ()
    gpu: str | None = None
    gpus_per_node: int | None = None
    nvlink: int | Literal["dgx1"] | None = None
    mirror: bool = False
    pcie: bool | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    npu: str | None = None
    capacity: str | None = None
    latency: str | None = None
    chunk: int | None = None
    measured: tuple[Path, ...] = ()
    output: Path | None = None
    joined_by: str | None = None
    part: str | None = None


def import_machine(settings: ImportSettings, remark: Callable[[str], None] = lambda _text: None) -> str:
    """The program of a machine. remark: called with each remark about measured values.

    Raises SourceError X0601, X0603 and as `read_text` for files, UsageError X0602 for what no file says, U0150 for
    arguments that do not fit.
    """
    if _NAME.fullmatch(settings.name) is None:
        raise _usage(f"'{settings.name}' is not a valid name for a topology", "letters, digits and _")
    options = _options(settings)
    files = [_open(settings.kind, path) for path in settings.files]
    whole = next((file for file in files if file.kind.describes != "node"), None)
    if whole is not None and len(files) > 1:
        raise _usage(f"{whole.source.name} ({whole.kind.name}) describes all of a network", "import it alone")
    named = [settings.node, None if settings.fabric in FABRICS else settings.fabric]
    origin = _origin([*files, *(_open_named(text) for text in named if text is not None)])
    for path in settings.files:
        if path.name == "topology.conf" and path.with_name("topology.yaml").exists():
            remark(f"Slurm does not read {path}, since there is a topology.yaml beside it")
    if not files and settings.fabric is None:
        raise _usage("no file to import", "as in: collc import nccl topo.xml")
    if whole is not None and whole.kind.describes == "network":
        machine = whole.read(options)
        if isinstance(machine, str):
            return _program_of_expression(machine, settings, origin)
        assert isinstance(machine, Machine)
    else:
        machine = _machine_of_nodes(settings, options, files)
    _check_definitions(settings, machine)
    if not settings.measured:
        return program_text(machine, settings.name, origin)
    links = read_measured(settings.measured, settings.output)
    for text in links.remarks(machine.kinds):
        remark(text)
    return program_text(machine, settings.name, origin, links.paths, links.values)


def _usage(message: str, hint: str) -> UsageError:
    return UsageError(Diagnostic("U0150", message, hint=hint))


@dataclass(frozen=True, slots=True)
class _File:
    """A file to import, and its kind."""

    kind: ImportKind
    source: SourceFile

    def read(self, options: ImportOptions) -> Description:
        """What it describes."""
        return self.kind.read(self.source, options)


def _open(kind: str | None, path: Path) -> _File:
    source, kinds = read_text(path, limit=MAX_BYTES), import_kinds()
    name = kind or kind_of(source)
    if name not in kinds:
        raise _usage(f"there is no kind '{name}'", did_you_mean(name, kinds, f"there are {listed(kinds)}"))
    return _File(kinds[name], source)


def _open_named(text: str) -> _File:
    """The file of KIND:FILE, or FILE."""
    kind, sign, path = text.partition(":")
    return _open(kind, Path(path)) if sign and kind in import_kinds() else _open(None, Path(text))


def _origin(files: Sequence[_File]) -> str:
    names = [f"{Path(file.source.name).name} ({file.kind.name})" for file in files]
    shown = names if len(names) <= 8 else [*names[:7], f"{len(names) - 7} more"]
    return f"Imported by 'collc import' from {listed(shown)}."


def _program_of_expression(expression: str, settings: ImportSettings, origin: str) -> str:
    from collc.source.formatting.format import format_source

    lines = [f"# {origin}", "# Bandwidths are GiB/s, as ASTRA-sim counts.", "import std.topologies", ""]
    text = "\n".join([*lines, f"topology {settings.name} = {expression}", ""])
    if settings.definitions:
        name = next(iter(settings.definitions))
        raise _usage(f"no link of this machine is called '{name}'", "the network file gives all rates and latencies")
    return format_source(SourceFile(settings.name, text))


def _machine_of_nodes(settings: ImportSettings, options: ImportOptions, files: Sequence[_File]) -> Machine:
    """The machine of nodes, alone or on a fabric."""
    of_fabric = None
    if files and files[0].kind.describes == "fabric":
        of_fabric, files = files[0], ()
        if settings.fabric is not None and settings.joined_by != "nvlink":
            raise _usage("two fabrics", "give the file of the nodes with --node")
    elif settings.fabric is not None and settings.fabric not in FABRICS:
        of_fabric = _open_named(settings.fabric)
        if of_fabric.kind.describes != "fabric":
            raise _usage(f"{of_fabric.kind.name} describes no fabric", f"{listed(kinds_of('fabric'))} do")
    if settings.node is not None:
        files = [*files, _open_named(settings.node)]
    hosts: list[Host] = []
    remarks: list[str] = []
    for file in files:
        described = file.read(options) if file.kind.describes == "node" else None
        if not isinstance(described, Hosts):
            raise _usage(f"{file.kind.name} does not describe the inside of a node", f"{listed(kinds_of('node'))} do")
        hosts += described.hosts
        remarks += described.remarks
    fabric = None if of_fabric is None else of_fabric.read(options)
    if isinstance(fabric, HostGroups):
        machine = _machine_of_groups(fabric, hosts, settings, options)
        return replace(machine, taken=(*_summary(machine), fabric.remark(), *dict.fromkeys(remarks)))
    if settings.joined_by is not None:
        raise _usage("--joined-by is for blocks, rings and tori of Slurm", "leave it out")
    assert fabric is None or isinstance(fabric, Fabric)
    if fabric is not None:
        fabric = _with_hosts(fabric, settings.nodes)
    kinds = Kinds(options)
    with_ports = fabric is not None or settings.fabric is not None
    insides = [inside_of(host, kinds, options, with_ports=with_ports) for host in hosts or [_plain_host(options)]]
    if len(insides) > 1 and not with_ports and not are_one_domain([inside.node for inside in insides]):
        message = f"{len(insides)} nodes, and no file says how they are connected"
        raise option_error(message, "give --fabric rails, --fabric switch, or --fabric ibnetdiscover:FILE")
    machine = with_domains(_join_insides(insides, fabric, settings, kinds))
    return replace(machine, taken=(*_summary(machine), *dict.fromkeys(remarks)))


def _machine_of_groups(
    groups: HostGroups, hosts: list[Host], settings: ImportSettings, options: ImportOptions
) -> Machine:
    """The machine of blocks, a ring or a torus of hosts."""
    if settings.nodes:
        raise _usage("--nodes takes hosts of a tree, not of blocks, rings and tori", "--part chooses a ring")
    join = join_of(groups, settings.joined_by, options.gpus_per_node if not hosts else len(hosts[0].gpus))
    if join == "nvlink":
        return _domains(groups, hosts, settings, options)
    kinds = Kinds(options)
    insides = [inside_of(host, kinds, options, with_ports=True) for host in hosts or [_plain_host(options)]]
    if join == "switch":
        return _join_insides(insides, switched_groups(groups), settings, kinds)
    return cabled_groups(groups, _for_each(groups.hosts, insides), kinds)


def _join_insides(insides: list[Inside], fabric: Fabric | None, settings: ImportSettings, kinds: Kinds) -> Machine:
    if fabric is None and settings.fabric is None:
        names = settings.nodes if len(settings.nodes) == len(insides) else ("",) * len(insides)
        nodes = tuple(replace(one.node, label=name) for one, name in zip(insides, names, strict=True))
        return Machine(tuple(kinds.found.values()), nodes, dropped=insides[0].dropped)
    if fabric is None:
        names = settings.nodes or tuple(f"node{at}" for at in range(len(insides)))
        if len(insides) == 1:
            insides *= len(names)
        if len(names) != len(insides):
            raise _usage(f"{plural(len(names), 'name')} in --nodes, {plural(len(insides), 'node')}", "one for each")
        _check_ports(insides)
        fabric = _fabric_without_file(names, insides, settings, kinds.options)
        order = [names.index(host) for host in fabric.hosts]
        return machine_of([insides[at] for at in order], fabric, kinds)
    return machine_of(_for_each(fabric.hosts, insides), fabric, kinds)


def _fabric_without_file(
    hosts: Sequence[str], insides: Sequence[Inside], settings: ImportSettings, options: ImportOptions
) -> Fabric:
    return rails(hosts, insides, options) if settings.fabric == "rails" else one_switch(hosts, insides)


def _for_each(hosts: Sequence[str], insides: list[Inside]) -> list[Inside]:
    """The inside of each host; one inside is that of all."""
    if len(insides) == 1:
        insides = insides * len(hosts)
    if len(insides) != len(hosts):
        message = f"{len(insides)} files of nodes, and {len(hosts)} hosts in the fabric: {', '.join(hosts[:8])}"
        raise _usage(message, "give one file for all (--node), or one for each host in this order; --nodes chooses")
    _check_ports(insides)
    return insides


def _domains(groups: HostGroups, hosts: Sequence[Host], settings: ImportSettings, options: ImportOptions) -> Machine:
    """The machine of blocks of hosts that are NVLink domains."""
    if hosts:
        raise _usage("--joined-by nvlink takes no file of a node", "give --gpus-per-node 4 -D nvlink=900GB/s")
    if len(groups.groups) > 1 and settings.fabric not in FABRICS:
        message = f"{len(groups.groups)} blocks, and no file says how they are connected"
        raise option_error(message, "give --fabric rails, or --fabric switch")
    kinds = Kinds(options)
    check_devices(len(groups.hosts) * (options.gpus_per_node or 0))
    inside = inside_of(_plain_host(options, in_domain=True), kinds, options, with_ports=settings.fabric is not None)
    insides = [
        replace(inside, node=replace(inside.node, label=host, domain=group.name))
        for group in groups.groups
        for host in group.hosts
    ]
    if settings.fabric is None:
        nodes = tuple(one.node for one in insides)
        return with_domains(Machine(tuple(kinds.found.values()), nodes, dropped=(*inside.dropped, *groups.dropped)))
    fabric = _fabric_without_file(groups.hosts, insides, settings, options)
    fabric = replace(fabric, ordered=True, dropped=groups.dropped)
    return with_domains(machine_of(insides, fabric, kinds))


def _check_ports(insides: Sequence[Inside]) -> None:
    if any(not inside.ports for inside in insides):
        raise option_error("a node has no NIC that a fabric could be attached to", "import files that list NICs")


def _with_hosts(fabric: Fabric, nodes: tuple[str, ...]) -> Fabric:
    """The fabric with the hosts that --nodes names."""
    known = set(fabric.hosts)
    for name in nodes:
        if name not in known:
            raise _usage(f"no host of the fabric is called '{name}'", did_you_mean(name, known, "see the file"))
    wanted = set(nodes) or known
    return replace(fabric, attachments=tuple(one for one in fabric.attachments if one.host in wanted))


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


def _summary(machine: Machine) -> list[str]:
    """What the machine contains."""
    if not machine.nodes:
        return []
    gpus = sum(family.count for node in machine.nodes for family in node.families if not family.is_switch)
    parts = [f"{plural(len(machine.nodes), 'node')} with {plural(gpus, 'GPU')}"]
    parts += [_switches(family.count, family.name) for family in machine.families]
    return [listed(parts)]


def _switches(count: int, tier: str) -> str:
    many = "es" if count > 1 else ""
    return f"{count} NVSwitch{many}" if tier == "nvswitch" else f"{count} {tier} switch{many}"


def _check_definitions(settings: ImportSettings, machine: Machine) -> None:
    """Raise UsageError if -D names no link of the machine."""
    known = [name for kind in machine.kinds for name in (kind.name, f"{kind.name}_latency")]
    for name in settings.definitions:
        if name not in known:
            hint = did_you_mean(name, known, f"there are {listed(known)}")
            raise _usage(f"no rate or latency of this machine is called '{name}'", hint)


def _options(settings: ImportSettings) -> ImportOptions:
    if settings.gpu is not None and settings.gpu not in MODELS:
        hint = did_you_mean(settings.gpu, MODELS, f"there are {listed(MODELS)}")
        raise _usage(f"there is no GPU model '{settings.gpu}'", hint)
    rates: dict[str, Fraction] = {}
    latencies: dict[str, Fraction] = {}
    for name, text in settings.definitions.items():
        is_latency = name.endswith("_latency")
        value = quantity_in(text.replace(" ", "", 1), Dimension.TIME if is_latency else Dimension.RATE)
        if value is not None and is_latency:
            latencies[name.removesuffix("_latency")] = value / PICOSECONDS
        elif value:
            rates[name] = value
        else:
            what = "is not a rate or latency" if value is None else "is not above 0"
            raise _usage(f"-D {name}={text} {what}", "as in -D nic=400Gb/s, -D nic_latency=0.9us")
    return ImportOptions(
        gpu=settings.gpu,
        gpus_per_node=settings.gpus_per_node,
        nvlink=0 if settings.nvlink == "dgx1" else settings.nvlink,
        mesh=settings.nvlink == "dgx1",
        mirror=settings.mirror,
        pcie=settings.pcie,
        rates=rates,
        latencies=latencies,
        npu=None if settings.npu is None else _attribute(settings.npu, "--npu"),
        capacity=_unit(settings.capacity, "--capacity", Dimension.RATE),
        latency=_unit(settings.latency, "--latency", Dimension.TIME),
        chunk=settings.chunk,
        part=settings.part,
    )


def _attribute(text: str, flag: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign and name != "all":
        raise _usage(
            f"{flag} {text} is not of the form attribute=value", "as in --npu type=gpu, --capacity bandwidth=GB/s"
        )
    return name, value


def _unit(text: str | None, flag: str, dimension: Dimension) -> tuple[str, Fraction] | None:
    if text is None:
        return None
    name, unit = _attribute(text, flag)
    found = UNITS.get(unit)
    if found is None or found[0] is not dimension:
        example = "GB/s" if dimension is Dimension.RATE else "us"
        raise _usage(f"'{unit}' is not a unit of {flag}", f"as in {flag} {name}={example}")
    return name, found[1] / (PICOSECONDS if dimension is Dimension.TIME else 1)


NOTABLE: Final = Fraction(1, 5)
"""From this difference on, relative to what the files say, a remark names both values."""


@dataclass(frozen=True, slots=True)
class MeasuredLinks:
    """The lets of files of `collc calibrate`.

    paths: as the program imports them. values: picoseconds and bytes per second, by name.
    """

    paths: tuple[str, ...]
    values: dict[str, Fraction]

    def remarks(self, kinds: tuple[LinkKind, ...]) -> list[str]:
        """Where measured and nominal values differ by more than 20 %. Raises UsageError U0150 for lets of no link."""
        names = [name for kind in kinds for name in (f"{kind.name}_bandwidth", f"{kind.name}_latency")]
        for name in self.values:
            if name not in names:
                hint = f"the links of this machine are {listed([kind.name for kind in kinds])}: collc calibrate --name"
                raise UsageError(
                    Diagnostic("U0150", f"'{name}' is measured, but no link of this machine has that name", hint=hint)
                )
        found: list[str] = []
        for kind in kinds:
            rate, time = kind.rate * kind.times, kind.latency * 10**12
            pairs = ((f"{kind.name}_bandwidth", rate, format_rate), (f"{kind.name}_latency", time, format_time))
            for name, nominal, text in pairs:
                measured = self.values.get(name)
                if measured is not None and abs(measured - nominal) > NOTABLE * nominal:
                    share = f"{abs(float(measured / nominal) - 1):.0%}" if nominal else "far"
                    more = "more" if measured > nominal else "less"
                    found.append(f"{name}: measured {text(measured)}, nominal {text(nominal)} ({share} {more})")
        return found


def read_measured(files: tuple[Path, ...], output: Path | None) -> MeasuredLinks:
    """Read files of `collc calibrate`. output: the program that will import them.

    Raises SourceError for errors of the files, UsageError U0150 if one has something else than lets of a time or
    rate, or a let occurs twice.
    """
    from collc.source.parsing.expressions import QuantityLiteral
    from collc.source.parsing.parse import parse
    from collc.source.parsing.syntax import Let

    values: dict[str, Fraction] = {}
    for path in files:
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
    return MeasuredLinks(tuple(Path(os.path.relpath(path, folder)).as_posix() for path in files), values)
