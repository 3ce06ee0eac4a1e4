"""The matrices of GPUs and NICs that `nvidia-smi topo -m`, `rocm-smi --showtopo` and `amd-smi topology` print."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from typing import Any, Final, cast

import numpy as np

from collc.base.diagnostics import SourceFile
from collc.graph.digraph import Digraph
from collc.graph.reachability import weakly_connected
from collc.machines.gpu_models import MODELS, links_of, nvlink_rate
from collc.machines.hosts import Hop, Host, HostGpu, HostNic, with_mesh
from collc.machines.reading import (
    GIGA,
    ImportOptions,
    check_devices,
    field_span,
    items,
    line_span,
    load_json,
    mapping,
    missing,
    wrong,
)

_CODES: Final = {"X": 0, "PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5, "SOC": 5}
_PERMISSIONS: Final = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "U"})
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
_PCIE: Final = ((90, 48), (80, 24), (0, 12))
"""Compute capability, and GB/s of its 16 lanes of PCIe as NCCL counts (Gen5, Gen4, Gen3)."""

_AMD_PCIE: Final = Fraction(24 * GIGA)


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


def read_nvidia_smi(source: SourceFile, options: ImportOptions) -> tuple[list[Host], list[str]]:
    """The host of `nvidia-smi topo -m`.

    Raises SourceError X0601 with the line, UsageError X0602 without `options.gpu`.
    """
    matrix = _nvidia_matrix(source)
    gpus = [name for name in matrix.columns if name.startswith("GPU")]
    if not gpus:
        raise wrong(f"{source.name} has no row of a GPU", line_span(source, 1))
    if options.gpu is None:
        hint = f"give the model: --gpu {'|'.join(MODELS)}"
        raise missing("a matrix of nvidia-smi does not say which GPUs these are", hint)
    sm = MODELS[options.gpu].sm
    links = {row: {column: _bonded(matrix, row, column) for column in gpus if column != row} for row in gpus}
    width = next(rate for least, rate in _PCIE if sm >= least) * GIGA
    paths = _paths(matrix, Fraction(width))
    found: list[HostGpu] = []
    for row in gpus:
        direct = sum(links[row].values()) <= links_of(sm)
        peers = tuple((other, count) for other, count in links[row].items() if count) if direct else ()
        switch = 0 if direct else max(links[row].values())
        if options.nvlink is not None and not peers:
            switch = options.nvlink
        found.append(HostGpu(row, paths[row], nvlink_rate(sm), switch, peers))
    if options.mesh and not any(gpu.peers or gpu.switch_links for gpu in found):
        found = with_mesh(found)
    nics = [HostNic(matrix.names.get(name, name), paths[name], None) for name in matrix.columns if name not in gpus]
    said = f"assumed: 16 lanes of PCIe of {options.gpu} as NCCL counts"
    return [Host(tuple(found), tuple(nics), _cpu_links(paths), assumed_pcie=said)], []


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
                raise wrong(message, line_span(source, line), "give the output of 'nvidia-smi topo -m'")
            for at, code in enumerate(row):
                if code not in _CODES and not re.fullmatch(r"NV\d+", code):
                    message = f"'{code[:20]}' in column {columns[at]} is not a code of nvidia-smi"
                    raise wrong(message, line_span(source, line), "the codes are X, NV#, PIX, PXB, PHB, NODE and SYS")
            if len(row) < len(columns):
                message = f"row {words[0]} has {len(row)} codes, the header {len(columns)} columns"
                raise wrong(message, line_span(source, line), "is the file cut off?")
            cells[words[0]], lines[words[0]] = row, line
        elif words[0] not in columns and re.fullmatch(r"(GPU|NIC|mlx)[\d_]+", words[0]):
            raise wrong(f"the header has no column {words[0]}", line_span(source, line), "is it damaged?")
    lost = [name for name in columns if name not in cells]
    if not columns or lost:
        message = f"the row of {lost[0]} is missing" if lost else "no header with GPU0, GPU1, ..."
        raise wrong(f"{source.name} is not the output of 'nvidia-smi topo -m': {message}", line_span(source, 1))
    place = {name: at for at, name in reversed(list(enumerate(columns)))}
    return _Matrix(source, tuple(columns), place, cells, lines, names)


def _bonded(matrix: _Matrix, row: str, column: str) -> int:
    """NVLinks between two GPUs."""
    code = matrix.cell(row, column)
    if matrix.cell(column, row) != code:
        message = f"{row} to {column} is '{code}', {column} to {row} '{matrix.cell(column, row)}'"
        raise wrong(message, line_span(matrix.source, matrix.lines[column]))
    return int(code[2:]) if code.startswith("NV") else 0


def _paths(matrix: _Matrix, rate: Fraction) -> dict[str, tuple[Hop, ...]]:
    """Bridges and CPU above each device, from what is near what: PIX one bridge, PXB two, PHB and NODE one CPU.

    A cell of two GPUs with NVLinks does not say how PCIe joins them: the devices that are near both do.
    """
    groups = [_near(matrix, level) for level in (1, 2, 4)]
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


def _near(matrix: _Matrix, level: int) -> dict[str, int]:
    """For each device the first one that it is joined to by codes up to a level, over others too."""
    near = [
        (a, b)
        for a, row in enumerate(matrix.columns)
        for b, code in enumerate(matrix.cells[row])
        if _CODES.get(code, 9) <= level
    ]
    label = weakly_connected(Digraph(len(matrix.columns), *np.array(near, np.int32).T))
    return dict(zip(matrix.columns, label.tolist(), strict=True))


def _cpu_links(paths: Mapping[str, tuple[Hop, ...]]) -> tuple[tuple[str, str, Fraction], ...]:
    cpus = list(dict.fromkeys(path[-1][0] for path in paths.values()))
    rate = next(iter(paths.values()))[-1][1]
    return tuple((a, b, rate) for at, a in enumerate(cpus) for b in cpus[at + 1 :])


def read_rocm_smi(source: SourceFile, options: ImportOptions) -> tuple[list[Host], list[str]]:
    """The host of `rocm-smi --showtopo` or `amd-smi topology`, text or JSON.

    Raises SourceError X0601 with the line, UsageError X0602 where no bandwidth is known.
    """
    if source.text.lstrip().startswith(("[", "{")):
        names, pairs, rate = _amd_json(source)
    elif re.search(r"^[ \t]*+LINK TYPE TABLE", source.text, re.MULTILINE):
        names, pairs, rate = _amd_text(source)
    else:
        (names, pairs), rate = _rocm_text(source), None
    xgmi = options.rates.get("xgmi", rate)
    if xgmi is None:
        raise missing(f"{source.name} does not say the bandwidth of XGMI", "give that of one direction: -D xgmi=50GB/s")
    peers: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for a, b in pairs:
        peers[a].append((names[b], 1))
    path: tuple[Hop, ...] = (("CPU", _AMD_PCIE),)
    gpus = tuple(HostGpu(name, path, xgmi, 0, tuple(peers[at])) for at, name in enumerate(names))
    said = "the least bandwidth that the file gives"
    host = Host(gpus, (), link="xgmi", rate_source=said, assumed_pcie="assumed: 16 lanes of PCIe Gen4")
    return [host], ["what leads over other GPUs or PCIe is not a link of its own"]


def _rocm_text(source: SourceFile) -> tuple[list[str], list[tuple[int, int]]]:
    """GPUs, and the pairs that an XGMI link joins, from the sections Hops and Link Type."""
    sections: dict[str, list[tuple[int, list[str]]]] = {}
    headers: dict[str, list[str]] = {}
    title = ""
    for line, text in enumerate(source.text.split("\n"), 1):
        words = text.split()
        if text.startswith("="):
            title = text.strip("= ").lower()
        elif words and all(re.fullmatch(r"GPU\d+", word) for word in words):
            headers.setdefault(title, words)
        elif words and re.fullmatch(r"GPU\d+", words[0]):
            sections.setdefault(title, []).append((line, words))
    section = next((name for name in sections if "link type" in name), None)
    if section is None:
        raise wrong(f"{source.name} has no section 'Link Type between two GPUs'", line_span(source, 1))
    names = headers.get(section) or [words[0] for _, words in sections[section]]
    types = _rocm_rows(source, section, sections[section], names)
    counted = next((name for name in sections if "hops" in name), None)
    hops = None if counted is None else _rocm_rows(source, counted, sections[counted], names)
    for line, cells in hops or ():
        odd = next((cell for cell in cells if not re.fullmatch(r"\d+|N/A", cell)), None)
        if odd is not None:
            raise wrong(f"'{odd[:20]}' is not a number of hops", line_span(source, line))
    pairs: list[tuple[int, int]] = []
    for a, (line, kinds) in enumerate(types):
        for b, kind in enumerate(kinds):
            if kind not in {"0", "XGMI", "PCIE", "N/A"}:
                message = f"'{kind[:20]}' is not a type of link"
                raise wrong(message, line_span(source, line), "the types are XGMI and PCIE")
            if kind == "XGMI" and (hops is None or hops[a][1][b] == "1"):
                pairs.append((a, b))
    _check_directions(source, names, pairs, [line for line, _ in types])
    return names, pairs


def _check_directions(source: SourceFile, names: list[str], pairs: list[tuple[int, int]], lines: list[int]) -> None:
    """Raise SourceError X0601 where a link of XGMI is there in one direction only. lines: of the row of each GPU."""
    known = set(pairs)
    for a, b in pairs:
        if (b, a) not in known:
            message = f"one hop of XGMI leads from {names[a]} to {names[b]}, and none from {names[b]} to {names[a]}"
            raise wrong(message, line_span(source, lines[a]), "XGMI links both ways: is the file damaged?")


def _rocm_rows(
    source: SourceFile, section: str, rows: list[tuple[int, list[str]]], names: list[str]
) -> list[tuple[int, list[str]]]:
    """The line and the cells of each GPU in a section. Raises SourceError X0601 unless each has one complete row."""
    for at, (line, words) in enumerate(rows):
        if len(words) != len(names) + 1:
            message = f"row {words[0]} has {len(words) - 1} columns, and there are {len(names)} GPUs"
            raise wrong(message, line_span(source, line), "is the file cut off?")
        if at >= len(names) or words[0] != names[at]:
            expected = f"that of {names[at]}" if at < len(names) else "the end of the section"
            message = f"section '{section}': a row of {words[0]}, where {expected} is expected"
            raise wrong(message, line_span(source, line), "is a line lost, or there twice?")
    if len(rows) < len(names):
        message = f"section '{section}' has no row of {names[len(rows)]}"
        raise wrong(message, line_span(source, rows[-1][0]), "is the file cut off?")
    return [(line, words[1:]) for line, words in rows]


def _amd_text(source: SourceFile) -> tuple[list[str], list[tuple[int, int]], Fraction | None]:
    """The same of the tables of `amd-smi topology`, whose rows and columns are PCI addresses."""
    tables: dict[str, list[tuple[int, list[str]]]] = {}
    title = ""
    for line, text in enumerate(source.text.split("\n"), 1):
        words = text.split()
        named = re.fullmatch(r"\s*([A-Z][A-Z -]+?) TABLE:?\s*", text)
        if named is not None:
            title = named[1]
        elif len(words) > 1 and _is_address(words[0]) and not _is_address(words[1]):
            tables.setdefault(title, []).append((line, words))
    types = tables.get("LINK TYPE", [])
    names = [words[0] for _, words in types]
    pairs: list[tuple[int, int]] = []
    rates: list[int] = []
    for a, (line, words) in enumerate(types):
        for kind in words[1:]:
            if kind not in {"SELF", "XGMI", "PCIE", "N/A", "UNKNOWN"}:
                message = f"'{kind[:20]}' is not a type of link"
                raise wrong(message, line_span(source, line), "the types are SELF, XGMI, PCIE, N/A and UNKNOWN")
        short = next((name for name, rows in tables.items() if a >= len(rows)), None)
        if short is not None:
            raise wrong(f"{short} has no row of {names[a]}", line_span(source, line), "is the file cut off?")
        rows = {name: rows[a] for name, rows in tables.items()}
        for name, (at, row) in rows.items():
            if row[0] != names[a] or len(row) != len(names) + 1:
                message = f"row {row[0]} of {name} has {len(row) - 1} columns, and there are {len(names)} GPUs"
                raise wrong(message, line_span(source, at), "is the file cut off?")
        cells = {name: row[1:] for name, (_, row) in rows.items()}
        for b in range(len(names)):
            near = cells["HOPS"][b] == "1" if "HOPS" in cells else True
            if cells["LINK TYPE"][b] == "XGMI" and near and cells.get("ACCESS", [""] * (b + 1))[b] != "DISABLED":
                pairs.append((a, b))
                rates += [int(text) for text in re.findall(r"\d{1,9}", cells.get("NUMA BW", [""] * (b + 1))[b])[:1]]
    return names, pairs, Fraction(min(rates), 1000) * GIGA if rates and min(rates) > 0 else None


def _is_address(word: str) -> bool:
    return re.fullmatch(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]", word) is not None


def _amd_json(source: SourceFile) -> tuple[list[str], list[tuple[int, int]], Fraction | None]:
    """The same of JSON, with the least bandwidth of an XGMI link where it is there."""
    data = load_json(source)
    if isinstance(data, dict):
        return (*_rocm_json(source, mapping(cast("object", data))), None)
    gpus = [mapping(gpu) for gpu in items(data)]
    if not all("bdf" in gpu and isinstance(gpu.get("links"), list) for gpu in gpus):
        message = f"{source.name} is not a list of GPUs with 'bdf' and 'links' as of 'amd-smi topology --json'"
        raise wrong(message, line_span(source, 1))
    names = [str(gpu["bdf"]) for gpu in gpus]
    place: dict[str, int] = {}
    for at, name in enumerate(names):
        place.setdefault(name, at)
    pairs: list[tuple[int, int]] = []
    rates: list[int] = []
    for a, gpu in enumerate(gpus):
        for link in map(mapping, items(gpu["links"])):
            if _one_hop(source, link, place):
                pairs.append((a, place[str(link["bdf"])]))
                rates += [int(text) for text in re.findall(r"\d{1,9}", str(link.get("bandwidth", "")))[:1]]
    return names, pairs, Fraction(min(rates), 1000) * GIGA if rates and min(rates) > 0 else None


def _one_hop(source: SourceFile, link: Mapping[str, Any], place: Mapping[str, int]) -> bool:
    """Whether a link of amd-smi is one of XGMI to another GPU of the file without others between."""
    is_xgmi = str(link.get("link_type")).upper() == "XGMI"
    lost = next((key for key in ("link_type", "bdf", "num_hops") if key not in link), None)
    if lost is not None and (is_xgmi or lost == "link_type"):
        span = field_span(source, "bdf", link["bdf"]) if "bdf" in link else line_span(source, 1)
        raise wrong(f"a link has no '{lost}'", span, "as 'amd-smi topology --json' prints it")
    if not is_xgmi:
        return False
    hops = str(link["num_hops"])
    if not re.fullmatch(r"[0-9]{1,9}", hops):
        message = f"'num_hops' is a whole number of at least 0, not '{hops[:40]}'"
        raise wrong(message, field_span(source, "num_hops", link["num_hops"]))
    if str(link["bdf"]) not in place:
        message = f"a link leads to {link['bdf']!s:.40}, which is not a GPU of the file"
        raise wrong(message, field_span(source, "bdf", link["bdf"]), "is the file cut off?")
    return int(hops) == 1


def _rocm_json(source: SourceFile, data: Mapping[str, Any]) -> tuple[list[str], list[tuple[int, int]]]:
    rows = mapping(data.get("system", data))
    found: dict[tuple[int, int], dict[str, str]] = {}
    for key, value in rows.items():
        match = re.fullmatch(r"\(Topology\) (Hops|Link type) between DRM devices (\d+) and (\d+)", key)
        if match is not None:
            if max(len(match[2]), len(match[3])) > 9:
                raise wrong(f"'{key[:90]}' has no number of a device", line_span(source, 1))
            found.setdefault((int(match[2]), int(match[3])), {})[match[1]] = str(value)
    if not found:
        message = f"{source.name} has no key '(Topology) Link type between DRM devices 0 and 1'"
        raise wrong(message, line_span(source, 1), "as 'rocm-smi --showtopo --json' prints it")
    devices = {device for pair in found for device in pair}
    count = 1 + max(devices)
    if len(devices) < count:
        least = next(device for device in range(count) if device not in devices)
        message = f"device {least} is in no pair, and there is a device {count - 1}"
        raise wrong(message, line_span(source, 1), "is the file cut off?")
    check_devices(count)
    both = [
        pair
        for (a, b), value in sorted(found.items())
        if value.get("Link type", "").upper() == "XGMI" and value.get("Hops", "1") == "1"
        for pair in ((a, b), (b, a))
    ]
    return [f"GPU{at}" for at in range(count)], list(dict.fromkeys(both))
