"""The API of `fleet up`: the controller's own objects, a history of its decisions, and a token that opens it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.http.server import ListenOptions, serve_app
from api.live.embedded import build_live_state
from fleet.cli.client.last_up import Announced, announced
from fleet.clock import Clock
from fleet.history import History
from fleet.hub.access.authentication import read_tokens
from fleet.hub.http.server import Endpoint
from fleet.kube.api import Api
from fleet.manager.manager import Manager
from fleet.recorder.metrics import RecorderMetrics
from fleet.recorder.recorder import run_history
from fleet.settings import Address, Effective, Settings

LOOPBACK: Final = "127.0.0.1"
"""Where the API listens: it is for this machine."""
_HISTORY: Final = "history.sqlite"
_TOKEN: Final = "api-token"


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    url: str
    token_file: Path


def keeping(settings: Settings, endpoint: Endpoint, *, clock: Clock) -> AbstractAsyncContextManager[History | None]:
    """The history, beside the hub's own objects unless a setting says where."""
    url = settings.history.url or f"sqlite:///{(endpoint.kubeconfig.parent / _HISTORY).resolve()}"
    return run_history(settings, url=url, may_migrate=True, clock=clock)


@asynccontextmanager
async def answering(
    controller: Manager, history: History | None, hub: Api, effective: Effective, endpoint: Endpoint, *, port: int
) -> AsyncIterator[ApiEndpoint]:
    """Questions are answered, and other commands of this user find out where, for as long as this lasts."""
    live = build_live_state(controller)
    if history is not None:
        RecorderMetrics(live.registry, counts=history.counts, state=history.state)
    app = create_app(live, history, HubAuthorizer(hub, clock=live.clock), effective, shares_loop=True)
    with _token_file(endpoint) as token_file:
        async with serve_app(app, ListenOptions(address=Address(f"{LOOPBACK}:{port}"))) as url:
            known = Announced(api=url, token_file=str(token_file), kubeconfig=str(endpoint.kubeconfig.resolve()))
            with announced(known):
                yield ApiEndpoint(url, token_file)


@contextmanager
def _token_file(endpoint: Endpoint) -> Iterator[Path]:
    """The administrator's token, alone in a file for its owner."""
    users = read_tokens(endpoint.token_file)
    token = next((token for token, user in users.items() if user.is_administrator), "")
    path = (endpoint.kubeconfig.parent / _TOKEN).resolve()
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
