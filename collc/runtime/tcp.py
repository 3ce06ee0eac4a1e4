"""Messages over TCP: one socket for each connection, in one direction, without threads."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from collc.runtime.rank_program import RankProgram

Array = NDArray[Any]

HEADER: Final = struct.Struct("<q")
"""Before each message: its bytes."""

GREETING: Final = struct.Struct("<16sq")
"""What the sender of a connection sends first: the token of the run, and the number of the connection."""


AT_ONCE: Final = 64 << 10
"""Bytes that a socket takes at once, whether or not the receiver reads."""


class LinkError(Exception):
    """A connection that failed."""


class Route(NamedTuple):
    """Where a connection leads: address and port of the receiver, the sender's own address ("": any), and the bytes
    that its socket may hold (0: as the system decides).
    """

    host: str
    port: int
    source: str
    buffer: int


class Event(IntEnum):
    """What happens to a message: its sender queues it; its receiver has its first bytes, and all of them."""

    QUEUED = 0
    BEGUN = 1
    ARRIVED = 2


Moment = tuple[int, int, float]
"""An event, the number of its connection in the whole program, and when it was, in seconds of the monotonic clock."""


class _Outgoing:
    """The sending end of a connection: buffers that have not left, and how many messages they belong to."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.waiting = deque[memoryview]()
        self.ends = deque[bool]()  # of each buffer, whether a message ends with it

    def write(self) -> int:
        """Send what the socket takes. Returns how many messages have left."""
        left = 0
        while self.waiting:
            try:
                sent = self.link.send(self.waiting[0])
            except BlockingIOError:
                break
            if sent < len(self.waiting[0]):
                self.waiting[0] = self.waiting[0][sent:]
                continue
            self.waiting.popleft()
            left += self.ends.popleft()
        return left


class _Incoming:
    """The receiving end of a connection. largest: bytes of a message at most. moments: as in `TcpTransport`."""

    def __init__(self, link: socket.socket, program: RankProgram, number: int, moments: list[Moment]) -> None:
        self.link = link
        self.number = number
        self.moments = moments
        call = program.call
        self.row = np.dtype(call.dtype).itemsize * call.elements
        self.largest = self.row * call.merge
        self.shape, self.dtype = (-1, call.elements), call.dtype
        self.messages = deque[Array]()
        self._buffer = bytearray(HEADER.size)
        self._filled, self._in_header = 0, True

    def read(self) -> int:
        """Take what has arrived. Returns how many messages are complete. Raises LinkError if the sender is gone."""
        complete = 0
        while True:
            try:
                count = self.link.recv_into(memoryview(self._buffer)[self._filled :])
            except BlockingIOError:
                return complete
            if not count:
                raise LinkError("the sender closed the connection")
            self._filled += count
            if self._filled < len(self._buffer):
                continue
            if self._in_header:
                (size,) = HEADER.unpack(self._buffer)
                if not 0 < size <= self.largest or size % self.row:
                    raise LinkError(f"a message of {size} bytes came; at most {self.largest} may")
                self._buffer = bytearray(size)
                self.moments.append((Event.BEGUN, self.number, time.monotonic()))
            else:
                self.moments.append((Event.ARRIVED, self.number, time.monotonic()))
                self.messages.append(np.frombuffer(self._buffer, self.dtype).reshape(self.shape))
                complete += 1
                self._buffer = bytearray(HEADER.size)
            self._filled, self._in_header = 0, not self._in_header


