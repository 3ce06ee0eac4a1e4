"""What a writer of files gets and returns: the schedule and the names of files; outcomes of checks, remarks, ranks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from collc.base.atomic_files import Draft
from collc.base.diagnostics import Diagnostic, Outcome
from collc.base.options import OptionValue
from collc.base.wording import in_short
from collc.ten.module import Module
from collc.ten.network import Network

Announcer = Callable[[str], None]
"""Receives the name of a phase."""

_WORST_FIRST: Final[tuple[Outcome, ...]] = ("failed", "skipped", "ok")
"""Of several files, a check has the worst of its outcomes."""


@dataclass(frozen=True, slots=True)
class RunRanks:
    """The ranks of the files of one run. run: its number. npus: names of NPUs by rank. labels: what the machine calls
    them, `host/device` if the host is known; () if no label says it.
    """

    run: int
    collective: str
    npus: tuple[str, ...]
    labels: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The object of the run in the file of the ranks."""
        fields: dict[str, object] = {"run": self.run, "collective": self.collective, "ranks": list(self.npus)}
        if self.labels:
            fields["labels"] = list(self.labels)
            fields["hosts"] = [label.partition("/")[0] if "/" in label else None for label in self.labels]
        return fields

    def row(self) -> tuple[str, str, str]:
        """Run, collective, and the NPUs by rank with their labels, for a table."""
        named = zip(self.npus, self.labels or [""] * len(self.npus), strict=True)
        return str(self.run), self.collective, ", ".join(f"{npu} ({label})" if label else npu for npu, label in named)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What is known of a file that was written, or of several: outcomes of their checks, remarks and messages.

    ranks: of each run, if the ranks are not all NPUs in their order or NPUs have labels; else ().
    name: of the file, goes before each remark; "" for none.
    """

    checks: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    notes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    ranks: tuple[RunRanks, ...] = ()
    name: str = ""


def combine(files: Sequence[WrittenFile]) -> WrittenFile:
    """Combine what is known of several files; each check has the worst of its outcomes, each remark the names of all
    files that it is about.
    """
    checks: dict[str, Outcome] = {}
    for name, outcome in (item for file in files for item in file.checks.items()):
        outcomes = (outcome, checks.get(name, outcome))
        checks[name] = next(worst for worst in _WORST_FIRST if worst in outcomes)
    names: dict[str, list[str]] = {}
    for name, note in ((file.name, note) for file in files for note in file.notes):
        names.setdefault(note, []).extend([name] * bool(name))
    return WrittenFile(
        checks,
        tuple(f"{in_short(about)}: {note}" if about else note for note, about in names.items()),
        tuple(message for file in files for message in file.diagnostics),
        tuple(dict.fromkeys(ranks for file in files for ranks in file.ranks)),
    )


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the files of one request go: under temporary names until all checks have passed.

    path: the final name. finals: the final name of each temporary one.
    """

    path: Path
    draft: Draft
    finals: dict[Path, Path] = field(default_factory=dict[Path, Path])

    def new(self, variant: str = "", run: int | None = None) -> Path:
        """The temporary name of one file.

        variant: of several placements, the part of its name before the suffix. run: of several runs, which one.
        """
        name = self.path.name if run is None else self.run_file(run)
        final = self.path.with_name(variant_name(name, variant))
        temporary = self.draft.new(final)
        self.finals[temporary] = final
        return temporary

    def run_file(self, run: int) -> str:
        """The name of the file of one of several runs."""
        return run_name(self.path.name, run, several=True)

    def new_folder(self, replaced: str) -> Path:
        """The temporary name of a folder with several files. replaced: see `Draft.new_folder`."""
        temporary = self.draft.new_folder(self.path, replaced)
        self.finals[temporary] = self.path
        return temporary


@dataclass(frozen=True, slots=True)
class Emission:
    """What the writer of a kind of file gets.

    kind: its name. module: with its schedule. options: those that the statement gives, by name; each fits the record of
    the kind. network: as the program declares it; the one of the module may have direct links in place of switches.
    announce: receives the name of each phase. page: the report of the schedule as HTML. hurried: whether a limit or a
    signal ended the search, so that no time is spent on faster files.
    """

    kind: str
    module: Module
    destination: Destination
    options: Mapping[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    network: Network | None = None
    announce: Announcer = lambda _phase: None
    page: Callable[[], str] = str
    hurried: Callable[[], bool] = lambda: False


def emit_report(emission: Emission) -> WrittenFile:
    """Write the page of the report."""
    emission.announce("drawing the report")
    emission.destination.new().write_text(emission.page(), encoding="utf-8", newline="\n")
    return WrittenFile()


def variant_name(name: str, variant: str) -> str:
    """The name of one of several files of a request: `a.xml` and "in" give `a.in.xml`; "" leaves the name."""
    path = Path(name)
    return str(path.with_name(f"{path.stem}.{variant}{path.suffix}")) if variant and path.name else name


_RUN: Final = "{run}"
"""Stands for the number of the run in the name of a file."""


def run_name(name: str, run: int, *, several: bool) -> str:
    """The name of the file of a run: `a{run}.xml` gives `a0.xml`, and `a.xml`, if there are several, `a.0.xml`."""
    if _RUN in name:
        return name.replace(_RUN, str(run))
    return variant_name(name, str(run)) if several else name


def ranks_name(name: str) -> str:
    """The name of the file with the ranks of the files of a request: `a.xml` and `a-{run}.xml` give `a.ranks.json`."""
    path = Path(name)
    before, _, after = path.stem.partition(_RUN)
    stem = (before.rstrip("._-") + after.replace(_RUN, "")).strip("._-") or "runs"
    return str(path.with_name(f"{stem}.ranks.json"))


def write_ranks(ranks: Sequence[RunRanks], path: Path) -> None:
    """Write the names of NPUs by rank, for each run, as JSON."""
    rows = [mapping.as_json() for mapping in ranks]
    path.write_text(json.dumps({"runs": rows}, indent=1) + "\n", encoding="utf-8", newline="\n")


def names_of_ranks(path: Path, count: int) -> tuple[str, ...]:
    """What the ranks of an MSCCL file or a plan are called, by rank: their labels, else the names of the NPUs.

    count: ranks of the file. () if there is no file of ranks that fits.
    """
    base = re.sub(r"\.(in|out)$", "", path.stem)
    candidates: list[tuple[str, int | None]] = [(f"{base}.ranks.json", None)]
    for match in reversed(list(re.finditer(r"\d+", base))):  # any of the numbers in a name may be the run's
        name = ranks_name(f"{base[: match.start()]}{{run}}{base[match.end() :]}.xml")
        candidates.append((name, int(match[0])))
    for name, number in candidates:
        try:
            runs: list[Any] = json.loads(path.with_name(name).read_text(encoding="utf-8"))["runs"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        known: list[dict[str, Any]] = [run for run in runs if isinstance(run, dict)]
        for run in known:
            if isinstance(run.get("ranks"), list) and number in (None, run.get("run")):
                labels: list[str] = run.get("labels") or [""] * len(run["ranks"])
                names = [str(label or npu) for label, npu in zip(labels, run["ranks"], strict=False)]
                return tuple(names) if len(names) == count else ()
    return ()
