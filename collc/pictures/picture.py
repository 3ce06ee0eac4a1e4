"""A picture in SVG, its colours, and the elements that all pictures share.

Elements have classes in place of colours, so that a page can show the same picture light and dark. A file of its own
gets a style sheet with the colours of one theme, without variables, which converters to PNG and PDF do not know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal
from xml.sax.saxutils import escape, quoteattr

from collc.base.diagnostics import Diagnostic, UsageError

Theme = Literal["light", "dark"]

MOST_MARKS: Final = 1_500
"""Elements of one picture up to which each has a tooltip: browsers lay out more of them slowly. Of more, those that
look alike or touch are one element."""

WIDTH: Final = 1040
"""Pixels of a picture, as wide as a report's page."""

SERIES: Final = 8
"""Series that can be told apart by colour, dashes and marker; more than that repeat."""

THEMES: Final[Mapping[Theme, Mapping[str, str]]] = {
    "light": {
        "paper": "#ffffff",
        "ink": "#1b1f24",
        "muted": "#57606a",
        "rule": "#d0d7de",
        "soft": "#eef1f4",
        "bad": "#b3261e",
        "c0": "#0072b2",
        "c1": "#d55e00",
        "c2": "#009e73",
        "c3": "#b8578c",
        "c4": "#b87a00",
        "c5": "#3f9bd1",
        "c6": "#6e7781",
        "c7": "#1b1f24",
    },
    "dark": {
        "paper": "#14181d",
        "ink": "#e6edf3",
        "muted": "#9aa5b1",
        "rule": "#3a424c",
        "soft": "#222930",
        "bad": "#ff8f85",
        "c0": "#56b4e9",
        "c1": "#ff8a3d",
        "c2": "#2fc796",
        "c3": "#e39ac2",
        "c4": "#f0c04a",
        "c5": "#9cd3f5",
        "c6": "#a3adb8",
        "c7": "#e6edf3",
    },
}
"""Colours by role. c0 to c7: of series, after Okabe and Ito (Color Universal Design, 2008), darker or lighter if the
contrast with the paper would be below 3:1."""

LEVELS: Final = 16
"""Steps of the colours of numbers, from 0 to the greatest."""

_RAMPS: Final[Mapping[Theme, Sequence[str]]] = {
    "light": ("#dbe6f0", "#a9c4dd", "#6f9cc6", "#3c74a8", "#174e82", "#05244a"),
    "dark": ("#13335f", "#39486b", "#707173", "#a69d75", "#e4cf5b", "#ffea46"),
}
"""Colours from 0 to the greatest number: what stands out from the paper most is most. Even in lightness, and alike for
the colour-blind; the dark one is cividis (Nuñez, Anderton, Renslow 2018)."""

DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "6 2 1 2 1 2")
"""Dashes of series, so that they differ without colour too."""

_FAMILY: Final = (
    "system-ui, 'Segoe UI', 'DejaVu Sans', 'Noto Sans', 'Liberation Sans', Roboto, Ubuntu, Helvetica, Arial, sans-serif"
)

_BASIC_RULES: Final = """\
text { font: 12px FAMILY; fill: {ink}; }
.muted { fill: {muted}; } .small { font-size: 10.5px; } .tiny { font-size: 9px; } .strong { font-weight: 600; }
.bad { fill: {bad}; } .end { text-anchor: end; } .mid { text-anchor: middle; }
.axis { stroke: {muted}; fill: none; } .grid { stroke: {rule}; fill: none; } .box { fill: {soft}; stroke: {rule}; }
.failed { stroke: {bad}; stroke-dasharray: 2 4; fill: none; }
.wire { stroke: {muted}; fill: none; } .paper { fill: {paper}; } .over { stroke: {paper}; stroke-width: 3px; }
.over { paint-order: stroke; } .hit { fill: none; } circle.hit { fill: transparent; } .mark { outline: none; }
path.hit { stroke: transparent; stroke-width: 7px; }
.npu { fill: {paper}; stroke: {ink}; stroke-width: 1.2px; } .gone { fill: none; stroke: {rule}; stroke-dasharray: 2 2; }
.switch { fill: {soft}; stroke: {ink}; } .awaited { stroke: {ink}; stroke-width: 1.5px; }""".replace("FAMILY", _FAMILY)

