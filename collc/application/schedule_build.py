"""One schedule on its way through passes, checks and writers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from collc.application.compile_report import OF_FILES, STRUCTURAL, ScheduleReport
from collc.application.limit_checks import Measured, check_limit, steps_of
from collc.application.output_files import CHECKED, FROM_NPU_TO_NPU, emits_of, foresee, write_outputs
from collc.application.proofs import prove
from collc.application.settings import Settings
from collc.base.atomic_files import drafting
from collc.base.diagnostics import CheckFailed, CollcError, Diagnostic, SourceError, UsageError
from collc.base.interrupts import stopping_at_interrupt, tidy_when_ended
from collc.base.outcome import Outcome
from collc.base.synthesizers import COMMON
from collc.passes.context import HandwrittenRun, Pass, PassContext
from collc.passes.pipeline import Value, make_pass, parse_pipeline
from collc.passes.registry import Fixed, Invert
from collc.source.program import ScheduleRequest
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

LONGEST = 2**62
"""Picoseconds that a schedule may take: times are 64 bits wide."""

_PLACED: Final = ("S", "C")
"""Families of messages about how a schedule is sought: they stand at its `synthesize` where they have no place."""

_BY_HAND: Final = {
    "congestion_free": "give each message on a link a step of its own, take another algorithm, or leave out 'using'",
    "": "check what the algorithm says, and the values of its parameters; without 'using' collc plans the run itself",
}
"""By check, what to try where an algorithm by hand fails it; "" for all others."""


@dataclass
class Build:
    """A request and how to go about it; `report` does all of it.

    progress is told the share done and a few words; show gets what `--print-after` asks for.
    """

    request: ScheduleRequest
    settings: Settings
    progress: Callable[[float, str], None]
    show: Callable[[str], None]
    _known: ScheduleReport = field(init=False)
    _cut: str = ""

    def report(self) -> ScheduleReport:
        """Synthesize, check and write; what goes wrong is in the report."""
        began = time.perf_counter()
        request = self.request
        self._known = ScheduleReport(
            name=request.name,
            topology=request.network.name,
            npus=len(request.network.npus),
            devices=int(request.network.present.sum()),
            links=request.network.link_count,
            chunks=sum(len(run.pattern) for run in request.demand.runs),
            link_model=self._model().value,
            checks=dict.fromkeys(self._expected_checks(), "skipped"),
        )
        try:
            self._build()
        except UsageError:
            raise
        except CollcError as error:
            placed = [
                d if d.span or d.code[0] not in _PLACED else replace(d, span=request.synthesizer_span)
                for d in error.diagnostics
            ]
            messages = (*self._known.diagnostics, *placed)
            self._known = replace(self._known, diagnostics=messages, exit=error.exit)
        return replace(self._known, seconds=time.perf_counter() - began)

    def _expected_checks(self) -> list[str]:
        """The checks that will be made, so that a report has them also where it does not come to them."""
        kinds = {emit.kind for emit in self.request.emits} | set(self.settings.emit)
        asked = [check.name for check in self.request.checks] + ["proved"] * self.settings.prove
        return [*STRUCTURAL, *(OF_FILES if kinds & set(CHECKED) else ()), *asked]

    def _build(self) -> None:
        emits = emits_of(self.request, self.settings.emit)
        foresee(self.request, emits)
        try:
            with stopping_at_interrupt() as interrupted:
                module = self._synthesized(self._context(interrupted))
            module = self._measured(module)
        except OverflowError as error:
            message = f"transfers on '{self.request.network.name}' take longer than {LONGEST // 10**12 // 86400} days"
            hint = "look at the units of bandwidths, latencies and sizes"
            raise SourceError(Diagnostic("C0204", message, self.request.span, hint=hint)) from error
        self._verify(module)
        self._check_limits()
        self._prove(module)
        with tidy_when_ended(), drafting() as draft:
            output = write_outputs(module, emits, self.settings.output, draft)
            self._note(output.checks, output.diagnostics, output.notes)
            files = tuple(draft.publish())
        self._known = replace(self._known, files=files)

    def _note(
        self, checks: Mapping[str, Outcome], diagnostics: Sequence[Diagnostic] = (), notes: Sequence[str] = ()
    ) -> None:
        """Keep what was found; raises CheckFailed where a check failed."""
        known = self._known
        self._known = replace(
            known,
            checks={**known.checks, **checks},
            diagnostics=(*known.diagnostics, *diagnostics),
            notes=(*known.notes, *notes),
        )
        if "failed" in checks.values():
            raise CheckFailed

    # How it is to be done

    def _option(self, name: str, given: Value | None) -> Value | None:
        """An option of `synthesize`: of the command line, else of the program, else the default. Times in seconds."""
        if given is not None:
            return given
        option = self.request.options.get(name)
        if option is None:
            return COMMON[name].default
        if option.type == "time":
            return float(cast("float", option.value)) / 1e12
        return cast("Value", option.value)

    def _model(self) -> LinkModel:
        return LinkModel(str(self._option("link_model", self.settings.link_model)))

    def _context(self, interrupted: Callable[[], bool]) -> PassContext:
        settings = self.settings
        limit = self._option("time_limit", settings.time_limit)
        deadline = math.inf if limit is None else time.monotonic() + float(limit)

        def stop() -> bool:
            if interrupted():
                self._cut = "stopped by Ctrl-C: this is the best schedule found until then"
            elif time.monotonic() >= deadline:
                self._cut = f"stopped at the time limit of {limit:g} s: this is the best schedule found until then"
            return bool(self._cut)

        effort = Effort(
            seed=int(self._option("seed", settings.seed) or 0),
            trials=int(self._option("trials", settings.trials) or 0),
            threads=int(self._option("threads", settings.threads) or 0),
            stop=stop,
            progress=self.progress,
            time_limit=None if limit is None else float(limit),
        )
        handwritten = {
            number: HandwrittenRun(run.algorithm or "", run.moves, run.span)
            for number, run in enumerate(self.request.runs)
            if run.moves is not None
        }
        return PassContext(handwritten, effort, self.request.allow_congestion)

    def _pipeline(self, context: PassContext) -> tuple[Pass, ...]:
        settings, request = self.settings, self.request
        if settings.passes is not None:
            return parse_pipeline(settings.passes)
        if len(context.handwritten) == len(request.runs):
            return (Fixed(),)
        before = (Fixed(),) if context.handwritten else ()
        return (*before, self._synthesizer(), Invert())

    def _synthesizer(self) -> Pass:
        """The pass with the options that only this synthesizer has; the common ones are in the context."""
        if self.settings.synthesizer is not None:
            return make_pass(self.settings.synthesizer, {})
        own = {name: self._option(name, None) for name in self.request.options if name not in COMMON}
        return make_pass(self.request.synthesizer, own)

    # Doing it

    def _synthesized(self, context: PassContext) -> Module:
        request = self.request
        relays = any(emit.kind in FROM_NPU_TO_NPU for emit in emits_of(request, self.settings.emit))
        module = Module(request.name, request.network, request.demand, self._model(), relays=relays)
        pipeline = self._pipeline(context)
        self._check_print_after([step.name for step in pipeline])
        for step in pipeline:
            module = step.run(module, context)
            if step.name in self.settings.print_after:
                from collc.ten.text.write import format_module

                self.show(format_module(module))
        if module.schedule is None or module.phases:
            message = f"the pipeline leaves '{module.name}' without a schedule"
            raise UsageError(Diagnostic("U0104", message, hint='end it as in "tacos,invert,verify"'))
        if module.planned is not None and self.settings.passes is None:
            message = f"no run of '{module.name}' but those with 'using' is planned by 'synthesize fixed'"
            hint = "give the others algorithms with 'using', or name another synthesizer: 'synthesize auto'"
            raise SourceError(Diagnostic("S0307", message, request.synthesizer_span, hint=hint))
        if module.planned is not None:
            message = (
                f"the pipeline lays out only {len(module.planned)} of the {len(request.runs)} runs of '{module.name}'"
            )
            raise UsageError(
                Diagnostic("U0104", message, hint='synthesize the others, as in "fixed,tacos,invert,verify"')
            )
        return module

    def _check_print_after(self, names: list[str]) -> None:
        for name in self.settings.print_after:
            if name not in names:
                message = f"--print-after {name}: no such pass runs for '{self.request.name}'"
                raise UsageError(Diagnostic("U0108", message, hint="the passes are " + ", ".join(names)))

    def _measured(self, module: Module) -> Module:
        """The module with its bound; the report with all numbers."""
        from collc.synthesis.bounds import lower_bound

        assert module.schedule is not None
        taken = module.schedule.collective_time(module.network, module.demand)
        bound = lower_bound(module.network, module.demand, module.model, taken)
        if not 0 <= max(taken, bound.time) < LONGEST:
            raise OverflowError
        self._known = replace(
            self._known,
            links=module.network.link_count,
            devices=int(module.network.present.sum()),
            transfers=len(module.schedule),
            steps=steps_of(module, taken),
            time=taken,
            bound=bound.time,
            bound_name=bound.name,
            algorithm=module.algorithm,
            seed=module.seed,
            notes=(*module.notes, self._cut) if self._cut else module.notes,
            pareto=module.pareto,
        )
        return replace(module, bound=bound)

    def _verify(self, module: Module) -> None:
        from collc.verification import verify_schedule

        verdict = verify_schedule(module)
        messages = self._at_runs(verdict.diagnostics)
        failed = [name for name, outcome in verdict.checks.items() if outcome == "failed"]
        if failed == ["congestion_free"] and self.request.allow_congestion:
            known = {**self._known.checks, **verdict.checks}
            self._known = replace(self._known, checks=known)
            self._note({}, [replace(d, warning=True) for d in messages])
        else:
            self._note(verdict.checks, messages)

    def _at_runs(self, messages: Sequence[Diagnostic]) -> list[Diagnostic]:
        """What is wrong with an algorithm by hand, the first message of each check with the place and what to try."""
        by_hand = [run for run in self.request.runs if run.moves is not None]
        if not by_hand:
            return list(messages)
        span = by_hand[0].span if len(by_hand) == 1 else self.request.span
        first = {message.code: number for number, message in reversed([*enumerate(messages)])}
        return [
            replace(m, span=m.span or span, hint=m.hint or _BY_HAND.get(m.message.partition(":")[0], _BY_HAND[""]))
            if first[m.code] == number
            else m
            for number, m in enumerate(messages)
        ]

    def _check_limits(self) -> None:
        known = self._known
        measured = Measured(known.time or 0, known.bound or 0, known.bound_name or "", known.steps)
        checks: dict[str, Outcome] = {}
        messages: list[Diagnostic] = []
        for request in self.request.checks:
            if request.operator:
                outcome, message = check_limit(request, measured)
                checks[request.name] = "failed" if "failed" in (outcome, checks.get(request.name)) else "ok"
                messages += [message] if message else []
        self._note(checks, messages)

    def _prove(self, module: Module) -> None:
        """What was asked of Z3."""
        wanted = {check.name: check.span for check in self.request.checks}
        congested = self._known.checks.get("congestion_free") == "failed"
        proofs = prove(module, wanted, self.settings, self.progress, congested=congested)
        self._known = replace(self._known, optimal=proofs.optimal)
        self._note(proofs.checks, proofs.diagnostics, proofs.notes)
