"""The syntax tree of statements and declarations: one class for each form, each with its span in the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from collc.base.diagnostics import SourceFile
from collc.source.parsing.expressions import (
    Argument,
    Call,
    Expr,
    ForClause,
    Identifier,
    Index,
    Name,
    Node,
    Star,
    StringLiteral,
)

if TYPE_CHECKING:
    from collc.ten.arrays import Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class Statement(Node):
    """A statement of a file or of a body."""


@dataclass(frozen=True, slots=True, eq=False)
class Let(Statement):
    """`let n = 8`; at the top and in every body."""

    name: Identifier
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class For(Statement):
    """`for i in r, j in q if c { ... }`."""

    clauses: tuple[ForClause, ...]
    condition: Expr | None
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If(Statement):
    """`if c { ... } else { ... }`; `else if` is an If alone in `otherwise`."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


# Bodies of topologies


@dataclass(frozen=True, slots=True, eq=False)
class DeviceDeclaration(Statement):
    """`npu gpu[2, 8] (...) labels [...]` or `switch s[2] (...)`; kind: "npu" or "switch"."""

    kind: str
    name: Identifier
    shape: tuple[Expr, ...]
    attributes: tuple[Argument, ...]
    labels: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class LinkDeclaration(Statement):
    """`link a -> b (...)`; both: `<->`."""

    source: Expr
    target: Expr
    both: bool
    attributes: tuple[Argument, ...]


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


@dataclass(frozen=True, slots=True, eq=False)
class LinkTable(Statement):
    """Many successive lines `link a -> b (...)`, parsed as a table (see tables.py). lines: their number."""

    forms: tuple[LinkForm, ...]
    lines: int


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTable(Statement):
    """Many successive lines `npu a (...)` that differ in the name only. device: one of them."""

    device: DeviceDeclaration
    names: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class ChangedDevice(Node):
    """`npu gpu[0, *] (inject: r)` or `switch s (buffer: 4)` in `with`: devices that are there, or a declaration."""

    kind: str
    device: Expr
    attributes: tuple[Argument, ...]
    labels: Expr | None

    @property
    def declaration(self) -> DeviceDeclaration | None:
        """The same as a declaration of new devices; None where it cannot be one, as `gpu[0, *]`."""
        name = self.device.base if isinstance(self.device, Index) else self.device
        shape = self.device.indices if isinstance(self.device, Index) else ()
        if not isinstance(name, Name) or any(isinstance(size, Star) for size in shape):
            return None
        return DeviceDeclaration(
            self.span, self.kind, Identifier(name.span, name.name), shape, self.attributes, self.labels
        )


@dataclass(frozen=True, slots=True, eq=False)
class ChangedLink(Node):
    """`link a <-> b (bandwidth: r) lanes 1 for i in 0..4` in `with`; both: `<->`.

    lanes: how many of parallel links; None for all.
    """

    source: Expr
    target: Expr
    both: bool
    attributes: tuple[Argument, ...]
    lanes: Expr | None
    loop: ForClause | None


