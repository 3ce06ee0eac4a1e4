"""Starting `collc serve`: its settings are checked before the packages of its extra are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from collc.application.planner.planning import PlanningService, Processes
from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.reading import read_text


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The options of `collc serve`. memory, body: bytes. answer_limit: seconds. queue: plans that may wait."""

    host: str
    port: int
    socket: Path | None
    token_file: Path | None
    cache: Path | None
    memory: int
    body: int
    answer_limit: float
    queue: int


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def start_server(target: str, settings: ServeSettings, announce: Callable[[str], None]) -> None:
    """Serve a network until SIGTERM or Ctrl-C. target: FILE.coll:TOPOLOGY. announce: receives a line when it begins.

    Raises UsageError U0164 without the extra collc[serve] or if it cannot listen, U0165 if others could connect without
    a token, and SourceError for a wrong program.
    """
    token = "" if settings.token_file is None else read_text(settings.token_file).text.partition("\n")[0].strip()
    if not token and (settings.token_file is not None or (settings.socket is None and not _is_local(settings.host))):
        message = f"{settings.token_file} has no token" if settings.token_file is not None else "a token is needed"
        hint = "others can connect to this address: give --token-file FILE, whose first line is the token"
        raise UsageError(Diagnostic("U0165", message, hint=hint))
    try:
        from collc.application.serve.server import Limits, PlannerApp, serve
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn", "prometheus_client"}:
            raise
        hint = "install it: pip install 'collc[serve]'"
        raise UsageError(Diagnostic("U0164", f"the server needs the package {error.name}", hint=hint)) from None
    file, colon, name = target.rpartition(":")
    named = bool(colon) and name.isidentifier()
    head = read_text(Path(file if named else target))
    service = PlanningService.of(head, name if named else None, settings.memory, settings.cache, Processes())
    app = PlannerApp(service, Limits(settings.body, settings.answer_limit, settings.queue), token)
    serve(
        app,
        host=settings.host,
        port=settings.port,
        path=settings.socket,
        seconds=settings.answer_limit,
        announce=lambda address: announce(f"{service.classes.named.name} is served at {address}"),
    )
