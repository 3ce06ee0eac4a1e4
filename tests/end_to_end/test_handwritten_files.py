"""MSCCL files written by hand and given to `collc verify` and `collc run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.command.cli import main
from tests.msccl.programs import exchange, write

pytestmark = pytest.mark.usefixtures("folder")

SAFE = 8 * 2**20
"""Bytes up to which an exchange of two times eight chunks does not hang."""


@pytest.mark.parametrize(
    ("most", "words"), [(0, f"hangs above {SAFE} bytes"), (SAFE + 16, f'maxBytes="{SAFE}" would keep it safe')]
)
def test_mistakes_are_named_with_their_lines(most: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("f.xml"), exchange(max_bytes=most))
    assert main(["verify", "f.xml", "--json"]) == 4
    output = capsys.readouterr()
    answer = json.loads(output.out)
    assert answer["checks"]["deadlock"] == "failed"
    assert all(message["line"] for message in answer["diagnostics"] if message["code"] == "X0140")
    assert words in output.err


def test_corrected_files_pass(capsys: pytest.CaptureFixture[str]) -> None:
    for file in (exchange(max_bytes=SAFE), exchange(proto="LL")):
        write(Path("f.xml"), file)
        assert main(["verify", "f.xml"]) == 0, capsys.readouterr().err
        assert main(["run", "f.xml", "--runs", "3"]) == 0


def test_verify_prints_a_summary_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("f.xml"), exchange())
    main(["verify", "f.xml"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "allgather; 2 ranks, 1 channel, 4 threadblocks, 6 steps; chunks: i 8, o 16, s 0, nchunksperloop 16" in shown
    assert f"Simple, out of place, sizes from 0 bytes; free of deadlock up to {SAFE} bytes" in shown
    # The old runtime takes maxBytes="0" literally: no size is allowed.
    assert "contract of the runtimes: executor ok, old failed" in shown
    write(Path("f.xml"), exchange(max_bytes=SAFE))
    main(["verify", "f.xml"])
    assert "executor ok, old ok" in " ".join(capsys.readouterr().out.split())
