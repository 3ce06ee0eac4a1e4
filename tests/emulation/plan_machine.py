"""Execution of an MSCCL++ plan as docs/msccl-contract.md, section 6, describes it, on real data.

Every threadblock is a coroutine that takes its moves of data in any order, in parts, and its signals in theirs; every
port channel has a proxy that executes what is queued some time later. A gpu that is done is looked at by its caller,
gets another input, and runs again, while others may still be in their first run.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable
from typing import Any

from tests.emulation.clocks import Clock, PlanClocks
from tests.emulation.file_machine import Outcome
from tests.emulation.orders import Order, Thread, Threads
from tests.emulation.plan_program import Cells, Entry, Move, Plan, Segment, channels_of, segments_of
from tests.emulation.values import MASK, Call, Memory, Refused, results

CELLS = 2
NEVER = 1 << 30
WAITING = ("wait", "sem_acquire", "rppkt")


class PlanRun:
    """Some launches of a plan. eager: "moves" or "entries" go first if both can, or "any"."""

    def __init__(self, plan: Plan, call: Call, order: Order, launches: int = 2, eager: str = "any") -> None:
        self.plan, self.call, self.order, self.launches, self.eager = plan, call, order, launches, eager
        self.memory = Memory(call, plan.chunks, CELLS, order.random.getrandbits(32), plan.scratch)
        ranks = range(len(plan.chunks))
        self.given = [self.memory.inputs]
        self.given += [[self.memory.drawn(len(row)) for row in self.memory.inputs] for _ in range(launches - 1)]
        self.wanted = [results(call, rows) for rows in self.given]
        self.blocks = [
            (rank, [segments_of(plan, self.memory, rank, block, half) for half in range(2 if plan.halves else 1)])
            for rank in ranks
            for block in _blocks(plan.gpus[rank])
        ]
        self.of_gpu = [[k for k, (rank, _) in enumerate(self.blocks) if rank == mine] for mine in ranks]
        self.counts: Counter[Hashable] = Counter(_initial(plan))
        self.start = Counter(self.counts)
        self.queues: dict[tuple[int, int], deque[tuple[Entry, Clock | None]]] = {}
        self.proxies: dict[tuple[int, int], int] = {}
        for rank in ranks:
            for number in range(len(channels_of(plan.gpus[rank], "port"))):
                self.queues[rank, number] = deque()
                self.proxies[rank, number] = len(self.proxies)
        self.launch = [0] * len(ranks)
        self.finished = [0] * len(ranks)
        self.met: dict[Hashable, list[int]] = defaultdict(list)
        self.turns: Counter[Hashable] = Counter()
        self.busy: Counter[tuple[int, int]] = Counter()
        self.threads = Threads(order)
        self.wrong = self.changed = ""
        self.clocks: PlanClocks | None = None
        self.held: tuple[int, int] | None = None

    def with_clocks(self) -> PlanRun:
        components = len(self.blocks) + len(self.proxies) + len(self.plan.chunks)
        self.clocks = PlanClocks(components, self.start)
        return self

    def run(self) -> Outcome:
        for rank in range(len(self.plan.chunks)):
            self._caller_writes(rank)
        for number in range(len(self.blocks)):
            self.threads.add(self._block(number))
        for port in self.queues:
            self.threads.add(self._proxy(port))
        for rank, blocks in enumerate(self.of_gpu):
            if not blocks:
                self._launches_without_blocks(rank)
        stuck = [thread for thread in self.threads.run() if thread < len(self.blocks)]
        if self.wrong:
            return Outcome("wrong", self.wrong)
        if self.clocks is not None and self.clocks.races:
            return Outcome("race", self.clocks.races[0])
        if stuck:
            return Outcome("hangs", f"{len(stuck)} threadblocks wait forever")
        if +self.counts != +self.start or -self.counts != -self.start:
            return Outcome("wrong", "signals or semaphores do not balance")
        return Outcome("input", self.changed) if self.changed else Outcome("right")

    def _launches_without_blocks(self, rank: int) -> None:
        for _ in range(self.launches):
            self._caller(rank)

    def _block(self, number: int) -> Thread:
        rank, halves = self.blocks[number]
        for launch in range(self.launches):
            while self.launch[rank] < launch:
                yield (("launch", rank),)
            if self.clocks is not None:
                self.clocks.begin(number, self._caller_component(rank))
            for segment in halves[launch % len(halves)]:
                yield from self._segment(number, segment)
                if segment.barrier is not None:
                    yield from self._barrier(number, segment.barrier)
            self.finished[rank] += 1
            if self.finished[rank] == len(self.of_gpu[rank]):
                self.finished[rank] = 0
                self._caller(rank)
            yield ()

    def _segment(self, number: int, segment: Segment) -> Thread:
        parts = [(move, part) for move in segment.moves for part in range(CELLS)]
        self.order.random.shuffle(parts)
        lanes = {lane: deque(entries) for lane, entries in segment.lanes.items()}
        knows: dict[int, Clock] = {}
        while parts or lanes:
            last = self._stops_at(parts, lanes)
            ready = [lane for lane, rows in lanes.items() if rows[0].op <= last and self._can(number, rows[0])]
            able = next((k for k in reversed(range(len(parts))) if self._may(number, *parts[k], last)), None)
            if able is not None and (not ready or self._moves_first()):
                yield from self._part(number, *parts.pop(able), knows)
            elif ready:
                lane = self.order.random.choice(ready)
                yield from self._entry(number, lane, lanes[lane].popleft(), knows)
                if not lanes[lane]:
                    del lanes[lane]
                yield ()
            else:
                missing = (self._missing(number, *one) for one in parts)
                packets = [("packet", cell) for cell in missing if cell is not None]
                yield (*packets, *(self._key(number, entries[0]) for entries in lanes.values()))
        if self.clocks is not None:
            self.clocks.end(number, knows.values())

    def _stops_at(self, parts: list[tuple[Move, int]], lanes: dict[int, deque[Entry]]) -> int:
        """The operation that threads wait at, as if each had a share of all; else later ones may go before it."""
        if self.eager != "entries":
            return NEVER
        at = [move.op for move, _ in parts if move.waits]
        at += [entry.op for entries in lanes.values() for entry in entries if entry.kind in WAITING]
        return min(at, default=NEVER)

    def _may(self, number: int, move: Move, part: int, last: int) -> bool:
        return move.op <= last and self._missing(number, move, part) is None

    def _missing(self, number: int, move: Move, part: int) -> int | None:
        """The first packet that a part of a move waits for and that is not there; None where all are."""
        flag, values = self.launch[self.blocks[number][0]] + 1, self.memory.values
        for source in move.sources:
            for cell in _cells(source, move, part) if source.packets else ():
                if values[cell + 1] != flag:
                    return cell
        return None

    def _moves_first(self) -> bool:
        return self.eager == "moves" or (self.eager == "any" and self.order.random.random() < 0.5)

    def _key(self, number: int, entry: Entry) -> Hashable:
        """What an entry that cannot go on waits for; one that can waits for those before it."""
        if entry.kind != "rppkt":
            return ("count", entry.key)
        assert entry.put is not None
        missing = [self._missing(number, entry.put, part) for part in range(CELLS)]
        return ("packet", next((cell for cell in missing if cell is not None), -1))

    def _can(self, number: int, entry: Entry) -> bool:
        if entry.kind == "rppkt":
            assert entry.put is not None
            return all(self._missing(number, entry.put, part) is None for part in range(CELLS))
        return entry.kind not in ("wait", "sem_acquire") or self.counts[entry.key] > 0

    def _entry(self, number: int, lane: int, entry: Entry, knows: dict[int, Clock]) -> Thread:
        if self.clocks is not None and lane not in knows:
            knows[lane] = self.clocks.clock[number].copy()
        known = knows.get(lane)
        if entry.port is not None:
            if entry.kind == "rppkt" and self.clocks is not None and known is not None and entry.put is not None:
                self.clocks.arrive(entry.put.sources[0].every(entry.put.cells), known)
            if entry.kind != "flush":
                self.queues[entry.port].append((entry, None if known is None else known.copy()))
                self.threads.wake(("queue", entry.port))
            while entry.flush and (self.queues[entry.port] or self.busy[entry.port]):
                yield (("drained", entry.port),)
            if entry.flush and self.clocks is not None and known is not None:
                self.clocks.learn(known, self._proxy_component(entry.port))
        elif entry.kind in ("wait", "sem_acquire"):
            self.counts[entry.key] -= 1
            if self.clocks is not None and known is not None:
                self.clocks.acquire(entry.key, known, entry.relaxed)
        else:
            self._raise(number, entry, known)

    def _raise(self, component: int, entry: Entry, known: Clock | None) -> None:
        self.counts[entry.key] += 1
        if self.clocks is not None and known is not None:
            self.clocks.release(component, entry.key, known, entry.relaxed)
        self.threads.wake(("count", entry.key))

    def _barrier(self, number: int, barrier: tuple[int, int, int]) -> Thread:
        """Blocks that meet go on together. As many as the operation says: others wait for the next time."""
        turn = self.turns[barrier[:2]]
        there = self.met[barrier[:2]]
        there.append(number)
        if len(there) == barrier[2]:
            if self.clocks is not None:
                self.clocks.meet(there)
            self.turns[barrier[:2]] += 1
            self.met[barrier[:2]] = []
            self.threads.wake(("barrier", barrier[:2], turn))
            return
        while self.turns[barrier[:2]] == turn:
            yield (("barrier", barrier[:2], turn),)

    def _proxy(self, port: tuple[int, int]) -> Thread:
        """A put reads its source when the proxy comes to it, and writes later; what is queued behind it waits."""
        queue = self.queues[port]
        while True:
            while not queue:
                yield (("queue", port),)
            yield ()
            entry, known = queue.popleft()
            self.busy[port] += 1
            component = self._proxy_component(port)
            if self.clocks is not None and known is not None:
                self.clocks.take(component, known)
            for part in range(CELLS) if entry.put is not None else ():
                assert entry.put is not None
                yield from self._part(component, entry.put, part, {})
            if self.clocks is not None:
                self.clocks.tick(component)
            if entry.kind not in ("put", "rppkt"):
                self._raise(component, entry, None if self.clocks is None else self.clocks.clock[component].copy())
            self.busy[port] -= 1
            self.threads.wake(("drained", port))

    def _part(self, component: int, move: Move, part: int, knows: dict[int, Clock]) -> Thread:
        """Half of the cells of a move, taken alternately: as threads would that share it."""
        values = self.memory.values
        rows = [[values[cell] for cell in _cells(source, move, part)] for source in move.sources]
        if self.clocks is not None:
            self._record(component, move, part, knows)
        data = rows[0] if len(rows) == 1 else [sum(column) & MASK for column in zip(*rows, strict=True)]
        flags = self._flags(component, move, part)
        victim = self.held is not None and self.held[0] == component
        if victim:
            self.order.slow.add(component)
        yield ()
        if victim:
            self.order.slow.discard(component)
        for target in move.targets:
            for cell, value, flag in zip(_cells(target, move, part), data, flags, strict=True):
                values[cell] = value
                if target.packets:
                    values[cell + 1] = flag
                    self.threads.wake(("packet", cell))

    def _flags(self, component: int, move: Move, part: int) -> list[int]:
        """The flags of the packets that are written: of this launch; a proxy takes those that it finds."""
        cells = _cells(move.sources[0], move, part)
        if component >= len(self.blocks):
            return [self.memory.values[cell + 1] if move.waits else 0 for cell in cells]
        return [self.launch[self.blocks[component][0]] + 1] * len(cells)

    def _record(self, component: int, move: Move, part: int, knows: dict[int, Clock]) -> None:
        assert self.clocks is not None
        what = f"{move.name} part {part}", id(move)
        known = knows.setdefault(-1, self.clocks.clock[component].copy())
        for source in move.sources:
            if source.packets:
                self.clocks.packets_read(component, what, _cells(source, move, part), known)
            else:
                self.clocks.access(component, what, _cells(source, move, part), ())
        for target in move.targets:
            if target.packets:
                self.clocks.packets_sent(component, what, _cells(target, move, part))
            else:
                self.clocks.access(component, what, (), _cells(target, move, part))

    def _proxy_component(self, port: tuple[int, int]) -> int:
        return len(self.blocks) + self.proxies[port]

    def _caller_component(self, rank: int) -> int:
        return len(self.blocks) + len(self.proxies) + rank

    def _caller_writes(self, rank: int) -> None:
        if self.clocks is not None:
            component = self._caller_component(rank)
            cells = [*self.memory.region(rank, "i"), *self.memory.region(rank, "o")]
            self.clocks.caller_writes(component, cells)
            for number in self.of_gpu[rank]:
                self.clocks.join(number, component)

    def _caller(self, rank: int) -> None:
        """A run is over: its result is looked at, and the next one begins with another input."""
        launch, memory = self.launch[rank], self.memory
        wrong = memory.wrong(rank, self.wanted[launch][rank])
        self.changed = self.changed or memory.changed(rank, self.given[launch][rank])
        self.wrong = self.wrong or (wrong and f"launch {launch}: {wrong}")
        component = self._caller_component(rank)
        if self.clocks is not None:
            for number in self.of_gpu[rank]:
                self.clocks.join(component, number)
            self.clocks.caller_reads(component, memory.region(rank, "o"))
        self.launch[rank] += 1
        if self.launch[rank] < self.launches:
            where = memory.region(rank, "o")
            memory.values[where.start : where.stop] = memory.drawn(len(where))
            memory.fill(rank, self.given[self.launch[rank]][rank])
            self._caller_writes(rank)
            self.threads.wake(("launch", rank))


def _cells(where: Cells, move: Move, part: int) -> list[int]:
    return where.every(move.cells)[part::CELLS]


def _blocks(gpu: Any) -> list[Any]:
    found = gpu["threadblocks"]
    if [block["id"] for block in found] != [*range(len(found))]:
        raise Refused("threadblocks are not in order")
    return found


def _initial(plan: Plan) -> dict[Hashable, int]:
    return {
        ("semaphore", rank, k): row["init_value"]
        for rank, gpu in enumerate(plan.gpus)
        for k, row in enumerate(gpu.get("semaphores", ()))
    }
