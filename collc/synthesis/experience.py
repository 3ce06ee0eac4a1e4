"""What searches of one program with several numbers of chunks learn for the next one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

MUCH_LONGER: Final = Fraction(11, 10)
"""A candidate is left out whose schedule took this multiple of the best in the last search, and came no nearer."""


@dataclass
class Experience:
    """How the candidates of `auto` did, by name: in each search if one was tried, its time by that of the best.

    None: it found no schedule. spent: the work of all searches. left: the work that they may still take; None if it is
    not counted. is_used_up: whether nothing is left.
    best: the candidate with the best schedule of the last search.
    is_last: whether the numbers are known that are worth what is left; until then, long searches are held back.
    held_back: those searches, which can go on, by what they search for.
    """

    spent: int = 0
    left: int | None = None
    is_used_up: bool = False
    best: str = ""
    is_last: bool = False
    held_back: dict[Hashable, object] = field(default_factory=dict[Hashable, object])
    _ratios: dict[str, list[Fraction | None]] = field(default_factory=dict[str, list[Fraction | None]])

    def add(self, work: int, ratios: dict[str, Fraction | None]) -> None:
        """Notes one search: its work, and the candidates that it tried."""
        self.spent += work
        for name, ratio in ratios.items():
            self._ratios.setdefault(name, []).append(ratio)

    def was_longer(self, name: str) -> bool:
        """Whether others were better in the last search that tried a candidate."""
        last = self._ratios.get(name, [None])[-1]
        return last is not None and last > 1

    def is_hopeless(self, name: str) -> bool:
        """Whether a candidate failed in the last two searches, or was far from the best and came no nearer to it.

        With more chunks some candidates come near the best that are far from it with few, so that one search does
        not decide.
        """
        known = self._ratios.get(name, [])
        if len(known) < 2:
            return False
        before, last = known[-2:]
        if last is None or before is None:
            return last is before
        return last > MUCH_LONGER and last >= before
