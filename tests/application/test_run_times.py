"""When the runs of a schedule end, in the report."""

from __future__ import annotations

import collc
from collc.base.units import format_time

NODES = "for n in 0..2 { run all_reduce(t.gpu[n, *], size: 8MiB) }"
RAILS = "for r in 0..8 { run all_reduce(t.gpu[*, r], size: 8MiB) }"


def compiled(runs: str) -> collc.ScheduleReport:
    return collc.compile_text(
        "import std.clusters\nimport std.collectives\ntopology t = dgx_h100(2)\n"
        f'schedule s on t {{ {runs}\nsynthesize auto(link_model: "pipelined") }}\n'
    )["s"]


def test_the_report_says_when_runs_end() -> None:
    """Tensor-parallel groups in nodes end when they would by themselves, long before data-parallel ones on rails."""
    found, nodes, rails = map(compiled, (f"{NODES}\n{RAILS}", NODES, RAILS))
    assert found.run_times_ps == (*nodes.run_times_ps, *rails.run_times_ps)
    assert set(nodes.run_times_ps) == {nodes.time_ps}
    assert found.time_ps == rails.time_ps > nodes.time_ps
    assert found.as_json()["run_times_ps"] == list(found.run_times_ps)
    first, last = map(format_time, (nodes.time_ps, rails.time_ps))
    ends = f"the first run ends at {first} (all_reduce over 8 NPUs), the last one at {last} (all_reduce over 2 NPUs)"
    assert ends in found.notes
    assert not any("ends at" in note for note in rails.notes)


def test_one_run_ends_with_its_schedule() -> None:
    found = compiled("run all_gather(t.gpu[0, *], size: 8MiB)")
    assert found.run_times_ps == ()
    assert "run_times_ps" not in found.as_json()
