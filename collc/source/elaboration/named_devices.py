"""Devices of a topology that are named inside of braces: the parts of `t with { ... }` and `t without { ... }`."""

from __future__ import annotations

import numpy as np

from collc.base.wording import did_you_mean, listed, nearest
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.topology_parts import (
    MAX_NAMES,
    device_label,
    devices_of,
    index_part,
    is_present,
    member_of,
)
from collc.source.elaboration.topology_values import Topology, TopologyPart
from collc.source.elaboration.values import ListArray, Value
from collc.source.parsing.expressions import Expr, Index, Member, Name, root_of
from collc.source.problems import fail


def named_devices(
    node: Expr, base: Topology, frame: Frame, evaluator: Evaluator, what: str, before: Topology | None = None
) -> list[int]:
    """The numbers of devices, given by a name of the topology, a slice, or the number of an NPU.

    what: the part for which they stand, in messages. before: the topology from which `with` makes `base`; its NPUs are
    those of `base` too. Raises SourceError.
    """
    found = _part(node, base, frame, evaluator)
    if found is None:
        _check_known(node, base, frame, evaluator)
        value = evaluator.value(node, frame)
        if value.home is not None and value.home is not base and value.home is not before:
            same_name = value.home.name == base.name
            other = "the topology that changes here" if same_name else f"'{base.name}'"
            raise fail("E0403", f"this is an NPU of '{value.home.name}', not of {other}", node.span)
        if isinstance(value.data, ListArray) or not isinstance(value.data, int) or isinstance(value.data, bool):
            raise fail("E0211", f"{what} is an NPU or its number, not {value.type}", node.span)
        numbers = [value.data]
    else:
        value = devices_of(found, node.span) if isinstance(found, TopologyPart) else found
        data = value.data.only() if isinstance(value.data, ListArray) else value.data
        numbers = [int(number) for number in np.atleast_1d(np.asarray(data, np.int64))]
    return [_checked(number, node, base, named=found is not None) for number in numbers]


def _checked(number: int, node: Expr, base: Topology, *, named: bool) -> int:
    """The number of a device in the network, of its number among NPUs, or -1 - s of switch s."""
    count = base.network.npu_count
    if not named and not 0 <= number < count:
        raise fail("E0318", f"'{base.name}' has no NPU {number}: the NPUs are 0 .. {count - 1}", node.span)
    if not is_present(base, number):
        raise fail("E0319", f"{device_label(base, number)} was removed before", node.span)
    return number if number >= 0 else count - 1 - number


def _check_known(node: Expr, base: Topology, frame: Frame, evaluator: Evaluator) -> None:
    """Raise SourceError where a part begins with a name that neither the topology nor the program has."""
    node = root_of(node)
    if not isinstance(node, Name) or frame.find(node.name) or evaluator.topologies.topology_named(node.name):
        return
    shapes = {name: f"[{', '.join(map(str, e.shape))}]" if e.shape else "" for name, e in base.members.items()}
    close = did_you_mean(node.name, shapes)
    known = listed([name + shapes[name] for name in nearest(node.name, shapes, MAX_NAMES)])
    hint = f"{close} '{base.name}' has {known}".strip()
    raise fail("E0201", f"'{base.name}' has no part called '{node.name}'", node.span, hint=hint)


def _part(node: Expr, base: Topology, frame: Frame, evaluator: Evaluator) -> TopologyPart | Value | None:
    """The part or device with a name of the topology, None where the topology does not have the name."""
    match node:
        case Name():
            entry = base.members.get(node.name)
            return None if entry is None else TopologyPart(base, entry)
        case Member():
            inner = _part(node.base, base, frame, evaluator)
            return member_of(inner, node.member.name, node.member.span) if isinstance(inner, TopologyPart) else None
        case Index():
            inner = _part(node.base, base, frame, evaluator)
            if isinstance(inner, TopologyPart):
                return index_part(inner, evaluator.part_indices(node, frame), node.span)
            return None
        case _:
            return None
