"""Serves the application on a socket: TLS, graceful shutdown; signals are left to the process."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI

from fleet.certificate import Certificate
from fleet.clock import Clock, SystemClock
from fleet.errors import ConfigurationError
from fleet.serving import bind, build_server, format_url, serve
from fleet.settings import Address


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


@contextlib.asynccontextmanager
async def serve_app(
    app: FastAPI,
    listening: ListenOptions,
    *,
    clock: Clock | None = None,
    client_authorities: Callable[[], str] | None = None,
) -> AsyncIterator[str]:
    """Yields the URL, with the port that was bound; serves until the context ends. `client_authorities` as in
    `Certificate`."""
    listening.check()
    certificate = _load_certificate(listening, client_authorities)
    await asyncio.to_thread(_prepare, app)
    with _bind(listening.address) as bound:
        url = format_url(bound, tls=certificate is not None)
        server = build_server(app, tls=None if certificate is None else certificate.context)
        watching = _watch(certificate, clock or SystemClock())
        try:
            async with serve(server, bound, name="api"):
                yield url
        finally:
            watching.cancel()


def _prepare(app: FastAPI) -> None:
    """Else the first requests do it on the event loop.

    Describing the endpoints takes a tenth of a second, and compiling what FastAPI finds their source with a few
    milliseconds."""
    app.openapi()
    with contextlib.suppress(OSError):  # without sources FastAPI finds none either
        inspect.getsourcelines(_prepare)


def _load_certificate(listening: ListenOptions, client_authorities: Callable[[], str] | None) -> Certificate | None:
    if listening.tls_cert is None or listening.tls_key is None:
        return None
    return Certificate(listening.tls_cert, listening.tls_key, client_authorities=client_authorities)


def _watch(certificate: Certificate | None, clock: Clock) -> asyncio.Future[None]:
    if certificate is None:
        return asyncio.get_running_loop().create_future()
    return asyncio.create_task(certificate.watch_files(clock), name="certificate")


def _bind(address: Address) -> socket.socket:
    try:
        return bind(address.host, address.port)
    except OSError as error:
        raise ConfigurationError(f"--address: cannot listen on {address}: {error.strerror or error}") from error


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "::").is_loopback
    except ValueError:
        return False
