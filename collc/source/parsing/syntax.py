"""The syntax tree of statements and declarations: one class for each form, each with its span in the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from collc.base.diagnostics import SourceFile
from collc.source.parsing import expressions as ex

if TYPE_CHECKING:
    from collc.ten.arrays import Int64Array


class Statement(ex.Node):
    """A statement of a file or of a body."""


class Let(Statement, rule="let"):
    """`let n = 8`; at the top and in every body."""

    name: ex.Identifier
    value: ex.Expr


class For(Statement, rule="for_statement"):
    """`for i in r, j in q if c { ... }`."""

    clauses: tuple[ex.ForClause, ...]
    condition: ex.Expr | None
    body: tuple[Statement, ...]


class If(Statement, rule="if_statement"):
    """`if c { ... } else { ... }`; `else if` is an If alone in `otherwise`."""

    condition: ex.Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


# Bodies of topologies


class DeviceDeclaration(Statement, rule="device"):
    """`npu gpu[2, 8] (...) labels [...]` or `switch s[2] (...)`; kind: "npu" or "switch"."""

    kind: str
    name: ex.Identifier
    shape: tuple[ex.Expr, ...]
    attributes: tuple[ex.Argument, ...]
    labels: ex.Expr | None


class LinkDeclaration(Statement, rule="link"):
    """`link a -> b (...)`; both: `<->`."""

    source: ex.Expr
    both: bool
    target: ex.Expr
    attributes: tuple[ex.Argument, ...]


COLUMN: Final = "#"
"""How the names of columns of a LinkTable begin; no name in a program does."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkForm:
    """Links of a LinkTable that are written alike.

    link: one of them, with names `#0`, `#1`, ... in place of what differs. line: int64[rows], ascending, the line of
    each in the table. numbers: int64[rows] for each such name in an index. names: str[rows] for each that is an end of
    the link.
    """

    link: LinkDeclaration
    line: Int64Array
    numbers: dict[str, Int64Array]
    names: dict[str, list[str]]


class LinkTable(Statement):
    """Many successive lines `link a -> b (...)`, parsed as a table (see tables.py). lines: their number."""

    forms: tuple[LinkForm, ...]
    lines: int


class DeviceTable(Statement):
    """Many successive lines `npu a (...)` that differ in the name only. device: one of them."""

    device: DeviceDeclaration
    names: list[str]


class ChangedDevice(ex.Node, rule="changed_device"):
    """`npu gpu[0, *] (inject: r)` or `switch s (buffer: 4)` in `with`: devices that are there, or a declaration."""

    kind: str
    device: ex.Expr
    attributes: tuple[ex.Argument, ...]
    labels: ex.Expr | None

    @property
    def declaration(self) -> DeviceDeclaration | None:
        """The declaration of new devices that it can be; None if it cannot be one, as `gpu[0, *]`."""
        name = self.device.base if isinstance(self.device, ex.Index) else self.device
        shape = self.device.indices if isinstance(self.device, ex.Index) else ()
        if not isinstance(name, ex.Name) or any(isinstance(size, ex.Star) for size in shape):
            return None
        return DeviceDeclaration(
            self.span, self.kind, ex.Identifier(name.span, name.name), shape, self.attributes, self.labels
        )


class ChangedLink(ex.Node, rule="changed_link"):
    """`link a <-> b (bandwidth: r) lanes 1 for i in 0..4` in `with`; both: `<->`.

    lanes: how many of parallel links; None for all.
    """

    source: ex.Expr
    both: bool
    target: ex.Expr
    attributes: tuple[ex.Argument, ...]
    lanes: ex.Expr | None
    loop: ex.ForClause | None


class With(ex.Expr, rule="with_parts"):
    """`t with { npu spare, link spare <-> leaf[3] (bandwidth: 50GB/s, latency: 2us) }`."""

    base: ex.Expr
    parts: tuple[ChangedDevice | ChangedLink, ...]


class LinkMatrix(Statement, rule="links"):
    """`links [[0, 2], [1, 0]] (...)`."""

    matrix: ex.Expr
    attributes: tuple[ex.Argument, ...]


