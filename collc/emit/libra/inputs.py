"""The files that LIBRA itself reads (github.com/astra-sim/libra, folder `inputs`): YAML, text and Python modules."""

from __future__ import annotations

import keyword
from fractions import Fraction
from typing import Final

from collc.design.training_time import has_sum
from collc.emit.libra.solver_files import LibraModel, TrainedTime, json_text, lp_text, mps_text, smt_text
from collc.ten.training import GROUPS, PHASES, LayerTraffic, LoopNode, TrainingLayer, Workload, group_parts

KINDS: Final = {"ring": "Ring", "fully_connected": "FullyConnected", "switched": "Switch"}
TIERS: Final = {
    "inter_chiplet": "InterChiplet",
    "inter_package": "InterPackage",
    "inter_node": "InterNode",
    "inter_pod": "InterPod",
}
COLLECTIVES: Final = {
    "all_reduce": "ALLREDUCE",
    "all_gather": "ALLGATHER",
    "reduce_scatter": "REDUCESCATTER",
    "all_to_all": "ALLTOALL",
}
PHASE_NAMES: Final = {"forward": "Forward", "input_gradient": "InputGrad", "weight_gradient": "WeightGrad"}
ATTRIBUTES: Final = {"forward": "forward", "input_gradient": "input_grad", "weight_gradient": "weight_grad"}
"""Names of the phases in communicator.yml, and in LIBRA's layers."""


def libra_files(model: LibraModel) -> dict[str, str]:
    """The texts of all files by their names in the folder; without LIBRA's own inputs if it cannot read them."""
    name = model.name
    files = {
        f"{name}.libra.json": json_text(model),
        f"{name}.lp": lp_text(model),
        f"{name}_deadline.mps": mps_text(model),
        f"{name}.smt2": smt_text(model),
    }
    if obstacle(model) is None:
        files |= {f"{name}/{file}": text for file, text in input_files(model).items()}
    return files


def obstacle(model: LibraModel) -> str | None:
    """Why LIBRA cannot read the design; None if it can."""
    if not model.trained:
        return "it takes workloads, not the traffic of a schedule"
    for dimension in model.dimensions:
        if dimension.kind not in KINDS:
            return f"it has no dimensions of kind '{dimension.kind}'"
        if dimension.reduces:
            return "its switches do not reduce"
    if keyword.iskeyword(model.name):
        return f"'{model.name}' is a keyword of Python"
    for training in model.trained:
        kinds = {item.kind for layer in training.workload.layers for item in layer.traffic} - COLLECTIVES.keys()
        if kinds:
            return f"it has no {min(kinds)}, as in '{training.workload.name}'"
        mixed = [phase for phase in PHASES if len(_groups_of(training.workload, phase)) > 1]
        if mixed:
            return f"a phase has collectives of one group only, unlike {mixed[0]} in '{training.workload.name}'"
    return None


def input_files(model: LibraModel) -> dict[str, str]:
    """The files by name; if there are several workloads, some for each. The model has no `obstacle`."""
    lines: list[str] = []  # dollars per GB/s of the parts of each tier
    for tier in dict.fromkeys(d.tier for d in model.dimensions):
        parts = model.prices[tier]
        prices = (("Link", parts.link), ("Switch", parts.switch), ("Nic", parts.nic))
        lines += [f"{TIERS[tier]}:", *(f"  {name}: {_float(price)}" for name, price in prices if price)]
    files = {
        "network.yml": network_text(model),
        "cost_model.yml": "\n".join([*lines, ""]),
        "constraints.py": constraints_text(model),
    }
    for training in model.trained:
        suffix = f"_{training.workload.name}" if len(model.trained) > 1 else ""
        files[f"communicator{suffix}.yml"] = communicator_text(model, training.workload)
        files[f"workload{suffix}.txt"] = workload_text(training.workload)
        files[f"training_loop{suffix}.py"] = loop_text(model, training)
    return files


def network_text(model: LibraModel) -> str:
    """network.yml: kinds, sizes and tiers of the dimensions."""
    rows = (
        ("Topology", [KINDS[d.kind] for d in model.dimensions]),
        ("NpusCount", [str(d.size) for d in model.dimensions]),
        ("CostDimension", [TIERS[d.tier] for d in model.dimensions]),
    )
    return "".join(f"{name}: [ {', '.join(values)} ]\n" for name, values in rows)


def _groups_of(workload: Workload, phase: str) -> list[str]:
    groups = {item.group for layer in workload.layers for item in layer.traffic if item.phase == phase}
    return sorted(groups)


