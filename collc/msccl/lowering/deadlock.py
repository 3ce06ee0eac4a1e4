"""Freedom from deadlock: a connection holds few messages, so an order of steps can block forever.

A step with `cnt` k is ceil(k / M) messages, where M depends on the bytes of a chunk, so on the size of the buffer
(docs/msccl-contract.md, section 5). Waits are monotone: what can run now can still run later. So one simulation with
any timing decides for all timings.
"""

from __future__ import annotations

from typing import Final

from collc.msccl.interpreter.replay import replay
from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.lowering.final_steps import FinalSteps, list_steps
from collc.msccl.options import Profile, Protocol
from collc.msccl.program import Program

MESSAGES_IN_FLIGHT: Final = {Protocol.SIMPLE: 2, Protocol.LL: 8, Protocol.LL128: 8}
"""Messages that a connection holds; then its sender blocks."""

_MESSAGE_BYTES: Final = {Protocol.SIMPLE: 2 << 20, Protocol.LL: 32 << 10, Protocol.LL128: 576_000}
"""Most bytes of a message."""

_RCCL_MESSAGE_BYTES: Final = {Protocol.SIMPLE: 2 << 20, Protocol.LL: 16 << 10, Protocol.LL128: 50_176}
"""Most bytes of a message of RCCL (docs/msccl-contract.md, section 7)."""

_REDUCE_BROADCAST_BYTES: Final = 512 << 10
"""Most bytes of a message of `reduce` and `broadcast` with Simple: their chunkSteps is 1, that of others 4."""


def message_bytes(program: Program) -> int:
    """Most bytes of one message of a program."""
    if program.protocol is Protocol.SIMPLE and program.collective.coll in {"reduce", "broadcast"}:
        return _REDUCE_BROADCAST_BYTES
    return (_RCCL_MESSAGE_BYTES if program.profile is Profile.RCCL else _MESSAGE_BYTES)[program.protocol]


def chunks_per_message(program: Program, size: int | None) -> int:
    """How many chunks of a step one message carries (M), for a buffer of `size` bytes; None: arbitrarily large."""
    if size is None:
        return 1
    chunk = max(1, size // program.chunks_per_loop)
    return min(MOST_CHUNKS, max(1, message_bytes(program) // chunk))


def largest_size(program: Program, per_message: int) -> int:
    """The largest buffer in bytes whose messages carry at least `per_message` chunks."""
    return message_bytes(program) // per_message * program.chunks_per_loop


def deadlocking_message_sizes(program: Program) -> list[int]:
    """The chunks per message, among those of the program's range of sizes, at which it deadlocks; ascending.

    If the program ends with some number of chunks per message, it ends with every larger one: each step then is fewer
    messages, and taking for them the moments of as many of the messages before, the last one included, gives a valid
    order in which no connection holds more.
    """
    low = chunks_per_message(program, program.sizes[1])
    high = chunks_per_message(program, program.sizes[0])
    placed, capacity = list_steps(program), MESSAGES_IN_FLIGHT[program.protocol]
    if _ends(placed, capacity, low):
        return []
    fails, ends = low, high + 1  # `high + 1` stands for none in the range
    while ends - fails > 1:
        middle = (fails + ends) // 2
        if _ends(placed, capacity, middle):
            ends = middle
        else:
            fails = middle
    return list(range(low, ends))


def terminates(program: Program, per_message: int) -> bool:
    """Whether the program comes to its end if a message carries at most `per_message` chunks."""
    return _ends(list_steps(program), MESSAGES_IN_FLIGHT[program.protocol], per_message)


def _ends(placed: FinalSteps, capacity: int, per_message: int) -> bool:
    messages = [-(-step.count // per_message) for step in placed.steps]
    return not replay(placed.waits, messages, capacity)[1]
