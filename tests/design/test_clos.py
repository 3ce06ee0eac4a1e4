"""Clos and rail-only networks: the table of the paper, its formulas, and schedules on small ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

import collc
from collc.command.cli import main
from collc.design.clos import clos, clos_tiers, rail_only

TABLE = [
    (32768, 64, 2560, 1536, 196608, 131072, 38.29, 37.5),
    (32768, 128, 1280, 256, 196608, 65536, 76.59, 75),
    (32768, 256, 384, 128, 131072, 65536, 62.06, 60),
    (65536, 64, 5120, 3072, 393216, 262144, 38.29, 37.5),
    (65536, 128, 2560, 1536, 393216, 262144, 38.29, 37.5),
    (65536, 256, 1280, 256, 393216, 131072, 76.59, 75),
]


@dataclass(frozen=True, slots=True)
class Domains:
    """`count` domains of `size` GPUs each. fast, slow: bandwidths of a GPU in its domain and in its rail."""

    count: int
    size: int
    fast: Fraction
    slow: Fraction

    def all_gather_time(self, total: int) -> Fraction:
        """The time of an All-Gather of `total` bytes over the rails and then in the domains, in seconds (1)."""
        x, y = self.size, self.count
        return Fraction((y - 1) * total, x * y) / self.slow + Fraction((x - 1) * total, x) / self.fast

    def all_to_all_time(self, per_pair: int, *, rail_only: bool) -> Fraction:
        """The time of an All-to-All of that many bytes for each pair, in seconds.

        With rails that are connected, the two kinds of traffic share nothing (2). In a rail-only network all traffic
        between domains crosses the fast switches too, on its way to another rail, in a phase of its own (3).
        """
        x, y, size = self.size, self.count, per_pair
        if rail_only:
            return y * (x - 1) * size / self.fast + x * (y - 1) * size / self.slow
        return max((x - 1) * size / self.fast, x * (y - 1) * size / self.slow)


@pytest.mark.parametrize("row", TABLE)
def test_counts_and_savings_of_the_paper(row) -> None:
    gpus, radix, *counts, cost, power = row
    whole, rails = clos(gpus, radix), rail_only(gpus, radix)
    assert [whole.switches, rails.switches, whole.transceivers, rails.transceivers] == counts
    assert 100 * (1 - rails.cost / whole.cost) == pytest.approx(cost, abs=0.006)
    assert 100 * (1 - rails.power / whole.power) == pytest.approx(power, abs=1e-9)


@pytest.mark.parametrize("radix", [4, 6, 64])
def test_tiers_are_the_fewest(radix: int) -> None:
    for endpoints in range(1, 3000, 7):
        tiers = clos_tiers(endpoints, radix)
        assert 2 * (radix // 2) ** tiers >= endpoints
        assert tiers == 1 or 2 * (radix // 2) ** (tiers - 1) < endpoints


@pytest.mark.parametrize("radix", [2, 5])
def test_a_radix_that_no_clos_network_has(radix: int) -> None:
    with pytest.raises(ValueError, match="even"):
        clos_tiers(8, radix)


@pytest.mark.parametrize(("fast", "slow", "percent"), [(300, 25, 8.33), (450, 50, 11.11)])
def test_slow_down_of_all_to_all(fast: int, slow: int, percent: float) -> None:
    """DGX A100 and H100 with eight nodes: the ratio of the bandwidths."""
    both = Domains(8, 8, Fraction(fast), Fraction(slow))
    ratio = both.all_to_all_time(1, rail_only=True) / both.all_to_all_time(1, rail_only=False)
    assert ratio - 1 == Fraction(slow, fast)
    assert float(100 * ratio - 100) == pytest.approx(percent, abs=0.006)


PROGRAM = """
import std.topologies
import std.collectives
topology net = NETWORK(4, 4, local: 300GB/s, rail: 25GB/s, local_latency: 1ns, rail_latency: 1ns)
schedule s on net {
    run RUN(net.npus, size: 256MiB, chunks: 4)
    synthesize symmetric(link_model: "pipelined")
}
"""

SIZE = 2**28
NETWORKS = ("rail_only", "rail_optimized")


def time_of(network: str, run: str, folder: Path) -> float:
    """Seconds."""
    text = PROGRAM.replace("NETWORK", network).replace("RUN", run)
    (report,) = collc.compile_text(text, output=folder)
    assert report.time_ps is not None
    return report.time_ps / 1e12


@pytest.mark.sampled(2)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("run", "factor"), [("all_gather", 1), ("reduce_scatter", 1), ("all_reduce", 2)])
def test_gathering_schedules_meet_the_formula(network: str, run: str, factor: int, tmp_path: Path) -> None:
    """The formula adds up two phases; schedules may overlap them, but the rails alone take their time."""
    domains = Domains(4, 4, Fraction(300 * 10**9), Fraction(25 * 10**9))
    formula = float(factor * domains.all_gather_time(SIZE))
    rails = factor * 3 * SIZE / 16 / 25e9
    assert rails <= time_of(network, run, tmp_path) <= formula * 1.02


@pytest.mark.parametrize("network", NETWORKS)
def test_all_to_all_schedules_meet_the_formula(network: str, tmp_path: Path) -> None:
    domains = Domains(4, 4, Fraction(300 * 10**9), Fraction(25 * 10**9))
    formula = float(domains.all_to_all_time(SIZE // 16, rail_only=network == "rail_only"))
    least = float(domains.all_to_all_time(SIZE // 16, rail_only=False))
    assert least * 0.999 <= time_of(network, "all_to_all", tmp_path) <= formula * 1.03


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
    code = main(["design", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_command_prints_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, "--network", "rail_only", "--gpus", "32768", "--radix", "64")
    assert code == 0
    whole, rails = found["networks"]
    assert (whole["network"], whole["switches"], whole["cost"]) == ("clos", 2560, 152_829_952)
    assert (rails["network"], rails["transceivers"], rails["power_W"]) == ("rail_only", 131072, 2_949_120)
    assert rails["cost_saved"] == pytest.approx(0.3829, abs=6e-5)
    assert rails["power_saved"] == pytest.approx(0.375)
    assert main(["design", "--network", "clos", "--gpus", "32768"]) == 0
    assert "2,560" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("--network", "clos"),
        ("--network", "rail_only", "--gpus", "1000"),
        ("--network", "clos", "--gpus", "64", "--radix", "7"),
        ("--network", "clos", "--gpus", "64", "--domain", "8"),
        ("--network", "clos", "--gpus", "9223372036854775807"),
        ("--network", "rail_only", "--gpus", "65536", "--radix", "4098"),
        ("p.coll", "--network", "clos", "--gpus", "64"),
        ("p.coll", "--gpus", "64"),
        (),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    code, found = answer(capsys, *words)
    assert (code, [d["code"] for d in found["diagnostics"]]) == (2, ["U0119"])
