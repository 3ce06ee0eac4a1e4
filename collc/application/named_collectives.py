"""Whether a demand is that of a named collective over all NPUs, told by what each chunk's conditions are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from collc.base.diagnostics import CheckFailed, Diagnostic, Note, UsageError
from collc.base.wording import did_you_mean, listed
from collc.ten.demand import Op
from collc.ten.module import Module

Holders = Callable[[int, int, int], list[int]]
"""Members that hold block b at the start or end, of n members with a root."""


def _all(_b: int, n: int, _root: int) -> list[int]:
    return list(range(n))


def _owner(b: int, _n: int, _root: int) -> list[int]:
    return [b]


def _root(_b: int, _n: int, root: int) -> list[int]:
    return [root]


def _row(b: int, n: int, _root: int) -> list[int]:
    return [b // n]


def _column(b: int, n: int, _root: int) -> list[int]:
    return [b % n]


_NAMED: Final[dict[str, tuple[Callable[[int], int], Holders, Holders, bool]]] = {
    "all_gather": (lambda n: n, _owner, _all, False),
    "reduce_scatter": (lambda n: n, _all, _owner, True),
    "all_reduce": (lambda n: n, _all, _all, True),
    "all_to_all": (lambda n: n * n, _row, _column, False),
    "broadcast": (lambda _n: 1, _root, _all, False),
    "reduce": (lambda _n: 1, _all, _root, True),
    "scatter": (lambda n: n, _root, _owner, False),
    "gather": (lambda n: n, _owner, _root, False),
}
"""Blocks, holders before and after, and whether chunks are reduced."""


def known_collective(name: str, more: tuple[str, ...] = ()) -> str:
    """The name in the standard library of a collective ("allgather", "all_gather"), or one of `more` as it stands.

    Raises UsageError (U0111) where there is no such collective.
    """
    plain = {known.replace("_", ""): known for known in (*_NAMED, *more)}
    kind = plain.get(name.replace("_", "").replace("-", "").lower())
    if kind is None:
        hint = did_you_mean(name, plain.values(), f"there are {listed(plain.values())}")
        raise UsageError(Diagnostic("U0111", f"there is no collective named '{name}'", hint=hint))
    return kind


def check_named(module: Module, name: str, root: int) -> None:
    """Raise CheckFailed where a module's demand is not that of a collective over all its NPUs in order.

    name: as in the standard library or in MSCCL ("all_gather", "allgather"). root: a rank. Each block may be
    cut into any number of equal chunks. Raises UsageError where there is no such collective or rank.
    """
    kind = known_collective(name)
    npus = module.network.npus
    if not 0 <= root < max(1, len(npus)):
        raise UsageError(Diagnostic("U0112", f"rank {root} is none of the {len(npus)} ranks"))
    wrong = _difference(module, kind, root)
    if wrong:
        note = Note("the NPUs count in their order, and chunks in order of their blocks")
        raise CheckFailed(Diagnostic("C0203", f"this is no {kind}: {wrong}", None, (note,)))


def _difference(module: Module, kind: str, root: int) -> str:
    """What is different, or ""."""
    blocks_of, before, after, reduced = _NAMED[kind]
    table = module.demand.chunks
    npus = module.network.npus.tolist()
    blocks = blocks_of(len(npus))
    if not blocks or not len(table) or len(table) % blocks:
        return f"{len(table)} chunks do not make {blocks} equal blocks"
    if len(set(table.size.tolist())) > 1:
        return "its chunks differ in size"
    each = len(table) // blocks
    for chunk in range(len(table)):
        b = chunk // each
        name = module.demand.chunk_name(chunk)
        if (table.op[chunk] != Op.COPY) != reduced:
            return f"{name} is {'copied' if reduced else 'reduced'}"
        for what, column, holders in (("pre", table.pre, before), ("post", table.post, after)):
            wanted = sorted(npus[member] for member in holders(b, len(npus), root))
            if table.sets[int(column[chunk])].tolist() != wanted:
                return f"the {what}condition of {name} is another"
    return ""
