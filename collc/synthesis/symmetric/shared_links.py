"""An All-Reduce on a Cayley graph whose partials and copies share the links at the same time.

A chip that lacks one of its six links sends all its partials over five, so that a Reduce-Scatter, and then an
All-Gather, each take 1.2 times as long. But together they need not: in all its trees a chip has to send one partial and
to receive one sum. All else is on the way from others to others, and may go round it.

So the parts of the blocks follow one another. Links carry partials of one part and copies of the part before in turn,
each at half of the rate; only the partials of the first part and the copies of the last one have the links alone. What
a repair of the copies sends takes time of both kinds, since the partials are the copies backwards in time, over the
opposite links: the partials of the first part are the copies of the last one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from collc.synthesis.symmetric.all_gather import plan_all_gather
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.representative_plan import GeneratorTimes, RepresentativePlan
from collc.synthesis.task import Effort
from collc.ten.arrays import Int64Array
from collc.ten.schedule import Transfers


class SharedLinks(NamedTuple):
    """rows: the copies of the chunks of NPU 0, one for each part. mirror: picoseconds; a copy over a link from t to u
    is a partial over the opposite one from mirror - u to mirror - t. release: int64[parts], when the sum of each is
    complete.
    """

    rows: Transfers
    mirror: int
    release: Int64Array


def share_links(group: Group, parts: int, taken: int, window: int, effort: Effort) -> SharedLinks:
    """A plan of parts, at least two, if each link is taken for some time, and a chunk arrives after a window."""
    alone, in_turn = (_gather(group, taken * times, window, effort) for times in (1, 2))
    wait = (taken - window) % (2 * taken)  # so that partials start halfway between two copies
    first = int(alone.start.max()) + -(-window // taken) * taken + wait
    period = int(in_turn.start.max()) + 2 * taken
    release = first + period * np.arange(parts, dtype=np.int64)
    plans = [in_turn] * (parts - 1) + [alone]
    rows = [_rows(group, plan, part, int(release[part])) for part, plan in enumerate(plans)]
    return SharedLinks(Transfers.concatenate(rows), int(release[0] + release[-1]) - wait, release)


def _gather(group: Group, taken: int, window: int, effort: Effort) -> RepresentativePlan:
    """A plan of one part whose starts are multiples of `taken`."""
    count = len(group.generators)
    times = GeneratorTimes(np.full(count, taken), np.full(count, -(-window // taken) * taken))
    return plan_all_gather(group, 1, times, -(-(group.count - 1) // count) * taken, effort)


def _rows(group: Group, plan: RepresentativePlan, part: int, begin: int) -> Transfers:
    chunk = np.full(len(plan.start), part, np.int32)
    return Transfers.of(chunk, group.link[plan.generator, plan.sender], plan.start.astype(np.int64) + begin)
