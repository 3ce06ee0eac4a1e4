"""GPUs that XGMI joins, as `rocm-smi --showtopo` and `amd-smi topology` print them, as text or JSON."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, cast

from collc.base.diagnostics import SourceFile
from collc.machines.hosts import Hop, Host, HostGpu, Hosts, Peer
from collc.machines.kinds import ImportKind
from collc.machines.reading import (
    GIGA,
    ImportOptions,
    check_devices,
    field_span,
    flaw,
    items,
    line_span,
    load_json,
    mapping,
    option_error,
)

_PCIE: Final[tuple[Hop, ...]] = (("CPU", Fraction(24 * GIGA)),)
_NAME: Final = re.compile(r"GPU\d+|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")
"""A GPU: its number (rocm-smi) or its PCI address (amd-smi)."""

_TITLE: Final = re.compile(r"=+ *([^=]+?) *=+|\s*([A-Z][A-Z -]+?) TABLE:?\s*")
_TYPES: Final = {"0", "SELF", "XGMI", "PCIE", "N/A", "UNKNOWN"}

_Pairs = list[tuple[int, int]]
_Row = tuple[int, list[str]]
"""A line, and its words after the name of the GPU."""


def read_amd(source: SourceFile, options: ImportOptions) -> Hosts:
    """The host of a file of either tool.

    Raises SourceError X0601 with the line, UsageError X0602 if no bandwidth is known.
    """
    is_json = source.text.lstrip().startswith(("[", "{"))
    names, pairs, megabytes = _read_json(source) if is_json else _read_tables(source)
    rate = Fraction(min(megabytes), 1000) * GIGA if megabytes and min(megabytes) > 0 else None
    xgmi = options.rates.get("xgmi", rate)
    if xgmi is None and pairs:
        hint = "give that of one direction: -D xgmi=50GB/s"
        raise option_error(f"{source.name} does not say the bandwidth of XGMI", hint)
    peers: dict[int, list[Peer]] = defaultdict(list)
    for a, b in pairs:
        peers[a].append(Peer(names[b], 1))
    gpus = tuple(HostGpu(name, _PCIE, xgmi or Fraction(0), 0, tuple(peers[k])) for k, name in enumerate(names))
    said = "the least bandwidth that the file gives"
    host = Host(gpus, (), link="xgmi", rate_source=said, assumed_pcie="assumed: 16 lanes of PCIe Gen4")
    return Hosts([host], ["what leads over other GPUs or PCIe is not a link of its own"])


def _read_tables(source: SourceFile) -> tuple[list[str], _Pairs, list[int]]:
    """GPUs, the pairs that an XGMI link joins, and megabytes per second of links, from tables of all pairs."""
    tables: dict[str, list[_Row]] = {}
    headers: dict[str, list[str]] = {}
    title = ""
    for line, text in enumerate(source.text.split("\n"), 1):
        words = text.split()
        if heading := _TITLE.fullmatch(text.rstrip()):
            title = heading[1] or heading[2]
        elif words and all(map(_NAME.fullmatch, words)):
            headers.setdefault(title, words)
        elif words and _NAME.fullmatch(words[0]):
            tables.setdefault(title, []).append((line, words))
    chosen = {word: next((name for name in tables if word in name.lower()), None) for word in _COLUMNS}
    section = chosen["link type"]
    if section is None:
        raise flaw(f"{source.name} has no section 'Link Type between two GPUs'", line_span(source, 1))
    names = headers.get(section) or [words[0] for _, words in tables[section]]
    rows = {word: _complete_rows(source, name, tables[name], names) for word, name in chosen.items() if name}
    for word, (cell, message, hint) in _COLUMNS.items():
        for line, cells in rows.get(word, ()):
            odd = next((text for text in cells if not re.fullmatch(cell, text)), None)
            if odd is not None:
                raise flaw(f"'{odd[:20]}' is not {message}", line_span(source, line), hint)
    near = [
        (a, b)
        for a, (_, kinds) in enumerate(rows["link type"])
        for b, kind in enumerate(kinds)
        if kind == "XGMI" and ("hops" not in rows or rows["hops"][a][1][b] == "1")
    ]
    joined = set(near)
    for a, b in near:
        if (b, a) not in joined:
            message = f"one hop of XGMI leads from {names[a]} to {names[b]}, and none from {names[b]} to {names[a]}"
            line = rows["link type"][a][0]
            raise flaw(message, line_span(source, line), "XGMI links both ways: is the file damaged?")
    pairs = [(a, b) for a, b in near if "access" not in rows or rows["access"][a][1][b] != "DISABLED"]
    return (
        names,
        pairs,
        [rate for a, b in pairs if "numa bw" in rows for rate in _first_number(rows["numa bw"][a][1][b])],
    )


_COLUMNS: Final = {
    "link type": ("|".join(sorted(_TYPES)), "a type of link", "the types are XGMI and PCIE"),
    "hops": (r"\d+|N/A|SELF", "a number of hops", ""),
    "access": (".*", "", ""),
    "numa bw": (".*", "", ""),
}
"""Words of the titles of tables, with a pattern of the cells, what they are, and a hint."""


def _complete_rows(source: SourceFile, title: str, rows: Sequence[_Row], names: Sequence[str]) -> list[_Row]:
    """The line and the cells of each GPU in a table. Raises SourceError X0601 unless each has one complete row."""
    for number, (line, words) in enumerate(rows):
        if len(words) != len(names) + 1:
            message = f"row {words[0]} has {len(words) - 1} columns, and there are {len(names)} GPUs"
            raise flaw(message, line_span(source, line), "is the file cut off?")
        if number >= len(names) or words[0] != names[number]:
            expected = f"the row of {names[number]}" if number < len(names) else "the end of the section"
            message = f"section '{title}': a row of {words[0]}, but {expected} is expected"
            raise flaw(message, line_span(source, line), "is a line lost, or there twice?")
    if len(rows) < len(names):
        message = f"section '{title}' has no row of {names[len(rows)]}"
        raise flaw(message, line_span(source, rows[-1][0]), "is the file cut off?")
    return [(line, words[1:]) for line, words in rows]


def _first_number(text: str) -> list[int]:
    """The first number of a range of megabytes per second; [] if there is none."""
    return [int(number) for number in re.findall(r"\d{1,9}", text)[:1]]


def _read_json(source: SourceFile) -> tuple[list[str], _Pairs, list[int]]:
    """What `_read_tables` returns, of JSON."""
    data = load_json(source)
    if isinstance(data, dict):
        names, pairs = _read_rocm_json(source, mapping(cast("object", data)))
        return names, pairs, []
    gpus = [mapping(gpu) for gpu in items(data)]
    if not all("bdf" in gpu and isinstance(gpu.get("links"), list) for gpu in gpus):
        message = f"{source.name} is not a list of GPUs with 'bdf' and 'links' as of 'amd-smi topology --json'"
        raise flaw(message, line_span(source, 1))
    names = [str(gpu["bdf"]) for gpu in gpus]
    number = {name: place for place, name in reversed(list(enumerate(names)))}
    links = [(a, link) for a, gpu in enumerate(gpus) for link in map(mapping, items(gpu["links"]))]
    near = [(a, link) for a, link in links if _is_one_hop(source, link, number)]
    rates = [rate for _, link in near for rate in _first_number(str(link.get("bandwidth", "")))]
    return names, [(a, number[str(link["bdf"])]) for a, link in near], rates


def _is_one_hop(source: SourceFile, link: Mapping[str, Any], number: Mapping[str, int]) -> bool:
    """Whether a link of amd-smi is one of XGMI to another GPU of the file without others between."""
    is_xgmi = str(link.get("link_type")).upper() == "XGMI"
    lost = next((key for key in ("link_type", "bdf", "num_hops") if key not in link), None)
    if lost is not None and (is_xgmi or lost == "link_type"):
        span = field_span(source, "bdf", link["bdf"]) if "bdf" in link else line_span(source, 1)
        raise flaw(f"a link has no '{lost}'", span, "as 'amd-smi topology --json' prints it")
    if not is_xgmi:
        return False
    hops = str(link["num_hops"])
    if not re.fullmatch(r"[0-9]{1,9}", hops):
        message = f"'num_hops' is a whole number of at least 0, not '{hops[:40]}'"
        raise flaw(message, field_span(source, "num_hops", link["num_hops"]))
    if str(link["bdf"]) not in number:
        message = f"a link leads to {link['bdf']!s:.40}, which is not a GPU of the file"
        raise flaw(message, field_span(source, "bdf", link["bdf"]), "is the file cut off?")
    return int(hops) == 1


def _read_rocm_json(source: SourceFile, data: Mapping[str, Any]) -> tuple[list[str], _Pairs]:
    """GPUs, and the pairs that an XGMI link joins, from the JSON of rocm-smi: a key for each pair."""
    links: dict[tuple[int, int], dict[str, str]] = {}
    for key, value in mapping(data.get("system", data)).items():
        match = re.fullmatch(r"\(Topology\) (Hops|Link type) between DRM devices (\d+) and (\d+)", key)
        if match is not None:
            if max(len(match[2]), len(match[3])) > 9:
                raise flaw(f"'{key[:90]}' has no number of a device", line_span(source, 1))
            links.setdefault((int(match[2]), int(match[3])), {})[match[1]] = str(value)
    if not links:
        message = f"{source.name} has no key '(Topology) Link type between DRM devices 0 and 1'"
        raise flaw(message, line_span(source, 1), "as 'rocm-smi --showtopo --json' prints it")
    devices = {device for pair in links for device in pair}
    count = 1 + max(devices)
    if len(devices) < count:
        least = next(device for device in range(count) if device not in devices)
        message = f"device {least} is in no pair, and there is a device {count - 1}"
        raise flaw(message, line_span(source, 1), "is the file cut off?")
    check_devices(count)
    near = [
        pair
        for pair, value in sorted(links.items())
        if value.get("Link type", "").upper() == "XGMI" and value.get("Hops", "1") == "1"
    ]
    return [f"GPU{number}" for number in range(count)], list(
        dict.fromkeys(x for a, b in near for x in ((a, b), (b, a)))
    )


KINDS: Final = (
    ImportKind(
        "amd-smi",
        "node",
        read_amd,
        file="'amd-smi topology', text or '--json'",
        contains="which GPUs XGMI joins",
        options="'-D xgmi=', if it names no bandwidth",
        json=r'"bdf"\s*:',
        text=r"^[ \t]*+LINK TYPE TABLE",
    ),
    ImportKind(
        "rocm-smi",
        "node",
        read_amd,
        file="'rocm-smi --showtopo', text or '--json'",
        contains="which GPUs XGMI joins",
        options="'-D xgmi='",
        json=r'"\(Topology\) ',
        text=r"Link Type between two GPUs|ROCm System Management",
    ),
)
