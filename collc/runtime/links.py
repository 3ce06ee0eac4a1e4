"""What ranks exchange in rounds over TCP: one connection between each two of them, in both directions, no threads.

In a round a rank sends a frame to each of its peers: a header, and behind it its messages to this peer. Both ends know
from their program how long it is; the header says so too, so that ranks that make different calls learn of it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from collc.runtime.rounds import Message, Round, Rows
from collc.runtime.tcp import AT_ONCE, GREETING, Entrance, LinkError, Route, connect

_HEADER: Final = struct.Struct("<qq")
"""Before the messages of a frame: a number of the kind of call, and the bytes of the messages."""

_TIME: Final = struct.Struct("@ll")
"""A time for the system: seconds and microseconds."""

_MOST_BUFFERS: Final = os.sysconf("SC_IOV_MAX")
"""Buffers in one call of the system."""


class Store(Protocol):
    """What tells ranks how others can be reached."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""
        ...

    def get(self, key: str) -> bytes:
        """Wait for a value."""
        ...


class BrokenLink(LinkError):
    """A connection on which nothing moves."""

    def __init__(self, peer: int, *, receives: bool, reason: str) -> None:
        """peer: the rank at the other end. receives: whether this rank waits for a message, or else for room for its
        own.
        """
        what = "a message from" if receives else "room for a message to"
        super().__init__(f"it waits for {what} rank {peer}: {reason}")


@dataclass(frozen=True, slots=True)
class Frame:
    """What one connection carries in a round. buffers: a header, and the memory of the messages. size: their bytes.
    header: what the header must be, and `buffers[0]` is of a frame that is received.
    """

    peer: int
    link: socket.socket
    buffers: list[memoryview]
    size: int
    header: bytes

    def rest_from(self, done: int) -> Frame | None:
        """What is left of a frame when some bytes have moved, if anything."""
        if done == self.size:
            return None
        buffers, first = self.buffers, 0
        while first < len(buffers) and done >= len(buffers[first]):
            done -= len(buffers[first])
            first += 1
        left = buffers[first:]
        if done:
            left[0] = left[0][done:]
        return Frame(self.peer, self.link, left, sum(map(len, left)), self.header)


