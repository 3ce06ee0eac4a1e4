"""The matrix of GPUs and NICs that `nvidia-smi topo -m` prints, and the models of GPUs of `nvidia-smi -L` and `-q`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations, takewhile
from typing import Final

import numpy as np

from collc.base.diagnostics import SourceFile, Span
from collc.graph.digraph import Digraph, weakly_connected
from collc.machines.hosts import MODELS, Hop, Host, HostGpu, HostNic, Hosts, Peer, links_of, nvlink_rate, with_mesh
from collc.machines.kinds import ImportKind
from collc.machines.reading import GIGA, ImportOptions, flaw, line_span, option_error

_CODES: Final = {"X": 0, "PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5, "SOC": 5}
_PERMISSIONS: Final = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "U"})
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
_PCIE: Final = ((90, 48), (80, 24), (0, 12))
"""Compute capability, and GB/s of its 16 lanes of PCIe as NCCL counts (Gen5, Gen4, Gen3)."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Cells by row and column, both named. lines: of the rows. names: what the legend calls the NICs.

    place: of each column, the first of a name.
    """

    source: SourceFile
    columns: tuple[str, ...]
    place: Mapping[str, int]
    cells: Mapping[str, Sequence[str]]
    lines: Mapping[str, int]
    names: Mapping[str, str]

    def cell(self, row: str, column: str) -> str:
        return self.cells[row][self.place[column]]


def read_nvidia_smi(source: SourceFile, options: ImportOptions) -> Hosts:
    """The host of `nvidia-smi topo -m`.

    Raises SourceError X0601 with the line, UsageError X0602 if there are NVLinks, and neither `options.gpu` nor the
    file names the model.
    """
    matrix = _nvidia_matrix(source)
    gpus = [name for name in matrix.columns if name.startswith("GPU")]
    if not gpus:
        raise flaw(f"{source.name} has no row of a GPU", line_span(source, 1))
    model = options.gpu or (read_models(source, options) if _PRODUCT.search(source.text) else None)
    linked = any(matrix.cell(row, column).startswith("NV") for row, column in permutations(gpus, 2))
    if model is None and (linked or options.nvlink):
        hint = f"give the output of nvidia-smi -L as a file too, or the model: --gpu {'|'.join(MODELS)}"
        raise option_error("a matrix of nvidia-smi does not say which GPUs these are", hint)
    sm = 0 if model is None else MODELS[model]
    links: dict[str, dict[str, int]] = {row: {} for row in gpus}
    for row, column in permutations(gpus, 2):
        code, back = matrix.cell(row, column), matrix.cell(column, row)
        if back != code:
            message = f"{row} to {column} is '{code}', {column} to {row} '{back}'"
            raise flaw(message, line_span(source, matrix.lines[column]))
        links[row][column] = int(code[2:]) if code.startswith("NV") else 0
    width = next(rate for least, rate in _PCIE if sm >= least) * GIGA
    paths = _paths(matrix, Fraction(width))
    read: list[HostGpu] = []
    for row in gpus:
        direct = sum(links[row].values()) <= links_of(sm)
        peers = tuple(Peer(other, count) for other, count in links[row].items() if count) if direct else ()
        switch = 0 if direct else max(links[row].values())
        if options.switch_links is not None and not peers:
            switch = options.switch_links
        read.append(HostGpu(row, paths[row], nvlink_rate(sm), switch, peers))
    if options.nvlink == "dgx1" and not any(gpu.peers or gpu.switch_links for gpu in read):
        read = with_mesh(read)
    nics = [HostNic(matrix.names.get(name, name), paths[name], None) for name in matrix.columns if name not in gpus]
    cpus = list(dict.fromkeys(path[-1][0] for path in paths.values()))
    between = tuple((a, b, Fraction(width)) for a, b in combinations(cpus, 2))
    said = f"assumed: 16 lanes of PCIe {'Gen3' if model is None else f'of {model}'} as NCCL counts"
    remarks = [] if model is None else [f"the GPUs are {model} (--gpu {model})"]
    return Hosts([Host(tuple(read), tuple(nics), between, assumed_pcie=said)], remarks)


_PRODUCT: Final = re.compile(r"^(?:GPU \d{1,9}: ([^\n]*?) \(UUID: |[ \t]*+Product Name[ \t]*+: ([^\n]*))", re.MULTILINE)


def read_models(source: SourceFile, _options: ImportOptions) -> str:
    """The model of the GPUs that `nvidia-smi -L` or `-q` lists, of `hosts.MODELS`.

    Raises SourceError X0601 for several models, UsageError X0602 for one that is not known.
    """
    known: dict[str, re.Match[str]] = {}
    for match in _PRODUCT.finditer(source.text):
        name = (match[1] or match[2]).strip()
        known_model = next((key for key in MODELS if re.search(rf"\bG?{key}\b", name, re.IGNORECASE)), None)
        if known_model is None:
            message = f"{source.name} names {name[:60]}, whose NVLinks are not known"
            raise option_error(message, f"give the model that it is like: --gpu {'|'.join(MODELS)}")
        known.setdefault(known_model, match)
    if len(known) > 1:
        match = list(known.values())[1]
        message = f"GPUs of several models: {', '.join(known)}"
        raise flaw(message, Span(source, match.start(), match.end()), "write the machine in .coll")
    if not known:
        raise flaw(f"{source.name} names no GPU", line_span(source, 1))
    return next(iter(known))


_AFFINITY: Final = frozenset(("CPU", "NUMA"))
"""First words of the columns that follow those of the devices."""


def _nvidia_matrix(source: SourceFile) -> _Matrix:
    columns: list[str] = []
    cells: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    names: dict[str, str] = {}
    for line, raw in enumerate(source.text.split("\n"), 1):
        words = _ESCAPES.sub("", raw).split()
        if not words:
            continue
        if not columns:
            if any(re.fullmatch(r"GPU\d+", word) for word in words):  # all columns up to those of CPUs are devices
                columns = list(takewhile(lambda word: word not in _AFFINITY, words))
            continue
        named = re.match(r"\s*(NIC\d+):\s*(\S+)", raw)
        if named is not None:
            names[named[1]] = named[2]
        elif words[0] in columns and words[0] not in cells:
            row = words[1 : 1 + len(columns)]
            if not _PERMISSIONS.isdisjoint(row):
                message = "this is 'nvidia-smi topo -p2p', which says what is permitted and not how GPUs are linked"
                raise flaw(message, line_span(source, line), "give the output of 'nvidia-smi topo -m'")
            for column, code in enumerate(row):
                if code not in _CODES and not re.fullmatch(r"NV\d+", code):
                    message = f"'{code[:20]}' in column {columns[column]} is not a code of nvidia-smi"
                    raise flaw(message, line_span(source, line), "the codes are X, NV#, PIX, PXB, PHB, NODE and SYS")
            if len(row) < len(columns):
                message = f"row {words[0]} has {len(row)} codes, the header {len(columns)} columns"
                raise flaw(message, line_span(source, line), "is the file cut off?")
            cells[words[0]], lines[words[0]] = row, line
        elif words[0] not in columns and re.fullmatch(r"(GPU|NIC|mlx)[\d_]+", words[0]):
            raise flaw(f"the header has no column {words[0]}", line_span(source, line), "is it damaged?")
    lost = [name for name in columns if name not in cells]
    if not columns or lost:
        message = f"the row of {lost[0]} is missing" if lost else "no header with GPU0, GPU1, ..."
        raise flaw(f"{source.name} is not the output of 'nvidia-smi topo -m': {message}", line_span(source, 1))
    place = {name: column for column, name in reversed(list(enumerate(columns)))}
    return _Matrix(source, tuple(columns), place, cells, lines, names)


def _paths(matrix: _Matrix, rate: Fraction) -> dict[str, tuple[Hop, ...]]:
    """Bridges and CPU above each device, from what is near what: PIX one bridge, PXB two, PHB and NODE one CPU.

    A cell of two GPUs with NVLinks does not say how PCIe joins them: the devices that are near both do.
    """
    groups: list[dict[str, int]] = []  # for each device the first one that codes up to a level join it to
    for level in (1, 2, 4):
        rows = ((a, b, code) for a, row in enumerate(matrix.columns) for b, code in enumerate(matrix.cells[row]))
        near = [(a, b) for a, b, code in rows if _CODES.get(code, 9) <= level]
        label = weakly_connected(Digraph(len(matrix.columns), *np.array(near, np.int32).T))
        groups.append(dict(zip(matrix.columns, label.tolist(), strict=True)))
    paths: dict[str, tuple[Hop, ...]] = {}
    for name in matrix.columns:
        bridge, upper, cpu = (group[name] for group in groups)
        hops: list[Hop] = [(f"bridge of {matrix.columns[bridge]}", rate)]
        if upper != bridge or sum(other == upper for other in groups[1].values()) > sum(
            other == bridge for other in groups[0].values()
        ):
            hops.append((f"upper bridge of {matrix.columns[upper]}", rate))
        paths[name] = (*hops, (f"CPU of {matrix.columns[cpu]}", rate))
    return paths


KINDS: Final = (
    ImportKind(
        "nvidia-smi",
        "node",
        read_nvidia_smi,
        file="'nvidia-smi topo -m'",
        contains="NVLinks and distances on PCIe",
        options="'--gpu', '-D nic='",
        text=r"^[ \t]*+GPU0[ \t]++X\b",
    ),
    ImportKind(
        "nvidia-smi-models",
        "model",
        read_models,
        file="'nvidia-smi -L', 'nvidia-smi -q'",
        contains="the model of the GPUs of another file",
        options="",
        text=r"^GPU \d{1,9}: [^\n]*\(UUID: |^[ \t]*+Product Name[ \t]*+:",
    ),
)
