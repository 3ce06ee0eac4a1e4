"""Symbolic values: the multiset of contributions (rank, input chunk) in a slot.

Equal values have equal numbers, so that results are compared by their numbers. The ranks of one input chunk are a bit
set (a Python integer), so that a sum over 1024 ranks is one number for each chunk.
"""

from __future__ import annotations

from typing import Final

from collc.msccl.check.collectives import Contribution

UNDEFINED: Final = 0
ChunkRanks = tuple[int, int]
"""(input chunk, bit set of ranks)."""
ValueParts = tuple[tuple[ChunkRanks, ...], tuple[ChunkRanks, ...]]
"""The contributions with multiplicity 1 or more, and those with 2 or more; each sorted by chunk."""


class SymbolicValues:
    """Numbers of values: 0 is undefined data, then the inputs by rank and chunk, then sums in order of appearance."""

    def __init__(self, ranks: int, width: int) -> None:
        """Inputs of `ranks` ranks with up to `width` chunks each."""
        self.width: int = width
        self.base: int = 1 + ranks * width
        self.sums: list[ValueParts] = []
        self.numbers: dict[ValueParts, int] = {}
        self.memo: dict[tuple[int, int], int] = {}

    def input(self, rank: int, chunk: int) -> int:
        """The number of an input chunk of a rank."""
        return 1 + rank * self.width + chunk

    def parts(self, value: int) -> ValueParts:
        """The contributions in a defined value."""
        if value >= self.base:
            return self.sums[value - self.base]
        rank, chunk = divmod(value - 1, self.width)
        return ((chunk, 1 << rank),), ()

    def add(self, a: int, b: int) -> int:
        """The sum of two values; undefined if one of them is."""
        if UNDEFINED in (a, b):
            return UNDEFINED
        key = (a, b) if a < b else (b, a)
        known = self.memo.get(key)
        if known is None:
            known = self.memo[key] = self.number(_merge(self.parts(a), self.parts(b)))
        return known

    def number(self, parts: ValueParts) -> int:
        """The number of a value given by its parts."""
        once, more = parts
        if not more and len(once) == 1 and once[0][1].bit_count() == 1:
            return self.input(once[0][1].bit_length() - 1, once[0][0])
        known = self.numbers.get(parts)
        if known is None:
            known = self.numbers[parts] = self.base + len(self.sums)
            self.sums.append(parts)
        return known

    def sum_of(self, contributions: frozenset[Contribution]) -> int:
        """The number of the sum of contributions, each once."""
        masks: dict[int, int] = {}
        for rank, chunk in contributions:
            masks[chunk] = masks.get(chunk, 0) | 1 << rank
        return self.number((tuple(sorted(masks.items())), ()))

    def describe(self, value: int) -> str:
        """A value, for messages."""
        if value == UNDEFINED:
            return "undefined data"
        once, more = self.parts(value)
        texts = [_text_of(chunk, mask) for chunk, mask in once[:3]] + ["..."] * (len(once) > 3)
        doubled = [f"{_text_of(chunk, mask)} more than once" for chunk, mask in more[:3]]
        return ", ".join(texts + doubled)

    def difference(self, value: int, wanted: int) -> str:
        """What is missing, foreign and doubled in a value, compared with the wanted one, for messages."""
        if UNDEFINED in (value, wanted):
            return ""
        once, more = self.parts(value)
        want, have = dict(self.parts(wanted)[0]), dict(once)
        differences = {
            "missing": [(chunk, mask & ~have.get(chunk, 0)) for chunk, mask in want.items()],
            "foreign": [(chunk, mask & ~want.get(chunk, 0)) for chunk, mask in once],
            "counted more than once": list(more),
        }
        texts = {name: [_text_of(*part) for part in parts if part[1]] for name, parts in differences.items()}
        return "; ".join(f"{name}: {', '.join(shown[:3])}" for name, shown in texts.items() if shown)


def _text_of(chunk: int, mask: int) -> str:
    ranks = [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
    shown = ", ".join(str(rank) for rank in ranks[:6]) + (" ..." if len(ranks) > 6 else "")
    return f"input chunk {chunk} of rank{'s' if len(ranks) > 1 else ''} {shown}"


def _merge(a: ValueParts, b: ValueParts) -> ValueParts:
    """Add two multisets of contributions."""
    (once_a, more_a), (once_b, more_b) = a, b
    if len(once_a) == 1 == len(once_b) and not more_a and not more_b:
        (chunk_a, mask_a), (chunk_b, mask_b) = once_a[0], once_b[0]
        if chunk_a == chunk_b:
            both = mask_a & mask_b
            return ((chunk_a, mask_a | mask_b),), ((chunk_a, both),) if both else ()
    once, more = dict(once_a), dict(more_a)
    for chunk, mask in once_b:
        both = once.get(chunk, 0) & mask
        if both:
            more[chunk] = more.get(chunk, 0) | both
        once[chunk] = once.get(chunk, 0) | mask
    for chunk, mask in more_b:
        more[chunk] = more.get(chunk, 0) | mask
    return tuple(sorted(once.items())), tuple(sorted(more.items()))
