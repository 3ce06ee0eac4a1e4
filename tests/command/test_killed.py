"""kill -9 at any moment: no file has its name before it is whole, and the next run removes what was left."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest

from tests.machines.formats import nccl_node

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no kill -9")

HEAD = "import std.topologies\nimport std.collectives\nparam size: bytes = 4MiB\n"
PROGRAM = HEAD + "topology t = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n"
PROGRAM += 'schedule s on t { run all_gather(t.npus, size: size) synthesize tacos emit ten emit msccl("d/s.xml") }\n'

FEW = ("--chunks", "1", "--instances", "1", "--algorithm", "tacos")

COMMANDS = {
    "compile": ("compile", "p.coll", "-o", "out", "--quiet"),
    "import": ("import", "node.xml", "-o", "out/m.coll", "-D", "nvlink_latency=1us"),
    "sweep": ("sweep", "p.coll", "-D", "size=4MiB,8MiB", "-o", "out/s.csv", "--jobs", "1", "--quiet"),
    "tune": ("tune", "p.coll", "--sizes", "4KiB..8KiB", "-o", "out", "--jobs", "1", *FEW),
}

CHILD = """
import os, signal, sys
left = int(sys.argv.pop(1))

def hook(event, arguments):
    global left
    if event in ("open", "os.rename", "os.remove", "os.mkdir") and "out" in str(arguments[0]).split(os.sep):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
from collc.command.cli import main
sys.exit(main())
"""
"""Ends itself by kill -9 just before the given access to the folder `out`."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text(PROGRAM)
    Path("node.xml").write_text(nccl_node(2, switch_links=18))
    Path("out").mkdir()


def run(command: str, access: int = 0) -> int:
    """The exit code of a command that is killed just before an access to `out`; 0: never."""
    words = [sys.executable, "-c", CHILD, str(access), *COMMANDS[command]]
    return subprocess.run(words, capture_output=True, check=False).returncode


def whole_files() -> dict[str, bytes]:
    """The files that have their names; temporary files and folders are hidden, and so are locks and journals."""
    files = (path for path in Path("out").rglob("*") if path.is_file())
    visible = (path for path in files if not any(part.startswith(".") for part in path.parts))
    return {str(path): path.read_bytes() for path in visible if ".journal" not in path.name}


def left_behind() -> list[str]:
    return [str(path) for path in Path("out").rglob(".*")]


def killed_at(command: str, accesses: Iterable[int]) -> int:
    """Kill a command before each of some accesses, until it ends by itself, and compare. Returns how many kills."""
    assert run(command) == 0
    good = whole_files()
    assert good
    killed = 0
    for access in accesses:
        for name in good:
            Path(name).unlink(missing_ok=True)
        code = run(command, access)
        for name, data in whole_files().items():
            assert data == good[name], f"{name} after {access} accesses"
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
    assert run(command) == 0
    assert whole_files() == good
    assert left_behind() == []
    return killed


def test_a_killed_command_leaves_no_half_file() -> None:
    assert killed_at("import", [3]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("command", "step"), [("compile", 1), ("import", 1), ("sweep", 1), ("tune", 3)])
def test_killed_before_each_access(command: str, step: int) -> None:
    assert killed_at(command, count(1, step)) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_random_moments(command: str) -> None:
    """Also between two accesses, where a thread or a child may be at work."""
    began = time.monotonic()
    assert run(command) == 0
    seconds = time.monotonic() - began
    good = whole_files()
    chance = random.Random(7)
    for _ in range(5):
        for name in good:
            Path(name).unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-m", "collc", *COMMANDS[command]], stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 1.0) * seconds)
        process.kill()
        process.wait()
        for name, data in whole_files().items():
            assert data == good[name], name
    assert run(command) == 0
    assert whole_files() == good
    assert left_behind() == []


@pytest.mark.slow
def test_two_processes_with_one_output() -> None:
    """Both write the same files at the same time: what is there at the end is whole."""
    words = [sys.executable, "-m", "collc", *COMMANDS["compile"]]
    both = [subprocess.Popen(words, stderr=subprocess.PIPE) for _ in range(2)]
    codes = [process.wait() for process in both]
    for process in both:
        assert process.stderr is not None
        process.stderr.close()
    both_files = whole_files()
    assert codes in ([0, 0], [0, 2], [2, 0])
    assert run("compile") == 0
    assert whole_files() == both_files
    assert left_behind() == []
