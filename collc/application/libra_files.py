"""The set of files that `emit libra("pod/")` writes, under temporary names until all are complete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from collc.base.atomic_files import Draft, path_inside
from collc.source.program import EmitRequest

if TYPE_CHECKING:
    from collc.emit.libra.model import LibraModel


def libra_folder(emit: EmitRequest, name: str) -> str:
    """The folder of a request, relative to the output folder; `NAME.libra` where it names none."""
    return (emit.path or f"{name}.libra").rstrip("/")


def write_libra(model: LibraModel, emit: EmitRequest, output: Path, draft: Draft) -> None:
    """Write all files of a design. Raises SourceError where one would be outside of the output folder."""
    from collc.emit.libra.files import libra_files

    for file, text in libra_files(model).items():
        path = path_inside(output, f"{libra_folder(emit, model.name)}/{file}", emit.span)
        draft.new(path).write_text(text, encoding="utf-8", newline="\n")
