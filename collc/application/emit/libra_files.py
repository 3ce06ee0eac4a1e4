"""The set of files that `emit libra("pod/")` writes, under temporary names until all are complete."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from collc.base.atomic_files import Draft, path_inside
from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.options import OptionValue
from collc.emit.kinds import EMIT_KINDS
from collc.emit.output import Emission, WrittenFile
from collc.graph.coordinates import with_axes
from collc.source.elaboration.designs import default_prices
from collc.source.program import EmitRequest
from collc.ten.demand import Demand
from collc.ten.network import Network

if TYPE_CHECKING:
    from collc.emit.libra.solver_files import LibraModel


def emit_libra(emission: Emission) -> WrittenFile:
    """Write the design that asks for the fastest network for a schedule, with the bandwidth per NPU that its own has.

    Raises as `check_dimensions` does.
    """
    from collc.design.optimize import optimum
    from collc.design.training_time import schedule_problem
    from collc.emit.libra.solver_files import LibraModel

    module, prices = emission.module, default_prices()
    check_dimensions(module.network, module.demand, {})
    assert module.schedule is not None
    problem, row = schedule_problem(with_axes(module.network), module.demand, module.schedule, prices)
    best, parts = optimum(problem), (problem.dimensions, problem.time, (row,), None, "time")
    model = LibraModel(module.name, *parts, best.bandwidth, best.time, best.cost, prices)
    write_beside(model, emission.destination.path, emission.destination.draft)
    return WrittenFile()


def check_dimensions(network: Network, _demand: Demand, _options: Mapping[str, OptionValue]) -> None:
    """Raise SourceError E0921 for a network whose dimensions are not known."""
    if not with_axes(network).axes:
        hint = "products such as ring(4, ...) * switched(8, ...), meshes and tori have dimensions"
        message = f"the dimensions of '{network.name}' are not known"
        raise SourceError(Diagnostic("E0921", message, hint=hint))


def write_libra(model: LibraModel, emit: EmitRequest, output: Path, draft: Draft) -> None:
    """Write all files of a design. Raises SourceError if one would be outside of the output folder."""
    write_beside(model, path_inside(output, EMIT_KINDS["libra"].path(emit.path, model.name), emit.span), draft)


def write_beside(model: LibraModel, main_file: Path, draft: Draft) -> None:
    """Write all files of a design into the folder of its JSON file."""
    from collc.emit.libra.inputs import libra_files

    for file, text in libra_files(model).items():
        draft.new(main_file.parent / file).write_text(text, encoding="utf-8", newline="\n")
