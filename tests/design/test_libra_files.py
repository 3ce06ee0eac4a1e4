"""`emit libra`: other solvers read the files and find the same optimum."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from collc.application.design.designs import solve_designs
from collc.base.diagnostics import SourceError, SourceFile
from tests.design.libra_reader import LibraInputs

EXAMPLE = """
import std.topologies
topology net = ring(4) * switched(8)
workload w (tensor: 32, data: 1) {
    layer () { forward tensor all_reduce 1GB }
}
design d on net {
    train w
    require sum(bandwidth) == 100GB/s
    tiers [inter_node, inter_pod]
    minimize time
    emit libra("files/")
}
"""

TRAINING = """
import std.topologies
topology net = ring(4) * fully_connected(4) * switched(8)
workload w (tensor: 8, data: 16) {
    loop LOOP
    layer (forward: 1ms, input_gradient: 2ms, weight_gradient: 3ms) {
        forward tensor all_reduce 64MiB
        forward tensor all_gather 1MiB
        input_gradient tensor all_to_all 16MiB
        weight_gradient data reduce_scatter 12MiB
    }
    repeat 2 {
        layer (forward: 1ms) { weight_gradient data all_reduce 24MiB }
    }
}
design d on net {
    train w
    require sum(bandwidth) == 400GB/s
    require bandwidth[0] >= 2 * bandwidth[2]
    require cost <= 900000
    minimize OBJECTIVE
    emit libra("files")
}
"""

LOOPS = (
    "no_overlap",
    "tp_dp_overlap",
    "forward_compute + 2 * max(sum(forward_communication), sum(weight_gradient_communication))",
)
OBJECTIVES = ("time", "time * cost")


def solved(text: str, folder: Path):
    """The report, and the folder of the files."""
    (report,) = solve_designs(SourceFile("p.coll", text), {}, output=folder).designs
    return report, folder / "files"


def training(loop: str, objective: str) -> str:
    return TRAINING.replace("LOOP", loop).replace("OBJECTIVE", objective)


def test_the_example_of_the_constraints(tmp_path: Path) -> None:
    report, folder = solved(EXAMPLE, tmp_path)
    assert report.diagnostics == ()
    found = json.loads((folder / "d.libra.json").read_text())
    assert found["time"] == {"max": [{"bytes": 1_500_000_000, "dimension": 0}, {"bytes": 437_500_000, "dimension": 1}]}
    assert found["constraints"] == [{"coefficients": [1, 1], "operator": "==", "limit": 100}]
    assert found["optimum"]["time_ns"] == 19_375_000
    assert found["optimum"]["cost"] == pytest.approx(51_385.81, abs=0.005)
    assert found["optimum"]["bandwidth_GBps"] == pytest.approx([2400 / 31, 700 / 31], rel=1e-8)


def lp_optimum(path: Path) -> dict[str, float]:
    scip = pytest.importorskip("pyscipopt")
    model = scip.Model()
    model.hideOutput()
    model.readProblem(str(path))
    model.setParam("limits/gap", 1e-7)
    model.optimize()
    assert model.getStatus() in ("optimal", "gaplimit")
    return {v.name: model.getVal(v) for v in model.getVars()} | {"objective": model.getObjVal()}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_quadratic_solver_reads_the_lp_file(tmp_path: Path, loop: str, objective: str) -> None:
    report, folder = solved(training(loop, objective), tmp_path)
    best = report.choices[0]
    found = lp_optimum(folder / "d.lp")
    wanted = best.time / 1e6 * (best.cost / 1e3 if objective != "time" else 1)
    assert found["objective"] == pytest.approx(wanted, rel=3e-6)
    if objective == "time":
        assert found["T"] == pytest.approx(best.time / 1e6, rel=3e-6)


def mps_optimum(path: Path) -> tuple[float, list[float]]:
    highspy = pytest.importorskip("highspy")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.run()
    return solver.getInfo().objective_function_value, list(solver.getSolution().col_value)


def test_a_linear_solver_reads_the_mps_file(tmp_path: Path) -> None:
    _, folder = solved(EXAMPLE, tmp_path)
    cost, rates = mps_optimum(folder / "d_deadline.mps")
    assert cost * 1000 == pytest.approx(51_385.81, abs=0.005)
    assert rates == pytest.approx([2400 / 31, 700 / 31], rel=1e-8)
    slower = EXAMPLE.replace("minimize time", "require time <= 24.21875ms minimize cost")
    report, folder = solved(slower.replace("require sum(bandwidth) == 100GB/s", ""), tmp_path / "slower")
    cost, rates = mps_optimum(folder / "d_deadline.mps")
    assert cost * 1000 == pytest.approx(41_108.65, abs=0.005)
    assert rates == pytest.approx([61.935, 18.065], abs=0.0006)
    assert report.choices[0].cost == pytest.approx(cost * 1000, rel=1e-9)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_mps_file_keeps_every_communication_as_fast(tmp_path: Path, loop: str) -> None:
    report, folder = solved(training(loop, "time"), tmp_path)
    cost, rates = mps_optimum(folder / "d_deadline.mps")
    best = report.choices[0]
    assert cost * 1000 <= best.cost * (1 + 1e-8)
    assert LibraInputs(folder / "d", "d").time(rates) == pytest.approx(best.time, rel=1e-8)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_mps_file_keeps_the_constraints(tmp_path: Path, loop: str) -> None:
    """Without them a smaller sum would be cheaper; of `time * cost` the optimum of the design is the optimum."""
    text = training(loop, "time * cost").replace("require cost", "require bandwidth[2] <= 25GB/s\n require cost")
    report, folder = solved(
        text.replace("bandwidth[0] >= 2 * bandwidth[2]", "bandwidth[2] >= 0.2 * bandwidth[0]"), tmp_path
    )
    best = report.choices[0]
    cost, rates = mps_optimum(folder / "d_deadline.mps")
    assert cost * 1000 == pytest.approx(best.cost, rel=1e-7)
    assert sum(rates) == pytest.approx(400, rel=1e-8)
    assert rates[2] >= 0.2 * rates[0] * (1 - 1e-7)
    path = folder / "d_deadline.mps"
    path.write_text("".join(line for line in path.open() if "require" not in line))
    assert mps_optimum(path)[0] < 0.999 * cost


@pytest.mark.parametrize("loop", LOOPS)
def test_libra_reads_its_inputs(tmp_path: Path, loop: str) -> None:
    """The re-read problem has the same time and cost at random bandwidths, and the same constraints."""
    report, folder = solved(training(loop, "time"), tmp_path)
    assert report.diagnostics == ()
    inputs = LibraInputs(folder / "d", "d")
    best = report.choices[0]
    assert inputs.time(list(best.bandwidth)) == pytest.approx(best.time, rel=1e-12)
    assert inputs.unit_cost() == pytest.approx([float(d.unit_cost) for d in report.dimensions], rel=1e-12)
    assert [c[1] for c in inputs.constraints] == ["==", ">=", "<="]
    draw = np.random.default_rng(1)
    for rates in draw.uniform(1, 100, (8, 3)).tolist():
        direct = solve_at(training(loop, "time"), rates)
        assert inputs.time(rates) == pytest.approx(direct, rel=1e-12)


def solve_at(text: str, rates: list[float]) -> float:
    """The time of a design whose bandwidths are fixed."""
    fixed = "".join(f"require bandwidth[{k}] == {rate!r} * 1GB/s\n" for k, rate in enumerate(rates))
    start, end = text.index("require sum"), text.index("minimize")
    (report,) = solve_designs(SourceFile("p", text[:start] + fixed + text[end:].replace("emit", "#")), {}).designs
    return report.choices[0].time


def test_the_reread_problem_has_the_same_optimum(tmp_path: Path) -> None:
    """Sequential quadratic programming on what the reader of LIBRA's files says."""
    report, folder = solved(training("no_overlap", "time"), tmp_path)
    inputs = LibraInputs(folder / "d", "d")
    traffic = [np.array(sizes) / 1e6 for phases in inputs.traffic() for sizes in phases if any(sizes)]
    n, unit = inputs.count, np.array(inputs.unit_cost())

    def time(z: np.ndarray) -> float:
        return float(z[n:].sum())

    conditions = [
        {"type": "ineq", "fun": lambda z, j=j, k=k, b=b: z[n + j] - b / z[k]}
        for j, sizes in enumerate(traffic)
        for k, b in enumerate(sizes)
    ]
    for left, operator, limit in inputs.constraints:
        row = np.array([left.coefficients.get(k, 0.0) for k in range(n)])
        sign = -1.0 if operator == "<=" else 1.0
        scale = sign / np.abs(row).max()
        kind = "eq" if operator == "==" else "ineq"
        conditions.append({"type": kind, "fun": lambda z, r=row, s=scale, x=limit: s * (r @ z[:n] - x)})
    best = float("inf")
    for draw in np.random.default_rng(3).dirichlet(np.ones(n), 6):
        rates = 400 * draw + 1
        start = np.concatenate([rates, [max(sizes / rates) for sizes in traffic]])
        bounds = [(1e-3, None)] * len(start)
        found = minimize(time, start, method="SLSQP", bounds=bounds, constraints=conditions, options={"maxiter": 500})
        if found.success:
            best = min(best, found.fun)
            assert unit @ found.x[:n] <= 900_000 * (1 + 1e-6)
    compute = sum(float(row[c]) for row in inputs.rows for c in (2, 5, 8))
    assert compute / 1e6 + best == pytest.approx(report.choices[0].time / 1e6, rel=1e-6)


