"""Files of every synthesizer, and random changes of their heads and lines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import collc

LINK = "bandwidth: 50GiB/s, latency: 0.5us"
MESH, RING, CUBE = f"mesh2d(2, 2, {LINK})", f"ring(4, {LINK})", f"hypercube(3, {LINK})"
STAR = "{{\n npu g[4]\n switch s{0}\n for i in 0..4 {{ link g[i] <-> s (latency: 0.5us, bandwidth: 50GiB/s) }}\n}}"
SMALL = STAR.format(" (buffer: 4)")
ADDING = STAR.format(" (buffer: 4, multicast: true, reduce: true)")
SLOW = (
    f"{{\n npu g[4] (inject: 60GiB/s, eject: 70GiB/s)\n for i in 0..4 {{ link g[i] <-> g[(i + 1) % 4] ({LINK}) }}\n}}"
)
PROGRAMS = {
    "tacos": (MESH, "all_reduce 2", "tacos(seed: 1)"),
    "pccl": (SMALL, "all_gather 1", "pccl(seed: 1)"),
    "pccl_sums": (SMALL, "all_reduce 1", "pccl(seed: 1)"),
    "exact": (MESH, "all_gather 1", "exact(steps: 6)"),
    "symmetric": (RING, "all_reduce 2", "symmetric()"),
    "overlapped": (MESH, "all_reduce 2", "overlapped()"),
    "exchange": (CUBE, "all_reduce 1", "exchange()"),
    "hierarchical": (MESH, "reduce_scatter 2", "hierarchical()"),
    "themis": (MESH, "all_reduce 2", "themis()"),
    "swarm": (ADDING, "broadcast 2", "swarm()"),
    "forest": (MESH, "all_gather 2", 'forest(link_model: "pipelined")'),
    "auto": (RING, "all_to_all 1", "auto()"),
    "in_network": (ADDING, "all_reduce 1", "auto()"),
    "limited": (SLOW, "all_gather 1", "tacos()"),
    "unwound": ("dgx1()", "all_gather 1", "tacos()"),
    "fixed": (RING, "all_reduce 1 ring", "fixed"),
    "queued": (MESH, "all_reduce 1 direct", "fixed\n    allow congestion"),
    "queued_limited": (SLOW, "all_reduce 1 direct", "fixed\n    allow congestion"),
    "queued_switch": (STAR.format(" (buffer: 9)"), "all_gather 1 direct", "fixed\n    allow congestion"),
    "groups": (MESH, "", "auto()"),
}
"""Network, collective with its number of chunks and algorithm, and how it is planned."""


@cache
def file_of(name: str) -> str:
    """The text of the `.ten` file of a program."""
    network, run, planner = PROGRAMS[name]
    head = "".join(f"import std.{module}\n" for module in ("topologies", "clusters", "collectives", "algorithms"))
    if run:
        collective, chunks, *using = run.split()
        runs = f"run {collective}(t.npus, size: 1MiB, chunks: {chunks})" + "".join(f" using {u}" for u in using)
    else:
        runs = "run all_gather(t.npu[0, *], size: 1MiB)\n    run all_to_all(t.npu[1, *], size: 1MiB)"
    body = f'schedule s on t {{\n    {runs}\n    synthesize {planner}\n    emit ten("s.ten")\n}}\n'
    text = f"{head}topology t {network}\n{body}" if network[0] == "{" else f"{head}topology t = {network}\n{body}"
    with TemporaryDirectory() as folder:
        collc.compile(text, output=folder, seed=1)
        return Path(folder, "s.ten").read_text()


def _inserted(after: str, *lines: str) -> Callable[[str, random.Random], str]:
    return lambda text, rng: re.sub(after, lambda found: found[0] + rng.choice(lines), text, count=1)


def _replaced(pattern: str, *texts: str) -> Callable[[str, random.Random], str]:
    return lambda text, rng: re.sub(pattern, lambda found: found.expand(rng.choice(texts)), text, count=1)


def _with_other_model(text: str, rng: random.Random) -> str:
    old, new = ("store", "pipelined") if "\nmodel store" in text else ("pipelined", "store")
    text = text.replace(f"model {old}", f"model {new}", 1)
    return text.replace(f"schedule {old}", f"schedule {new}", 1) if rng.random() < 0.8 else text


def _with_phase(text: str, rng: random.Random) -> str:
    kind = rng.choice(["", "inverted ", "at 1us "])
    return f"{text}\nphase {kind}{{\n{text.removeprefix('ten 1')}}}\n"


def _without_a_run(text: str, rng: random.Random) -> str:
    """All transfers of one run are missing, and the head says that the others are planned."""
    run = rng.randrange(2)
    lines = [line for line in text.splitlines() if f" {run}:" not in line or " over " not in line]
    head = rng.choice(["", "planned {}\n", f"planned {{{1 - run}}}\n", "planned {0, 1}\n"])
    return "\n".join(lines).replace("\nnetwork", f"\n{head}\nnetwork", 1) + "\n"


HEADS: dict[str, Callable[[str, random.Random], str]] = {
    "planned": _inserted(r"\nmodel \w+\n", "planned {}\n", "planned {0}\n", "planned {0..2}\n", "planned {1}\n"),
    "planned with others missing": _without_a_run,
    "phase": _with_phase,
    "bound": _replaced(r"\nbound \S+", "\nbound 1s", "\nbound 0us", "\nbound 33us", "\nbound 17.7us", "\nbound 12us"),
    "no bound": _replaced(r"\nbound .*", ""),
    "model": _with_other_model,
    "steps": _replaced(r" steps \d+", " steps 0", " steps 1", " steps 3", " steps 7", " steps 9999"),
    "step": _replaced(r"(steps \d+ of) \S+", r"\1 1ps", r"\1 2us", r"\1 10us", r"\1 2305843009213.693952us", r"\1 99s"),
    "reduce steps": _replaced(r"( as uint16)(?: reduce \d+)?", r"\1", r"\1 reduce 1", r"\1 reduce 2", r"\1 reduce 9"),
    "cells": _replaced(" as uint16", " as uint32"),
    "unwound": _replaced(r'(\nnetwork "\w+")(?: unwound)?', r"\1 unwound", r"\1"),
    "npus": _replaced(r"(\n +npus) \d+", r"\1 3", r"\1 5", r"\1 9"),
    "switches": _replaced(r"(\n +switches) \d+", r"\1 0", r"\1 1", r"\1 2"),
    "removed": _inserted(
        r"\n +names [^\n]*(?=\n +(?:kind|options|limits|axis))", *(f"\n removed {{{k}}}" for k in range(5))
    ),
    "options": _replaced(
        r"(\n +options \{\d\}).*", r"\1 buffer 1", r"\1 buffer 2 multicast", r"\1 reduces", r"\1 buffer 0"
    ),
    "limits": _replaced(
        r"\n +limits .*",
        "",
        "\nlimits {0..4} inject 50GiB/s",
        "\nlimits {0, 2} eject 55GiB/s",
        "\nlimits {1} inject 20GiB/s",
        "\nlimits {0..4} memory 95GiB/s endpoint baseline",
        "\nlimits {3} inject 99GiB/s eject 99GiB/s",
    ),
    "new limits": _inserted(
        r"\n +names [^\n]*(?=\n +(?:kind|axis))",
        "\nlimits {0..4} inject 50GiB/s",
        "\nlimits {1} eject 70GiB/s",
        "\nlimits {2} memory 60GiB/s endpoint offload",
        "\nlimits {0..4} inject 101GiB/s",
    ),
    "names": _replaced(
        r"(\n +names [\w.]+\[[^]]*\] from) \d+", r"\1 1", r"\1 2", r"\1 0 strides [1, 1]", r"\1 0 strides [1]"
    ),
    "kind": _replaced(
        r"latency \S+ bandwidth \S+",
        "latency 0us bandwidth 50GiB/s",
        "latency 0.6us bandwidth 50GiB/s",
        "latency 0.5us bandwidth 60GiB/s",
        "latency 0.5us bandwidth 40GiB/s",
    ),
    "group": _replaced(
        r"group \[[^]]*\]", "group []", "group [0]", "group [0, 0]", "group [3, 2, 1, 0]", "group [0, 1, 2, 2]"
    ),
    "group without a standard": _replaced(
        r"group \[[^]]*\] standard .*? \{", "group [] {", "group [0, 0] {", "group [1] {"
    ),
    "standard": _replaced(
        r"standard \w+", *(f"standard {kind}" for kind in ("all_gather", "all_reduce", "reduce", "gather"))
    ),
    "size": _replaced(r"(standard \w+) \S+", r"\1 2MiB", r"\1 512KiB", r"\1 1B", r"\1 0B"),
    "chunks": _replaced(r"(standard \w+ \S+ chunks) \d+", r"\1 0", r"\1 1", r"\1 2", r"\1 3"),
    "root": _replaced(r"(standard \w+ \S+ chunks \d+)(?: root \d+)?", r"\1", r"\1 root 0", r"\1 root 1", r"\1 root 9"),
    "operation": _replaced(r" op sum", "", " op max", " op avg"),
    "set": _replaced(r"(set @0 =) \{[^}]*\}", r"\1 {0}", r"\1 {0, 1}", r"\1 {}", r"\1 {1..4}"),
    "last set": lambda text, rng: re.sub(
        r"(.*set @\d+ =) \{[^}]*\}", rng.choice([r"\1 {0}", r"\1 {}", r"\1 {0..2}"]), text, count=1, flags=re.DOTALL
    ),
    "words": _replaced(r"\nalgorithm .*", '\nalgorithm "z3"\nseed 4\n', "", '\nalgorithm "exact"\n'),
}
"""Changes of heads, by what they change."""

_TOKEN = re.compile(r"%-?\d+|@\d+|\d+(?:\.\d+)?(?:/\d+)?[A-Za-z]+(?:/s)?|\d+|[a-z_]\w*\[[^]]*\]|send|reduce|keep|sum")
_VERBS = ["send", "reduce", "keep"]


def _other_token(token: str, tokens: list[str], rng: random.Random) -> str:
    """A token in the place of another: one of its kind from the file, or a number that is near."""
    if token in _VERBS:
        return rng.choice(_VERBS)
    if re.fullmatch(r"\d+", token):
        return str(max(0, int(token) + rng.choice([-2, -1, 1, 2])))
    if token.endswith("us") and rng.random() < 0.6:
        shifted = round(float(token[:-2]) * 10**6) + rng.choice([-1, 1, -500_000, 500_000, -2_941_407, 5_382_813])
        return f"{shifted // 10**6}.{shifted % 10**6:06d}us" if shifted >= 0 else f"-{-shifted}ps"
    kind = re.sub(r"[\d.\[\], /%-]+", "", token)
    return rng.choice([other for other in tokens if re.sub(r"[\d.\[\], /%-]+", "", other) == kind])


def line_mutant(text: str, rng: random.Random) -> str:
    """A file in which a line or two are missing, exchanged, repeated or changed in a token."""
    lines, tokens = text.splitlines(), _TOKEN.findall(text)
    queued = [number for number, line in enumerate(lines) if re.search("message|limits", line)]
    scheduled = [number for number, line in enumerate(lines) if re.search(" over |^ +(at|step) ", line)]
    for _ in range(rng.choice([1, 1, 1, 2])):
        some = rng.choice([scheduled, queued or scheduled, range(1, len(lines))])
        place, other = rng.choice(some), rng.choice(some)
        if max(place, other) >= len(lines):
            continue
        kind = rng.randrange(10)
        if kind == 0:
            del lines[place]
        elif kind == 1:
            lines[place], lines[other] = lines[other], lines[place]
        elif kind == 2:
            lines.insert(place, lines[other])
        elif kind == 3 and " over " in lines[place]:
            lines[place] += rng.choice(
                [" message 3", " message 900 ready 0us", *re.findall(r" message .*| from .*", text)]
            )
        elif kind == 4 and " message " in lines[place]:
            time = rng.choice([token for token in tokens if token.endswith("us")])
            lines[place] = re.sub(r" (injected|received) \S+", "", lines[place]) + rng.choice(
                [f" received {time}", f" injected {time}", ""]
            )
        else:
            found = list(_TOKEN.finditer(lines[place]))
            if found:
                token = rng.choice(found)
                new = _other_token(token[0], tokens, rng)
                lines[place] = lines[place][: token.start()] + new + lines[place][token.end() :]
    return "\n".join(lines) + "\n"
