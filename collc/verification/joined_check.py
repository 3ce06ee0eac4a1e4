"""Whether a schedule that is joined of parts is right because the schedules of its parts are.

In an image of a part, devices and links are as in its network, and the chunks of its runs are the same. Its links are
in the same order, because of partials that reach a switch at the same time the one over the first link leaves first. So
what is true of the part alone is true of each image, except that something else may use its links.
Switches must hold any number of chunks and NPUs must have no limits, since parts may have both in common.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.declared import follows_rule
from collc.ten.demand import Run, RunFamily
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.joined_schedule import JoinedSchedule, RepeatedPart
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule
from collc.verification.factored_check import are_translations
from collc.verification.valid_transfers import LATEST


def is_joined_right(module: Module, schedule: JoinedSchedule, is_right: Callable[[Module], bool]) -> bool:
    """Whether the parts are right, each run of the module is in one image of a part, and no two images use a link.

    is_right: whether a part is right by itself.
    """
    network, parts = module.network, schedule.parts
    if network.has_limited_buffers or network.has_endpoints or schedule.model is not module.model:
        return False
    if not np.array_equal(schedule.demand.first_chunk, module.demand.first_chunk):
        return False
    runs = np.concatenate([part.run.reshape(-1) for part in parts]) if parts else np.empty(0, np.int32)
    if not np.array_equal(np.sort(runs), np.arange(len(module.demand.runs))):
        return False
    for part in parts:
        if part.module.model is not module.model or part.schedule.model is not module.model:
            return False
        if not _are_images(network, part) or not _have_same_runs(module, part):
            return False
    return all(is_right(part.module) and _is_repeatable(part) for part in parts) and _are_free(network, schedule)


def _is_repeatable(part: RepeatedPart) -> bool:
    """Whether images consist of what is right in the part: none is too late, no transfer is a hop of a message, which
    images do not have, and no translation leads to a link that is not known to be used.
    """
    schedule = part.schedule
    if part.module.collective_time() >= LATEST:
        return False
    if isinstance(schedule, FactoredSchedule):
        return are_translations(schedule.translations, part.module.network)
    return not isinstance(schedule, RowSchedule) or schedule.rows.messages is None


def _are_images(network: Network, part: RepeatedPart) -> bool:
    """Whether all images have other devices and links for those of the part, of the same kinds, between the same."""
    own, device, link = part.module.network, part.device, part.link
    images = len(part.run)
    if device.shape != (images, own.device_count) or link.shape != (images, own.link_count):
        return False
    if part.run.shape != (images, len(part.module.demand.runs)):
        return False
    if own.kinds != network.kinds or not _are_ascending(np.sort(device, axis=1), network.device_count):
        return False
    if not _are_ascending(link, network.link_count) or not own.present.all() or own.has_limited_buffers:
        return False
    npus, switches = device[:, : own.npu_count], device[:, own.npu_count :] - network.npu_count
    return (
        bool((npus < network.npu_count).all() and (switches >= 0).all() and network.present[device].all())
        and bool((network.multicast[switches] == own.multicast).all())
        and bool((network.reduces[switches] == own.reduces).all())
        and bool((network.source[link] == device[:, own.source]).all())
        and bool((network.target[link] == device[:, own.target]).all())
        and bool((network.kind[link] == own.kind).all())
    )


def _are_ascending(numbers: Int32Array, count: int) -> bool:
    """Whether the numbers of each row are from 0 to count - 1, each greater than the one before."""
    inside = not numbers.size or (int(numbers.min()) >= 0 and int(numbers.max()) < count)
    return inside and bool((numbers[:, 1:] > numbers[:, :-1]).all())


def _have_same_runs(module: Module, part: RepeatedPart) -> bool:
    """Whether the chunks of each run are those of the run of the part, at the devices of the image."""
    runs = module.demand.by_family
    for number, own in enumerate(part.module.demand.runs):
        by_rule, whole = follows_rule(own), part.run[:, number]
        order = np.argsort(runs.family[whole], kind="stable")
        for images in np.split(order, np.flatnonzero(np.diff(runs.family[whole][order])) + 1):
            family = runs.families[runs.family[whole[images[0]]]]
            if not _are_groups(own, family, part.device[images], runs.row[whole[images]]):
                return False
            if by_rule and follows_rule(family.first):  # so do all of the family
                continue
            numbers: list[int] = whole[images].tolist()
            listed = zip(map(module.demand.runs.__getitem__, numbers), part.device[images], strict=True)
            if not all(_has_same_chunks(own, run, device) for run, device in listed):
                return False
    return True


def _are_groups(own: Run, family: RunFamily, device: Int32Array, rows: Int64Array) -> bool:
    """Whether the runs in some rows have the arguments of the run of a part, and its members in each image."""
    if own.standard != family.first.standard or len(own.pattern) != family.chunks_each:
        return False
    return family.groups.shape[1] == len(own.group) and np.array_equal(device[:, own.group], family.groups[rows])


def _has_same_chunks(own: Run, whole: Run, device: Int32Array) -> bool:
    """Whether a run has the chunks of the run of a part at the devices of an image."""
    left, right = own.pattern.expand(), whole.pattern.expand()
    same = [(left.size, right.size), (left.pre, right.pre), (left.post, right.post), (left.op, right.op)]
    same += [(left.sets.offsets, right.sets.offsets), (device[left.sets.members], right.sets.members)]
    return all(np.array_equal(one, other) for one, other in same)


def _are_free(network: Network, schedule: JoinedSchedule) -> bool:
    """Whether no two images use a link."""
    users = np.zeros(network.link_count, np.int64)
    for part in schedule.parts:
        np.add.at(users, part.link[:, part.used_links], 1)
    return int(users.max(initial=0)) <= 1
