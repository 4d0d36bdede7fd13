"""A proxy in front of a hub, one for each controller: writes down what it asks for, before the hub hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from fleet.kube.client.stream_connector import StreamConnector
from tests.control_plane.access import ADMIN, Access

_DROPPED: Final = {"transfer-encoding", "connection", "content-length", "content-encoding", "host", "accept-encoding"}
_LEASES: Final = "/leases"
_SECONDS_TO_WRITE: Final = 120.0


@dataclass(frozen=True)
class Asked:
    at: float
    method: str
    path: str
    user_agent: str

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    @property
    def is_about_leading(self) -> bool:
        return _LEASES in self.path


@dataclass
class Proxy:
    session: aiohttp.ClientSession
    access: Access
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    _passage: asyncio.Event = field(default_factory=asyncio.Event)
    _holds_leases: bool = False

    def hold(self) -> None:
        """What comes now waits; only what is about the lease is answered."""
        self._passage.clear()

    def hold_everything(self) -> None:
        """What comes now waits, whatever it is about."""
        self._passage.clear()
        self._holds_leases = True

    def let_pass(self) -> None:
        self._holds_leases = False
        self._passage.set()

    async def asked_to_write(self, path: str) -> None:
        """Until there is a write about it."""
        async with asyncio.timeout(_SECONDS_TO_WRITE):
            while not any(path in write.path for write in self.writes()):
                await asyncio.sleep(0.02)

    async def waits(self, *, while_: Callable[[], bool]) -> None:
        """Until the controller has renewed its lease twice and written nothing else meanwhile: everything it does waits
        for an answer, and what has passed the fence has left."""
        count, renewals = len(self.writes()), self._renewals()
        while while_() and self._renewals() < renewals + 2:
            await asyncio.sleep(0.02)
            if count != len(self.writes()):
                count, renewals = len(self.writes()), self._renewals()

    def writes(self, *, since: float = 0.0) -> list[Asked]:
        """Without those about the lease: asking for that is nobody's privilege."""
        return [one for one in self.asked if one.is_write and not one.is_about_leading and one.at >= since]

    def _renewals(self) -> int:
        return sum(one.is_write and one.is_about_leading for one in self.asked)

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / f"through-{self.port}.kubeconfig"
        path.write_text(
            f"""{{"apiVersion": "v1", "kind": "Config", "current-context": "hub",
            "contexts": [{{"name": "hub", "context": {{"cluster": "hub", "user": "user"}}}}],
            "clusters": [{{"name": "hub", "cluster": {{"server": "http://127.0.0.1:{self.port}"}}}}],
            "users": [{{"name": "user", "user": {{}}}}]}}""",
            encoding="utf-8",
        )
        return path

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._passed_on(request)
        except (aiohttp.ClientError, ConnectionError) as error:
            raise web.HTTPBadGateway(text=str(error)) from error

    async def _passed_on(self, request: web.Request) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        agent = request.headers.get("user-agent", "")
        self.asked.append(Asked(loop.time(), request.method, request.path_qs, agent))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _DROPPED}
        headers["authorization"] = f"Bearer {self.access.tokens[ADMIN]}"
        body = await request.read()
        if self._holds_leases or _LEASES not in request.path:
            await self._passage.wait()
        url = f"{self.access.url}{request.path_qs}"
        async with self.session.request(request.method, url, data=body, headers=headers) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _DROPPED}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


@asynccontextmanager
async def a_proxy(access: Access) -> AsyncIterator[Proxy]:
    timeout = aiohttp.ClientTimeout(total=None)
    connector = StreamConnector(access.ssl_context())
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        proxy = Proxy(session, access)
        proxy.let_pass()
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{path:.*}", proxy.answer)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            proxy.port = runner.addresses[0][1]
            yield proxy
        finally:
            await runner.cleanup()
