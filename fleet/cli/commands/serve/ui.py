"""`fleet ui`: opens the decision explorer, for the caller's own rights, by a link that works once.

An API with an address of its own makes the link. One that is reached through the hub is not for browsers: its pages are
served here, on the loopback interface, and ask with the credentials of the kubeconfig.
"""

from __future__ import annotations

import asyncio
import html
import logging
import os
import sys
import webbrowser
from pathlib import Path
from typing import Any, Final

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.requests import ApiRequest, build_mismatch, fetch_json
from fleet.errors import ConfigurationError

LOOPBACK: Final = "127.0.0.1"
_SESSION: Final = "/v1/session"
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")
_PAGE: Final = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={link}"><title>Fleet</title>'
)


def open_explorer(connection: ApiConnection, *, port: int, opens: bool | None) -> int:
    """`opens`: whether a browser is started; None: if there is a screen for one."""
    wants_browser = _has_screen() if opens is None else opens
    if connection.hub is None:
        answer = fetch_json(connection, ApiRequest(path=f"{_SESSION}/link", body={}))
        show_link(connection.url + _read(connection, answer, "path"), opens=wants_browser)
        return 0
    user = _read(connection, fetch_json(connection, ApiRequest(path=_SESSION)), "user")
    asyncio.run(_serve(connection, user, port=port, opens=wants_browser))
    return 0


def show_link(link: str, *, opens: bool, more: str = "") -> None:
    sys.stdout.write(f"{link}\n{more}")
    sys.stdout.flush()
    if opens:
        try:
            webbrowser.open(write_page(link).as_uri())
        except (OSError, webbrowser.Error):
            sys.stderr.write("no browser could be started: open the link yourself\n")


def write_page(link: str) -> Path:
    """A file that leads to the link: other users of the machine can read the arguments of a browser."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "fleet"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    page = folder / "explorer.html"
    page.unlink(missing_ok=True)
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(_PAGE.format(link=html.escape(link, quote=True)))
    return page


async def _serve(connection: ApiConnection, user: str, *, port: int, opens: bool) -> None:
    from api.auth.browser import SIGN_IN, BrowserSessions
    from api.gateway import create_gateway
    from fleet.cli.client.relay import HubRelay
    from fleet.clock import SystemClock
    from fleet.eventloop import handle_first_signal
    from fleet.serving import bind, build_server, format_url, serve

    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it logs interrupted answers as errors
    stopping = asyncio.Event()
    handle_first_signal(lambda _: stopping.set())
    try:
        bound = bind(LOOPBACK, port)
    except OSError as error:
        raise ConfigurationError(f"--port: cannot listen on {LOOPBACK}:{port}: {error.strerror or error}") from error
    with bound:
        sessions = BrowserSessions(SystemClock())
        async with HubRelay(connection) as relay:
            server = build_server(create_gateway(relay.send, sessions))
            async with serve(server, bound, name="explorer"):
                code, _ = sessions.issue_code(user, "")
                link = f"{format_url(bound, tls=False)}{SIGN_IN}#{code}"
                show_link(link, opens=opens, more=f"Asks {connection.source} as {user}. Press Ctrl-C to stop.\n")
                await stopping.wait()


def _has_screen() -> bool:
    has_display = sys.platform == "darwin" or any(os.environ.get(name) for name in _DISPLAYS)
    return has_display and sys.stdout.isatty()


def _read(connection: ApiConnection, answer: Any, field: str) -> str:
    value = answer.get(field) if isinstance(answer, dict) else None
    if not isinstance(value, str):
        raise build_mismatch(connection, f"its answer has no {field}")
    return value
