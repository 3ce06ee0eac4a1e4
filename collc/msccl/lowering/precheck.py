"""What no MSCCL file can hold whatever the schedule, so that it is reported before a schedule is sought."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.msccl.collectives import collective_of, layout_of
from collc.msccl.limits import LIMITS, MOST_RANKS, last_offset
from collc.msccl.options import MscclOptions, Placement
from collc.msccl.slots import cut_to_slots
from collc.ten.demand import Demand, Op
from collc.ten.network import Network

MOST_MESSAGES: Final = 1 << 20
"""Most messages of a schedule for a runtime: each takes over 1 KiB, and 0.1 ms in every attempt of the lowering."""


def check_message_count(count: int) -> None:
    """Raise SourceError M0111 if a schedule has more messages from GPU to GPU than can be lowered."""
    if count > MOST_MESSAGES:
        message = f"the schedule has at least {count:,} messages of one chunk, and a file is made of {MOST_MESSAGES:,}"
        raise SourceError(Diagnostic("M0111", f"{message} at most", hint="use fewer chunks"))


def least_messages(demand: Demand) -> int:
    """A lower bound on the messages of all schedules of a demand: who must end with a chunk receives it."""
    chunks = demand.chunks
    sizes = chunks.sets.sizes
    held = np.where(chunks.op == Op.COPY, sizes[chunks.pre], 1)
    return int(np.maximum(sizes[chunks.post] - held, 0).sum())


def precheck(network: Network, demand: Demand, options: MscclOptions) -> None:
    """Raise what `lower` would raise for the collective, the number of GPUs, the buffers or the channels.

    Raises SourceError M0104, M0105, M0109 to M0111.
    """
    ranks = len(network.npus)
    if ranks > MOST_RANKS:
        message = f"an MSCCL file holds at most {MOST_RANKS} GPUs, and {network.name} has {ranks}"
        raise SourceError(Diagnostic("M0111", message, hint="use fewer NPUs"))
    check_message_count(least_messages(demand))
    demand = cut_to_slots(demand)
    layout = layout_of(network, demand)
    collective = collective_of(network, demand, layout, options.profile, custom=options.custom)
    if not collective.has_in_place and options.placement is not None and options.placement.in_place:
        raise impossible_placement(options.placement, NO_PLACEMENT)
    channels_per_instance(options)
    longest = max((len(slots) for slots in (*layout.inputs, *layout.outputs)), default=0)
    use = last_offset(longest * options.instances - 1)
    if use.is_exceeded:
        raise use.error()


NO_PLACEMENT: Final = "a custom collective has no in-place form"


def impossible_placement(placement: Placement, obstacle: str) -> SourceError:
    """The error M0109 for a placement that was requested and is impossible."""
    message = f"'placement: \"{placement.value}\"' is impossible: {obstacle}"
    return SourceError(Diagnostic("M0109", message, hint="use 'placement: \"out\"', or another schedule"))


def channels_per_instance(options: MscclOptions) -> int:
    """The number of channels that one instance may use. Raises SourceError M0110 if there is none."""
    limit = LIMITS[options.profile].channels
    channels = min(options.channels or limit, limit) // options.instances
    if not channels:
        message = f"{options.instances} instances need as many channels, and may use {options.channels or limit}"
        raise SourceError(Diagnostic("M0110", message, hint="allow more 'channels', or ask for fewer 'instances'"))
    return channels
