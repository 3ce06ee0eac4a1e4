"""The planner: answers requests from plans of their canonical forms, and makes those that are missing.

A plan is made from its canonical request alone, so an answer depends neither on what was asked before nor on time,
unless a deadline is given.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from collc.application.compile.compilation import build_schedule
from collc.application.compile.compile_report import CompileReport
from collc.application.compile.fallbacks import compact_request
from collc.application.compile.planning import BuildInput
from collc.application.planner.answers import Answer, Origin
from collc.application.planner.plan_store import PlanFacts, PlanStore, StoredPlan
from collc.application.planner.requests import SCHEDULE, CanonicalRequest, PlanRequest, RequestClasses
from collc.application.settings import Settings
from collc.base.diagnostics import Diagnostic, NoSchedule, SourceFile
from collc.kernels.compiled import STEP_TIME, is_long
from collc.source.elaboration.elaborate import load_parts, load_program
from collc.source.program import ScheduleRequest
from collc.synthesis.bounds import forget_demands
from collc.synthesis.symmetric.repair import load_kernels
from collc.ten.module import Module
from collc.ten.repaired_schedule import RepairedSchedule
from collc.ten.schedule import RowSchedule


def _load_request(request: CanonicalRequest) -> ScheduleRequest:
    """The schedule of a canonical request. Raises SourceError."""
    return load_program(request.source, only=SCHEDULE, without=request.renaming.parts).schedules[0]


def build_plan(request: CanonicalRequest, seconds: float | None = None) -> StoredPlan:
    """The plan of a canonical request, checked. seconds: limit of the search.

    Raises SourceError, NoSchedule or CheckFailed.
    """
    try:
        return _build_plan(request, seconds)
    finally:
        forget_demands()  # what bounds keep is beyond the memory for plans


def _build_plan(request: CanonicalRequest, seconds: float | None) -> StoredPlan:
    with TemporaryDirectory(prefix="collc-") as folder:
        emit = (request.runtime,) if request.runtime else ()
        settings = Settings(Path(folder), emit=emit, time_limit=seconds, keep_modules=True)
        report = build_schedule(BuildInput(compact_request(_load_request(request)), settings))
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


def build_files(request: CanonicalRequest, seconds: float | None = None) -> StoredPlan:
    """The plan without its module, as another process sends it. Raises as `build_plan`."""
    return replace(build_plan(request, seconds), module=None)


class Threads:
    """Makes plans in two threads of this process: one for searches without a limit, one for those with a deadline."""

    def __init__(self) -> None:
        self._behind = ThreadPoolExecutor(1, "collc-behind")
        self._limited = ThreadPoolExecutor(1, "collc-limited")

    def load_kernels(self) -> None:
        """Begin to load what repairs plans."""
        self._behind.submit(load_kernels)

    def submit(self, request: CanonicalRequest, seconds: float | None = None) -> Future[StoredPlan]:
        """Begin to make a plan. seconds: limit of the search."""
        return (self._behind if seconds is None else self._limited).submit(build_plan, request, seconds)

    def close(self) -> None:
        """End the threads, after what they do now; what waits is not done."""
        for pool in (self._limited, self._behind):
            pool.shutdown(wait=True, cancel_futures=True)


class Processes:
    """Makes plans in two other processes, which give way to this one, without their modules."""

    def __init__(self) -> None:
        self._pools = [_new_pool(), _new_pool()]

    def load_kernels(self) -> None:
        """Begin to load what repairs plans."""
        for pool in self._pools:
            pool.submit(load_kernels)

    def submit(self, request: CanonicalRequest, seconds: float | None = None) -> Future[StoredPlan]:
        """Begin to make a plan. seconds: limit of the search."""
        number = 0 if seconds is None else 1
        try:
            return self._pools[number].submit(build_files, request, seconds)
        except BrokenExecutor:  # its process died; the next one may not
            self._pools[number] = _new_pool()
            return self._pools[number].submit(build_files, request, seconds)

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        for pool in self._pools:
            pool.shutdown(wait=True)


def _new_pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_yield_to_parent)


def _yield_to_parent() -> None:
    """Let other processes go first, leave Ctrl-C to the parent, and end when it ends, however busy this one is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(10)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@dataclass(eq=False)
class _Making:
    """A plan that is being made. work: of the worker. plan: done when it is kept. waiting: how many wait for it."""

    work: Future[StoredPlan]
    plan: Future[StoredPlan] = field(default_factory=Future[StoredPlan])
    waiting: int = 1


