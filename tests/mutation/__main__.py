"""The mutation campaign: `python -m tests.mutation --folder verification --mutants 200 --seed 1`.

Takes mutants at random (all, where there are fewer), runs the tests of their file against each, and prints the
survivors: changes of the source that no test sees. Those in `equivalent.txt` change nothing that can be seen, for the
reason given there, and are left out. Exit code 1 where a survivor is not in that list.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

os.environ["CI"] = "1"  # the same examples for each mutant

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.runner import preload, survives
from tests.mutation.targets import ROOT, TARGETS

LIST = Path(__file__).parent / "equivalent.txt"


def equivalents() -> dict[str, str]:
    """The mutants that are known to change nothing: their key, and the reason."""
    found: dict[str, str] = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            key, _, reason = line.partition(" :: ")
            assert reason, f"no reason: {line}"
            found[key] = reason
    return found


def chosen(folder: str, count: int, seed: int, only: str) -> list[tuple[Mutant, tuple[str, ...]]]:
    """Mutants of a folder at random, each with its tests."""
    known = equivalents()
    found = [
        (mutant, target.tests)
        for target in TARGETS[folder]
        for file in target.files()
        if only in file
        for mutant in mutants(ROOT, file)
        if mutant.key not in known
    ]
    random.Random(seed).shuffle(found)
    return found[:count]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--folder", choices=TARGETS, required=True)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only files whose path contains this")
    given = parser.parse_args()
    for target in TARGETS[given.folder]:
        preload(list(target.files()), target.tests)
    limits: dict[tuple[str, ...], float] = {}
    for target in TARGETS[given.folder]:
        passed, took = survives(None, target.tests, 1800.0)
        limits[target.tests] = 30.0 + 5 * took  # a mutant that takes longer is killed
        print(f"{'pass' if passed else 'FAIL'} in {took:.1f} s without a mutant: {' '.join(target.tests)}", flush=True)
        if not passed:
            return 2
    began, alive, work = time.monotonic(), [], chosen(given.folder, given.mutants, given.seed, given.only)
    for number, (mutant, tests) in enumerate(work, 1):
        survived, took = survives(mutant, tests, limits[tests])
        if survived:
            alive.append(mutant)
            print(f"{number}/{len(work)} survived ({took:.1f} s): {mutant}", flush=True)
    print(f"{len(work)} mutants, {len(alive)} survived, {time.monotonic() - began:.0f} s")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
