"""The emulation campaign: `python -m tests.emulation --files 500 --plans 300 --mutants 2000`.

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
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.emulation.campaign import LARGEST, Compared, Written, compared, emulated, written
from tests.emulation.file_machine import Outcome

LARGE = 250_000
"""Bytes of a file that is executed in a quarter of the orders."""
SHOWN = 5
"""Examples of each group of mutants that the check refuses without need."""


def _of_case(number: int, *, plan: bool, runs: int) -> list[tuple[Written, Outcome]]:
    """The files of a case with what happens to them: in fewer orders if they are large, whose text is not kept."""
    found: list[tuple[Written, Outcome]] = []
    for one in written(number, plan=plan):
        if one.text is None:
            found.append((one, Outcome("not written", one.reason)))
            continue
        orders = runs if len(one.text) < LARGE else max(2, runs // 4)
        kept = one if len(one.text) <= LARGEST else replace(one, text=b"")
        found.append((kept, emulated(one.case, one.text, orders)))
    return found


def _mutant(job: tuple[Written, int]) -> Compared:
    with tempfile.TemporaryDirectory() as folder:
        return compared(*job, Path(folder))


def _files(pool: ProcessPoolExecutor, wanted: int, plan: bool, runs: int) -> tuple[list[Written], Counter[str]]:
    """`wanted` files or plans, all emulated, and how often each outcome was. Prints what is not right."""
    tally: Counter[str] = Counter()
    kept: list[Written] = []
    for found in pool.map(partial(_of_case, plan=plan, runs=runs), range(2 * wanted)):
        for one, outcome in found[: wanted - len(kept)]:
            if outcome.kind == "not written":
                tally[f"not written: {outcome.what.partition(']')[0]}]"] += 1
                continue
            kept.append(one)
            tally[outcome.kind] += 1
            if outcome.kind != "right":
                print(f"DISAGREES case {one.case.number}: {one.case.name}: {outcome.kind}: {outcome.what}", flush=True)
            elif len(kept) % 50 == 0:
                print(f"{len(kept)}: {dict(tally)}", file=sys.stderr, flush=True)
        if len(kept) == wanted:
            break
    return kept, tally


def _jobs(kept: list[Written], count: int) -> Iterator[tuple[Written, int]]:
    """Files in turn, without the large ones and those whose collective has no name; with the number of the damage."""
    small = [one for one in kept if one.text and b'"custom"' not in one.text]
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
            where = f"case {found.case.number} seed {found.seed}: {found.case.name}"
            print(f"MISSED {where}: {found.change}: {found.found.kind}: {found.found.what}", flush=True)
        elif found.never_wrong:
            groups.setdefault(found.codes, []).append(found)
    for codes, rows in sorted(groups.items(), key=lambda item: -len(item[1])):
        changes = Counter(row.change for row in rows).most_common(SHOWN)
        one = f"case {rows[0].case.number} seed {rows[0].seed}"
        print(f"refused by {codes} and never wrong: {len(rows)} ({', '.join(f'{k} {n}' for k, n in changes)}; {one})")
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
    for plan, wanted in ((False, given.files), (True, given.plans)):
        name, start = "plans" if plan else "files", time.monotonic()
        pool = ProcessPoolExecutor(given.workers)
        try:
            kept, tally = _files(pool, wanted, plan, given.runs)
            print(f"{len(kept)} {name}: {dict(tally)} ({time.monotonic() - start:.0f} s)", flush=True)
            failed += len(kept) - tally["right"]
            tally, missed = _mutants(pool, kept, given.mutants // 2)
            print(f"mutants of {name}: {dict(tally)} ({time.monotonic() - start:.0f} s)", flush=True)
            failed += missed
        finally:
            pool.shutdown(cancel_futures=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
