"""Host lists as Slurm and ClusterShell write them: `node[01-16,20]` stands for node01 to node16 and node20."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def expanded_hosts(text: str, most: int) -> list[str]:
    """The names of a host list without commas outside of brackets.

    Raises ValueError for a list that cannot be read, OverflowError for more than `most` names.
    """
    match = re.match(r"([^\[\]]*)\[([^\[\]]*)\](.*)", text)
    if match is None and most < 1:
        raise OverflowError("1 host more")
    if match is None:
        if "[" in text or "]" in text:
            raise ValueError(f"'{text[:60]}' is not a list of hosts")
        return [text]
    head, ranges, rest = match.groups()
    middle: list[str] = []
    for entry in ranges.split(","):
        numbers = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", entry.strip())
        if numbers is None or int(numbers[2] or numbers[1]) < int(numbers[1]):
            raise ValueError(f"'{entry[:40]}' is not a range of hosts")
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if len(middle) + last - first >= most:
            raise OverflowError(f"{len(middle) + last - first + 1:,} hosts in one list")
        middle += [str(number).zfill(len(numbers[1])) for number in range(first, last + 1)]
    tails = expanded_hosts(rest, most) if rest else [""]
    if len(middle) * len(tails) > most:
        raise OverflowError(f"{len(middle) * len(tails):,} hosts in one list")
    return [head + number + tail for number in middle for tail in tails]


def is_host_range(text: str) -> bool:
    """Whether a name stands for several: it has brackets with a range or a list of numbers."""
    return re.search(r"\[\d+\s*[-,][\d\s,-]*\]", text) is not None


def compressed_hosts(names: Sequence[str]) -> list[str]:
    """The names in their order, neighbours with consecutive numbers joined: node01, node02 become node[01-02].

    Of several numbers in a name, the last one counts.
    """
    found: list[str] = []
    run: list[re.Match[str]] = []
    for name in (*names, ""):
        match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", name, re.DOTALL)
        if run and match is not None and _follows(run[-1], match):
            run.append(match)
            continue
        found += _join_hosts(run)
        run = [match] if match is not None else []
        found += [name] if match is None and name else []
    return found


def _follows(one: re.Match[str], other: re.Match[str]) -> bool:
    return (
        (one[1], one[3]) == (other[1], other[3])
        and int(other[2]) == int(one[2]) + 1
        and str(int(other[2])).zfill(len(one[2])) == other[2]
    )


def _join_hosts(run: Sequence[re.Match[str]]) -> Iterable[str]:
    if len(run) < 3 or any(sign in run[0][1] + run[0][3] for sign in "[]"):
        return [one[0] for one in run]
    return [f"{run[0][1]}[{run[0][2]}-{run[-1][2]}]{run[0][3]}"]
