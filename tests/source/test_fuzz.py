"""Any file is elaborated or rejected with messages: no other exception leaves the compiler."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.base.rendering import render
from collc.source import load_program

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PROGRAMS = [path.read_text() for path in sorted(EXAMPLES.glob("*.coll"))]
WORDS = [
    *sorted({word for text in PROGRAMS for word in text.split()}),
    *("{", "}", "(", ")", "[", "]", "..", "0", "-1", "7", "1000000000000", "1.5", '""', "*", "/", "%", "**"),
    *("64MiB", "0B", "3us", "1GB/s", "true", "not", "in", "without", "reversed", "unwound", "sum", "len"),
]
MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
VERY_MANY = settings(MANY, max_examples=600)


def messages_about(path: Path) -> tuple[Diagnostic, ...]:
    """The messages about a file."""
    try:
        load_program(path)
    except (SourceError, NoSchedule) as error:
        return error.diagnostics or (Diagnostic("", ""),)
    return ()


def survive(folder: Path, data: bytes) -> None:
    """Elaborate a file; all messages have a code and a text, and can be rendered."""
    path = folder / "fuzz.coll"
    path.write_bytes(data)
    messages = messages_about(path)
    assert all(d.code and d.message for d in messages)
    assert bool(render(messages)) == bool(messages)


def mutated(chance: random.Random) -> str:
    words = chance.choice(PROGRAMS).replace("\n", " \n ").split(" ")
    for _ in range(chance.randrange(1, 5)):
        index = chance.randrange(len(words))
        words[index : index + chance.randrange(3)] = chance.choices(WORDS, k=chance.randrange(3))
    return " ".join(words)


@MANY
@given(st.binary(max_size=200))
def test_random_bytes(tmp_path: Path, data: bytes) -> None:
    survive(tmp_path, data)


@MANY
@given(st.randoms(use_true_random=False))
def test_good_programs_with_words_changed(tmp_path: Path, chance: random.Random) -> None:
    survive(tmp_path, mutated(chance).encode())


@pytest.mark.slow
@VERY_MANY
@given(st.randoms(use_true_random=False))
def test_many_good_programs_with_words_changed(tmp_path: Path, chance: random.Random) -> None:
    survive(tmp_path, mutated(chance).encode())


@MANY
@given(st.integers(0, 2**32), st.integers(0, 5), st.binary(max_size=4))
def test_good_programs_with_bytes_changed(tmp_path: Path, index: int, length: int, new: bytes) -> None:
    data = PROGRAMS[index % len(PROGRAMS)].encode()
    at = index % len(data)
    survive(tmp_path, data[:at] + new + data[at + length :])


def test_a_program_without_any_schedule_is_rejected_with_messages(tmp_path: Path) -> None:
    one_way = """import std.collectives
topology t { npu a  npu b  npu c  link a -> b (bandwidth: 1GB/s, latency: 0s)
  link b -> c (bandwidth: 1GB/s, latency: 0s) }
schedule s on t { run all_gather([t.a, t.b, t.c], size: 3MB) }
"""
    (path := tmp_path / "fuzz.coll").write_text(one_way)
    assert [d.code for d in messages_about(path)] == ["E0412"]
    survive(tmp_path, one_way.encode())
