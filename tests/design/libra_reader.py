"""A reader of LIBRA's own input files, written from its description: the time of an iteration and the constraints."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace

import yaml

Rates = list[float]


@dataclass
class Affine:
    """constant + coefficients @ bandwidth; comparing two notes a constraint."""

    coefficients: dict[int, float] = field(default_factory=dict)
    constant: float = 0.0

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Affine | float) -> Affine:
        other = other if isinstance(other, Affine) else Affine(constant=other)
        keys = self.coefficients | other.coefficients
        merged = {k: self.coefficients.get(k, 0) + other.coefficients.get(k, 0) for k in keys}
        return Affine(merged, self.constant + other.constant)

    def __rmul__(self, factor: float) -> Affine:
        return Affine({k: factor * v for k, v in self.coefficients.items()}, factor * self.constant)

    def __eq__(self, other: object) -> tuple:  # type: ignore[override]
        return (self, "==", other)

    def __le__(self, other: float) -> tuple:
        return (self, "<=", other)

    def __ge__(self, other: float) -> tuple:
        return (self, ">=", other)


class Cell:
    """A variable of the solver that an equation gives its value."""

    value = 0.0

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        self.value = float(getattr(other, "value", other))  # type: ignore[arg-type]
        return True

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: object) -> float:
        return self.value + float(getattr(other, "value", other))  # type: ignore[arg-type]

    __radd__ = __add__

    def __rmul__(self, other: float) -> float:
        return other * self.value


class LibraInputs:
    """The files of one design with one workload. folder: of the files. name: of the design."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        network = yaml.safe_load((folder / "network.yml").read_text())
        self.sizes, self.kinds, self.tiers = (network[k] for k in ("NpusCount", "Topology", "CostDimension"))
        self.costs = yaml.safe_load((folder / "cost_model.yml").read_text())
        parts = yaml.safe_load((folder / "communicator.yml").read_text())
        self.parts = [parts[k] for k in ("Forward", "InputGrad", "WeightGrad")]
        self.rows = [line.split() for line in (folder / "workload.txt").read_text().splitlines()]
        assert all(len(row) == 12 for row in self.rows)
        self.constraints: list[tuple] = []
        model = SimpleNamespace(addLConstr=self.constraints.append)
        self._run(
            "constraints.py", SimpleNamespace(_gp_model=model, _bw=[Affine({k: 1.0}) for k in range(self.count)])
        )()

    @property
    def count(self) -> int:
        return len(self.sizes)

    def _run(self, file: str, model: object):
        """The function that a module of the design defines, with stand-ins for LIBRA and Gurobi."""
        source, gurobi = ModuleType("src.model"), ModuleType("gurobipy")
        source.Model = model
        gurobi.quicksum, gurobi.LinExpr = sum, float
        gurobi.max_ = lambda cells: max(cell.value for cell in cells)
        saved = {name: sys.modules.get(name) for name in ("src", "src.model", "gurobipy")}
        sys.modules |= {"src": ModuleType("src"), "src.model": source, "gurobipy": gurobi}
        try:
            names: dict = {}
            exec((self.folder / file).read_text(), names)
        finally:
            for name, module in saved.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module
        return names[self.name]

    def unit_cost(self) -> Rates:
        """Dollars per GB/s of each dimension."""
        npus = 1
        for size in self.sizes:
            npus *= size
        found = []
        for kind, tier in zip(self.kinds, self.tiers, strict=True):
            prices = self.costs[tier]
            switched = prices.get("Switch", 0) + prices.get("Nic", 0) if kind == "Switch" else 0
            found.append(npus * (prices["Link"] + switched))
        return found

    def bytes_of(self, kind: str, size: float, parts: list[int]) -> Rates:
        """The traffic of a collective in each dimension."""
        found = [0.0] * self.count
        used = [k for k in range(self.count) if parts[k] > 0]
        for k in reversed(used) if kind == "ALLGATHER" else used:
            p = parts[k]
            if kind == "ALLGATHER":
                found[k], size = size * (p - 1), size * p
            elif kind == "ALLTOALL":
                found[k] = size * (p - 1) / p
            elif kind in ("ALLREDUCE", "REDUCESCATTER"):
                found[k], size = (2 if kind == "ALLREDUCE" else 1) * size * (p - 1) / p, size / p
        return found

    def traffic(self) -> list[list[Rates]]:
        """For each layer and phase the bytes in each dimension."""
        return [
            [self.bytes_of(row[3 + 3 * k], float(row[4 + 3 * k]), self.parts[k]) for k in range(3)] for row in self.rows
        ]

    def time(self, rates: Rates) -> float:
        """The time of an iteration in ns."""
        times = {
            (n, k): max(b / rate for b, rate in zip(sizes, rates, strict=True))
            for n, phases in enumerate(self.traffic())
            for k, sizes in enumerate(phases)
        }
        phases = ("forward", "input_grad", "weight_grad")
        layers = [
            SimpleNamespace(**{p: SimpleNamespace(compute_time=float(row[2 + 3 * k])) for k, p in enumerate(phases)})
            for row in self.rows
        ]
        gurobi = SimpleNamespace(addVar=lambda lb: Cell(), addConstr=lambda _: None)
        model = SimpleNamespace(workload=SimpleNamespace(layers=layers), coll_time=times, _gp_model=gurobi)
        total = self._run("training_loop.py", object)(model)
        return float(getattr(total, "value", total))
