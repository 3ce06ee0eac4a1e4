"""Mutations that can break a schedule: each has a module and a random generator as arguments."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from collc.ten.demand import ChunkTable, Demand, HolderSets, Run
from collc.ten.module import Module
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel, RowSchedule
from tests.verification.random_modules import Row, rows_of, with_rows

Mutation = Callable[[Module, random.Random], Module | None]
"""A mutation returns None if it does not apply to the module."""
MUTATIONS: dict[str, Mutation] = {}


def mutation(function: Mutation) -> Mutation:
    MUTATIONS[function.__name__] = function
    return function


def changed(module: Module, rng: random.Random, change: Callable[[Row], Row]) -> Module | None:
    rows = rows_of(module)
    if not rows:
        return None
    place = rng.randrange(len(rows))
    rows[place] = change(rows[place])
    return with_rows(module, rows)


def reductions(module: Module) -> list[Row]:
    return [row for row in rows_of(module) if row[3]]


def end_of(module: Module) -> int:
    return module.schedule.collective_time(module.network, module.demand)


@mutation
def dropped(m, rng):
    rows = rows_of(m)
    if not rows:
        return None
    del rows[rng.randrange(len(rows))]
    return with_rows(m, rows)


@mutation
def truncated(m, rng):
    rows = rows_of(m)
    return with_rows(m, rows[: rng.randrange(len(rows))]) if rows else None


@mutation
def emptied(m, rng):
    return with_rows(m, [])


@mutation
def headless(m, rng):
    rows = rows_of(m)
    return with_rows(m, rows[rng.randint(1, len(rows)) :]) if rows else None


@mutation
def duplicated_at_once(m, rng):
    rows = rows_of(m)
    return with_rows(m, [*rows, rng.choice(rows)]) if rows else None


@mutation
def duplicated_at_the_end(m, rng):
    rows = rows_of(m)
    if not rows:
        return None
    _, link, chunk, reduce = rng.choice(rows)
    return with_rows(m, [*rows, (end_of(m), link, chunk, reduce)])


@mutation
def chunks_swapped(m, rng):
    rows = rows_of(m)
    if len(rows) < 2:
        return None
    i, j = rng.sample(range(len(rows)), 2)
    a, b = rows[i], rows[j]
    rows[i], rows[j] = (a[0], a[1], b[2], a[3]), (b[0], b[1], a[2], b[3])
    return with_rows(m, rows)


@mutation
def starts_swapped(m, rng):
    rows = rows_of(m)
    if len(rows) < 2:
        return None
    i, j = rng.sample(range(len(rows)), 2)
    a, b = rows[i], rows[j]
    rows[i], rows[j] = (b[0], *a[1:]), (a[0], *b[1:])
    return with_rows(m, rows)


@mutation
def links_swapped(m, rng):
    rows = rows_of(m)
    if len(rows) < 2:
        return None
    i, j = rng.sample(range(len(rows)), 2)
    a, b = rows[i], rows[j]
    rows[i], rows[j] = (a[0], b[1], *a[2:]), (b[0], a[1], *b[2:])
    return with_rows(m, rows)


@mutation
def at_zero(m, rng):
    return changed(m, rng, lambda r: (0, *r[1:]))


@mutation
def early(m, rng):
    return changed(m, rng, lambda r: (r[0] // 2, *r[1:]))


@mutation
def early_by_1ps(m, rng):
    return changed(m, rng, lambda r: (max(0, r[0] - 1), *r[1:]))


@mutation
def late_by_1ps(m, rng):
    return changed(m, rng, lambda r: (r[0] + 1, *r[1:]))


@mutation
def late(m, rng):
    return changed(m, rng, lambda r: (r[0] + rng.randint(2, 60), *r[1:]))


@mutation
def negative_time(m, rng):
    return changed(m, rng, lambda r: (-rng.randint(1, 9), *r[1:]))


@mutation
def wrong_link(m, rng):
    return changed(m, rng, lambda r: (r[0], rng.randrange(m.network.link_count), *r[2:]))


@mutation
def link_of_the_same_source(m, rng):
    source = m.network.source

    def change(r):
        others = np.flatnonzero(source == source[r[1]]).tolist()
        return (r[0], rng.choice(others), *r[2:])

    return changed(m, rng, change)


@mutation
def link_turned_round(m, rng):
    net = m.network

    def change(r):
        back = np.flatnonzero((net.source == net.target[r[1]]) & (net.target == net.source[r[1]])).tolist()
        return (r[0], rng.choice(back or [r[1]]), *r[2:])

    return changed(m, rng, change)


@mutation
def link_that_is_not_there(m, rng):
    return changed(m, rng, lambda r: (r[0], rng.choice([-1, m.network.link_count, 10**6]), *r[2:]))


@mutation
def wrong_chunk(m, rng):
    return changed(m, rng, lambda r: (*r[:2], rng.randrange(len(m.demand.chunks)), r[3]))


@mutation
def chunk_that_is_not_there(m, rng):
    return changed(m, rng, lambda r: (*r[:2], rng.choice([-1, len(m.demand.chunks), 10**6]), r[3]))


@mutation
def flag_flipped(m, rng):
    return changed(m, rng, lambda r: (*r[:3], not r[3]))


@mutation
def chunk_only_copied(m, rng):
    rows = reductions(m)
    if not rows:
        return None
    chunk = rng.choice(rows)[2]
    return with_rows(m, [(*r[:3], r[3] and r[2] != chunk) for r in rows_of(m)])


@mutation
def chunk_only_reduced(m, rng):
    rows = rows_of(m)
    if not rows:
        return None
    chunk = rng.choice(rows)[2]
    return with_rows(m, [(*r[:3], r[3] or r[2] == chunk) for r in rows])


@mutation
def contribution_lost(m, rng):
    rows = reductions(m)
    if not rows:
        return None
    lost = rng.choice(rows)
    return with_rows(m, [row for row in rows_of(m) if row != lost])


@mutation
def contribution_doubled(m, rng):
    rows = reductions(m)
    if not rows:
        return None
    _, link, chunk, _ = rng.choice(rows)
    out = np.flatnonzero(m.network.source == m.network.source[link]).tolist()
    return with_rows(m, [*rows_of(m), (rng.randint(0, end_of(m) * 2), rng.choice(out), chunk, True)])


@mutation
def partial_copied(m, rng):
    rows = reductions(m)
    if not rows:
        return None
    start, link, chunk, _ = rng.choice(rows)
    out = np.flatnonzero(m.network.source == m.network.source[link]).tolist()
    return with_rows(m, [*rows_of(m), (start + rng.randint(0, 40), rng.choice(out), chunk, False)])


@mutation
def transfer_added(m, rng):
    net = m.network
    row = (rng.randint(0, end_of(m) + 9), rng.randrange(net.link_count), rng.randrange(len(m.demand.chunks)))
    return with_rows(m, [*rows_of(m), (*row, rng.random() < 0.5)])


@mutation
def on_two_links_of_a_switch(m, rng):
    net = m.network
    rows = [row for row in rows_of(m) if net.source[row[1]] >= net.npu_count]
    if not rows:
        return None
    start, link, chunk, reduce = rng.choice(rows)
    others = np.flatnonzero((net.source == net.source[link]) & (np.arange(net.link_count) != link)).tolist()
    return with_rows(m, [*rows_of(m), (start + rng.randint(0, 3), rng.choice(others or [link]), chunk, reduce)])


@mutation
def buffer_smaller(m, rng):
    if not m.network.switch_count:
        return None
    return replace(m, network=replace(m.network, buffers=np.full(m.network.switch_count, rng.randint(0, 2))))


@mutation
def multicast_gone(m, rng):
    if not m.network.multicast.any():
        return None
    return replace(m, network=replace(m.network, multicast=np.zeros(m.network.switch_count, np.bool_)))


@mutation
def switch_reduction_gone(m, rng):
    if not m.network.reduces.any():
        return None
    return replace(m, network=replace(m.network, reduces=np.zeros(m.network.switch_count, np.bool_)))


@mutation
def device_removed(m, rng):
    present = m.network.present.copy()
    present[rng.randrange(len(present))] = False
    return replace(m, network=replace(m.network, present=present))


@mutation
def link_to_itself(m, rng):
    target = m.network.target.copy()
    link = rng.randrange(len(target))
    target[link] = m.network.source[link]
    return replace(m, network=replace(m.network, target=target))


@mutation
def links_slower(m, rng):
    kinds = tuple(LinkKind(k.latency, k.bandwidth / 2) for k in m.network.kinds)
    return replace(m, network=replace(m.network, kinds=kinds))


@mutation
def latency_longer(m, rng):
    kinds = tuple(LinkKind(k.latency + 1, k.bandwidth) for k in m.network.kinds)
    return replace(m, network=replace(m.network, kinds=kinds))


@mutation
def other_link_model(m, rng):
    other = LinkModel.STORE if m.schedule.model is LinkModel.PIPELINED else LinkModel.PIPELINED
    return replace(m, schedule=RowSchedule(other, m.schedule.transfers))


@mutation
def squeezed(m, rng):
    return with_rows(m, [(r[0] * 2 // 3, *r[1:]) for r in rows_of(m)])


@mutation
def backwards(m, rng):
    end = end_of(m)
    return with_rows(m, [(end - r[0], *r[1:]) for r in rows_of(m)])


def with_table(m: Module, **fields) -> Module:
    """The demand as one run with some columns changed."""
    table = m.demand.chunks
    table = ChunkTable(**{name: fields.get(name, getattr(table, name)) for name in table.__dataclass_fields__})
    return replace(m, demand=Demand((Run("changed", np.empty(0, np.int32), table),)), planned=None)


@mutation
def chunk_larger(m, rng):
    return with_table(m, size=m.demand.chunks.size + rng.randint(1, 9))


@mutation
def more_wanted(m, rng):
    table = m.demand.chunks
    sets = [table.sets[k].tolist() for k in range(len(table.sets))]
    post = table.post.copy()
    post[rng.randrange(len(post))] = len(sets)
    return with_table(m, sets=HolderSets.of([*sets, list(range(m.network.npu_count))]), post=post)


@mutation
def holder_gone(m, rng):
    table = m.demand.chunks
    sets = [table.sets[k].tolist() for k in range(len(table.sets))]
    chunk = rng.randrange(len(table))
    pre = table.pre.copy()
    held = sets[int(pre[chunk])]
    pre[chunk] = len(sets)
    left = [npu for npu in held if npu != rng.choice(held)] if held else []
    return with_table(m, sets=HolderSets.of([*sets, left]), pre=pre)


@mutation
def copy_becomes_sum(m, rng):
    op = m.demand.chunks.op.copy()
    op[rng.randrange(len(op))] ^= 1
    return with_table(m, op=op)
