"""The emulation campaign: `python -m tests.emulation --files 500 --plans 300 --mutants 2000 --seed 1`.

Writes files and plans for random cases, emulates each in many orders of events, and then damages of some of them:
what goes wrong in the emulation, collc's check must refuse. Prints a line for each disagreement and the numbers. Exit
code 1 if a file that was written, or a mutant that the check passes, is not right in the emulation.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.emulation.campaign import LARGEST, Compared, Written, compared, emulated, written
from tests.emulation.file_machine import Outcome

SHOWN = 5
"""Examples of each group of mutants that the check refuses without need."""


def _of_case(number: int, *, plan: bool, runs: int) -> tuple[list[tuple[Written, Outcome]], list[Written]]:
    """The files of a case with what happens to them, and those that were not written."""
    found = [*written(number, plan=plan)]
    judged = [(one, emulated(one.case, one.text, runs)) for one in found if one.text is not None]
    return judged, [one for one in found if one.text is None]


def _mutant(job: tuple[Written, int]) -> Compared:
    with tempfile.TemporaryDirectory() as folder:
        return compared(*job, Path(folder))


def _files(pool: ProcessPoolExecutor, wanted: int, plan: bool, runs: int) -> tuple[list[Written], Counter[str]]:
    """`wanted` files or plans, all emulated, and how often each outcome was. Prints what is not right."""
    tally: Counter[str] = Counter()
    kept: list[Written] = []
    numbers = itertools.count()
    while len(kept) < wanted:
        some = [*itertools.islice(numbers, 32)]
        for judged, not_written in pool.map(partial(_of_case, plan=plan, runs=runs), some):
            for one in not_written:
                tally[f"not written: {one.reason.partition(']')[0]}]"] += 1
            for one, outcome in judged[: wanted - len(kept)]:
                kept.append(one)
                tally[outcome.kind] += 1
                if outcome.kind != "right":
                    print(f"DISAGREES case {one.case.number}: {one.case.name}: {outcome.kind}: {outcome.what}")
    return kept, tally


def _jobs(kept: list[Written], count: int) -> Iterator[tuple[Written, int]]:
    """Files in turn, without the large ones and those whose collective has no name; with the number of the damage."""
    small = [one for one in kept if one.text is not None and len(one.text) <= LARGEST and b'"custom"' not in one.text]
    for seed, one in enumerate(itertools.islice(itertools.cycle(small), count)):
        yield one, seed


def _mutants(pool: ProcessPoolExecutor, kept: list[Written], count: int) -> tuple[Counter[str], int]:
    """How often each pair of answers was, and the mutants that the check passed wrongly. Prints these and groups."""
    tally: Counter[str] = Counter()
    groups: dict[str, list[Compared]] = {}
    missed = 0
    for found in pool.map(_mutant, _jobs(kept, count), chunksize=4):
        tally[f"check {'ok' if found.codes == 'ok' else 'refuses'}, emulation {found.found.kind}"] += 1
        if found.missed:
            missed += 1
            print(f"MISSED {found.name}: {found.change}: {found.found.kind}: {found.found.what}")
        elif found.never_wrong:
            groups.setdefault(found.codes, []).append(found)
    for codes, rows in sorted(groups.items(), key=lambda item: -len(item[1])):
        changes = Counter(row.change for row in rows).most_common(SHOWN)
        print(f"refused by {codes} and never wrong: {len(rows)} ({', '.join(f'{k} {n}' for k, n in changes)})")
    return tally, missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.emulation")
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--plans", type=int, default=300)
    parser.add_argument("--mutants", type=int, default=2000, help="half of files, half of plans")
    parser.add_argument("--runs", type=int, default=12, help="orders of events in each placement")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    failed = 0
    with ProcessPoolExecutor(given.workers) as pool:
        for plan, wanted in ((False, given.files), (True, given.plans)):
            name, start = "plans" if plan else "files", time.monotonic()
            kept, tally = _files(pool, wanted, plan, given.runs)
            print(f"{len(kept)} {name}: {dict(tally)} ({time.monotonic() - start:.0f} s)", flush=True)
            failed += len(kept) - tally["right"]
            tally, missed = _mutants(pool, kept, given.mutants // 2)
            print(f"mutants of {name}: {dict(tally)} ({time.monotonic() - start:.0f} s)", flush=True)
            failed += missed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
