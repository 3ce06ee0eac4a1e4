"""`--memory-limit`: what needs more is refused with its size before it is made, and the process never has more."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from collc.base import memory
from collc.base.diagnostics import SourceError
from collc.base.memory import free_memory, limited_memory, memory_limit, require
from collc.command.cli import main
from collc.command.options import COMMANDS
from collc.ten.schedule import LinkModel, RowSchedule, StepSchedule, Transfers

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux counts what is taken"),
    pytest.mark.usefixtures("folder"),
]

HEAD = "import std.topologies\nimport std.collectives\ntopology t = ring(2, bandwidth: 50GB/s, latency: 1us)\n"
MANY = HEAD + "schedule s on t { run broadcast(t.npus, size: 5MB, chunks: 5000000) emit ten }\n"
BY_HAND = "collective b(g: group) { for c in 0..5000000 { chunk x[c]: 1B  pre x[c] at g[0]  post x[c] at g } }\n"


def run(*words: str) -> tuple[int, str, int]:
    """(exit code, messages, MiB at most) of collc in a process of its own."""
    script = "import sys; from collc.command.cli import main; code = main();"
    # not ru_maxrss, which starts with that of the process that runs the tests
    script += " words = open('/proc/self/status').read().split(); print(int(words[words.index('VmHWM:') + 1]) // 1024);"
    script += " sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, int(done.stdout.split()[-1])


@pytest.mark.parametrize("text", [MANY, HEAD + BY_HAND + "schedule s on t { run b(t.npus) emit ten }\n"])
def test_chunks_are_counted_before_they_are_made(text: str) -> None:
    Path("p.coll").write_text(text)
    code, errors, most = run("compile", "p.coll", "--memory-limit", "512MiB")
    assert code == 1
    assert "error[U0109]: 5,000,000 chunks need about 954 MiB of memory, more than is left of 512 MiB\n" in errors
    assert "p.coll:" in errors
    assert "use fewer chunks, or allow more with --memory-limit" in errors
    assert most < 300
    assert [path.name for path in Path().iterdir()] == ["p.coll"]


def test_an_array_that_is_too_large_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def allocates(_chosen: object) -> None:
        np.empty(2**50)

    monkeypatch.setitem(COMMANDS, "verify", replace(COMMANDS["verify"], run=allocates))
    assert main(["verify", "x.ten", "--memory-limit", "64GiB"]) == 1
    errors = capsys.readouterr().err
    assert "error[U0109]: not enough memory: an array of 8.00 PiB is needed, and the limit is 64.0 GiB\n" in errors
    assert "or allow more with --memory-limit" in errors


FULL = """
import sys
from dataclasses import replace
from collc.command.options import COMMANDS
from collc.command.cli import main
from collc.command.terminal import print_messages

kept = []

def fills(_chosen):
    for size in (1 << 22, 1 << 16, 600, 40):
        try:
            while True:
                kept.append(bytes(size))
        except MemoryError:
            pass
    raise MemoryError

COMMANDS["verify"] = replace(COMMANDS["verify"], run=fills)
sys.exit(main(["verify", "x.ten", "--memory-limit", "256MiB"]))
"""


def test_there_is_memory_for_the_message() -> None:
    """Nothing is left of the limit when it is said that it was passed."""
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=False)
    message = "error[U0109]: there is not enough memory for this, and the limit is 256 MiB\n"
    assert (done.returncode, done.stderr.partition("help:")[0]) == (1, message)


@pytest.mark.parametrize(("left", "first"), [(95, True), (23, False)])
def test_a_kernel_is_not_loaded_where_the_compiler_would_end_the_process(
    left: int, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM aborts if it gets no memory."""
    from collc.kernels import cached_jit

    def next_number(number: int) -> int:
        return number + 1

    kernel = cached_jit.jit()(next_number)
    monkeypatch.setattr(cached_jit._ForgivingCache, "_used", [] if first else [True])
    monkeypatch.setattr(memory, "memory_limit", lambda: left << 20)
    monkeypatch.setattr(memory, "_taken_bytes", lambda: 0)
    with pytest.raises(SourceError, match="compiled functions need about"):
        kernel(1)
    monkeypatch.setattr(memory, "memory_limit", lambda: (left + 1) << 20)
    assert kernel(1) == 2


def test_the_limit_is_kept_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []

    def looks(_chosen: object) -> int:
        seen.append(memory_limit())
        return 0

    monkeypatch.setitem(COMMANDS, "verify", replace(COMMANDS["verify"], run=looks))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert main(["verify", "x.ten", "--memory-limit", "8GiB"]) == 0
    assert main(["verify", "x.ten"]) == 0
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert seen[0] == 2**33
    free = free_memory(1.0)
    assert free is not None
    assert seen[1] is not None
    assert seen[1] > 0.5 * free


@pytest.mark.parametrize("value", ["1MiB", "8", "x", "-1GiB", "8GB/s"])
def test_a_limit_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["verify", "x.ten", "--memory-limit"],
        ["sweep", "x.coll", "--memory"],
        ["tune", "x.coll", "--memory"],
    ):
        assert main([*words, value]) == 2
        assert "error[U0100]: argument --memory" in capsys.readouterr().err


def test_transfers_are_counted_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.zeros((1500, 1000), np.uint16)
    steps = StepSchedule(LinkModel.STORE, table, 7)
    rows = RowSchedule(LinkModel.STORE, Transfers.of(*np.zeros((2, 3), np.int32), np.zeros(3, np.int64)))
    with limited_memory(None):
        assert len(steps.transfers) == 1_500_000
    monkeypatch.setattr(memory, "memory_limit", lambda: 1 << 20)
    assert len(rows.transfers) == 3
    again = StepSchedule(LinkModel.STORE, table, 7)
    with pytest.raises(
        SourceError, match="1,500,000 transfers need about 92 MiB of memory, more than is left of 1 MiB"
    ):
        _ = again.transfers


def test_nothing_is_refused_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    require(2**60, "much", "take less")
    monkeypatch.setattr(memory, "memory_limit", lambda: 2**62)
    require(2**60, "much", "take less")
