"""The API of `fleet up`: serves the controller's live state and history, with an administrator's token."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from api.app import create_app, reload_app
from api.auth.access import HubAuthorizer
from api.auth.browser import SIGN_IN, BrowserSessions
from api.http.server import ListenOptions, serve_app
from api.live.embedded import build_live_state
from api.routers.request_context import AppState
from fleet.cli.client.last_up import UpInstance, announce
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
"""Listen address of the API: this machine only."""
_HISTORY: Final = "history.sqlite"
_TOKEN: Final = "api-token"


class ExplorerLink:
    """A link that opens the explorer as one user, once: after that, and when it has become too old, another one."""

    def __init__(self, sessions: BrowserSessions, url: str, *, user: str, token: str) -> None:
        self._sessions = sessions
        self._url = url
        self._user = user
        self._token = token
        self._code = ""

    def get(self) -> str:
        if self._sessions.find_code(self._code) is None:
            self._code, _ = self._sessions.issue_code(self._user, self._token)
        return f"{self._url}{SIGN_IN}#{self._code}"


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    url: str
    token_file: Path
    explorer: ExplorerLink
    reload: Callable[[Effective], None]
    """Answers with these settings from now on."""
    notices: dict[str, Callable[[], str]]
    """What is wrong and does not keep the API from answering, as `/readyz?verbose` tells it."""


def open_up_history(
    settings: Settings, endpoint: Endpoint, *, clock: Clock
) -> AbstractAsyncContextManager[History | None]:
    """The history at `history.url`, by default next to the hub's files."""
    url = settings.history.url or f"sqlite:///{(endpoint.kubeconfig.parent / _HISTORY).resolve()}"
    return run_history(settings, url=url, may_migrate=True, clock=clock)


@asynccontextmanager
async def serve_api(
    controller: Manager, history: History | None, hub: Api, effective: Effective, endpoint: Endpoint, *, port: int
) -> AsyncIterator[ApiEndpoint]:
    """Serve the API, and make it discoverable by other commands of this user."""
    live = build_live_state(controller)
    if history is not None:
        RecorderMetrics(live.registry, counts=history.counts, state=history.state)
    app = create_app(live, history, HubAuthorizer(hub, clock=live.clock), effective, shares_loop=True)
    state: AppState = app.state.shared
    user, token = _find_administrator(endpoint)
    with closing(state.backend), _token_file(endpoint, token) as token_file:
        async with serve_app(app, ListenOptions(address=Address(f"{LOOPBACK}:{port}"))) as url:
            instance = UpInstance(api=url, token_file=str(token_file), kubeconfig=str(endpoint.kubeconfig.resolve()))
            with announce(instance):
                yield ApiEndpoint(
                    url,
                    token_file,
                    ExplorerLink(state.sessions, url, user=user, token=token),
                    reload=partial(reload_app, app),
                    notices=state.backend.notices,
                )


def _find_administrator(endpoint: Endpoint) -> tuple[str, str]:
    """The name and the token."""
    users = read_tokens(endpoint.token_file)
    return next(((user.name, token) for token, user in users.items() if user.is_administrator), ("", ""))


@contextmanager
def _token_file(endpoint: Endpoint, token: str) -> Iterator[Path]:
    """A file with the administrator's token, readable by its owner only."""
    path = (endpoint.kubeconfig.parent / _TOKEN).resolve()
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
