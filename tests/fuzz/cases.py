"""The cases of the fuzzers: a command and its files, from a seed and a number."""

from __future__ import annotations

import argparse
import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collc.command.cli import parsers
from collc.machines.kinds import import_kinds
from tests.fuzz.mutations import NUMBERS, changed_bytes, changed_json, changed_text, spliced
from tests.fuzz.programs import random_program
from tests.machines import test_errors as machines

ROOT: Final = Path(__file__).parents[2]
WITH_JSON: Final = {"compile", "check", "verify", "run", "simulate", "inspect", "show", "topology", "compare", "design"}


@dataclass(frozen=True)
class Case:
    """files: by name, in the folder of the command. words: the command. about: its kind, seed and number."""

    kind: str
    words: tuple[str, ...]
    files: dict[str, bytes]
    about: dict[str, object] = field(default_factory=dict)


@functools.cache
def programs() -> tuple[str, ...]:
    """Good programs and wrong ones."""
    folders = [ROOT / "examples", ROOT / "stdlib", ROOT / "tests" / "errors"]
    texts = [path.read_text("utf-8") for folder in folders for path in sorted(folder.rglob("*.coll"))]
    return tuple(text for text in texts if len(text) < 20_000)


HEAD: Final = "import std.topologies\nimport std.collectives\nimport std.algorithms\n"
LINK: Final = "bandwidth: 50GiB/s, latency: 0.5us"
SEEDS: Final = (
    HEAD
    + f"""
topology r = ring(4, {LINK})
topology m = mesh2d(3, 2, {LINK})
topology w {{ npu npu[4]  switch s (multicast: true, reduce: true, buffer: 4)
    for i in 0..4 {{ link npu[i] <-> s ({LINK}) }} }}
topology e = limited(ring(3, {LINK}), inject: 60GB/s, eject: 70GB/s, memory: 90GB/s)
schedule ag on r {{ run all_gather(r.npus, size: 4MiB) synthesize tacos
    emit ten emit ten("agb.ten", binary: true) emit msccl("ag.xml") emit mscclpp("ag.json") emit chakra("ag") }}
schedule ar on m {{ run all_reduce(m.npus, size: 6MiB, chunks: 2) synthesize pccl
    emit ten emit msccl("ar.xml") emit mscclpp("ar.json") emit msccl("old.xml", profile: "old") emit chakra("ar") }}
schedule bc on w {{ run broadcast(w.npus, size: 4MiB, chunks: 4, root: 1) emit ten }}
schedule rs on w {{ run reduce_scatter(w.npus, size: 4MiB, op: "max") emit ten }}
schedule li on e {{ run all_to_all(e.npus, size: 3MB) emit ten }}
schedule qu on r {{ run all_reduce(r.npus, size: 4MiB) using recursive_halving_doubling allow congestion emit ten }}
"""
)


