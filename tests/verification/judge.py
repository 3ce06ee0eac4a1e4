"""A second judge of `.ten` files as text, for the tests alone: it reads a file and replays its schedule.

It shares no code with collc: numbers are fractions, contributions are sets, and every rule is written from docs/ten.md
in the plainest way. `faults` says what is wrong with a file; nothing if it is right.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

TOKEN = re.compile(
    r'\s*(?:#[^\n]*\s*)*("(?:[^"\\]|\\.)*"|->|\.\.|[^\s\[\]{},:="#]+?(?=\.\.|->|[\s\[\]{},:="#]|$)|[\[\]{},:=])'
)
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
TIMES = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
UNITS = {**BYTES, **TIMES, **{f"{unit}/s": scale for unit, scale in BYTES.items()}}
LONGEST = 2**62
MEMORY_TRAFFIC = {"baseline": Fraction(3, 2), "offload": Fraction(1, 2)}

REDUCING = ("reduce", "reduce_scatter", "all_reduce")
SHAPES = {
    # indices of a block, and the members that hold block b at the start and at the end, of n members with root r
    "all_gather": (1, lambda b, n, r: {b}, lambda b, n, r: set(range(n))),
    "reduce_scatter": (1, lambda b, n, r: set(range(n)), lambda b, n, r: {b}),
    "all_reduce": (1, lambda b, n, r: set(range(n)), lambda b, n, r: set(range(n))),
    "all_to_all": (2, lambda b, n, r: {b // n}, lambda b, n, r: {b % n}),
    "scatter": (1, lambda b, n, r: {r}, lambda b, n, r: {b}),
    "gather": (1, lambda b, n, r: {b}, lambda b, n, r: {r}),
    "broadcast": (0, lambda b, n, r: {r}, lambda b, n, r: set(range(n))),
    "reduce": (0, lambda b, n, r: set(range(n)), lambda b, n, r: {r}),
}


class Unreadable(Exception):
    """The text is no finished module."""


class Text:
    """The tokens of a file, read one after another."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        place = 0
        while match := TOKEN.match(text, place):
            self.tokens.append(match[1])
            place = match.end()
        if text[place:].strip():
            raise Unreadable(f"cannot read {text[place : place + 20]!r}")
        self.place = 0

    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1] if self.place <= len(self.tokens) else ""

    def has(self, word: str) -> bool:
        if self.next() == word:
            self.place += 1
            return True
        return False

    def need(self, *words: str) -> str:
        token = self.take()
        if token not in words:
            raise Unreadable(f"{token!r} in place of {words}")
        return token

    def name(self) -> str:
        token = self.take()
        return json.loads(token) if token.startswith('"') else token

    def number(self) -> int:
        token = self.take()
        if not re.fullmatch(r"-?\d+", token):
            raise Unreadable(f"{token!r} is no number")
        return int(token)

    def quantity(self) -> Fraction:
        match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?:/(\d+))?([A-Za-z]+(?:/s)?)", self.take())
        if not match or match[3] not in UNITS:
            raise Unreadable("no quantity")
        return Fraction(match[1]) / int(match[2] or 1) * UNITS[match[3]]

    def time(self) -> int:
        value = self.quantity()
        if value.denominator != 1 or abs(value) >= 2**63:
            raise Unreadable("no whole picoseconds")
        return int(value)

    def numbers(self, opening: str, closing: str) -> list[int]:
        self.need(opening)
        found: list[int] = []
        while not self.has(closing):
            first = self.number()
            found += range(first, self.number()) if self.has("..") else [first]
            self.has(",")
        return found

    def index(self) -> tuple[int, ...]:
        return tuple(self.numbers("[", "]")) if self.next() == "[" else ()

    def label(self) -> tuple[str, tuple[int, ...]]:
        name = self.name()
        return name, self.index()


