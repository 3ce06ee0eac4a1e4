"""`python -m benchmarks [SUITE ...] [--only WORD] [--large]`: print one table of all cases; each runs in its own
process. `python -m benchmarks auto` compares auto with all other synthesizers instead (benchmarks/auto.py);
`python -m benchmarks compare [WORD]` prints the evaluations of the thesis (benchmarks/compare.py),
`python -m benchmarks training [WORD]` its training times (benchmarks/training.py),
`python -m benchmarks failures [WORD]` collectives after a failure (benchmarks/failures.py),
`python -m benchmarks endpoints` All-Reduce bandwidth against memory bandwidth (benchmarks/endpoints.py),
`python -m benchmarks lab` measured times of schedules against their plans (benchmarks/lab.py),
`python -m benchmarks mate` All-to-Alls on tori with a dead link beside MATE's (benchmarks/mate.py), and
`python -m benchmarks mscclpp` what MSCCL++ takes on two nodes, from one node (benchmarks/mscclpp.py).

Times do not include the compilation of kernels. seconds: wall clock; cpu: CPU time of all threads; the smaller one is
compared with the target. MiB: peak memory of the process. LB: lower bound.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module

from benchmarks import auto, compare, endpoints, failures, lab, mate, mscclpp, training
from benchmarks.case import Case, Result

TABLES: dict[str, Callable[[list[str]], int]] = {
    "auto": auto.main,
    "compare": compare.main,
    "endpoints": endpoints.main,
    "failures": failures.main,
    "lab": lab.main,
    "mate": mate.main,
    "mscclpp": mscclpp.main,
    "training": training.main,
}
"""What prints a table of its own, from its arguments."""

SUITES: tuple[str, ...] = (
    "synthesis",
    "search",
    "elaborate",
    "verify",
    "msccl",
    "replay",
    "models",
    "exact",
    "reduce",
    "clusters",
    "forest",
    "throughput",
    "simulate",
    "design",
)
HEAD = (
    f"{'case':44} {'seconds':>9} {'cpu':>9} {'MiB':>6} {'reached':>12} {'bound':>12} {'ratio':>7} {'right':6}"
    f"{'target':28} met"
)


def cases_of(suite: str) -> list[Case]:
    return import_module(f"benchmarks.{suite}").cases()


def table_row(case: Case, result: Result) -> str:
    def number(value: float, digits: int) -> str:
        return "-" if math.isnan(value) else f"{value:.{digits}f}"

    right = {None: "-", True: "yes", False: "NO"}[result.verified]
    target = case.target.text()
    met = ("yes" if result.meets(case.target) else "NO") if target else "-"
    reached = f"{number(result.reached, 2)} {result.unit}".strip()
    return (
        f"{case.name:44} {result.wall:9.4f} {result.cpu:9.4f} {result.mib:6} {reached:>12} "
        f"{number(result.bound, 2):>12} {number(result.reached / result.bound, 4):>7} {right:6}{target:28} {met:4}"
        f"{result.note}".rstrip()
    )


def run_in_process(suite: str, case: Case) -> Result | str:
    """The result of a case in a fresh process, or the last line of its error output."""
    command = [sys.executable, "-m", "benchmarks", suite, "--case", case.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def print_table(suites: list[str], part: str, large: bool) -> bool:
    """Print the table; return whether all targets are met."""
    good = True
    print(HEAD)
    for suite in suites:
        print(f"-- {suite}")
        for case in cases_of(suite):
            if part not in case.name or (case.large and not large):
                continue
            result = run_in_process(suite, case)
            good = good and isinstance(result, Result) and result.meets(case.target)
            print(
                table_row(case, result) if isinstance(result, Result) else f"{case.name:44} FAILED: {result}",
                flush=True,
            )
    return good


def main() -> int:
    table = TABLES.get("".join(sys.argv[1:2]))
    if table is not None:
        return table(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose name has this in it")
    parser.add_argument("--large", action="store_true", help="also those that take minutes")
    parser.add_argument("--case", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [suite for suite in options.suites if suite not in SUITES]
    if unknown:
        parser.error(f"there is no suite {unknown[0]}; there are {', '.join(SUITES)}")
    suites: list[str] = options.suites or [*SUITES]
    if options.case:
        case = next(case for case in cases_of(suites[0]) if case.name == options.case)
        print(json.dumps(asdict(case.run())))
        return 0
    return 0 if print_table(suites, options.only, options.large) else 1


if __name__ == "__main__":
    sys.exit(main())
