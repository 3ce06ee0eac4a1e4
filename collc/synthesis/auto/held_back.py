"""Long searches that wait until the best number of chunks is known (`chunks: auto`)."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from collc.synthesis.experience import Experience

HELD_BACK: Final = 8
"""A search that is held back takes at most 1/HELD_BACK of the work of one number of chunks,"""

HELD_TO: Final = 4
"""or this many times the work of its first schedule."""

BEFORE_LAST: Final = Fraction(7, 8)
"""Until the best number is known, all searches take at most such a share of their work."""


class HeldBackSearches:
    """Which searches for one number of chunks are held back, and after how much work.

    any_held: whether one was. goes_on: whether the best number is known, so that searches go on to their ends.
    """

    def __init__(self, experience: Experience | None, most: int, limited_in_time: bool) -> None:
        """most: work of one number of chunks. limited_in_time: nothing is held back then."""
        self.any_held = self.goes_on = False
        self._experience = experience
        self._holds = experience is not None and not experience.is_last and not limited_in_time
        self._most = most // HELD_BACK
        self._first_work: dict[str, int] = {}

    def go_on(self) -> None:
        """Holds nothing back any more."""
        self._holds, self.any_held, self.goes_on = False, False, True

    def add_first(self, name: str, work: int) -> None:
        """Notes the work of the first schedule of a candidate."""
        self._first_work.setdefault(name, work)

    def may_begin(self, name: str, work: int) -> bool:
        """Whether a candidate was the best with the last number of chunks, and takes little work."""
        return self._experience is not None and self._experience.best == name and work <= self._most

    def limit(self, name: str, spent: int, limit: int) -> int:
        """The work with which the search of a candidate may go on; 0: none for now.

        spent: its work so far. limit: what it may take if it is not held back.
        """
        if not self._holds:
            return limit
        held = min(limit, max(self._most, HELD_TO * self._first_work[name]))
        if spent < held and not (self._experience is not None and self._experience.was_longer(name)):
            return held
        self.any_held = True
        return 0
