"""MSCCL files written by hand and given to `collc verify`: known mistakes are named, and the corrected files pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.command.cli import main

Step = tuple[str, str, int, str, int, int] | tuple[str, str, int, str, int, int, int, int, int]


def algo(coll: str, gpus: list[str], chunks: int, most: int = 0, proto: str = "Simple") -> str:
    head = f'nchunksperloop="{chunks}" nchannels="1" ngpus="{len(gpus)}" proto="{proto}" coll="{coll}"'
    sizes = f'inplace="0" outofplace="1" minBytes="0" maxBytes="{most}"'
    return f'<algo name="mine" {head} {sizes}>\n{"".join(gpus)}</algo>\n'


def gpu(number: int, chunks: tuple[int, int, int], *tbs: str) -> str:
    i, o, s = chunks
    return f'<gpu id="{number}" i_chunks="{i}" o_chunks="{o}" s_chunks="{s}">\n{"".join(tbs)}</gpu>\n'


def tb(number: int, send: int, recv: int, *steps: Step) -> str:
    lines = [f'<tb id="{number}" send="{send}" recv="{recv}" chan="0">\n']
    for index, step in enumerate(steps):
        kind, source, at, target, to, count = step[:6]
        depid, deps, hasdep = step[6:] or (-1, -1, 0)
        lines.append(
            f'<step s="{index}" type="{kind}" srcbuf="{source}" srcoff="{at}" dstbuf="{target}" dstoff="{to}" '
            f'cnt="{count}" depid="{depid}" deps="{deps}" hasdep="{hasdep}"/>\n'
        )
    return "".join(lines) + "</tb>\n"


def reduced(local: bool = True) -> str:
    """An All-Reduce of two ranks, in the output after a copy.

    local: the step's src is the slot of the receiver; otherwise that of the sender.
    """
    gpus = []
    for r in (0, 1):
        p = 1 - r
        take = ("rrc", "o", r if local else p, "o", r, 1)
        steps = (("cpy", "i", 0, "o", 0, 2), ("s", "o", p, "o", p, 1), take, ("s", "o", r, "o", r, 1))
        gpus.append(gpu(r, (2, 2, 0), tb(0, p, p, *steps, ("r", "o", p, "o", p, 1))))
    return algo("allreduce", gpus, 2)


def chained(local: bool = True) -> str:
    """An All-Reduce along three ranks, rank r in slot r of its scratch.

    local: the step's src is the slot of the receiver; otherwise that of the sender.
    """
    gpus = []
    for r in range(3):
        own, before, last = ("s", r), ("s", r if local else r - 1), ("cpy", "s", r, "o", 0, 1)
        steps = {
            0: [("s", *own, *own, 1), ("rcs", *own, *own, 1)],
            1: [("rrcs", *before, *own, 1), ("r", *own, *own, 1)],
            2: [("rrcs", *before, *own, 1)],
        }[r]
        gpus.append(gpu(r, (1, 1, 3), tb(0, (r + 1) % 3, (r - 1) % 3, ("cpy", "i", 0, *own, 1), *steps, last)))
    return algo("allreduce", gpus, 1)


def two_senders() -> str:
    first = gpu(
        0, (2, 2, 0), tb(0, 1, -1, ("s", "i", 1, "i", 1, 1)), tb(1, 1, -1, ("cpy", "i", 0, "o", 0, 1)),
        tb(2, -1, 1, ("r", "o", 1, "o", 1, 1)),
    )  # fmt: skip
    second = gpu(1, (2, 2, 0), tb(0, 0, 0, ("s", "i", 0, "i", 0, 1), ("r", "o", 0, "o", 0, 1)))
    return algo("alltoall", [first, second], 2)


def depending(hasdep: int) -> str:
    """An All-Gather through scratch; the copy out of scratch waits for the message."""
    first = gpu(
        0, (1, 2, 1), tb(0, 1, 1, ("s", "i", 0, "i", 0, 1), ("r", "s", 0, "s", 0, 1, -1, -1, hasdep)),
        tb(1, -1, -1, ("cpy", "s", 0, "o", 1, 1, 0, 1, 0), ("cpy", "i", 0, "o", 0, 1)),
    )  # fmt: skip
    second = gpu(
        1, (1, 2, 0), tb(0, 0, 0, ("s", "i", 0, "i", 0, 1), ("r", "o", 0, "o", 0, 1)),
        tb(1, -1, -1, ("cpy", "i", 0, "o", 1, 1)),
    )  # fmt: skip
    return algo("allgather", [first, second], 2)


def reusing(waits: bool) -> str:
    """A broadcast of two chunks through one slot of scratch."""
    second = ("r", "s", 0, "s", 0, 1, *((1, 0, 1) if waits else (-1, -1, 1)))
    first = gpu(
        0, (2, 2, 0), tb(0, 1, -1, ("s", "i", 0, "i", 0, 1), ("s", "i", 1, "i", 1, 1)),
        tb(1, -1, -1, ("cpy", "i", 0, "o", 0, 2)),
    )  # fmt: skip
    other = gpu(
        1, (2, 2, 1), tb(0, -1, 0, ("r", "s", 0, "s", 0, 1, -1, -1, 1), second),
        tb(1, -1, -1, ("cpy", "s", 0, "o", 0, 1, 0, 0, int(waits)), ("cpy", "s", 0, "o", 1, 1, 0, 1, 0)),
    )  # fmt: skip
    return algo("broadcast", [first, other], 2)


def exchange(most: int = 0, proto: str = "Simple", receive_first: bool = False) -> str:
    """An All-to-All of two ranks that both send 8 chunks before they receive any."""
    gpus = []
    for r in (0, 1):
        p = 1 - r
        both = [("s", "i", p * 8, "i", p * 8, 8), ("r", "o", p * 8, "o", p * 8, 8)]
        both = both[::-1] if receive_first else both
        gpus.append(gpu(r, (16, 16, 0), tb(0, p, p, *both), tb(1, -1, -1, ("cpy", "i", r * 8, "o", r * 8, 8))))
    return algo("alltoall", gpus, 16, most, proto)


SAFE = 8 * 2**20
MISTAKES = {
    "rrc with the sender's slot": (reduced(local=False), "result", "X0132", "local/remote mix-up"),
    "rrcs with the sender's slot": (chained(local=False), "result", "X0132", "local/remote mix-up"),
    "two threadblocks on one connection": (
        two_senders(),
        "contract",
        "X0112",
        "two threadblocks on one connection (gpu 0 -> gpu 1, channel 0)",
    ),
    "a dependency without hasdep": (depending(0), "contract", "X0115", 'set hasdep="1" on that step'),
    "scratch used again without a dependency": (reusing(False), "race", "X0150", "touch s[0]"),
    "a deadlock above a size": (exchange(), "deadlock", "X0140", f'maxBytes="{SAFE}" would keep it safe'),
    "a deadlock just above a size": (exchange(SAFE + 16), "deadlock", "X0140", f"hangs above {SAFE} bytes"),
    "a deadlock at every size": (exchange(receive_first=True), "deadlock", "X0140", "hangs at every size"),
}  # fmt: skip
CORRECTED = {
    "rrc": reduced(),
    "rrcs": chained(),
    "hasdep": depending(1),
    "scratch": reusing(True),
    "a narrower range": exchange(SAFE),
    "a protocol with eight messages": exchange(proto="LL"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_known_mistakes_are_named(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, check, code, words = MISTAKES[mistake]
    Path("f.xml").write_text(text)
    assert main(["verify", "f.xml", "--json"]) == 4
    output = capsys.readouterr()
    answer = json.loads(output.out)
    assert answer["checks"][check] == "failed"
    found = [message for message in answer["diagnostics"] if message["code"] == code]
    assert found
    assert all(message["line"] for message in found)
    assert words in output.err


@pytest.mark.parametrize("name", CORRECTED)
def test_corrected_files_pass(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.xml").write_text(CORRECTED[name])
    assert main(["verify", "f.xml"]) == 0, capsys.readouterr().err
    assert main(["run", "f.xml", "--runs", "3"]) == 0


def test_verify_prints_a_summary_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.xml").write_text(exchange())
    main(["verify", "f.xml"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "alltoall; 2 ranks, 1 channel, 4 threadblocks, 6 steps; chunks: i 16, o 16, s 0, nchunksperloop 16" in shown
    assert f"Simple, out of place, sizes from 0 bytes; free of deadlock up to {SAFE} bytes" in shown
    # The old runtime takes maxBytes="0" literally: no size is allowed.
    assert "contract of the runtimes: executor ok, old failed" in shown
    Path("f.xml").write_text(exchange(SAFE))
    main(["verify", "f.xml"])
    assert "executor ok, old ok" in " ".join(capsys.readouterr().out.split())
