"""The planner: answers requests from plans of their canonical forms, and makes those that are missing.

A plan is made from its canonical request alone, so an answer depends neither on what was asked before nor on time,
unless a deadline is given.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from collc.application.compile.compilation import build_schedule
from collc.application.compile.compile_report import CompileReport
from collc.application.compile.planning import BuildInput
from collc.application.planner.answers import Answer, Origin
from collc.application.planner.plan_store import PlanFacts, PlanStore, StoredPlan
from collc.application.planner.requests import CanonicalRequest, PlanRequest, RequestClasses
from collc.application.settings import Settings
from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule, SourceFile
from collc.source.elaboration.elaborate import load_parts, load_program
from collc.source.program import ScheduleRequest
from collc.ten.module import Module
from collc.ten.repaired_schedule import RepairedSchedule


def _load_request(request: CanonicalRequest) -> ScheduleRequest:
    """The schedule of a canonical request. Raises SourceError."""
    schedule = load_program(SourceFile("<request>", request.text)).schedules[0]
    parts = request.renaming.parts
    if parts is None:
        return schedule
    assert schedule.failures is not None
    return schedule.failures.request((parts,))


def build_plan(request: CanonicalRequest, seconds: float | None = None) -> StoredPlan:
    """The plan of a canonical request, checked. seconds: limit of the search.

    Raises SourceError, NoSchedule or CheckFailed.
    """
    with TemporaryDirectory(prefix="collc-") as folder:
        emit = (request.runtime,) if request.runtime else ()
        settings = Settings(Path(folder), emit=emit, time_limit=seconds, keep_modules=True)
        report = build_schedule(BuildInput(_load_request(request), settings))
        CompileReport((report,)).raise_if_failed()
        files = {path.name: path.read_bytes() for path in report.files}
    module = report.kept_module()
    facts = PlanFacts(
        time_ps=report.time_ps or 0,
        run_times_ps=report.run_times_ps or (report.time_ps or 0,),
        bound_ps=report.bound_ps or 0,
        bound=report.bound or "",
        ideal_ps=report.ideal_ps or 0,
        ideal=report.ideal or "",
        synthesizer=report.synthesizer or "",
        chunks=report.chunks_per_block,
        transfers=report.transfer_count or 0,
        patched=isinstance(module.schedule, RepairedSchedule),
        checks=dict(report.checks),
        notes=report.notes,
    )
    return StoredPlan(request.key, facts, files, module)


@dataclass(eq=False)
class PlanningService:
    """Answers requests on one network, from any number of threads. classes: of requests. store: of plans."""

    classes: RequestClasses
    store: PlanStore
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _running: dict[str, Future[StoredPlan]] = field(default_factory=dict[str, Future[StoredPlan]])
    _asked: dict[PlanRequest, None] = field(default_factory=dict[PlanRequest, None])

    def __post_init__(self) -> None:
        self._behind = ThreadPoolExecutor(1, "collc-behind")
        self._limited = ThreadPoolExecutor(1, "collc-limited")

    @staticmethod
    def of(head: str, memory: int, folder: Path | None) -> PlanningService:
        """A planner for the network `net` that a program declares. Raises SourceError."""
        network, find = load_parts(SourceFile("<network>", f"{head}\n"), "net")
        return PlanningService(RequestClasses(head, network, find, memory // 2), PlanStore(memory // 2, folder))

    def look_up(self, request: PlanRequest) -> Answer | None:
        """The answer if its plan is made already. Raises SourceError or UsageError for a wrong request."""
        canonical = self.classes.canonical(request)
        plan = self.store.find(canonical.key)
        if plan is None:
            return None
        origin: Origin = "cache" if canonical.renaming.devices is None else "renamed"
        return self._answer(canonical, plan, origin)

    def answer(self, request: PlanRequest, within: float | None = None) -> Answer:
        """The answer. within: seconds after which the best schedule found so far is the answer.

        Raises SourceError or UsageError for a wrong request, NoSchedule if there is no schedule or none in time, and
        CheckFailed.
        """
        began = time.monotonic()
        answer = self.look_up(request)
        if answer is not None:
            return answer
        canonical = self.classes.canonical(request)
        if within is None:
            return self._plan_answer(canonical, self._make(canonical))
        limited = self._limited.submit(self._build_limited, canonical, began + within)
        try:
            plan = limited.result(max(0.0, began + within - time.monotonic()))
        except TimeoutError:
            message = f"there is no schedule within {within:g} s yet: the search goes on behind, so ask again"
            raise NoSchedule(Diagnostic("S0207", message)) from None
        finally:
            self.start(canonical)
        return self._plan_answer(canonical, plan, final=False)

    def start(self, canonical: CanonicalRequest) -> None:
        """Make the plan of a canonical request behind, if it is neither made nor being made."""
        with self._lock:
            if canonical.key in self._running:
                return
        self._behind.submit(self._make_quietly, canonical)

    def _make_quietly(self, canonical: CanonicalRequest) -> None:
        try:
            if self.store.find(canonical.key) is None:
                self._make(canonical)
        except CollcError:
            return  # whoever asks without a deadline gets the message

    def _build_limited(self, canonical: CanonicalRequest, deadline: float) -> StoredPlan:
        """The best plan found in half of the time until the deadline; the rest is for bounds and checks."""
        return build_plan(canonical, max(0.001, (deadline - time.monotonic()) / 2))

    def _make(self, canonical: CanonicalRequest) -> StoredPlan:
        """The plan of a canonical request; a thread that asks while another one makes it waits."""
        with self._lock:
            known = self._running.get(canonical.key)
            future: Future[StoredPlan] = known or Future()
            self._running[canonical.key] = future
        if known is not None:
            return known.result()
        try:
            plan = build_plan(canonical)
            self.store.add(plan)
            future.set_result(plan)
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._running[canonical.key]
        return plan

    def _plan_answer(self, canonical: CanonicalRequest, plan: StoredPlan, *, final: bool = True) -> Answer:
        return self._answer(canonical, plan, "patched" if plan.facts.patched else "new", final=final)

    def _answer(self, canonical: CanonicalRequest, plan: StoredPlan, origin: Origin, *, final: bool = True) -> Answer:
        return Answer(origin, final, canonical.renaming.ranks, plan, canonical, self._module_again)

    def _module_again(self, canonical: CanonicalRequest) -> Module:
        """The module of a plan that was read from disk, planned again."""
        plan = build_plan(canonical)
        self.store.add(plan)
        assert plan.module is not None
        return plan.module

    def wait(self) -> None:
        """Wait for what is being planned behind."""
        self._behind.submit(bool).result()

    def close(self) -> None:
        """End the threads, after what they do now; what waits is not done."""
        for pool in (self._limited, self._behind):
            pool.shutdown(wait=True, cancel_futures=True)
