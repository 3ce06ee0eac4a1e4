"""The output of `collc std`."""

from __future__ import annotations

import pytest

from collc.base.diagnostics import SourceFile, UsageError
from collc.source.parsing.parse import parse
from collc.source.standard_library import std_entries, std_source


def test_every_declaration_has_its_line() -> None:
    entries = std_entries()
    names = ("algorithms", "clusters", "collectives", "prices", "topologies", "workloads")
    assert {e.module for e in entries} == {f"std.{name}" for name in names}
    assert len(entries) == 79
    for entry in entries:
        assert entry.summary, entry.signature
        assert entry.summary.endswith((".", "steps", "tree.")), entry.summary
        assert len(entry.summary) <= 118


def test_signatures() -> None:
    found = {e.signature: e for e in std_entries()}
    assert "ring(n, bandwidth, latency, one_way = false)" in found
    assert "all_reduce using ring" in found
    assert "gpt3 (tensor: 16, data: 256)" in found
    assert found["all_to_allv(g, sizes, chunk = 1MiB)"].name == "all_to_allv"


def test_sources_parse() -> None:
    for entry in std_entries():
        assert entry.source.startswith("# ")
        assert len(parse(SourceFile("shown.coll", entry.source)).statements) == 1


def test_a_name_can_denote_several_declarations() -> None:
    text = std_source("ring")
    assert text.count("\nalgorithm ring(") == 8
    assert text.count("\ntopology ring(") == 1
    for name in ("topologies.ring", "std.topologies.ring"):
        shown = std_source(name)
        assert shown.startswith("# std.topologies\n\n# A ring of n NPUs")
        assert "algorithm" not in shown


def test_the_sources_of_a_machine_are_shown_with_it() -> None:
    assert "NVIDIA, DGX A100 datasheet" in std_source("dgx_a100")


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError) as caught:
        std_source("rng")
    assert caught.value.diagnostics[0].code == "U0114"
    assert caught.value.diagnostics[0].hint == "did you mean 'ring'?"
    with pytest.raises(UsageError):
        std_source("std.clusters.ring")
