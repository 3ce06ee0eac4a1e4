"""A network on one Linux machine: a namespace for each device, and a rate-limited virtual cable for each link.

A namespace lives as long as a process in it, and cables as long as their namespaces. No namespace has a name, and
nothing is made in the one of the machine. The kernel kills the processes when collc ends, however it ends, so that
nothing is left to clean up.

Each link, in one direction, is a veth pair of its own, whose sending end has a token bucket (tc-tbf); what TCP sends
back, acknowledgements, goes the other way over the same pair, without a limit. Each path of links has two addresses,
of its ends, and routes along its links in both directions. All devices have the same hardware address, so that none
has to be resolved. Between the ends the kernel forwards packets.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from ipaddress import IPv4Address
from typing import Final, Self

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, UsageError
from collc.simulation.routing import NoRoute, shortest_routes
from collc.ten.network import Network

LinkPath = tuple[int, ...]
"""Numbers of links, in order."""

LAG: Final = Fraction(5, 1000)
"""Seconds by which a busy machine may be late to send a packet without a loss of rate. As many seconds a link that was
idle sends at once, if that is more than one packet.
"""

_PACKETS: Final = 1500, 9000
"""Bytes of packets, at least and at most. Smaller ones cost the machine more time; of larger ones the first, which an
idle link sends at once, is a larger part of what it carries.
"""

_PACKAGES: Final = {"iproute2": ("ip", "tc"), "util-linux": ("unshare", "nsenter", "setpriv")}
"""The programs that are used, by the package of most distributions that has them."""

_HARDWARE: Final = "02:00:00:00:00:01"
_FIRST_ADDRESS: Final = int(IPv4Address("10.0.0.0"))

PARENT_DEATH: Final = ("setpriv", "--pdeathsig", "KILL")
"""Before a command that is killed when its parent ends."""

NPU_COMMAND: Final = (*PARENT_DEATH, "unshare", "--net")
"""Before the command of an NPU: it runs in a namespace of its own, and is killed when its parent ends."""

DEVICE: Final = "d0"
"""The device that has the one address of an NPU."""

_IPV4: Final = "/proc/sys/net/ipv4"
_FORWARD: Final = (  # the cables that come take what is in default
    f"echo 1 > {_IPV4}/ip_forward && echo 0 | tee {_IPV4}/conf/all/rp_filter > {_IPV4}/conf/default/rp_filter"
)
FORWARDING_COMMAND: Final = (*NPU_COMMAND, "sh", "-c", f'{_FORWARD} && exec "$0" "$@"')
"""Before the command of a device that forwards packets, whichever link they come from."""


def check_machine() -> None:
    """Raise UsageError (X0210) if this machine, or this user, cannot make networks."""
    hint = "run it as root, or as 'unshare --map-root-user collc lab ...'"
    if sys.platform != "linux":
        raise _cannot(f"needs Linux, and this is {sys.platform}", "")
    missing = [package for package, names in _PACKAGES.items() if not all(map(shutil.which, names))]
    if missing:
        raise _cannot(f"needs programs that are missing: install {' and '.join(missing)}", "")
    tried = subprocess.run([*NPU_COMMAND, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise _cannot(f"may not make network namespaces: {tried.stderr.strip()}", hint)


def _cannot(why: str, hint: str) -> UsageError:
    return UsageError(Diagnostic("X0210", f"'collc lab' {why}", hint=hint))


def packet_of(network: Network, links: Iterable[int]) -> int:
    """The bytes of packets on some links: as many as the slowest one sends in LAG, within the limits."""
    kinds = (network.kinds[int(network.kind[link])] for link in links)
    slowest = min((kind.bandwidth for kind in kinds if kind.bandwidth is not None), default=Fraction(0))
    least, most = _PACKETS
    return min(most, max(least, int(slowest * LAG)))


class Switches:
    """The processes in whose namespaces packets are forwarded. processes: by device."""

    def __init__(self, devices: Iterable[int]) -> None:
        command = [*FORWARDING_COMMAND, "sh", "-c", "echo ready && exec cat"]
        pipe, same = subprocess.PIPE, subprocess.STDOUT
        self.processes: dict[int, subprocess.Popen[bytes]] = {
            device: subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=same) for device in devices
        }

    def __enter__(self) -> Self:
        """Wait until they forward. Raises CheckFailed (X0211) if one cannot."""
        for process in self.processes.values():
            assert process.stdout is not None
            said = process.stdout.readline()
            if said != b"ready\n":
                raise CheckFailed(Diagnostic("X0211", f"a switch cannot forward: {said.decode().strip()}"))
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()


@dataclass(frozen=True, slots=True)
class EmulatedNetwork:
    """A network with the bandwidths that its links shall have, and the process in whose namespace each device is.

    The rates of its kinds of links are of data, without what headers take.
    """

    network: Network
    processes: Mapping[int, int]

    def build(self, paths: Sequence[LinkPath]) -> None:
        """Make the links of some paths, and the routes along them. Raises CheckFailed (X0211) if that fails."""
        links = sorted({link for path in paths for link in path})
        self._run(self._cables(links), self._routes(paths), self._limits(links))

    def build_for_all(self) -> None:
        """Make links such that all NPUs reach one another by one address each, over shortest paths.

        For programs that know no paths. NPUs forward, too, and what comes back takes links, too. Raises CheckFailed
        (X0211) if that fails, or if there is no path.
        """
        npus = self.network.npus
        source, target = (ends.reshape(-1) for ends in np.meshgrid(npus, npus, indexing="ij"))
        apart = source != target
        try:
            routes, numbers = shortest_routes(self.network, source[apart], target[apart])
        except NoRoute as error:
            ends = " to ".join(map(self.network.shown_name, (error.source, error.target)))
            raise CheckFailed(Diagnostic("X0211", f"no path leads from {ends}")) from error
        next_link: dict[tuple[int, int], int] = {}
        for number, last in zip(numbers.tolist(), target[apart].tolist(), strict=True):
            for link in routes.links[routes.offsets[number] : routes.offsets[number + 1]].tolist():
                next_link.setdefault((int(self.network.source[link]), last), link)
        links = sorted(set(next_link.values()))
        commands = self._cables_up(links)
        address_of = {npu: self.npu_address(rank) for rank, npu in enumerate(npus.tolist())}
        for npu, address in address_of.items():
            commands[npu, "ip"] += [
                "link set lo up",
                f"link add {DEVICE} type veth peer name {DEVICE}p",
                f"address add {address}/32 dev {DEVICE}",
                f"link set dev {DEVICE}p up",
                f"link set dev {DEVICE} up",
            ]
        for (device, last), link in next_link.items():
            own = f" src {address_of[device]}" if device in address_of else ""
            commands[device, "ip"].append(f"route add {address_of[last]}/32 dev {_name(link)}{own}")
        self._run(self._cables(links), commands, self._limits(links))

    def _run(self, *stages: _Commands) -> None:
        for commands in stages:
            for (device, program), lines in commands.items():
                self._batch(device, program, lines)

    @staticmethod
    def npu_address(rank: int) -> str:
        """The one address of an NPU, if all reach one another."""
        return str(IPv4Address("10.255.0.0") + rank)

    @staticmethod
    def addresses(path_number: int) -> tuple[str, str]:
        """The addresses of the sender and of the receiver of a path."""
        first = IPv4Address(_FIRST_ADDRESS + 2 * path_number)
        return str(first), str(first + 1)

    def take_away(self, link: int) -> None:
        """Let a link that was made carry nothing from now on. Raises CheckFailed (X0211) if that fails."""
        self._batch(int(self.network.source[link]), "ip", [f"link set dev {_name(link)} down"])

    def _cables(self, links: Sequence[int]) -> _Commands:
        commands: _Commands = defaultdict(list)
        ends = f"mtu {packet_of(self.network, links)} address {_HARDWARE}"
        for link in links:
            source, target = self._ends(link)
            peer = f"peer name {_name(link)} {ends} netns {self.processes[target]}"
            commands[source, "ip"].append(f"link add {_name(link)} {ends} type veth {peer}")
        return commands

    def _cables_up(self, links: Sequence[int]) -> _Commands:
        commands: _Commands = defaultdict(list)
        for link in links:
            for device in self._ends(link):
                commands[device, "ip"].append(f"link set dev {_name(link)} addrgenmode none arp off up")
        return commands

    def _routes(self, paths: Sequence[LinkPath]) -> _Commands:
        commands = self._cables_up(sorted({link for path in paths for link in path}))
        for number, path in enumerate(paths):
            source, target = self.addresses(number)
            own = ((self._ends(path[0])[0], source, path[0]), (self._ends(path[-1])[1], target, path[-1]))
            for device, address, link in own:
                commands[device, "ip"].append(f"address add {address}/32 dev {_name(link)}")
            for link in path:
                for device, address in zip(self._ends(link), (target, source), strict=True):
                    commands[device, "ip"].append(f"route add {address}/32 dev {_name(link)}")
        return commands

    def _limits(self, links: Sequence[int]) -> _Commands:
        commands: _Commands = defaultdict(list)
        packet = packet_of(self.network, links)
        wire = Fraction(packet + 14, packet - 52)  # the headers of Ethernet, and of IP and TCP with time stamps
        for link in links:
            bandwidth = self.network.kinds[int(self.network.kind[link])].bandwidth
            assert bandwidth is not None
            burst = max(packet + 14, round(bandwidth * LAG))
            limit = f"tbf rate {round(8 * bandwidth * wire)}bit burst {burst} limit 64mb"
            commands[self._ends(link)[0], "tc"].append(f"qdisc add dev {_name(link)} root {limit}")
        return commands

    def _ends(self, link: int) -> tuple[int, int]:
        return int(self.network.source[link]), int(self.network.target[link])

    def _batch(self, device: int, program: str, lines: Sequence[str]) -> None:
        command = ["nsenter", f"--net=/proc/{self.processes[device]}/ns/net", program, "-batch", "-"]
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        if done.returncode:
            what = f"the network of the lab cannot be made: {(done.stderr or done.stdout).strip()}"
            raise CheckFailed(Diagnostic("X0211", what))


_Commands = dict[tuple[int, str], list[str]]
"""Lines for `ip -batch` and `tc -batch`, by device and program."""


def _name(link: int) -> str:
    return f"l{link}"
