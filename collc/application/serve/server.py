"""The HTTP interface of the planner, on Starlette and uvicorn (the extra collc[serve]).

Answers whose plans are made come from the event loop at once; plans are made in other processes, which give way to it.
"""

from __future__ import annotations

import asyncio
import gc
import hmac
import json
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from collc.application.planner.answers import Answer
from collc.application.planner.planning import PlanningService, too_late
from collc.application.planner.values import request_of, seconds_of
from collc.application.serve.schema import interface_schema
from collc.base.diagnostics import (
    CollcError,
    Diagnostic,
    NoSchedule,
    SourceError,
    UsageError,
    messages_as_json,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server. body: bytes of a request. seconds: for an answer. queue: plans that are made or wait."""

    body: int
    seconds: float
    queue: int


class _Metrics:
    """What `GET /metrics` returns."""

    def __init__(self, service: PlanningService) -> None:
        self.registry = CollectorRegistry()
        self.answers = Counter("collc_answers", "answers, by how they were found", ["origin"], registry=self.registry)
        self.errors = Counter("collc_errors", "errors, by HTTP status", ["status"], registry=self.registry)
        buckets = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30)
        name, text = "collc_answer_seconds", "time until the answer"
        self.seconds = Histogram(name, text, registry=self.registry, buckets=buckets)
        for name, text, value in (
            ("collc_plans_waiting", "plans that are being made or wait", lambda: service.plans_waiting),
            ("collc_plans_in_memory", "plans in memory", lambda: len(service.store)),
            ("collc_plan_bytes", "bytes of the plans in memory", lambda: service.store.byte_count),
            ("collc_plans_unwritten", "plans that could not be written to the cache", lambda: service.store.unwritten),
        ):
            Gauge(name, text, registry=self.registry).set_function(value)


class _TooLarge(Exception):
    """The body of a request has too many bytes."""


class PlannerApp:
    """The routes. token: what clients must present, "" for nothing."""

    def __init__(self, service: PlanningService, limits: Limits, token: str = "") -> None:
        self._service, self._limits, self._token = service, limits, token
        self._metrics = _Metrics(service)
        self._schema = interface_schema()
        self.app = Starlette(
            routes=[
                Route("/v1/plan", self._guard_route(self._plan), methods=["POST"]),
                Route("/v1/plans/{key}/files/{name}", self._guard_route(self._file)),
                Route("/v1/schema", self._guard_route(self._show_schema)),
                Route("/metrics", self._guard_route(self._show_metrics)),
                Route("/healthz", self._show_health),
            ],
            lifespan=self._close_service,
        )

    @asynccontextmanager
    async def _close_service(self, _app: Starlette) -> AsyncIterator[None]:
        yield
        self._service.close()

    def _guard_route(self, route: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """The route for those who have the token, with errors as JSON."""

        async def guarded(request: Request) -> Response:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self._token.encode()) and self._token:
                return self._refuse(401, "the token is missing or wrong: Authorization: Bearer TOKEN")
            try:
                return await route(request)
            except _TooLarge:
                return self._refuse(413, f"a request has at most {self._limits.body} bytes")
            except ClientDisconnect:
                return self._refuse(499, "the client is gone")
            except NoSchedule as error:
                late = error.diagnostics[0].code == "S0207"
                return self._report(503 if late else 422, error)
            except (UsageError, SourceError) as error:
                return self._report(400, error)
            except CollcError as error:  # a check that failed
                return self._report(500, error)
            except Exception as error:  # a process that died, a disk that is full: the server goes on
                return self._refuse(500, f"{type(error).__name__}: {error}")

        return guarded

    def _refuse(self, status: int, message: str) -> Response:
        return self._report(status, CollcError(Diagnostic("U0164", message)))

    def _report(self, status: int, error: CollcError) -> Response:
        self._metrics.errors.labels(str(status)).inc()
        headers = {"Retry-After": "1"} if status == 503 else {}
        return JSONResponse({"diagnostics": messages_as_json(error.diagnostics)}, status, headers)

    async def _body(self, request: Request) -> dict[str, Any]:
        """The JSON object of a request. Raises _TooLarge, UsageError U0163."""
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > self._limits.body:
                raise _TooLarge
            parts.append(part)
        try:
            value: object = json.loads(b"".join(parts))
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise UsageError(Diagnostic("U0163", "the body is no JSON object"))
        return value

    async def _plan(self, request: Request) -> Response:
        began = time.perf_counter()
        try:
            values = await asyncio.wait_for(self._body(request), self._limits.seconds)
        except TimeoutError:
            return self._refuse(408, f"the body has not come within {self._limits.seconds:g} s")
        within = seconds_of(values.pop("within", None))
        answer = self._service.look_up(request_of(values))
        if not isinstance(answer, Answer):
            limit = min(within or self._limits.seconds, self._limits.seconds)
            new = not self._service.is_making(answer, limit if within else None)
            if new and self._service.plans_waiting >= self._limits.queue:
                return self._refuse(503, f"{self._limits.queue} plans wait already: ask again later")
            making = self._service.start_limited(answer, limit) if within else self._service.start(answer)
            try:
                plan = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(making)), limit)
            except TimeoutError:
                if within:
                    self._service.give_up(answer, limit, making)
                raise too_late(limit) from None
            answer = self._service.answer_of(answer, plan, final=not within)
        self._metrics.answers.labels(answer.origin).inc()
        self._metrics.seconds.observe(time.perf_counter() - began)
        return JSONResponse(answer.as_json())

    async def _file(self, request: Request) -> Response:
        key, name = request.path_params["key"], request.path_params["name"]
        plan = self._service.store.find(key) if len(key) == 64 and key.isalnum() else None
        if plan is None or name not in plan.files:
            return self._refuse(404, "there is no such plan or file")
        return Response(plan.files[name], media_type="application/octet-stream")

    async def _show_schema(self, _request: Request) -> Response:
        return JSONResponse(self._schema)

    async def _show_metrics(self, _request: Request) -> Response:
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def _show_health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok", "network": self._service.classes.named.name})


def _listen(host: str, port: int, path: Path | None) -> socket.socket:
    """A socket on an address, or on a path, to which only its user can connect. Raises UsageError U0164."""
    try:
        if path is None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, port), family=family, backlog=2048)
        if path.is_socket():
            path.unlink()  # of a server that was killed
        own = socket.socket(socket.AF_UNIX)
        own.bind(str(path))
        path.chmod(0o600)
        own.listen(2048)
    except (OSError, OverflowError) as error:
        where = f"{host}, port {port}" if path is None else path
        raise UsageError(Diagnostic("U0164", f"cannot listen on {where}: {error}")) from None
    return own


def serve(
    app: PlannerApp, *, host: str, port: int, path: Path | None, seconds: float, announce: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or Ctrl-C; requests that are being answered are finished.

    path: of a Unix socket, in place of host and port. announce: receives the address when clients can connect.
    Raises UsageError U0164 if it cannot listen there.
    """
    listener = _listen(host, port, path)
    config = uvicorn.Config(
        app.app,
        log_level="error",
        access_log=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=max(1, int(seconds)),
    )
    gc.collect()
    gc.freeze()  # what was loaded stays, so that collections during requests need not look at it
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))  # uvicorn raises it again when all is done
    shown = f"[{host}]" if ":" in host else host
    announce(str(path) if path is not None else f"http://{shown}:{port}")
    uvicorn.Server(config).run(sockets=[listener])
