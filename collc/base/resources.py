"""Where the grammars and the standard library are: inside the installed package, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def _folder(name: str) -> Path:
    """`collc/NAME` of an installed wheel, or `NAME` of the checkout that collc runs from.

    Raises FileNotFoundError where neither is there (a broken installation).
    """
    for folder in (_PACKAGE / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"collc's folder {name!r} is missing: the installation is broken")


def grammar_file(name: str) -> Path:
    """A file of the grammars: `coll.lark`, as Lark reads it, or `coll.json`, its parse table."""
    return _folder("grammar") / name


def standard_library() -> dict[str, Path]:
    """The modules of the standard library in order of name: "topologies" -> its file."""
    return {path.stem: path for path in sorted(_folder("stdlib").glob("*.coll"))}
