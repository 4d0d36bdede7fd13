"""Probes and metrics over HTTP(S): `/livez`, `/readyz` and `/metrics`, and JSON and profiles beside the metrics.

Live means that the event loop runs and no registered component is overdue; kubelet restarts a process that is not live.
Ready means that it could work now. Responses have the format of the API server's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from fleet.certificate import Certificate, TlsPolicy
from fleet.clock import Clock
from fleet.errors import ConfigurationError
from fleet.manager.debug_pages import PREFIX, DebugPages
from fleet.settings import Address
from fleet.settings.tree import TlsSection

_PLAIN: Final = TlsSection()
LOOP: Final = "event-loop"
_HEARTBEAT: Final = 1.0
"""Seconds between two heartbeats of the event loop."""
_LONGEST_SILENCE: Final = 30.0
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"

Scope = MutableMapping[str, Any]
_Response = tuple[int, str, bytes]
"""Status, content type and body."""

Missing = Callable[[], Iterable[str]]
"""Names of what is not ready yet; empty if the check passes."""
Age = Callable[[], float]
"""Seconds since the last heartbeat."""
FindPage = Callable[[str], bytes | None]
"""The JSON at a path; None if there is none."""


class HealthChecks:
    """Registry of readiness and liveness checks."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._ready: dict[str, Missing] = {}
        self._notices: dict[str, Callable[[], str]] = {}
        self._alive: dict[str, tuple[Age, float]] = {}
        self._last_turn = clock.monotonic()
        self.add_liveness_check(LOOP, lambda: clock.monotonic() - self._last_turn, within=_LONGEST_SILENCE)

    def add_readiness_check(self, name: str, missing: Missing) -> None:
        """`missing` returns the names of what is not ready yet."""
        self._ready[name] = missing

    def add_notice(self, name: str, notice: Callable[[], str]) -> None:
        """Something that operators should know, shown by `/readyz?verbose`; it does not change readiness."""
        self._notices[name] = notice

    def list_notices(self) -> dict[str, str]:
        return {name: notice() for name, notice in self._notices.items()}

    def add_liveness_check(self, name: str, age: Age, *, within: float) -> None:
        """Fails when the last heartbeat is more than `within` seconds ago."""
        self._alive[name] = (age, within)

    def readiness(self) -> dict[str, str]:
        """The problem by check; an empty string where the check passes."""
        return {name: ", ".join(missing()) for name, missing in self._ready.items()}

    def liveness(self) -> dict[str, str]:
        return {name: _describe_overdue(age(), within) for name, (age, within) in self._alive.items()}

    async def watch_event_loop(self) -> None:
        """Heartbeat of the event loop, until cancelled."""
        while True:
            self._last_turn = self.clock.monotonic()
            await self.clock.sleep(_HEARTBEAT)


def _describe_overdue(age: float, within: float) -> str:
    return f"silent for {age:.0f} s, expected every {within:.0f} s" if age > within else ""


