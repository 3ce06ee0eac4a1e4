"""`collc design`: tables, JSON, errors and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.command.cli import main

pytestmark = pytest.mark.usefixtures("folder")

NET = """
import std.topologies
topology net = ring(4) * switched(8)
workload w (tensor: 4, data: 8) {
    layer (forward: 1ms) { forward tensor all_reduce 1GB  weight_gradient data all_reduce 100MB }
}
"""

TWO = (
    NET
    + """
design first on net {
    train w
    require sum(bandwidth) == 100GB/s
    minimize time
}
design second on net {
    train w
    require sum(bandwidth) == 100GB/s
    minimize time * cost
}
"""
)


def design(capsys: pytest.CaptureFixture[str], text: str, *words: str) -> tuple[int, dict[str, object]]:
    Path("p.coll").write_text(text)
    code = main(["design", "p.coll", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_json_has_the_design(capsys: pytest.CaptureFixture[str]) -> None:
    """1.5e9 and 1.75e8 bytes one after another: bandwidths in the ratio of their square roots."""
    code, answer = design(capsys, TWO)
    assert (code, answer["diagnostics"]) == (0, [])
    first, second = answer["designs"]
    assert {"name", "bandwidth_GBps", "time_ns", "cost", "speedup", "performance_per_cost"} <= set(first)
    assert {"utilisation", "gap", "files"} <= set(first)
    roots = [1.5e9**0.5, 1.75e8**0.5]
    assert first["bandwidth_GBps"] == pytest.approx([100 * r / sum(roots) for r in roots], rel=1e-6)
    assert first["time_ns"] == pytest.approx(1e6 + sum(roots) ** 2 / 100, rel=1e-8)
    assert first["cost"] == pytest.approx(32 * (4 * first["bandwidth_GBps"][0] + 57.4 * first["bandwidth_GBps"][1]))
    assert sum(first["utilisation"]) == pytest.approx(1)
    assert first["gap"] <= 1e-9
    assert second["time_ns"] * second["cost"] < first["time_ns"] * first["cost"]
    assert "alternatives" not in first


def test_comparison_with_closed_forms(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = design(capsys, TWO, "--compare", "--design", "first")
    (first,) = answer["designs"]
    equal, message, smart = first["alternatives"]
    assert code == 0
    assert [c["name"] for c in first["alternatives"]] == ["equal", "message", "smart"]
    assert equal["bandwidth_GBps"] == [50, 50]
    assert (equal["speedup"], equal["performance_per_cost"]) == (1, 1)
    assert message["bandwidth_GBps"] == pytest.approx([100 * 1500 / 1675, 100 * 175 / 1675], rel=1e-8)
    assert smart["bandwidth_GBps"] == pytest.approx(first["bandwidth_GBps"], rel=1e-6)
    assert first["speedup"] == pytest.approx(equal["time_ns"] / first["time_ns"], rel=1e-8)
    assert main(["design", "p.coll", "--compare"]) == 0
    table = capsys.readouterr().out
    assert all(word in table for word in ("first", "second", "optimum", "equal", "message", "smart", "$"))


def body(*statements: str) -> str:
    return NET + "design d on net {\n    train w\n" + "".join(f"    {s}\n" for s in statements) + "}\n"


CASES = {
    "contradiction": (
        body(
            "require bandwidth[0] >= 60GB/s",
            "require bandwidth[1] >= 1GB/s",
            "require sum(bandwidth) <= 50GB/s",
            "minimize time",
        ),
        3,
        "E0917",
        9,
        [11],
    ),
    "deadline": (
        body("require sum(bandwidth) == 10GB/s", "require time <= 2ms", "minimize time"),
        3,
        "E0918",
        10,
        [9],
    ),
    "no limit": (body("require bandwidth[0] <= 60GB/s", "minimize time"), 1, "E0919", 10, [9]),
    "no floor": (body("require sum(bandwidth) <= 60GB/s", "minimize time * cost"), 1, "E0919", 10, [9]),
    "no cost": (body("minimize cost"), 1, "E0919", 9, []),
}


@pytest.mark.parametrize("case", CASES)
def test_designs_without_a_solution(capsys: pytest.CaptureFixture[str], case: str) -> None:
    text, code, name, line, notes = CASES[case]
    found, answer = design(capsys, text)
    (message,) = answer["diagnostics"]
    assert (found, message["code"], message["line"]) == (code, name, line)
    assert [note["line"] for note in message["notes"]] == notes
    assert answer["designs"][0]["files"] == []
    assert main(["design", "p.coll"]) == code


def test_a_dimension_with_traffic_and_no_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    for objective in ("time", "cost", "time * cost"):
        text = body("require bandwidth[0] <= 0GB/s", "require sum(bandwidth) == 60GB/s", f"minimize {objective}")
        code, answer = design(capsys, text)
        (message,) = answer["diagnostics"]
        assert (code, message["code"], message["line"]) == (3, "E0917", 9)
        assert [note["message"].split(",")[0] for note in message["notes"]] == ["dimension 0 has traffic"]


HUGE = "require bandwidth[1] <= 9223372036854775807GB/s"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("objective", ["time", "cost", "time * cost"])
@pytest.mark.parametrize(
    "limit", ["require sum(bandwidth) == 60GB/s", "require bandwidth[0] <= 1GB/s  require time <= 2s"]
)
def test_a_limit_that_no_network_reaches_changes_nothing(
    capsys: pytest.CaptureFixture[str], limit: str, objective: str
) -> None:
    code, answer = design(capsys, body(HUGE, limit, f"minimize {objective}"))
    _, plain = design(capsys, body(limit, "require bandwidth[1] <= 1e6GB/s", f"minimize {objective}"))
    key = "time_ns" if objective == "time" else "cost" if objective == "cost" else "performance_per_cost"
    assert code == 0
    assert answer["designs"][0][key] == pytest.approx(plain["designs"][0][key], rel=1e-3)


@pytest.mark.parametrize("low", ["1.0001B/s", "2B/s"])
def test_small_limits_contradict_each_other(capsys: pytest.CaptureFixture[str], low: str) -> None:
    text = body(f"require bandwidth[0] >= {low}", "require bandwidth[0] <= 1B/s", "minimize cost")
    code, answer = design(capsys, text)
    assert (code, answer["diagnostics"][0]["code"]) == (3, "E0917")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("objective", ["time", "cost", "time * cost"])
@pytest.mark.parametrize("digits", [0, 7, 9, 12, 15])
def test_a_deadline_that_only_huge_bandwidths_meet(
    capsys: pytest.CaptureFixture[str], digits: int, objective: str
) -> None:
    deadline = f"1.{'0' * digits}1ms" if digits else "1ms"
    code, answer = design(capsys, body(HUGE, f"require time <= {deadline}", f"minimize {objective}"))
    assert (code, *[one["code"] for one in answer["diagnostics"]]) in ((0,), (1, "E0924"), (3, "E0918"))
    assert code or answer["designs"][0]["time_ns"] == pytest.approx(1e6, rel=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("objective", ["cost", "time * cost"])
def test_limits_that_are_too_far_apart(capsys: pytest.CaptureFixture[str], objective: str) -> None:
    limits = "require sum(bandwidth) >= 1GB/s", "require bandwidth[0] + 2 * bandwidth[1] >= 9223372036854775807GB/s"
    code, answer = design(capsys, body(*limits, f"minimize {objective}"))
    assert (code, *[one["code"] for one in answer["diagnostics"]]) in ((0,), (1, "E0924"))


WITHOUT_SMART = """
import std.topologies
topology net = ring(4) * switched(8) * switched(2)
workload w (tensor: 8, data: 8) {
    layer (forward: 1ms) { forward tensor all_reduce 1MiB }
    layer (forward: 1ms) { weight_gradient data all_reduce 1MiB }
}
workload v (tensor: 32, data: 2) { layer (forward: 1ms) { forward tensor all_reduce 1MiB } }
workload u (tensor: 2, data: 32) { layer (forward: 1ms) { weight_gradient data all_reduce 1MiB } }
design d on net { train w train v train u require sum(bandwidth) == 60GB/s minimize time }
"""


def test_why_a_closed_form_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = design(capsys, WITHOUT_SMART, "--compare")
    (found,) = answer["designs"]
    assert (code, [one["name"] for one in found["alternatives"]]) == (0, ["equal", "message"])
    assert found["left_out"] == {"smart": "several dimensions have tensor and data traffic"}
    assert main(["design", "p.coll", "--compare"]) == 0
    assert "smart (several dimensions have tensor and data traffic)" in capsys.readouterr().out


def test_no_compute_time(capsys: pytest.CaptureFixture[str]) -> None:
    text = body("require bandwidth[0] >= 1GB/s", "minimize time * cost").replace("(forward: 1ms)", "")
    code, answer = design(capsys, text)
    assert (code, answer["diagnostics"][0]["code"]) == (1, "E0919")


def test_a_deadline_at_the_least_cost(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = design(capsys, body("require 21ms >= time", "minimize cost"))
    (found,) = answer["designs"]
    assert code == 0
    assert found["time_ns"] == pytest.approx(21e6, rel=1e-7)


@pytest.mark.parametrize(("text", "words"), [(NET, ()), (TWO, ("--design", "third"))])
def test_no_design_to_solve(capsys: pytest.CaptureFixture[str], text: str, words: tuple[str, ...]) -> None:
    code, answer = design(capsys, text, *words)
    assert (code, answer["diagnostics"][0]["code"]) == (2, "U0118")


def test_prices_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """3 NPUs on one switch at 10 GB/s cost $1,722, and with the other prices $2,220."""
    text = """
    import std.topologies
    topology net = switched(3)
    workload w (tensor: 3, data: 1) { layer () { forward tensor all_reduce 1MB } }
    design usual on net { train w  require bandwidth[0] == 10GB/s  minimize time }
    design other on net {
        train w
        require bandwidth[0] == 10GB/s
        price inter_pod (link: 2, nic: 48, switch: 24)
        minimize time
    }
    """
    code, answer = design(capsys, text)
    assert code == 0
    assert [d["cost"] for d in answer["designs"]] == pytest.approx([1722, 2220])
