"""Valid files with one defect each: `collc verify` refuses each of them and names the defect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from collc.command.cli import main
from tests.end_to_end.programs import HEAD, LINK, build

PROGRAM = (
    HEAD
    + f"topology even = mesh2d(3, 2, {LINK})\ntopology larger = mesh2d(4, 2, {LINK})\n"
    + """
topology uneven = line(3, bandwidth: 50GiB/s, latency: 0.5us) * line(2, bandwidth: 20GiB/s, latency: 1us)
schedule gather on even { run all_gather(even.npus, size: 6MiB) synthesize tacos(seed: 1) emit msccl emit ten }
schedule sum on even { run all_reduce(even.npus, size: 6MiB) synthesize tacos(seed: 1) emit ten }
schedule eight on larger { run all_reduce(larger.npus, size: 8MiB) synthesize tacos(seed: 1) emit msccl }
schedule slow_sum on uneven { run all_reduce(uneven.npus, size: 6MiB) synthesize tacos(seed: 1) emit ten }
schedule slow on uneven { run all_gather(uneven.npus, size: 6MiB) synthesize tacos(seed: 1) emit ten }
"""
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    build(folder, PROGRAM)
    return folder


Lines = list[str]


def rows(lines: Lines, pattern: str) -> list[int]:
    found = [number for number, line in enumerate(lines) if re.search(pattern, line)]
    assert found, f"nothing matches {pattern}"
    return found


def dropped(pattern: str, which: int = 0) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        del lines[rows(lines, pattern)[which]]

    return change


def moved(pattern: str, before: str, which: int = 0) -> Callable[[Lines], None]:
    """The row that matches goes right after the first row that matches `before`."""

    def change(lines: Lines) -> None:
        line = lines.pop(rows(lines, pattern)[which])
        lines.insert(rows(lines, before)[0] + 1, line)

    return change


def copied(pattern: str, before: str, which: int = 0) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        line = lines[rows(lines, pattern)[which]]
        lines.insert(rows(lines, before)[0] + 1, line)

    return change


def swapped(first: str, second: str) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        a, b = rows(lines, first)[0], rows(lines, second)[-1]
        assert a != b
        lines[a], lines[b] = lines[b], lines[a]

    return change


def replaced(pattern: str, old: str, new: str, which: int = 0) -> Callable[[Lines], None]:
    """In the row that matches, `old` (a regular expression) becomes `new`."""

    def change(lines: Lines) -> None:
        number = rows(lines, pattern)[which]
        changed = re.sub(old, new, lines[number], count=1)
        assert changed != lines[number]
        lines[number] = changed

    return change


def all_of(*changes: Callable[[Lines], None]) -> Callable[[Lines], None]:
    def change(lines: Lines) -> None:
        for one in changes:
            one(lines)

    return change


def judge(source: Path, folder: Path, change: Callable[[Lines], None], capsys) -> tuple[int, dict[str, str], str]:
    lines = source.read_text().splitlines()
    before = list(lines)
    change(lines)
    assert lines != before
    path = folder / source.name
    path.write_text("\n".join(lines) + "\n")
    code = main(["verify", str(path), "--json"])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert "internal" not in err
    return code, json.loads(out).get("checks", {}), err


def failed(checks: dict[str, str]) -> set[str]:
    return {name for name, outcome in checks.items() if outcome == "failed"}


LAST = r"send 0:x\[5, 0\] over npu\[0, 1\] -> npu\[0, 0\]"
FIRST = r"send 0:x\[0, 0\] over npu\[0, 0\] -> npu\[0, 1\]"

SCHEDULES: dict[str, tuple[str, Callable[[Lines], None], set[str], str]] = {
    "dropped, the last": ("gather.ten", dropped(r"^ +send", -1), {"delivered"}, "npu[1, 2] never gets 0:x[0, 0]"),
    "dropped, relayed later": ("gather.ten", dropped(FIRST), {"delivered", "causality"}, "does not hold it yet"),
    "dropped, a reduction": ("sum.ten", dropped(r"^ +reduce"), {"delivered", "reductions"}, "5 of 6 contributions"),
    "dropped, a result": ("sum.ten", dropped(r"^ +send", -1), {"delivered", "reductions"}, "1 of 6 contributions"),
    "swapped steps": ("gather.ten", swapped("step 0", "step 2"), {"delivered", "causality"}, "does not hold it yet"),
    "swapped chunks": ("slow.ten", swapped("at 0us", "at 69.859375us"), {"delivered", "causality"}, "yet"),
    "early by a picosecond": (
        "slow.ten",
        replaced("at 49.8", "49.828125us", "49.828124us"),
        {"causality", "delivered"},
        "at 49.828124us",
    ),
    "early, on a busy link": (
        "slow.ten",
        replaced("at 69.8", "69.859375us", "69.859374us"),
        {"causality", "congestion_free", "delivered"},
        "one chunk at a time on a link",
    ),
    "late, into the next": ("slow.ten", replaced("at 20.0", "20.0", "30.0"), {"congestion_free"}, "until 50.0625us"),
    "before time": (
        "slow.ten",
        replaced("at 20.0", "20.0", "-20.0"),
        {"causality", "delivered"},
        "that is not a valid time",
    ),
    "twice at once": ("slow.ten", copied(FIRST, "at 0us"), {"congestion_free"}, "carries 0:x[0, 0]"),
    "reduced twice": (
        "slow_sum.ten",
        copied(r"reduce 0:x\[5, 0\] over npu\[0, 0\]", "at 20.03125us"),
        {"reductions", "congestion_free"},
        "a contribution that it has already",
    ),
    "reduced late": (
        "slow_sum.ten",
        copied(r"reduce 0:x\[3, 0\] over npu\[2, 0\]", "at 159.75us"),
        {"reductions"},
        "a contribution that it has already",
    ),
    "copied for reduced": (
        "slow_sum.ten",
        replaced("^ +reduce", "reduce", "send"),
        {"reductions", "delivered"},
        "sent as final",
    ),
    "reduced for copied": (
        "slow_sum.ten",
        replaced(r" send", "send", "reduce"),
        {"reductions"},
        "a contribution that it has already",
    ),
    "another chunk": ("gather.ten", replaced(LAST, r"x\[5", "x[2"), {"delivered"}, "never gets 0:x[5, 0]"),
    "shorter steps": (
        "gather.ten",
        replaced("steps 3", "20.03125us", "20.03124us"),
        {"causality", "congestion_free", "delivered"},
        "expected",
    ),
    "a larger chunk": (
        "gather.ten",
        all_of(replaced(r"chunk x\[5, 0\]", "1MiB", "2MiB"), replaced("standard", r" standard.*\{", " {")),
        {"causality", "congestion_free", "delivered"},
        "0:x[5, 0]",
    ),
    "a slower link": (
        "gather.ten",
        replaced("bandwidth", "50GiB/s", "49GiB/s"),
        {"causality", "congestion_free", "delivered"},
        "expected",
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_broken_schedule(good: Path, tmp_path: Path, capsys, name: str) -> None:
    file, change, checks, message = SCHEDULES[name]
    code, found, err = judge(good / file, tmp_path, change, capsys)
    assert code == 4
    assert failed(found) == checks
    assert message in err


UNREADABLE: dict[str, tuple[str, Callable[[Lines], None], str]] = {
    "another link model": ("gather.ten", replaced("^model", "store", "pipelined"), "the link model store in a module"),
    "a byte more": ("gather.ten", replaced("standard", "6MiB", "6291457B"), "make up 6MiB"),
    "a chunk of another size": ("gather.ten", replaced(r"chunk x\[5, 0\]", "1MiB", "2MiB"), "of equal size"),
    "another collective": (
        "gather.ten",
        replaced("standard", "all_gather 6", "gather 6"),
        "gather over 6 NPUs has a root",
    ),
    "another operation": ("sum.ten", replaced("standard", "op sum", "op max"), "op max, but chunk 0"),
    "one result of another operation": ("sum.ten", replaced("post sum", "sum", "max"), "reduced with max"),
    "two chunks on a link in a step": (
        "gather.ten",
        moved(LAST, "step 0"),
        "0:x[5, 0] and 0:x[1, 0] are both on npu[0, 1] -> npu[0, 0]",
    ),
    "a copy among reductions": ("sum.ten", replaced("reduce 0", "reduce", "send"), "must be 'reduce'"),
    "no such chunk": ("gather.ten", replaced(LAST, r"x\[5", "x[9"), "no single chunk 0:x[9, 0]"),
    "no such link": ("gather.ten", replaced(LAST, r"-> npu\[0, 0", "-> npu[1, 2"), "no link npu[0, 1] -> npu[1, 2]"),
    "a link of the network dropped": ("gather.ten", dropped(r"link npu\[0, 1\] -> npu\[0, 0\]"), "there is no link"),
    "missing attribute": ("gather.ten", replaced("bandwidth", " bandwidth 50GiB/s", ""), "expected 'bandwidth'"),
    "a step too many": ("gather.ten", replaced("steps 3", "steps 3", "steps 2"), "step 2 is out of range"),
    "half a picosecond": ("slow.ten", replaced("at 69.8", "375us", "3755us"), "whole number of picoseconds"),
    "no unit": ("slow.ten", replaced("at 69.8", "us", ""), "unit"),
    "cut off": ("slow.ten", dropped("^}", -1), "end of the file"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_schedule(good: Path, tmp_path: Path, capsys, name: str) -> None:
    file, change, message = UNREADABLE[name]
    code, found, err = judge(good / file, tmp_path, change, capsys)
    assert code == 4
    assert set(found.values()) == {"skipped"}
    assert message in err
    assert file in err


def test_a_chunk_that_comes_twice_does_no_harm(good: Path, tmp_path: Path, capsys) -> None:
    """A second copy on an idle link changes no result, so it is no error; a second reduction is one (above)."""
    code, found, _ = judge(good / "gather.ten", tmp_path, copied(FIRST, "step 2"), capsys)
    assert code == 0
    assert not failed(found)


def renumbered(change: Callable[[Lines], None]) -> Callable[[Lines], None]:
    """The change, and every step numbered by its position again."""

    def both(lines: Lines) -> None:
        change(lines)
        position = 0
        for number, line in enumerate(lines):
            position = 0 if "<tb " in line else position
            if "<step" in line:
                lines[number] = re.sub(r's="\d+"', f's="{position}"', line, count=1)
                position += 1

    return both


ALGO = {"nchunksperloop", "nchannels", "ngpus", "proto", "coll", "minBytes", "maxBytes", "inplace", "outofplace"}
ATTRIBUTES = {
    "algo": ALGO,
    "gpu": {"id", "i_chunks", "o_chunks", "s_chunks"},
    "tb": {"id", "send", "recv", "chan"},
    "step": {"s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"},
}

PROGRAMS: dict[str, tuple[Callable[[Lines], None], str, str]] = {
    "dropped send": (renumbered(dropped('type="s"')), "result", "no step of the peer sends it"),
    "dropped receive": (renumbered(dropped('type="r"', -1)), "result", "no step of the peer receives it"),
    "step numbers with a hole": (dropped('type="s"'), "contract", "its position in the threadblock"),
    "send twice": (renumbered(copied('type="s"', 'type="s"')), "result", "no step of the peer receives it"),
    "receive twice": (renumbered(copied('type="r"', 'type="r"')), "deadlock", "whose FIFO is empty"),
    "send becomes receive": (replaced('type="s"', 'type="s"', 'type="r"'), "deadlock", "hangs"),
    "offset of another chunk": (replaced('type="r"', r'dstoff="\d+"', 'dstoff="3"'), "result", "rank 0"),
    "offset outside": (replaced('type="s"', r'srcoff="\d+"', 'srcoff="99"'), "contract", "outside the buffer"),
    "offset below": (replaced('type="s"', r'srcoff="\d+"', 'srcoff="-2"'), "contract", "outside the buffer"),
    "another peer": (replaced("<tb", r'send="\d+"', 'send="5"'), "contract", "no threadblock receives"),
    "no such peer": (replaced("<tb", r'send="\d+"', 'send="99"'), "contract", "send peer 99"),
    "itself as peer": (replaced("<tb", r'send="\d+"', 'send="0"'), "contract", "the gpu itself"),
    "no such channel": (replaced("<tb", 'chan="0"', 'chan="31"'), "contract", "channel 31"),
    "count of two": (replaced('type="s"', 'cnt="1"', 'cnt="2"'), "contract", ""),
    "count of none": (replaced('type="s"', 'cnt="1"', 'cnt="0"'), "contract", "cnt is 0"),
    "count too large": (replaced('type="s"', 'cnt="1"', 'cnt="72"'), "contract", "cnt is 72"),
    "unknown operation": (replaced("<step", r'type="\w+"', 'type="xyz"'), "contract", "xyz"),
    "unknown buffer": (replaced("<step", r'srcbuf="\w"', 'srcbuf="q"'), "contract", "srcbuf"),
    "another number of ranks": (replaced("<algo", 'ngpus="."', 'ngpus="7"'), "contract", "ngpus"),
    "another collective": (replaced("<algo", r'coll="\w+"', 'coll="broadcast"'), "result", "rank"),
    "smaller buffer": (replaced("<gpu", 'o_chunks="."', 'o_chunks="5"'), "contract", "o_chunks"),
    "proto in small letters": (replaced("<algo", "Simple", "simple"), "contract", "proto"),
    "cut off": (dropped("</algo>"), "contract", "never closed"),
    "XML declaration": (lambda lines: lines.insert(0, '<?xml version="1.0"?>'), "contract", "declaration"),
    "single quotes": (replaced("<step", 's="0"', "s='0'"), "contract", "double quotes"),
} | {
    f"missing {tag} {name}": (replaced(f"<{tag} ", f' {name}="[^"]*"', ""), "contract", name)
    for tag, names in ATTRIBUTES.items()
    for name in sorted(names)
}


@pytest.mark.parametrize("file", ["gather.msccl", "eight.msccl"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_broken_program(good: Path, tmp_path: Path, capsys, name: str, file: str) -> None:
    change, check, message = PROGRAMS[name]
    code, found, err = judge(good / file, tmp_path, change, capsys)
    assert code == 4
    assert check in failed(found)
    assert message in err
    assert file in err


REDUCING: dict[str, tuple[Callable[[Lines], None], str, str]] = {
    "dependency on no step": (replaced(r'depid="\d', r'deps="\d+"', 'deps="40"'), "contract", "has no step 40"),
    "dependency on no threadblock": (replaced(r'depid="\d', r'depid="\d+"', 'depid="40"'), "contract", "block 40"),
    "dependency without hasdep": (replaced('hasdep="1"', 'hasdep="1"', 'hasdep="0"'), "contract", "hasdep"),
    "dependency dropped": (
        replaced(r'depid="\d', r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"'),
        "race",
        "nothing orders",
    ),
    "received over a partial sum": (replaced('type="rrc"', 'type="rrc"', 'type="r"'), "result", "rank"),
    "wrong local operand": (replaced('type="rr', r'srcoff="\d+"', 'srcoff="0"', -1), "result", "rank"),
}


@pytest.mark.parametrize("name", REDUCING)
def test_a_broken_reduction(good: Path, tmp_path: Path, capsys, name: str) -> None:
    change, check, message = REDUCING[name]
    code, found, err = judge(good / "eight.msccl", tmp_path, change, capsys)
    assert code == 4
    assert check in failed(found)
    assert message in err


def test_the_files_without_defects_pass(good: Path, capsys) -> None:
    files = sorted(good.glob("*.msccl")) + sorted(good.glob("*.ten"))
    assert len(files) == 6
    for path in files:
        assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().err == ""