@functools.cache
def seed_files(folder: Path) -> dict[str, bytes]:
    """Good files of all kinds, compiled into a folder."""
    from collc.command.cli import main

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "done").exists():
        (folder / "seeds.coll").write_text(SEEDS)
        code = main(["compile", str(folder / "seeds.coll"), "-o", str(folder), "--quiet"])
        assert code == 0, code
        (folder / "done").write_text("")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ("done", "seeds.coll"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _program_text(chance: random.Random) -> bytes:
    kind = chance.random()
    if kind < 0.5:
        text = random_program(chance)
        if chance.random() < 0.2:
            text = spliced(text, list(programs()), chance)
        return text.encode()
    text = chance.choice(programs())
    if kind < 0.8:
        return spliced(text, list(programs()), chance).encode()
    changed = changed_text(text, chance).encode("utf-8", "replace")
    return changed_bytes(changed, chance) if chance.random() < 0.2 else changed


def program(chance: random.Random, _seeds: dict[str, bytes]) -> Case:
    """A program: checked, compiled, formatted, simulated or shown."""
    files = {"p.coll": _program_text(chance), "s.ten": b"kept", "other.coll": chance.choice(programs()).encode()}
    limit = ("--time-limit", "1")
    commands = [("compile", "p.coll", *limit)] * 5 + [("check", "p.coll")] * 3
    commands += [("fmt", "p.coll"), ("show", "p.coll", "-o", "p.html", *limit), ("topology", "p.coll:t")]
    commands += [("design", "p.coll", *limit)]
    commands += [("compile", "p.coll", *limit, "--chunks", chance.choice(["1", "2", "auto"]))]
    commands += [("compile", "p.coll", *limit, "--link-model", "pipelined", "-o", "out/deep")]
    return Case("program", chance.choice(commands), files)


def ten(chance: random.Random, seeds: dict[str, bytes]) -> Case:
    """A schedule, as text or binary."""
    data = seeds[chance.choice([name for name in seeds if name.endswith(".ten")])]
    if data.startswith(b"PK"):
        data = changed_bytes(data, chance)
    else:
        data = changed_text(data.decode(), chance).encode("utf-8", "replace")
    words = [("verify", "f.ten")] * 3 + [("simulate", "f.ten"), ("show", "f.ten", "-o", "f.html")]
    return Case("ten", chance.choice(words), {"f.ten": data})


def xml(chance: random.Random, seeds: dict[str, bytes]) -> Case:
    """An MSCCL file."""
    text = seeds[chance.choice([name for name in seeds if name.endswith(".xml")])].decode()
    words = [("verify",), ("verify", "--profile", "old"), ("run",), ("inspect",), ("run", "--count", "24")]
    words += [("inspect", "--svg", "f.svg")]
    command, *more = chance.choice(words)
    return Case("xml", (command, "f.xml", *more), {"f.xml": changed_text(text, chance).encode("utf-8", "replace")})


def plan(chance: random.Random, seeds: dict[str, bytes]) -> Case:
    """An MSCCL++ plan."""
    text = seeds[chance.choice([name for name in seeds if name.endswith(".json") and "/" not in name])].decode()
    changed = changed_json if chance.random() < 0.7 else changed_text
    command = chance.choice(["verify", "run", "inspect", "verify"])
    return Case("plan", (command, "f.json"), {"f.json": changed(text, chance).encode("utf-8", "replace")})


def trace(chance: random.Random, seeds: dict[str, bytes]) -> Case:
    """Chakra traces with a network file."""
    name = chance.choice(["ag", "ar"])
    files = {path: data for path, data in seeds.items() if path.startswith(f"{name}/")}
    which = chance.choice(sorted(files))
    if which.endswith((".yml", ".yaml", ".json")):
        files[which] = changed_text(files[which].decode(), chance).encode("utf-8", "replace")
    else:
        files[which] = changed_bytes(files[which], chance)
    if chance.random() < 0.1:
        del files[which]
    first = next(path for path in sorted(seeds) if path.startswith(f"{name}/") and path.endswith(".et"))
    prefix = first.rsplit(".", 2)[0]
    network = next((path for path in sorted(files) if path.endswith(".yml")), "none.yml")
    words = [("simulate", prefix, "--network", network), ("verify", prefix), ("simulate", prefix, "--network", network)]
    return Case("trace", chance.choice(words), files)


def machine(chance: random.Random, _seeds: dict[str, bytes]) -> Case:
    """A file that describes a machine."""
    texts = {
        name: text for name in dir(machines) if name.isupper() and isinstance(text := getattr(machines, name), str)
    }
    text = changed_text(texts[chance.choice(sorted(texts))], chance)
    words = ["import"]
    if chance.random() < 0.2:
        words.append(chance.choice(list(import_kinds())))
    words += ["f.txt"]
    for option in ("--gpu h100", "--gpus-per-node 2", "-D nvlink=450GB/s", "-D nic=400Gb/s", "--fabric switch"):
        words += option.split() if chance.random() < 0.3 else []
    for option in ("--npu t=gpu", "--capacity bw=GB/s", "--chunk 1MiB", "-D xgmi=50GB/s", "-o m.coll", "--npu all"):
        words += option.split() if chance.random() < 0.25 else []
    return Case("machine", tuple(words), {"f.txt": text.encode("utf-8", "replace"), "m.coll": b"kept"})


def arguments(chance: random.Random, seeds: dict[str, bytes]) -> Case:
    """A command line with any options, on good files."""
    files = {"p.coll": (HEAD + f"param n: int = 3\ntopology t = ring(n, {LINK})\n").encode()}
    files["p.coll"] += b"schedule s on t { run all_gather(t.npus, size: 6MB) emit ten }\n"
    files |= {"f.ten": seeds["ag.ten"], "f.xml": seeds["ag.xml"], "f.json": seeds["ag.json"]}
    command = chance.choice(sorted(set(_commands()) - {"tune", "calibrate"}))
    values = ["p.coll", "f.ten", "f.xml", "f.json", "p.coll:t", "p.coll:x", "none", ".", "-5", "\x1b[2J", "", "x" * 300]
    values += ["n=4", "n=x", "size=1", "=", "out", "/nonexistent/x", "s", "all", "tacos", "tacos{seed=1},invert"]
    values += ["ring", "1MiB", "1MiB..4MiB", "2", *NUMBERS]
    words = [command]
    if chance.random() < 0.9:
        words.append(chance.choice(values[:4]))
    options = _commands()[command]
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        action = chance.choice(options)
        if not action.option_strings or action.dest in ("help", "progress", "workers", "dask", "scheduler"):
            continue
        words.append(chance.choice(action.option_strings))
        if action.nargs != 0:
            words.append(chance.choice([*map(str, action.choices or ()), *values]))
    if command in ("compile", "compare", "sweep") and "--time-limit" not in words and "--time-limit" in _flags(command):
        words += ["--time-limit", "1"]
    return Case("arguments", tuple(words), files)


@functools.cache
def _commands() -> dict[str, list[argparse.Action]]:
    parser, commands = parsers()
    found = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {name: found.choices[name]._actions for name in commands}


def _flags(command: str) -> set[str]:
    return {flag for action in _commands()[command] for flag in action.option_strings}


KINDS: Final[dict[str, Callable[[random.Random, dict[str, bytes]], Case]]] = {
    one.__name__: one for one in (program, ten, xml, plan, trace, machine, arguments)
}


def case_of(kind: str, seed: int, number: int, seeds: dict[str, bytes]) -> Case:
    """The case with a number, which depends on the seed only."""
    chance = random.Random(f"{kind} {seed} {number}")
    case = KINDS[kind](chance, seeds)
    words = case.words
    if words[0] in WITH_JSON and "--json" not in words and "--quiet" not in words and chance.random() < 0.7:
        words = (*words, "--json")
    return Case(kind, words, case.files, {"kind": kind, "seed": seed, "number": number})
