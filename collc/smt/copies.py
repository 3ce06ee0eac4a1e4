"""The formulas of a chunk that is copied: which device holds it when."""

from __future__ import annotations

from collections import defaultdict

from collc.smt.context import EncodingContext
from collc.smt.problem import ChunkGoal, SwitchRule
from collc.smt.script import all_of, any_of
from collc.smt.start_times import PossibleTransfer
from collc.smt.switch_slots import SlotFormulas


class CopyFormulas:
    """The formulas of one chunk that is copied. transfers: all that may carry it."""

    def __init__(
        self, context: EncodingContext, chunk: int, goal: ChunkGoal, transfers: list[PossibleTransfer]
    ) -> None:
        self.context, self.script = context, context.script
        self.problem, self.chunk, self.goal = context.problem, chunk, goal
        # A chunk need not leave a switch more often than there are NPUs that it can reach.
        self.most = self.problem.network.npu_count
        self.into: dict[int, list[PossibleTransfer]] = defaultdict(list)
        self.out_of: dict[int, list[PossibleTransfer]] = defaultdict(list)
        for transfer in transfers:
            edge = self.context.edge(transfer)
            self.into[edge.target].append(transfer)
            self.out_of[edge.source].append(transfer)

    def add(self) -> None:
        """Add all formulas to the script."""
        for device in sorted(self.into.keys() | self.out_of.keys()):
            rule = self.problem.rules.get(device, SwitchRule.FREE)
            if device in self.goal.pre:
                continue
            if self.context.limited(device):
                self._add_slots(device, rule)
            elif rule is SwitchRule.FREE:
                self._add_holder(device)
            else:
                self.context.require_arrivals(self.out_of[device], self.into[device], rule, self.most)
        last = len(self.context.times) - 1
        wanted = sorted(self.goal.post - self.goal.pre)
        self.script.require(all_of(f"h_{self.chunk}_{npu}_{last}" if self.into.get(npu) else "false" for npu in wanted))

    def _add_holder(self, device: int) -> None:
        """A device holds the chunk if it held it before or it arrives, and sends it only while it holds it."""
        arriving: dict[int, list[str]] = defaultdict(list)
        for transfer in self.into[device]:
            arriving[transfer.arrival].append(transfer.name)
        times = range(min(arriving), len(self.context.times)) if arriving else range(0)
        for time in times:
            name = self.script.declare(f"h_{self.chunk}_{device}_{time}")
            before = [f"h_{self.chunk}_{device}_{time - 1}"] if time > times.start else []
            self.script.require(f"(=> {name} {any_of([*before, *arriving.get(time, [])])})")
        for transfer in self.out_of[device]:
            held = f"h_{self.chunk}_{device}_{transfer.start}" if transfer.start in times else "false"
            self.script.require(f"(=> {transfer.name} {held})")

    def _add_slots(self, switch: int, rule: SwitchRule) -> None:
        """Each departure from a switch reads an arrival, which occupies a slot of the buffer until then."""
        slots = SlotFormulas(self.context, switch, partials=False)
        leaving, coming = self.out_of[switch], self.into[switch]
        for transfer in sorted(leaving, key=lambda transfer: (transfer.start, self.context.edge(transfer).links)):
            there = [arrival for arrival in coming if arrival.arrival <= transfer.start]
            slots.add_departure(transfer, there)
        slots.finish(self.context.occupied[switch])
        if rule is SwitchRule.ONCE:
            self.context.require_arrivals(leaving, coming, rule, self.most)
