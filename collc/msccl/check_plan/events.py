"""Execution of the waits of a plan, and the happens-before relation of its operations.

Only `nop` (synchronisation of the block) and `barrier` order the operations of a threadblock: all threads execute every
operation, each its own part of the data, so that a signal may leave before the put of another thread. A signal orders
what came before it (and a nop) before what comes after the matching wait (and a nop); a relaxed signal only says that
the program of its sender has begun. A put over a port channel takes place after its operation, before the next
signal of its threadblock on that channel arrives, and before a flush of that channel ends.

One order of events decides for all, since an operation that can run can also run later; except if several
threadblocks wait on one channel or acquire one semaphore. `History.shared_uses` has those, and they must be ordered.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from collc.msccl.check_plan.interpreter import Mailboxes, PlanInterpreter, Semaphore, semaphores_of
from collc.msccl.check_plan.model import FLUSHES, PUTS, WAITS, Channel, Operation, Packet, Plan

Uses = list[tuple[Operation, int]]
"""Operations with their events, in order of execution."""


@dataclass(frozen=True, slots=True)
class SharedUse:
    """Operations of several threadblocks that signal or wait on one channel, or acquire one semaphore.

    kind: "signal", "wait" or "acquire". changing: the events that their order influences: these operations themselves,
    or the releases of the semaphore.
    """

    kind: str
    uses: Uses
    changing: list[int]


@dataclass
class History:
    """The events of one execution.

    before: for each event its direct predecessors. carried: those whose packets it read: they come before it, but what
    came before them is not visible. written, read: the accesses of packets, each with its event. done: operations in
    order of execution, each with the event at which it touches memory. begins, ends: for each gpu the events that its
    program begins and ends. halted: operations that never run, the first of each threadblock that waits forever. left:
    channels with more signals than waits, and the difference. spent: semaphores that do not end at their initial
    values. shared_uses: operations of several threadblocks whose order must not be arbitrary.
    """

    before: list[list[int]] = field(default_factory=list[list[int]])
    carried: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    written: dict[Packet, tuple[int, Operation]] = field(default_factory=dict["Packet", "tuple[int, Operation]"])
    read: dict[Packet, list[tuple[int, Operation]]] = field(default_factory=lambda: defaultdict(list))
    done: list[tuple[Operation, int]] = field(default_factory=list[tuple[Operation, int]])
    begins: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])
    halted: list[Operation] = field(default_factory=list[Operation])
    left: list[tuple[Channel, int]] = field(default_factory=list[tuple[Channel, int]])
    spent: list[Semaphore] = field(default_factory=list[Semaphore])
    shared_uses: list[SharedUse] = field(default_factory=list[SharedUse])


def run_plan(plan: Plan) -> History:
    """Execute all operations that can run; one order decides for all (see above)."""
    return _EventInterpreter(plan).history_of_run()


class _EventInterpreter(PlanInterpreter[list[int]]):
    """Makes events of operations. A signal carries the events that precede the wait for it.

    sync: by threadblock, the events before its last `nop`; since: its events after that. heard: those that its first
    thread, which takes the first channel and the first semaphore of an operation, has waited for since. flying: by
    threadblock and channel, the puts over ports.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, Mailboxes[list[int]](plan))
        self.history: History = History()
        self.history.begins = [self._event([]) for _ in plan.chunks]
        self.sync: list[list[int]] = [[self.history.begins[gpu]] for gpu in plan.gpu_of]
        self.since: list[list[int]] = [[] for _ in plan.threadblocks]
        self.heard: list[list[int]] = [[] for _ in plan.threadblocks]
        self.flying: dict[tuple[int, Channel], list[int]] = defaultdict(list)
        self.initial: dict[Semaphore, int] = dict(self.transport.initial)
        self.released: dict[Semaphore, list[int]] = defaultdict(list)
        self.acquired: dict[Semaphore, int] = defaultdict(int)
        self.acquired_by: dict[tuple[Semaphore, int], int] = defaultdict(int)
        self.users: dict[tuple[str, Semaphore], list[int]] = defaultdict(list)
        self.shared: dict[tuple[str, Channel | Semaphore], Uses] = defaultdict(list)
        for op in (op for ops in plan.threadblocks for op in ops):
            for key in semaphores_of(op):
                self.users[op.name, key].append(op.tb)

    def history_of_run(self) -> History:
        """The events of all operations that can run."""
        history = self.history
        history.halted = self.run()
        for blocks in self.blocks:
            history.ends.append(self._event([e for tb in blocks for e in self.sync[tb] + self.since[tb]]))
        history.left = [(key, len(tokens)) for key, tokens in self.transport.signals.items() if tokens]
        history.spent = [key for key, value in self.initial.items() if self.transport.value(key) != value]
        for (kind, key), uses in self.shared.items():
            if kind != "release" and len({op.tb for op, _ in uses}) > 1:
                given = self.shared.get(("release", key), []) if kind == "acquire" else uses
                history.shared_uses.append(SharedUse(kind, uses, [event for _, event in given]))
        return history

    def can_begin(self, op: Operation) -> bool:
        """See PlanInterpreter."""
        return all(packet in self.history.written for packet in op.packets_read)

    def execute(self, op: Operation, received: list[list[int]]) -> None:
        """See PlanInterpreter."""
        before = list(self.sync[op.tb])
        if op.name == "wait":
            before += [event for events in received for event in events]
            self.heard[op.tb] += received[0] if received else []
        elif op.name == "rlxwait":
            before += [self.history.begins[channel[1]] for channel in op.waits]
        elif op.name == "sem_acquire":
            for key in semaphores_of(op):
                before += self._acquire(key, op.tb)
        elif op.name == "sem_release" and len(op.semaphores) == 1:
            before += self.heard[op.tb]
        elif op.name == "nop":
            before += self.since[op.tb]
            self.heard[op.tb] = []
        event = self._event(before)
        if op.name == "nop":
            self.sync[op.tb], self.since[op.tb] = [event], []
        else:
            self.since[op.tb].append(event)
        touches = event
        if op.via == "port" and op.name in (*PUTS, "rppkt"):
            touches = self._event([event])
            for channel in op.over:
                self.flying[op.tb, channel].append(touches)
        if op.name in FLUSHES:
            self.since[op.tb] += [sent for channel in op.over for sent in self.flying[op.tb, channel]]
        self._synchronise(op, event)
        self._record_packets(op, event, touches)
        self.history.done.append((op, touches))

    def _synchronise(self, op: Operation, event: int) -> None:
        """Signal and release, and record the uses of channels and semaphores."""
        for channel in op.signals:
            started = [self.history.begins[op.location.gpu]]
            token = started if op.name == "rlxsignal" else [event, *self.flying[op.tb, channel]]
            self.transport.signals[channel].append(token)
            self.shared["signal", channel].append((op, event))
        for channel in op.waits:
            self.shared["wait", channel].append((op, event))
        for key in semaphores_of(op):
            if op.name == "sem_release":
                self.transport.releases[key].append([event])
                self.released[key].append(event)
                self.shared["release", key].append((op, event))
            elif not self._is_mutex(op, key[1]):
                self.shared["acquire", key].append((op, event))

    def _record_packets(self, op: Operation, event: int, touches: int) -> None:
        """Record the packets of an operation. It has waited for those that it reads; a port reads them again later."""
        for packet in op.packets_read:
            self.history.carried.setdefault(event, []).append(self.history.written[packet][0])
            self.history.read[packet].append((touches, op))
        for packet in op.packets_written:
            self.history.written[packet] = touches, op

    def meet(self, threadblocks: list[int]) -> None:
        """See PlanInterpreter."""
        event = self._event([e for tb in threadblocks for e in self.sync[tb] + self.since[tb]])
        for tb in threadblocks:
            self.sync[tb], self.since[tb], self.heard[tb] = [event], [], []
            self.history.done.append((self.plan.threadblocks[tb][self.position[tb]], event))

    def _is_mutex(self, op: Operation, number: int) -> bool:
        """Whether the threadblock releases an acquired semaphore before it waits for anything."""
        for later in self.plan.threadblocks[op.tb][op.location.step + 1 :]:
            if later.name == "sem_release" and number in later.semaphores:
                return True
            if later.name in (*WAITS, "sem_acquire", "barrier"):
                return False
        return False

    def _acquire(self, key: Semaphore, tb: int) -> list[int]:
        """The releases that precede this acquire in every order."""
        self.acquired[key] += 1
        self.acquired_by[key, tb] += 1
        takers, givers = self.users["sem_acquire", key], self.users["sem_release", key]
        alone = len(set(takers)) == 1
        needed = (self.acquired[key] if alone else self.acquired_by[key, tb]) - self.initial[key]
        if needed < 1:
            return []
        if len(set(givers)) == 1:
            return self.released[key][needed - 1 : needed]
        return self.released[key] if alone and needed == len(givers) else []

    def _event(self, before: list[int]) -> int:
        self.history.before.append(before)
        return len(self.history.before) - 1
