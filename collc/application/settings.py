"""The settings of a compilation, as the command line and the Python API give them, and its callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collc.application.compile.compile_report import ScheduleReport

OUTPUT_HINT: Final = "choose another output folder"
"""What to try if the output folder cannot be written. The command line and the Python API name it differently."""

Progress = Callable[[float | None, str], None]
"""Receives the share of the current phase that is done (0 to 1, None if it is not known) and the phase's name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a compilation. None or an empty value leaves the choice to the program.

    Attributes
    ----------
    output: folder that the files are written to.
    only: name of the one schedule to compile.
    definitions: values of the program's params, as text in the syntax of `.coll`.
    emit: kinds of files to write besides those that the program names.
    planned_for: kinds of files that are not written, but for which the schedule must be fit.
    write: whether files are written; otherwise the schedule is the same, and fit for them.
    synthesizer: name of the synthesizer.
    seed, trials, threads, time_limit, link_model: options of the synthesizer; `time_limit` in seconds.
    chunks: per block, of all runs of standard collectives that take them; "auto" if collc is to pick the number.
    passes: a pipeline, as in "tacos{seed=7},invert,verify".
    print_after: names of passes; the module after each of them goes to `Callbacks.module_text`.
    prove: ask Z3 to prove the properties of the schedule, and to look for a shorter schedule.
    certificate: file for the formulas given to Z3. With several schedules, each has a file of its own, with the
        schedule's name before the suffix.
    keep_modules: keep the module (network, demand and schedule) of each schedule in its report.
    write_shorter: write a shorter schedule that Z3 finds to NAME.shorter.ten.
    keep_best: the first Ctrl-C during synthesis ends the search, and the best schedule found so far is used. Without
        it, Ctrl-C raises KeyboardInterrupt.
    """

    output: Path = field(default_factory=Path)
    only: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    emit: tuple[str, ...] = ()
    planned_for: tuple[str, ...] = ()
    write: bool = True
    synthesizer: str | None = None
    seed: int | None = None
    trials: int | None = None
    threads: int | None = None
    time_limit: float | None = None
    link_model: str | None = None
    chunks: int | Literal["auto"] | None = None
    passes: str | None = None
    print_after: tuple[str, ...] = ()
    prove: bool = False
    certificate: Path | None = None
    keep_modules: bool = False
    write_shorter: bool = False
    keep_best: bool = False


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Functions that a compilation calls.

    Attributes
    ----------
    progress: see `Progress`.
    module_text: receives the modules that `Settings.print_after` asks for, as `.ten` text.
    finished: receives the report of each schedule as soon as its files are written, also if a later one raises.
    """

    progress: Progress = lambda _share, _phase: None
    module_text: Callable[[str], None] = lambda _text: None
    finished: Callable[[ScheduleReport], None] = lambda _report: None
