"""The names of the ranks of a file for a runtime, from the `NAME.ranks.json` beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from collc.emit.output import ranks_name


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
        for run in _runs(path.with_name(name)):
            if number in (None, run.get("run")):
                labels: list[str] = run.get("labels") or [""] * len(run["ranks"])
                names = [str(label or npu) for label, npu in zip(labels, run["ranks"], strict=False)]
                return tuple(names) if len(names) == count else ()
    return ()


def _runs(path: Path) -> list[dict[str, Any]]:
    """The runs of a file of ranks; none if it cannot be read."""
    try:
        runs: list[Any] = json.loads(path.read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    known: list[dict[str, Any]] = [run for run in runs if isinstance(run, dict)]
    return [run for run in known if isinstance(run.get("ranks"), list)]