class Links:
    """The connections of one rank to its peers, which are made once."""

    def __init__(self, store: Store, rank: int, ranks: int, host: str, seconds: float) -> None:
        """host: the address at which this rank listens. seconds: the longest time in which nothing moves."""
        self._store, self._rank = store, rank
        self._seconds: float = min(seconds, 2**31 // 1000)  # poll takes no more milliseconds
        self._listener: socket.socket = _listener_at(host, ranks)
        self._token: bytes = secrets.token_bytes(16)
        self._link_of: dict[int, socket.socket] = {}
        port = self._listener.getsockname()[1]
        store.set(f"links/{rank}", f"{host} {port} {self._token.hex()}")

    def connect(self, peers: Collection[int]) -> None:
        """Connect to all peers, which connect to this rank likewise. Of two, the higher rank calls the lower one.

        Raises BrokenLink if one cannot be reached, does not call in time, or ends before it calls.
        """
        for peer in sorted(peer for peer in peers if peer < self._rank):
            host, port, token = self._address_of(peer)
            try:
                link = connect(Route(host, port, "", 0), self._seconds)
                link.sendall(GREETING.pack(bytes.fromhex(token), self._rank))
            except OSError as error:
                raise BrokenLink(peer, receives=False, reason=f"no connection to {host}: {error}") from error
            self._add(peer, link)
        entrance = Entrance(self._listener, self._token, {peer: peer for peer in peers if peer > self._rank})
        deadline, gone = time.monotonic() + self._seconds, set[int]()
        while missing := {peer for peer in peers if peer not in self._link_of}:
            try:
                self._add(*entrance.accept(min(deadline, time.monotonic() + 1)))
            except LinkError as error:
                if lost := gone & missing:
                    raise BrokenLink(min(lost), receives=True, reason="it has ended") from error
                if time.monotonic() >= deadline or self._listener.fileno() < 0:
                    raise BrokenLink(min(missing), receives=True, reason="it did not connect in time") from error
                gone = {peer for peer in missing if self._is_gone(peer)}  # or it has called just now: accept once more
        self._listener.close()

    def _address_of(self, peer: int) -> tuple[str, int, str]:
        """Host, port and token of a rank."""
        host, port, token = self._store.get(f"links/{peer}").decode().split()
        return host, int(port), token

    def _is_gone(self, peer: int) -> bool:
        """Whether a rank does not listen any more."""
        try:
            socket.create_connection(self._address_of(peer)[:2], 1).close()
        except OSError as error:
            return isinstance(error, ConnectionRefusedError)
        return False

    def _add(self, peer: int, link: socket.socket) -> None:
        link.setblocking(True)  # calls that must not wait say so
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wait = _TIME.pack(*divmod(max(1, int(1e6 * self._seconds)), 1_000_000))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        self._link_of[peer] = link

    def frames(self, rows: Rows, step: Round, about: int) -> Callable[[], None]:
        """What exchanges the messages of a round: a frame with each peer. It can be called any number of times.

        rows: the memory as bytes. about: a number on which the ranks agree. Raises as `_exchange` does.
        """
        sends = [self._frame(peer, parts, about, receives=False) for peer, parts in _by_peer(rows, step.sends)]
        receives = [self._frame(peer, parts, about, receives=True) for peer, parts in _by_peer(rows, step.receives)]
        return partial(self._exchange, sends, receives)

    def _frame(self, peer: int, memory: Sequence[memoryview], about: int, *, receives: bool) -> Frame:
        size = sum(map(len, memory))
        header = _HEADER.pack(about, size)
        first = memoryview(bytearray(_HEADER.size) if receives else header)
        return Frame(peer, self._link_of[peer], [first, *memory], _HEADER.size + size, header)

    def _exchange(self, sends: Sequence[Frame], receives: Sequence[Frame]) -> None:
        """Send and receive the frames of a round, one for each peer at most. Returns when all have come and gone.

        Raises BrokenLink if nothing moves for too long, if a peer is gone, and if it sends a frame of another call.
        """
        out = {frame.peer: left for frame in sends if (left := _send(frame))}
        at_once = not out and all(frame.size <= AT_ONCE for frame in receives)
        into: dict[int, tuple[Frame, Frame]] = {}
        for frame in receives:
            if left := _receive(frame, frame, self._seconds) if at_once else frame:
                into[frame.peer] = frame, left
        while out or into:
            for peer in self._ready(out, into):
                if peer in out:
                    left = _send(out.pop(peer))
                    if left:
                        out[peer] = left
                if peer in into:
                    frame, rest = into.pop(peer)
                    left = _receive(frame, rest)
                    if left:
                        into[peer] = frame, left

    def _ready(self, out: Collection[int], into: Collection[int]) -> list[int]:
        """The peers whose connections can move something, when there are some."""
        poller, peer_of = select.poll(), dict[int, int]()
        for peer in {*out, *into}:
            link = self._link_of[peer]
            peer_of[link.fileno()] = peer
            poller.register(link, (select.POLLOUT if peer in out else 0) | (select.POLLIN if peer in into else 0))
        ready = poller.poll(1000 * self._seconds)
        if not ready:
            raise BrokenLink(min(into or out), receives=bool(into), reason=_silence(self._seconds))
        return [peer_of[number] for number, _ in ready]

    def close(self) -> None:
        """End all connections, also while another thread waits at one."""
        for link in (self._listener, *self._link_of.values()):
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()


def _by_peer(rows: Rows, messages: Iterable[Message]) -> Iterable[tuple[int, list[memoryview]]]:
    """The memory of the messages with each peer."""
    memory: dict[int, list[memoryview]] = defaultdict(list)
    for message in messages:
        memory[message.peer].append(rows(message.first, message.length))
    return memory.items()


def _send(frame: Frame) -> Frame | None:
    """Send what the connection takes. Returns the rest, if there is one."""
    try:
        sent = frame.link.sendmsg(frame.buffers[:_MOST_BUFFERS], (), socket.MSG_DONTWAIT)
    except BlockingIOError:
        return frame
    except OSError as error:
        raise BrokenLink(frame.peer, receives=False, reason=str(error)) from error
    return frame.rest_from(sent)


def _receive(frame: Frame, rest: Frame, seconds: float = 0) -> Frame | None:
    """Take what has come of the rest of a frame; wait for it up to some seconds. Returns what is left, if anything."""
    try:
        flags = 0 if seconds else socket.MSG_DONTWAIT
        count = rest.link.recvmsg_into(rest.buffers[:_MOST_BUFFERS], 0, flags)[0]
    except BlockingIOError as error:
        if seconds:
            raise BrokenLink(frame.peer, receives=True, reason=_silence(seconds)) from error
        return rest
    except OSError as error:
        raise BrokenLink(frame.peer, receives=True, reason=str(error)) from error
    if not count:
        raise BrokenLink(frame.peer, receives=True, reason="it closed the connection")
    left = rest.rest_from(count)
    if frame.size - (left.size if left else 0) >= _HEADER.size and bytes(frame.buffers[0]) != frame.header:
        raise BrokenLink(frame.peer, receives=True, reason="it makes another call")
    return left


def _silence(seconds: float) -> str:
    return f"nothing moved for {seconds:g} seconds"


def own_address() -> str:
    """The address at which other ranks reach this one, by the rules of gloo: of an interface, or of the host's name.

    Raises OSError for an interface that has none.
    """
    name = os.environ.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]
    if name:
        return _address_of(name)
    with suppress(OSError):
        for *_, address in socket.getaddrinfo(socket.gethostname(), 0, type=socket.SOCK_STREAM):
            with suppress(OSError), _listener_at(str(address[0])):
                return str(address[0])
    return "127.0.0.1"


def _address_of(interface: str) -> str:
    """The IPv4 address of an interface, else an IPv6 address that other hosts can reach."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", interface.encode()))  # SIOCGIFADDR of Linux
        return socket.inet_ntoa(answer[20:24])
    for line in Path("/proc/net/if_inet6").read_text().splitlines():
        address, _, _, scope, _, name = line.split()
        if name == interface and scope != "20":  # of the link alone
            return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address))
    raise OSError(f"the interface {interface} of GLOO_SOCKET_IFNAME has no address")


def _listener_at(host: str, backlog: int = 1) -> socket.socket:
    """A socket that listens at an address, IPv4 or IPv6."""
    return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=backlog)