class Use(Statement, rule="use"):
    """`use dgx(8) as node[4] labels "host[1-4]"`."""

    topology: ex.Expr
    name: ex.Identifier
    shape: tuple[ex.Expr, ...]
    labels: ex.Expr | None


class PartDeclaration(Statement, rule="part"):
    """`part nic[n in 0..4, i in 0..8] = { link gpu[n, i] <-> leaf[i] }`: what fails together, under a name."""

    name: ex.Identifier
    clauses: tuple[ex.ForClause, ...]
    parts: tuple[ex.RemovedDevice | ex.RemovedLink, ...]
    labels: ex.Expr | None


# Bodies of collectives and algorithms


class ChunkReference(ex.Node, rule="chunk_reference"):
    """`x[i, c]` or `partial`."""

    name: ex.Identifier
    indices: tuple[ex.Expr, ...]


class ChunkDeclaration(Statement, rule="chunk"):
    """`chunk x[i, c]: size / n`."""

    chunk: ChunkReference
    size: ex.Expr


class Precondition(Statement, rule="pre"):
    """`pre x[i, c] at g[i]`; place: an npu, a group or a set of NPUs."""

    chunk: ChunkReference
    place: ex.Expr


class Postcondition(Statement, rule="post"):
    """`post x at S`, `post sum(x) at S`, `post reduce(x, op) at S`.

    reduction: None for a copy, a StringLiteral for `sum(x)`, the expression of `op` for `reduce(x, op)`.
    """

    chunk: ChunkReference
    place: ex.Expr
    reduction: ex.Expr | None = None


class TransferStatement(Statement, rule="transfer"):
    """`send x[i] from a to b at s` or `reduce ...`; kind: "send" or "reduce"; step None without `at`."""

    kind: str
    chunk: ChunkReference
    source: ex.Expr
    target: ex.Expr
    step: ex.Expr | None


# Bodies of schedules


class RunStatement(Statement, rule="run"):
    """`run all_reduce(dp, size: 1GiB) using hierarchical(shape: [8, 4])`.

    arguments: of the algorithm, for parameters that the collective does not have; the parentheses may be left out.
    """

    collective: ex.Call
    using: ex.Identifier | None
    arguments: tuple[ex.Argument, ...]


class Synthesize(Statement, rule="synthesize"):
    """`synthesize tacos(seed: 7)`; the parentheses may be left out."""

    synthesizer: ex.Identifier
    arguments: tuple[ex.Argument, ...]


class Verify(Statement, rule="verify"):
    """`verify optimal, time <= 2ms`: each a Name or a Comparison over `time`, `steps`, `bound`."""

    checks: tuple[ex.Expr, ...]


class Emit(Statement, rule="emit"):
    """`emit msccl("f.xml", instances: 2)`; the parentheses may be left out."""

    kind: ex.Identifier
    arguments: tuple[ex.Argument, ...]


class Allow(Statement, rule="allow"):
    """`allow congestion`."""

    what: ex.Identifier


class AnyParts(ex.Node, rule="any_parts"):
    """`any 2 of (nics, gpus) within node`; count: None for one."""

    count: ex.IntLiteral | None
    names: tuple[ex.Identifier, ...]
    within: ex.Identifier | None


class Failing(ex.Node, rule="failing"):
    """`any nic` or `node[*]`: any of some parts, or parts by name; attributes: what they keep, none for dead ones."""

    parts: AnyParts | ex.Expr
    attributes: tuple[ex.Argument, ...]


class Failures(Statement, rule="failures"):
    """`failures any nic, nic[0, *] (bandwidth: 1/2)`."""

    failing: tuple[Failing, ...]


# Bodies of workloads and designs


class Repeat(Statement, rule="repeat"):
    """`repeat 24 { ... }`."""

    count: ex.Expr
    body: tuple[Statement, ...]


class LayerCollective(ex.Node, rule="layer_collective"):
    """`forward tensor all_reduce 64MiB`: phase, group, collective, size."""

    phase: ex.Identifier
    group: ex.Identifier
    collective: ex.Identifier
    size: ex.Expr


