"""What a schedule is compiled from, and what follows from it: files, passes, and options of the synthesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from collc.application.compile.output_files import emits_of
from collc.application.compile.ring_order import RINGS, along_links
from collc.application.settings import Progress, Settings
from collc.passes.registry import Fixed, HandwrittenRun, Invert, Pass, PassContext, Value, make_pass, parse_pipeline
from collc.passes.synthesizers import COMMON
from collc.source.program import EmitRequest, ScheduleRequest
from collc.source.standard_algorithms import StandardAlgorithms
from collc.synthesis.task import Effort
from collc.ten.algorithm import AlgorithmSends
from collc.ten.schedule import LinkModel


@dataclass(frozen=True, eq=False)
class BuildInput:
    """What a schedule is compiled from. Of an option the settings decide, else the `synthesize` statement, else the
    default.

    module_text: receives the modules that `Settings.print_after` asks for. interrupted: whether a signal has asked to
    end the search.
    """

    request: ScheduleRequest
    settings: Settings
    progress: Progress = lambda _share, _phase: None
    module_text: Callable[[str], None] = lambda _text: None
    interrupted: Callable[[], bool] = lambda: False

    @property
    def emits(self) -> tuple[EmitRequest, ...]:
        """The files to write; their kinds also decide which schedules are fit."""
        return emits_of(self.request, self.settings.emit)

    def _value(self, name: str, setting: Value | None) -> Value | None:
        """The setting, else the option of the program (times in seconds), else the default."""
        if setting is not None:
            return setting
        option = self.request.options.get(name)
        if option is None:
            return COMMON[name].default
        if option.type == "time":
            return float(cast("float", option.value)) / 1e12
        return cast("Value", option.value)

    @property
    def link_model(self) -> LinkModel:
        """The link model that the schedule is made for."""
        return LinkModel(str(self._value("link_model", self.settings.link_model)))

    @property
    def time_limit(self) -> float | None:
        """Seconds for the search; None: no limit."""
        limit = self._value("time_limit", self.settings.time_limit)
        return None if limit is None else float(limit)

    def context(
        self,
        stop: Callable[[], bool],
        work: Fraction = Fraction(1),
        earlier: dict[str, list[float]] | None = None,
    ) -> PassContext:
        """What the passes receive besides the module: algorithms written by hand, and how long to search.

        stop: polled by the synthesizers; True ends the search. work, earlier: see `Effort`.
        """
        settings = self.settings
        effort = Effort(
            seed=int(self._value("seed", settings.seed) or 0),
            trials=int(self._value("trials", settings.trials) or 0),
            threads=int(self._value("threads", settings.threads) or 0),
            stop=stop,
            progress=self.progress,
            time_limit=self.time_limit,
            work_part=work,
            earlier=earlier,
            library=StandardAlgorithms(),
        )
        handwritten = {
            number: HandwrittenRun(run.algorithm or "", self._statements(number, run.moves), run.span)
            for number, run in enumerate(self.request.runs)
            if run.moves is not None
        }
        return PassContext(handwritten, effort, self.request.allow_congestion)

    def _statements(self, number: int, moves: AlgorithmSends) -> AlgorithmSends:
        """The statements of a run; a ring of the standard library follows links if the group has such a cycle."""
        request, run = self.request.runs[number], self.request.demand.runs[number]
        if request.library and request.algorithm in RINGS and run.standard is not None:
            first = int(self.request.demand.first_chunk[number])
            return along_links(self.request.network, run, moves, request.algorithm, first)
        return moves

    def pipeline(self) -> tuple[Pass, ...]:
        """The passes to run: the pipeline of the settings, else layout by hand, synthesizer and inversion as needed."""
        if self.settings.passes is not None:
            return parse_pipeline(self.settings.passes)
        if all(run.moves is not None for run in self.request.runs):
            return (Fixed(),)
        synthesizer = self.settings.synthesizer or self.request.synthesizer
        return (*self.by_hand(), make_pass(synthesizer, self.own_options), Invert())

    def by_hand(self) -> tuple[Pass, ...]:
        """The pass that lays out the runs whose algorithms are written by hand, if there are any."""
        return (Fixed(),) if self.request.is_handwritten else ()

    @property
    def own_options(self) -> dict[str, Value | None]:
        """The options that only the synthesizer has that runs.

        The program's options of another synthesizer do not apply to one that the settings name.
        """
        if self.settings.synthesizer is not None:
            return {}
        return {name: self._value(name, None) for name in self.request.options if name not in COMMON}
