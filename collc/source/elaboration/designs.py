"""Elaboration of designs: their workloads, constraints and objective."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import Note
from collc.base.wording import listed
from collc.graph.dimensions import with_axes
from collc.source.elaboration.file_context import FileContext
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.prices import add_price, check_tier, default_prices, table_prices
from collc.source.elaboration.schedules import emit_request
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.training import WorkloadBuilder
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Argument, Binary, Call, Comparison, Expr, Identifier, Index, Name, Unary
from collc.source.parsing.syntax import Workload as WorkloadNode
from collc.source.problems import AlreadyReported, fail
from collc.source.program import Deadline, DesignRequest, EmitRequest, RequiredConstraint, TrainedWorkload
from collc.source.types import FLOAT, NUMBERS, RATE, TIME, TOPOLOGY, Kind, Type, binary_type
from collc.ten.network import Network
from collc.ten.training import Constraint, Linear, PartCosts, Workload, group_parts

OBJECTIVES: Final = ("time", "cost", "time * cost")


@dataclass(eq=False)
class _DesignDraft:
    """The statements of a design that were elaborated so far. network: of the topology, with its dimensions."""

    topology: Topology
    network: Network
    train: list[TrainedWorkload] = field(default_factory=list[TrainedWorkload])
    constraints: list[RequiredConstraint] = field(default_factory=list[RequiredConstraint])
    deadlines: list[Deadline] = field(default_factory=list[Deadline])
    objective: s.Minimize | None = None
    tiers: s.Tiers | None = None
    table: s.PricedBy | None = None
    prices: dict[str, PartCosts] = field(default_factory=dict[str, PartCosts])
    emits: list[EmitRequest] = field(default_factory=list[EmitRequest])


class DesignBuilder:
    """Elaborates one design. workloads, tables: what the file declares, by name."""

    def __init__(
        self,
        node: s.Design,
        context: FileContext,
        workloads: dict[str, Workload],
        tables: dict[str, dict[str, PartCosts]],
    ) -> None:
        self.node = node
        self.context = context
        self.workloads = workloads
        self.tables = tables

    def build(self) -> DesignRequest:
        """The request of the design. Raises SourceError or AlreadyReported; errors of statements go to `problems`."""
        node = self.node
        value = self.context.coerce(node.topology, self.context.root, TOPOLOGY, "the topology of a design")
        topology: Topology = value.data
        network = _with_dimensions(topology)
        self.draft = _DesignDraft(topology, network)
        self.dimensions = max(1, len(network.axes))
        self.context.run_body(node.body, self.statement)
        if not self.draft.train:
            raise fail("E0909", f"design '{node.name.name}' trains nothing", node.name.span, hint="add: train gpt3")
        if self.draft.objective is None:
            raise fail(
                "E0910", f"design '{node.name.name}' has no objective", node.name.span, hint="add: minimize time"
            )
        return DesignRequest(
            name=node.name.name,
            span=node.span,
            network=network,
            network_span=node.topology.span,
            kind=topology.kind,
            train=tuple(self.draft.train),
            constraints=tuple(self.draft.constraints),
            deadlines=tuple(self.draft.deadlines),
            objective=_objective(self.draft.objective.objective),
            objective_span=self.draft.objective.span,
            tiers=tuple(n.name for n in self.draft.tiers.names) if self.draft.tiers else (),
            prices=self.prices(),
            emits=tuple(self.draft.emits),
        )

    def statement(self, node: s.Statement, frame: Frame) -> None:
        """Elaborate a statement of the body. Raises SourceError."""
        match node:
            case s.Train():
                self.draft.train.append(self.train(node, frame))
            case s.Require():
                deadline = self.deadline(node, frame)
                if deadline is not None:
                    self.draft.deadlines.append(deadline)
                    return
                found = self.constraints(node.constraint, frame)
                self.draft.constraints += [RequiredConstraint(constraint, node.span) for constraint in found]
            case s.Minimize():
                if self.draft.objective is not None:
                    first = Note("first here", self.draft.objective.span)
                    raise fail("E0910", "a design has one objective", node.span, first)
                _objective(node.objective)
                self.draft.objective = node
            case s.Tiers():
                self.tiers(node)
            case s.Price():
                add_price(self.draft.prices, node, frame, self.context)
            case s.PricedBy():
                if self.draft.table is not None:
                    first = Note("first here", self.draft.table.span)
                    raise fail("E0913", "a design has one table of prices", node.span, first)
                self.draft.table = node
            case s.Emit():
                self.draft.emits.append(emit_request(node, frame, self.context))
            case _:
                raise AssertionError(node)  # the grammar has no other

    def train(self, node: s.Train, frame: Frame) -> TrainedWorkload:
        """`train gpt3 (weight: 2)`."""
        workload = self.workload(node.workload)
        npus = len(self.draft.network.npus)
        if workload.tensor * workload.data != npus:
            message = f"'{workload.name}' is for {workload.tensor} x {workload.data} NPUs, the network has {npus:,}"
            raise fail("E0912", message, node.workload.span)
        sizes = [axis.size for axis in self.draft.network.axes] or [npus]
        if group_parts(sizes, workload.tensor) is None:
            message = f"the {workload.tensor} NPUs of 'tensor' do not fit dimensions of {listed(map(str, sizes))} NPUs"
            hint = "the group takes whole dimensions from the first on, and of one more a part that divides it"
            raise fail("E0916", message, node.workload.span, hint=hint)
        weight = Fraction(1)
        for argument in node.arguments:
            weight = self.weight(argument, frame)
        return TrainedWorkload(workload, weight, node.span)

    def workload(self, name: Identifier) -> Workload:
        """The workload of that name, of this file or of one that it imports."""
        found = self.context.file.get("workload", name)
        workload = self.workloads.get(name.name) if found.file is self.context.file else None
        if workload is None and found.file is not self.context.file and isinstance(found.node, WorkloadNode):
            workload = WorkloadBuilder(found.node, self.context.program.context(found.file)).build()
        if workload is None:
            raise AlreadyReported
        return workload

    def weight(self, argument: Argument, frame: Frame) -> Fraction:
        """`weight: 2`."""
        if argument.name is None or argument.name.name != "weight":
            raise fail(
                "E0909", "the only argument of 'train' is 'weight'", argument.span, hint="train gpt3 (weight: 2)"
            )
        weight = Fraction(self.context.coerce(argument.value, frame, FLOAT, "a weight").data)
        if weight <= 0:
            raise fail("E0909", "a weight must be more than 0", argument.value.span)
        return weight

    def tiers(self, node: s.Tiers) -> None:
        """`tiers [inter_chiplet, inter_pod]`."""
        for name in node.names:
            check_tier(name)
        if len(node.names) != self.dimensions:
            message = f"{len(node.names)} tiers for {self.dimensions} dimensions"
            raise fail("E0913", message, node.span)
        self.draft.tiers = node

    def prices(self) -> dict[str, PartCosts]:
        """The prices of all tiers: those that the design states, else of its table, else of the default one."""
        node = self.draft.table
        table = {} if node is None else self.table(node.table)
        return {**default_prices(), **table, **self.draft.prices}

    def table(self, name: Identifier) -> dict[str, PartCosts]:
        """The table of that name, of this file or of one that it imports."""
        found = self.context.file.get("price table", name)
        assert isinstance(found.node, s.PriceTable)
        if found.file is not self.context.file:
            return table_prices(found.node, self.context.program.context(found.file))
        if name.name not in self.tables:
            raise AlreadyReported
        return self.tables[name.name]

    # Constraints

    def deadline(self, node: s.Require, frame: Frame) -> Deadline | None:
        """The deadline of `time <= 200ms` or `200ms >= time`; None for other constraints."""
        match node.constraint:
            case Comparison(operands=(Name(name="time"), limit), operators=("<=",)):
                pass
            case Comparison(operands=(limit, Name(name="time")), operators=(">=",)):
                pass
            case Comparison(operands=operands) if any(isinstance(o, Name) and o.name == "time" for o in operands):
                hint = "require time <= 200ms"
                raise fail("E0914", "a constraint can only limit the time from above", node.constraint.span, hint=hint)
            case _:
                return None
        value = Fraction(self.context.coerce(limit, frame, TIME, "a deadline").data)
        if value <= 0:
            raise fail("E0914", "a deadline must be more than 0", limit.span)
        return Deadline(value, node.span)

    def constraints(self, node: Expr, frame: Frame) -> list[Constraint]:
        """The constraints of `bandwidth[3] <= 50GB/s`; a chain of comparisons gives several."""
        if not isinstance(node, Comparison):
            hint = "require bandwidth[0] >= 10GB/s"
            raise fail("E0914", "a constraint must compare bandwidths or the cost", node.span, hint=hint)
        sides = [self.linear(operand, frame) for operand in node.operands]
        found: list[Constraint] = []
        for k, operator in enumerate(node.operators):
            if operator not in ("<=", "==", ">="):
                hint = f"write {operator}=" if operator in "<>" else ""
                raise fail("E0914", f"a constraint takes <=, == or >=, not {operator}", node.span, hint=hint)
            (left_type, left), (right_type, right) = sides[k], sides[k + 1]
            if left_type.kind is not right_type.kind and not {left_type.kind, right_type.kind} <= NUMBERS:
                place = node.operands[k].span.to(node.operands[k + 1].span)
                raise fail("E0210", f"'{operator}' is not defined for {left_type} and {right_type}", place)
            difference = _sum(left, _scale(right, Fraction(-1)))
            if not any(difference.bandwidth) and not difference.cost:
                raise fail("E0914", "this constraint contains neither a bandwidth nor the cost", node.span)
            found.append(Constraint(difference, operator))
        return found

    def linear(self, node: Expr, frame: Frame) -> tuple[Type, Linear]:
        """The type and the coefficients of an expression that is linear in the bandwidths and the cost."""
        zero = (Fraction(0),) * self.dimensions
        match node:
            case Index(base=Name(name="bandwidth"), indices=(index,)):
                return RATE, self.unit(index, frame)
            case Call() if node.function.name == "sum" and _is_bandwidth(node):
                return RATE, Linear((Fraction(1),) * self.dimensions, Fraction(0), Fraction(0))
            case Name(name="cost"):
                return FLOAT, Linear(zero, Fraction(1), Fraction(0))
            case Unary(operator="-"):
                kind, inner = self.linear(node.operand, frame)
                return kind, _scale(inner, Fraction(-1))
            case Binary(operator="+" | "-" | "*" | "/"):
                return self.binary(node, frame)
            case _:
                value = self.context.value(node, frame)
                if value.type.kind not in NUMBERS | {Kind.RATE} or value.data is None:
                    message = f"a constraint compares rates or costs, not {value.type}"
                    raise fail("E0914", message, node.span)
                return value.type, Linear(zero, Fraction(0), Fraction(value.data))

    def unit(self, index: Expr, frame: Frame) -> Linear:
        """`bandwidth[i]`."""
        number = self.context.whole_number(index, frame, "a dimension")
        if not 0 <= number < self.dimensions:
            message = f"there is no dimension {number}: '{self.draft.topology.name}' has 0 .. {self.dimensions - 1}"
            raise fail("E0915", message, index.span)
        chosen = tuple(Fraction(int(k == number)) for k in range(self.dimensions))
        return Linear(chosen, Fraction(0), Fraction(0))

    def binary(self, node: Binary, frame: Frame) -> tuple[Type, Linear]:
        """A sum, or a product with a number."""
        (left_type, left), (right_type, right) = self.linear(node.left, frame), self.linear(node.right, frame)
        kind = binary_type(node.operator, left_type, right_type)
        if kind is None:
            raise fail("E0210", f"'{node.operator}' is not defined for {left_type} and {right_type}", node.span)
        if node.operator in ("+", "-"):
            return kind, _sum(left, right if node.operator == "+" else _scale(right, Fraction(-1)))
        if node.operator == "*" and _constant(left):
            return kind, _scale(right, left.constant)
        if _constant(right):
            if node.operator == "/" and right.constant == 0:
                raise fail("E0217", "division by zero", node.span)
            return kind, _scale(left, right.constant if node.operator == "*" else 1 / right.constant)
        raise fail("E0914", "a constraint must be linear: without products of bandwidths or the cost", node.span)


def _with_dimensions(topology: Topology) -> Network:
    """The network of a topology with its dimensions as `axes`; if NPUs are removed, it has none."""
    network = with_axes(topology.network, topology.kind)
    return network if len(network.npus) == network.npu_count else replace(network, axes=())


def _is_bandwidth(node: Call) -> bool:
    arguments = node.arguments
    return len(arguments) == 1 and isinstance(arguments[0].value, Name) and arguments[0].value.name == "bandwidth"


def _constant(linear: Linear) -> bool:
    return not any(linear.bandwidth) and not linear.cost


def _scale(linear: Linear, factor: Fraction) -> Linear:
    return Linear(tuple(b * factor for b in linear.bandwidth), linear.cost * factor, linear.constant * factor)


def _sum(a: Linear, b: Linear) -> Linear:
    bandwidth = tuple(x + y for x, y in zip(a.bandwidth, b.bandwidth, strict=True))
    return Linear(bandwidth, a.cost + b.cost, a.constant + b.constant)


def _objective(node: Expr) -> str:
    """`time`, `cost` or `time * cost`. Raises SourceError."""
    if isinstance(node, Name) and node.name == "time":
        return OBJECTIVES[0]
    if isinstance(node, Name) and node.name == "cost":
        return OBJECTIVES[1]
    if isinstance(node, Binary) and node.operator == "*":
        names = {n.name for n in (node.left, node.right) if isinstance(n, Name)}
        if names == {"time", "cost"}:
            return OBJECTIVES[2]
    raise fail("E0910", "the objective of a design is time, cost or time * cost", node.span)
