"""Execution of an MSCCL file as docs/msccl-contract.md, sections 3, 5 and 7 describe it, on real data.

Every threadblock is a coroutine. A connection is a FIFO of messages with bounded capacity; a message moves in two
parts, since receivers pass on what has arrived before the rest has. Chunks of more bytes than a message are executed
in passes. Between what a part reads and what it writes, anything else may happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from tests.emulation.clocks import FileClocks
from tests.emulation.orders import Order, Thread, Threads
from tests.emulation.values import MASK, Call, Memory, Refused, results
from tests.emulation.xml_files import READS, RECEIVES, SENDS, WRITES, Block, File, Step

PARTS = 2
PASSES = 3
"""Most passes that are emulated: all have bytes of their own."""
CAPACITY = {"Simple": 2, "LL": 8, "LL128": 8}
MESSAGE = {
    "executor": {"Simple": 2 << 20, "LL": 32 << 10, "LL128": 576_000},
    "rccl": {"Simple": 2 << 20, "LL": 16 << 10, "LL128": 50_176},
}
MESSAGE["old"] = MESSAGE["executor"]
SMALL = {"reduce": 512 << 10, "broadcast": 512 << 10}
"""Bytes of a message with Simple, if they are fewer."""


@dataclass(frozen=True)
class Outcome:
    """kind: right, wrong, hangs or race; input: right, but the input was overwritten, out of place."""

    kind: str
    what: str = ""


class Broken(Exception):
    """Messages of two lengths meet: what the receiver takes for its chunk is something else."""


@dataclass
class Message:
    cells: int
    parts: list[list[int] | None] = field(default_factory=lambda: [None] * PARTS)
    clocks: list[object] = field(default_factory=lambda: [None] * PARTS)


@dataclass
class Connection:
    key: Hashable
    capacity: int
    queue: deque[Message] = field(default_factory=deque)


def message_bytes(file: File, profile: str) -> int:
    if file.protocol not in CAPACITY:
        raise Refused(f"protocol {file.protocol}")
    most = MESSAGE[profile][file.protocol]
    return min(most, SMALL.get(file.coll, most)) if file.protocol == "Simple" else most


class FileRun:
    """One run of a file. chunk: bytes of a chunk; they decide how many chunks a message carries."""

    def __init__(self, file: File, call: Call, chunk: int, order: Order, profile: str = "executor") -> None:
        self.file, self.call, self.order, self.profile = file, call, order, profile
        most = message_bytes(file, profile)
        self.merge = max(1, min(most // chunk, 71))
        self.passes = min(-(-chunk // most), PASSES)
        self.memory = Memory(call, file.chunks, PARTS * self.passes, order.random.getrandbits(32))
        self.blocks = [block for gpu in file.blocks for block in gpu]
        self.first = [0]
        for gpu in file.blocks:
            self.first.append(self.first[-1] + len(gpu))
        self.connections: dict[Hashable, Connection] = {}
        self.ends: dict[Hashable, list[int]] = {}
        self._connect()
        self.reached: list[tuple[int, int]] = [(-1, -1)] * len(self.blocks)
        self.threads = Threads(order)
        self.unsafe_sends = profile == "rccl" and file.protocol != "Simple"
        self.in_order = file.protocol == "Simple"
        self.clocks: FileClocks | None = None
        self.held: tuple[int, int] | None = None

    def _connect(self) -> None:
        ranks, capacity = len(self.file.blocks), CAPACITY[self.file.protocol]
        for block in self.blocks:
            for end, peer in enumerate((block.send, block.receive)):
                if peer == -1:
                    continue
                if not 0 <= peer < ranks or peer == block.gpu or block.channel < 0:
                    raise Refused(f"gpu {block.gpu} has no peer {peer} on channel {block.channel}")
                pair = (block.gpu, peer) if end == 0 else (peer, block.gpu)
                key = (*pair, block.channel)
                ends = self.ends.setdefault(key, [0, 0])
                ends[end] += 1
                if ends[end] > 1:
                    raise Refused(f"two threadblocks at one end of {key}")
                self.connections.setdefault(key, Connection(key, capacity))

    def run(self) -> Outcome:
        """Raises Refused if a step has no meaning."""
        half = [key for key, ends in self.ends.items() if ends != [1, 1]]
        if half:
            return Outcome("hangs", f"only one side has a connection {half[0]}")
        given = [list(row) for row in self.memory.inputs]
        wanted = results(self.call, given)
        for number, block in enumerate(self.blocks):
            self.threads.add(self._block(number, block))
        try:
            stuck = self.threads.run()
        except Broken as error:
            return Outcome("wrong", str(error))
        if self.clocks is not None and self.clocks.races:
            return Outcome("race", self.clocks.races[0])
        if stuck:
            return Outcome("hangs", f"{len(stuck)} threadblocks wait forever")
        if any(connection.queue for connection in self.connections.values()):
            return Outcome("wrong", "messages are left over")
        for rank, want in enumerate(wanted):
            wrong = self.memory.wrong(rank, want)
            if wrong:
                return Outcome("wrong", wrong)
        changed = "".join(self.memory.changed(rank, row) for rank, row in enumerate(given))
        return Outcome("input", changed) if changed else Outcome("right")

    def _block(self, number: int, block: Block) -> Thread:
        for turn in range(self.passes):
            for step in block.steps:
                yield from self._wait(number, block, step, turn)
                tells_early = self.unsafe_sends and step.kind == "s" and step.tells
                if tells_early:
                    self._tell(number, step, turn)
                yield from self._step(number, block, step, turn)
                if step.tells and not tells_early:
                    self._tell(number, step, turn)

    def _wait(self, number: int, block: Block, step: Step, turn: int) -> Thread:
        for on, position in step.needs:
            other = self.first[block.gpu] + on
            if not other < self.first[block.gpu + 1]:
                raise Refused(f"gpu {block.gpu} has no threadblock {on}")
            while self.reached[other] < (turn, position):
                yield (("told", other),)
            if self.clocks is not None:
                self.clocks.depend(number, other, (turn, position))

    def _tell(self, number: int, step: Step, turn: int) -> None:
        self.reached[number] = (turn, step.number)
        if self.clocks is not None:
            self.clocks.tell(number, (turn, step.number), unsafe=self.unsafe_sends and step.kind == "s")
        self.threads.wake(("told", number))

    def _step(self, number: int, block: Block, step: Step, turn: int) -> Thread:
        into = self.connections.get((block.receive, block.gpu, block.channel)) if step.kind in RECEIVES else None
        out = self.connections.get((block.gpu, block.send, block.channel)) if step.kind in SENDS else None
        if (step.kind in RECEIVES and into is None) or (step.kind in SENDS and out is None):
            raise Refused(f"gpu {block.gpu}: {step.kind} without a peer")
        sources = [self.memory.at(block.gpu, *place, step.count) for place in step.sources if step.kind in READS]
        target = self.memory.at(block.gpu, *step.target, step.count) if step.kind in WRITES else -1
        if step.count < 1:
            raise Refused(f"gpu {block.gpu}: a step of {step.count} chunks")
        for begin in range(0, step.count, self.merge):
            slots = min(self.merge, step.count - begin)
            shift = begin * self.memory.cells + turn * PARTS
            where = [source + shift for source in sources], target + shift if target >= 0 else -1
            yield from self._message(number, step, where, slots, into, out)
        if self.clocks is not None:
            self.clocks.end(number, is_send=step.kind == "s")

    def _message(
        self,
        number: int,
        step: Step,
        where: tuple[list[int], int],
        slots: int,
        into: Connection | None,
        out: Connection | None,
    ) -> Thread:
        cells = slots * PARTS
        sent = Message(cells)
        if out is not None:
            while len(out.queue) >= out.capacity:
                yield (("room", out.key),)
            out.queue.append(sent)
        for part in self._parts():
            taken: list[int] | None = None
            if into is not None:
                while not into.queue or into.queue[0].parts[part] is None:
                    yield (("data", into.key),)
                taken = into.queue[0].parts[part]
                if into.queue[0].cells != cells:
                    raise Broken(f"{cells} cells are expected and {into.queue[0].cells} arrive")
            yield from self._part(number, step, where, slots, part, taken, into, sent)
            if out is not None:
                self.threads.wake(("data", out.key))
        if into is not None:
            into.queue.popleft()
            self.threads.wake(("room", into.key))
        if self.clocks is not None:
            self.clocks.join(number)

    def _parts(self) -> Iterator[int]:
        if self.in_order or self.order.random.random() < 0.5:
            return iter(range(PARTS))
        return iter(range(PARTS - 1, -1, -1))

    def _part(
        self,
        number: int,
        step: Step,
        where: tuple[list[int], int],
        slots: int,
        part: int,
        taken: list[int] | None,
        into: Connection | None,
        sent: Message,
    ) -> Thread:
        """Half of a message: its cells are read, others may go on, and they are written and passed on."""
        values, shift = self.memory.values, part * slots
        rows = [values[start + shift : start + shift + slots] for start in where[0]]
        if self.clocks is not None:
            arrived = into.queue[0].clocks[part] if into is not None else None
            reads = [start + shift for start in where[0]]
            onto_itself = step.kind == "cpy" and where[0][0] == where[1]
            write = where[1] + shift if where[1] >= 0 and not onto_itself else -1
            also = [write] if step.kind == "re" else []
            sent.clocks[part] = self.clocks.part(number, part, arrived, reads + also, write, slots, self.in_order)
        if step.kind == "re":
            rows.append(values[where[1] + shift : where[1] + shift + slots])
        if taken is not None:
            rows.append(taken)
        data = rows[0] if len(rows) == 1 else [sum(column) & MASK for column in zip(*rows, strict=True)]
        if self.held is not None and self.held == (number, step.number):
            self.order.slow.add(number)
            yield ()
            self.order.slow.discard(number)
        else:
            yield ()
        if where[1] >= 0:
            values[where[1] + shift : where[1] + shift + slots] = data
        sent.parts[part] = data


def chunk_sizes(file: File, profile: str) -> list[int]:
    """Bytes of a chunk for which messages differ: many chunks each, a few, one, and chunks in passes."""
    most = message_bytes(file, profile)
    low = -(-file.sizes[0] // file.loop_chunks)
    high = None if file.sizes[1] is None else (file.sizes[1] - (profile == "old")) // file.loop_chunks
    wanted = [16, most // 8, most // 3, most // 2, most, most + 16, 2 * most + 16]
    fitting = sorted({min(max(size, low, 1), high if high is not None else size) for size in wanted})
    return [size for size in fitting if size >= max(low, 1)]
