"""The runs of a schedule without the parts that its `failures` name: groups lose members, and sizes follow.

Each block keeps its size, as in an All-Gather of fewer members. Only the buffer of an All-Reduce belongs to all: it
keeps its size as nearly as the number of members that are left divides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from collc.base.diagnostics import Span
from collc.source.elaboration.containers import flatten_lists, from_sorted_pairs
from collc.source.elaboration.evaluate import NotVectorised
from collc.source.elaboration.file_context import GivenArgument
from collc.source.elaboration.values import Value, npu_numbers
from collc.source.problems import fail
from collc.source.types import BYTES, GROUP, INT, NPU
from collc.ten.network import Network
from collc.ten.standard_collectives import CollectiveShape, shapes


def surviving_arguments(
    given: Mapping[str, GivenArgument], name: str, left: Network, span: Span, chunks: int
) -> dict[str, GivenArgument] | None:
    """The arguments of a collective, with the members that are left; None if there are fewer than two.

    name: of a standard collective, else "". left: the network without its lost parts. chunks: per block, as the program
    says. Raises SourceError if an NPU that is named alone is lost, NotVectorised if groups that differ
    between iterations lose members.
    """
    present, kept = left.present, dict(given)
    for key, argument in given.items():
        value = argument.value
        if value.type == NPU and not value.varies and value.data >= 0 and not present[value.data]:
            raise fail("E0615", f"{left.shown_name(value.data)} is lost, which '{key}' names", argument.span)
        if value.type != GROUP:
            continue
        row, members = flatten_lists(value.data)
        alive = present[members]
        if alive.all():
            continue
        if value.varies:
            raise NotVectorised
        kept[key] = replace(argument, value=replace(value, data=from_sorted_pairs(row[alive], members[alive], 1, True)))
        if alive.sum() < 2:
            return None
        shape = shapes().get(name)
        if shape is not None:
            _follow_group(kept, shape, (value, kept[key].value), span, chunks)
    return kept


def _follow_group(
    given: dict[str, GivenArgument], shape: CollectiveShape, groups: tuple[Value, Value], span: Span, chunks: int
) -> None:
    """Change the size and the root of a standard collective whose group has lost members. Raises SourceError."""
    before, after = (npu_numbers(group).tolist() for group in groups)
    if not shape.by_rule:
        message = f"{shape.name} names members by their ranks, and some of them are lost"
        raise fail("E0615", message, span)
    if shape.has_root:
        root = before[given["root"].value.data if "root" in given else 0]
        if root not in after:
            raise fail("E0615", f"the root of {shape.name} is lost", span)
        given["root"] = GivenArgument(Value(INT, after.index(root)), span)
    size = given["size"].value.data
    if shape.divides_size and shape.phases == 2:
        given["size"] = replace(given["size"], value=Value(BYTES, _nearest_size(size, len(after) * chunks)))
    elif shape.divides_size and size % len(before) == 0:
        given["size"] = replace(given["size"], value=Value(BYTES, size // len(before) * len(after)))


def _nearest_size(size: int, unit: int) -> int:
    """The multiple of a unit that is nearest to a size, in bytes.

    It is also a multiple of 256 chunks of 16 bytes, or of fewer, if this changes the size by half a percent at most.
    """
    unit *= next((more for more in (4096, 256, 16) if unit * more <= size // 100), 1)
    return max(1, (size + unit // 2) // unit) * unit
