"""The algorithms of the standard library for a collective, as sends between ranks."""

from __future__ import annotations

from collections.abc import Sequence

from collc.base.diagnostics import SourceFile
from collc.source.elaboration.elaborate import load_program
from collc.source.standard_library import textbook_names
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Op, Standard


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
