"""`collc.solve_designs`."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Literal, TypedDict, Unpack

from collc.api import arguments
from collc.api.definitions import Definition, definition_texts
from collc.api.keywords import with_keywords
from collc.application.design.design_report import DesignsReport
from collc.application.design.designs import solve_designs as solve
from collc.base.diagnostics import SourceFile


class DesignOptions(TypedDict, total=False):
    """The keywords of `solve_designs`. A missing one, or None, leaves the choice to the program.

    definitions: values of the program's params. design: name of the one design to solve. output: folder for the files
        that designs ask for; the current folder where it is missing.
    errors: "raise" (the default): raise an exception where a design fails, after all were solved. "report": only say
        so in the report.
    """

    definitions: Mapping[str, Definition] | None
    design: str | None
    output: str | PathLike[str] | None
    errors: Literal["raise", "report"]


@with_keywords(DesignOptions)
def solve_designs(source: str | PathLike[str], **options: Unpack[DesignOptions]) -> DesignsReport:
    """Find the best bandwidths for the designs of a program, and write the files that they ask for.

    source: a `.coll` file, or a program as text, as in `compile`. Bandwidths are those of an NPU in each dimension, in
    GB/s. Raises SourceError where the program or a design is wrong, NoSchedule where no bandwidths satisfy the
    constraints of a design, UsageError where the program has no design (of that name), TypeError for an unknown
    keyword.
    """
    errors = arguments.one_of("errors", options.get("errors"), ("raise", "report"))
    definitions = definition_texts(options.get("definitions"))
    only = arguments.text("design", options.get("design"))
    output = arguments.path("output", options.get("output") or ".")
    text = isinstance(source, str) and any(character in source for character in "\n{")
    file = SourceFile("<text>", str(source)) if text else arguments.path("source", source)
    report = solve(file, definitions, only, output)
    if errors != "report":
        report.raise_if_failed()
    return report
