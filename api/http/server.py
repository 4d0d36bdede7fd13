"""Serves the application on a socket: TLS, graceful shutdown; signals are left to the process."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI

from api.http.certificate import Certificate
from fleet.clock import Clock, SystemClock
from fleet.errors import ConfigurationError, FleetError
from fleet.settings import Address

_BACKLOG: Final = 512
_SHUTDOWN_GRACE: Final = 1
"""Seconds that open requests get on shutdown: streams would never end by themselves."""
_KEEP_ALIVE: Final = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    address: Address
    tls_cert: Path | None = None
    tls_key: Path | None = None
    plain_http: bool = False
    """A proxy in front of the server terminates TLS."""

    def check(self) -> None:
        """Every request carries a token: without TLS only the loopback interface is allowed."""
        if self.address.is_off:
            raise ConfigurationError("--address: an API that listens nowhere is no use; give an address")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ConfigurationError("TLS needs both a certificate and its key: give --tls-cert and --tls-key")
        for option, file in (("--tls-cert", self.tls_cert), ("--tls-key", self.tls_key)):
            if file is not None and not file.is_file():
                raise ConfigurationError(f"{option}: there is no file {file}")
        if self.plain_http and self.tls_cert is not None:
            raise ConfigurationError("--plain-http: it is HTTPS with --tls-cert; leave one of them out")
        if not (self.plain_http or self.tls_cert or _is_loopback(self.address.host)):
            raise ConfigurationError(
                f"--address: {self.address} can be reached from other machines, and tokens would travel in the clear; "
                "give --tls-cert and --tls-key, or --plain-http where something in front of it ends TLS, "
                "or listen on 127.0.0.1"
            )


class ServerStopped(FleetError):
    """It stopped although no shutdown was requested."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The process handles signals itself."""
        yield


@contextlib.asynccontextmanager
async def serve_app(app: FastAPI, listening: ListenOptions, *, clock: Clock | None = None) -> AsyncIterator[str]:
    """Yields the URL, with the port that was bound; serves until the context ends."""
    listening.check()
    certificate = _load_certificate(listening)
    with _bind(listening.address) as bound:
        server = _Server(_build_config(app, certificate))
        serving = asyncio.create_task(server.serve(sockets=[bound]), name="api")
        watching = _watch(certificate, clock or SystemClock())
        try:
            async with _interrupt_on_exit(serving):
                yield _url(bound, listening)
        finally:
            watching.cancel()
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it logs aborted streams as errors
            server.should_exit = True
            await asyncio.wait({serving})
    serving.result()


@contextlib.asynccontextmanager
async def _interrupt_on_exit(serving: asyncio.Task[None]) -> AsyncIterator[None]:
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
        raise ServerStopped("the server of the API ended by itself")


def _load_certificate(listening: ListenOptions) -> Certificate | None:
    if listening.tls_cert is None or listening.tls_key is None:
        return None
    return Certificate(listening.tls_cert, listening.tls_key)


def _watch(certificate: Certificate | None, clock: Clock) -> asyncio.Future[None]:
    if certificate is None:
        return asyncio.get_running_loop().create_future()
    return asyncio.create_task(certificate.watch_files(clock), name="certificate")


def _build_config(app: FastAPI, certificate: Certificate | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_SHUTDOWN_GRACE,
    )
    config.load()
    config.ssl = None if certificate is None else certificate.context
    return config


def _bind(address: Address) -> socket.socket:
    """Without a host, listens on all interfaces, IPv4 and IPv6 where available."""
    host = address.host or ""
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, address.port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise ConfigurationError(f"--address: cannot listen on {address}: {error.strerror or error}") from error
    # Inherited by connections. Head and body are sent separately: with Nagle the body may be delayed by 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def _url(bound: socket.socket, listening: ListenOptions) -> str:
    host, port = bound.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if listening.tls_cert else 'http'}://{name}:{port}"


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "::").is_loopback
    except ValueError:
        return False
