"""Execution of the waits of a plan, and the happens-before relation of its operations.

Only `nop` (synchronisation of the block) and `barrier` order the operations of a threadblock: all threads execute every
operation, each its own part of the data, so that a signal may leave before the put of another thread. A signal orders
what came before it (and a nop) before what comes after the matching wait (and a nop); a relaxed signal only says that
the program of its sender has begun. A put over a port channel takes place after its operation, before the next
signal of its threadblock on that channel arrives, and before a flush of that channel ends.

One order of events decides for all, since an operation that can run can also run later; except where several
threadblocks wait on one channel or acquire one semaphore. `History.shared_uses` has those, and they must be ordered.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from collc.msccl.check_plan.model import PUTS, WAITS, Channel, Operation, Plan
from collc.msccl.check_plan.packets import PacketUse, packets_read, packets_written

Semaphore = tuple[int, int]
"""(gpu, number)."""


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
    came before them is not visible. packets: their accesses. done: operations in order of execution, each with the
    event at which it touches memory. begins, ends: for each gpu the events that its program begins and ends. halted:
    operations that never run, the first of each threadblock that waits forever. left: channels with more signals than
    waits, and the difference. spent: semaphores that do not end at their initial values. shared_uses: operations of
    several threadblocks whose order must not be arbitrary.
    """

    before: list[list[int]] = field(default_factory=list[list[int]])
    carried: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    packets: PacketUse = field(default_factory=PacketUse)
    done: list[tuple[Operation, int]] = field(default_factory=list[tuple[Operation, int]])
    begins: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])
    halted: list[Operation] = field(default_factory=list[Operation])
    left: list[tuple[Channel, int]] = field(default_factory=list[tuple[Channel, int]])
    spent: list[Semaphore] = field(default_factory=list[Semaphore])
    shared_uses: list[SharedUse] = field(default_factory=list[SharedUse])


def run_plan(plan: Plan) -> History:
    """Execute all operations that can run; one order decides for all (see above)."""
    return _PlanExecution(plan).run()


