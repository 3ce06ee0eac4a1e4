"""The set of files of one design."""

from __future__ import annotations

from collc.emit.libra.inputs import input_files, obstacle
from collc.emit.libra.linear_programs import lp_text, mps_text
from collc.emit.libra.model import LibraModel, json_text
from collc.emit.libra.smt import smt_text


def libra_files(model: LibraModel) -> dict[str, str]:
    """The texts of all files by their names in the folder; without LIBRA's own inputs if it cannot read them."""
    name = model.name
    found = {
        f"{name}.libra.json": json_text(model),
        f"{name}.lp": lp_text(model),
        f"{name}_deadline.mps": mps_text(model),
        f"{name}.smt2": smt_text(model),
    }
    if obstacle(model) is None:
        found |= {f"{name}/{file}": text for file, text in input_files(model).items()}
    return found
