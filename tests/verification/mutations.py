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
Rows = list[Row]


def end_of(module: Module) -> int:
    return module.schedule.collective_time(module.network, module.demand)


def all_rows(change: Callable[[Rows, Module, random.Random], Rows]) -> Mutation:
    """A change of the transfers, which does not apply if there is nothing to choose from."""

    def mutate(m: Module, rng: random.Random) -> Module | None:
        try:
            return with_rows(m, change(rows_of(m), m, rng))
        except (IndexError, ValueError):
            return None

    return mutate


def one_row(change: Callable[[Row, Module, random.Random], Row]) -> Mutation:
    """A change of a random transfer."""

    def rows(rows: Rows, m: Module, rng: random.Random) -> Rows:
        place = rng.randrange(len(rows))
        rows[place] = change(rows[place], m, rng)
        return rows

    return all_rows(rows)


def exchanged(column: int) -> Mutation:
    """Two transfers with their values of a column exchanged."""

    def rows(rows: Rows, _m: Module, rng: random.Random) -> Rows:
        i, j = rng.sample(range(len(rows)), 2)
        a, b = rows[i], rows[j]
        rows[i] = (*a[:column], b[column], *a[column + 1 :])
        rows[j] = (*b[:column], a[column], *b[column + 1 :])
        return rows

    return all_rows(rows)


def network(change: Callable[[Module, random.Random], dict[str, object]]) -> Mutation:
    """The network with other values; none if it has no such parts."""

    def mutate(m: Module, rng: random.Random) -> Module | None:
        values = change(m, rng)
        return replace(m, network=replace(m.network, **values)) if values else None

    return mutate


def demand(change: Callable[[ChunkTable, list[list[int]], Module, random.Random], dict[str, object]]) -> Mutation:
    """The demand as one run with other columns; the change may add to the sets of holders."""

    def mutate(m: Module, rng: random.Random) -> Module | None:
        table = m.demand.chunks
        sets = [table.sets[k].tolist() for k in range(len(table.sets))]
        values = change(table, sets, m, rng)
        columns = {name: getattr(table, name) for name in table.__dataclass_fields__}
        run = Run("changed", np.empty(0, np.int32), ChunkTable(**(columns | {"sets": HolderSets.of(sets)} | values)))
        return replace(m, demand=Demand((run,)), planned=None)

    return mutate


def without(rows: Rows, place: int) -> Rows:
    return rows[:place] + rows[place + 1 :]


def sums(rows: Rows) -> Rows:
    return [row for row in rows if row[3]]


def links_beside(m: Module, link: int) -> list[int]:
    """The links that leave the device of a link."""
    return np.flatnonzero(m.network.source == m.network.source[link]).tolist()


def links_back(m: Module, link: int) -> list[int]:
    net = m.network
    back = (net.source == net.target[link]) & (net.target == net.source[link])
    return np.flatnonzero(back).tolist() or [link]


def changed_at(values: np.ndarray, place: int, value: object) -> np.ndarray:
    new = values.copy()
    new[place] = value
    return new


def other_flags(rows: Rows, of: Rows, rng: random.Random, reduce: bool) -> Rows:
    """All transfers of a chunk reduce, or none."""
    chunk = rng.choice(of)[2]
    return [(*r[:3], (r[3] or r[2] == chunk) if reduce else (r[3] and r[2] != chunk)) for r in rows]


def added(rows: Rows, m: Module, rng: random.Random, reduce: bool) -> Rows:
    """A partial leaves its device once more, at some time (reduce), or soon, as a copy."""
    start, link, chunk, _ = rng.choice(sums(rows))
    when = rng.randint(0, end_of(m) * 2) if reduce else start + rng.randint(0, 40)
    return [*rows, (when, rng.choice(links_beside(m, link)), chunk, reduce)]


def on_two_links(rows: Rows, m: Module, rng: random.Random) -> Rows:
    start, link, chunk, reduce = rng.choice([r for r in rows if m.network.source[r[1]] >= m.network.npu_count])
    others = [other for other in links_beside(m, link) if other != link]
    return [*rows, (start + rng.randint(0, 3), rng.choice(others or [link]), chunk, reduce)]


def some_transfer(m: Module, rng: random.Random) -> Row:
    row = (rng.randint(0, end_of(m) + 9), rng.randrange(m.network.link_count), rng.randrange(len(m.demand.chunks)))
    return (*row, rng.random() < 0.5)


def other_kinds(change: Callable[[LinkKind], LinkKind]) -> Mutation:
    return network(lambda m, rng: {"kinds": tuple(map(change, m.network.kinds))})


def switch_flag_gone(name: str) -> Mutation:
    return network(
        lambda m, rng: {name: np.zeros(m.network.switch_count, np.bool_)} if getattr(m.network, name).any() else {}
    )


def link_to_itself(m: Module, rng: random.Random) -> dict[str, object]:
    link = rng.randrange(m.network.link_count)
    return {"target": changed_at(m.network.target, link, m.network.source[link])}


def wanted_by_all(table: ChunkTable, sets: list[list[int]], m: Module, rng: random.Random) -> dict[str, object]:
    sets.append(list(range(m.network.npu_count)))
    return {"post": changed_at(table.post, rng.randrange(len(table)), len(sets) - 1)}


