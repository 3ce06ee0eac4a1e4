"""The kinds of files that describe machines: how to tell them apart, and who reads them.

A kind is one file of the folder `readers`, with its record and its reader. The help of `collc import`, the table of
docs/machines.md, hints of messages and the choice of the reader follow from the record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final, Literal

from collc.base.diagnostics import SourceFile
from collc.machines import readers
from collc.machines.fabrics import Fabric, HostGroups
from collc.machines.hosts import Hosts
from collc.machines.machine import Machine
from collc.machines.reading import ImportOptions, flaw

Description = Hosts | Fabric | HostGroups | Machine | str
"""What a file describes: the inside of nodes, a fabric between nodes, or a network. A text is an expression of the
language for the network, or the model of GPUs."""


@dataclass(frozen=True, slots=True)
class ImportKind:
    """A kind of file that `collc import` reads.

    describes: the inside of nodes (`read` returns Hosts), the fabric between them (a Fabric or HostGroups), one
    network (a Machine or text), or the model of the GPUs of other files (text). file, contains, options: for the table
    of docs/machines.md: where the file comes from, what it says, and which options say the rest. xml, json, text: a
    pattern that only files of this kind contain, for each syntax that they have. White space in `text` is possessive
    and within a line, since each line of a file of nothing else would be searched to its end.
    """

    name: str
    describes: Literal["node", "fabric", "network", "model"]
    read: Callable[[SourceFile, ImportOptions], Description]
    file: str
    contains: str
    options: str = ""
    xml: str = ""
    json: str = ""
    text: str = ""


_JSON_BUT_NO_TEXT: Final = re.compile(r"\{|\[(?!\d+\])")
"""How JSON begins; a line of ibnetdiscover begins with a port, as `[1]`."""


@cache
def import_kinds() -> Mapping[str, ImportKind]:
    """All kinds by name, in the order in which their patterns are searched: of the names of the files in `readers`."""
    modules = [import_module(f"{readers.__name__}.{module.name}") for module in iter_modules(readers.__path__)]
    return {kind.name: kind for module in modules for kind in module.KINDS}


def kinds_of(describes: str) -> list[str]:
    """The names of the kinds that describe a node, a fabric or a network."""
    return [kind.name for kind in import_kinds().values() if kind.describes == describes]


def kind_of(source: SourceFile) -> str:
    """The kind of a file by its content. Raises SourceError X0601 if no kind's pattern is in it."""
    text = source.text.lstrip("\ufeff \t\r\n")
    if text.startswith("<"):
        syntax, text = "xml", text[:4096]
    elif _JSON_BUT_NO_TEXT.match(text):
        syntax = "json"
    else:
        syntax, text = "text", re.sub(r"\x1b\[[0-9;]*m", "", source.text[: 1 << 20])
    flags = re.MULTILINE | re.IGNORECASE if syntax == "text" else re.NOFLAG
    for kind in import_kinds().values():
        pattern: str = getattr(kind, syntax)
        if pattern and re.search(pattern, text, flags):
            return kind.name
    message = f"the kind of file of {source.name} cannot be recognized by its content"
    raise flaw(message, hint=f"name the kind: collc import KIND {source.name}; there are {', '.join(import_kinds())}")
