"""Paths of the grammars, the standard library and the starter programs, in an installed package or in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _folder(name: str) -> Path:
    """The folder `collc/NAME` of an installed wheel, or `NAME` of the checkout that collc runs from.

    Raises FileNotFoundError if neither exists: the installation is broken.
    """
    for folder in (_PACKAGE / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"collc's folder {name!r} is missing: the installation is broken")


def grammar_file(name: str) -> Path:
    """The path of `coll.lark`, the grammar for Lark, or of `coll.json`, its parse table."""
    return _folder("grammar") / name


def standard_library() -> dict[str, Path]:
    """The files of the standard library by name of the module, such as "topologies", in alphabetical order."""
    return {path.stem: path for path in sorted(_folder("stdlib").glob("*.coll"))}


def starters() -> dict[str, Path]:
    """The starter programs of `collc new` by name, such as "cluster", in alphabetical order."""
    return {path.stem: path for path in sorted(_folder("starters").glob("*.coll"))}
