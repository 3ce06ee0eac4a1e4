"""A training workload and a design problem, as plain values (LIBRA, sections III and IV)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

PHASES = ("forward", "input_gradient", "weight_gradient")
GROUPS = ("tensor", "data")
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
TIERS = ("inter_chiplet", "inter_package", "inter_node", "inter_pod")


@dataclass(frozen=True, slots=True)
class LayerTraffic:
    """A collective of a layer: one of PHASES, GROUPS and KINDS, and its size in bytes.

    The size is that of the collective in the language, except that all_gather has the size of one NPU's shard.
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
class Workload:
    """A model in training on tensor x data NPUs. loop: "no_overlap" or "tp_dp_overlap"."""

    name: str
    tensor: int
    data: int
    loop: str
    layers: tuple[TrainingLayer, ...]


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
