"""Probes and metrics over HTTP: `/livez`, `/readyz` and `/metrics`.

Live means that the event loop runs and no registered component is overdue; kubelet restarts a process that is not live.
Ready means that it could work now. Responses have the format of the API server's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from typing import Final, Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from fleet.clock import Clock
from fleet.errors import ConfigurationError
from fleet.settings import Address

LOOP: Final = "event-loop"
_HEARTBEAT: Final = 1.0
"""Seconds between two heartbeats of the event loop."""
_LONGEST_SILENCE: Final = 30.0
_SHUTDOWN_SECONDS: Final = 1.0
"""Seconds for requests in flight when the server stops."""

Missing = Callable[[], Iterable[str]]
"""Names of what is not ready yet; empty if the check passes."""
Age = Callable[[], float]
"""Seconds since the last heartbeat."""


class HealthChecks:
    """Registry of readiness and liveness checks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: dict[str, Missing] = {}
        self._alive: dict[str, tuple[Age, float]] = {}
        self._last_turn = clock.monotonic()
        self.add_liveness_check(LOOP, lambda: clock.monotonic() - self._last_turn, within=_LONGEST_SILENCE)

    def add_readiness_check(self, name: str, missing: Missing) -> None:
        """`missing` returns the names of what is not ready yet."""
        self._ready[name] = missing

    def add_liveness_check(self, name: str, age: Age, *, within: float) -> None:
        """Fails when the last heartbeat is more than `within` seconds ago."""
        self._alive[name] = (age, within)

    def readiness(self) -> dict[str, str]:
        """The problem by check; an empty string where the check passes."""
        return {name: ", ".join(missing()) for name, missing in self._ready.items()}

    def liveness(self) -> dict[str, str]:
        return {name: _describe_silence(age(), within) for name, (age, within) in self._alive.items()}

    async def watch_event_loop(self) -> None:
        """Heartbeat of the event loop, until cancelled."""
        while True:
            self._last_turn = self._clock.monotonic()
            await self._clock.sleep(_HEARTBEAT)


def _describe_silence(age: float, within: float) -> str:
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
    ) -> None:
        self._health = health
        self._registry = registry
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
            for address, purposes in self._group_by_address().items():
                bound = await self._serve(address, purposes, opening)
                self._bound |= dict.fromkeys(purposes, bound)
            watching = asyncio.create_task(self._health.watch_event_loop(), name="event loop watchdog")
            opening.push_async_callback(_cancel, watching)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()
        self._bound.clear()

    def _group_by_address(self) -> dict[Address, list[str]]:
        purposes: dict[Address, list[str]] = {}
        for purpose, address in self._wanted:
            if not address.is_off:
                purposes.setdefault(address, []).append(purpose)
        return purposes

    async def _serve(self, address: Address, purposes: list[str], opening: AsyncExitStack) -> tuple[str, int]:
        runner = web.AppRunner(self._app(purposes), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        opening.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, address.host, address.port)
        try:
            await site.start()
        except OSError as error:
            wanted = " and ".join(f"{purpose}.address" for purpose in purposes)
            raise ConfigurationError(f"{wanted}: cannot listen on {address}: {error.strerror or error}") from error
        # On all interfaces there may be one for each family; with port 0 each of them has a port of its own.
        host, port = min((bound[:2] for bound in runner.addresses), key=lambda bound: ":" in bound[0])
        return host, port

    def _app(self, purposes: list[str]) -> web.Application:
        app = web.Application()
        if "health" in purposes:
            app.router.add_get("/livez", self._livez)
            app.router.add_get("/readyz", self._readyz)
        if "metrics" in purposes:
            app.router.add_get("/metrics", self._metrics)
        return app

    async def _livez(self, request: web.Request) -> web.Response:
        return _build_response("livez", self._health.liveness(), request)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _build_response("readyz", self._health.readiness(), request)

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})


def _build_response(probe: str, checks: dict[str, str], request: web.Request) -> web.Response:
    failed = any(checks.values())
    if not failed and "verbose" not in request.query:
        return web.Response(text="ok")
    verdict = "failed" if failed else "passed"
    text = "\n".join([*_format_checks(checks), f"{probe} check {verdict}", ""])
    return web.Response(text=text, status=503 if failed else 200)


def _format_checks(checks: dict[str, str]) -> Iterator[str]:
    for name, problem in checks.items():
        yield f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