class Layer(Statement, rule="layer"):
    """`layer (forward: 1.5ms, ...) { ... }`."""

    times: tuple[ex.Argument, ...]
    collectives: tuple[LayerCollective, ...]


class Loop(Statement, rule="loop"):
    """`loop tp_dp_overlap`, or the time of an iteration from those of layers: `loop max(sum(forward_compute), ...)`."""

    time: ex.Expr


class Train(Statement, rule="train"):
    """`train gpt3 (weight: 2)`."""

    workload: ex.Identifier
    arguments: tuple[ex.Argument, ...]


class Require(Statement, rule="require"):
    """`require bandwidth[3] <= 50GB/s`."""

    constraint: ex.Expr


class Minimize(Statement, rule="minimize"):
    """`minimize time * cost`."""

    objective: ex.Expr


class Tiers(Statement, rule="tiers"):
    """`tiers [inter_chiplet, inter_pod]`."""

    names: tuple[ex.Identifier, ...]


class Price(Statement, rule="price"):
    """`price inter_pod (link: 7.8, switch: 18, nic: 31.6)`."""

    tier: ex.Identifier
    arguments: tuple[ex.Argument, ...]


class PricedBy(Statement, rule="priced_by"):
    """`prices libra_lowest` in a design."""

    table: ex.Identifier


# Declarations


class Parameter(ex.Node, rule="parameter"):
    """`nvlink: rate = 300GB/s` of a template, collective or algorithm; type None if left out."""

    name: ex.Identifier
    type: ex.Identifier | None
    default: ex.Expr | None


class Import(Statement, rule="import_statement"):
    """`import std.topologies` (path None) or `import "pod.coll"` (module None)."""

    what: ex.Identifier | ex.StringLiteral

    @property
    def module(self) -> str | None:
        """The name of a module; None for a file."""
        return self.what.name if isinstance(self.what, ex.Identifier) else None

    @property
    def path(self) -> str | None:
        """The name of a file; None for a module."""
        return self.what.value if isinstance(self.what, ex.StringLiteral) else None


class Param(Parameter, Statement, rule="param"):
    """`param nodes: int = 2`; a param without a default must be given with `-D`."""


class TopologyTemplate(Statement, rule="topology_template"):
    """`topology dgx(nodes: int) { ... }`; parameters None if written without parentheses."""

    name: ex.Identifier
    parameters: tuple[Parameter, ...] | None
    body: tuple[Statement, ...]


class TopologyInstance(Statement, rule="topology_instance"):
    """`topology t = dgx(3)`."""

    name: ex.Identifier
    value: ex.Expr


class Group(Statement, rule="group"):
    """`group g = t.gpu[0, *]`, `group tp[n in 0..4] = t.gpu[n, *]`; clauses: () for a single group."""

    name: ex.Identifier
    clauses: tuple[ex.ForClause, ...]
    value: ex.Expr


class Collective(Statement, rule="collective"):
    """`collective c(g: group, size: bytes) { ... }`."""

    name: ex.Identifier
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]


class Algorithm(Statement, rule="algorithm"):
    """`algorithm a(...) implements c(...) { ... }`."""

    name: ex.Identifier
    parameters: tuple[Parameter, ...]
    implements: ex.Call
    body: tuple[Statement, ...]


class ScheduleDeclaration(Statement, rule="schedule"):
    """`schedule s on t { ... }`."""

    name: ex.Identifier
    topology: ex.Expr
    body: tuple[Statement, ...]


class Workload(Statement, rule="workload"):
    """`workload w (tensor: 128) { ... }` or `workload w from "f.txt" (...)`."""

    name: ex.Identifier
    path: ex.StringLiteral | None
    arguments: tuple[ex.Argument, ...]
    body: tuple[Statement, ...]


class PriceTable(Statement, rule="prices"):
    """`prices libra_lowest { ... }`."""

    name: ex.Identifier
    body: tuple[Statement, ...]


class Design(Statement, rule="design"):
    """`design d on t { ... }`."""

    name: ex.Identifier
    topology: ex.Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A whole file."""

    source: SourceFile
    statements: tuple[Statement, ...]
