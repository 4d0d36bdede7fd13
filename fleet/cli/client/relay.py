"""Requests of the explorer, sent to the API through the hub with the credentials of a kubeconfig.

Answers are passed on as they arrive. Errors of the hub's API server become the errors that every other command shows.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Self

import aiohttp
from yarl import URL

from api.gateway import ForwardedRequest, ForwardedResponse
from api.http.problems import MEDIA_TYPE, ProblemError, refusal, unavailable
from fleet import __version__
from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.hub_refusals import describe_hub_refusal, describe_hub_unreachable
from fleet.errors import FleetError

_CONNECT_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = 60.0
"""Without a byte; streams send heartbeats more often."""
_LARGEST_ERROR: Final = 2**20
_LONG_RUNNING: Final = "watch=true"
"""Without it the API server ends a stream after a minute."""
_NEXT: Final = "\nnext: "


class HubRelay:
    def __init__(self, connection: ApiConnection) -> None:
        assert connection.hub is not None
        self._connection = connection
        self._hub = connection.hub
        self._credentials = asyncio.Lock()
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS)
        session = aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": f"fleet/{__version__}"})
        self._session = await self._closing.enter_async_context(session)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    @asynccontextmanager
    async def send(self, request: ForwardedRequest) -> AsyncIterator[ForwardedResponse]:
        try:
            response = await self._send(request)
            if response.status == http.client.UNAUTHORIZED and await self._renew():
                response.close()
                response = await self._send(request)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            text = f"{self._connection.url} cannot be reached: {str(error) or 'no answer in time'}"
            raise _build_problem(0, describe_hub_unreachable(self._connection, text)) from error
        except FleetError as error:
            raise _build_problem(0, str(error)) from error
        async with response:
            if response.status >= http.client.BAD_REQUEST and response.content_type != MEDIA_TYPE:
                raise await self._read_refusal(response)
            headers = {name.lower(): value for name, value in response.headers.items()}
            yield ForwardedResponse(response.status, headers, response.content.iter_any())

    async def _send(self, request: ForwardedRequest) -> aiohttp.ClientResponse:
        async with self._credentials:  # an exec plugin runs once, also for many requests
            headers, tls = await asyncio.to_thread(self._read_credentials)
        context = self._hub.context.cluster
        return await self._session.request(
            request.method,
            URL(self._connection.url + _lengthen(request), encoded=True),
            headers={**request.headers, "Accept-Encoding": "identity", **headers},
            data=request.body or None,
            ssl=True if tls is None else tls,
            server_hostname=str(context.get("tls-server-name") or "") or None,
            proxy=self._hub.proxy or None,
            allow_redirects=False,
        )

    def _read_credentials(self) -> tuple[dict[str, str], ssl.SSLContext | None]:
        token = self._connection.token
        headers = {"Authorization": f"Bearer {token}"} if token else self._hub.headers()
        return headers, self._hub.tls()

    async def _renew(self) -> bool:
        async with self._credentials:
            return not self._connection.token and self._hub.renew()

    async def _read_refusal(self, response: aiohttp.ClientResponse) -> ProblemError:
        body = await response.content.read(_LARGEST_ERROR)
        try:
            document = json.loads(body)
        except ValueError:
            document = None
        return _build_problem(response.status, describe_hub_refusal(self._connection, response.status, body, document))


def _lengthen(request: ForwardedRequest) -> str:
    if not request.is_stream:
        return request.target
    return f"{request.target}{'&' if '?' in request.target else '?'}{_LONG_RUNNING}"


def _build_problem(status: int, text: str) -> ProblemError:
    """The page has no credentials of its own, so that 401 would let its user sign in for nothing."""
    detail, _, step = text.partition(_NEXT)
    if status == http.client.FORBIDDEN:
        return refusal(status, detail, next=step)
    return unavailable(detail, step)