class _PlanExecution:
    def __init__(self, plan: Plan) -> None:
        count = len(plan.threadblocks)
        self.plan: Plan = plan
        self.history: History = History()
        self.at: list[int] = [0] * count
        self.history.begins = [self._event([]) for _ in plan.chunks]
        self.sync: list[list[int]] = [[self.history.begins[gpu]] for gpu in plan.gpu_of]
        self.since: list[list[int]] = [[] for _ in range(count)]
        self.sent: dict[Channel, list[list[int]]] = defaultdict(list)
        self.taken: dict[Channel, int] = defaultdict(int)
        self.flying: dict[tuple[int, Channel], list[int]] = defaultdict(list)
        self.values: dict[Semaphore, int] = {
            (gpu, number): value for gpu, values in enumerate(plan.semaphores) for number, value in enumerate(values)
        }
        self.initial: dict[Semaphore, int] = dict(self.values)
        self.released: dict[Semaphore, list[int]] = defaultdict(list)
        self.acquired: dict[Semaphore, int] = defaultdict(int)
        self.taken_by: dict[tuple[Semaphore, int], int] = defaultdict(int)
        self.users: dict[tuple[str, Semaphore], list[int]] = defaultdict(list)
        self.shared: dict[tuple[str, Channel | Semaphore], Uses] = defaultdict(list)
        for ops in plan.threadblocks:
            for op in ops:
                for number in op.semaphores:
                    self.users[op.name, (op.location.gpu, number)].append(op.tb)

    def run(self) -> History:
        moved = True
        while moved:
            moved = False
            for tb, ops in enumerate(self.plan.threadblocks):
                while self.at[tb] < len(ops) and self._step(ops[self.at[tb]]):
                    moved = True
        history = self.history
        for tb, ops in enumerate(self.plan.threadblocks):
            if self.at[tb] < len(ops):
                history.halted.append(ops[self.at[tb]])
        for gpu in range(len(self.plan.chunks)):
            mine = [tb for tb, owner in enumerate(self.plan.gpu_of) if owner == gpu]
            history.ends.append(self._event([e for tb in mine for e in self.sync[tb] + self.since[tb]]))
        history.left = [(key, len(sent) - self.taken[key]) for key, sent in self.sent.items()]
        history.left = [(key, count) for key, count in history.left if count]
        history.spent = [key for key, value in self.values.items() if value != self.initial[key]]
        for (kind, key), uses in self.shared.items():
            if kind != "release" and len({op.tb for op, _ in uses}) > 1:
                given = self.shared.get(("release", key), []) if kind == "acquire" else uses
                history.shared_uses.append(SharedUse(kind, uses, [event for _, event in given]))
        return history

    def _step(self, op: Operation) -> bool:
        """Execute an operation if it can run now. Returns whether it ran."""
        if op.barrier is not None:
            return self._barrier(op)
        if any(self.taken[key] >= len(self.sent[key]) for key in op.waits):
            return False
        packets = self.history.packets
        if any(packet not in packets.written for packet in packets_read(op)):
            return False
        mine = [(op.location.gpu, number) for number in op.semaphores]
        if op.name == "sem_acquire" and any(self.values[key] < mine.count(key) for key in mine):
            return False
        before = list(self.sync[op.tb])
        for key in op.waits:
            released = self.sent[key][self.taken[key]]
            before += released if op.name == "wait" else [self.history.begins[key[1]]]
            self.taken[key] += 1
        if op.name == "sem_acquire":
            for key in mine:
                before += self._acquire(key, op.tb)
        if op.name == "flush":
            for key in op.over:
                before += self.flying[op.tb, key]
        if op.name == "nop":
            before += self.since[op.tb]
        self._pass(op, self._event(before), mine)
        return True

    def _pass(self, op: Operation, event: int, mine: list[Semaphore]) -> None:
        tb, touches = op.tb, event
        if op.name == "nop":
            self.sync[tb], self.since[tb] = [event], []
        else:
            self.since[tb].append(event)
        if op.via == "port" and op.name in (*PUTS, "rppkt"):
            touches = self._event([event])
            for key in op.over:
                self.flying[tb, key].append(touches)
        for key in op.signals:
            started = [self.history.begins[op.location.gpu]]
            self.sent[key].append(started if op.name == "rlxsignal" else [event, *self.flying[tb, key]])
            self.shared["signal", key].append((op, event))
        for key in op.waits:
            self.shared["wait", key].append((op, event))
        if op.name == "sem_release":
            for key in mine:
                self.released[key].append(event)
                self.values[key] += 1
                self.shared["release", key].append((op, event))
        elif op.name == "sem_acquire":
            for key in mine:
                if not self._given_back(op, key[1]):
                    self.shared["acquire", key].append((op, event))
        self._packets(op, event, touches)
        self.history.done.append((op, touches))
        self.at[tb] += 1

    def _packets(self, op: Operation, event: int, touches: int) -> None:
        """Record the packets of an operation. It has waited for those that it reads; a port reads them again later."""
        use = self.history.packets
        for packet in packets_read(op):
            self.history.carried.setdefault(event, []).append(use.written[packet][0])
            use.read[packet].append((touches, op))
        for packet in packets_written(op):
            use.written[packet] = touches, op

    def _barrier(self, op: Operation) -> bool:
        """Let the threadblocks of the gpu pass this barrier, once the declared number has arrived."""
        here = [
            other
            for other, ops in enumerate(self.plan.threadblocks)
            if self.plan.gpu_of[other] == op.location.gpu
            and self.at[other] < len(ops)
            and ops[self.at[other]].barrier == op.barrier
        ]
        needed = op.barrier[1] if op.barrier else 0
        if len(here) < needed:
            return False
        event = self._event([e for tb in here for e in self.sync[tb] + self.since[tb]])
        for tb in here:
            self.sync[tb], self.since[tb] = [event], []
            self.history.done.append((self.plan.threadblocks[tb][self.at[tb]], event))
            self.at[tb] += 1
        return True

    def _given_back(self, op: Operation, number: int) -> bool:
        """Whether the threadblock releases an acquired semaphore before it waits for anything: a mutex."""
        for later in self.plan.threadblocks[op.tb][op.location.step + 1 :]:
            if later.name == "sem_release" and number in later.semaphores:
                return True
            if later.name in (*WAITS, "sem_acquire", "barrier"):
                return False
        return False

    def _acquire(self, key: Semaphore, tb: int) -> list[int]:
        """The releases that precede this acquire in every order."""
        self.values[key] -= 1
        self.acquired[key] += 1
        self.taken_by[key, tb] += 1
        takers, givers = self.users["sem_acquire", key], self.users["sem_release", key]
        alone = len(set(takers)) == 1
        needed = (self.acquired[key] if alone else self.taken_by[key, tb]) - self.initial[key]
        if needed < 1:
            return []
        if len(set(givers)) == 1:
            return self.released[key][needed - 1 : needed]
        return self.released[key] if alone and needed == len(givers) else []

    def _event(self, before: list[int]) -> int:
        self.history.before.append(before)
        return len(self.history.before) - 1
