"""`collc.Client`: requests to a planner that `collc serve` runs, over HTTP or a Unix socket."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Final, cast
from urllib.parse import urlsplit

from collc.api.plan_source import PlanSource
from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule, UsageError

_ERRORS: Final[dict[int, type[CollcError]]] = {400: UsageError, 422: NoSchedule, 503: NoSchedule}


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True, eq=False)
class RemoteAnswer:
    """An answer of a server. facts: its JSON (docs/planner.md)."""

    facts: Mapping[str, Any]
    client: Client = field(repr=False)

    @property
    def origin(self) -> str:
        """How it was found: "cache", "renamed", "patched" or "new"."""
        return self.facts["origin"]

    @property
    def final(self) -> bool:
        """False if a deadline ended the search, which goes on behind."""
        return self.facts["final"]

    @property
    def time_ps(self) -> int:
        """The time of the schedule, in picoseconds."""
        return self.facts["time_ps"]

    @property
    def ranks(self) -> list[list[int | None]]:
        """Of each run, for each rank of the request its rank in the files; None if it is dead."""
        return self.facts["ranks"]

    def read_file(self, name: str | None = None) -> bytes:
        """The contents of a file for the runtime. name: None for the only one.

        Raises CollcError if the server has lost it, KeyError if the answer has no such file: none if it is not final.
        """
        names: list[str] = [*self.facts["files"]]
        chosen = names[0] if name is None and len(names) == 1 else name
        if chosen not in names:
            raise KeyError(f"{chosen}: the answer has {len(names)} files: {', '.join(names)}")
        return self.client.read_file(self.facts["key"], chosen)


class Client(PlanSource[RemoteAnswer]):
    """Requests to a server. One client is for any number of threads, each of which has a connection.

    address: "http://127.0.0.1:8765", or the path of a Unix socket. token: what the server asks for. timeout: seconds.
    """

    def __init__(
        self, address: str | PathLike[str] = "http://127.0.0.1:8765", *, token: str = "", timeout: float = 60.0
    ) -> None:
        self._address, self._timeout = str(address), timeout
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._own = threading.local()

    def _answer(self, values: dict[str, Any]) -> RemoteAnswer:
        body = json.dumps({name: value for name, value in values.items() if value is not None}, default=_as_list)
        return RemoteAnswer(json.loads(self._ask("POST", "/v1/plan", body)), self)

    def read_file(self, key: str, name: str) -> bytes:
        """The contents of a file of a plan. Raises CollcError if there is none."""
        return self._ask("GET", f"/v1/plans/{key}/files/{name}")

    def health(self) -> Mapping[str, str]:
        """What the server says of itself: "status" and "network"."""
        return json.loads(self._ask("GET", "/healthz"))

    def metrics(self) -> str:
        """The metrics of the server, in the text form of Prometheus."""
        return self._ask("GET", "/metrics").decode()

    def _ask(self, method: str, path: str, body: str | None = None) -> bytes:
        """The body of the answer; a connection that the server has closed is opened again."""
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        try:
            status, data = self._exchange(method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            status, data = self._exchange(method, path, body, headers)
        if status >= 400:
            raise _error(status, data)
        return data

    def _exchange(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            self.close()  # what is half done must not be taken for the answer to the next request
            raise

    def _connection(self) -> http.client.HTTPConnection:
        known = cast("http.client.HTTPConnection | None", getattr(self._own, "connection", None))
        if known is None:
            url = urlsplit(self._address)
            if url.scheme == "http":
                known = http.client.HTTPConnection(url.hostname or "", url.port, timeout=self._timeout)
            elif url.scheme == "":
                known = _UnixConnection(self._address, self._timeout)
            else:
                raise ValueError(f"address must begin with http:// or be the path of a socket, not {self._address!r}")
            self._own.connection = known
        return known

    def close(self) -> None:
        """Close the connection of this thread."""
        known = cast("http.client.HTTPConnection | None", getattr(self._own, "connection", None))
        if known is not None:
            known.close()
            self._own.connection = None


def _as_list(values: Any) -> object:  # noqa: ANN401
    """What JSON has for an array or a number of NumPy, or for elements of another kind."""
    return values.tolist() if hasattr(values, "tolist") else [*values]


def _error(status: int, data: bytes) -> CollcError:
    """The error that the server reports."""
    kind = _ERRORS.get(status, CollcError)
    try:
        messages: list[dict[str, Any]] = json.loads(data)["diagnostics"]
        return kind(*(Diagnostic(m["code"], m["message"], hint=m.get("hint") or "") for m in messages))
    except (ValueError, KeyError, TypeError):
        return CollcError(Diagnostic("U0164", f"the server answers with status {status}"))
