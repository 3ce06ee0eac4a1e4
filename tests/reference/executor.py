"""A naive executor of algorithms by hand: step by step, with a set of contributions for each member and chunk."""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.reference.evaluator import AlgorithmSend, Chunk, Run


def steps_of(moves: list[AlgorithmSend]) -> int:
    """Number of logical steps, which must be consecutive from 0."""
    used = {m.step for m in moves}
    assert used == set(range(len(used))), "steps are left out"
    return len(used)


def execute(run: Run) -> dict[tuple[int, int], Counter[int]]:
    """What every NPU holds of every chunk in the end: contributions (NPUs) and how often each is counted.

    A copy counts as the contribution -1, that of the chunk itself. Moves of a step read what
    was there before the step.
    """
    held: dict[tuple[int, int], Counter[int]] = {}
    for number, chunk in enumerate(run.chunks):
        for npu in chunk.pre:
            held[number, npu] = Counter([-1 if chunk.op == "copy" else npu])
    for step in range(steps_of(run.moves or [])):
        now = [m for m in run.moves or [] if m.step == step]
        assert all((m.chunk, m.source) in held for m in now), f"step {step} sends what is not there"
        before = {(m.chunk, m.source): Counter(held[m.chunk, m.source]) for m in now}
        for m in now:
            if m.reduce:
                held[m.chunk, m.target] = held.get((m.chunk, m.target), Counter()) + before[m.chunk, m.source]
        for m in now:
            if not m.reduce:
                held[m.chunk, m.target] = before[m.chunk, m.source]
    return held


def complete(chunk: Chunk) -> Counter[int]:
    """The contributions that an NPU of the postcondition must have."""
    return Counter([-1]) if chunk.op == "copy" else Counter(chunk.pre)


def unmet(run: Run) -> list[tuple[str, tuple[int, ...], int]]:
    """Postconditions that are not met: chunk and NPU."""
    held = execute(run)
    return [
        (chunk.name, chunk.indices, npu)
        for number, chunk in enumerate(run.chunks)
        for npu in chunk.post
        if held.get((number, npu)) != complete(chunk)
    ]


def busiest(run: Run) -> int:
    """The largest number of sends from one NPU to another in a step."""
    pairs = Counter((m.step, m.source, m.target) for m in run.moves or [])
    return max(pairs.values(), default=0)


def most_ports(run: Run) -> int:
    """The largest number of sends that leave, or arrive at, one NPU in a step."""
    out = Counter((m.step, m.source) for m in run.moves or [])
    into = Counter((m.step, m.target) for m in run.moves or [])
    return max([*out.values(), *into.values()], default=0)


def rounds(run: Run) -> int:
    """Exchanges: the most different (partner, direction) that one NPU sends to, counted again after each change."""
    partners: dict[int, list[int]] = defaultdict(list)
    for m in sorted(run.moves or [], key=lambda m: m.step):
        if not partners[m.source] or partners[m.source][-1] != m.target:
            partners[m.source].append(m.target)
    return max((len(p) for p in partners.values()), default=0)
