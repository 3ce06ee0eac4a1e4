"""The standard collectives as records, which are read from their declarations in stdlib/collectives.coll.

Every part of collc that treats a collective by its name asks its record, so a new one needs nothing but a declaration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from collc.base.resources import standard_library

Holders = Literal["all", "block", "root", "sender", "receiver", "one", "some"]
"""Members that hold a chunk: all of the group, the member of its block, the root, of All-to-All's blocks (i, j) member
i or j, any one, or any."""


@dataclass(frozen=True, slots=True)
class CollectiveShape:
    """What a standard collective moves over a group of n members.

    indices: how many indices of a chunk are ranks: 0 for one block, 1 for a block of each member, 2 for a block from
    each member to each. start, end: the members that hold a block. reduces: whether the members at the start have
    contributions to a reduction, not copies. equal: whether `size` makes up all blocks, in equal chunks. divides_size:
    whether `size` is divided among the members; else it is the size of one block.
    """

    name: str
    indices: int
    start: Holders
    end: Holders
    reduces: bool
    equal: bool
    divides_size: bool

    @property
    def has_root(self) -> bool:
        """Whether one member is its root, or its source."""
        return "root" in (self.start, self.end)

    @property
    def pairs(self) -> bool:
        """Whether each block goes from a member to a member, as in All-to-All."""
        return self.equal and self.start == "sender"

    @property
    def phases(self) -> int:
        """In how many ways each chunk crosses links of all members but one: 2 in All-Reduce, which reduces and gathers,
        1 in All-Gather, Reduce-Scatter, broadcast and reduce, 0 in all others.
        """
        return (self.start, self.end).count("all")

    @property
    def by_rule(self) -> bool:
        """Whether its arguments `size`, `chunks` and `root` say which member holds which chunk."""
        return self.equal and not {self.start, self.end} & {"one", "some"}

    @property
    def without_root(self) -> bool:
        """Whether it moves equal chunks between all members alike, as All-Gather and All-to-All do."""
        return self.by_rule and not self.has_root

    @property
    def inverse(self) -> str:
        """The collective of copies that its reductions become backwards: All-Gather of Reduce-Scatter."""
        ends = ("block" if self.end == "all" else self.end, "all")
        return next((s.name for s in shapes().values() if (s.start, s.end) == ends and not s.reduces), self.name)

    def blocks(self, members: int) -> int:
        """The number of its blocks."""
        return members**self.indices

    def parts(self, members: int) -> int:
        """The number of blocks that `size` consists of."""
        return members if self.divides_size else 1

    def ranks(self, holders: Holders, block: int, members: int, root: int) -> list[int]:
        """The ranks that `holders` means for a block. Raises KeyError for "one" and "some"."""
        if holders == "all":
            return list(range(members))
        return [{"block": block, "root": root, "sender": block // members, "receiver": block % members}[holders]]


_DECLARATION: Final = re.compile(
    r"^collective (?P<name>\w+)\((?P<parameters>[^)]*)\) \{\s*for (?P<loops>.*?) \{\s*chunk [^:]*: (?P<size>.*)\n"
    r"\s*pre +[^@\n]*? at (?P<pre>.*)\n\s*post (?P<reduced>reduce\()?[^@\n]*? at (?P<post>.*)\n",
    re.MULTILINE,
)


@cache
def shapes() -> Mapping[str, CollectiveShape]:
    """The standard collectives by name, in the order of their declarations."""
    text = standard_library()["collectives"].read_text(encoding="utf-8")
    return {match["name"]: _shape(match) for match in _DECLARATION.finditer(text)}


def _shape(declaration: re.Match[str]) -> CollectiveShape:
    variables = re.findall(r"(\w+) in 0\.\.len\(g\)", declaration["loops"])
    roots = re.findall(r"(\w+): int = \d", declaration["parameters"].replace("chunks: int = 1", ""))
    ranks = [f"g[{variable}]" for variable in variables]
    holders: dict[str, Holders] = {"g": "all", **{f"g[{root}]": "one" for root in roots[1:]}}
    holders |= {f"g[{root}]": "root" for root in roots[:1]}
    holders |= {ranks[0]: "sender", ranks[1]: "receiver"} if len(ranks) == 2 else dict.fromkeys(ranks, "block")
    return CollectiveShape(
        declaration["name"],
        len(variables),
        holders.get(declaration["pre"], "some"),
        holders.get(declaration["post"], "some"),
        reduces=declaration["reduced"] is not None,
        equal=declaration["size"].startswith("size / "),
        divides_size=declaration["size"].startswith("size / (len(g)"),
    )
