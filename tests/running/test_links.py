"""Frames between ranks over TCP: in any order of ranks, longer than what connections hold, and when a rank is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue

import pytest

from collc.runtime.links import BrokenLink, Links
from collc.runtime.rounds import Message, RankRounds, Round, Rows
from collc.runtime.tcp import AT_ONCE


class Store:
    def __init__(self) -> None:
        self.values, self.changed = {}, threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self.changed:
            self.values[key] = value.encode()
            self.changed.notify_all()

    def get(self, key: str) -> bytes:
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.values, 10)
            return self.values[key]


def on_ranks(ranks: int, do: Callable[[int, Links], object], seconds: float = 10) -> list[object]:
    """What each rank returned or raised."""
    store, results = Store(), [Queue() for _ in range(ranks)]

    def run(rank: int) -> None:
        links = Links(store, rank, ranks, "127.0.0.1", seconds)
        try:
            results[rank].put(do(rank, links))
        except BrokenLink as error:
            results[rank].put(str(error))
        finally:
            links.close()

    for rank in range(ranks):
        threading.Thread(target=run, args=(rank,), daemon=True).start()
    return [result.get(timeout=30) for result in results]


def exchange(rank: int, links: Links, peers: list[int], size: int, about: int = 7, rounds: int = 3) -> bytes:
    """Send two messages to each peer in each round. Returns what came in the last one."""
    into = bytearray(2 * len(peers) * size)
    memory = bytes([rank]) * (2 * size), into
    rows = Rows(RankRounds([], [], ((0, 2), (2, 2 * len(peers)))), [memoryview(data) for data in memory], size)
    step = Round()
    for number, peer in enumerate(peers):
        step.sends.extend((Message(0, peer, 0, 1), Message(1, peer, 1, 1)))
        step.receives.extend((Message(0, peer, 2 + 2 * number, 1), Message(1, peer, 3 + 2 * number, 1)))
    links.connect(peers)
    call = links.frames(rows, step, about)
    for _ in range(rounds):
        call()
    return bytes(into)


@pytest.mark.parametrize("size", [1, AT_ONCE, 8 << 20])
def test_all_exchange_with_all(size):
    def do(rank: int, links: Links) -> bytes:
        return exchange(rank, links, [peer for peer in range(3) if peer != rank], size)

    for rank, got in enumerate(on_ranks(3, do)):
        assert got == b"".join(bytes([peer]) * (2 * size) for peer in range(3) if peer != rank)


def test_ranks_that_make_different_calls():
    one, two = on_ranks(2, lambda rank, links: exchange(rank, links, [1 - rank], 4, about=rank))
    assert "makes another call" in f"{one} {two}"
    one, two = on_ranks(2, lambda rank, links: exchange(rank, links, [1 - rank], 4 + rank))
    assert "makes another call" in f"{one} {two}"


@pytest.mark.parametrize("size", [4, 8 << 20])
def test_a_rank_that_stops(size):
    def do(rank: int, links: Links) -> object:
        exchange(rank, links, [1 - rank], size, rounds=1)
        return exchange(rank, links, [1], size) if rank == 0 else None

    lost, _ = on_ranks(2, do)
    assert "rank 1" in str(lost)


@pytest.mark.parametrize("size", [4, 8 << 20])
def test_a_rank_that_is_silent(size):
    ended = threading.Event()

    def do(rank: int, links: Links) -> object:
        links.connect([1 - rank])
        if rank:
            return ended.wait(10)
        try:
            return exchange(rank, links, [1], size)
        finally:
            ended.set()

    assert on_ranks(2, do, seconds=1) == ["it waits for a message from rank 1: nothing moved for 1 seconds", True]


def test_a_rank_that_does_not_come():
    def do(rank: int, links: Links) -> object:
        return links.connect([1]) if rank == 0 else None

    assert on_ranks(2, do, seconds=1)[0] == "it waits for a message from rank 1: it did not connect in time"
