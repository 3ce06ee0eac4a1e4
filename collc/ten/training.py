"""A training workload and a design problem, as plain values (LIBRA, sections III and IV)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

PHASES = ("forward", "input_gradient", "weight_gradient")
GROUPS = ("tensor", "data")
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
TIERS = ("inter_chiplet", "inter_package", "inter_node", "inter_pod")
LOOP_TIMES = tuple(f"{phase}_{what}" for phase in PHASES for what in ("compute", "communication"))
"""The times of a layer that a training loop combines."""


@dataclass(frozen=True, slots=True)
class LayerTraffic:
    """A collective of a layer: one of PHASES, GROUPS and KINDS, and its size in bytes.

    The size is that of the collective in the language, except that all_gather has the size of one NPU's shard.
    send_recv sends it to the next NPU in the last dimension of the group.
    """

    phase: str
    group: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class TrainingLayer:
    """A layer: picoseconds of compute in each of PHASES, and its collectives."""

    name: str
    times: tuple[Fraction, Fraction, Fraction]
    traffic: tuple[LayerTraffic, ...]


@dataclass(frozen=True, slots=True)
class LoopNode:
    """A training loop, or a part of it: how the times of layers add up to the time of an iteration.

    operation: "time" (the one of LOOP_TIMES that is called `name`, of one layer), "add" and "max" (of `parts`), "scale"
    (the only part, `factor` times) or "sum" (of the only part, over all layers).
    """

    operation: str
    parts: tuple[LoopNode, ...] = ()
    name: str = ""
    factor: Fraction = Fraction(1)


_TIMES = {name: LoopNode("time", name=name) for name in LOOP_TIMES}

LOOPS = {
    "no_overlap": LoopNode("add", tuple(_TIMES.values())),
    "tp_dp_overlap": LoopNode(
        "add",
        (
            _TIMES["forward_compute"],
            _TIMES["forward_communication"],
            _TIMES["input_gradient_compute"],
            LoopNode(
                "max",
                (
                    _TIMES["input_gradient_communication"],
                    LoopNode("add", (_TIMES["weight_gradient_compute"], _TIMES["weight_gradient_communication"])),
                ),
            ),
        ),
    ),
}
"""The training loops with names. tp_dp_overlap: in the backward pass of each layer, the gradients of the weights are
computed and reduced (data parallel) while those of the inputs are reduced (tensor parallel)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A model in training on tensor x data NPUs."""

    name: str
    tensor: int
    data: int
    loop: LoopNode
    layers: tuple[TrainingLayer, ...]


def group_parts(sizes: Sequence[int], tensor: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """How many NPUs the tensor group and the data group have along each dimension; None if they do not fit.

    The tensor group takes the leading dimensions, the last of them perhaps in part, and the data group has the rest.
    """
    parts: list[int] = []
    for size in sizes:
        part = size if tensor % size == 0 else tensor
        if size % part:
            return None
        parts.append(part)
        tensor //= part
    if tensor > 1:
        return None
    return tuple(parts), tuple(size // part for size, part in zip(sizes, parts, strict=True))


@dataclass(frozen=True, slots=True)
class PartCosts:
    """Dollars per GB/s of a link, a switch port and a NIC; a tier without NICs has 0 for them."""

    link: Fraction = Fraction(0)
    switch: Fraction = Fraction(0)
    nic: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Linear:
    """sum of bandwidth[i] * bandwidths[i] + cost * the cost + constant; bytes per second and dollars."""

    bandwidth: tuple[Fraction, ...]
    cost: Fraction
    constant: Fraction


@dataclass(frozen=True, slots=True)
class Constraint:
    """`expression operator 0`, the operator one of `<=`, `==`, `>=`."""

    expression: Linear
    operator: str
