"""What commands load before they answer; a command that must answer at once loads no large package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = str(ROOT / "examples" / "quickstart.coll")
LARGE = {"numpy", "numpy.ma", "scipy", "numba", "networkx", "rich", "lark", "yaml", "z3", "clarabel", "argcomplete"}
NEEDED = {
    ("--help",): set[str](),
    ("explain", "E0203"): set[str](),
    ("std",): set[str](),
    ("new",): set[str](),
    ("fmt", "--check", PROGRAM): set[str](),
    ("check", PROGRAM): {"numpy"},
}
"""Command -> the large packages that it loads."""


@pytest.mark.parametrize("words", NEEDED, ids=lambda words: words[0])
def test_what_is_loaded(words: tuple[str, ...]) -> None:
    code = f"""
import sys
from collc.command.cli import main
try:
    main({[*words]!r})
finally:
    print("\\n", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert LARGE & {*done.stdout.splitlines()[-1].split()} == NEEDED[words]


@pytest.mark.parametrize(
    ("given", "used"), [({}, "1 1"), ({"OPENBLAS_NUM_THREADS": "2"}, f"{min(2, os.cpu_count() or 1)} 2")]
)
def test_numpy_starts_no_threads_unless_the_user_asks_for_them(given: dict[str, str], used: str) -> None:
    code = f"""
import os, sys
from collc.__main__ import start
sys.argv = ["collc", "check", {PROGRAM!r}]
start()
print(len(os.listdir("/proc/self/task")), os.environ["OPENBLAS_NUM_THREADS"])
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | given
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == used
