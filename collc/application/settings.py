"""What the command line and the Python API can say about a compilation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """What is None or empty is left to the program.

    output: folder for the files. only: name of one schedule. definitions: values of params, as
    text. emit: kinds of files to write too. synthesizer: its name. time_limit: seconds.
    passes: a pipeline. print_after: names of passes. prove: prove all properties with Z3, and look for a shorter
    schedule.
    certificate: file for what Z3 was asked; of several schedules NAME comes before its suffix.
    """

    output: Path = field(default_factory=Path)
    only: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    emit: tuple[str, ...] = ()
    synthesizer: str | None = None
    seed: int | None = None
    trials: int | None = None
    threads: int | None = None
    time_limit: float | None = None
    link_model: str | None = None
    passes: str | None = None
    print_after: tuple[str, ...] = ()
    prove: bool = False
    certificate: Path | None = None
