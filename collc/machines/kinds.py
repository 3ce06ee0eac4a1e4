"""The kinds of files that describe machines, and how to tell them apart."""

from __future__ import annotations

import re
from typing import Final

from collc.base.diagnostics import SourceFile
from collc.machines.reading import wrong

NODE_KINDS: Final = ("nccl", "nvidia-smi", "rocm-smi", "amd-smi")
"""Files that describe the inside of nodes."""

FABRIC_KINDS: Final = ("ibnetdiscover", "iblinkinfo", "slurm")
"""Files that describe the network between nodes."""

NETWORK_KINDS: Final = ("astra", "networkx", "taccl", "sccl", "simgrid")
"""Files that describe one network."""

KINDS: Final = (*NODE_KINDS, *FABRIC_KINDS, *NETWORK_KINDS)

_XML: Final = (("<system", "nccl"), ("<platform", "simgrid"), ("<graphml", "networkx"))
_TEXT: Final = (
    (r"^[ \t]*+GPU0[ \t]++X\b", "nvidia-smi"),
    (r"^[ \t]*+LINK TYPE TABLE", "amd-smi"),
    (r"Link Type between two GPUs|ROCm System Management", "rocm-smi"),
    (r'^(Switch|Ca|Rt)[ \t]++\d+[ \t]++"[SHR]-[0-9a-f]{16}"', "ibnetdiscover"),
    (r"^(Switch|CA): .*:[ \t\r]*+$", "iblinkinfo"),
    (r"^[ \t]*+(SwitchName|BlockName|RingName)[ \t]*+=|^[ \t]*+-[ \t]*+topology[ \t]*+:", "slurm"),
    (r"^[ \t]*+npus_count[ \t]*+:", "astra"),
)
"""White space is possessive and within a line: of a file of nothing else, each line would be searched to its end."""

_JSON: Final = (
    (r'"\(Topology\) ', "rocm-smi"),
    (r'"bdf"\s*:', "amd-smi"),
    (r'"msccl_type"', "sccl"),
    (r'"betas"|"invbws"|"node_betas_list"', "taccl"),
    (r'"nodes"\s*:', "networkx"),
)


def kind_of(source: SourceFile) -> str:
    """The kind of a file by its content. Raises SourceError X0601 where it is none that is known."""
    text = source.text.lstrip("\ufeff \t\r\n")
    if text.startswith("<"):
        found = next((kind for tag, kind in _XML if tag in text[:4096]), None)
    elif text.startswith(("{", "[")) and not re.match(r"\[\d+\]", text):
        found = next((kind for pattern, kind in _JSON if re.search(pattern, text)), None)
    else:
        clean = re.sub(r"\x1b\[[0-9;]*m", "", source.text[: 1 << 20])
        found = next((kind for pattern, kind in _TEXT if re.search(pattern, clean, re.MULTILINE | re.IGNORECASE)), None)
    if found is None:
        message = f"the kind of file of {source.name} cannot be recognized by its content"
        raise wrong(message, hint=f"name the kind: collc import KIND {source.name}; there are {', '.join(KINDS)}")
    return found
