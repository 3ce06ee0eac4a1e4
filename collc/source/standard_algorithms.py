"""The algorithms of the standard library for a collective, as sends between ranks or NPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from collc.base.diagnostics import SourceFile
from collc.source.elaboration.elaborate import load_program
from collc.source.standard_library import textbook_names
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Demand, Op, Standard
from collc.ten.network import Network


class StandardAlgorithms:
    """The algorithms of `std.algorithms`."""

    @staticmethod
    def names(kind: str) -> tuple[str, ...]:
        """The algorithms that implement a standard collective ("all_reduce"), in order of declaration."""
        return textbook_names(kind)

    @staticmethod
    def sends(standard: Standard, members: int, name: str, shape: Sequence[int] = ()) -> AlgorithmSends:
        """The sends of an algorithm for a standard collective. NPUs are ranks, chunks are numbered from 0.

        members: of the group. shape: of its dimensions, for an algorithm that takes one; () for none. Raises
        SourceError if the algorithm does not serve these arguments.
        """
        arguments = [f"size: {standard.size}B", f"chunks: {standard.chunks}"]
        arguments += [f"root: {standard.root}"] if standard.root >= 0 else []
        arguments += [f'op: "{standard.op.name.lower()}"'] if standard.op != Op.COPY else []
        using = f"(shape: [{', '.join(map(str, shape))}])" if shape else ""
        text = f"""
            import std.collectives
            import std.algorithms
            topology ranks {{
                npu rank[{members}]
                for i in 0..{members} if {members} > 1 {{
                    link rank[i] -> rank[(i + 1) % {members}] (bandwidth: 1GB/s, latency: 0s)
                }}
            }}
            schedule sends on ranks {{
                run {standard.kind}(ranks.npus, {", ".join(arguments)}) using {name}{using}
            }}
        """
        sends = load_program(SourceFile(f"std.algorithms.{name}", text)).schedules[0].runs[0].moves
        assert sends is not None
        return sends


def textbook_sends(network: Network, demand: Demand, number: int, name: str) -> AlgorithmSends:
    """The sends of an algorithm between the NPUs of a run of a standard collective. Raises SourceError if it does not
    fit. number: of the run.
    """
    run = demand.runs[number]
    assert run.standard is not None
    shape = hierarchical_shape(network, len(run.group)) if name == "hierarchical" else ()
    sends = StandardAlgorithms.sends(run.standard, len(run.group), name, shape)
    return sends.renumber(run.group, int(demand.first_chunk[number]))


def dimension_sizes(network: Network) -> list[int]:
    """The sizes of the dimensions of the product that a network is, or of the one array that all NPUs form.

    The fastest first; [] if they form none.
    """
    if network.axes:
        return [axis.size for axis in network.axes]
    first = network.families[0] if network.families else None
    if first is None or first.count != network.npu_count:
        return []
    order = sorted(range(len(first.shape)), key=lambda axis: first.strides[axis])
    return [first.shape[axis] for axis in order if first.shape[axis] > 1]


def hierarchical_shape(network: Network, members: int) -> list[int]:
    """The sizes of dimensions for `hierarchical` over a group of `members` NPUs; [] if it does not fit.

    It is for all NPUs of a network with two to four dimensions, of which none has failed.
    """
    shape = dimension_sizes(network)
    return shape if len(shape) in {2, 3, 4} and members == len(network.npus) == math.prod(shape) else []
