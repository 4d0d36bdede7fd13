"""HTTP serving: an ASGI application on a bound socket, with TLS and ordered shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import uvicorn

from fleet.errors import FleetError
from fleet.http_protocol import BoundedHttpProtocol

_SHUTDOWN_SECONDS: Final = 1
"""Time for open requests on shutdown: streams and watches would never end by themselves."""


class ServerStopped(FleetError):
    """It stopped although no shutdown was requested."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The process handles signals itself."""
        yield


def bind(host: str | None, port: int, *, backlog: int = 512) -> socket.socket:
    """Without a host, listens on all interfaces, IPv4 and IPv6 where available. Raises OSError that says only why."""
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in (host or "") else socket.AF_INET
    try:
        bound = socket.create_server((host or "", port), family=family, backlog=backlog, dualstack_ipv6=both)
    except OSError as error:
        if error.errno is None or error.errno <= 0:  # a host that is not found
            raise
        raise OSError(error.errno, os.strerror(error.errno)) from error
    # Inherited by connections. Head and body are sent separately: with Nagle the body may be delayed by 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def format_url(bound: socket.socket, *, tls: bool) -> str:
    host, port = bound.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{name}:{port}"


def build_server(
    app: Callable[..., Any],
    *,
    tls: ssl.SSLContext | None = None,
    keep_alive: int = 75,
    date_header: bool = True,
) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=BoundedHttpProtocol,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=date_header,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    if tls is not None:
        config.load()
        config.ssl = tls
    return _Server(config)


@contextlib.asynccontextmanager
async def serve(server: uvicorn.Server, bound: socket.socket, *, name: str) -> AsyncIterator[None]:
    """Serves until the context ends. A server that stops earlier cancels the body, and its error is raised."""
    with bound:
        serving = asyncio.create_task(server.serve(sockets=[bound]), name=name)
        try:
            async with _interrupt_on_exit(serving, name):
                yield
        finally:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it logs aborted streams as errors
            server.should_exit = True
            await asyncio.wait({serving})
    serving.result()


@contextlib.asynccontextmanager
async def _interrupt_on_exit(serving: asyncio.Task[None], name: str) -> AsyncIterator[None]:
    """Cancels the body when the server stops by itself, and raises the server's error."""
    inside = asyncio.current_task()
    assert inside is not None
    ended = False

    def interrupt(_: asyncio.Task[None]) -> None:
        nonlocal ended
        ended = True
        inside.cancel()

    serving.add_done_callback(interrupt)
    try:
        yield
    except asyncio.CancelledError:
        if not ended or inside.uncancel():
            raise  # it was also cancelled from outside
    finally:
        serving.remove_done_callback(interrupt)
    if ended:
        serving.result()
        raise ServerStopped(f"the {name} server ended by itself")
