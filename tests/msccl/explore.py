"""Every interleaving of a tiny MSCCL++ plan, run twice: what can happen at all.

Written from the rules of the runtime alone, on the JSON values: threads of a threadblock run the moves
between two nops in any order, signals and waits in theirs; a program begins again when all of its
threadblocks are done, and in between its caller takes the output away and brings another input.
A port has a queue, from which its proxy takes puts and signals whenever it likes. A packet carries the
number of its run, and who reads it waits for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

PACKETS = {"cpkt": "-p", "upkt": "p-", "ppkt": "-p", "rppkt": "pp", "repkt": "-p-", "respkt": "-p-p", "recpkt": "-p-p"}
"""Where packets are, in the first and further sources and then the first and further targets."""
SYNC = ("signal", "wait", "sem_acquire", "sem_release", "queue", "drain")
RUNS = 2

Value = tuple[tuple[int, int, int], ...] | None
"""Contributions (run, rank, input chunk), sorted; None: not defined."""


class TooMany(Exception):
    """The plan has more states than were allowed."""


class Operation(NamedTuple):
    name: str
    sources: tuple[tuple[int, ...], ...] = ()
    targets: tuple[tuple[int, ...], ...] = ()
    keys: tuple[int, ...] = ()
    tasks: tuple[tuple[int, Operation], ...] = ()
    rank: int = 0


class State(NamedTuple):
    """runs: by gpu, how many are over. at, left: by threadblock, its segment and what is to come of it. queues: by
    channel, what its proxy is to do.
    """

    runs: tuple[int, ...]
    at: tuple[int, ...]
    left: tuple[tuple[int, ...], ...]
    memory: tuple[Value, ...]
    counts: tuple[int, ...]
    queues: tuple[tuple[int, tuple[Operation, ...]], ...] = ()


@dataclass
class Segment:
    """Operations between two nops, and the barrier that ends it: its number and how many meet, or None."""

    ops: list[Operation]
    barrier: tuple[int, int] | None = None


class Plan:
    def __init__(self, plan: dict, limit: int = 200_000) -> None:
        self.limit = limit
        self.plan = plan
        self.gpus = plan["gpus"]
        self.reducing = plan["collective"] == "allreduce"
        self.base: dict[tuple[int, str], int] = {}
        size = 0
        for gpu in self.gpus:
            for kind, name in (("i", "input_chunks"), ("o", "output_chunks"), ("s", "scratch_chunks")):
                self.base[gpu["id"], kind] = size
                if kind == "o" and plan["inplace"]:
                    self.base[gpu["id"], "o"] = self.base[gpu["id"], "i"]
                else:
                    size += gpu[name]
        self.size = size
        self.runs = 3 if plan["protocol"] == "LL" else RUNS
        self.doubled = plan.get("use_double_scratch_buffer", False)
        self.packets: dict[int, int] = {}
        for gpu in self.gpus:
            self.packets[gpu["id"]] = size
            size += 2 * gpu["scratch_chunks"]
        self.all = size
        self.numbers: dict[tuple, int] = {}
        self.initial: list[int] = []
        self.blocks = [
            (gpu["id"], list(self._segments(gpu, block))) for gpu in self.gpus for block in gpu["threadblocks"]
        ]

    def _key(self, *name: object) -> int:
        if name not in self.numbers:
            self.numbers[name] = len(self.initial)
            start = 0
            if name[0] == "semaphore":
                start = self.gpus[name[1]]["semaphores"][name[2]]["init_value"]
            self.initial.append(start)
        return self.numbers[name]

    def _segments(self, gpu: dict, block: dict) -> Iterator[Segment]:
        found = Segment([])
        for op in block["ops"]:
            if op["name"] == "nop":
                yield found
                found = Segment([])
            elif op["name"] == "barrier":
                found.barrier = (gpu["id"] << 8) + op["barrier_id"], op["num_threadblocks"]
                yield found
                found = Segment([])
            else:
                found.ops += self._port(gpu, block, op) or [self._operation(gpu, block, op)]
        yield found

    def _port(self, gpu: dict, block: dict, op: dict) -> list[Operation]:
        """What is queued over ports, and the wait for the queue where it is flushed; nothing for other operations."""
        if op.get("channel_type") != "port" or op["name"] not in ("put", "pws", "rppkt", "signal", "flush"):
            return []
        keys = [self._key("channel", *end) for end in self._ends(gpu, block, op)]
        tasks: list[tuple[int, Operation]] = []
        for k, key in enumerate(keys):
            if op["name"].startswith("p"):
                slots = [(self._slots(gpu, block, op[side][k], "port"),) for side in ("src_buff", "dst_buff")]
                tasks.append((key, Operation("put", *slots)))
            if op["name"] in ("pws", "signal"):
                tasks.append((key, Operation("signal", keys=(key,))))
        if op["name"] == "rppkt":
            source = self._packet(gpu, block, op["src_buff"][0], "port")
            targets = [self._packet(gpu, block, one, "port") for one in op["dst_buff"]]
            sent = [Operation("sent", (source,), (target,), rank=gpu["id"]) for target in targets]
            return [Operation("queue", (source,), tasks=tuple(zip(keys, sent, strict=True)), rank=gpu["id"])]
        drains = [Operation("drain", keys=tuple(keys))] if op["name"] == "flush" else []
        return [Operation("queue", tasks=tuple(tasks)), *drains]

    def _ends(self, gpu: dict, block: dict, op: dict) -> list[tuple[str, int, int, int]]:
        """The channels of an operation: kind, from, to, which of these."""
        kind, rank = op.get("channel_type", "memory"), gpu["id"]
        peers = [peer for one in gpu["channels"] if one["channel_type"] == kind for peer in one["connected_to"]]
        ids = [k for one in block["channels"] if one["channel_type"] == kind for k in one["channel_ids"]]
        return [(kind, rank, peers[ids[k]], peers[: ids[k]].count(peers[ids[k]])) for k in op["channel_ids"]]

    def _operation(self, gpu: dict, block: dict, op: dict) -> Operation:
        name, rank = op["name"], gpu["id"]
        if name in ("signal", "wait"):
            ends = self._ends(gpu, block, op)
            ends = [(kind, b, a, k) if name == "wait" else (kind, a, b, k) for kind, a, b, k in ends]
            return Operation(name, keys=tuple(self._key("channel", *end) for end in ends))
        if name in ("sem_acquire", "sem_release"):
            return Operation(name, keys=tuple(self._key("semaphore", rank, k) for k in op["semaphore_ids"]))
        if name in PACKETS:
            return self._packed(gpu, block, op)
        sides = [
            [slots for one in op[side] for slots in self._each(gpu, block, one)] for side in ("src_buff", "dst_buff")
        ]
        return Operation(name, tuple(sides[0]), tuple(sides[1]))

    def _packed(self, gpu: dict, block: dict, op: dict) -> Operation:
        """An operation on packets."""
        kinds, sides = PACKETS[op["name"]], [op["src_buff"], op["dst_buff"]]
        one_each = len(kinds) == 2
        found: list[tuple[tuple[int, ...], ...]] = []
        for side, entries in enumerate(sides):
            mine = kinds[side] if one_each else kinds[:2] if not side else kinds[2:]
            wanted = [mine[min(k, len(mine) - 1)] for k in range(len(entries))]
            pairs = zip(entries, wanted, strict=True)
            found.append(tuple((self._packet if k == "p" else self._slots)(gpu, block, one) for one, k in pairs))
        return Operation(op["name"], *found, rank=gpu["id"])

    def _packet(self, gpu: dict, block: dict, buff: dict, via: str = "memory") -> tuple[int, ...]:
        """Packets: for each the position in the first scratch buffer; that in the second one comes next."""
        owner = gpu["id"]
        if "buffer_id" in buff:
            refs = next(one for one in block["remote_buffer_refs"] if one["access_channel_type"] == via)
            owner = gpu["remote_buffers"][refs["remote_buffer_ids"][buff["buffer_id"]]]["rank"]
        return tuple(self.packets[owner] + 2 * (buff["index"] + k) for k in range(buff["size"]))

    def _now(self, state: State, slots: tuple[int, ...], rank: int) -> tuple[int, ...]:
        """Slots with packets of the scratch buffer that a run uses."""
        half = (state.runs[rank] + 1) % 2 if self.doubled else 0
        return tuple(slot + half if slot >= self.size else slot for slot in slots)

    def _arrived(self, state: State, op: Operation) -> bool:
        """Whether the packets that an operation reads are of this run."""
        if op.name == "sent":
            return True
        read = [slot for slots in op.sources for slot in self._now(state, slots, op.rank) if slot >= self.size]
        return all(state.memory[slot] is not None and state.memory[slot][0] == state.runs[op.rank] for slot in read)

    def _each(self, gpu: dict, block: dict, buff: dict) -> list[tuple[int, ...]]:
        """The slots of an entry; over a switch channel, those of each of its gpus."""
        if "switch_channel_id" not in buff:
            return [self._slots(gpu, block, buff)]
        groups = [
            (c["buffer_type"], g["ranks"]) for c in gpu["channels"] if "rank_groups" in c for g in c["rank_groups"]
        ]
        ids = next(one["channel_ids"] for one in block["channels"] if one["channel_type"] == "switch")
        kind, ranks = groups[ids[buff["switch_channel_id"]]]
        starts = [self.base[rank, kind] + buff["index"] for rank in ranks]
        return [tuple(range(start, start + buff["size"])) for start in starts]

    def _slots(self, gpu: dict, block: dict, buff: dict, via: str = "memory") -> tuple[int, ...]:
        owner, kind = gpu["id"], buff.get("type")
        if kind is None:
            refs = next(one for one in block["remote_buffer_refs"] if one["access_channel_type"] == via)
            remote = gpu["remote_buffers"][refs["remote_buffer_ids"][buff["buffer_id"]]]
            owner, kind = remote["rank"], remote["type"]
        start = self.base[owner, kind] + buff["index"]
        return tuple(range(start, start + buff["size"]))

    def outcomes(self) -> set[str]:
        """What can happen: "right", "stuck", "wrong", "left" (signals or semaphores that do not balance)."""
        memory = self._filled([None] * self.all, 0, range(len(self.gpus)))
        left = tuple(tuple(range(len(segments[0].ops))) for _, segments in self.blocks)
        start = State((0,) * len(self.gpus), (0,) * len(self.blocks), left, memory, tuple(self.initial))
        seen, open_states, found = {start}, [start], set[str]()
        while open_states:
            state = open_states.pop()
            further = list(self._next(state, found))
            if not further:
                found.add(self._end(state))
            for other in further:
                if other not in seen:
                    seen.add(other)
                    open_states.append(other)
            if len(seen) > self.limit:
                raise TooMany
        return found

    def _end(self, state: State) -> str:
        if any(runs < self.runs for runs in state.runs):
            return "stuck"
        return "right" if state.counts == tuple(self.initial) else "left"

    def _filled(self, memory: list[Value], run: int, ranks: range | list[int]) -> tuple[Value, ...]:
        for rank in ranks:
            for chunk in range(0 if self.plan["inplace"] else self.gpus[rank]["output_chunks"]):
                memory[self.base[rank, "o"] + chunk] = None
            for chunk in range(self.gpus[rank]["input_chunks"]):
                memory[self.base[rank, "i"] + chunk] = ((run, rank, chunk),)
        return tuple(memory)

    def _wanted(self, rank: int, run: int) -> list[Value]:
        chunks, ranks = self.gpus[0]["input_chunks"], range(len(self.gpus))
        if self.reducing:
            return [tuple((run, other, chunk) for other in ranks) for chunk in range(chunks)]
        if self.plan["collective"] == "reducescatter":
            share = chunks // len(self.gpus)
            return [tuple((run, other, rank * share + k) for other in ranks) for k in range(share)]
        return [((run, other, chunk),) for other in ranks for chunk in range(chunks)]

    def _next(self, state: State, found: set[str]) -> Iterator[State]:
        for number, (rank, segments) in enumerate(self.blocks):
            if state.runs[rank] == self.runs or state.at[number] == len(segments):
                continue
            segment, left = segments[state.at[number]], state.left[number]
            if not left and segment.barrier is None:
                yield self._moved_on(state, [number])
            sync = next((k for k in left if segment.ops[k].name in SYNC), None)
            for k in left:
                op = segment.ops[k]
                if op.name in SYNC and (k != sync or not self._ready(state, op)):
                    continue
                if not self._arrived(state, op):
                    break  # all threads wait here
                rest = tuple(other for other in left if other != k)
                yield self._done(state, op, found)._replace(
                    left=(*state.left[:number], rest, *state.left[number + 1 :])
                )
        for key, tasks in state.queues:
            yield self._done(state, tasks[0], found)._replace(queues=_without_first(state.queues, key))
        yield from self._barriers(state)
        yield from self._finished(state, found)

    def _barriers(self, state: State) -> Iterator[State]:
        meeting: dict[tuple[int, int], list[int]] = {}
        for number, (_, segments) in enumerate(self.blocks):
            if state.at[number] < len(segments) and not state.left[number]:
                barrier = segments[state.at[number]].barrier
                if barrier is not None:
                    meeting.setdefault(barrier, []).append(number)
        for (_, needed), there in meeting.items():
            if len(there) == needed:
                yield self._moved_on(state, there)

    def _moved_on(self, state: State, numbers: list[int]) -> State:
        at, left = list(state.at), list(state.left)
        for number in numbers:
            at[number] += 1
            segments = self.blocks[number][1]
            left[number] = tuple(range(len(segments[at[number]].ops))) if at[number] < len(segments) else ()
        return state._replace(at=tuple(at), left=tuple(left))

    def _ready(self, state: State, op: Operation) -> bool:
        if op.name == "drain":
            return not {key for key, _ in state.queues} & set(op.keys)
        return op.name not in ("wait", "sem_acquire") or all(state.counts[k] >= op.keys.count(k) for k in op.keys)

    def _queued(self, state: State, op: Operation) -> State:
        queues = dict(state.queues)
        for key, task in op.tasks:
            ends = (tuple(self._now(state, one, task.rank) for one in side) for side in task[1:3])
            one = Operation("sent", *ends, rank=task.rank) if task.name == "sent" else task
            queues[key] = (*queues.get(key, ()), one)
        return state._replace(queues=tuple(sorted(queues.items())))

    def _done(self, state: State, op: Operation, found: set[str]) -> State:
        if op.name == "queue":
            return self._queued(state, op)
        if op.name == "drain":
            return state
        if op.name in SYNC:
            counts = list(state.counts)
            for key in op.keys:
                counts[key] += 1 if op.name in ("signal", "sem_release") else -1
            return state._replace(counts=tuple(counts))
        memory = list(state.memory)
        if op.name == "sent":
            for source, target in zip(op.sources[0], op.targets[0], strict=True):
                memory[target] = memory[source]
            return state._replace(memory=tuple(memory))
        pairs = [(op.sources, op.targets)]
        if op.name in ("put", "get", "copy", "ppkt"):
            pairs = [((a,), (b,)) for a, b in zip(op.sources, op.targets, strict=True)]
        for sources, targets in pairs:
            here = [self._now(state, slots, op.rank) for slots in sources]
            columns = zip(*here, strict=True)
            data = [[memory[s][1] if s >= self.size else memory[s] for s in column] for column in columns]
            for target in (self._now(state, slots, op.rank) for slots in targets):
                for slot, values in zip(target, data, strict=True):
                    value = None if None in values else tuple(sorted(sum(values, ())))
                    memory[slot] = (state.runs[op.rank], value) if slot >= self.size else value
        for rank, runs in enumerate(state.runs):
            if runs == self.runs and not self._right(memory, rank, self.runs - 1):
                found.add("wrong")
        return state._replace(memory=tuple(memory))

    def _finished(self, state: State, found: set[str]) -> Iterator[State]:
        """A program that is over: its caller looks at the output, and has it run again."""
        for rank, runs in enumerate(state.runs):
            mine = [number for number, (owner, _) in enumerate(self.blocks) if owner == rank]
            if runs == self.runs or any(state.at[number] < len(self.blocks[number][1]) for number in mine):
                continue
            if not self._right(state.memory, rank, runs):
                found.add("wrong")
            after = state._replace(runs=(*state.runs[:rank], runs + 1, *state.runs[rank + 1 :]))
            if runs + 1 < self.runs:
                at, left = list(after.at), list(after.left)
                for number in mine:
                    at[number], left[number] = 0, tuple(range(len(self.blocks[number][1][0].ops)))
                memory = self._filled(list(after.memory), runs + 1, [rank])
                after = after._replace(at=tuple(at), left=tuple(left), memory=memory)
            yield after

    def _right(self, memory: list[Value] | tuple[Value, ...], rank: int, run: int) -> bool:
        start = self.base[rank, "o"]
        return all(memory[start + k] == want for k, want in enumerate(self._wanted(rank, run)))


def _without_first(queues: tuple[tuple[int, tuple[Operation, ...]], ...], key: int):
    """The queues after the first task of one of them."""
    rest = {other: tasks[1:] if other == key else tasks for other, tasks in queues}
    return tuple((other, tasks) for other, tasks in sorted(rest.items()) if tasks)
