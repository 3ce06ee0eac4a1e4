"""`python -m tests.fuzz --minutes N`: random cases of all kinds with new seeds; what is found goes to a corpus folder.

`--cases N` runs a number of cases in place of a time, so that the same seed gives the same ones on any machine.
A process for each few hundred cases, so that memory is counted anew, and a case that never ends is ended.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import multiprocessing.pool
import secrets
import tempfile
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
    """Run cases until the time is over, or a number of them. Exit code 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, help="this many of all kinds together, however long they take")
    parser.add_argument("--seed", type=int, help="default: a new one, which is printed")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="only these; default: all")
    parser.add_argument("--corpus", type=Path, default=Path("fuzz-corpus"), help="folder of what was found")
    parser.add_argument("--case", type=int, help="only the case with this number, of one kind")
    chosen = parser.parse_args()
    kinds = chosen.kind or sorted(KINDS)
    seed = secrets.randbits(32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}: {', '.join(kinds)}, findings in {chosen.corpus}", flush=True)
    numbers = itertools.count() if chosen.case is None else [chosen.case]
    cases = itertools.islice(((kind, seed, number) for number in numbers for kind in kinds), chosen.cases)
    end = time.monotonic() + (60 * chosen.minutes if chosen.cases is None else math.inf)
    count = findings = 0
    pool = _new_pool()
    for case in itertools.takewhile(lambda _: time.monotonic() < end, cases):
        try:
            wrong = pool.apply_async(_judge, case).get(MOST_WALL)
        except multiprocessing.TimeoutError:
            wrong = ["the process ended, or the case does not end"]
            pool.terminate()
            pool = _new_pool()
        count += 1
        findings += bool(wrong)
        if wrong:
            _keep(*case, wrong, chosen.corpus)
    pool.terminate()
    print(f"seed {seed}: {count} cases, {findings} findings", flush=True)
    return int(findings > 0)


def _new_pool() -> multiprocessing.pool.Pool:
    return multiprocessing.get_context("fork").Pool(1, maxtasksperchild=BATCH)


def _case(kind: str, seed: int, number: int) -> Case:
    seeds = seed_files(Path(tempfile.gettempdir()) / f"collc-fuzz-{zlib.crc32(SEEDS.encode()):08x}")
    return case_of(kind, seed, number, seeds)


def _judge(kind: str, seed: int, number: int) -> list[str]:
    """What is wrong with how collc takes a case."""
    with tempfile.TemporaryDirectory() as folder:
        return run_case(_case(kind, seed, number), Path(folder) / "case")


def _keep(kind: str, seed: int, number: int, wrong: list[str], corpus: Path) -> None:
    """Write a case to the corpus, with the command and what is wrong."""
    case = _case(kind, seed, number)
    folder = corpus / f"{kind}-{seed}-{number}"
    for name, data in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    text = json.dumps({"words": case.words, "wrong": wrong, **case.about}, indent=2)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "case.json").write_text(text + "\n")
    print(f"{folder}: collc {' '.join(case.words)!r}\n  " + "\n  ".join(wrong), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
