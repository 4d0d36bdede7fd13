"""The API to ask, and the caller's credentials for it.

In this order: `--api`; `--kubeconfig` and `--context`; the environment; the API behind the current kubeconfig; a
running `fleet up`. With a kubeconfig, questions go through the hub's API server, or to the `fleet up` whose hub it is:
never to another hub than kubectl talks to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fleet.cli.client.hub_credentials import HubCredentials
from fleet.cli.client.last_up import UpInstance, list_running
from fleet.errors import ConfigurationError
from fleet.kube.client.kubeconfig import KUBECONFIG, KubeconfigContext, read_kubeconfig, validate_kubeconfig
from fleet.kube.grants import EXPLAIN_GROUP

API: Final = "FLEET_API"
TOKEN_FILE: Final = "FLEET_TOKEN_FILE"
AGGREGATED: Final = f"/apis/{EXPLAIN_GROUP}"
"""Where a hub's API server serves the API."""
_NO_API: Final = (
    "no Fleet API found\nnext: try `fleet up`, or set --kubeconfig "
    f"(or {KUBECONFIG}), or --api (or {API}) and --token-file (or {TOKEN_FILE})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The options of the command line."""

    api: str | None = None
    token_file: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    interactive: bool = True
    """Credential plugins may ask the user."""

    of_hub: bool = False
    """Whether the command works on the hub of the kubeconfig, so that only the API of that hub is asked."""

    @property
    def names_hub(self) -> bool:
        return self.kubeconfig is not None or self.context is not None


@dataclass(frozen=True, slots=True)
class ApiConnection:
    url: str
    """Without a trailing slash."""
    token: str = field(default="", repr=False)
    is_last_up: bool = False
    hub: HubCredentials | None = field(default=None, repr=False, compare=False)
    """Set where the API is asked through the hub's API server."""
    source: str = field(default="", compare=False)
    """Where the address comes from."""
    other_up: str = field(default="", compare=False)
    """For errors: the `fleet up` that is running, whose hub is not that of the kubeconfig, and how to ask it."""


def find_connection(wanted: ConnectionOptions, environ: Mapping[str, str] = os.environ) -> ApiConnection:
    if wanted.api and wanted.names_hub:
        raise ConfigurationError("--api: cannot be combined with --kubeconfig or --context: they name another API")
    given = _first(("--api", wanted.api), (API, None if wanted.names_hub or wanted.of_hub else environ.get(API)))
    if given is not None:
        return _connect_directly(wanted, environ, given)
    running = list(list_running(environ))
    try:
        context = _find_context(wanted, environ)
    except ConfigurationError:
        if wanted.names_hub or not running or _is_mistyped(environ):
            raise
        context = None
    if context is None:
        if not running:
            raise ConfigurationError(_NO_API)
        return _connect_to_up(wanted, environ, running[0])
    own = next((up for up in running if _read_server(up) == context.server), None)
    if own is not None:
        return _connect_to_up(wanted, environ, own, context)
    return _connect_through_hub(wanted, context, running)


def _connect_directly(wanted: ConnectionOptions, environ: Mapping[str, str], given: tuple[str, str]) -> ApiConnection:
    url = _check_url(*given)
    up = next((up for up in list_running(environ) if url == up.api.rstrip("/")), None)
    return ApiConnection(url, _token(wanted, environ, up), source=given[0])


def _connect_to_up(
    wanted: ConnectionOptions, environ: Mapping[str, str], up: UpInstance, context: KubeconfigContext | None = None
) -> ApiConnection:
    """With the token of a kubeconfig of its hub, if it has one."""
    own = context.user.get("token") if context is not None and wanted.token_file is None else None
    token = str(own) if own else _token(wanted, environ, up)
    source = "the running `fleet up`" if context is None else f"{context}, the hub of a running `fleet up`"
    return ApiConnection(up.api.rstrip("/"), token, is_last_up=True, source=source)


def _connect_through_hub(
    wanted: ConnectionOptions, context: KubeconfigContext, running: Sequence[UpInstance]
) -> ApiConnection:
    """With --token-file instead of the credentials of the kubeconfig, where it is given. The variable is for an API
    that is named by its address."""
    return ApiConnection(
        f"{context.server}{AGGREGATED}",
        _token(wanted, {}, None),
        hub=HubCredentials(context, interactive=wanted.interactive),
        source=str(context),
        other_up=_describe_other(running[0], context) if running else "",
    )


def _describe_other(up: UpInstance, context: KubeconfigContext) -> str:
    theirs = _read_server(up) or "unknown"
    return (
        f"the running fleet up is not the hub of your kubeconfig: its hub is {theirs}, and kubectl talks to "
        f"{context.server}\nnext: export KUBECONFIG={up.kubeconfig}, or name an API with --api (or {API})"
    )


def _find_context(wanted: ConnectionOptions, environ: Mapping[str, str]) -> KubeconfigContext | None:
    """None: there is no kubeconfig."""
    if wanted.kubeconfig is not None and not wanted.kubeconfig.is_file():
        raise ConfigurationError(f"--kubeconfig: there is no file {wanted.kubeconfig}")
    is_chosen = wanted.names_hub or environ.get(KUBECONFIG)
    if not is_chosen and not (Path.home() / ".kube" / "config").is_file():
        return None
    return read_kubeconfig(wanted.kubeconfig, wanted.context, environ)


def _is_mistyped(environ: Mapping[str, str]) -> bool:
    """Whether KUBECONFIG names files, and none of them is there."""
    paths = [path for path in environ.get(KUBECONFIG, "").split(os.pathsep) if path]
    return bool(paths) and not any(Path(path).exists() for path in paths)


def _read_server(up: UpInstance) -> str:
    """Of its hub; empty if it cannot be read."""
    try:
        return validate_kubeconfig(Path(up.kubeconfig))
    except ConfigurationError:
        return ""


def _token(wanted: ConnectionOptions, environ: Mapping[str, str], up: UpInstance | None) -> str:
    file = _token_file(wanted, environ, up)
    return "" if file is None else _read_token(*file)


def _token_file(wanted: ConnectionOptions, environ: Mapping[str, str], up: UpInstance | None) -> tuple[str, str] | None:
    """The token of a `fleet up` is sent to its own API only."""
    option = None if wanted.token_file is None else str(wanted.token_file)
    of_up = None if up is None else up.token_file
    return _first(("--token-file", option), (TOKEN_FILE, environ.get(TOKEN_FILE)), ("the token of fleet up", of_up))


def _first(*given: tuple[str, str | None]) -> tuple[str, str] | None:
    return next(((source, value) for source, value in given if value), None)


def _check_url(source: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    else:
        usable = usable and not (parts.query or parts.fragment or parts.username)
    if not usable or any(character.isspace() for character in url):
        raise ConfigurationError(f"{source}: {url!r} is not the URL of an API; write it as http://127.0.0.1:8080")
    return url.rstrip("/")


def _read_token(source: str, file: str) -> str:
    try:
        text = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigurationError(f"{source}: {file} cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise ConfigurationError(f"{source}: {file} contains no token: a token is plain ASCII") from error
    if not text or any(character.isspace() for character in text):
        raise ConfigurationError(f"{source}: {file} should contain one token and nothing else")
    return text
