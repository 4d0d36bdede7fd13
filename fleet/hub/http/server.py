"""The server process: listens, writes the kubeconfig and the ready file, and shuts down in order."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from fleet.errors import ConfigurationError, RequestRefused
from fleet.hub.access.authentication import Tokens, User, generate_administrator, read_tokens, write_tokens
from fleet.hub.http.app import Application, Listener
from fleet.hub.hub import Hub
from fleet.hub.schema.cel.library import IS_INSTALLED, NOT_CHECKED
from fleet.hub.wire.bodies import encode
from fleet.private_files import create_private_directory
from fleet.serving import bind, build_server, format_url, serve

_LOG: Final = logging.getLogger(__name__)
_NAME: Final = "fleet-hub"
_TOKENS: Final = "tokens.csv"
_KUBECONFIG: Final = "kubeconfig"
_BACKLOG: Final = 2048
_KEEP_ALIVE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """Without `data_dir` everything is kept in memory. Port 0 chooses a free port."""

    host: str = "127.0.0.1"
    port: int = 0
    data_dir: Path | None = None
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    ready_file: Path | None = None
    allow_remote: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL of the hub, and the files that a client needs to connect."""

    url: str
    kubeconfig: Path
    token_file: Path
    ca_file: Path | None


async def serve_hub(
    settings: HubSettings, *, stop: asyncio.Event, ready: Callable[[Endpoint], None] | None = None
) -> None:
    """Serves until it shall stop, or is cancelled. `ready` is called with the endpoint once the hub serves."""
    check_settings(settings)
    if not IS_INSTALLED:
        _LOG.warning(NOT_CHECKED)
    with contextlib.ExitStack() as stack:
        folder = settings.data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-hub-")))
        _make_directory(folder)
        sock = stack.enter_context(_listen(settings))
        endpoint, users = _prepare_endpoint(settings, folder, sock)
        async with _run_hub(settings, Tokens(users)) as hub:
            _write_kubeconfig(endpoint, users)  # only after the lock on the data directory is held
            host, port = sock.getsockname()[:2]
            listener = Listener(trusts_local=_is_plain_loopback(settings), address=f"{host}:{port}")
            server = build_server(
                Application(hub, listener), tls=_load_tls(settings), keep_alive=_KEEP_ALIVE, date_header=False
            )
            async with serve(server, sock, name=_NAME):
                _announce(settings, endpoint, ready)
                await stop.wait()


def _make_directory(folder: Path) -> None:
    try:
        create_private_directory(folder)
    except OSError as error:
        raise ConfigurationError(f"cannot create the data directory {folder}: {error.strerror}") from error


def check_settings(settings: HubSettings) -> None:
    if not settings.allow_remote and not _is_loopback(settings.host):
        text = f"host {settings.host!r} can be reached from other machines; add --allow-remote to allow that"
        raise ConfigurationError(text)
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise ConfigurationError("TLS needs both --tls-cert and --tls-key")
    if settings.allow_remote and not _is_loopback(settings.host) and not settings.tls_cert:
        raise ConfigurationError("--allow-remote needs TLS: set --tls-cert and --tls-key")


@contextlib.asynccontextmanager
async def _run_hub(settings: HubSettings, tokens: Tokens) -> AsyncIterator[Hub]:
    """The hub with its background tasks and, if there is a data directory, its database."""
    if settings.data_dir is None:
        hub = Hub(tokens)
        hub.bootstrap()
        async with _run_background(hub):
            yield hub
        return
    from fleet.hub.storage.database import (  # slow to import, and not needed in memory
        DatabaseWriter,
        HubDatabase,
    )

    database = HubDatabase(settings.data_dir)
    try:
        hub = Hub(tokens, revision=database.revision(), entries=database.entries())
        writer = DatabaseWriter(database, apply=hub.store.apply, discard=hub.store.discard_in_flight)
        hub.store.journal = writer
        try:
            hub.bootstrap()
            await _settle(hub, settings.data_dir)
            async with _run_background(hub):
                yield hub
        finally:
            writer.close()
    finally:
        database.close()


async def _settle(hub: Hub, folder: Path) -> None:
    """Readers see what is durable: the first of them would not find all kinds."""
    try:
        await hub.store.settle()
    except RequestRefused as refused:
        raise ConfigurationError(
            f"the data directory {folder} does not take Fleet's kinds: {refused.message}"
        ) from None


@contextlib.asynccontextmanager
async def _run_background(hub: Hub) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        background = [
            tasks.create_task(hub.garbage_collector.run(), name="fleet-hub-gc"),
            tasks.create_task(hub.event_expiry.run(), name="fleet-hub-event-expiry"),
        ]
        try:
            yield
        finally:
            hub.large_writes.close()
            for task in background:
                task.cancel()


def _announce(settings: HubSettings, endpoint: Endpoint, ready: Callable[[Endpoint], None] | None) -> None:
    if settings.ready_file is not None:
        _write_atomically(settings.ready_file, encode(_as_json(endpoint)))
    if ready is not None:
        ready(endpoint)


def _load_tls(settings: HubSettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:  # ssl.SSLError, too
        files = f"--tls-cert {settings.tls_cert} and --tls-key {settings.tls_key}"
        raise ConfigurationError(f"{files} are no certificate and its key: {error.strerror or error}") from error
    return context


def _listen(settings: HubSettings) -> socket.socket:
    try:
        return bind(settings.host, settings.port, backlog=_BACKLOG)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise ConfigurationError(f"--port: cannot listen on {where}: {error.strerror or error}") from error


def _prepare_endpoint(settings: HubSettings, folder: Path, sock: socket.socket) -> tuple[Endpoint, dict[str, User]]:
    """The endpoint, and the users by token."""
    token_file = settings.token_file or folder / _TOKENS
    if settings.token_file is None and not token_file.exists():
        write_tokens(token_file, dict([generate_administrator()]))
    url = format_url(sock, tls=settings.tls_cert is not None)
    return Endpoint(url, folder / _KUBECONFIG, token_file, settings.tls_cert), read_tokens(token_file)


def _write_kubeconfig(endpoint: Endpoint, users: Mapping[str, User]) -> None:
    """Writes a kubeconfig with the administrator's token."""
    administrator = next((token for token, user in users.items() if user.is_administrator), "")
    _write_atomically(endpoint.kubeconfig, yaml.safe_dump(_build_kubeconfig(endpoint, administrator)).encode())


def _build_kubeconfig(endpoint: Endpoint, token: str) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": endpoint.url}
    if endpoint.ca_file is not None:
        cluster["certificate-authority"] = str(endpoint.ca_file.resolve())
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }


def _as_json(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "url": endpoint.url,
        "kubeconfig": str(endpoint.kubeconfig.resolve()),
        "tokenFile": str(endpoint.token_file.resolve()),
        "caFile": str(endpoint.ca_file.resolve()) if endpoint.ca_file else "",
    }


def _write_atomically(path: Path, content: bytes) -> None:
    """Readers see the old file or the new one, never a part of it. Only the owner can read it: it may hold secrets."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error


def _is_plain_loopback(settings: HubSettings) -> bool:
    return settings.tls_cert is None and _is_loopback(settings.host)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
