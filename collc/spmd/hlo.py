"""Reading the optimised HLO of a function back: whether what XLA moves is what a schedule moves."""

from __future__ import annotations

import re
from math import prod
from typing import Final, NamedTuple

from collc.spmd.permutations import Plan

_INSTRUCTION: Final = re.compile(r"\s*(?:ROOT )?%(\S+) = (.*)")
_PERMUTE: Final = re.compile(r"\w+\[([\d,]*)\].* collective-permute(?:-start)?\(.*source_target_pairs=\{([\d,{}]*)\}")
_PAIR: Final = re.compile(r"\{(\d+),(\d+)\}")


class _Permute(NamedTuple):
    """pairs: sender and receiver. size: rows or elements of what one moves. depth: the most permutations one after the
    other that end with it.
    """

    pairs: tuple[tuple[int, int], ...]
    size: int
    depth: int


def check_permutes(text: str, plan: Plan) -> int:
    """Check the HLO of a function that executes a plan once. Returns the number of permutations.

    Raises ValueError if it has other permutations, if they move other numbers of rows, or if one waits for more others
    than its round has before it.
    """
    levels = [level.permutations for level in plan.levels if level.permutations]
    wanted = sorted(
        _Permute(permutation.pairs, permutation.length, depth)
        for depth, level in enumerate(levels, 1)
        for permutation in level
    )
    moves = sorted(_permutes(text))
    if len(moves) != len(wanted):
        raise ValueError(f"the HLO has {len(moves)} collective-permutes, the schedule {len(wanted)} permutations")
    row = sum(own.size for own in moves) / max(1, sum(own.size for own in wanted))
    for own, other in zip(moves, wanted, strict=True):
        if own.pairs != other.pairs:
            raise ValueError(f"a collective-permute of the HLO differs from the schedule: {own.pairs}, {other.pairs}")
        if own.size != other.size * row:
            raise ValueError(f"{own.size} elements move by {own.pairs}, not {other.size} rows of {row:g}")
        if own.depth > other.depth:
            raise ValueError(f"{own.depth - 1} permutations come before {own.pairs}, of round {other.depth}")
    return len(moves)


def _permutes(text: str) -> list[_Permute]:
    """The permutations of the HLO, in which instructions come after their operands."""
    depth: dict[str, int] = {}
    moves: list[_Permute] = []
    for line in text.splitlines():
        instruction = _INSTRUCTION.match(line)
        if instruction is None:
            continue
        name, rest = instruction.groups()
        depth[name] = max((depth.get(other, 0) for other in re.findall(r"%([\w.-]+)", rest)), default=0)
        permute = _PERMUTE.match(rest.lstrip("("))
        if permute is not None:
            depth[name] += 1
            pairs = sorted((int(a), int(b)) for a, b in _PAIR.findall(permute[2]))
            moves.append(_Permute(tuple(pairs), prod(int(d) for d in permute[1].split(",") if d), depth[name]))
    return moves
