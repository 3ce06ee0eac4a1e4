"""What a file must compute if its collective has no name in the runtimes, or one that does not define it.

A demand says it: the input of a rank holds the chunks of its preconditions in order of declaration, its output the
chunks of its postconditions. Chunks of several sizes are neighbouring slots of their greatest common divisor; n
instances cut every slot into n neighbours. Ranks are the positions among the NPUs that are left.

Of send, recv and alltoallv a file itself says it. An alltoallv of equal blocks is an All-to-All. The pairs of a send or
recv are derived from what the program does: a rank that ends with the first chunk of another rank must end with all
chunks of that rank.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Final

from collc.msccl.check.collectives import Contribution, ExpectedResult, WantedChunk
from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check.model import FileProgram
from collc.msccl.check.symbolic import call_of, execute
from collc.runtime.collectives import INPUT, OUTPUT
from collc.ten.demand import Demand, Op
from collc.ten.network import Network

IMPLIED: Final = ("send", "recv", "alltoallv")
"""Collectives whose result is derived from the file."""


def implied_result(program: FileProgram, coll: str, findings: Findings) -> ExpectedResult | None:
    """The result that the program must have; None, with a finding, if it can have none."""
    if coll == "alltoallv":
        return _equal_blocks(program, findings)
    return _pairs(program, coll, findings)


def _equal_blocks(program: FileProgram, findings: Findings) -> ExpectedResult | None:
    ranks, total = program.ngpus, program.nchunksperloop
    uneven = (program.chunks[:, (INPUT, OUTPUT)] != total).any(axis=1)
    if uneven.any() or total % ranks:
        gpu = int(uneven.argmax())
        sizes = f"{program.chunks[gpu, INPUT]} input and {program.chunks[gpu, OUTPUT]} output chunks"
        text = f"ragged alltoallv: {sizes}, and the sizes of the blocks are not in the file"
        rule = f"nchunksperloop = {total} of each, the same number for each of the {ranks} ranks"
        findings.add(Finding("contract", "X0116", text, program.gpu_location(gpu), rule))
        return None
    share = total // ranks
    blocks = product(range(ranks), range(ranks), range(share))
    return ExpectedResult(
        {
            (target, source * share + k): WantedChunk(frozenset(((source, target * share + k),)))
            for target, source, k in blocks
        }
    )


def _pairs(program: FileProgram, coll: str, findings: Findings) -> ExpectedResult | None:
    state = execute(program, call_of(program, coll, -1, inplace=not program.outofplace))
    firsts = {state.values.input(rank, 0): rank for rank in range(program.ngpus) if program.chunks[rank, INPUT]}
    wants: dict[tuple[int, int], WantedChunk] = {}
    for target in range(program.ngpus):
        if not program.chunks[target, OUTPUT]:
            continue
        source = firsts.get(state.output(target, 1)[0], target)
        if source != target:
            count = min(int(program.chunks[source, INPUT]), int(program.chunks[target, OUTPUT]))
            wants.update({(target, slot): WantedChunk(frozenset(((source, slot),))) for slot in range(count)})
    if wants:
        return ExpectedResult(wants)
    text = "no rank ends with the first input chunk of another one"
    location = program.algo_attribute("coll")
    findings.add(Finding("result", "X0131", text, location, f"data of one rank at another ({coll})"))
    return None


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
