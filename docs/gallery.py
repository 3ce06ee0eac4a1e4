"""What the site shows of programs: their networks, the results of a compilation, and schedules that move."""

from __future__ import annotations

import json
import re
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from reference import fenced, markdown_table, plain

import collc
from collc.base.resources import starters
from collc.base.tables import Table
from collc.parallel.processes import usable_cores
from collc.pictures.link_use import use_of_schedule
from collc.pictures.moving_picture import clip_of
from collc.pictures.network_picture import network_picture
from collc.pictures.page import Moving, moving_page
from collc.pictures.picture import WIDTH
from collc.source.elaboration.elaborate import load_program
from collc.source.program import Program
from collc.ten.module import Module

ROOT: Final = Path(__file__).parent.parent

MOVES: Final = re.compile(r"`([\w-]+)\.coll`:\n\n```coll moving\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
"""A program of a page whose schedules the site shows as they move: its name and its text."""

_STYLE: Final = """<style>
.stage {{ overflow: hidden }}
.stage canvas {{ width: {width}%; margin: 0 0 0 {left}% }}
</style>
</head>"""
"""A narrow network fills the page."""

_PAGE_WIDTH: Final = 700
"""Pixels of the text of a page."""


@dataclass(frozen=True, slots=True)
class MovingPage:
    """A page of HTML with nothing but the picture of a schedule that moves, and the pixels of its height."""

    html: str
    height: int

    @staticmethod
    def of(module: Module) -> MovingPage:
        """The page of a module with a schedule."""
        clip = clip_of(use_of_schedule(module), module.algorithm)
        shown = json.loads(clip.network)
        reach = max(abs(x - WIDTH / 2) for device in shown["devices"] for x in device[1:2]) + shown["radius"] + 20
        scale = min(2.0, WIDTH / 2 / reach)
        page = moving_page(Moving(module.name, [clip]))
        style = _STYLE.format(width=round(100 * scale), left=round(50 - 50 * scale))
        return MovingPage(page.replace("</head>", style, 1), 190 + round(shown["height"] * scale * _PAGE_WIDTH / WIDTH))

    def frame(self, name: str, title: str, up: str) -> str:
        """The page in a page of the site. name: of its file. up: the path to the root of the site."""
        style = f"width: 100%; height: {self.height}px; border: 0"
        return fenced(
            f'<iframe src="{up}moving/{name}" title="{title}" loading="lazy" style="{style}"></iframe>', "{raw} html"
        )


def with_moving_pictures(page: Path, text: str) -> tuple[str, dict[str, str]]:
    """The text of a page with results and moving pictures after its programs that have them, and these as files."""
    files: dict[str, str] = {}

    def shown(match: re.Match[str]) -> str:
        report = collc.compile_text(match[2])
        parts = [f"`{match[1]}.coll`:", fenced(match[2], "coll"), results(report.table())]
        for schedule in report:
            name, moving = f"{page.stem}-{match[1]}-{schedule.name}.html", MovingPage.of(schedule.module)
            files[name] = moving.html
            parts.append(moving.frame(name, f"the schedule {schedule.name} as it moves", "../" * (len(page.parts) - 1)))
        return "\n\n".join(parts) + "\n"

    return MOVES.sub(shown, text), files


def results(table: Table) -> str:
    """A table in Markdown, without the column of files."""
    kept = [k for k, column in enumerate(table.columns) if column != "files"]
    columns, *rows = [[plain(row[k]) for k in kept] for row in (table.columns, *table.rows)]
    return markdown_table(columns, rows)


def gallery(*, compiles: bool = True) -> tuple[dict[str, str], dict[str, str]]:
    """The files of the gallery and its moving pages: the programs of `examples/` and `starters/`.

    Each has its networks, its results and its first schedule as it moves; without these two unless `compiles`. A
    schedule that fails a check raises.
    """
    files: dict[str, str] = {}
    moving: dict[str, str] = {}
    parts = [
        "# Gallery",
        "Programs with their networks, what `collc compile` or `collc design` finds for them, and their first schedule "
        "as it moves. All of it was made with this page. `collc new` writes those named starter.",
    ]
    paths = [*sorted((ROOT / "examples").glob("*.coll")), *starters().values()]
    with ProcessPoolExecutor(usable_cores(), get_context("spawn")) as pool:
        found = pool.map(compiled, paths) if compiles else [("", None)] * len(paths)
        for path, (table, page) in zip(paths, found, strict=True):
            folder = path.parent.name.removesuffix("s")
            name = f"{folder}-{path.stem}"
            parts.append(f"## {path.stem}{'' if folder == 'example' else f' ({folder})'}")
            pictures = _network_pictures(load_program(path), name)
            files |= {file: picture for _, file, picture in pictures}
            parts += [f"![the network of {plain(of)}]({file})" for of, file, _ in pictures]
            parts += [fenced(path.read_text(encoding="utf-8"), "coll"), table]
            if page:
                moving[f"{name}.html"] = page.html
                parts.append(page.frame(f"{name}.html", f"the first schedule of {path.stem} as it moves", "../"))
    return files | {"gallery.md": "\n\n".join(parts) + "\n"}, moving


def _network_pictures(program: Program, name: str) -> list[tuple[str, str, str]]:
    """(schedule or design, file, picture) of each network of a program."""
    networks = {id(request.network): request for request in (*program.schedules, *program.designs)}
    return [
        (request.name, f"{name}-{number}.svg", network_picture(request.network).file())
        for number, request in enumerate(networks.values())
    ]


def compiled(path: Path) -> tuple[str, MovingPage | None]:
    """The table of the results of a program, and its first schedule as it moves; None if it has designs only."""
    with tempfile.TemporaryDirectory() as folder:
        if not load_program(path).schedules:
            return results(collc.solve_designs(path, output=folder).table()), None
        report = collc.compile(path, output=folder)
        return results(report.table()), MovingPage.of(report.parts[0].module)
