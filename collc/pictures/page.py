"""A page of HTML that needs nothing else: tabs with pictures, tables and facts, light and dark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collc.base.tables import Table
from collc.pictures.moving_picture import Clip
from collc.pictures.picture import WIDTH, Picture, Theme, attribute, colors_of, escape_text, style_sheet

_FOLDER: Final = Path(__file__).parent
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with a sentence below it."""

    picture: Picture
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Numbers with their names, as tiles: (name, value, remark)."""

    rows: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Remarks:
    """Lines of text below a title. bad: they say what is wrong. code: with fixed width, as messages on a terminal."""

    title: str
    lines: Sequence[str]
    bad: bool = False
    code: bool = False


@dataclass(frozen=True, slots=True)
class Moving:
    """Pictures that move on one clock: the first, and one that can be shown beside it. caption: sentences below."""

    title: str
    clips: Sequence[Clip]
    caption: str = ""


Block = Figure | Table | Facts | Remarks | Moving


@dataclass(frozen=True, slots=True)
class Panel:
    """What one tab shows."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Section:
    """One schedule or design of a report, with a tab for each panel. badge: (text, outcome) beside its name."""

    name: str
    summary: str
    badge: tuple[str, str]
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Page:
    """A report. footer: what made it."""

    title: str
    subtitle: str
    sections: Sequence[Section] = field(default=())
    footer: str = ""

    def html(self) -> str:
        """The text of the file."""
        body = "\n".join(_section(section, f"s{k}") for k, section in enumerate(self.sections))
        inner = (
            body
            if len(self.sections) == 1
            else _tabs([(section.name, f"s{k}") for k, section in enumerate(self.sections)], "schedules", body)
        )
        subtitle = f"<p>{escape_text(self.subtitle)}</p>" if self.subtitle else ""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{escape_text(self.title)}</title>\n<style>\n{_styles()}</style>\n</head>\n<body>\n"
            f"<header><h1>{escape_text(self.title)}</h1>{subtitle}</header>\n<main>\n{inner}\n</main>\n"
            f'<footer>{escape_text(self.footer)}</footer>\n<div id="tip" role="tooltip" hidden></div>\n'
            f"<script>\n{self._scripts()}</script>\n</body>\n</html>\n"
        )

    def _scripts(self) -> str:
        """The scripts of the page; the one of moving pictures is first, since it gives marks their words."""
        moves = any(isinstance(block, Moving) for s in self.sections for panel in s.panels for block in panel.blocks)
        return "".join((_FOLDER / name).read_text("utf-8") for name in (["moving.js"] if moves else []) + ["page.js"])


def _styles() -> str:
    """The colours of both themes as variables, the rules of pictures, and those of the page."""

    def variables(theme: Theme) -> str:
        return " ".join(f"--{role}: {color};" for role, color in colors_of(theme).items())

    rules = style_sheet({role: f"var(--{role})" for role in colors_of("light")}, ".picture")
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {variables('dark')} }} }}"
    page = (_FOLDER / "page.css").read_text("utf-8")
    return f":root {{ {variables('light')} }}\n{dark}\n{rules}\n{page}"


def _tabs(names: Sequence[tuple[str, str]], label: str, panels: str) -> str:
    """A list of tabs and their panels. names: of the tabs, with the idents of their panels."""
    buttons = "".join(
        f'<button type="button" role="tab" id="{ident}-tab" aria-controls="{ident}" '
        f'aria-selected="{"false" if k else "true"}" tabindex="{-1 if k else 0}">{escape_text(name)}</button>'
        for k, (name, ident) in enumerate(names)
    )
    return f'<div class="tabs"><div role="tablist" aria-label={attribute(label)}>{buttons}</div>\n{panels}</div>'


def _section(section: Section, ident: str) -> str:
    text, outcome = section.badge
    badge = f'<span class="badge {outcome}">{escape_text(text)}</span>' if text else ""
    head = f"<h2>{escape_text(section.name)} {badge}</h2>\n<p>{escape_text(section.summary)}</p>\n"
    panels = "\n".join(
        f'<div role="tabpanel" id="{ident}p{k}" aria-labelledby="{ident}p{k}-tab" tabindex="0">\n'
        + _without_titles("\n".join(_block(block, f"{ident}p{k}b{n}") for n, block in enumerate(panel.blocks)), panel)
        + "\n</div>"
        for k, panel in enumerate(section.panels)
    )
    tabs = _tabs([(panel.title, f"{ident}p{k}") for k, panel in enumerate(section.panels)], section.name, panels)
    return f'<section id="{ident}">\n{head}{tabs}</section>'


