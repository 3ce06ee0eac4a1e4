"""Host lists as Slurm and ClusterShell write them: `node[01-16,20]` stands for node01 to node16 and node20."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from collc.source.limits import MAX_HOST_LETTERS


def split_host_list(text: str) -> list[str]:
    """The lists between the commas outside of brackets."""
    return re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", text)


def expanded_hosts(text: str, most: int) -> list[str]:
    """The names of a host list without commas outside of brackets.

    Raises ValueError for a list that cannot be read or has a name of more than MAX_HOST_LETTERS characters,
    OverflowError for more than `most` names.
    """
    parts = re.split(r"\[([^\[\]]*)\]", text)
    if any(sign in part for part in parts[::2] for sign in "[]"):
        raise ValueError(f"'{text[:60]}' is not a list of hosts")
    if len(parts) == 1:
        if most < 1:
            raise OverflowError("1 host more")
        return [text]
    if len(parts) > 2 * MAX_HOST_LETTERS or sum(map(len, parts[::2])) > MAX_HOST_LETTERS:
        raise ValueError(f"'{text[:60]}' has names of more than {MAX_HOST_LETTERS} characters")
    choices: list[list[str]] = []
    for place, part in enumerate(parts):
        choices.append(_numbers(part, most) if place % 2 else [part])
        if prod(map(len, choices)) > most:
            raise OverflowError(f"{prod(map(len, choices)):,} hosts in one list")
    return ["".join(name) for name in product(*choices)]


def _numbers(ranges: str, most: int) -> list[str]:
    """The numbers of what is between brackets, at most `most`. Raises as `expanded_hosts` does."""
    numbers: list[str] = []
    for entry in ranges.split(","):
        ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", entry.strip())
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise ValueError(f"'{entry[:40]}' is not a range of hosts")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if len(numbers) + last - first >= most:
            raise OverflowError(f"{len(numbers) + last - first + 1:,} hosts in one list")
        numbers += [str(number).zfill(len(ends[1])) for number in range(first, last + 1)]
    return numbers


def is_host_range(text: str) -> bool:
    """Whether a name stands for several: it has brackets with a range or a list of numbers."""
    return re.search(r"\[\d+\s*[-,][\d\s,-]*\]", text) is not None


def compressed_hosts(names: Sequence[str]) -> list[str]:
    """The names in their order, neighbours with consecutive numbers joined: node01, node02 become node[01-02].

    Of several numbers in a name, the last one counts.
    """
    hosts: list[str] = []
    run: list[re.Match[str]] = []
    for name in (*names, ""):
        match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", name, re.DOTALL)
        if run and match is not None and _follows(run[-1], match):
            run.append(match)
            continue
        hosts += _join_hosts(run)
        run = [match] if match is not None else []
        hosts += [name] if match is None and name else []
    return hosts


def _follows(one: re.Match[str], other: re.Match[str]) -> bool:
    return (
        (one[1], one[3]) == (other[1], other[3])
        and int(other[2]) == int(one[2]) + 1
        and str(int(other[2])).zfill(len(one[2])) == other[2]
    )


def _join_hosts(run: Sequence[re.Match[str]]) -> Iterable[str]:
    if len(run) < 3 or any(sign in run[0][1] + run[0][3] for sign in "[]"):
        return [host[0] for host in run]
    return [f"{run[0][1]}[{run[0][2]}-{run[-1][2]}]{run[0][3]}"]