def communicator_text(model: LibraModel, workload: Workload) -> str:
    """communicator.yml: how many NPUs of each dimension communicate in each phase; -1 for none but the NPU itself."""
    parts = group_parts([d.size for d in model.dimensions], workload.tensor)
    assert parts is not None
    lines = [f"# {workload.name}: tensor {workload.tensor}, data {workload.data}"]
    for phase in PHASES:
        default = "data" if phase == "weight_gradient" else "tensor"
        group = (_groups_of(workload, phase) or [default])[0]
        own = parts[GROUPS.index(group)]
        lines.append(f"{PHASE_NAMES[phase]}: [ {', '.join(str(size if size > 1 else -1) for size in own)} ]")
    return "\n".join([*lines, ""])


def workload_text(workload: Workload) -> str:
    """workload.txt: a row of 12 columns for each layer; further collectives of a phase get rows without compute."""
    lines: list[str] = []
    for number, layer in enumerate(workload.layers):
        rows = max(1, *(len(_collectives(layer, phase)) for phase in PHASES))
        for row in range(rows):
            columns = [f"{layer.name}_{number}" + (f"_{row}" if row else ""), "-1"]
            for k, phase in enumerate(PHASES):
                own = _collectives(layer, phase)
                kind, size = (COLLECTIVES[own[row].kind], own[row].size) if row < len(own) else ("NONE", 0)
                time = layer.times[k] / 1000 if row == 0 else 0
                columns += [_float(Fraction(time)), kind, str(size)]
            lines.append(" ".join([*columns, "0"]))
    return "\n".join([*lines, ""])


def _collectives(layer: TrainingLayer, phase: str) -> list[LayerTraffic]:
    return [item for item in layer.traffic if item.phase == phase]


def constraints_text(model: LibraModel) -> str:
    """The module with the linear constraints, for `inputs/constraints` of LIBRA."""
    lines = [
        f'"""Constraints of the design {model.name}; bandwidths in GB/s."""',
        "",
        "from src.model import Model",
        "",
        "",
    ]
    lines += [f"def {model.name}() -> None:", f'    """Add the constraints of {model.name} to the model."""']
    lines += ["    model, bw = Model._gp_model, Model._bw"] if model.rows else []
    for row in model.rows:
        left = " + ".join(f"{_float(value)} * bw[{k}]" for k, value in enumerate(row.coefficients) if value)
        lines.append(f"    model.addLConstr({left} {row.operator} {_float(row.limit)})")
    return "\n".join([*lines, ""])


def loop_text(model: LibraModel, trained: TrainedTime) -> str:
    """The module with the weighted time of an iteration, for `inputs/training_loop` of LIBRA."""
    total = _total(trained.workload.loop)
    if trained.weight != 1:
        total = f"{_float(trained.weight)} * ({total})"
    lines = [
        f'"""Training loop of the design {model.name}; times in ns."""',
        "",
        "import gurobipy as gp",
        "",
        "from src.model import Model",
        "",
        "",
        f"def {model.name}(model: Model) -> gp.LinExpr:",
        '    """The time of one training iteration."""',
        "",
        "    def largest(options):",
        "        values = []",
        "        for option in options:",
        "            values.append(model._gp_model.addVar(lb=0))",
        "            model._gp_model.addConstr(values[-1] == option)",
        "        found = model._gp_model.addVar(lb=0)",
        "        model._gp_model.addConstr(found == gp.max_(values))",
        "        return found",
        "",
        "    layers = list(enumerate(model.workload.layers))",
        f"    total = {total}",
    ]
    if model.deadline is not None and len(model.trained) == 1:
        lines.append(f"    model._gp_model.addConstr(total <= {_float(model.deadline)})")
    return "\n".join([*lines, "    return total", ""])


def _total(node: LoopNode) -> str:
    """A loop over all of LIBRA's layers, as Python."""
    if node.operation == "sum":
        return _total(node.parts[0])
    if not has_sum(node):
        return f"gp.quicksum({_layer(node)} for n, layer in layers)"
    return _combine(node, [_total(child) for child in node.parts])


def _layer(node: LoopNode) -> str:
    """A loop of one layer."""
    if node.operation != "time":
        return _combine(node, [_layer(child) for child in node.parts])
    phase, _, what = node.name.rpartition("_")
    compute = what == "compute"
    return f"layer.{ATTRIBUTES[phase]}.compute_time" if compute else f"model.coll_time[n, {PHASES.index(phase)}]"


def _combine(node: LoopNode, parts: list[str]) -> str:
    """A sum, a maximum or a multiple."""
    if node.operation == "max":
        return f"largest([{', '.join(parts)}])"
    return f"{_float(node.factor)} * ({parts[0]})" if node.operation == "scale" else f"({' + '.join(parts)})"


def _float(value: Fraction) -> str:
    return repr(float(value)).removesuffix(".0")
