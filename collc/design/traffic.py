"""The bytes that each NPU sends in each dimension during a collective over several dimensions.

LIBRA (ISPASS 2024), section IV: the multi-rail algorithms, which work through the dimensions one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def traffic(kind: str, size: int, parts: Sequence[int], in_network: Sequence[bool]) -> tuple[Fraction, ...]:
    """The bytes in each dimension of a collective over a group.

    kind: one of `training.KINDS`. size: bytes of the buffer of one NPU; of all_gather and reduce_scatter see
    `training.LayerTraffic`. parts: NPUs of the group along each dimension, 1 where it is one wide. in_network: whether
    the switches of the dimension reduce.
    """
    match kind:
        case "all_reduce":
            return _all_reduce(Fraction(size), parts, in_network)
        case "reduce_scatter":
            return tuple(total / 2 for total in _all_reduce(Fraction(size), parts, (False,) * len(parts)))
        case "all_gather":
            return _all_gather(Fraction(size), parts)
        case "all_to_all":
            return tuple(Fraction(size * (part - 1), part) for part in parts)
        case "send_recv":
            last = max((k for k, part in enumerate(parts) if part > 1), default=-1)
            return tuple(Fraction(size if k == last else 0) for k in range(len(parts)))
        case _:
            raise ValueError(f"no traffic is known for {kind}")


def _all_reduce(size: Fraction, parts: Sequence[int], in_network: Sequence[bool]) -> tuple[Fraction, ...]:
    """2 s (p - 1) / p in the first dimension, then the same with s / p in the next; s where switches reduce."""
    found: list[Fraction] = []
    for part, reduces in zip(parts, in_network, strict=True):
        if part == 1:
            found.append(Fraction(0))
        else:
            found.append(size if reduces else 2 * size * (part - 1) / part)
        size /= part
    return tuple(found)


def _all_gather(shard: Fraction, parts: Sequence[int]) -> tuple[Fraction, ...]:
    """(p - 1) m in the last dimension for a shard of m bytes, then the same with p m in the one before."""
    found: list[Fraction] = []
    for part in reversed(parts):
        found.append(shard * (part - 1))
        shard *= part
    return tuple(reversed(found))
