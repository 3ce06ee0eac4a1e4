"""Ranks that make a group: what they learn of one another, and when one fails or does not come."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from collc.runtime.placement import Names
from collc.runtime.rendezvous import Rendezvous
from collc.runtime.schedules import ScheduleError


class Store:
    """As torch's, for the threads of a process."""

    def __init__(self) -> None:
        self.values, self.lock = {}, threading.Lock()

    def set(self, key, value):
        self.values[key] = value.encode()

    def get(self, key):
        return self.values[key]

    def check(self, keys):
        return all(key in self.values for key in keys)

    def add(self, key, count):
        with self.lock:
            self.values[key] = self.values.get(key, 0) + count
            return self.values[key]

    def compare_set(self, key, expected, value):
        return self.values.setdefault(key, value.encode())


def outcomes(do, seconds=10.0):
    """What each of three ranks returned or raised."""
    store = Store()

    def run(rank):
        try:
            return do(rank, Rendezvous(store, rank, 3, seconds))
        except (ScheduleError, ValueError) as error:
            return str(error)

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(run, range(3)))


def test_all_come():
    def do(rank, rendezvous):
        names = rendezvous.names(Names("", (f"GPU{rank}",)))
        rendezvous.check_files("equal")
        rendezvous.meet()
        return [name.found for name in names]

    assert outcomes(do) == [[("GPU0",), ("GPU1",), ("GPU2",)]] * 3


def test_files_that_differ():
    said = outcomes(lambda rank, rendezvous: rendezvous.check_files("other" if rank == 1 else "mine"))
    assert said == [None, "the run files of rank 1 differ from those of rank 0", None]


@pytest.mark.parametrize("wait", ["meet", "names"])
def test_a_rank_that_fails_or_does_not_come(wait):
    """The one that fails is named with its reason, long before the time is over."""

    def do(rank, rendezvous):
        if rank == 2:
            return rendezvous.failure("rank 2 is ill") if fails else None
        try:
            return rendezvous.meet() if wait == "meet" else rendezvous.names(Names("", ()))
        except ScheduleError as error:
            return rendezvous.failure(f"rank {rank}: {error}") if fails else str(error)

    fails = True
    said = [f"rank {rank}: another rank failed; before that, rank 2 is ill" for rank in (0, 1)]
    assert outcomes(do, 60) == [*said, "rank 2 is ill"]
    fails = False
    whom = "another rank" if wait == "meet" else "rank 2"
    assert outcomes(do, 0.2) == [f"it waits for {whom}, which did not come within 0.2 seconds"] * 2 + [None]
