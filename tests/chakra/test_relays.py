"""Traces of schedules in which NPUs relay partials that they keep apart, also without adding them."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from collc.application.verify.file_verification import verify_traces
from collc.emit.chakra import write_chakra
from collc.synthesis.exchange import exchange
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel
from tests.chakra.test_emit import rewritten
from tests.support import all_reduce, ring

Rename = Callable[[str], str]


def traces(npus: int, size: int, folder: Path) -> tuple[Module, Path]:
    net = ring(npus, LinkKind(500_000, Fraction(50 * 10**9)))
    module = Module("m", net, all_reduce(net.npus.tolist(), size // npus), LinkModel.PIPELINED)
    built = exchange(module, Effort(), tacos)
    write_chakra(built, "m", folder)
    return built, folder / "m"


@pytest.mark.parametrize(
    ("npus", "size", "kept"), [(6, 1000, False), (5, 1000, False), (5, 2**16, True), (9, 2**16, True)]
)
def test_traces_of_relayed_partials_are_right(npus: int, size: int, kept: bool, tmp_path: Path) -> None:
    module, prefix = traces(npus, size, tmp_path)
    assert module.schedule is not None
    assert module.schedule.transfers.relayed is not None
    assert bool(module.schedule.transfers.keeps.any()) == kept
    report = verify_traces(prefix)
    assert dict(report.checks) == {"contract": "ok", "deadlock": "ok", "result": "ok"}


def other_origin(name: str) -> str:
    """A relay of what came from the other neighbour."""
    before, origin, rest = name.partition(" from ")
    _, to, target = rest.partition(" to ")
    return f"{before}{origin}{target}{to}{target}"


def sent_whole(name: str) -> str:
    """A send of all that the rank holds, in place of a relay."""
    before, _, rest = name.partition(" from ")
    return f"send {before.removeprefix('relay ')} to {rest.split()[-1]}"


@pytest.mark.parametrize(
    ("verb", "rename", "what"),
    [
        ("relay", other_origin, "occurs twice|does not hold|ends without"),
        ("relay", sent_whole, "occurs twice"),
        ("keep", lambda name: name.replace("keep", "receive"), "nothing adds them|occurs twice"),
        ("receive", lambda name: name.replace("receive", "keep"), "it reduces 0 receives"),
    ],
    ids=["another origin", "sent with what is held", "kept and stored", "added and kept"],
)
def test_other_names_of_nodes_say_another_result(verb: str, rename: Rename, what: str, tmp_path: Path) -> None:
    _, prefix = traces(5, 2**16, tmp_path)
    for rank in range(5):
        names: list[str] = []
        path = prefix.with_name(f"m.{rank}.et")

        def change(nodes: list, names: list[str] = names) -> list:
            found = next((node for node in nodes if node.name.startswith(verb + " ")), None)
            if found is not None:
                found.name = rename(found.name)
                names.append(found.name)
            return nodes

        rewritten(path, change)
        if names:
            break
    assert names
    report = verify_traces(prefix)
    assert report.checks["result"] == "failed"
    assert re.search(what, report.diagnostics[0].message)
