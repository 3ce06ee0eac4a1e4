"""InfiniBand fabrics, as `ibnetdiscover` and `iblinkinfo` print them (rdma-core) and ibsim reads them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

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

_RECORD: Final = re.compile(r'(Switch|Ca|Hca|Rt)\s+\d+\s+"([^"]{1,256})"(?:\s*#\s*"([^"]*)")?')
_PORT: Final = re.compile(
    r'\[(\d{1,9})\](?:\[ext \d+\])?\s*(?:\([0-9a-fA-F]+\))?\s+"([^"]{1,256})"\s*\[(\d{1,9})\](?:\[ext \d+\])?'
    r"(?:\([0-9a-fA-F]+\))?(.*)"
)
_BY_DRIVER: Final = re.compile(r"MT\d{4,5}\b|.*Mellanox Technologies")
"""How descriptions begin that the driver made, since nobody named the host."""

_AGGREGATION: Final = "Aggregation Node"
"""In the description of a switch's own port for SHARP, which is no host."""

_NO_RECORD: Final = re.compile(r"\w+=|#|Chassis \d|Non-Chassis Nodes")
"""How lines begin that say nothing of cables: numbers of devices, comments, groups (-g)."""

_UNREACHED: Final = re.compile(r"ibwarn: |src/[\w/]+\.c:\d")
"""How messages of ibnetdiscover begin, which may be among its output."""

_WIDTH: Final = re.compile(r"(?<!\d)(\d{1,9})x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")

_SERVICES: Final = "aggregation nodes (SHARP) and routers"

End = tuple[str, int]
"""A guid and a port."""


class _Record(NamedTuple):
    """A device. is_switch, is_router: what it is. description: the host and its NIC, or the name of the switch."""

    is_switch: bool
    is_router: bool
    description: str


@dataclass(slots=True)
class _Cables:
    """What was read. records: by guid. cables: both ends -> bytes per second (None: not said) and line.

    dropped: sentences on what is left out.
    """

    source: SourceFile
    records: dict[str, _Record] = field(default_factory=dict[str, _Record])
    cables: dict[tuple[End, End], tuple[Fraction | None, int]] = field(
        default_factory=dict[tuple[End, End], tuple[Fraction | None, int]]
    )
    dropped: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, one: End, other: End, rate: Fraction | None, line: int) -> None:
        first, second = sorted((one, other))
        known = self.cables.setdefault((first, second), (rate, line))
        if known[0] != rate:
            message = f"both ends of a cable differ: here and in line {known[1]}"
            raise flaw(message, line_span(self.source, line), "is the file put together from two runs?")

    def fabric(self) -> Fabric:
        """Switches, their cables and the hosts. Raises SourceError X0601 for ends without a record."""
        count = Counter(record.description for record in self.records.values())
        named = {
            guid: record.description if count[record.description] == 1 else f"{record.description} {guid[2:]}"
            for guid, record in self.records.items()
        }
        cables: list[tuple[str, str, Fraction | None]] = []
        attachments: list[Attachment] = []
        self._check_ends()
        by_driver: dict[str, None] = {}
        for (near_end, other), (rate, _) in self.cables.items():
            switches = [end for end in (near_end, other) if self.records[end[0]].is_switch]
            if near_end[0] == other[0]:
                self.dropped["cables from a device to itself"] = None
            elif len(switches) == 2:
                cables.append((named[near_end[0]], named[other[0]], rate))
            elif len(switches) == 1:
                guid, number = other if switches[0] == near_end else near_end
                text = self.records[guid].description
                if _AGGREGATION in text or self.records[guid].is_router:
                    self.dropped[_SERVICES] = None
                    continue
                if _BY_DRIVER.match(text):
                    text = guid[2:]
                    by_driver[text] = None
                host, *words = text.split() or [guid]  # "node01 mlx5_0", "node01 HCA-1"
                attachments.append(
                    Attachment(host, words[0] if words else f"port{number}", named[switches[0][0]], rate, _hex_of(guid))
                )
            else:
                self.dropped["cables between two hosts"] = None
        if not attachments:
            message = f"{self.source.name} has no cable from a switch to a host"
            raise flaw(message, hint="import the output of all of the fabric, with the records of its hosts (Ca)")
        names = tuple(named[guid] for guid, record in self.records.items() if record.is_switch)
        return Fabric(names, tuple(cables), tuple(attachments), tuple(self.dropped), unnamed=tuple(by_driver))

    def _check_ends(self) -> None:
        """Raise SourceError X0601 for a port with two cables and an end without a record."""
        plugged: dict[End, int] = {}
        for ends, (_, line) in self.cables.items():
            for guid, port in ends:
                if guid not in self.records:
                    message = f"{guid} has no record of its own in {self.source.name}"
                    raise flaw(message, line_span(self.source, line), "is the file cut off?")
                known = plugged.setdefault((guid, port), line)
                if known != line:
                    name = self.records[guid].description
                    message = f"port {port} of {name} has two cables: here and in line {known}"
                    raise flaw(message, line_span(self.source, line), "are there two devices of one name?")


