"""The result that a demand requires of a file, for collectives without a name in the runtimes.

Derived from the demand alone: the input of a rank holds the chunks of its preconditions in order of
declaration, its output those of its postconditions. Chunks of several sizes are neighbouring slots of
their greatest common divisor; n instances cut every slot into n neighbours. Ranks are the positions
among the NPUs that are left.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from collc.msccl.check.collectives import Contribution, ExpectedResult, WantedChunk
from collc.ten.demand import Demand, Op
from collc.ten.network import Network


def expected_of(network: Network, demand: Demand, instances: int = 1) -> ExpectedResult:
    """What every output chunk of every rank must hold. A reduction takes one contribution of every holder."""
    chunks = demand.chunks
    common = math.gcd(*chunks.size.tolist())
    lengths = [size // max(1, common) * instances for size in chunks.size.tolist()]
    starts = _slots(network, demand, chunks.pre.tolist(), lengths)
    ends = _slots(network, demand, chunks.post.tolist(), lengths)
    wants: dict[Contribution, WantedChunk] = {}
    for chunk, (sources, targets) in enumerate(zip(starts, ends, strict=True)):
        reduced = int(chunks.op[chunk]) != Op.COPY
        for part in range(lengths[chunk]):
            given = frozenset((rank, slot + part) for rank, slot in sources)
            wants.update({(rank, slot + part): WantedChunk(given, reduced) for rank, slot in targets})
    return ExpectedResult(wants)


def _slots(network: Network, demand: Demand, conditions: list[int], lengths: list[int]) -> Iterator[list[Contribution]]:
    """For each chunk the (rank, first slot) of every holder. lengths: slots of each chunk."""
    rank_of = {npu: rank for rank, npu in enumerate(network.npus.tolist())}
    used: dict[int, int] = defaultdict(int)
    for condition, length in zip(conditions, lengths, strict=True):
        held: list[Contribution] = []
        for npu in demand.chunks.sets[condition].tolist():
            rank = rank_of[npu]
            held.append((rank, used[rank]))
            used[rank] += length
        yield held