class HealthServer:
    """Serves while it is open: `async with HealthServer(…) as server`. Equal addresses share one server."""

    def __init__(
        self,
        health: HealthChecks,
        registry: CollectorRegistry,
        *,
        health_address: Address,
        metrics_address: Address,
        find_page: FindPage = lambda _: None,
        is_profiled: bool = False,
        tls: TlsSection = _PLAIN,
    ) -> None:
        """`find_page` has what is served beside the metrics, and so are profiles, to callers on this machine."""
        self._health = health
        self._registry = registry
        self._find_page = find_page
        self._is_profiled = is_profiled
        self._tls = tls
        self._wanted = (("health", health_address), ("metrics", metrics_address))
        self._bound: dict[str, tuple[str, int]] = {}
        self._open = AsyncExitStack()

    @property
    def health_address(self) -> tuple[str, int] | None:
        """The bound host and port; None if it does not listen."""
        return self._bound.get("health")

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        return self._bound.get("metrics")

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            context = self._open_certificate(opening)
            for address, purposes in self._group_by_address().items():
                bound = await self._serve(address, purposes, opening, context)
                self._bound |= dict.fromkeys(purposes, bound)
            watching = asyncio.create_task(self._health.watch_event_loop(), name="event loop watchdog")
            opening.push_async_callback(_cancel, watching)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        self._bound.clear()
        return await self._open.__aexit__(*error)

    def _open_certificate(self, opening: AsyncExitStack) -> ssl.SSLContext | None:
        if not self._tls.enabled:
            return None
        folder, policy = Path(self._tls.folder), TlsPolicy(self._tls.min_version, self._tls.cipher_suites)
        files = (folder / "tls.crt", folder / "tls.key")
        certificate = Certificate(*files, policy=policy, self_signs=True, setting="tls.folder: {} and {}")
        watching = asyncio.create_task(certificate.watch_files(self._health.clock), name="certificate")
        opening.push_async_callback(_cancel, watching)
        return certificate.context

    def _group_by_address(self) -> dict[Address, list[str]]:
        purposes: dict[Address, list[str]] = {}
        for purpose, address in self._wanted:
            if not address.is_off:
                purposes.setdefault(address, []).append(purpose)
        return purposes

    async def _serve(
        self, address: Address, purposes: list[str], opening: AsyncExitStack, tls: ssl.SSLContext | None
    ) -> tuple[str, int]:
        from fleet.serving import bind, build_server, serve  # slow to import, and not needed when switched off

        try:
            bound = bind(address.host, address.port)
        except OSError as error:
            settings = " and ".join(f"{purpose}.address" for purpose in purposes)
            raise ConfigurationError(f"{settings}: cannot listen on {address}: {error.strerror or error}") from error
        host, port = bound.getsockname()[:2]
        debug = None
        if self._is_profiled and "metrics" in purposes:
            debug = DebugPages()
            opening.callback(debug.close)
        server = build_server(_Application(self._health, self._registry, purposes, self._find_page, debug), tls=tls)
        await opening.enter_async_context(serve(server, bound, name=" and ".join(purposes)))
        return host, port


class _Application:
    """An ASGI application with the routes of the given purposes."""

    def __init__(
        self,
        health: HealthChecks,
        registry: CollectorRegistry,
        purposes: list[str],
        find_page: FindPage,
        debug: DebugPages | None,
    ) -> None:
        self._registry = registry
        self._debug = debug
        self._find_page: FindPage = find_page if "metrics" in purposes else lambda _: None
        self._routes: dict[str, Callable[[Scope], _Response]] = {}
        if "health" in purposes:
            self._routes["/livez"] = lambda scope: _build_response("livez", health.liveness(), scope)
            self._routes["/readyz"] = lambda scope: _build_response(
                "readyz", health.readiness(), scope, notices=health.list_notices()
            )
        if "metrics" in purposes:
            self._routes["/metrics"] = self._render_metrics

    async def __call__(self, scope: Scope, _receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        status, content_type, body = await self._find_response(scope)
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _find_response(self, scope: Scope) -> _Response:
        path = scope["path"]
        debug = self._debug if path.startswith(PREFIX) else None
        route = self._routes.get(path) or self._find_document(path)
        if route is None and debug is None:
            return 404, _TEXT, b"404: Not Found"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, _TEXT, b"405: Method Not Allowed"
        if debug is not None:
            status, text = await debug.render(scope)
            return status, _TEXT, text.encode()
        assert route is not None
        return route(scope)

    def _find_document(self, path: str) -> Callable[[Scope], _Response] | None:
        page = self._find_page(path)
        return None if page is None else lambda _: (200, _JSON, page)

    def _render_metrics(self, scope: Scope) -> _Response:
        accept = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept")
        encode, content_type = choose_encoder(accept)
        return 200, content_type, encode(self._registry)


def _build_response(
    probe: str, checks: dict[str, str], scope: Scope, *, notices: Mapping[str, str] = MappingProxyType({})
) -> _Response:
    failed = any(checks.values())
    if not failed and b"verbose" not in parse_qs(scope["query_string"], keep_blank_values=True):
        return 200, _TEXT, b"ok"
    verdict = "failed" if failed else "passed"
    told = (f"[+]{name} {notice or 'ok'}" for name, notice in notices.items())
    text = "\n".join([*_format_checks(checks), *told, f"{probe} check {verdict}", ""])
    return 503 if failed else 200, _TEXT, text.encode()


def _format_checks(checks: dict[str, str]) -> Iterator[str]:
    for name, problem in checks.items():
        yield f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
