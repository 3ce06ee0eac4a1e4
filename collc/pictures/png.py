"""PNG of a picture, by resvg (package resvg-py), which is optional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from collc.pictures.picture import Picture, text

if TYPE_CHECKING:
    from collc.pictures.picture import Theme

SCALE: Final = 2
"""Pixels of the file for each pixel of the picture, so that it is sharp on screens and in print."""


class MissingConverter(Exception):
    """The package resvg-py is not installed."""


class MissingFonts(Exception):
    """The system has no font for the texts, which resvg would leave out."""


class _Resvg(Protocol):
    def svg_to_bytes(self, svg_string: str, *, zoom: int) -> list[int] | bytes: ...


def png_of(picture: Picture, theme: Theme = "light") -> bytes:
    """The bytes of a PNG file.

    Raises MissingConverter if resvg-py is not installed, MissingFonts if texts would be left out.
    """
    from importlib import import_module

    try:
        resvg = cast("_Resvg", import_module("resvg_py"))
    except ImportError as error:
        raise MissingConverter from error

    def render(one: Picture) -> bytes:
        return bytes(resvg.svg_to_bytes(one.file(theme), zoom=SCALE))

    if render(Picture(40, 20, text(4, 16, "NPU"), "")) == render(Picture(40, 20, "", "")):
        raise MissingFonts
    return render(picture)
