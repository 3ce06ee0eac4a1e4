"""`collc run`: an MSCCL file or MSCCL++ plan on random data, compared with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypedDict, Unpack, cast

from collc.application.file_kinds import call_for
from collc.application.verify.named_collectives import collective_named
from collc.base.diagnostics import Diagnostic
from collc.base.tables import html_table
from collc.base.units import format_time
from collc.msccl.check import check_file
from collc.msccl.check.model import Profile
from collc.msccl.check_plan import check_plan
from collc.msccl.running.data import RunReport, TransportName
from collc.msccl.running.run_file import run_file
from collc.msccl.running.run_plan import run_plan_file

COLUMNS: Final = ("placement", "seed", "dtype", "op", "count", "messages", "outcome", "largest error")
"""The columns of the table of runs; over TCP their time follows."""


@dataclass(frozen=True, slots=True, repr=False)
class FileRuns:
    """The runs of one file on random data, in order. file: the path; None for a program that is not in a file.
    diagnostics: the messages of failed checks.
    """

    file: Path | None
    runs: tuple[RunReport, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the file passes all checks, and every run ended and gave what NumPy computes."""
        return not self.diagnostics and all(run.ok for run in self.runs)

    def columns(self) -> tuple[str, ...]:
        """The columns of the table of runs."""
        return (*COLUMNS, "time") if any(run.seconds is not None for run in self.runs) else COLUMNS

    def rows(self) -> list[tuple[str, ...]]:
        """A row for each run, under `columns`."""
        return [_row(run)[: len(self.columns())] for run in self.runs]

    def as_json(self) -> dict[str, object]:
        """The object that `run --json` prints, without its messages."""
        return {"runs": [asdict(run) | {"ok": run.ok} for run in self.runs]}

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[RunReport]:
        return iter(self.runs)

    def __getitem__(self, number: int) -> RunReport:
        return self.runs[number]

    def __repr__(self) -> str:
        failed = sum(not run.ok for run in self.runs)
        return f"<FileRuns {self.file or 'lowered program'}: {len(self.runs) - failed} ok, {failed} failed>"

    def _repr_html_(self) -> str:
        return html_table(self.columns(), self.rows())


class PlanRunOptions(TypedDict, total=False):
    """The options of a run of an MSCCL++ plan.

    dtype: of the elements ("float32", "int32", ...).
    count: elements as NCCL counts them; a few elements a chunk if it is missing.
    seed: of data and order of events; run k has seed + k.
    runs: how often the file is run.
    op: of reductions: "sum", "prod", "max" or "min"; what the file says if it is missing, else "sum".
        Plans only add.
    collective: what the file must compute; what it says itself if it is missing.
    root: rank of the root of a rooted collective.
    transport: what carries messages: "memory" (one thread, in a random order), "threads" (a thread for each
        threadblock, not for plans), or "tcp" (a process for each rank, connected over TCP).
    """

    dtype: str
    count: int | None
    seed: int
    runs: int
    op: str | None
    collective: str | None
    root: int | None
    transport: TransportName


class RunOptions(PlanRunOptions, total=False):
    """The options of a run of an MSCCL file. profile: the runtime that will load the file."""

    profile: Profile


def run_program(path: Path, **options: Unpack[RunOptions]) -> FileRuns:
    """Run an MSCCL file or an MSCCL++ plan on random data, and compare its results with NumPy.

    A file that runs and that `verify` refuses all the same, as for a race that no run meets, is not ok: its messages
    are those of `verify`. Raises UsageError for unknown names, and what the reader of the file raises.
    """
    collective = options.get("collective")
    if collective is not None:
        collective_named(collective, ("custom",))
    runs: FileRuns = call_for(path, "run", options)
    return runs


def run_msccl(path: Path, options: RunOptions) -> FileRuns:
    """Run an MSCCL file. Raises as `run_program` does."""
    runs, profile = run_file(path, **options), options.get("profile", "executor")
    verdict = check_file(path, collective=options.get("collective"), root=options.get("root"), profile=profile)
    return FileRuns(path, tuple(runs), () if verdict.ok else verdict.errors)


def run_plan(path: Path, options: RunOptions) -> FileRuns:
    """Run an MSCCL++ plan. Raises as `run_program` does."""
    chosen = cast("PlanRunOptions", {name: value for name, value in options.items() if name != "profile"})
    runs = run_plan_file(path, **chosen)
    verdict = check_plan(path, collective=options.get("collective"), root=options.get("root"))
    return FileRuns(path, tuple(runs), () if verdict.ok else verdict.errors)


def _row(run: RunReport) -> tuple[str, ...]:
    outcome = "matches NumPy"
    if run.hung:
        gpu, tb, step = run.hung[0]
        outcome = f"hangs: gpu {gpu}, tb {tb}, step {step} and {len(run.hung) - 1} more wait forever"
    elif run.wrong:
        first = run.wrong[0]
        outcome = f"wrong: rank {first.rank}, chunk {first.chunk}: {first.got} is not {first.expected}"
    placement = "in place" if run.inplace else "out of place"
    time = "" if run.seconds is None else format_time(round(run.seconds * 10**12))
    data = run.dtype, run.op or "-", str(run.count)
    return placement, str(run.seed), *data, str(run.messages), outcome, f"{run.error:.1e}", time
