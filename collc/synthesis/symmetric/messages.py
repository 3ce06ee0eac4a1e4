"""The transfers of a plan as messages from NPU to NPU, over any switches, and the moves that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from collc.synthesis.symmetric.class_timetable import ClassTimes
from collc.ten.arrays import Int32Array, Int64Array, find_keys
from collc.ten.factored_schedule import Translations
from collc.ten.network import Network
from collc.ten.schedule import Transfers


@dataclass(frozen=True, eq=False)
class Messages:
    """What takes the chunks of the representative from NPU to NPU, over any switches. Elements stand for NPUs.

    chunk: int32. sender, target: int32, elements. rows: int64[messages, hops], the transfers, -1 after the last.
    parent: int64, the message that brings the chunk to the sender; -1 for the representative itself. start, arrival:
    int64, picoseconds.
    """

    chunk: Int32Array
    sender: Int32Array
    target: Int32Array
    rows: Int64Array
    parent: Int64Array
    start: Int64Array
    arrival: Int64Array

    @staticmethod
    def of(network: Network, translations: Translations, times: ClassTimes, rows: Transfers) -> Messages:
        """The messages of transfers. A switch passes on the n-th of a chunk that comes as the n-th that leaves."""
        npus, source, target = network.npu_count, network.source[rows.link], network.target[rows.link]
        arrival = rows.start + times.window[rows.link]
        came, left = np.flatnonzero(target >= npus), np.flatnonzero(source >= npus)
        after = np.full(len(rows) + 1, -1, np.int64)  # the last is that of no row
        after[came[np.lexsort((arrival[came], target[came], rows.chunk[came]))]] = left[
            np.lexsort((rows.start[left], source[left], rows.chunk[left]))
        ]
        hops = [np.flatnonzero(source < npus)]
        last = hops[0]
        while bool((hops[-1] >= 0).any()):
            last = np.where(hops[-1] >= 0, hops[-1], last)
            hops.append(after[hops[-1]])
        chunk, element = rows.chunk[hops[0]], translations.element_of
        sender, reached = element[source[hops[0]]], element[target[last]]
        base = chunk.astype(np.int64) * translations.count
        key = base + reached
        order = np.lexsort((-np.arange(len(key)), arrival[last], key))
        earliest = order[np.r_[True, np.diff(key[order]) > 0]] if len(order) else order
        position, is_sent_on = find_keys(key[earliest], base + sender)
        parent = np.where((sender > 0) & is_sent_on, earliest[position] if len(order) else -1, -1)
        start = rows.start[hops[0]]
        return Messages(chunk, sender, reached, np.stack(hops[:-1], axis=1), parent, start, arrival[last])


class Moves(NamedTuple):
    """The different steps of messages, and how they are made.

    steps: int64[moves], elements. move_of: int64[messages]. routes: int64[moves + 1], the first route of each move, and
    the end. bounds, row, element: the links of each route from element 0, as rows of `class_links` and elements (CSR).
    windows: int64[moves], picoseconds. by_rank: int64[moves], the
    fastest first. nearest: those that are as fast as the first. tried: how many senders an NPU that lacks a chunk
    considers at first, and how many receivers an NPU that has got it: as many as a node has NPUs. onward: the moves to
    these, the fastest first.
    """

    steps: Int64Array
    move_of: Int64Array
    routes: Int64Array
    bounds: Int64Array
    row: Int32Array
    element: Int32Array
    windows: Int64Array
    by_rank: Int64Array
    nearest: Int64Array
    tried: int
    onward: Int64Array

    @staticmethod
    def of(messages: Messages, translations: Translations, times: ClassTimes, rows: Transfers) -> Moves:
        """The moves of messages."""
        step = translations.difference(messages.target, messages.sender)
        steps, move_of = np.unique(step, return_inverse=True)
        # Messages of one move have one route if their links are of the same classes, and as far from their senders.
        number = move_of.astype(np.int64)
        for hop in messages.rows.T:
            link = rows.link[np.maximum(hop, 0)]
            element = translations.difference(translations.link_element[link], messages.sender)
            image = translations.class_row[link].astype(np.int64) * translations.count + element
            number = number * (translations.class_links.size + 1) + np.where(hop >= 0, image + 1, 0)
            number = np.unique(number, return_inverse=True)[1]
        first = np.unique(number, return_index=True)[1]
        row = messages.rows[first]
        route, _ = np.nonzero(row >= 0)
        link = rows.link[row[row >= 0]]
        element = translations.difference(translations.link_element[link], messages.sender[first][route])
        routes = csr_bounds(move_of[first], len(steps))
        windows = np.bincount(route, weights=times.window[link], minlength=len(first)).astype(np.int64)
        windows = np.minimum.reduceat(windows, routes[:-1])
        order = np.argsort(windows, kind="stable")
        near = int(np.count_nonzero(windows == windows[order[:1]]))
        others, tried = order[near:], 1 + near
        spaced = others[:: max(1, len(others) // (3 * tried))]
        onward = np.concatenate([order[:near], others[:tried], spaced[~np.isin(spaced, others[:tried])]])
        bounds, position = csr_bounds(route, len(first)), translations.class_row[link]
        return Moves(
            steps.astype(np.int64),
            move_of.reshape(-1),
            routes,
            bounds,
            position,
            element,
            windows,
            order,
            order[:near],
            tried,
            onward,
        )


def csr_bounds(number: Int32Array | Int64Array, count: int) -> Int64Array:
    """int64[count + 1]: where the rows of each number begin in order, and the end."""
    return np.append(0, np.cumsum(np.bincount(number, minlength=count)))