class File:
    """A module as plain values, and what is wrong with its heads."""

    def __init__(self, text: str) -> None:
        self.text, self.faults = Text(text), list[str]()
        t = self.text
        t.need("ten"), t.need("1"), t.need("module")
        t.name()
        t.need("model")
        self.model = t.need("store", "pipelined")
        self.bound: int | None = None
        while t.next() != "network":
            head = t.need("algorithm", "seed", "bound", "note")  # a module between passes is not finished
            self.bound = t.time() if head == "bound" else self.bound
            t.take()
        self.network()
        self.demand()
        self.schedule()
        if t.next():
            raise Unreadable(f"{t.next()!r} after the schedule")

    def network(self) -> None:
        t = self.text
        t.need("network")
        t.name()
        unwound = t.has("unwound")
        t.need("{"), t.need("npus")
        self.npus = t.number()
        t.need("switches")
        devices = self.npus + t.number()
        if unwound and devices > self.npus:
            self.faults.append("unwound, with switches")
        self.names()
        self.removed = set(t.numbers("{", "}")) if t.has("removed") else set()
        self.buffer, self.multicast, self.reduces = {}, set(), set()
        while t.has("options"):
            switches = t.numbers("{", "}")
            limit = t.number() if t.has("buffer") else None
            for word, group in (("multicast", self.multicast), ("reduces", self.reduces)):
                group.difference_update(switches)
                if t.has(word):
                    group.update(switches)
            self.buffer |= dict.fromkeys(switches, limit)
        self.sends, self.receives = {}, {}
        while t.has("limits"):
            limited = t.numbers("{", "}")
            rates = {word: t.quantity() if t.has(word) else None for word in ("inject", "eject", "memory")}
            mode = t.name() if t.has("endpoint") else "baseline"
            traffic = MEMORY_TRAFFIC[mode]
            if t.has("traffic"):
                traffic = Fraction(t.number(), (t.need("for"), t.number())[1])
            memory = None if rates["memory"] is None else rates["memory"] / traffic
            out = [rate for rate in (rates["inject"], memory) if rate is not None]
            self.sends |= dict.fromkeys(limited, min(out, default=None))
            self.receives |= dict.fromkeys(limited, rates["eject"])
        while t.has("axis"):
            t.name(), t.number()
        kinds: list[tuple[int, Fraction]] = []
        while t.has("kind"):
            t.number(), t.need("latency")
            latency = t.time()
            t.need("bandwidth")
            kinds.append((latency, t.quantity()))
        self.links: list[tuple[int, int, int, Fraction]] = []
        self.lanes: dict[tuple[int, int], list[int]] = defaultdict(list)
        while t.has("link"):
            source, target = self.device(), (t.need("->"), self.device())[1]
            t.need("kind")
            latency, rate = kinds[t.number()]
            if t.has("axis"):
                t.number()
            limits = [rate, self.sends.get(source), self.receives.get(target)]
            self.lanes[source, target].append(len(self.links))
            self.links.append((source, target, latency, min(limit for limit in limits if limit is not None)))
        t.need("}")

    def names(self) -> None:
        t = self.text
        names: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
        while t.has("names"):
            name, shape = t.label()
            t.need("from")
            first, strides = t.number(), list[int]()
            for size in reversed(shape):
                strides.insert(0, strides[0] * shape[len(shape) - len(strides)] if strides else 1)
                assert size >= 0
            strides = list(t.index()) if t.has("strides") else strides
            places = [((), first)]
            for size, stride in zip(shape, strides, strict=True):
                places = [((*index, k), number + k * stride) for index, number in places for k in range(size)]
            for index, number in places:
                names[name, index].append(number)
            if t.has("labels"):
                while t.take() != "]":
                    pass
        self.device_of = {label: numbers[0] for label, numbers in names.items() if len(numbers) == 1}

    def device(self) -> int:
        if self.text.next().startswith("%"):
            return int(self.text.take()[1:])
        label = self.text.label()
        if label not in self.device_of:
            raise Unreadable(f"no device {label}")
        return self.device_of[label]

    def demand(self) -> None:
        t = self.text
        t.need("demand"), t.need("{")
        self.chunks: list[tuple[int, set[int], set[int], bool]] = []
        self.chunk_of: dict[tuple[int, str, tuple[int, ...]], list[int]] = defaultdict(list)
        number = 0
        while t.has("run"):
            t.name(), t.need("group")
            group, standard = t.numbers("[", "]"), None
            if t.has("standard"):
                standard = [t.name(), int(t.quantity()), (t.need("chunks"), t.number())[1], None, ""]
                standard[3] = t.number() if t.has("root") else None
                standard[4] = t.take() if t.has("op") else ""
            t.need("{")
            sets: list[set[int]] = []
            while t.has("set"):
                t.take(), t.need("=")
                sets.append(set(t.numbers("{", "}")))
            while t.has("family"):
                t.name(), t.number()
            rows: list[tuple[int, set[int], set[int], str]] = []
            while t.has("chunk"):
                name, index = t.label()
                size = int(t.quantity())
                t.need("pre")
                before = sets[int(t.take()[1:])]
                t.need("post")
                op = "" if t.next().startswith("@") else t.take()
                rows.append((size, before, sets[int(t.take()[1:])], op))
                self.chunk_of[number, name, index].append(len(self.chunks))
                self.chunks.append((size, before, rows[-1][2], bool(op)))
            t.need("}")
            self.check_run(group, standard, rows)
            number += 1
        t.need("}")

    def check_run(
        self, group: list[int], standard: list | None, rows: list[tuple[int, set[int], set[int], str]]
    ) -> None:
        here = set(group).union(*(row[1] | row[2] for row in rows))
        if len(set(group)) < len(group) or here & self.removed or not all(0 <= npu < self.npus for npu in here):
            self.faults.append("a group or holders that are no NPUs")
        if not group and (rows or standard):
            self.faults.append("a run of nobody")
        if standard is None or not group:
            return
        kind, size, chunks, root, op = standard
        if kind not in SHAPES:
            raise Unreadable(f"no collective {kind}")
        indices, start, end = SHAPES[kind]
        n = len(group)
        good = (op != "") == (kind in REDUCING) and chunks > 0 and len(rows) == n**indices * chunks
        good = good and (root is not None) == (kind in ("scatter", "gather", "broadcast", "reduce"))
        good = good and (root is None or root < n) and sum(row[0] for row in rows) == size * (n if indices == 2 else 1)
        for place, (bytes_of, before, after, reduced) in enumerate(rows):
            block = place // max(1, chunks)
            good = good and bytes_of == rows[0][0] and reduced == op
            good = good and before == {group[k] for k in start(block, n, root)}
            good = good and after == {group[k] for k in end(block, n, root)}
        if not good:
            self.faults.append(f"this is no {kind}")

    def schedule(self) -> None:
        t = self.text
        t.need("schedule"), t.need(self.model)
        self.rows: list[dict] = []
        steps = step = reduces = None
        if t.need("rows", "steps") == "steps":
            steps, step = t.number(), (t.need("of"), t.time())[1]
            t.need("as"), t.take()
            reduces = t.number() if t.has("reduce") else 0
        t.need("{")
        last = -1
        while not t.has("}"):
            if steps is None:
                t.need("at")
                self.transfers(t.time())
                continue
            t.need("step")
            last = max(last, number := t.number())
            before = len(self.rows)
            self.transfers(number * step)
            good = all(
                (row["verb"] == "reduce") == (number < reduces) and row["verb"] != "keep" for row in self.rows[before:]
            )
            if not good or number >= steps or step <= 0 or reduces > steps:
                self.faults.append("a step that is not what the head says")
        used = {row["start"] // step for row in self.rows} if step else set()
        if steps is not None and steps != max(used, default=-1) + 1:
            self.faults.append("another number of steps")

    def transfers(self, start: int) -> None:
        t = self.text
        while t.next() in ("send", "reduce", "keep"):
            row = {"start": start, "verb": t.take(), "chunk": self.chunk(), "from": None, "message": None}
            t.need("over")
            row["link"] = self.link()
            row["from"] = self.link() if t.has("from") else None
            row["message"] = t.number() if t.has("message") else None
            row |= {"ready": start, "injected": start, "received": None}
            for word in ("ready", "injected", "received") if row["message"] is not None else ():
                row[word] = t.time() if t.has(word) else row[word]
            self.rows.append(row)

    def chunk(self) -> int:
        t = self.text
        if t.next().startswith("%"):
            return int(t.take()[1:])
        run = (t.number(), t.need(":"))[0]
        found = self.chunk_of.get((run, *t.label()), [])
        if len(found) != 1:
            raise Unreadable("no such chunk")
        return found[0]

    def link(self) -> int:
        t = self.text
        if re.fullmatch(r"%-?\d+", t.next()) and t.tokens[t.place + 1 : t.place + 2] != ["->"]:
            return int(t.take()[1:])
        ends = self.device(), (t.need("->"), self.device())[1]
        lane = t.number() if t.has("lane") else 0
        if not 0 <= lane < len(self.lanes[ends]):
            raise Unreadable("no such link")
        return self.lanes[ends][lane]


class Replay:
    """The schedule of a file, replayed chunk by chunk."""

    def __init__(self, file: File) -> None:
        self.file, self.faults = file, file.faults
        self.rows = [row for row in file.rows if self.is_possible(row)]
        if len(self.rows) < len(file.rows):
            self.faults.append("a transfer that cannot be")
        for row in self.rows:
            latency, rate = file.links[row["link"]][2:]
            wire = -(-file.chunks[row["chunk"]][0] * 10**12 // rate)
            row["over"] = row["start"] + wire + latency
            row["free"] = row["over"] if file.model == "store" else row["start"] + wire
            row["end"] = row["over"] if row["received"] is None else row["received"]
        self.slots: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.no_two_at_once("link", [(row["link"], row["start"], row["free"]) for row in self.rows])
        self.npus_keep_up()
        moves = self.moves()
        for chunk in range(len(file.chunks)):
            self.replay(chunk, [move for move in moves if move["chunk"] == chunk])
        for switch, spans in self.slots.items():
            limit = file.buffer.get(switch)
            for begin, _ in spans:
                if limit is not None and sum(low <= begin < high for low, high in spans) > limit:
                    self.faults.append("a full buffer")
        time = max((row["end"] for row in file.rows if "end" in row), default=0)
        if file.bound is not None and file.bound > time:
            self.faults.append("a bound above the time of the schedule")

    def is_possible(self, row: dict) -> bool:
        file, links = self.file, len(self.file.links)
        if not (0 <= row["chunk"] < len(file.chunks) and 0 <= row["link"] < links and 0 <= row["start"] < LONGEST):
            return False
        source, target = file.links[row["link"]][:2]
        if source == target or {source, target} & file.removed:
            return False
        if row["from"] is not None and not (
            0 <= row["from"] < links and file.links[row["from"]][1] == source and source < file.npus
        ):
            return False
        return row["verb"] != "keep" or target < file.npus

    def no_two_at_once(self, what: str, spans: list[tuple[int, int, int]]) -> None:
        by_user: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for user, begin, end in spans:
            by_user[user].append((begin, end))
        for times in by_user.values():
            times.sort()
            if any(second[0] < first[1] for first, second in pairwise(times)):
                self.faults.append(f"two transfers at once: {what}")

    def slow(self, npu: int, sends: bool) -> Fraction | None:
        """The rate of an NPU that cannot use all its links at once."""
        rate = (self.file.sends if sends else self.file.receives).get(npu)
        width = sum(link[3] for link in self.file.links if link[0 if sends else 1] == npu)
        return rate if rate is not None and rate < width else None

    def npus_keep_up(self) -> None:
        spans: dict[bool, list[tuple[int, int, int]]] = {True: [], False: []}
        for row in self.rows:
            size = self.file.chunks[row["chunk"]][0]
            source, target = self.file.links[row["link"]][:2]
            out, into = self.slow(source, True), self.slow(target, False)
            if out is not None:
                spans[True].append((source, row["injected"], row["injected"] + -(-size * 10**12 // out)))
            if into is not None:
                spans[False].append((target, row["end"] - -(-size * 10**12 // into), row["end"]))
            if (out is None and row["injected"] != row["start"]) or (into is None and row["received"] is not None):
                self.faults.append("a wait at an NPU that has no limit")
        self.no_two_at_once("an NPU sends", spans[True])
        self.no_two_at_once("an NPU receives", spans[False])

    def moves(self) -> list[dict]:
        """What goes from device to device: a transfer, or all hops of a message together."""
        file, found = self.file, list[dict]()
        messages: dict[int, list[dict]] = defaultdict(list)
        for row in self.rows:
            if row["message"] is not None:
                messages[row["message"]].append(row)
        hops_of = [[row] for row in self.rows if row["message"] is None]
        hops_of += [sorted(hops, key=lambda row: (row["start"], row["link"])) for hops in messages.values()]
        for hops in hops_of:
            first, last = hops[0], hops[-1]
            source, target = file.links[first["link"]][0], file.links[last["link"]][1]
            if first["message"] is not None:
                good = source < file.npus and target < file.npus
                for row in hops:
                    times = [0, row["ready"], row["injected"], row["start"]]
                    good = good and times == sorted(times) and row["over"] <= row["end"] < LONGEST
                    good = good and row["verb"] != "keep" and row["from"] is None
                    good = good and (row["chunk"], row["verb"]) == (first["chunk"], first["verb"])
                for before, after in pairwise(hops):
                    middle = file.links[before["link"]][1]
                    good = good and middle == file.links[after["link"]][0] and before["end"] <= after["ready"]
                    self.slots[middle].append((before["end"], after["free"]))
                if not good:
                    self.faults.append("hops that are no message")
            found.append({**first, "start": first["ready"], "end": last["end"], "source": source, "target": target})
            found[-1]["link"] = last["link"]
        return sorted(found, key=lambda move: (move["start"], move["link"]))

    def replay(self, chunk: int, moves: list[dict]) -> None:
        _, before, after, reduced = self.file.chunks[chunk]
        everything = frozenset(before) if reduced else frozenset(["copy"])
        held = {npu: frozenset([npu]) if reduced else everything for npu in before}
        apart: dict[int, frozenset] = {}
        inside: dict[int, list[dict]] = defaultdict(list)
        coming: list[dict] = []
        for move in moves:
            self.arrive(coming, move["start"], held, apart, inside)
            move["adds"] = reduced and move["verb"] != "send"
            if move["verb"] != "send" and not reduced:
                self.faults.append("a copy is reduced")
            value = self.carried(move, held, apart, inside)
            if not value:
                self.faults.append("sent before it is there")
                continue
            if not move["adds"] and value != everything:
                self.faults.append("an incomplete sum is sent as final")
            move["value"] = value
            coming.append(move)
            if move["end"] <= move["start"]:
                self.arrive(coming, move["start"], held, apart, inside)
        self.arrive(coming, float("inf"), held, apart, inside)
        for npu in after:
            if not everything or held.get(npu) != everything:
                self.faults.append("not delivered")
        for switch, slots in inside.items():
            if switch not in self.file.reduces and any(slot["adds"] and not slot["left"] for slot in slots):
                self.faults.append("a partial stays in a switch")
            self.slots[switch] += [(slot["since"], slot["until"]) for slot in slots if slot["until"] > slot["since"]]

    def carried(self, move: dict, held: dict, apart: dict, inside: dict) -> frozenset | None:
        if move["from"] is not None:
            return apart.get(move["from"])
        return held.get(move["source"]) if move["source"] < self.file.npus else self.leave(inside[move["source"]], move)

    def arrive(self, coming: list[dict], time: float, held: dict, apart: dict, inside: dict) -> None:
        """Let what comes up to a time arrive, copies before partials."""
        for move in sorted((m for m in coming if m["end"] <= time), key=lambda m: (m["end"], m["adds"], m["link"])):
            coming.remove(move)
            apart[move["link"]] = move["value"]
            if move["verb"] == "keep":
                continue
            if move["target"] >= self.file.npus:
                self.store(inside[move["target"]], move)
                continue
            old = held.get(move["target"], frozenset()) if move["adds"] else frozenset()
            if old & move["value"]:
                self.faults.append("a contribution twice")
            held[move["target"]] = old | move["value"]

    def store(self, slots: list[dict], move: dict) -> None:
        sums = [slot for slot in slots if slot["adds"]]
        if move["adds"] and move["target"] in self.file.reduces and sums and not sums[-1]["left"]:
            if sums[-1]["value"] & move["value"]:
                self.faults.append("a contribution twice")
            sums[-1]["value"] |= move["value"]
            return
        slot = {"since": move["end"], "until": -1, "left": 0, "value": move["value"], "adds": move["adds"]}
        slots.append({**slot, "origin": move["source"]})

    def leave(self, slots: list[dict], move: dict) -> frozenset | None:
        """What leaves a switch: its slots are in order of arrival."""
        switch = move["source"]
        adding = switch in self.file.reduces
        copies = [slot for slot in slots if not slot["adds"]]
        partials = [slot for slot in slots if slot["adds"] and (adding or not slot["left"])]
        choice = partials if partials and (move["adds"] or not copies) else copies
        if not choice:
            return None
        if choice is partials and not adding:
            slot = next((slot for slot in choice if slot["origin"] != move["target"]), choice[0])
        else:
            choice = choice[-1:] if choice is partials else choice
            idle = [slot for slot in choice if switch in self.file.multicast or slot["until"] <= move["start"]]
            if not idle:
                self.faults.append("two departures at once")
            slot = (idle or choice)[-1]
        slot["until"] = max(slot["until"], move["free"])
        slot["left"] += 1
        return slot["value"]


def faults(text: str) -> list[str]:
    """What is wrong with a `.ten` file: why it cannot be read, or which rules its schedule breaks."""
    try:
        file = File(text)
    except (Unreadable, ValueError, IndexError, KeyError, OverflowError, ZeroDivisionError) as error:
        return [f"unreadable: {error!r}"]
    return Replay(file).faults
