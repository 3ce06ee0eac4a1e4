"""Plans that were made: in memory up to a number of bytes, and on disk for all processes.

A plan on disk is one file, named by the hash of the request that it answers. Its first line is the hash of the rest, so
that a damaged file is found; it is removed then, and the plan is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from collc.application.planner.bounded_memory import BoundedMemory
from collc.base.atomic_files import write_file
from collc.base.diagnostics import CollcError
from collc.ten.module import Module

KIND: Final = "collc plan 1"


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What is known of a plan. Times are in picoseconds.

    run_times_ps: when the last chunk of each run has arrived. bound_ps, bound: with its chunks; ideal_ps, ideal: with
    any. patched: whether it is a schedule of the undamaged network with a listed difference. checks: the outcome of
    each.
    """

    time_ps: int
    run_times_ps: tuple[int, ...]
    bound_ps: int
    bound: str
    ideal_ps: int
    ideal: str
    synthesizer: str
    chunks: int | None
    transfers: int
    patched: bool
    checks: dict[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StoredPlan:
    """A plan of a canonical request. files: contents by name. module: with the schedule, None if it was read from
    disk.
    """

    key: str
    facts: PlanFacts
    files: dict[str, bytes]
    module: Module | None = None

    def encode(self) -> bytes:
        """The contents of its file."""
        sizes = {name: len(data) for name, data in self.files.items()}
        head = {"kind": KIND, "key": self.key, "facts": asdict(self.facts), "files": sizes}
        rest = b"".join([json.dumps(head, sort_keys=True).encode(), b"\n", *self.files.values()])
        return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def decode_plan(key: str, data: bytes) -> StoredPlan | None:
    """The plan of a file; None if the file is damaged, or that of another request."""
    checksum, _, rest = data.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        return None
    line, _, contents = rest.partition(b"\n")
    head: dict[str, Any] = json.loads(line)
    if head["kind"] != KIND or head["key"] != key:
        return None
    facts: dict[str, Any] = head["facts"]
    facts |= {name: tuple(facts[name]) for name in ("run_times_ps", "notes")}
    files: dict[str, bytes] = {}
    begin = 0
    for name, size in cast("dict[str, int]", head["files"]).items():
        files[name] = contents[begin : begin + size]
        begin += size
    return StoredPlan(key, PlanFacts(**facts), files)


@dataclass(eq=False)
class PlanStore:
    """Plans by key, for any number of threads. most: bytes in memory; the plans that were asked for last are kept.
    folder: None for none. unwritten: how many plans could not be written to it.
    """

    most: int
    folder: Path | None

    def __post_init__(self) -> None:
        self._plans = BoundedMemory[StoredPlan](self.most)
        self.unwritten = 0

    @property
    def byte_count(self) -> int:
        """Bytes of the plans in memory."""
        return self._plans.held

    def find(self, key: str) -> StoredPlan | None:
        """The plan of a key, from memory or disk."""
        plan = self._plans.find(key)
        if plan is None:
            plan = self._read(key)
            if plan is not None:
                self._plans.keep(key, plan)
        return plan

    def add(self, plan: StoredPlan) -> None:
        """Keep a plan in memory, and on disk if it can be written."""
        self._plans.keep(plan.key, plan)
        if self.folder is not None:
            try:
                write_file(self._path(plan.key), plan.encode())
            except (CollcError, OSError):  # a full disk loses no plan
                self.unwritten += 1

    def __len__(self) -> int:
        return len(self._plans)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / key

    def _read(self, key: str) -> StoredPlan | None:
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            plan = decode_plan(key, path.read_bytes())
        except OSError:
            return None
        if plan is None:
            with contextlib.suppress(OSError):
                path.unlink()
        return plan
