"""A second opinion on MSCCL files for the tests: random interleavings of a naive interpreter.

Reads the file with the standard library's XML parser, shares no code with collc, and is slow. Every
message is two events (operands are read; results are written and passed on), so that races show.
"""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict, deque

EFFECTIVE = {"Simple": 2 * 2**20, "LL": 32 * 2**10, "LL128": 576_000}
FLIGHT = {"Simple": 2, "LL": 8, "LL128": 8}
UNDEFINED = "undefined"


class Broken(Exception):
    """The file makes no sense at all."""


def verdict(text: str, seeds: int = 40, root: int | None = None) -> str:
    """ "right", "wrong", "hangs" or "broken": the first that any interleaving, placement or size shows."""
    try:
        algo = ElementTree.fromstring(text)
        merges = _merges(algo)
        places = [place for place, flag in ((0, "outofplace"), (1, "inplace")) if int(algo.get(flag))]
        for seed in range(seeds):
            for place in places:
                answer = Run(algo, place, merges[seed % len(merges)], random.Random(seed), root).go()
                if answer != "right":
                    return answer
    except (Broken, KeyError, IndexError, TypeError, ValueError, ElementTree.ParseError):
        return "broken"
    return "right"


def _merges(algo) -> list[int]:
    effective, total = EFFECTIVE[algo.get("proto")], int(algo.get("nchunksperloop"))
    if algo.get("proto") == "Simple" and algo.get("coll") in ("reduce", "broadcast"):
        effective //= 4
    low, high = int(algo.get("minBytes")), int(algo.get("maxBytes"))

    def merge(size):
        return max(1, min(71, effective // max(1, -(-size // total))))

    most, least = merge(low), merge(high) if high else 1
    return sorted({least, most, (least + most) // 2, min(most, least + 1), min(most, least + 3)})


class Run:
    def __init__(self, algo, inplace: int, merge: int, chance: random.Random, root: int | None) -> None:
        self.coll, self.n = algo.get("coll"), int(algo.get("ngpus"))
        self.total, self.root = int(algo.get("nchunksperloop")), root
        self.inplace, self.merge, self.chance = inplace, merge, chance
        self.capacity = FLIGHT[algo.get("proto")]
        self.memory: dict[tuple, object] = {}
        self.fifos: dict[tuple, deque] = defaultdict(deque)
        self.tbs: dict[tuple[int, int], dict] = {}
        self.ends: set[tuple] = set()
        for gpu in algo.iter("gpu"):
            self._gpu(gpu)

    def _gpu(self, gpu) -> None:
        rank = int(gpu.get("id"))
        sizes = {b: int(gpu.get(f"{b}_chunks")) for b in "ios"}
        for buffer in "os":
            for slot in range(sizes[buffer]):
                self.memory[self._slot(rank, buffer, slot)] = UNDEFINED
        for slot in range(sizes["i"]):
            self.memory[self._slot(rank, "i", slot)] = Counter([(rank, slot)])
        self.sizes = sizes
        for tb in gpu.iter("tb"):
            steps = [{**s.attrib, "size": sizes} for s in tb.iter("step")]
            key = rank, int(tb.get("id"))
            if key in self.tbs:
                raise Broken
            send, recv, chan = (int(tb.get(k)) for k in ("send", "recv", "chan"))
            out, into = (rank, send, chan), (recv, rank, chan)
            for end in ([("out", out)] if send >= 0 else []) + ([("in", into)] if recv >= 0 else []):
                if end in self.ends:
                    raise Broken
                self.ends.add(end)
            self.tbs[key] = {"steps": steps, "at": 0, "moved": 0, "passed": -1, "held": None, "out": out, "in": into}

    def _slot(self, rank: int, buffer: str, offset: int) -> tuple:
        share = self.total // self.n
        if self.inplace and buffer != "s":
            if self.coll == "allgather" and buffer == "i":
                return rank, "io", rank * share + offset
            if self.coll == "reducescatter" and buffer == "o":
                return rank, "io", rank * share + offset
            if self.coll == "gather":
                shift = self.total * rank if buffer == "i" and rank == self.root else 0
                return rank, "io" if rank == self.root else buffer, shift + offset
            if self.coll == "scatter":
                shift = self.total * rank if buffer == "o" and rank == self.root else 0
                return rank, "io" if rank == self.root else buffer, shift + offset
            return rank, "io", offset
        return rank, buffer, offset

    def go(self) -> str:
        keys = sorted(self.tbs)
        for key, tb in self.tbs.items():
            for step in tb["steps"]:
                if int(step["depid"]) >= 0 and (key[0], int(step["depid"])) not in self.tbs:
                    raise Broken
        while True:
            self.chance.shuffle(keys)
            for key in keys:
                tb = self.tbs[key]
                if tb["at"] < len(tb["steps"]) and self._event(key, tb):
                    break
            else:
                break
        if any(tb["at"] < len(tb["steps"]) for tb in self.tbs.values()):
            return "hangs"
        if any(self.fifos.values()):
            return "wrong"
        return "right" if self._right() else "wrong"

    def _event(self, key, tb) -> bool:
        step = tb["steps"][tb["at"]]
        kind, count = step["type"], int(step["cnt"])
        rank = key[0]
        sends, receives = kind in ("s", "rcs", "rrs", "rrcs"), kind in ("r", "rcs", "rrc", "rrs", "rrcs")
        if tb["held"] is not None:
            self._finish(rank, tb, step, sends, receives)
            return True
        if int(step["depid"]) >= 0 and self.tbs[rank, int(step["depid"])]["passed"] < int(step["deps"]):
            return False
        if kind == "nop":
            tb["at"] += 1
            return True
        if not 1 <= count <= 71:
            raise Broken
        if sends and (("in", tb["out"]) not in self.ends or tb["out"][1] < 0):
            raise Broken
        if receives and (("out", tb["in"]) not in self.ends or tb["in"][0] < 0):
            raise Broken
        if (receives and not self.fifos[tb["in"]]) or (sends and len(self.fifos[tb["out"]]) >= self.capacity):
            return False
        begin = tb["moved"]
        end = min(count, begin + self.merge) if sends or receives else count
        got = self.fifos[tb["in"]][0] if receives else None
        if receives and len(got) != end - begin:
            raise Broken
        local = [self._read(rank, step, "src", k) for k in range(begin, end)] if kind not in ("r", "rcs") else []
        if kind in ("r", "rcs"):
            data = list(got)
        elif receives:
            data = [plus(a, b) for a, b in zip(got, local, strict=True)]
        elif kind == "re":
            data = [plus(a, self._read(rank, step, "dst", k)) for k, a in enumerate(local)]
        else:
            data = local
        tb["held"] = begin, end, data
        return True

    def _read(self, rank, step, side, k):
        return self.memory[self._checked(rank, step, side, k)]

    def _checked(self, rank, step, side, k):
        offset, buffer = int(step[f"{side}off"]), step[f"{side}buf"]
        if offset < 0 or offset + int(step["cnt"]) > step["size"][buffer]:
            raise Broken
        return self._slot(rank, buffer, offset + k)

    def _finish(self, rank, tb, step, sends, receives) -> None:
        begin, end, data = tb["held"]
        tb["held"] = None
        if step["type"] not in ("s", "rrs"):
            for k, value in enumerate(data):
                self.memory[self._checked(rank, step, "dst", begin + k)] = value
        if receives:
            self.fifos[tb["in"]].popleft()
        if sends:
            self.fifos[tb["out"]].append(data)
        tb["moved"] = end
        if end >= int(step["cnt"]):
            if step["hasdep"] == "1":
                tb["passed"] = tb["at"]
            tb["at"] += 1
            tb["moved"] = 0

    def _right(self) -> bool:
        n, total, share, root = self.n, self.total, self.total // self.n, self.root
        for r in range(n):
            if self.coll == "allgather":
                want = [Counter([(q, x)]) for q in range(n) for x in range(share)]
            elif self.coll == "alltoall":
                want = [Counter([(q, r * share + x)]) for q in range(n) for x in range(share)]
            elif self.coll == "broadcast":
                want = [Counter([(root, x)]) for x in range(total)]
            elif self.coll == "scatter":
                want = [Counter([(root, r * total + x)]) for x in range(total)]
            elif self.coll == "gather":
                want = [Counter([(q, x)]) for q in range(n) for x in range(total)] if r == root else []
            else:
                own = {"allreduce": range(total), "reducescatter": range(r * share, (r + 1) * share)}
                own["reduce"] = range(total) if r == root else range(0)
                want = [Counter((q, x) for q in range(n)) for x in own[self.coll]]
            if [self.memory[self._slot(r, "o", k)] for k in range(len(want))] != want:
                return False
        return True


def plus(a, b):
    return UNDEFINED if UNDEFINED in (a, b) else a + b
