"""Chunks on their trees: which transfer goes first where several wait for a link.

The order decides how much of the throughput of the trees a schedule reaches. Measured on two nodes of MI250, All-Gather
of 1 GiB in 256 chunks, as the share of the optimum: first come first served 0.74, longest remaining path first 0.66,
chunks by their number in their batch of trees and among equal ones longest remaining path first 0.98.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from collc.kernels.compiled import compiled, numbers
from collc.kernels.tree_pipeline import run_trees
from collc.synthesis.forest.problem import ForestProblem
from collc.synthesis.forest.trees import TreeBatch
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import Transfers

_ONE = 1 << 30


@dataclass(frozen=True, eq=False)
class TreeTransfers:
    """The transfers of all chunks along their trees, each after the one that it waits for.

    pair: of devices that each transfer joins. before: the transfer that brings its chunk, -1 where the chunk begins.
    row: of the conditions. progress: which part of its batch the middle of the chunk is at, in units of 1 / _ONE.
    remaining: picoseconds from the start of the transfer to the last arrival in the part of the tree below it. number:
    decides between equals.
    """

    pair: Int64Array
    before: Int64Array
    row: Int64Array
    progress: Int64Array
    remaining: Int64Array
    number: Int64Array

    def __len__(self) -> int:
        return len(self.pair)


def tree_transfers(problem: ForestProblem, batches: Sequence[TreeBatch], translated: bool) -> TreeTransfers:
    """The transfers of all chunks.

    batches: one tree for each chunk; those of a member in the order of its chunks. translated: whether the trees of all
    members are translations of each other, so that each link is best used in the order of the transfers of a tree.
    """
    ends = zip(problem.graph.source.tolist(), problem.graph.target.tolist(), strict=True)
    number = {end: pair for pair, end in enumerate(ends)}
    time = problem.total[problem.links[1][problem.links[0][:-1]]].tolist()
    used = [0] * len(problem.members)
    parts: list[tuple[Int64Array, ...]] = []
    count = 0
    for batch in batches:
        pairs, before = _one_tree(batch, int(problem.members[batch.root]), number)
        begin, size = used[batch.root], len(pairs)
        used[batch.root] += batch.amount
        first = count + np.arange(batch.amount)[:, None] * size
        parent = np.array(before, np.int64)
        parts.append((
            np.tile(np.array(pairs, np.int64), batch.amount),
            np.where(parent < 0, -1, parent + first).ravel(),
            np.repeat(problem.chunks[batch.root][begin : begin + batch.amount].astype(np.int64), size),
            np.repeat((2 * np.arange(batch.amount) + 1) * _ONE // (2 * batch.amount), size),
            np.tile(_remaining(pairs, before, time), batch.amount),
            np.tile(np.arange(size), batch.amount) if translated else count + np.arange(size * batch.amount),
        ))  # fmt: skip
        count += size * batch.amount
    return TreeTransfers(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def shared_out(batches: Sequence[TreeBatch], chunks: list[int]) -> Iterator[TreeBatch]:
    """The batches with chunks in the place of trees: the chunks of each member in proportion to their trees."""
    trees, before = [0] * len(chunks), [0] * len(chunks)
    for batch in batches:
        trees[batch.root] += batch.amount
    for batch in batches:
        first = before[batch.root] * chunks[batch.root] // trees[batch.root]
        before[batch.root] += batch.amount
        amount = before[batch.root] * chunks[batch.root] // trees[batch.root] - first
        if amount:
            yield replace(batch, amount=amount)


def _one_tree(batch: TreeBatch, root: int, number: dict[tuple[int, int], int]) -> tuple[list[int], list[int]]:
    """Of one tree: the pair of each transfer, and the transfer before it."""
    reached = {root: -1}
    pairs: list[int] = []
    before: list[int] = []
    for path in batch.paths:
        last = reached[path[0]]
        for ends in pairwise(path):
            pairs.append(number[ends])
            before.append(last)
            last = len(pairs) - 1
        reached[path[-1]] = last
    return pairs, before


def _remaining(pairs: list[int], before: list[int], time: list[int]) -> Int64Array:
    found = [0] * len(pairs)
    for transfer in range(len(pairs) - 1, -1, -1):
        found[transfer] += time[pairs[transfer]]
        if before[transfer] >= 0:
            found[before[transfer]] = max(found[before[transfer]], found[transfer])
    return np.array(found, np.int64)


def list_schedule(
    problem: ForestProblem, transfers: TreeTransfers, steps: int, compile_it: bool
) -> tuple[Transfers, int]:
    """All transfers as early as their links allow, and when the last chunk arrives, in picoseconds.

    Of the transfers that wait for a pair of devices, the one whose chunk is in the first step of its batch goes first,
    and among those of one step the one with the longest remaining path. steps: into how many each batch is divided.
    """
    step = transfers.progress * steps // _ONE
    order = np.lexsort((transfers.number, -transfers.remaining, step))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    pair, row = transfers.pair[order], transfers.row[order]
    before = np.where(transfers.before < 0, -1, rank[transfers.before])[order]
    release = np.where(before < 0, problem.conditions.release[row], -1)
    after = np.argsort(before, kind="stable")
    after_offsets = np.searchsorted(before[after], np.arange(len(pair) + 1))
    queue_offsets = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=problem.graph.edge_count))])
    columns = (
        pair, release, after_offsets, after, queue_offsets, np.zeros(len(pair)), *problem.links,
        problem.pair, problem.busy, problem.total, np.zeros(len(pair)), np.zeros(len(pair)),
    )  # fmt: skip
    given = [numbers(column.astype(np.int64), compile_it) for column in columns]
    end: int = (compiled(run_trees) if compile_it else run_trees)(*given)
    chunk: Int32Array = problem.conditions.chunk[row]
    return Transfers.of(chunk, np.array(given[-1], np.int32), np.array(given[-2], np.int64)), end
