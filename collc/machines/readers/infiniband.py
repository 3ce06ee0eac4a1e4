"""InfiniBand fabrics, as `ibnetdiscover` and `iblinkinfo` print them (rdma-core)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import SourceFile
from collc.machines.fabrics import Attachment, Fabric
from collc.machines.kinds import ImportKind
from collc.machines.reading import GIGA, ImportOptions, flaw, line_span

_LANE: Final = {
    "SDR": Fraction(2),
    "DDR": Fraction(4),
    "QDR": Fraction(8),
    "FDR10": Fraction(10),
    "FDR": Fraction(14),
    "EDR": Fraction(25),
    "HDR": Fraction(50),
    "NDR": Fraction(100),
    "XDR": Fraction(200),
}
"""Gb/s of data per lane; SDR to QDR lose 20 % to coding."""

_SIGNALLED: Final = (
    ("2.5", "SDR"), ("5", "DDR"), ("10", "QDR"), ("10.3125", "FDR10"), ("14.0625", "FDR"), ("25.78125", "EDR"),
    ("53.125", "HDR"), ("106.25", "NDR"), ("212.5", "XDR"),
)  # fmt: skip
"""Gb/s that iblinkinfo prints for a lane."""

_RECORD: Final = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([SHR]-[0-9a-fA-F]{16})"\s*#\s*"([^"]*)"')
_PORT: Final = re.compile(
    r'\[(\d{1,9})\](?:\[ext \d+\])?\s*(?:\([0-9a-fA-F]+\))?\s+"([SHR]-[0-9a-fA-F]{16})"\[(\d{1,9})\](?:\[ext \d+\])?'
    r"(?:\([0-9a-fA-F]+\))?(.*)"
)
_WIDTH: Final = re.compile(r"(?<!\d)(\d{1,9})x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")

End = tuple[str, int]
"""A guid and a port."""


@dataclass(slots=True)
class _Cables:
    """What was read. names: by guid, "S-..." of switches. cables: both ends -> bytes per second and line."""

    source: SourceFile
    names: dict[str, str] = field(default_factory=dict[str, str])
    cables: dict[tuple[End, End], tuple[Fraction, int]] = field(
        default_factory=dict[tuple[End, End], tuple[Fraction, int]]
    )

    def add(self, one: End, other: End, rate: Fraction, line: int) -> None:
        first, second = sorted((one, other))
        known = self.cables.setdefault((first, second), (rate, line))
        if known[0] != rate:
            message = f"both ends of a cable differ: here and in line {known[1]}"
            raise flaw(message, line_span(self.source, line), "is the file put together from two runs?")

    def fabric(self) -> Fabric:
        """Switches, their cables and the hosts. Raises SourceError X0601 for ends without a record."""
        dropped: list[str] = []
        count = Counter(self.names.values())
        named = {guid: name if count[name] == 1 else f"{name} {guid[2:]}" for guid, name in self.names.items()}
        cables: list[tuple[str, str, Fraction]] = []
        attachments: list[Attachment] = []
        plugged: dict[End, int] = {}
        for (one, other), (rate, line) in self.cables.items():
            for guid, port in (one, other):
                known = plugged.setdefault((guid, port), line)
                if known != line:
                    message = f"port {port} of {self.names.get(guid, guid)} has two cables: here and in line {known}"
                    raise flaw(message, line_span(self.source, line), "are there two devices of one name?")
                if guid not in self.names:
                    message = f"{guid} has no record of its own in {self.source.name}"
                    raise flaw(message, line_span(self.source, line), "is the file cut off?")
            switches = [end for end in (one, other) if end[0].startswith("S")]
            if len(switches) == 2:
                cables.append((named[one[0]], named[other[0]], rate))
            elif len(switches) == 1:
                device = other if switches[0] == one else one
                text = self.names[device[0]]
                if "Aggregation Node" in text or device[0].startswith("R"):
                    dropped.append("aggregation nodes (SHARP) and routers")
                    continue
                host, *words = text.split() or device[:1]  # "node01 mlx5_0", "node01 HCA-1"
                port = words[0] if words else f"port{device[1]}"
                attachments.append(Attachment(host, port, named[switches[0][0]], rate))
            else:
                dropped.append("cables between two hosts")
        switches = tuple(named[guid] for guid in self.names if guid.startswith("S"))
        if not attachments:
            message = f"{self.source.name} has no cable from a switch to a host"
            raise flaw(message, hint="import the output of all of the fabric, with the records of its hosts (Ca)")
        return Fabric(switches, tuple(cables), tuple(attachments), tuple(dict.fromkeys(dropped)))


def read_ibnetdiscover(source: SourceFile, _options: ImportOptions) -> Fabric:
    """The fabric. Raises SourceError X0601 with the line of what is wrong."""
    cables, guid = _Cables(source), ""
    for line, text in enumerate(source.text.split("\n"), 1):
        stripped = text.strip()
        if not stripped:
            guid = ""
        elif stripped.startswith("["):
            port = _PORT.match(stripped)
            if port is None or not guid:
                message = 'a port is expected: [1] "S-<16 hex digits>"[2]  # ... 4xHDR, below its Switch or Ca'
                raise flaw(message, line_span(source, line), "is the file cut off?")
            found = _WIDTH.findall(port[4])
            if not found:
                message = "a width and speed as in '4xHDR' is expected at the end of the line"
                raise flaw(message, line_span(source, line), "an end that is not up has '???'; remove its lines")
            rate = int(found[-1][0]) * _LANE[found[-1][1]] / 8 * GIGA
            cables.add((guid, int(port[1])), (port[2], int(port[3])), rate, line)
        elif stripped.startswith(("Switch", "Ca", "Rt")):
            record = _RECORD.match(stripped)
            if record is None:
                message = 'a record is expected: Switch 41 "S-<16 hex digits>"  # "name"'
                raise flaw(message, line_span(source, line))
            guid = record[2]
            cables.names[guid] = record[3]
        elif not stripped.startswith("#") and not re.match(r"\w+=", stripped):
            message = "a line of ibnetdiscover is expected"
            raise flaw(message, line_span(source, line), "as ibnetdiscover prints them without -p or -g")
    return cables.fabric()


_HEADER: Final = re.compile(r"(Switch|CA):\s*+(?:(0x[0-9a-fA-F]++)\s++)?(.*?):\s*+$")
_LINK: Final = re.compile(
    r"\s*+(?:(0x[0-9a-fA-F]++)\s++)?(?:\"[^\"]*\"\s++)?(\d{1,9}+)\s++(\d{1,9}+)(?:\[[ \d]*\])?\s*+"
    r"==\(\s*+(.*?)\)==>\s*+"
    r"(?:(0x[0-9a-fA-F]++)\s++)?(\d{1,9}+)?\s*+(\d{1,9}+)?(?:\[[ \d]*\])?\s*+\"([^\"]*)\""  # possessive: linear time
)
_ACTIVE: Final = re.compile(r"(\d{1,3})X\s+(\d{1,4}(?:\.\d+)?)\s+Gbps.*LinkUp")
_INACTIVE: Final = re.compile(r"Down\s*/|/\s*(Sleep|Polling|Disabled|\w*Training|LinkErrorRecovery|PhyTest)")


def read_iblinkinfo(source: SourceFile, _options: ImportOptions) -> Fabric:
    """The fabric, devices told apart by name. Raises SourceError X0601 with the line of what is wrong."""
    cables = _Cables(source)
    devices: dict[str, str] = {}
    links: list[tuple[str, int, str, int, Fraction, int]] = []
    own = ""
    for line, text in enumerate(source.text.split("\n"), 1):
        if not text.strip():
            continue
        header = _HEADER.match(text.strip())
        if header is not None:
            own = header[3].strip().strip('"')
            prefix = "S-" if header[1] == "Switch" else "H-"
            if own in devices and prefix == "S-":
                message = f"two switches are called {own}"
                raise flaw(message, line_span(source, line), "give them different names (node-name-map)")
            devices[own] = prefix + own
            continue
        link = _LINK.match(text)
        if link is None:
            message = 'a link is expected: 3 1 ==( 4X 53.125 Gbps Active/ LinkUp)==> 7 1 "name"'
            raise flaw(message, line_span(source, line))
        if not own:
            message = "a link without a header 'Switch: 0x... name:' or 'CA: ...:' above it"
            raise flaw(message, line_span(source, line), "give the output of iblinkinfo without -l")
        active = _ACTIVE.match(link[4].strip())
        if active is None and not _INACTIVE.search(link[4]):
            message = f"'{' '.join(link[4].split())[:60]}' is not a state of a port"
            raise flaw(message, line_span(source, line), "as in 4X 53.125 Gbps Active/ LinkUp, or Down/ Polling")
        if active is not None and link[7]:
            lanes = [_LANE[name] for signalled, name in _SIGNALLED if abs(float(signalled) - float(active[2])) < 0.01]
            if not lanes:
                raise flaw(f"no InfiniBand lane has {active[2]} Gbps", line_span(source, line))
            rate = int(active[1]) * lanes[0] / 8 * GIGA
            links.append((own, int(link[3]), link[8], int(link[7]), rate, line))
    for name, port, other, other_port, rate, line in links:
        ends = [(devices.get(one, f"H-{one}"), at) for one, at in ((name, port), (other, other_port))]
        for guid, _ in ends:
            cables.names.setdefault(guid, guid[2:])
        cables.add(ends[0], ends[1], rate, line)
    return cables.fabric()


KINDS: Final = (
    ImportKind(
        "ibnetdiscover",
        "fabric",
        read_ibnetdiscover,
        file="the output of 'ibnetdiscover'",
        contains="switches, cables, rates, hosts",
        options="'--node' or '--gpus-per-node'",
        text=r'^(Switch|Ca|Rt)[ \t]++\d+[ \t]++"[SHR]-[0-9a-f]{16}"',
    ),
    ImportKind(
        "iblinkinfo",
        "fabric",
        read_iblinkinfo,
        file="the output of 'iblinkinfo'",
        contains="switches, cables, rates, hosts",
        options="'--node' or '--gpus-per-node'",
        text=r"^(Switch|CA): .*:[ \t\r]*+$",
    ),
)
