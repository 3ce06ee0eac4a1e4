"""The formulas of a chunk that is reduced: which contributions each device holds when."""

from __future__ import annotations

from collections import defaultdict

from collc.smt.context import EncodingContext, PossibleTransfer
from collc.smt.problem import ChunkGoal, SwitchRule
from collc.smt.script import all_of, any_of
from collc.smt.switches import SlotFormulas, SwitchSumFormulas


class ReductionFormulas:
    """The formulas of one chunk that is reduced. transfers: all that may carry it.

    has: by device that is no switch with formulas of its own, for each time, a term for each contribution. passed: by
    name of a departure from a switch, a term for each contribution.
    """

    def __init__(
        self, context: EncodingContext, chunk: int, goal: ChunkGoal, transfers: list[PossibleTransfer]
    ) -> None:
        self.context, self.script = context, context.script
        self.problem, self.chunk, self.goal, self.transfers = context.problem, chunk, goal, transfers
        self.holders = sorted(goal.pre)
        self.into: dict[int, dict[int, list[PossibleTransfer]]] = defaultdict(lambda: defaultdict(list))
        self.out_of: dict[int, list[PossibleTransfer]] = defaultdict(list)
        for transfer in transfers:
            edge = context.edge(transfer)
            self.into[edge.target][transfer.arrival].append(transfer)
        self.has: dict[int, list[list[str]]] = {}
        self.passed: dict[str, list[str]] = {}
        self.slots: dict[int, SlotFormulas] = {}
        self.switch_sums: dict[int, SwitchSumFormulas] = {}
        for switch in self.problem.rules:
            self._begin_switch(switch)
        for transfer in transfers:
            if context.edge(transfer).source in self.slots or context.edge(transfer).source in self.switch_sums:
                self.out_of[transfer.start].append(transfer)

    def _begin_switch(self, switch: int) -> None:
        network, context = self.problem.network, self.context
        if not network.reduces[switch - network.npu_count]:
            self.slots[switch] = SlotFormulas(context, switch, partials=not context.relaxed)
        elif not context.relaxed:
            name, rule = f"w_{self.chunk}_{switch}", self.problem.rules[switch]
            self.switch_sums[switch] = SwitchSumFormulas(
                self.script, context.times, name, len(self.holders), self._terms_of, rule
            )

    def add(self) -> None:
        """Add all formulas to the script."""
        if not self.context.relaxed:
            for transfer in self.transfers:
                self.script.declare(transfer.reduces)
        self._add_contributions()
        for transfer in self.transfers:
            self._add_sent(transfer)
        if not self.context.relaxed:
            self._add_once()
        for switch, slots in self.slots.items():
            slots.finish(self.context.occupied[switch])
        for switch, rule in self.problem.rules.items():
            if rule is SwitchRule.ONCE:
                coming = [transfer for transfers in self.into[switch].values() for transfer in transfers]
                leaving = [transfer for transfer in self.transfers if self.context.edge(transfer).source == switch]
                self.context.require_arrivals(leaving, coming, rule, len(leaving))
        for npu in sorted(self.goal.post):
            self.script.require(all_of(self.has[npu][-1]))

    def _add_once(self) -> None:
        """No contribution arrives twice, and none is lost in a switch."""
        for device, arrivals in self.into.items():
            for time, transfers in arrivals.items():
                if device in self.slots:
                    self._add_leaves_once(self.slots[device], transfers)
                elif device not in self.switch_sums:
                    self._add_disjoint(device, time, transfers)

    def _add_contributions(self) -> None:
        """What every device holds, time after time: contributions are never lost."""
        first = [self.problem.distances(self.goal, [i], backward=False) for i in self.holders]
        network = self.problem.network
        for npu in (d for d in range(network.device_count) if d not in self.slots and d not in self.switch_sums):
            self.has[npu] = [["true" if i == npu else "false" for i in self.holders]]
        for time in range(len(self.context.times)):
            if time:
                for npu, column in self.has.items():
                    column.append(self._held_terms(npu, time, column[-1], first))
            for switch, total in self.switch_sums.items():
                if coming := self.into[switch].get(time, []):
                    total.arrive(time, coming)
            for transfer in sorted(self.out_of[time], key=lambda transfer: self.context.edge(transfer).links):
                self._add_departure(transfer)
            for total in self.switch_sums.values():
                total.end_time(time)

    def _held_terms(self, npu: int, time: int, before: list[str], first: list[dict[int, int]]) -> list[str]:
        """What an NPU holds at a time: what it held before, and what arrives."""
        coming = self.into[npu].get(time, [])
        row = list(before)
        for number, had in enumerate(before):
            reachable = self.context.times.at[time] >= first[number].get(npu, self.context.until + 1)
            if not coming or had == "true" or not reachable:
                continue
            brought = [
                f"(and {transfer.name} {term})"
                for transfer in coming
                if (term := self._terms_of(transfer)[number]) != "false"
            ]
            if not brought:
                continue
            name = f"b_{self.chunk}_{npu}_{self.holders[number]}_{time}"
            row[number] = self.script.define(name, "Bool", any_of([*brought, *([had] if had != "false" else [])]))
        return row

    def _add_departure(self, transfer: PossibleTransfer) -> None:
        """A switch sends what arrived before: one arrival, or several that it has added up."""
        switch = self.context.edge(transfer).source
        if switch in self.switch_sums:
            self.passed[transfer.name] = self.switch_sums[switch].depart(transfer)
            return
        there = [a for time, arrivals in self.into[switch].items() if time <= transfer.start for a in arrivals]
        parts: list[list[str]] = [[] for _ in self.holders]
        for name, arrival in zip(self.slots[switch].add_departure(transfer, there).values(), there, strict=True):
            for formula, term in zip(parts, self._terms_of(arrival), strict=True):
                if term != "false":
                    formula.append(f"(and {name} {term})")
        self.passed[transfer.name] = [
            self.script.define(f"v{transfer.name[1:]}_{i}", "Bool", any_of(formula))
            for i, formula in zip(self.holders, parts, strict=True)
        ]

    def _terms_of(self, transfer: PossibleTransfer) -> list[str]:
        """For each contribution, the term that is true if a transfer brings it."""
        source = self.context.edge(transfer).source
        return self.has[source][transfer.start] if source in self.has else self.passed[transfer.name]

    def _add_sent(self, transfer: PossibleTransfer) -> None:
        """A transfer carries something, and the whole sum unless the receiver combines it."""
        value = self._terms_of(transfer)
        self.script.require(f"(=> {transfer.name} {any_of(term for term in value if term != 'false')})")
        if not self.context.relaxed:
            self.script.require(f"(=> (and {transfer.name} (not {transfer.reduces})) {all_of(value)})")

    def _add_disjoint(self, npu: int, time: int, transfers: list[PossibleTransfer]) -> None:
        """What is combined has no contribution that the NPU holds, or that arrives at the same time."""
        before = self.has[npu][time - 1]
        for transfer in transfers:
            brings, combined = self._terms_of(transfer), f"(and {transfer.name} {transfer.reduces})"
            self._require_disjoint(combined, brings, before)
            for other in transfers:
                if other is not transfer:
                    self._require_disjoint(f"(and {combined} {other.name})", brings, self._terms_of(other))

    def _require_disjoint(self, condition: str, left: list[str], right: list[str]) -> None:
        for a, b in zip(left, right, strict=True):
            if "false" not in (a, b):
                self.script.require(f"(not {all_of([condition, *(term for term in (a, b) if term != 'true')])})")

    def _add_leaves_once(self, slots: SlotFormulas, transfers: list[PossibleTransfer]) -> None:
        """A partial leaves a switch that does not reduce, and leaves it once."""
        for transfer in transfers:
            taken = [name for name, _ in slots.read[transfer.name]]
            self.script.require(f"(=> (and {transfer.name} {transfer.reduces}) {any_of(taken)})")
            self.script.at_most(1, taken, unless=f"(not {transfer.reduces})")
