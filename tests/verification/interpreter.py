"""A naive interpreter of schedules, instant by instant, written for the tests alone.

It shares nothing with collc.verification: it has sets of contributors in dictionaries, plain loops and its own times.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from collc.ten.module import Module

CHECKS = ("causality", "congestion_free", "delivered", "reductions", "switches")


@dataclass
class Held:
    """A chunk or a partial in the buffer of a switch."""

    since: int
    value: frozenset[int]
    origin: int
    until: int = -1
    left: int = 0


@dataclass
class Interpreter:
    module: Module
    broken: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHECKS, 0))

    def __post_init__(self) -> None:
        network, table = self.module.network, self.module.demand.chunks
        self.npus = network.npu_count
        self.op = table.op.tolist()
        self.pre = [table.sets[k].tolist() for k in table.pre.tolist()]
        self.post = [table.sets[k].tolist() for k in table.post.tolist()]
        self.size = table.size.tolist()
        self.source, self.target = network.source.tolist(), network.target.tolist()
        # Contributors of a copy chunk are all the same: -1.
        self.all = [frozenset([-1]) if op == 0 else frozenset(pre) for op, pre in zip(self.op, self.pre, strict=True)]
        self.npu: dict[tuple[int, int], frozenset[int]] = {}
        for chunk, pre in enumerate(self.pre):
            for device in pre:
                self.npu[chunk, device] = frozenset([-1 if self.op[chunk] == 0 else device])
        self.sums: dict[tuple[int, int], list[Held]] = defaultdict(list)
        self.copies: dict[tuple[int, int], list[Held]] = defaultdict(list)
        self.gone: list[tuple[int, Held]] = []
        self.kept: dict[tuple[int, int], frozenset[int]] = {}

    def lasts(self, link: int, chunk: int) -> tuple[int, int]:
        """Time for which the link is busy, and time until the chunk arrives."""
        kind = self.module.network.kinds[int(self.module.network.kind[link])]
        exact = kind.overhead + self.size[chunk] * 10**12 / kind.bandwidth
        wire = -(-exact.numerator // exact.denominator)
        store = self.module.schedule.model.value == "store"
        return (wire + kind.latency if store else wire), wire + kind.latency

    def possible(self, chunk: int, link: int, start: int, relayed: int) -> bool:
        if relayed != -1:
            if not (0 <= relayed < len(self.source) and 0 <= link < len(self.source)):
                return False
            if self.target[relayed] != self.source[link] or self.source[link] >= self.npus:
                return False
        present = self.module.network.present
        if not (0 <= link < len(self.source) and 0 <= chunk < len(self.op) and start >= 0):
            return False
        a, b = self.source[link], self.target[link]
        return a != b and bool(present[a]) and bool(present[b])

    def run(self) -> dict[str, bool]:
        """Whether each check holds."""
        rows = self.module.schedule.transfers
        moves = list(
            zip(
                rows.start.tolist(),
                rows.link.tolist(),
                rows.chunk.tolist(),
                rows.reduce.tolist(),
                rows.relays.tolist(),
                rows.keeps.tolist(),
                strict=True,
            )
        )
        legal = [move for move in moves if self.possible(move[2], move[1], move[0], move[4])]
        legal = [move for move in legal if not move[5] or (move[3] and self.target[move[1]] < self.npus)]
        self.broken["causality"] += len(moves) - len(legal)
        self.links([move[:3] for move in legal])
        leaving = defaultdict(list)
        for start, link, chunk, flag, relayed, kept in legal:
            leaving[start].append((link, chunk, flag, relayed, kept))
        coming = defaultdict(list)
        while leaving or coming:
            now = min([*leaving, *coming])
            for _, link, chunk, flag, value, kept in sorted(coming.pop(now, []), key=lambda c: (c[3], c[1])):
                if not kept:
                    self.arrive(now, link, chunk, flag, value)
                self.kept[chunk, link] = value
            for link, chunk, flag, relayed, kept in leaving.pop(now, []):
                if flag and self.op[chunk] == 0:
                    self.broken["reductions"] += 1
                reduce = flag and self.op[chunk] != 0
                value = self.depart(now, link, chunk, reduce)
                if relayed >= 0:
                    value = self.kept.get((chunk, relayed), frozenset())
                if not value:
                    self.broken["causality"] += 1
                    continue
                if not reduce and value != self.all[chunk]:
                    self.broken["reductions"] += 1
                coming[now + self.lasts(link, chunk)[1]].append((now, link, chunk, reduce, value, kept))
        self.end()
        return {check: count == 0 for check, count in self.broken.items()}

    def links(self, moves) -> None:
        """Count transfers that begin before the one before them on their link is over."""
        last: dict[int, int] = {}
        for start, link, chunk in sorted(moves):
            self.broken["congestion_free"] += start < last.get(link, start)
            last[link] = max(last.get(link, 0), start + self.lasts(link, chunk)[0])

    def arrive(self, now: int, link: int, chunk: int, reduce: bool, value: frozenset[int]) -> None:
        place = chunk, self.target[link]
        if self.target[link] < self.npus:
            if not reduce:
                self.npu[place] = value
                return
            here = self.npu.get(place, frozenset())
            self.broken["reductions"] += bool(here & value)
            self.npu[place] = here | value
        elif not reduce:
            self.copies[place].append(Held(now, value, self.source[link]))
        else:
            waiting = self.sums[place]
            adds = bool(self.module.network.reduces[self.target[link] - self.npus])
            if adds and waiting and waiting[-1].left == 0:
                self.broken["reductions"] += bool(waiting[-1].value & value)
                waiting[-1].value |= value
            else:
                waiting.append(Held(now, value, self.source[link]))

    def depart(self, now: int, link: int, chunk: int, reduce: bool) -> frozenset[int]:
        device = self.source[link]
        place = chunk, device
        if device < self.npus:
            return self.npu.get(place, frozenset())
        end = now + self.lasts(link, chunk)[0]
        adds = bool(self.module.network.reduces[device - self.npus])
        multicast = bool(self.module.network.multicast[device - self.npus])
        sums, copies = self.sums[place], self.copies[place]
        if sums and not adds and (reduce or not copies):
            others = [k for k, held in enumerate(sums) if held.origin != self.target[link]]
            held = sums.pop(others[0] if others else 0)
            held.until = end
            self.gone.append((device, held))
            return held.value
        choices = [sums[-1]] if sums and adds and (reduce or not copies) else copies
        if not choices:
            return frozenset()
        free = choices if multicast else [held for held in choices if held.until <= now]
        if not free:
            self.broken["switches"] += 1
        held = (free or choices)[-1]
        held.until = max(held.until, end)
        held.left += 1
        return held.value

    def end(self) -> None:
        for chunk, post in enumerate(self.post):
            for device in post:
                value = self.npu.get((chunk, device), frozenset())
                if not value or value != self.all[chunk]:
                    self.broken["delivered"] += 1
                    self.broken["reductions"] += bool(value)
        spans = defaultdict(list)
        for device, held in self.gone:
            spans[device].append((held.since, held.until))
        for pools in (self.sums, self.copies):
            for (_, device), slots in pools.items():
                spans[device] += [(held.since, held.until) for held in slots]
        for (_, device), slots in self.sums.items():
            if not self.module.network.reduces[device - self.npus]:
                self.broken["switches"] += len(slots)
        for device, times in spans.items():
            limit = int(self.module.network.buffers[device - self.npus])
            for instant, _ in times:
                held = sum(low <= instant < high for low, high in times)
                if 0 <= limit < held:
                    self.broken["switches"] += 1


def interpret(module: Module) -> dict[str, bool]:
    """Each check of a module's schedule: whether it holds."""
    return Interpreter(module).run()
