"""The files that LIBRA itself reads (github.com/astra-sim/libra, folder `inputs`): YAML, text, and two Python modules."""

from __future__ import annotations

import keyword
from typing import Final

from collc.emit.libra.linear_programs import rows_in_words
from collc.emit.libra.model import LibraModel
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


def obstacle(model: LibraModel) -> str | None:
    """Why LIBRA cannot read the design; None where it can."""
    if len(model.workloads) != 1:
        return "it takes one workload"
    for dimension in model.dimensions:
        if dimension.kind not in KINDS:
            return f"it has no '{dimension.kind}' dimensions"
        if dimension.reduces:
            return "its switches do not reduce"
    workload = model.workloads[0]
    for layer in workload.layers:
        for item in layer.traffic:
            if item.kind not in COLLECTIVES:
                return f"it has no {item.kind}"
    for phase in PHASES:
        if len(_groups_of(workload, phase)) > 1:
            return f"all collectives of the phase {phase} must have one group"
    if not workload.name.isidentifier() or keyword.iskeyword(model.name):
        return f"'{model.name}' is no name in Python"
    return None


def input_files(model: LibraModel) -> dict[str, str]:
    """The files by name. The model has no `obstacle`."""
    workload = model.workloads[0]
    return {
        "network.yml": network_text(model),
        "communicator.yml": communicator_text(model, workload),
        "cost_model.yml": cost_text(model),
        "workload.txt": workload_text(workload),
        "constraints.py": constraints_text(model),
        "training_loop.py": loop_text(model, workload.loop),
    }


def network_text(model: LibraModel) -> str:
    """network.yml: kinds, sizes and tiers of the dimensions."""
    rows = (
        ("Topology", [KINDS[d.kind] for d in model.dimensions]),
        ("NpusCount", [str(d.size) for d in model.dimensions]),
        ("CostDimension", [TIERS[d.tier] for d in model.dimensions]),
    )
    return "".join(f"{name}: [ {', '.join(values)} ]\n" for name, values in rows)


def cost_text(model: LibraModel) -> str:
    """cost_model.yml: dollars per GB/s of the parts of each tier."""
    lines: list[str] = []
    for tier in dict.fromkeys(d.tier for d in model.dimensions):
        parts = model.prices[tier]
        lines.append(f"{TIERS[tier]}:")
        for name, price in (("Link", parts.link), ("Switch", parts.switch), ("Nic", parts.nic)):
            if price:
                lines.append(f"  {name}: {float(price):.12g}")
    return "\n".join([*lines, ""])


def _groups_of(workload: Workload, phase: str) -> list[str]:
    found = {item.group for layer in workload.layers for item in layer.traffic if item.phase == phase}
    return sorted(found)


def communicator_text(model: LibraModel, workload: Workload) -> str:
    """communicator.yml: how many NPUs of each dimension communicate in each phase; -1 for none but the NPU itself."""
    parts = group_parts([d.size for d in model.dimensions], workload.tensor)
    assert parts is not None
    lines = [f"# {workload.name}: tensor {workload.tensor}, data {workload.data}"]
    for phase in PHASES:
        default = "data" if phase == "weight_gradient" else "tensor"
        group = (_groups_of(workload, phase) or [default])[0]
        own = parts[GROUPS.index(group)]
        lines.append(f"{PHASE_NAMES[phase]}: [ {', '.join(str(part if part > 1 else -1) for part in own)} ]")
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
                columns += [f"{float(time):.15g}", kind, str(size)]
            lines.append(" ".join([*columns, "0"]))
    return "\n".join([*lines, ""])


def _collectives(layer: TrainingLayer, phase: str) -> list[LayerTraffic]:
    return [item for item in layer.traffic if item.phase == phase]


def constraints_text(model: LibraModel) -> str:
    """constraints.py: the linear constraints, for `inputs/constraints` of LIBRA."""
    lines = [f'"""Constraints of the design {model.name}; bandwidths in GB/s."""', "", "from src.model import Model", "", ""]
    lines += [f"def {model.name}() -> None:", f'    """Add the constraints of {model.name} to the model."""']
    lines += ["    model, bw = Model._gp_model, Model._bw"] if model.rows else []
    lines += [f"    model.addLConstr({words})" for words in rows_in_words(model)]
    return "\n".join([*lines, ""])


def loop_text(model: LibraModel, loop: LoopNode) -> str:
    """training_loop.py: the time of an iteration, for `inputs/training_loop` of LIBRA."""
    writer = _LoopWriter()
    total = writer.total(loop)
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
    if model.deadline is not None:
        lines.append(f"    model._gp_model.addConstr(total <= {float(model.deadline):.15g})")
    return "\n".join([*lines, "    return total", ""])


class _LoopWriter:
    """A training loop as Python over LIBRA's layers."""

    def total(self, node: LoopNode) -> str:
        """A loop over all layers."""
        if node.operation == "sum":
            return self.total(node.parts[0])
        if not _has_sum(node):
            return f"gp.quicksum({self.layer(node)} for n, layer in layers)"
        return self.combined(node, [self.total(part) for part in node.parts])

    def layer(self, node: LoopNode) -> str:
        """A loop of one layer."""
        if node.operation != "time":
            return self.combined(node, [self.layer(part) for part in node.parts])
        phase, _, what = node.name.rpartition("_")
        if what == "compute":
            return f"layer.{ATTRIBUTES[phase]}.compute_time"
        return f"model.coll_time[n, {PHASES.index(phase)}]"

    def combined(self, node: LoopNode, parts: list[str]) -> str:
        """A sum, a maximum or a multiple."""
        if node.operation == "max":
            return f"largest([{', '.join(parts)}])"
        if node.operation == "scale":
            return f"{float(node.factor):.15g} * ({parts[0]})"
        return f"({' + '.join(parts)})"


def _has_sum(node: LoopNode) -> bool:
    return node.operation == "sum" or any(_has_sum(part) for part in node.parts)

