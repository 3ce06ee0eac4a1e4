"""`--json`: messages have the same fields for all commands and all kinds of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.command.cli import main
from tests.command.test_compile import DIRECT, LOOP

pytestmark = pytest.mark.usefixtures("folder")

POSITION = ["file", "line", "column", "end_line", "end_column"]
RING = LOOP + "schedule s on loop { run all_gather(loop.npus, size: 8MiB) using ring emit msccl }"
CASES = {
    "a mistake of syntax": ("check", "schedule s on nothing {", "E0104"),
    "a mistake of meaning": ("check", "let a = 1us + 1MiB", "E0210"),
    "a mistake while compiling": ("compile", "schedule s on nothing { }", "E0201"),
    "a check that fails": ("compile", LOOP + DIRECT % "", "V0201"),
    "no such file": ("compile", None, "E0701"),
}


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    main([*words, "--json"])
    return json.loads(capsys.readouterr().out)


def assert_same_fields(found: object) -> list[dict[str, object]]:
    assert isinstance(found, list)
    for message in found:
        assert list(message) == ["code", "severity", "message", *POSITION, "notes", "hint"]
        assert message["severity"] in {"error", "warning"}
        assert message["hint"] is None or message["hint"]
        for part in (message, *message["notes"]):
            assert {part[name] is None for name in POSITION} in ({True}, {False})
        for note in message["notes"]:
            assert list(note) == ["message", *POSITION]
    return found


@pytest.mark.parametrize("case", CASES)
def test_messages_have_the_same_fields(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, text, code = CASES[case]
    if text is not None:
        Path("p.coll").write_text(text)
    found = answer(capsys, command, "p.coll")
    messages = assert_same_fields(found.pop("diagnostics"))
    assert code in {message["code"] for message in messages}
    assert list(found) == (["schedules"] if command == "compile" else [])


def test_positions_are_the_same_as_in_text_output(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.coll").write_text("let a = 1\nlet a = 2\n")
    (message,) = assert_same_fields(answer(capsys, "check", "p.coll")["diagnostics"])
    assert [message[name] for name in POSITION] == ["p.coll", 2, 5, 2, 6]
    assert [[note[name] for name in POSITION] for note in message["notes"]] == [["p.coll", 1, 5, 1, 6]]


def test_every_command_has_messages(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.coll").write_text(RING)
    assert answer(capsys, "compile", "p.coll")["diagnostics"] == []
    assert answer(capsys, "check", "p.coll") == {"diagnostics": []}
    for command in ("verify", "run", "inspect"):
        assert answer(capsys, command, "s.msccl")["diagnostics"] == []
        broken = answer(capsys, command, "nothing.xml")
        assert [message["code"] for message in assert_same_fields(broken["diagnostics"])] == ["U0106"]
    Path("s.msccl").write_text(Path("s.msccl").read_text().replace('cnt="1"', 'cnt="0"', 1))
    found = assert_same_fields(answer(capsys, "verify", "s.msccl")["diagnostics"])
    assert {message["file"] for message in found} == {"s.msccl"}