def _without_titles(text: str, panel: Panel) -> str:
    """The blocks of a panel; the data of a moving picture has the words for marks of transfers."""
    if not any(isinstance(block, Moving) and block.clips[0].lists_rows for block in panel.blocks):
        return text
    return re.sub(r'(<g class="mark" data-row="\d+">)<title>[^<]*</title>', r"\1", text)


def _moving_figure(block: Moving, ident: str) -> str:
    """The controls of moving pictures, a canvas for each, and their data."""
    stages = "".join(
        f'<div class="stage"{" hidden" if k else ""}><p>{escape_text(clip.name)}</p>'
        f'<canvas tabindex="0" role="application" aria-roledescription="picture that moves" '
        f"aria-label={attribute(clip.words)}></canvas></div>"
        for k, clip in enumerate(block.clips)
    )
    beside = [
        f'<label><input type="checkbox" class="beside"> beside {escape_text(clip.name)}</label>'
        for clip in block.clips[1:]
    ]
    paces = "".join(f'<option value="{seconds}">{seconds} s</option>' for seconds in (10, 5, 30))
    caption = " ".join([block.caption, *(f"{note}." for note in block.clips[0].notes)])
    data = "".join(
        f'<script type="application/json">{clip.data.replace("<", chr(92) + "u003c")}</script>' for clip in block.clips
    )
    return (
        f'<figure class="moving" id="{ident}"><h3>{escape_text(block.title)}</h3><div class="controls">'
        '<button type="button" class="play" aria-pressed="false">Play</button>'
        '<input type="range" class="clock" min="0" max="1000" value="0" aria-label="time"><output></output>'
        f'<label>takes <select class="pace">{paces}</select></label>'
        f'<button type="button" class="critical" aria-pressed="false">Critical path</button>{"".join(beside)}</div>'
        f'<div class="stages">{stages}</div><p class="said" role="status"></p>{data}'
        f"<figcaption>{escape_text(caption)}</figcaption></figure>"
    )


def _block(block: Block, ident: str) -> str:
    if isinstance(block, Moving):
        return _moving_figure(block, ident)
    if isinstance(block, Figure):
        title = block.picture.title
        caption = f"<figcaption>{escape_text(block.caption)}</figcaption>" if block.caption else ""
        look = "picture sheet" if block.picture.width > WIDTH or block.picture.height > 1200 else "picture"
        region = f'class="{look}" role="region" tabindex="0" aria-label={attribute(title)}'
        picture = block.picture.inline(ident)
        return f"<figure><h3>{escape_text(title)}</h3><div {region}>{picture}</div>{caption}</figure>"
    if isinstance(block, Table):
        head = "".join(f'<th scope="col">{escape_text(column)}</th>' for column in block.columns)
        cells = ("".join(_cell(cell, k) for k, cell in enumerate(row)) for row in block.rows)
        body = "\n".join(f"<tr>{row}</tr>" for row in cells)
        scroll = f'class="table" role="region" tabindex="0" aria-labelledby="{ident}-t"'
        table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
        return f'<div><h3 id="{ident}-t">{escape_text(block.title)}</h3><div {scroll}>{table}</div></div>'
    if isinstance(block, Facts):
        tiles = "".join(
            f"<div><dt>{escape_text(name)}</dt><dd>{escape_text(value)}</dd>"
            + (f"<dd class=remark>{escape_text(remark)}</dd>" if remark else "")
            + "</div>"
            for name, value, remark in block.rows
        )
        return f'<dl class="facts">{tiles}</dl>'
    kind = "pre" if block.code else "p"
    lines = "".join(f"<{kind}>{escape_text(line)}</{kind}>" for line in block.lines)
    return f'<div class="remarks{" wrong" if block.bad else ""}"><h3>{escape_text(block.title)}</h3>{lines}</div>'


def _cell(cell: str, column: int) -> str:
    """A cell of a table; "failed", "ok", ... has the colour and sign of its outcome."""
    if cell in ("ok", "failed", "skipped", "allowed"):
        return f'<td><span class="badge {cell}">{cell}</span></td>'
    return f"<td>{escape_text(cell)}</td>" if column else f'<th scope="row">{escape_text(cell)}</th>'
