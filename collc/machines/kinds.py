"""The kinds of files that describe machines: how to tell them apart, and who reads them.

A new kind is a record here, a reader, and a sample with tests. Names, hints and the choice of the reader follow from
the record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

from collc.base.diagnostics import SourceFile
from collc.machines.reading import ImportOptions, wrong


@dataclass(frozen=True, slots=True)
class ImportKind:
    """A kind of file that `collc import` reads.

    describes: the inside of nodes, the fabric between them, or one network. reader: as MODULE.FUNCTION of this folder;
    it takes the file and the options, and returns hosts and remarks for a node, a Fabric or HostGroups for a fabric, a
    Machine or an expression of the language for a network. xml, json, text: a pattern that only files of this kind
    contain, for each syntax that they have. White space in `text` is possessive and within a line, since each line of
    a file of nothing else would be searched to its end.
    """

    name: str
    describes: Literal["node", "fabric", "network"]
    reader: str
    xml: str = ""
    json: str = ""
    text: str = ""

    def read(self, source: SourceFile, options: ImportOptions) -> Any:  # noqa: ANN401
        """What the reader makes of a file. Raises as the reader does."""
        module, _, function = self.reader.partition(".")
        return getattr(import_module(f"collc.machines.{module}"), function)(source, options)


_RECORDS: Final = (
    ImportKind("nccl", "node", "nccl.read_nccl", xml="<system"),
    ImportKind("nvidia-smi", "node", "gpu_matrices.read_nvidia_smi", text=r"^[ \t]*+GPU0[ \t]++X\b"),
    ImportKind(
        "rocm-smi",
        "node",
        "gpu_matrices.read_rocm_smi",
        json=r'"\(Topology\) ',
        text=r"Link Type between two GPUs|ROCm System Management",
    ),
    ImportKind("amd-smi", "node", "gpu_matrices.read_rocm_smi", json=r'"bdf"\s*:', text=r"^[ \t]*+LINK TYPE TABLE"),
    ImportKind(
        "ibnetdiscover",
        "fabric",
        "infiniband.read_ibnetdiscover",
        text=r'^(Switch|Ca|Rt)[ \t]++\d+[ \t]++"[SHR]-[0-9a-f]{16}"',
    ),
    ImportKind("iblinkinfo", "fabric", "infiniband.read_iblinkinfo", text=r"^(Switch|CA): .*:[ \t\r]*+$"),
    ImportKind(
        "slurm",
        "fabric",
        "slurm.read_slurm",
        text=r"^[ \t]*+(SwitchName|BlockName|RingName)[ \t]*+=|^[ \t]*+-[ \t]*+topology[ \t]*+:",
    ),
    ImportKind("astra", "network", "astra.read_astra", text=r"^[ \t]*+npus_count[ \t]*+:"),
    ImportKind("sccl", "network", "graphs.read_sccl", json=r'"msccl_type"'),
    ImportKind("taccl", "network", "graphs.read_taccl", json=r'"betas"|"invbws"|"node_betas_list"'),
    ImportKind("networkx", "network", "graphs.read_networkx", xml="<graphml", json=r'"nodes"\s*:'),
    ImportKind("simgrid", "network", "simgrid.read_simgrid", xml="<platform"),
)
"""In the order in which their patterns are searched."""

KINDS: Final = {kind.name: kind for kind in _RECORDS}


def kinds_of(describes: str) -> list[str]:
    """The names of the kinds that describe a node, a fabric or a network."""
    return [kind.name for kind in _RECORDS if kind.describes == describes]


def kind_of(source: SourceFile) -> str:
    """The kind of a file by its content. Raises SourceError X0601 if no kind's pattern is in it."""
    text = source.text.lstrip("\ufeff \t\r\n")
    if text.startswith("<"):
        syntax, text = "xml", text[:4096]
    elif text.startswith(("{", "[")) and not re.match(r"\[\d+\]", text):
        syntax = "json"
    else:
        syntax, text = "text", re.sub(r"\x1b\[[0-9;]*m", "", source.text[: 1 << 20])
    flags = re.MULTILINE | re.IGNORECASE if syntax == "text" else re.NOFLAG
    for kind in _RECORDS:
        pattern: str = getattr(kind, syntax)
        if pattern and re.search(pattern, text, flags):
            return kind.name
    message = f"the kind of file of {source.name} cannot be recognized by its content"
    raise wrong(message, hint=f"name the kind: collc import KIND {source.name}; there are {', '.join(KINDS)}")
