"""`python -m tests.fuzz --minutes N`: random cases of all kinds with new seeds; what is found goes to a corpus folder.

`--cases N` runs a number of cases in place of a time, so that the same seed gives the same ones on any machine.
A process for each few hundred cases, so that memory is counted anew, and a case that never ends is ended.
"""

from __future__ import annotations

import argparse
import json
import math
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import Final

from tests.fuzz.cases import KINDS, SEEDS, Case, case_of, seed_files
from tests.fuzz.execution import run_case

BATCH: Final = 200
"""Cases of one process."""
MOST_WALL: Final = 120.0
"""Seconds of a case, on a machine that is busy."""


def main() -> int:
    """Run cases until the time is over, or those of a process (`--batch`). Exit code 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, help="this many of all kinds together, however long they take")
    parser.add_argument("--seed", type=int, help="default: a new one, which is printed")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="only these; default: all")
    parser.add_argument("--corpus", type=Path, default=Path("fuzz-corpus"), help="folder of what was found")
    parser.add_argument("--case", type=int, help="only the case with this number, of one kind")
    parser.add_argument("--batch", nargs=2, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    kinds = chosen.kind or sorted(KINDS)
    seed = secrets.randbits(32) if chosen.seed is None else chosen.seed
    if chosen.case is not None:
        chosen.batch = [chosen.case, chosen.case + 1]
    if chosen.batch is not None:
        return _batch(kinds, seed, *chosen.batch)
    print(f"seed {seed}: {', '.join(kinds)}, findings in {chosen.corpus}", flush=True)
    if chosen.cases is not None:
        return _campaign(kinds, seed, math.inf, chosen.cases, chosen.corpus)
    return _campaign(kinds, seed, chosen.minutes, sys.maxsize, chosen.corpus)


def _seeds() -> dict[str, bytes]:
    return seed_files(Path(tempfile.gettempdir()) / f"collc-fuzz-{zlib.crc32(SEEDS.encode()):08x}")


def _batch(kinds: list[str], seed: int, first: int, last: int) -> int:
    """Run the cases of some numbers, one line of JSON before each and after each."""
    seeds = _seeds()
    found = False
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, last):
            for kind in kinds:
                print(json.dumps({"begins": [kind, number]}), flush=True)
                began = time.process_time()
                wrong = run_case(case_of(kind, seed, number, seeds), Path(folder) / "case")
                found |= bool(wrong)
                seconds = round(time.process_time() - began, 1)
                print(json.dumps({"ends": [kind, number], "wrong": wrong, "seconds": seconds}), flush=True)
    return int(found)


def _campaign(kinds: list[str], seed: int, minutes: float, cases: int, corpus: Path) -> int:
    end = time.monotonic() + 60 * minutes
    number = findings = count = 0
    longest = 0.0
    per_process = max(1, BATCH // len(kinds))
    last = -(-cases // len(kinds))
    while time.monotonic() < end and number < last:
        stopped_at = _process(kinds, seed, number, min(number + per_process, last), corpus, end)
        number = stopped_at.next
        findings += stopped_at.findings
        count += stopped_at.cases
        longest = max(longest, stopped_at.longest)
    print(f"seed {seed}: {count} cases, the longest {longest} s of CPU, {findings} findings", flush=True)
    return int(findings > 0)


class _Progress:
    """Where a process stopped. next: the number to go on with. longest: CPU seconds of a case."""

    def __init__(self, first: int) -> None:
        self.next, self.findings, self.cases, self.longest = first, 0, 0, 0.0


def _process(kinds: list[str], seed: int, first: int, last: int, corpus: Path, end: float) -> _Progress:
    """Run a batch in a process of its own, and keep what is wrong."""
    words = [sys.executable, "-m", "tests.fuzz", "--seed", str(seed), "--batch", str(first), str(last)]
    words += [word for kind in kinds for word in ("--kind", kind)]
    done = _Progress(first)
    current: tuple[str, int] | None = None
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True)
        assert process.stdout is not None
        while line := _line(process):
            answer = json.loads(line)
            if "begins" in answer:
                current = answer["begins"][0], answer["begins"][1]
                done.next = current[1] + 1
                continue
            done.cases += 1
            done.longest = max(done.longest, answer["seconds"])
            if answer["wrong"] and current is not None:
                done.findings += 1
                _keep(*current, seed, answer["wrong"], corpus)
            current = None
            if time.monotonic() > end:
                process.kill()
                process.wait()
                return done
        code = process.wait()
        said.seek(0)
        if current is not None and code:
            done.findings += 1
            _keep(*current, seed, [f"the process ended with {code}: {said.read()[-1000:]}"], corpus)
        elif code not in (0, 1) or not done.cases:
            raise RuntimeError(said.read()[-2000:])
    return done


def _line(process: subprocess.Popen[str]) -> str:
    """The next line of a process; one whose case never ends is ended."""
    assert process.stdout is not None
    timer = threading.Timer(MOST_WALL, process.kill)
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()


def _keep(kind: str, number: int, seed: int, wrong: list[str], corpus: Path) -> None:
    """Write a case to the corpus, with the command and what is wrong."""
    case: Case = case_of(kind, seed, number, _seeds())
    folder = corpus / f"{kind}-{seed}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    text = json.dumps({"words": case.words, "wrong": wrong, **case.about}, indent=2)
    (folder / "case.json").write_text(text + "\n")
    print(f"{folder}: collc {' '.join(case.words)!r}\n  " + "\n  ".join(wrong), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
