"""What commands load before they answer; a command that must answer at once loads no large package."""

from __future__ import annotations

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
