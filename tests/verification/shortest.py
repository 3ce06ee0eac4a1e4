"""The least time of a demand by brute force: every reachable state, picosecond by picosecond.

Only for tiny networks and times. It shares nothing with collc.verification; switches have no limited buffers here.
"""

from __future__ import annotations

from itertools import product

from collc.ten.module import Module

NOTHING = frozenset()


class Search:
    """What devices hold: an NPU holds one set of contributors for each chunk, a switch its arrivals in order."""

    def __init__(self, module: Module) -> None:
        network, table = module.network, module.demand.chunks
        self.npus, self.network = network.npu_count, network
        self.ends = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
        self.sums = [op != 0 for op in table.op.tolist()]
        self.pre = [table.sets[k].tolist() for k in table.pre.tolist()]
        self.post = [table.sets[k].tolist() for k in table.post.tolist()]
        self.all = [frozenset(p) if s else frozenset([-1]) for p, s in zip(self.pre, self.sums, strict=True)]
        self.lasts = {}
        for link in range(len(self.ends)):
            kind = network.kinds[int(network.kind[link])]
            for chunk, size in enumerate(table.size.tolist()):
                wire = -(-size * 10**12 // int(kind.bandwidth))
                total = wire + kind.latency
                self.lasts[link, chunk] = (total if module.model.value == "store" else wire, total)

    def start(self):
        held = {}
        for chunk, pre in enumerate(self.pre):
            for device in range(self.network.device_count):
                own = frozenset([device if self.sums[chunk] else -1]) if device in pre else NOTHING
                held[device, chunk] = own if device < self.npus else ()
        return tuple(sorted(held.items())), (), (0,) * len(self.ends)

    def arrive(self, state, now):
        """The state after all arrivals of this picosecond, copies first; None if one of them is wrong."""
        held, coming, free = state
        held = dict(held)
        for arrival in sorted(c for c in coming if c[0] == now):
            _, reduce, link, chunk, value = arrival
            source, device = self.ends[link]
            value = frozenset(value)
            if device >= self.npus:
                slots = held[device, chunk]
                last = slots[-1] if slots else None
                adds = self.network.reduces[device - self.npus]
                if reduce and adds and last and last[0] and not last[4]:
                    if last[1] & value:
                        return None
                    held[device, chunk] = (*slots[:-1], (True, last[1] | value, last[2], -1, False))
                else:
                    held[device, chunk] = (*slots, (reduce, value, source, -1, False))
            elif reduce and held[device, chunk] & value:
                return None
            else:
                held[device, chunk] = held[device, chunk] | value if reduce else value
        return tuple(sorted(held.items())), tuple(c for c in coming if c[0] > now), free

    def leave(self, held, link, chunk, reduce, now):
        """The contributors that a device sends; None if it cannot send. Changes `held`."""
        source, target = self.ends[link]
        if source < self.npus:
            return held[source, chunk] or None
        number = source - self.npus
        slots = list(held[source, chunk])
        sums = [k for k, slot in enumerate(slots) if slot[0]]
        copies = [k for k, slot in enumerate(slots) if not slot[0]]
        adds = self.network.reduces[number]
        end = now + self.lasts[link, chunk][0]
        if sums and not adds and (reduce or not copies):
            away = [k for k in sums if slots[k][2] != target]
            value = slots.pop((away or sums)[0])[1]
            held[source, chunk] = tuple(slots)
            return value
        choices = sums[-1:] if sums and adds and (reduce or not copies) else copies
        idle = [k for k in choices if self.network.multicast[number] or slots[k][3] <= now]
        if not idle:
            return None
        kind, value, origin, until, _ = slots[idle[-1]]
        slots[idle[-1]] = (kind, value, origin, max(until, end), True)
        held[source, chunk] = tuple(slots)
        return value

    def moves(self, state, now, last):
        """All states after whatever can start now; `last`: when all must be there."""
        held, coming, free = state
        options = []
        for link, (_, target) in enumerate(self.ends):
            found = [None]
            if free[link] <= now:
                for chunk in range(len(self.sums)):
                    done = target < self.npus and dict(held)[target, chunk] == self.all[chunk]
                    if not done and now + self.lasts[link, chunk][1] <= last:
                        found += [(chunk, reduce) for reduce in ((False, True) if self.sums[chunk] else (False,))]
            options.append(found)
        for choice in product(*options):
            after, more, until = dict(held), list(coming), list(free)
            for link, chosen in enumerate(choice):
                if chosen is None:
                    continue
                chunk, reduce = chosen
                value = self.leave(after, link, chunk, reduce, now)
                if value is None or (not reduce and value != self.all[chunk]):
                    break
                busy, total = self.lasts[link, chunk]
                until[link] = now + busy
                more.append((now + total, reduce, link, chunk, tuple(sorted(value))))
            else:
                yield tuple(sorted(after.items())), tuple(sorted(more)), tuple(until)

    def done(self, state):
        held = dict(state[0])
        stuck = any(
            slot[0] and not self.network.reduces[device - self.npus]
            for (device, _), slots in held.items()
            if device >= self.npus
            for slot in slots
        )
        return not stuck and all(
            held[npu, chunk] == self.all[chunk] for chunk, post in enumerate(self.post) for npu in post
        )


class TooMany(Exception):
    """There are too many states to look at them all."""


def shortest(module: Module, most: int, states_at_most: int = 400) -> int | None:
    """The least picoseconds, if at most `most`. Raises TooMany."""
    for last in range(most + 1):
        search = Search(module)
        states = {search.start()}
        for now in range(last + 1):
            there = {found for state in states if (found := search.arrive(state, now)) is not None}
            if any(search.done(state) and not state[1] for state in there):
                return now
            relative = {(held, more, tuple(max(f, now) for f in free)) for held, more, free in there}
            states = set()
            for state in relative:
                states.update(search.moves(state, now, last))
                if len(states) > states_at_most:
                    raise TooMany
    return None
