"""The application on a socket: bound before anything is promised, ended in order, signals left to whoever runs it."""

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
_GOODBYE: Final = 1
"""Seconds that open requests get in the end: streams would never end by themselves."""
_KEEP_ALIVE: Final = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    address: Address
    tls_cert: Path | None = None
    tls_key: Path | None = None
    plain_http: bool = False
    """Whether something in front of the server ends TLS."""

    def check(self) -> None:
        """Tokens travel in every request: in the clear they stay on this machine."""
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


class ServerEnded(FleetError):
    """Nobody asked it to."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Whoever runs the server ends it."""
        yield


@contextlib.asynccontextmanager
async def served(app: FastAPI, listening: Listening, *, clock: Clock | None = None) -> AsyncIterator[str]:
    """Where it really listens, for as long as it does."""
    listening.check()
    certificate = _certificate(listening)
    with _socket(listening.address) as bound:
        server = _Server(_config(app, certificate))
        serving = asyncio.create_task(server.serve(sockets=[bound]), name="api")
        following = _followed(certificate, clock or SystemClock())
        try:
            async with _while_it_runs(serving):
                yield _url(bound, listening)
        finally:
            following.cancel()
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it calls it an error to cut streams off
            server.should_exit = True
            await asyncio.wait({serving})
    serving.result()


@contextlib.asynccontextmanager
async def _while_it_runs(serving: asyncio.Task[None]) -> AsyncIterator[None]:
    """Who waits inside would wait for a server that is not there any more: it is interrupted, and gets the error."""
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
            raise  # somebody else wants it to end, too
    finally:
        serving.remove_done_callback(interrupt)
    if ended:
        serving.result()
        raise ServerEnded("the server of the API ended by itself")


def _certificate(listening: Listening) -> Certificate | None:
    if listening.tls_cert is None or listening.tls_key is None:
        return None
    return Certificate(listening.tls_cert, listening.tls_key)


def _followed(certificate: Certificate | None, clock: Clock) -> asyncio.Future[None]:
    if certificate is None:
        return asyncio.get_running_loop().create_future()
    return asyncio.create_task(certificate.follow(clock), name="certificate")


def _config(app: FastAPI, certificate: Certificate | None) -> uvicorn.Config:
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
        timeout_graceful_shutdown=_GOODBYE,
    )
    config.load()
    config.ssl = None if certificate is None else certificate.context
    return config


def _socket(address: Address) -> socket.socket:
    """All interfaces means those of both versions of IP, where the machine speaks both."""
    host = address.host or ""
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, address.port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise ConfigurationError(f"--address: cannot listen on {address}: {error.strerror or error}") from error
    # Connections inherit it. Head and body go out one after the other: without it the body may wait for 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def _url(bound: socket.socket, listening: Listening) -> str:
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
