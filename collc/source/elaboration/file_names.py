"""The names of the files that a program writes."""

from __future__ import annotations

from typing import Final

from collc.source.elaboration.file_context import FileContext
from collc.source.elaboration.frames import Frame
from collc.source.parsing.expressions import Argument
from collc.source.problems import fail
from collc.source.types import STRING

_DEVICES: Final = {"CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(10))}
"""Names that are devices on Windows, with any suffix."""


def file_name(argument: Argument, frame: Frame, context: FileContext) -> str:
    """The name of a file, relative to the output folder.

    Raises SourceError E0611 where it leads out of that folder, or where no file on Windows can have it: a program is
    for all systems.
    """
    value = context.evaluator.wanted(argument.value, frame, STRING, "a file name").data
    parts = value.replace("\\", "/").split("/")
    bad = not value or value.startswith(("/", "\\", "~")) or ".." in parts or ":" in parts[0] or "\0" in value
    if bad:
        hint = 'names are relative to the output folder (-o) and must stay in it, as in "out/gather.xml"'
        raise fail("E0611", f'"{value}" is not the name of a file in the output folder', argument.value.span, hint=hint)
    for part in parts:
        if part.split(".")[0].rstrip().upper() in _DEVICES:
            message = f'"{part}" is a device on Windows, where no file can have that name'
            raise fail("E0611", message, argument.value.span, hint="choose another name")
    return value
