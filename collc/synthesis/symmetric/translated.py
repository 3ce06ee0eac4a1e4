"""Collectives on large Cayley graphs: the transfers of NPU 0 and its translations, which are not listed.

The inversion of the group, which takes each NPU x to -x, takes the graph to that with all links reversed. So a plan for
All-Gather is one for Reduce-Scatter too: each transfer from s over a generator becomes one backwards in time, over the
same generator, to -s.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from collc.base.memory import require_for_search
from collc.kernels.compiled import MOST_PLAIN, STEP_TIME
from collc.synthesis.symmetric.all_gather import plan_all_gather
from collc.synthesis.symmetric.all_to_all import plan_all_to_all, short_paths
from collc.synthesis.symmetric.bundled_exchange import MOST_EXPANDED, exchange_in_bundles
from collc.synthesis.symmetric.group import Group, find_group
from collc.synthesis.symmetric.representative_plan import GeneratorTimes
from collc.synthesis.task import Effort
from collc.ten.bundled_schedule import FactoredBundles
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule, chunk_size
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import MOST_LISTED, LinkModel, Transfers


def translated_schedule(module: Module, effort: Effort) -> FactoredSchedule | None:
    """A schedule of one All-Gather, Reduce-Scatter, All-Reduce or All-to-All over all NPUs; None if it is small or has
    no such symmetry.

    Raises ValueError if links have no bandwidth or latency, SourceError if links do not lead to all NPUs, or for an
    All-to-All on rings that are too long.
    """
    numbers, standard, group = ChunkNumbers.of(module.demand), module.demand.standard, _group_of(module)
    if numbers is None or standard is None or group is None:
        return None
    hops = group.count * int(group.span()[1].sum()) * numbers.parts
    if (hops if numbers.pairs else module.demand.least_transfers) <= MOST_LISTED:
        return None
    times = GeneratorTimes.of(module.network, module.model, group, chunk_size(module.demand))
    if numbers.pairs:
        return _exchange(module.model, group, numbers, times, effort)
    gathers, reduces = standard.shape.end == "all", standard.shape.reduces
    copies = _gather(group, numbers.parts, times, effort)
    end = int((copies.start + times.total[group.generator_of[copies.link]]).max())
    parts = [_sums(group, copies, times, end)] if reduces else []
    if gathers:
        parts.append(copies.at(copies.start + (end if reduces else 0)))
    return _translations_of(module.model, group, numbers, Transfers.concatenate(parts))


def bundled_schedule(module: Module) -> FactoredBundles | None:
    """An All-to-All over all NPUs, in little time, of any size; None if there is no such symmetry, links have no
    bandwidth or latency, or NPUs have limits.
    """
    numbers, group = ChunkNumbers.of(module.demand), _group_of(module)
    if numbers is None or group is None or not numbers.pairs or module.network.has_endpoints:
        return None
    with suppress(ValueError):
        times = GeneratorTimes.of(module.network, module.model, group, chunk_size(module.demand))
        return _bundles(module.model, group, numbers, times, Effort())
    return None


def _group_of(module: Module) -> Group | None:
    """The symmetry of a network, for a demand over all NPUs."""
    numbers, network = ChunkNumbers.of(module.demand), module.network
    if numbers is None or module.schedule is not None:
        return None
    return find_group(network) if len(module.demand.runs[0].group) == network.npu_count else None


def tree_copies(
    network: Network, model: LinkModel, numbers: ChunkNumbers, size: int, effort: Effort
) -> Transfers | None:
    """What NPU 0 sends in an All-Gather or All-to-All on a Cayley graph, as copies; None if the network is none, or
    there are too many.
    """
    group = find_group(network)
    if group is None:
        return None
    times = GeneratorTimes.of(network, model, group, size)
    if not numbers.pairs:
        return _gather(group, numbers.parts, times, effort)
    if int(group.span()[1].sum()) * numbers.parts > MOST_EXPANDED:
        return None
    schedule = _exchange(model, group, numbers, times, effort)
    return schedule.chunk_schedule.rows if isinstance(schedule, FactoredBundles) else schedule.rows


def _translations_of(model: LinkModel, group: Group, numbers: ChunkNumbers, rows: Transfers) -> FactoredSchedule:
    return FactoredSchedule(model, group.translations(), numbers, rows, np.zeros(len(rows), np.int64))


def _exchange(
    model: LinkModel, group: Group, numbers: ChunkNumbers, times: GeneratorTimes, effort: Effort
) -> FactoredSchedule:
    """An All-to-All: in bundles if it is large, or NPUs would differ in their directions."""
    step = times.step
    if STEP_TIME * int(group.span()[1].sum()) * numbers.parts <= MOST_PLAIN:
        plan = plan_all_to_all(group, numbers.parts, times if step is None else GeneratorTimes.steps(group), effort)
        if plan.half is None:
            chunk = numbers.of_representative(*np.divmod(plan.chunk, numbers.parts))
            start = plan.start.astype(np.int64) * (step or 1)
            rows = Transfers.of(chunk, group.link[plan.generator, plan.sender], start)
            return _translations_of(model, group, numbers, rows)
    return _bundles(model, group, numbers, times, effort)


def _bundles(
    model: LinkModel, group: Group, numbers: ChunkNumbers, times: GeneratorTimes, effort: Effort
) -> FactoredBundles:
    messages = group.count * numbers.parts
    require_for_search(8 * len(group.generators) * messages, f"paths of {messages:,} messages")
    effort.work.add(messages)
    return exchange_in_bundles(group, short_paths(group, numbers.parts, effort), model, numbers, times)


def _gather(group: Group, parts: int, times: GeneratorTimes, effort: Effort) -> Transfers:
    """The copies of an All-Gather."""
    rest, step = (group.count - 1) * parts, times.step
    in_steps = GeneratorTimes.steps(group) if step is not None else times
    goal = int(rest / (1 / np.maximum(1, in_steps.busy)).sum())
    plan = plan_all_gather(group, parts, in_steps, goal, effort)
    link = group.link[plan.generator, plan.sender]
    return Transfers.of(plan.chunk.astype(np.int32), link, plan.start.astype(np.int64) * (step or 1))


def _sums(group: Group, copies: Transfers, times: GeneratorTimes, end: int) -> Transfers:
    """The partials of a Reduce-Scatter, backwards in time from `end`."""
    generator = group.generator_of[copies.link]
    link = group.link[generator, group.coordinates.negatives[group.target_of[copies.link]]]
    return Transfers.of(copies.chunk, link, end - copies.start - times.total[generator], True)
