"""Elaboration of designs: their workloads, constraints, objective and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.base.resources import standard_library
from collc.base.wording import did_you_mean, phrase
from collc.graph.coordinates import with_axes
from collc.source.elaboration.file_context import FileContext, ProgramContext
from collc.source.elaboration.requests import emit_request
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.training import WorkloadBuilder
from collc.source.elaboration.values import Frame
from collc.source.imports import load_source_files
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Argument, Binary, Call, Comparison, Expr, Identifier, Index, Name, Unary
from collc.source.problems import AlreadyReported, check_single, fail, unknown_name_error
from collc.source.program import Deadline, DesignRequest, EmitRequest, RequiredConstraint, TrainedWorkload
from collc.source.types import FLOAT, NUMBERS, RATE, TIME, TOPOLOGY, Kind, Type, binary_type
from collc.ten.training import TIERS, Constraint, Linear, PartCosts, Workload, group_parts

PARTS: Final = ("link", "switch", "nic")
PRICE_EXAMPLE: Final = "price inter_pod (link: 7.8, switch: 18, nic: 31.6)"

DEFAULT_TABLE: Final = "libra_lowest"
"""The table of `std.prices` for tiers whose prices a design leaves out."""


Coefficients = NDArray[Any]
"""Fractions: the factors of the bandwidths of all dimensions, the factor of the cost, and what is added to these."""


@dataclass(eq=False)
class DesignBuilder:
    """Elaborates one design.

    workloads, tables: what the file declares, by name. The other fields are of the statements that were elaborated so
    far; network: of the topology, with its dimensions.
    """

    node: s.Design
    context: FileContext
    workloads: dict[str, Workload]
    tables: dict[str, dict[str, PartCosts]]
    trained: list[TrainedWorkload] = field(default_factory=list[TrainedWorkload])
    constraints: list[RequiredConstraint] = field(default_factory=list[RequiredConstraint])
    deadlines: list[Deadline] = field(default_factory=list[Deadline])
    objective: s.Minimize | None = None
    tiers: s.Tiers | None = None
    table: s.PricedBy | None = None
    prices: dict[str, PartCosts] = field(default_factory=dict[str, PartCosts])
    emits: list[EmitRequest] = field(default_factory=list[EmitRequest])

    def build(self) -> DesignRequest:
        """The request of the design. Raises SourceError, or AlreadyReported for errors of its statements."""
        node, name, context = self.node, self.node.name, self.context
        self.topology: Topology = context.coerce(node.topology, context.root, TOPOLOGY, "the topology of a design").data
        self.network = with_axes(self.topology.network, self.topology.kind)
        if len(self.network.npus) < self.network.npu_count:
            self.network = replace(self.network, axes=())
        self.dimensions = max(1, len(self.network.axes))
        context.run_body(node.body, self.statement)
        if not self.trained:
            raise fail("E0909", f"design '{name.name}' trains nothing", name.span, hint="add: train gpt3")
        if self.objective is None:
            raise fail("E0910", f"design '{name.name}' has no objective", name.span, hint="add: minimize time")
        return DesignRequest(
            name=name.name,
            span=node.span,
            network=self.network,
            network_span=node.topology.span,
            kind=self.topology.kind,
            train=tuple(self.trained),
            constraints=tuple(self.constraints),
            deadlines=tuple(self.deadlines),
            objective=_objective(self.objective.objective),
            objective_span=self.objective.span,
            tiers=tuple(n.name for n in self.tiers.names) if self.tiers else (),
            prices={**default_prices(), **self.stated_table(), **self.prices},
            emits=tuple(self.emits),
        )

    def statement(self, node: s.Statement, frame: Frame) -> None:
        """Elaborate a statement of the body. Raises SourceError."""
        match node:
            case s.Train():
                self.trained.append(self.train(node, frame))
            case s.Require():
                deadline = self.deadline(node, frame)
                if deadline is None:
                    self.constraints += self.linear_constraints(node, frame)
                else:
                    self.deadlines.append(deadline)
            case s.Minimize():
                check_single(self.objective, node, "E0910", "a design has one objective")
                _objective(node.objective)
                self.objective = node
            case s.Tiers():
                for name in node.names:
                    _check_tier(name)
                if len(node.names) != self.dimensions:
                    message = f"{len(node.names)} tiers for {self.dimensions} dimensions"
                    raise fail("E0913", message, node.span)
                self.tiers = node
            case s.Price():
                _add_price(self.prices, node, frame, self.context)
            case s.PricedBy():
                check_single(self.table, node, "E0913", "a design has one table of prices")
                self.table = node
            case s.Emit():
                self.emits.append(emit_request(node, frame, self.context))
            case _:
                raise AssertionError(node)  # the grammar has no other

    def train(self, node: s.Train, frame: Frame) -> TrainedWorkload:
        """`train gpt3 (weight: 2)`."""
        workload = self.workload(node.workload)
        npus = len(self.network.npus)
        if workload.tensor * workload.data != npus:
            message = f"'{workload.name}' is for {workload.tensor} x {workload.data} NPUs, the network has {npus:,}"
            raise fail("E0912", message, node.workload.span)
        sizes = [axis.size for axis in self.network.axes] or [npus]
        if group_parts(sizes, workload.tensor) is None:
            message = f"the {workload.tensor} NPUs of 'tensor' do not fit dimensions of {phrase(map(str, sizes))} NPUs"
            hint = "the group takes whole dimensions from the first on, and of one more a part that divides it"
            raise fail("E0916", message, node.workload.span, hint=hint)
        weight = Fraction(1)
        for argument in node.arguments:
            if argument.key != "weight":
                message, hint = "the only argument of 'train' is 'weight'", "train gpt3 (weight: 2)"
                raise fail("E0909", message, argument.span, hint=hint)
            weight = Fraction(self.context.coerce(argument.value, frame, FLOAT, "a weight").data)
            if weight <= 0:
                raise fail("E0909", "a weight must be more than 0", argument.value.span)
        return TrainedWorkload(workload, weight, node.span)

    def workload(self, name: Identifier) -> Workload:
        """The workload of that name, of this file or of one that it imports."""
        declaration = self.context.file.get("workload", name)
        assert isinstance(declaration.node, s.Workload)
        if declaration.file is not self.context.file:
            return WorkloadBuilder(declaration.node, self.context.program.context(declaration.file)).build()
        if name.name not in self.workloads:
            raise AlreadyReported
        return self.workloads[name.name]

    def stated_table(self) -> dict[str, PartCosts]:
        """The table that the design names, of this file or of one that it imports; {} if it names none."""
        if self.table is None:
            return {}
        name = self.table.table
        declaration = self.context.file.get("price table", name)
        assert isinstance(declaration.node, s.PriceTable)
        if declaration.file is not self.context.file:
            return table_prices(declaration.node, self.context.program.context(declaration.file))
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

    def linear_constraints(self, statement: s.Require, frame: Frame) -> list[RequiredConstraint]:
        """The constraints of `bandwidth[3] <= 50GB/s`; a chain of comparisons gives several."""
        node = statement.constraint
        if not isinstance(node, Comparison):
            hint = "require bandwidth[0] >= 10GB/s"
            raise fail("E0914", "a constraint must compare bandwidths or the cost", node.span, hint=hint)
        sides = [self.linear(operand, frame) for operand in node.operands]
        constraints: list[RequiredConstraint] = []
        for k, operator in enumerate(node.operators):
            if operator not in ("<=", "==", ">="):
                hint = f"write {operator}=" if operator in "<>" else ""
                raise fail("E0914", f"a constraint takes <=, == or >=, not {operator}", node.span, hint=hint)
            (left_type, left), (right_type, right) = sides[k], sides[k + 1]
            if left_type.kind is not right_type.kind and not {left_type.kind, right_type.kind} <= NUMBERS:
                place = node.operands[k].span.to(node.operands[k + 1].span)
                raise fail("E0210", f"'{operator}' is not defined for {left_type} and {right_type}", place)
            *bandwidth, cost, constant = left - right
            if not any(bandwidth) and not cost:
                raise fail("E0914", "this constraint contains neither a bandwidth nor the cost", node.span)
            constraint = Constraint(Linear(tuple(bandwidth), cost, constant), operator)
            constraints.append(RequiredConstraint(constraint, statement.span))
        return constraints

    def linear(self, node: Expr, frame: Frame) -> tuple[Type, Coefficients]:
        """The type and the coefficients of an expression that is linear in the bandwidths and the cost."""
        of_cost, of_one = self.dimensions, self.dimensions + 1
        coefficients = np.full(self.dimensions + 2, Fraction(0), object)
        match node:
            case Index(base=Name(name="bandwidth"), indices=(index,)):
                number = self.context.whole_number(index, frame, "a dimension")
                if not 0 <= number < self.dimensions:
                    last = self.dimensions - 1
                    message = f"there is no dimension {number}: '{self.topology.name}' has 0 .. {last}"
                    raise fail("E0915", message, index.span)
                kind, coefficients[number] = RATE, Fraction(1)
            case Call(function=Identifier(name="sum"), arguments=(Argument(value=Name(name="bandwidth")),)):
                kind, coefficients[:of_cost] = RATE, Fraction(1)
            case Name(name="cost"):
                kind, coefficients[of_cost] = FLOAT, Fraction(1)
            case Unary(operator="-"):
                kind, coefficients = self.linear(node.operand, frame)
                coefficients = -coefficients
            case Binary(operator="+" | "-" | "*" | "/"):
                return self.binary(node, frame)
            case _:
                value = self.context.value(node, frame)
                kind = value.type
                if kind.kind not in NUMBERS | {Kind.RATE} or value.data is None:
                    raise fail("E0914", f"a constraint compares rates or costs, not {kind}", node.span)
                coefficients[of_one] = Fraction(value.data)
        return kind, coefficients

    def binary(self, node: Binary, frame: Frame) -> tuple[Type, Coefficients]:
        """A sum, or a product with a number."""
        (left_type, left), (right_type, right) = self.linear(node.left, frame), self.linear(node.right, frame)
        kind = binary_type(node, left_type, right_type)
        match node.operator:
            case "+" | "-":
                return kind, left + right if node.operator == "+" else left - right
            case "*" if not any(left[:-1]):
                return kind, right * left[-1]
            case "*" if not any(right[:-1]):
                return kind, left * right[-1]
            case "/" if not any(right):
                raise fail("E0217", "division by zero", node.span)
            case "/" if not any(right[:-1]):
                return kind, left / right[-1]
            case _:
                message = "a constraint must be linear: without products of bandwidths or the cost"
                raise fail("E0914", message, node.span)


def _objective(node: Expr) -> str:
    """`time`, `cost` or `time * cost`. Raises SourceError."""
    match node:
        case Name(name="time" | "cost"):
            return node.name
        case Binary(operator="*", left=Name(name=left), right=Name(name=right)) if {left, right} == {"time", "cost"}:
            return "time * cost"
        case _:
            raise fail("E0910", "the objective of a design is time, cost or time * cost", node.span)


# Prices


def table_prices(node: s.PriceTable, context: FileContext) -> dict[str, PartCosts]:
    """The prices of the tiers of a table. Raises SourceError, or AlreadyReported for errors of its statements."""
    prices: dict[str, PartCosts] = {}

    def statement(inner: s.Statement, frame: Frame) -> None:
        assert isinstance(inner, s.Price)
        _add_price(prices, inner, frame, context)

    context.run_body(node.body, statement)
    if not prices:
        raise fail("E0913", f"table '{node.name.name}' has no prices", node.name.span, hint=f"add: {PRICE_EXAMPLE}")
    return prices


def _add_price(prices: dict[str, PartCosts], node: s.Price, frame: Frame, context: FileContext) -> None:
    """`price inter_pod (link: 7.8, switch: 18, nic: 31.6)`: dollars per GB/s; parts that are left out are free.

    Raises SourceError E0913.
    """
    _check_tier(node.tier)
    if node.tier.name in prices:
        raise fail("E0913", f"the prices of '{node.tier.name}' are given twice", node.tier.span)
    given: dict[str, Fraction] = {}
    for argument in node.arguments:
        name = argument.key
        if name not in PARTS or name in given:
            hint = did_you_mean(name, PARTS, PRICE_EXAMPLE)
            raise fail("E0913", "a price is that of a link, a switch or a nic, each once", argument.span, hint=hint)
        given[name] = Fraction(context.coerce(argument.value, frame, FLOAT, "a price").data)
        if given[name] < 0:
            raise fail("E0913", "a price must not be negative", argument.value.span)
    if not given.get("link"):
        raise fail("E0913", "the price of a link must be more than 0", node.span)
    prices[node.tier.name] = PartCosts(**given)


def _check_tier(name: Identifier) -> None:
    """Raise SourceError E0913 if there is no such tier."""
    if name.name not in TIERS:
        raise unknown_name_error("E0913", "tier", name.name, TIERS, name.span)


@cache
def default_prices() -> Mapping[str, PartCosts]:
    """The prices of all tiers in the default table of the standard library. Not to be changed."""
    context = ProgramContext().context(load_source_files(standard_library()["prices"]).main)
    (node,) = context.file.look_up("price table", DEFAULT_TABLE)
    assert isinstance(node, s.PriceTable)
    return table_prices(node, context)