def _hex_of(guid: str) -> str:
    """The digits of H-2c5eab0300b87b50; "" for a name in its place."""
    digits = guid.rpartition("-")[2].removeprefix("0x")
    return digits if re.fullmatch(r"[0-9a-fA-F]{16}", digits) else ""


def read_ibnetdiscover(source: SourceFile, _options: ImportOptions) -> Fabric:
    """The fabric. In a file of ibsim, no link has a speed. Raises SourceError X0601 with the line of what is wrong."""
    cables, guid = _Cables(source), ""
    is_ibsim = (
        re.search(r'^(Switch|Hca)[ \t]++\d+[ \t]++"(?![SHR]-[0-9a-fA-F]{16}")', source.text, re.MULTILINE) is not None
    )
    for line, text in enumerate(source.text.split("\n"), 1):
        stripped = text.strip()
        if not stripped:
            guid = ""
        elif stripped.startswith("["):
            port = _PORT.match(stripped)
            if port is None or not guid:
                message = 'a port is expected: [1] "S-<16 hex digits>"[2]  # ... 4xHDR, below its Switch or Ca'
                raise flaw(message, line_span(source, line), "is the file cut off?")
            if _AGGREGATION in port[4]:
                cables.dropped[_SERVICES] = None
                continue
            speeds = _WIDTH.findall(port[4])
            if not speeds and not is_ibsim:
                message = "a width and speed as in '4xHDR' is expected at the end of the line"
                raise flaw(message, line_span(source, line), "an end that is not up has '???'; remove its lines")
            rate = int(speeds[-1][0]) * _LANE[speeds[-1][1]] / 8 * GIGA if speeds else None
            cables.add((guid, int(port[1])), (port[2], int(port[3])), rate, line)
        elif stripped.startswith(("Switch", "Ca", "Hca", "Rt")):
            record = _RECORD.match(stripped)
            if record is None:
                message = 'a record is expected: Switch 41 "S-<16 hex digits>"  # "name"'
                raise flaw(message, line_span(source, line))
            guid = record[2]
            cables.records[guid] = _Record(record[1] == "Switch", record[1] == "Rt", record[3] or guid)
        elif _UNREACHED.match(stripped):
            cables.dropped["devices that ibnetdiscover could not reach, as its messages in the file say"] = None
        elif not _NO_RECORD.match(stripped):
            message = "a line of ibnetdiscover is expected"
            raise flaw(message, line_span(source, line), "as ibnetdiscover prints them without -p")
    if is_ibsim and re.search(r"\bw=\d", source.text):
        cables.dropped["widths of links (w=), since the file does not say the speed of a lane"] = None
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
            signalled = "10.3125" if "(FDR10)" in link[4] else active[2]  # printed as 10.0
            lanes = [_LANE[name] for number, name in _SIGNALLED if abs(float(number) - float(signalled)) < 0.01]
            if not lanes:
                raise flaw(f"no InfiniBand lane has {active[2]} Gbps", line_span(source, line))
            rate = int(active[1]) * lanes[0] / 8 * GIGA
            links.append((own, int(link[3]), link[8], int(link[7]), rate, line))
    for name, port, other, other_port, rate, line in links:
        ends = [(devices.get(near_end, f"H-{near_end}"), at) for near_end, at in ((name, port), (other, other_port))]
        for guid, _ in ends:
            cables.records.setdefault(guid, _Record(guid.startswith("S-"), False, guid[2:]))
        cables.add(ends[0], ends[1], rate, line)
    return cables.fabric()


KINDS: Final = (
    ImportKind(
        "ibnetdiscover",
        "fabric",
        read_ibnetdiscover,
        file="the output of 'ibnetdiscover'; net files of ibsim",
        contains="switches, cables, rates, hosts",
        options="'--node' or '--gpus-per-node'; for ibsim '-D nic=', '-D uplink='",
        text=r'^(Switch|Ca|Hca|Rt)[ \t]++\d+[ \t]++"',
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