@dataclass(frozen=True, slots=True, eq=False)
class With(Expr):
    """`t with { npu spare, link spare <-> leaf[3] (bandwidth: 50GB/s, latency: 2us) }`."""

    base: Expr
    parts: tuple[ChangedDevice | ChangedLink, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LinkMatrix(Statement):
    """`links [[0, 2], [1, 0]] (...)`."""

    matrix: Expr
    attributes: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Use(Statement):
    """`use dgx(8) as node[4] labels "host[1-4]"`."""

    topology: Expr
    name: Identifier
    shape: tuple[Expr, ...]
    labels: Expr | None


# Bodies of collectives and algorithms


@dataclass(frozen=True, slots=True, eq=False)
class ChunkReference(Node):
    """`x[i, c]` or `partial`."""

    name: Identifier
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkDeclaration(Statement):
    """`chunk x[i, c]: size / n`."""

    chunk: ChunkReference
    size: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Precondition(Statement):
    """`pre x[i, c] at g[i]`; place: an npu, a group or a set of NPUs."""

    chunk: ChunkReference
    place: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Postcondition(Statement):
    """`post x at S`, `post sum(x) at S`, `post reduce(x, op) at S`.

    reduction: None for a copy, a StringLiteral for `sum(x)`, the expression of `op` for `reduce(x, op)`.
    """

    chunk: ChunkReference
    reduction: Expr | None
    place: Expr


@dataclass(frozen=True, slots=True, eq=False)
class TransferStatement(Statement):
    """`send x[i] from a to b at s` or `reduce ...`; kind: "send" or "reduce"; step None without `at`."""

    kind: str
    chunk: ChunkReference
    source: Expr
    target: Expr
    step: Expr | None


# Bodies of schedules


@dataclass(frozen=True, slots=True, eq=False)
class RunStatement(Statement):
    """`run all_reduce(dp, size: 1GiB) using hierarchical(shape: [8, 4])`.

    arguments: of the algorithm, for parameters that the collective does not have; the parentheses may be left out.
    """

    collective: Call
    using: Identifier | None
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Synthesize(Statement):
    """`synthesize tacos(seed: 7)`; the parentheses may be left out."""

    synthesizer: Identifier
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Verify(Statement):
    """`verify optimal, time <= 2ms`: each a Name or a Comparison over `time`, `steps`, `bound`."""

    checks: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Emit(Statement):
    """`emit msccl("f.xml", instances: 2)`; the parentheses may be left out."""

    kind: Identifier
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Allow(Statement):
    """`allow congestion`."""

    what: Identifier


# Bodies of workloads and designs


@dataclass(frozen=True, slots=True, eq=False)
class Repeat(Statement):
    """`repeat 24 { ... }`."""

    count: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LayerCollective(Node):
    """`forward tensor all_reduce 64MiB`: phase, group, collective, size."""

    phase: Identifier
    group: Identifier
    collective: Identifier
    size: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Layer(Statement):
    """`layer (forward: 1.5ms, ...) { ... }`."""

    times: tuple[Argument, ...]
    collectives: tuple[LayerCollective, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Statement):
    """`loop tp_dp_overlap`, or the time of an iteration from those of layers: `loop max(sum(forward_compute), ...)`."""

    time: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Train(Statement):
    """`train gpt3 (weight: 2)`."""

    workload: Identifier
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Require(Statement):
    """`require bandwidth[3] <= 50GB/s`."""

    constraint: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Minimize(Statement):
    """`minimize time * cost`."""

    objective: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Tiers(Statement):
    """`tiers [inter_chiplet, inter_pod]`."""

    names: tuple[Identifier, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Price(Statement):
    """`price inter_pod (link: 7.8, switch: 18, nic: 31.6)`."""

    tier: Identifier
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PricedBy(Statement):
    """`prices libra_lowest` in a design."""

    table: Identifier


# Declarations


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Node):
    """`nvlink: rate = 300GB/s` of a template, collective or algorithm; type None where left out."""

    name: Identifier
    type: Identifier | None
    default: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Import(Statement):
    """`import std.topologies` (path None) or `import "pod.coll"` (module None)."""

    module: str | None
    path: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Param(Statement):
    """`param nodes: int = 2`; a param without a default must be given with `-D`."""

    name: Identifier
    type: Identifier | None
    default: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class TopologyTemplate(Statement):
    """`topology dgx(nodes: int) { ... }`; parameters None where written without parentheses."""

    name: Identifier
    parameters: tuple[Parameter, ...] | None
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TopologyInstance(Statement):
    """`topology t = dgx(3)`."""

    name: Identifier
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Group(Statement):
    """`group g = t.gpu[0, *]`, `group tp[n in 0..4] = t.gpu[n, *]`; clauses: () for a single group."""

    name: Identifier
    clauses: tuple[ForClause, ...]
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Collective(Statement):
    """`collective c(g: group, size: bytes) { ... }`."""

    name: Identifier
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Algorithm(Statement):
    """`algorithm a(...) implements c(...) { ... }`."""

    name: Identifier
    parameters: tuple[Parameter, ...]
    implements: Call
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleDeclaration(Statement):
    """`schedule s on t { ... }`."""

    name: Identifier
    topology: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Workload(Statement):
    """`workload w (tensor: 128) { ... }` or `workload w from "f.txt" (...)`."""

    name: Identifier
    path: StringLiteral | None
    arguments: tuple[Argument, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PriceTable(Statement):
    """`prices libra_lowest { ... }`."""

    name: Identifier
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Design(Statement):
    """`design d on t { ... }`."""

    name: Identifier
    topology: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A whole file."""

    source: SourceFile
    statements: tuple[Statement, ...]