_STYLE: Final = "\n".join(
    [
        _BASIC_RULES,
        *(f".s{k} {{ stroke: {{c{k}}}; fill: none; }} .f{k} {{ fill: {{c{k}}}; }}" for k in range(SERIES)),
        *(f".g{k} {{ stroke: {{h{k}}}; fill: none; }} .h{k} {{ fill: {{h{k}}}; }}" for k in range(LEVELS)),
    ]
)
"""Rules of the classes, with roles in place of colours."""


def style_sheet(colors: Mapping[str, str], scope: str = "") -> str:
    """The rules of all classes with colours by role. scope: a selector that comes before each rule's own."""
    text = re.sub(r"\{(\w+)\}", lambda match: colors[match[1]], _STYLE)
    return re.sub(r"(^|\} )(?=[.\w])", rf"\1{scope} ", text, flags=re.MULTILINE) if scope else text


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: its size in pixels, its elements as SVG text, its title, and a description for those who see none."""

    width: float
    height: float
    body: str
    title: str
    description: str = ""

    def inline(self, ident: str) -> str:
        """The `svg` element for a page that has the style sheet. ident: unique in the page."""
        label = f'role="group" aria-labelledby="{ident}-t"'
        return (
            f'<svg id="{ident}" viewBox="0 0 {number(self.width)} {number(self.height)}" '
            f'width="{number(self.width)}" height="{number(self.height)}" {label}>'
            f'<title id="{ident}-t">{escape_text(self.title)}</title>'
            f"<desc>{escape_text(self.description)}</desc>{self.body}</svg>"
        )

    def file(self, theme: Theme = "light") -> str:
        """The text of an SVG file in the colours of one theme."""
        width, height = math.ceil(self.width), math.ceil(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">\n<title>{escape_text(self.title)}</title>\n'
            f"<desc>{escape_text(self.description)}</desc>\n<style>\n{style_sheet(colors_of(theme))}\n</style>\n"
            f'<rect class="paper" width="100%" height="100%"/>\n{self.body}\n</svg>\n'
        )


_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def escape_text(text: str) -> str:
    """Text inside an element: escaped, without characters that XML does not allow."""
    return escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))


def attribute(text: str) -> str:
    """Text as the value of an attribute: escaped, in quotes."""
    return quoteattr(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))


def number(value: float) -> str:
    """A coordinate with at most two decimals, the same on all machines."""
    digits = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits


def text(x: float, y: float, words: str, classes: str = "", turn: float = 0) -> str:
    """A line of text that begins at (x, y); the classes `mid` and `end` move it. turn: degrees clockwise."""
    style = f' class="{classes}"' if classes else ""
    turned = f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
    return f'<text x="{number(x)}" y="{number(y)}"{style}{turned}>{escape_text(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, classes: str, more: str = "") -> str:
    """A straight line."""
    return f'<path class="{classes}" d="M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"{more}/>'


def stroke(path: str, series: int, width: float = 2) -> str:
    """A line in the colour and the dashes of a series. path: as in SVG."""
    color = min(series, SERIES - 1)
    dashes = f' stroke-dasharray="{DASHES[color]}"' if DASHES[color] else ""
    return f'<path class="s{color}" stroke-width="{number(width)}"{dashes} d="{path}"/>'


def rect(x: float, y: float, width: float, height: float, classes: str, more: str = "") -> str:
    """A rectangle. more: further attributes, with a space before them."""
    return (
        f'<rect class="{classes}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
        f'height="{number(height)}"{more}/>'
    )


def mark(tip: str, shapes: str, row: int = -1) -> str:
    """Shapes with a tooltip. A page lets the keyboard reach them. row: of the transfer that they show; -1: none."""
    data = f' data-row="{row}"' if row >= 0 else ""
    return f'<g class="mark"{data}><title>{escape_text(tip)}</title>{shapes}</g>'


_CORNERS: Final[Mapping[int, Sequence[tuple[float, float]]]] = {
    1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    **dict.fromkeys((2, 6), ((0, -1.2), (1.1, 0.9), (-1.1, 0.9))),
    **dict.fromkeys((3, 7), ((0, -1.4), (1.2, 0), (0, 1.4), (-1.2, 0))),
    4: ((-1.1, -0.9), (1.1, -0.9), (0, 1.2)),
    5: ((-1.3, -0.5), (1.3, -0.5), (1.3, 0.5), (-1.3, 0.5)),
}
"""Corners of the markers of series; series 0 has a circle."""


def marker(series: int, x: float, y: float, size: float = 4) -> str:
    """The marker of a series: a filled circle, square, triangle, diamond ..., one for each of `SERIES`."""
    if series % SERIES == 0:
        return f'<circle class="f0" cx="{number(x)}" cy="{number(y)}" r="{number(size)}"/>'
    points = "L".join(f"{number(x + dx * size)} {number(y + dy * size)}" for dx, dy in _CORNERS[series % SERIES])
    return f'<path class="f{series % SERIES}" d="M{points}Z"/>'


_NARROW: Final = frozenset("iljtfrI.,:;'|![]() -")
_WIDE: Final = frozenset("mwMW@%→←")


def text_width(words: str, size: float = 12) -> float:
    """Pixels that a line of text takes at most in the common sans-serif fonts (DejaVu Sans is the widest of them)."""
    ems = (0.42 if c in _NARROW else 0.98 if c in _WIDE else 0.72 if c.isupper() else 0.64 for c in words)
    return size * sum(ems)


def shorten(words: str, width: float, size: float = 12) -> str:
    """The text with its middle left out if it is wider than `width` pixels."""
    if text_width(words, size) <= width:
        return words
    for keep in range(len(words) - 1, 1, -1):
        cut = f"{words[: (keep + 1) // 2]}…{words[len(words) - keep // 2 :]}"
        if text_width(cut, size) <= width:
            return cut
    return "…"


def level_of(value: float, most: float) -> int:
    """The step, 0 to `LEVELS` - 1, of a number among those from 0 to `most`."""
    return min(LEVELS - 1, int(LEVELS * value / most)) if most > 0 and value > 0 else 0


def heat_color(theme: Theme, level: int) -> str:
    """The colour of a step."""
    stops = _RAMPS[theme]
    position = level / (LEVELS - 1) * (len(stops) - 1)
    low = min(int(position), len(stops) - 2)
    ends = [[int(stop[k : k + 2], 16) for k in (1, 3, 5)] for stop in stops[low : low + 2]]
    mixed = (round(a + (b - a) * (position - low)) for a, b in zip(*ends, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def colors_of(theme: Theme) -> dict[str, str]:
    """The colours of a theme by role; h0, h1 ... are those of numbers."""
    return {**THEMES[theme], **{f"h{level}": heat_color(theme, level) for level in range(LEVELS)}}


def join_lines(parts: Iterable[str]) -> str:
    """The elements as lines of text."""
    return "\n".join(parts)


def png_of(picture: Picture, theme: Theme = "light") -> bytes:
    """The bytes of a PNG file. Raises UsageError U0137 if resvg-py is not installed or its texts would be left out."""
    try:
        resvg: Any = import_module("resvg_py")
    except ImportError as error:
        hint = "install it with: python -m pip install 'collc[png]', or write --svg"
        raise UsageError(Diagnostic("U0137", "a PNG file needs the package resvg-py", hint=hint)) from error

    def render(one: Picture) -> bytes:
        return bytes(resvg.svg_to_bytes(one.file(theme), zoom=2))

    if render(Picture(40, 20, text(4, 16, "NPU"), "")) == render(Picture(40, 20, "", "")):
        hint = "install one, such as the package fonts-dejavu-core of Debian, or write --svg"
        raise UsageError(Diagnostic("U0137", "a PNG file needs a font, and the system has none", hint=hint))
    return render(picture)
