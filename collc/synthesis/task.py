"""What every way of synthesis takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Transfers


@dataclass(frozen=True, eq=False)
class Task:
    """Chunks to bring from the holders of their preconditions to those of their postconditions.

    The chunks are copied, whatever their op: who wants reductions solves the inverse problem
    (synthesis/reductions/invert.py).

    chunks: int32; which chunks of the demand to plan. release: int64[chunks of the demand],
    picoseconds before which the holders do not have a chunk yet; None for 0. reserved: transfers
    that are already planned; their links are taken while they last.
    inverted: the schedule will run backwards as a reduction, so a switch must not pass one arrival
    on more than once, unless it has multicast (that is, unless it reduces).
    relays: no switch may pass one arrival on more than once.
    """

    network: Network
    demand: Demand
    model: LinkModel
    chunks: Int32Array
    release: Int64Array | None = None
    reserved: Transfers | None = None
    inverted: bool = False
    relays: bool = False


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to try.

    seed: of all random choices. trials: attempts, the best is kept. threads: at most so
    many; the result does not depend on it. stop: polled now and then; True: return the best so far,
    or raise NoSchedule. progress: called with a share from 0 to 1 and a few words. time_limit: the
    seconds after which `stop` will ask to; None where it will not.
    """

    seed: int = 0
    trials: int = 1
    threads: int = 1
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[float, str], None] = lambda _share, _words: None
    time_limit: float | None = None
