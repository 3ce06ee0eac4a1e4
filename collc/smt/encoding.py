"""The question "is there a schedule whose last chunk arrives by a deadline?" in SMT-LIB, in Booleans (logic QF_UF).

For copies in equal steps the formulas are those of SCCL (PPoPP 2021, section 3). The constants:

- x_c_e_k: chunk c enters edge e at time k of the possible times;
- h_c_n_k: device n holds chunk c at time k (chunks that are copied);
- b_c_n_i_k: what NPU n holds of chunk c at time k has the contribution of NPU i; r_c_e_k: the receiver combines what
  arrives (chunks that are reduced);
- p_c_e_k_c_f_j: what leaves a switch on edge e at time k is what entered edge f at time j.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

from collc.base.units import format_time
from collc.smt.context import EncodingContext, PossibleTransfer, StartTimes
from collc.smt.problem import ChunkGoal, ScheduleProblem, SwitchRule
from collc.smt.reductions import ReductionFormulas
from collc.smt.script import MOST_BYTES, Script, Stopped, all_of, any_of
from collc.smt.switches import SlotFormulas


class DeadlineEncoding:
    """The question whether a schedule ends by `until` (picoseconds).

    relaxed: ask with more freedom than the rules give, so that every right schedule, at whatever times, has its like
    among the answers (see `problem`): a sum may have a contribution twice, any arrival may leave a switch, and buffers
    are limited only if all transfers take equal time.
    rounds: the question is about steps of several rounds (SCCL): each step has one round or more, all steps together at
    most `rounds`, and a link carries one chunk in each round. None: one round a step. Only for problems with a step.
    """

    def __init__(self, problem: ScheduleProblem, until: int, relaxed: bool = False, rounds: int | None = None) -> None:
        self.problem, self.rounds = problem, rounds
        self.times = StartTimes(problem, problem.times(until))
        script = Script(
            "QF_UF",
            f"{len(problem.goals)} chunks within {format_time(until)}, {len(self.times)} times"
            + (", relaxed" if relaxed else ""),
            "x_c_e_k: chunk c enters edge e at time k; r_c_e_k: and is combined with what is there",
            "h_c_n_k: device n holds chunk c at time k; b_c_n_i_k: it has the contribution of i to chunk c",
            "p_c_e_k_c_f_j: what leaves a switch on edge e at time k is what entered edge f at time j",
            *(f"edge {e}: {edge.source} -> {edge.target}" for e, edge in enumerate(problem.edges)),
            "times in picoseconds: " + " ".join(map(str, self.times.at)),
            most=MOST_BYTES // 2,  # Z3 searches, which takes longer than to evaluate a schedule
        )
        self._context = EncodingContext(problem, until, script, self.times, relaxed)

    @property
    def transfers(self) -> dict[str, PossibleTransfer]:
        """The possible transfers, by the names of their constants."""
        return self._context.transfers

    def build(self, stop: Callable[[], bool] = lambda: False) -> str:
        """The text of the question.

        stop: asked after each chunk. Raises Stopped if it returns True, Undecided if the text would be too large.
        """
        for chunk, goal in enumerate(self.problem.goals):
            if stop():
                raise Stopped
            transfers = self._possible_transfers(chunk, goal)
            if goal.reduced:
                ReductionFormulas(self._context, chunk, goal, transfers).add()
            elif not goal.post <= goal.pre:
                _CopyFormulas(self._context, chunk, goal, transfers).add()
        self._add_links()
        self._add_buffers()
        return self._context.script.text()

    def _possible_transfers(self, chunk: int, goal: ChunkGoal) -> list[PossibleTransfer]:
        """All transfers of a chunk that can lie on a path from where it is to where it is wanted, in time."""
        problem, possible = self.problem, list[PossibleTransfer]()
        from_holders = problem.distances(goal, goal.pre, backward=False)
        to_wanted = problem.distances(goal, goal.post, backward=True)
        for number, edge in enumerate(problem.edges):
            if edge.source not in from_holders or edge.target not in to_wanted:
                continue
            if edge.target in goal.pre and not goal.reduced:
                continue
            total = problem.total_of(goal, edge)
            last = self.times.last(self._context.until - total - to_wanted[edge.target])
            for start in range(self.times.first(from_holders[edge.source]), last + 1):
                name = self._context.script.declare(f"x_{chunk}_{number}_{start}")
                arrival = self.times.first(self.times.at[start] + total)
                self.transfers[name] = PossibleTransfer(name, chunk, number, start, arrival)
                possible.append(self.transfers[name])
        return possible

    def _add_links(self) -> None:
        """Never more transfers on an edge than it has links, in each round."""
        more = self._more_rounds()
        on_edge: dict[int, list[PossibleTransfer]] = defaultdict(list)
        for transfer in self.transfers.values():
            on_edge[transfer.edge].append(transfer)
        for number, transfers in on_edge.items():
            links = len(self.problem.edges[number].links)
            done: set[tuple[str, ...]] = set()
            starts = sorted({transfer.start for transfer in transfers})
            for start, names in zip(starts, self.times.on_links(transfers), strict=True):
                if tuple(names) in done:
                    continue
                done.add(tuple(names))
                rounds = more.get(start, [])
                for number_of_rounds, unless in enumerate([*rounds, ""], 1):
                    self._context.script.at_most(links * number_of_rounds, names, unless)

    def _more_rounds(self) -> dict[int, list[str]]:
        """By step: the constants that are true if it has at least 2, 3, ... rounds."""
        script, steps = self._context.script, len(self.times) - 1
        extra = 0 if self.rounds is None else self.rounds - steps
        if extra <= 0:
            return {}
        more = {step: [script.declare(f"more_{step}_{k}") for k in range(extra)] for step in range(steps)}
        for row in more.values():
            for fewer, one_more in pairwise(row):
                script.require(f"(=> {one_more} {fewer})")
        script.at_most(extra, [name for row in more.values() for name in row])
        return more

    def _add_buffers(self) -> None:
        """Never more chunks in a switch than its buffer has slots."""
        network = self.problem.network
        for switch, occupied in self._context.occupied.items():
            for terms in occupied.values():
                self._context.script.at_most(int(network.buffers[switch - network.npu_count]), terms)


class _CopyFormulas:
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
            if self.context.is_limited(device):
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
