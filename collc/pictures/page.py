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
    """Pictures that move on one clock: the first, and one of the others beside it. caption: sentences below.

    together: whether the second is beside it at once. In a page, the first pictures of its other sections can be beside
    it, too.
    """

    title: str
    clips: Sequence[Clip]
    caption: str = ""
    together: bool = False


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
        clips = _Clips([block for s in self.sections for panel in s.panels for block in panel.blocks])
        body = "\n".join(_section(section, f"s{k}", clips) for k, section in enumerate(self.sections))
        inner = (
            body
            if len(self.sections) == 1
            else _tabs([(section.name, f"s{k}") for k, section in enumerate(self.sections)], "schedules", body)
        )
        subtitle = f"<p>{escape_text(self.subtitle)}</p>" if self.subtitle else ""
        return _document(
            self.title,
            f"<header><h1>{escape_text(self.title)}</h1>{subtitle}</header>\n<main>\n{inner}\n</main>\n"
            f'<footer>{escape_text(self.footer)}</footer>\n<div id="tip" role="tooltip" hidden></div>\n{clips.data()}',
            (["moving.js"] if clips.first else []) + ["page.js"],  # in this order: the first gives marks their words
        )


def moving_page(moving: Moving) -> str:
    """The text of a page with moving pictures alone."""
    clips = _Clips([moving])
    body = f'<main class="framed">{_moving_figure(moving, "m", clips)}</main>{clips.data()}'
    return _document(moving.title, body, ["moving.js"])


def frame_of(moving: Moving) -> str:
    """An element with moving pictures alone, for notebooks: a page of its own that can reach nothing else."""
    text = attribute(moving_page(moving))
    style = 'style="border: 0; width: 100%; height: 430px"'
    return f'<iframe title={attribute(moving.clips[0].words)} sandbox="allow-scripts" {style} srcdoc={text}></iframe>'


class _Clips:
    """The moving pictures of a page. first: numbers of those that come first, by name."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        figures = [block for block in blocks if isinstance(block, Moving)]
        self._clips = [*{id(clip): clip for figure in figures for clip in figure.clips}.values()]
        self.first = [(figure.clips[0].name, self.number(figure.clips[0])) for figure in figures]

    def number(self, clip: Clip) -> int:
        """The number of a picture, as scripts know it."""
        return next(number for number, other in enumerate(self._clips) if other is clip)

    def data(self) -> str:
        """The data of all pictures as elements; networks that are equal are one."""
        networks = [*dict.fromkeys(clip.network for clip in self._clips)]
        elements = [('class="network"', network) for network in networks]
        elements += [(f'class="clip" data-network="{networks.index(clip.network)}"', clip.data) for clip in self._clips]
        kind = 'type="application/json"'
        return "".join(
            f"<script {kind} {look}>{text.replace('<', chr(92) + 'u003c')}</script>\n" for look, text in elements
        )


def _document(title: str, body: str, scripts: Sequence[str]) -> str:
    """The text of a file. scripts: names of files in this folder, which run in this order."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape_text(title)}</title>\n<style>\n{_styles()}</style>\n</head>\n<body>\n{body}"
        f"<script>\n{''.join((_FOLDER / name).read_text('utf-8') for name in scripts)}</script>\n</body>\n</html>\n"
    )


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


def _section(section: Section, ident: str, clips: _Clips) -> str:
    text, outcome = section.badge
    badge = f'<span class="badge {outcome}">{escape_text(text)}</span>' if text else ""
    head = f"<h2>{escape_text(section.name)} {badge}</h2>\n<p>{escape_text(section.summary)}</p>\n"
    panels = "\n".join(
        f'<div role="tabpanel" id="{ident}p{k}" aria-labelledby="{ident}p{k}-tab" tabindex="0">\n'
        + _without_titles(
            "\n".join(_block(block, f"{ident}p{k}b{n}", clips) for n, block in enumerate(panel.blocks)), panel
        )
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


def _moving_figure(block: Moving, ident: str, clips: _Clips) -> str:
    """The controls of moving pictures, a canvas for each of two, and the numbers of their data."""
    main = block.clips[0]
    number = clips.number(main)
    others = [(clip.name, clips.number(clip)) for clip in block.clips[1:]]
    others += [first for first in clips.first if first[1] not in {number, *(other for _, other in others)}]
    options = "".join(
        f'<option value="{k}"{" selected" if block.together and not place else ""}>{escape_text(name)}</option>'
        for place, (name, k) in enumerate(others)
    )
    beside = f'<label>beside <select class="beside"><option value="">nothing</option>{options}</select></label>'
    paces = "".join(f'<option value="{seconds}">{seconds} s</option>' for seconds in (10, 5, 30))
    caption = " ".join([block.caption, *(f"{note[0].upper()}{note[1:]}." for note in main.notes)])
    return (
        f'<figure class="moving" id="{ident}" data-clip="{number}"><h3>{escape_text(block.title)}</h3>'
        '<div class="controls"><button type="button" class="play" aria-pressed="false">Play</button>'
        '<input type="range" class="clock" min="0" max="1000" value="0" aria-label="time"><output></output>'
        f'<label>takes <select class="pace">{paces}</select></label>'
        '<button type="button" class="critical" aria-pressed="false">Critical path</button>'
        f'{beside if options else ""}</div><div class="stages">'
        f'<div class="stage"><p>{escape_text(main.name)}</p><canvas tabindex="0" role="application" '
        f'aria-roledescription="picture that moves" aria-label={attribute(main.words)}></canvas></div>'
        '<div class="stage" hidden><p></p><canvas role="img"></canvas></div></div>'
        f'<p class="said" role="status"></p><figcaption>{escape_text(caption)}</figcaption></figure>'
    )


def _block(block: Block, ident: str, clips: _Clips) -> str:
    if isinstance(block, Moving):
        return _moving_figure(block, ident, clips)
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