class TcpTransport:
    """The connections of one rank. Messages leave and arrive in `poll`; a send takes at once what the socket takes.

    moments: of all messages of this rank, in order.
    """

    def __init__(
        self,
        program: RankProgram,
        listener: socket.socket,
        routes: Mapping[int, Route],
        token: bytes,
        seconds: float,
    ) -> None:
        """Connect to all ranks to which this one sends, and accept those from which it receives.

        routes: of connections, by their numbers in the whole program. token: 16 bytes that only the ranks of this run
        know. seconds: the longest wait. Raises LinkError if a rank cannot be reached, or does not connect in time.
        """
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._out: dict[int, _Outgoing] = {}
        self._into: dict[int, _Incoming] = {}
        self._left: dict[int, int] = {}  # messages that have left since the last poll
        self._rank: int = program.rank
        self.moments: list[Moment] = []
        self._ends: list[list[int]] = program.connections.tolist()
        deadline = time.monotonic() + seconds
        for row, (number, sender, receiver) in enumerate(self._ends):
            if sender == self._rank:
                try:
                    link = connect(routes[number], seconds)
                    link.sendall(GREETING.pack(token, number))
                except OSError as error:
                    raise LinkError(f"the connection to rank {receiver} failed: {error}") from error
                self._out[row] = _Outgoing(prepare(link))
        row_of = {number: row for row, (number, _, receiver) in enumerate(self._ends) if receiver == self._rank}
        entrance = Entrance(listener, token, row_of)
        while len(self._into) < len(row_of):
            row, link = entrance.accept(deadline)
            self._into[row] = _Incoming(prepare(link), program, self._ends[row][0], self.moments)
            self._selector.register(link, selectors.EVENT_READ, row)

    def send(self, connection: int, message: Array) -> None:
        """Take a message over; the caller does not write to it later."""
        out = self._out[connection]
        idle = not out.waiting
        rows = np.ascontiguousarray(message).data.cast("B")
        out.waiting += (memoryview(HEADER.pack(len(rows))), rows)
        out.ends += (False, True)
        self.moments.append((Event.QUEUED, self._ends[connection][0], time.monotonic()))
        if idle:
            self._write(connection)
            if out.waiting:
                self._selector.register(out.link, selectors.EVENT_WRITE, connection)

    def receive(self, connection: int) -> Array:
        """The first message that has arrived. Raises IndexError if there is none."""
        return self._into[connection].messages.popleft()

    @property
    def is_idle(self) -> bool:
        """Whether all messages have left."""
        return not any(out.waiting for out in self._out.values())

    def poll(self, seconds: float) -> tuple[dict[int, int], dict[int, int]]:
        """Wait until something moves. Returns, by connection, messages that have arrived and messages that have left.

        Both are empty after `seconds` in which nothing moved. Raises LinkError if a connection fails.
        """
        arrived: dict[int, int] = {}
        moved = bool(self._left)
        for key, _ in self._selector.select(0 if moved else seconds):
            row: int = key.data
            if row in self._out:
                self._write(row)
                if not self._out[row].waiting:
                    self._selector.unregister(key.fileobj)
                continue
            try:
                arrived[row] = self._into[row].read()
            except (OSError, LinkError) as error:
                raise LinkError(f"the connection from rank {self._ends[row][1]} failed: {error}") from error
        left, self._left = self._left, {}
        return arrived, left

    def _write(self, row: int) -> None:
        try:
            self._left[row] = self._left.get(row, 0) + self._out[row].write()
        except OSError as error:
            raise LinkError(f"the connection to rank {self._ends[row][2]} failed: {error}") from error


def connect(route: Route, seconds: float) -> socket.socket:
    """A connection to the end of a route. Raises OSError after that many seconds."""
    link = socket.create_connection((route.host, route.port), seconds, (route.source, 0) if route.source else None)
    if route.buffer:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, route.buffer)
    return link


def prepare(link: socket.socket) -> socket.socket:
    """The connection, which sends at once and never waits."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setblocking(False)
    return link


class Entrance:
    """Where connections come in. One that says nothing keeps no other one waiting."""

    def __init__(self, listener: socket.socket, token: bytes, row_of: Mapping[int, int]) -> None:
        """row_of: by what a connection says after the token."""
        self._listener, self._token, self._row_of = listener, token, row_of
        self._strangers: deque[socket.socket] = deque()
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def accept(self, deadline: float) -> tuple[int, socket.socket]:
        """(row, socket) of the next connection that shows the token; others are closed. Raises LinkError at the
        deadline, and if the listener is closed.
        """
        while (left := deadline - time.monotonic()) > 0 and self._listener.fileno() >= 0:
            for key, _ in self._selector.select(min(left, 1)):  # another thread may close the listener just before
                if key.fileobj is self._listener:
                    self._let_in()
                elif (arrived := self._greet(cast("socket.socket", key.fileobj))) is not None:
                    return arrived
        raise LinkError("a rank that sends to this one did not connect in time")

    def _let_in(self) -> None:
        """Accept a connection, in the place of the one that has been silent for longest if there are too many."""
        with suppress(OSError):
            link, _ = self._listener.accept()
            link.setblocking(False)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, GREETING.size)  # ready with all of the greeting
            self._selector.register(link, selectors.EVENT_READ)
            self._strangers.append(link)
        if len(self._strangers) > len(self._row_of) + 16:
            self._selector.unregister(self._strangers[0])
            self._strangers.popleft().close()

    def _greet(self, link: socket.socket) -> tuple[int, socket.socket] | None:
        """(row, socket) of a connection that shows the token; None if it is closed since it does not."""
        self._selector.unregister(link)
        self._strangers.remove(link)
        with suppress(OSError, struct.error):
            shown, number = GREETING.unpack(link.recv(GREETING.size))
            if shown == self._token and number in self._row_of:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
                return self._row_of[number], link
        link.close()
        return None
