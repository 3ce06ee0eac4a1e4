"""The collectives of the standard library by name, and whether a demand is one of them.

Compared by pre- and postconditions only.
"""

from __future__ import annotations

from collc.base.diagnostics import CheckFailed, Diagnostic, Note, UsageError
from collc.base.wording import did_you_mean, phrase
from collc.ten.declared import contradiction
from collc.ten.demand import Op, Run, Standard
from collc.ten.module import Module
from collc.ten.standard_collectives import shapes


def collective_named(name: str, more: tuple[str, ...] = ()) -> str:
    """The collective that a name means ("allgather" and "all-gather" mean "all_gather"), or one of `more`.

    Raises UsageError U0111 for an unknown name.
    """
    by_rule = [shape.name for shape in shapes().values() if shape.by_rule]
    names = {known.replace("_", ""): known for known in (*by_rule, *more)}
    kind = names.get(name.replace("_", "").replace("-", "").lower())
    if kind is None:
        hint = did_you_mean(name, names.values(), f"there are {phrase(names.values())}")
        raise UsageError(Diagnostic("U0111", f"there is no collective named '{name}'", hint=hint))
    return kind


def named_chunks(name: str, ranks: int, chunks: int, root: int = 0) -> dict[str, tuple[list[int], list[int], bool]]:
    """The chunks of a collective by name ("0:x[2, 0]"): ranks that hold each at first and at the end, and whether it
    is a reduction. chunks: of each block. Raises UsageError if the root is not a rank.
    """
    wanted = shapes()[name]
    if not 0 <= root < ranks:
        raise UsageError(Diagnostic("U0112", f"rank {root} is not one of the {ranks} ranks"))
    blocks = wanted.blocks(ranks)
    by_name: dict[str, tuple[list[int], list[int], bool]] = {}
    for block in range(blocks):
        index = [] if blocks == 1 and ranks > 1 else [block] if blocks == ranks else [*divmod(block, ranks)]
        ends = wanted.ranks(wanted.start, block, ranks, root), wanted.ranks(wanted.end, block, ranks, root)
        for chunk in range(chunks):
            by_name[f"0:x[{', '.join(map(str, [*index, chunk]))}]"] = (*ends, wanted.reduces)
    return by_name


def check_demand(module: Module, name: str, root: int) -> None:
    """Check that a module's demand is that of a collective over all its NPUs in rank order.

    name: as in the standard library or in MSCCL ("all_gather", "allgather"). root: a rank. Each block may consist of
    any number of equal chunks.
    Raises CheckFailed C0203 if the demand is another, UsageError for an unknown name or a root that is not a rank.
    """
    kind = collective_named(name)
    npus = module.network.npus
    if not 0 <= root < max(1, len(npus)):
        raise UsageError(Diagnostic("U0112", f"rank {root} is not one of the {len(npus)} ranks"))
    table, shape = module.demand.chunks, shapes()[kind]
    blocks = shape.blocks(len(npus))
    chunks = len(table) // blocks if blocks else 0
    difference = f"{len(table)} chunks do not make {blocks} equal blocks"
    if chunks and len(table) == chunks * blocks:
        op = Op(int(table.op[0])) if shape.reduces else Op.COPY
        size = int(table.size[0]) * shape.parts(len(npus)) * chunks
        standard = Standard(kind, size, chunks, root if shape.has_root else -1, op)
        conflict = contradiction(Run(kind, npus, table, standard))
        difference = "" if conflict is None else conflict.message
    if difference:
        note = Note("the NPUs count in their order, and chunks in order of their blocks")
        raise CheckFailed(Diagnostic("C0203", f"the demand is not {kind}: {difference}", None, (note,)))