@dataclass(eq=False)
class PlanningService:
    """Answers requests on one network, from any number of threads. classes: of requests. store: of plans. workers: what
    makes plans.
    """

    classes: RequestClasses
    store: PlanStore
    workers: Threads | Processes
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _running: dict[tuple[str, float | None], _Making] = field(default_factory=dict[tuple[str, float | None], _Making])

    @staticmethod
    def of(
        head: SourceFile,
        topology: str | None,
        memory: int,
        folder: Path | None,
        workers: Threads | Processes | None = None,
    ) -> PlanningService:
        """A planner for a topology of a program; None for the one that no other uses. Raises SourceError."""
        classes = RequestClasses(head, load_parts(head, topology), memory // 2)
        workers = workers or Threads()
        if is_long(STEP_TIME * len(classes.network.npus) ** 2):  # repairs of plans for that many are compiled
            workers.load_kernels()
        return PlanningService(classes, PlanStore(memory // 2, folder), workers)

    @property
    def plans_waiting(self) -> int:
        """How many plans are being made, or wait for that, with and without a deadline."""
        return len(self._running)

    def is_making(self, canonical: CanonicalRequest, within: float | None) -> bool:
        """Whether the plan of a request with a deadline, None for none, is being made."""
        return (canonical.key, within) in self._running

    def look_up(self, request: PlanRequest) -> Answer | CanonicalRequest:
        """The answer if its plan is made already, else what to plan. Raises SourceError or UsageError for a wrong
        request.
        """
        canonical = self.classes.canonical(request)
        plan = self.store.find(canonical.key)
        if plan is None:
            return canonical
        return self._answer(canonical, plan, "cache" if canonical.renaming.devices is None else "renamed")

    def answer(self, request: PlanRequest, within: float | None = None) -> Answer:
        """The answer. within: seconds after which the best schedule found so far is the answer.

        Raises SourceError or UsageError for a wrong request, NoSchedule if there is no schedule or none in time, and
        CheckFailed.
        """
        known = self.look_up(request)
        if isinstance(known, Answer):
            return known
        if within is None:
            return self.answer_of(known, self.start(known).result())
        limited = self.start_limited(known, within)
        try:
            return self.answer_of(known, limited.result(within), final=False)
        except TimeoutError:
            self.give_up(known, within, limited)
            raise too_late(within) from None

    def start(self, canonical: CanonicalRequest) -> Future[StoredPlan]:
        """Begin to make the plan of a canonical request, unless that has begun. It is kept when it is made."""
        with self._lock:
            plan = self.store.find(canonical.key)  # made since somebody looked
            if plan is None:
                return self._begin(canonical, None)
        done: Future[StoredPlan] = Future()
        done.set_result(plan)
        return done

    def _begin(self, canonical: CanonicalRequest, within: float | None) -> Future[StoredPlan]:
        """The plan that is being made for a request and a deadline: one for all who ask."""
        key = canonical.key, within
        with self._lock:
            making = self._running.get(key)
            if making is not None:
                making.waiting += 1
                return making.plan
            seconds = None if within is None else max(0.001, within / 2)
            making = self._running[key] = _Making(self.workers.submit(canonical, seconds))
        making.work.add_done_callback(lambda _: self._finish(key, making))
        return making.plan

    def _finish(self, key: tuple[str, float | None], making: _Making) -> None:
        """Keep a plan that was made without a deadline, and tell those who wait for it."""
        error: BaseException | None = None
        try:
            plan = making.work.result()
            if key[1] is None:
                self.store.add(plan)
        except BaseException as failed:
            error = failed
        finally:
            with self._lock:
                del self._running[key]
        if error is None:
            making.plan.set_result(making.work.result())
        else:
            making.plan.set_exception(error)

    def give_up(self, canonical: CanonicalRequest, within: float, plan: Future[StoredPlan]) -> None:
        """Wait no longer for a plan with a deadline: if nobody else does and it has not begun, it is not made."""
        with self._lock:
            making = self._running.get((canonical.key, within))
            if making is None or making.plan is not plan:
                return
            making.waiting -= 1
            if making.waiting == 0:
                making.work.cancel()

    def start_limited(self, canonical: CanonicalRequest, within: float) -> Future[StoredPlan]:
        """Begin to make the best plan that half of a time gives, the rest of which is for bounds and checks; then the
        search without a limit goes on behind.
        """
        limited = self._begin(canonical, within)
        self.start(canonical)
        return limited

    def answer_of(self, canonical: CanonicalRequest, plan: StoredPlan, *, final: bool = True) -> Answer:
        """The answer with a plan that was made."""
        return self._answer(canonical, plan, "patched" if plan.facts.patched else "new", final=final)

    def _answer(self, canonical: CanonicalRequest, plan: StoredPlan, origin: Origin, *, final: bool = True) -> Answer:
        return Answer(origin, final, canonical.renaming.ranks, plan, canonical, self._module_of)

    def _module_of(self, canonical: CanonicalRequest, plan: StoredPlan) -> Module:
        """The module of a plan, on the network of its request. A plan that was read from disk is planned again."""
        if plan.module is None:
            plan = build_plan(canonical)
            self.store.add(plan)
        module = plan.module
        assert module is not None
        assert module.schedule is not None
        if module.network.npu_count == self.classes.network.npu_count:
            return module
        request = _load_request(canonical)  # links and chunks have the same numbers there
        choice, chunks = request.choice, plan.facts.chunks
        demand = request.demand if choice is None or chunks is None else choice.request(chunks).demand
        schedule = RowSchedule(module.model, module.schedule.transfers)
        return replace(module, network=request.network, demand=demand, schedule=schedule)

    def wait(self) -> None:
        """Wait for all plans that are being made."""
        with self._lock:
            running = [making.plan for making in self._running.values()]
        wait(running)

    def close(self) -> None:
        """End the workers."""
        self.workers.close()


def too_late(within: float) -> NoSchedule:
    """The error of a request whose deadline is over."""
    message = f"there is no schedule within {within:g} s yet: the search goes on behind, so ask again"
    return NoSchedule(Diagnostic("S0207", message))
