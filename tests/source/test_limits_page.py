"""docs/limits.md states the limits that the code has."""

from __future__ import annotations

from pathlib import Path

from collc.application.compile import proofs as early_checks
from collc.application.sweep import sweeping
from collc.application.topology import topology_summary
from collc.base import interrupts, memory, reading
from collc.chakra import reader as traces
from collc.codes import catalogue
from collc.machines import reading as machines
from collc.msccl.check import contract as msccl
from collc.msccl.check_plan import json_text, operations
from collc.msccl.check_plan import reader as plans
from collc.msccl.lowering import precheck
from collc.msccl.running import data as running
from collc.simulation import astra_file
from collc.source import limits, problems
from collc.source.elaboration import collectives
from collc.synthesis import task
from collc.synthesis.auto.synthesizer import most_listed
from collc.synthesis.symmetric import bundled_exchange
from collc.ten import network, schedule, transform
from collc.ten.text import cursor
from collc.tuning import nccl_search, nccl_shapes

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")

STATED = [
    limits.MAX_BYTES,
    reading.LIMIT,
    limits.MAX_LINKS,
    limits.MAX_CHUNKS,
    limits.MAX_DEVICES,
    limits.MAX_FAMILIES,
    limits.MAX_ITERATIONS,
    limits.MAX_DEPTH,
    limits.MAX_EXPANSIONS,
    limits.MAX_LOOP_DEPTH,
    limits.MAX_RUNS,
    limits.MAX_FAILURES,
    limits.MAX_CLASSES,
    limits.MAX_CHARACTERS,
    limits.MAX_LETTERS,
    limits.MAX_ITEMS,
    limits.MAX_ARGUMENTS,
    problems.MAX_PROBLEMS,
    early_checks.MAX_PATH,
    early_checks.MAX_TIME,
    task.MAX_TRANSFERS,
    most_listed(task.Effort()),
    bundled_exchange.MOST_EXPANDED,
    limits.MAX_ERRORS,
    limits.MAX_BITS,
    limits.MAX_FOLDERS,
    transform.MOST_PAIRS,
    topology_summary.BOUNDED,
    collectives.MOST_CHUNKS,
    collectives.MOST_OF_ONE_BLOCK,
    network.MOST_DEVICES,
    network.MOST_LINKS,
    cursor.MOST_CHUNKS,
    cursor.MOST_MEMBERS,
    cursor.MOST_TRANSFERS,
    cursor.MOST_CELLS,
    cursor.ANY_DEVICES,
    cursor.MOST_PHASES,
    cursor.MOST_INDICES,
    cursor.LARGEST,
    precheck.MOST_MESSAGES,
    msccl.MAX_CHUNKS,
    plans.MAX_CHUNKS,
    operations.MAX_MOVED,
    json_text.MAX_BYTES,
    running.MOST_BYTES,
    running.THREADS_LIMIT,
    running.RANKS_LIMIT,
    traces.MAX_BYTES,
    traces.MAX_MESSAGE,
    traces.MAX_NODES,
    traces.MAX_DEPENDENCIES,
    traces.MAX_RANKS,
    astra_file.MAX_BYTES,
    machines.MAX_BYTES,
    machines.MAX_DEVICES,
    machines.MAX_HOSTS,
    machines.MAX_ELEMENTS,
    machines.MAX_LINKS,
    limits.MAX_HOST_LETTERS,
    sweeping.MOST_CASES,
    nccl_search.MOST_CHANNELS,
    nccl_search.MOST_STEPS,
    nccl_shapes.MOST_MESSAGES,
]

ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| what ")
]


def test_the_page_states_the_limits_of_the_code() -> None:
    assert [row[1] for row in ROWS] == [f"{value:,}" for value in STATED]


def test_each_limit_has_a_message_and_a_reason() -> None:
    for what, _, code, why in ROWS:
        assert what
        assert why
        assert code == "-" or code in catalogue(), code


def test_the_page_states_the_memory_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"at least {memory.LEAST >> 20}MiB." in text
    assert memory.SHARE == 0.9
    assert "nine tenths of the free memory of the machine" in text
    assert f"chunks ({limits.CHUNK_BYTES} bytes each while" in text
    assert f"transfers ({schedule.TRANSFER_BYTES} bytes each)" in text


def test_the_page_states_the_times_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"ended after {interrupts.GRACE:g} s of processor time" in text
    assert f"up to {interrupts._BUSY:g} times as long" in text