def a_holder_less(table: ChunkTable, sets: list[list[int]], m: Module, rng: random.Random) -> dict[str, object]:
    chunk = rng.randrange(len(table))
    held = sets[int(table.pre[chunk])]
    lost = rng.choice(held) if held else None
    sets.append([npu for npu in held if npu != lost])
    return {"pre": changed_at(table.pre, chunk, len(sets) - 1)}


def other_model(m: Module, rng: random.Random) -> Module:
    other = LinkModel.STORE if m.schedule.model is LinkModel.PIPELINED else LinkModel.PIPELINED
    return replace(m, schedule=RowSchedule(other, m.schedule.transfers))


MUTATIONS: dict[str, Mutation] = {
    "dropped": all_rows(lambda rows, m, rng: without(rows, rng.randrange(len(rows)))),
    "truncated": all_rows(lambda rows, m, rng: rows[: rng.randrange(len(rows))]),
    "emptied": all_rows(lambda rows, m, rng: []),
    "headless": all_rows(lambda rows, m, rng: rows[rng.randint(1, len(rows)) :]),
    "duplicated_at_once": all_rows(lambda rows, m, rng: [*rows, rng.choice(rows)]),
    "duplicated_at_the_end": all_rows(lambda rows, m, rng: [*rows, (end_of(m), *rng.choice(rows)[1:])]),
    "chunks_swapped": exchanged(2),
    "starts_swapped": exchanged(0),
    "links_swapped": exchanged(1),
    "at_zero": one_row(lambda r, m, rng: (0, *r[1:])),
    "early": one_row(lambda r, m, rng: (r[0] // 2, *r[1:])),
    "early_by_1ps": one_row(lambda r, m, rng: (max(0, r[0] - 1), *r[1:])),
    "late_by_1ps": one_row(lambda r, m, rng: (r[0] + 1, *r[1:])),
    "late": one_row(lambda r, m, rng: (r[0] + rng.randint(2, 60), *r[1:])),
    "negative_time": one_row(lambda r, m, rng: (-rng.randint(1, 9), *r[1:])),
    "wrong_link": one_row(lambda r, m, rng: (r[0], rng.randrange(m.network.link_count), *r[2:])),
    "link_of_the_same_source": one_row(lambda r, m, rng: (r[0], rng.choice(links_beside(m, r[1])), *r[2:])),
    "link_turned_round": one_row(lambda r, m, rng: (r[0], rng.choice(links_back(m, r[1])), *r[2:])),
    "link_that_is_not_there": one_row(lambda r, m, rng: (r[0], rng.choice([-1, m.network.link_count, 10**6]), *r[2:])),
    "wrong_chunk": one_row(lambda r, m, rng: (*r[:2], rng.randrange(len(m.demand.chunks)), r[3])),
    "chunk_that_is_not_there": one_row(lambda r, m, rng: (*r[:2], rng.choice([-1, len(m.demand.chunks), 10**6]), r[3])),
    "flag_flipped": one_row(lambda r, m, rng: (*r[:3], not r[3])),
    "chunk_only_copied": all_rows(lambda rows, m, rng: other_flags(rows, sums(rows), rng, reduce=False)),
    "chunk_only_reduced": all_rows(lambda rows, m, rng: other_flags(rows, rows, rng, reduce=True)),
    "contribution_lost": all_rows(lambda rows, m, rng: without(rows, rows.index(rng.choice(sums(rows))))),
    "contribution_doubled": all_rows(lambda rows, m, rng: added(rows, m, rng, reduce=True)),
    "partial_copied": all_rows(lambda rows, m, rng: added(rows, m, rng, reduce=False)),
    "transfer_added": all_rows(lambda rows, m, rng: [*rows, some_transfer(m, rng)]),
    "on_two_links_of_a_switch": all_rows(on_two_links),
    "buffer_smaller": network(
        lambda m, rng: {"buffers": np.full(m.network.switch_count, rng.randint(0, 2))} if m.network.switch_count else {}
    ),
    "multicast_gone": switch_flag_gone("multicast"),
    "switch_reduction_gone": switch_flag_gone("reduces"),
    "device_removed": network(
        lambda m, rng: {"present": changed_at(m.network.present, rng.randrange(m.network.device_count), False)}
    ),
    "link_to_itself": network(link_to_itself),
    "links_slower": other_kinds(lambda kind: LinkKind(kind.latency, kind.bandwidth / 2)),
    "latency_longer": other_kinds(lambda kind: LinkKind(kind.latency + 1, kind.bandwidth)),
    "other_link_model": other_model,
    "squeezed": all_rows(lambda rows, m, rng: [(r[0] * 2 // 3, *r[1:]) for r in rows]),
    "backwards": all_rows(lambda rows, m, rng: [(end_of(m) - r[0], *r[1:]) for r in rows]),
    "chunk_larger": demand(lambda table, sets, m, rng: {"size": table.size + rng.randint(1, 9)}),
    "more_wanted": demand(wanted_by_all),
    "holder_gone": demand(a_holder_less),
    "copy_becomes_sum": demand(
        lambda table, sets, m, rng: {
            "op": changed_at(table.op, place := rng.randrange(len(table)), table.op[place] ^ 1)
        }
    ),
}
