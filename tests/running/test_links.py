"""Frames between ranks over TCP: in any order of ranks, longer than what connections hold, and when a rank is gone."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue

import pytest

from collc.runtime.links import BrokenLink, Frame, Links, own_address
from collc.runtime.rounds import Message, RankRounds, Round, Rows
from collc.runtime.tcp import AT_ONCE, GREETING


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


def on_ranks(
    ranks: int, do: Callable[[int, Links], object], seconds: float = 10, host: str = "127.0.0.1"
) -> list[object]:
    """What each rank returned or raised."""
    store, results = Store(), [Queue() for _ in range(ranks)]

    def run(rank: int) -> None:
        links = Links(store, rank, ranks, host, seconds)
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
    if not links._link_of:
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


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6")
def test_ipv6():
    assert on_ranks(2, lambda rank, links: exchange(rank, links, [1 - rank], 1), host="::1") == [b"\1\1", b"\0\0"]


def test_the_address_of_a_rank(monkeypatch):
    """By the name of the host, of which one address may be of another host; or of an interface."""
    for of_host, own in (("::1", "::1"), ("192.0.2.1", "127.0.0.1")):
        found = [(0, 0, 0, "", (address, 0)) for address in ("192.0.2.1", of_host)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, found=found, **_options: found)
        assert own_address() == own
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert own_address() == "127.0.0.1"
    monkeypatch.setattr("fcntl.ioctl", lambda *_args: (_ for _ in ()).throw(OSError))
    assert own_address() == "::1"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none")
    with pytest.raises(OSError, match="the interface none of GLOO_SOCKET_IFNAME has no address"):
        own_address()


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


@pytest.mark.parametrize(("size", "seconds"), [(4, 0.5), (4, 1), (8 << 20, 1)])
def test_a_rank_that_is_silent(size, seconds):
    ended = threading.Event()

    def do(rank: int, links: Links) -> object:
        links.connect([1 - rank])
        if rank:
            return ended.wait(10)
        try:
            return exchange(rank, links, [1], size)
        finally:
            ended.set()

    said = f"it waits for a message from rank 1: nothing moved for {seconds} seconds"
    assert on_ranks(2, do, seconds=seconds) == [said, True]


def test_a_time_out_of_years():
    def do(rank: int, links: Links) -> bytes:
        return exchange(rank, links, [1 - rank], 8 << 20)[:1]

    assert on_ranks(2, do, seconds=1e8) == [b"\1", b"\0"]


@pytest.mark.parametrize("does", ["exchange", "connect"])
def test_a_group_that_another_thread_ends(does):
    """Both ranks wait for a message, or rank 0 for a connection, when rank 0 closes."""

    def do(rank: int, links: Links) -> object:
        if does == "connect" and rank:
            return None
        if does == "exchange":
            links.connect([1 - rank])
        if not rank:
            threading.Timer(0.2, links.close).start()
        if does == "connect":
            return links.connect([1])
        frame = Frame(1 - rank, links._link_of[1 - rank], [memoryview(bytearray(20))], 20, bytes(16))
        return links._exchange([], [frame])

    began = time.monotonic()
    results = on_ranks(2, do, seconds=25)
    assert "it waits for a message from rank 1" in str(results[0])
    assert does == "connect" or results[1] == "it waits for a message from rank 0: it closed the connection"
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_strangers_keep_no_rank_waiting():
    """More than there are places for, silent ones and one that knows no token, before the ranks connect."""
    strangers: list[socket.socket] = []

    def do(rank: int, links: Links) -> bytes:
        if rank:
            host, port, _ = links._store.get("links/0").decode().split()
            strangers.extend(socket.create_connection((host, int(port))) for _ in range(30))
            strangers[-1].sendall(bytes(GREETING.size))
        return exchange(rank, links, [1 - rank], 4)[:1]

    assert on_ranks(2, do, seconds=25) == [b"\1", b"\0"]
    for stranger in strangers:
        stranger.close()


@pytest.mark.parametrize(("ends", "reason"), [(False, "it did not connect in time"), (True, "it has ended")])
def test_a_rank_that_does_not_come(ends, reason):
    """The one that ends is named soon, the one that does something else when the time is over."""
    ended = threading.Event()

    def do(rank: int, links: Links) -> object:
        if rank:
            return ends or ended.wait(10)
        try:
            return links.connect([1])
        finally:
            ended.set()

    said = on_ranks(2, do, seconds=25 if ends else 0.5)[0]
    assert said == f"it waits for a message from rank 1: {reason}"
