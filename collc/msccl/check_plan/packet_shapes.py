"""Operations on packets: where their buffers lie, and what they move (docs/msccl-contract.md, section 6.4)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from collc.msccl.check_plan.json_text import PlanError
from collc.msccl.check_plan.model import DataMove, Operation, SlotRange


class Role(StrEnum):
    """What an entry of an operation on packets must be."""

    PLAIN = "a local buffer"
    OWN = "packets in its own scratch"
    REMOTE = "packets in the scratch of another gpu"


_PLAIN, _OWN, _REMOTE = Role.PLAIN, Role.OWN, Role.REMOTE
_ANY: Final = 10

SHAPES: Final[dict[str, tuple[tuple[Role, ...], Role | None, tuple[Role, ...], Role | None]]] = {
    "cpkt": ((_PLAIN,), None, (_OWN,), None),
    "upkt": ((_OWN,), None, (_PLAIN,), None),
    "ppkt": ((_PLAIN,), _PLAIN, (_REMOTE,), _REMOTE),
    "rppkt": ((_OWN,), None, (_REMOTE,), _REMOTE),
    "repkt": ((_PLAIN, _OWN), _OWN, (_PLAIN,), None),
    "respkt": ((_PLAIN, _OWN), _OWN, (_PLAIN, _REMOTE), _REMOTE),
    "recpkt": ((_PLAIN, _OWN), _OWN, (_PLAIN, _OWN), None),
    "recspkt": ((_PLAIN, _OWN), _OWN, (_PLAIN, _OWN, _REMOTE), _REMOTE),
}
"""By operation: its first sources, what further ones are (None: there are none), its first targets, further ones."""


def kinds_of_buffers(op: Operation, counts: list[int]) -> list[list[Role]]:
    """What the sources and targets of an operation must be. counts: of its entries. Raises PlanError (X0404)."""
    sources, more, targets, further = SHAPES[op.name]
    found: list[list[Role]] = []
    for first, rest, count in ((sources, more, counts[0]), (targets, further, counts[1])):
        if count < len(first) or (rest is None and count > len(first)):
            text = f"{op.name} with {counts[0]} sources and {counts[1]} targets"
            raise PlanError("X0404", text, op.location, f"{len(sources)} and {len(targets)}, or more")
        found.append([*first, *([rest] if rest is not None else []) * (count - len(first))])
    if op.name == "ppkt" and counts[0] != counts[1]:
        raise PlanError("X0404", f"ppkt with {counts[0]} sources and {counts[1]} targets", op.location, "as many")
    if op.via == "port" and op.name != "rppkt":
        text = f"{op.name} over port channels"
        raise PlanError("X0404", text, op.location, "memory channels, or rppkt of packets in its own scratch")
    if op.via == "port" and len(op.over) != counts[1]:
        raise PlanError("X0404", f"rppkt over {len(op.over)} ports to {counts[1]} buffers", op.location, "one each")
    return found


def packet_moves(op: Operation, sources: list[SlotRange], targets: list[SlotRange]) -> list[DataMove]:
    """The moves of an operation. Raises PlanError (X0404) for sizes that differ, and sources of several buffers."""
    if len({slots.size for slots in sources + targets}) != 1:
        raise PlanError("X0404", f"{op.name} with buffers of different sizes", op.location, "equal sizes")
    if op.name == "ppkt":
        if len({slots.buffer for slots in sources}) > 1:
            text = "ppkt from buffers of several types: the runtime reads all from the first one's"
            raise PlanError("X0404", text, op.location, "one ppkt for each type")
        return [DataMove((source,), (target,)) for source, target in zip(sources, targets, strict=True)]
    return [DataMove(tuple(sources), tuple(targets))]
