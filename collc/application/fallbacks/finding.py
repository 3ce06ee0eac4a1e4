"""What to do after a failure: the files that are ready for it, and links to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collc.application.fallbacks.fallback_index import Fallback, FallbackIndex, check_found
from collc.application.fallbacks.ras_files import read_dead_gpus
from collc.base.diagnostics import Diagnostic, SourceError, UsageError
from collc.base.tables import Column, Table, table_of
from collc.base.units import format_time
from collc.base.wording import SHOWN


@dataclass(frozen=True, slots=True)
class FallbackReport:
    """The fallbacks of each schedule for one failure. dead, slow: the names of what failed. links: those that were
    made.
    """

    dead: tuple[str, ...]
    slow: tuple[str, ...]
    fallbacks: tuple[Fallback, ...]
    links: tuple[Path, ...]

    def table(self) -> Table:
        """A row for each schedule."""
        return table_of(_COLUMNS, self.fallbacks)

    def notes(self) -> list[str]:
        """Which rank each GPU gets."""
        texts = dict.fromkeys(_rank_note(fallback) for fallback in self.fallbacks if fallback.ranks)
        return [*texts, *(f"linked {path}" for path in self.links)]

    def as_json(self) -> dict[str, object]:
        """The object that `fallback --json` prints."""
        return {
            "dead": list(self.dead),
            "slow": list(self.slow),
            "fallbacks": [fallback.as_json() for fallback in self.fallbacks],
            "links": [str(path) for path in self.links],
        }


def _rank_note(fallback: Fallback) -> str:
    if all(run.in_order for run in fallback.ranks):
        return "ranks: those that are left in order, as ncclCommShrink numbers them"
    new = fallback.ranks[0].new
    shown = ", ".join("-" if rank is None else str(rank) for rank in new[:SHOWN])
    more = f", ... ({len(new)} ranks; all with --json)" if len(new) > SHOWN else ""
    return f"ranks: old 0, 1, ... become {shown}{more}: the keys of an ncclCommSplit after ncclCommShrink"


def _slowdown(fallback: Fallback) -> float | None:
    if not fallback.time_ps or not fallback.undamaged_ps:
        return None
    return fallback.time_ps / fallback.undamaged_ps


_COLUMNS: Final[Sequence[Column[Fallback]]] = (
    Column("schedule", "", lambda fallback: fallback.schedule),
    Column("plan", "", lambda fallback: fallback.plan if not fallback.reason else f"none: {fallback.reason}"),
    Column("time", "", lambda fallback: fallback.time_ps, format_time),
    Column("of undamaged", "", _slowdown, lambda share: f"{share:.3f}"),
    Column("files", "", lambda fallback: ", ".join(fallback.files) or None),
)


def find_fallbacks(
    index: Path,
    dead: Sequence[str],
    ras: Path | None,
    schedule: str | None,
    folder: Path | None,
    slow: Sequence[str] = (),
) -> FallbackReport:
    """The fallbacks for the failure of some parts, by their names, and of GPUs that RAS reports.

    slow: parts that are not dead. folder: the folder of links to the files, None for no links. Raises UsageError if no
    schedule has such a failure, NoSchedule if none has a plan for it.
    """
    read = FallbackIndex(index)
    dead, slow = ([host for name in each for host in read.hosts_of(name)] for each in (dead, slow))
    names = [*dead, *(read.gpu_names(read_dead_gpus(ras)) if ras is not None else ())]
    if not names and not slow:
        raise UsageError(Diagnostic("U0158", "say what failed: --dead NAME, --slow NAME or --ras FILE.json"))
    fallbacks = read.find(names, schedule, slow)
    check_found(fallbacks)
    links = () if folder is None else _link_files(index.parent, folder, fallbacks)
    return FallbackReport(tuple(names), tuple(slow), fallbacks, links)


def _link_files(origin: Path, folder: Path, found: Sequence[Fallback]) -> tuple[Path, ...]:
    """Make links to the files of fallbacks in a folder, in place of the links that are there. A file that is no link
    stays; raises UsageError U0159 if it is in the way, or if two files have one name. Raises SourceError X0801 for a
    file outside the folder of the index.
    """
    from collc.base.atomic_files import path_inside

    names = [name for fallback in found for name in fallback.files]
    try:
        files = [path_inside(origin, name, is_folder=(origin / name).is_dir()) for name in names]
    except SourceError as error:
        message = f"an index links to files in its own folder only: {error.diagnostics[0].message}"
        raise SourceError(Diagnostic("X0801", message, hint="compile the program again")) from error
    wanted: dict[Path, Path] = {}
    for file in files:
        if wanted.setdefault(folder / file.name, file) != file:
            hint = "give --schedule NAME, and each schedule a folder of its own"
            raise UsageError(Diagnostic("U0159", f"two files would be {folder / file.name}", hint=hint))
    folder.mkdir(parents=True, exist_ok=True)
    for link in wanted:
        if link.exists() and not link.is_symlink():
            raise UsageError(Diagnostic("U0159", f"{link} is no link, and stays", hint="name another folder"))
    for old in folder.iterdir():
        if old.is_symlink() and old not in wanted:
            old.unlink()
    for link, file in wanted.items():
        temporary = link.with_name(f".{link.name}.link")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(os.path.relpath(file, folder))
        temporary.replace(link)
    return tuple(sorted(wanted))