def test_several_workloads_have_files_each(tmp_path: Path) -> None:
    text = EXAMPLE.replace("train w", "train w (weight: 3)\n    train v")
    text = text.replace(
        "design d", "workload v (tensor: 4, data: 8) {\n layer () { forward data all_reduce 2GB }\n}\ndesign d"
    )
    report, folder = solved(text, tmp_path)
    assert report.diagnostics == ()
    names = {path.name for path in (folder / "d").iterdir()}
    assert names >= {"workload_w.txt", "workload_v.txt", "communicator_v.yml", "training_loop_w.py"}
    tree = json.loads((folder / "d.libra.json").read_text())["time"]
    assert [part["weight"] for part in tree["sum"]] == [3, 1]
    assert "3 * (" in (folder / "d" / "training_loop_w.py").read_text()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("ring(4)", "line(4)", "kind 'line'"),
        ("all_reduce 1GB", "send_recv 1GB", "no send_recv"),
        ("all_reduce 1GB", "all_reduce 1GB  forward data all_reduce 1B", "one group"),
        ("design d", "design def", "keyword"),
    ],
)
def test_what_libra_cannot_read(tmp_path: Path, old: str, new: str, reason: str) -> None:
    report, folder = solved(EXAMPLE.replace(old, new), tmp_path)
    *others, warning = report.diagnostics
    assert [d.code for d in others] == ["E0923"] * ("line" in new)
    assert (warning.code, warning.warning) == ("E0920", True)
    assert reason in warning.message
    assert len(list(folder.iterdir())) == 4


def test_files_that_designs_cannot_have(tmp_path: Path) -> None:
    for text, code in (
        (EXAMPLE.replace('libra("files/")', "msccl"), "U0205"),
        (EXAMPLE.replace('emit libra("files/")', 'emit libra("files/")\n emit libra("files")'), "U0204"),
        (EXAMPLE.replace("files/", "../files/"), "E0611"),
    ):
        with pytest.raises(SourceError) as caught:
            solved(text, tmp_path)
        assert caught.value.diagnostics[0].code == code


def test_highs_agrees_with_the_floors(tmp_path: Path) -> None:
    """The same LP in matrices."""
    report, folder = solved(EXAMPLE, tmp_path)
    unit = [float(d.unit_cost) for d in report.dimensions]
    floors = [1.5e9 / 19_375_000, 4.375e8 / 19_375_000]
    found = linprog(unit, bounds=[(floor, None) for floor in floors])
    assert found.fun == pytest.approx(mps_optimum(folder / "d_deadline.mps")[0] * 1000, rel=1e-8)
