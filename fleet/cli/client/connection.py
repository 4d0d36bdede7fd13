"""Address and token of the API: from options, the environment, or the last `fleet up`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fleet.cli.client.last_up import UpInstance, find_latest_up
from fleet.errors import ConfigurationError

API: Final = "FLEET_API"
TOKEN_FILE: Final = "FLEET_TOKEN_FILE"
_NO_API: Final = f"no Fleet API found. Try `fleet up`, or set --api (or {API}) and --token-file (or {TOKEN_FILE})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The options of the command line."""

    api: str | None = None
    token_file: Path | None = None


@dataclass(frozen=True, slots=True)
class ApiConnection:
    url: str
    """Without a trailing slash."""
    token: str = field(default="", repr=False)
    is_last_up: bool = False


def find_connection(wanted: ConnectionOptions, environ: Mapping[str, str] = os.environ) -> ApiConnection:
    """Options take precedence over the environment, and both over a running `fleet up`."""
    given = _first(("--api", wanted.api), (API, environ.get(API)))
    up = find_latest_up(environ)
    if given is None and up is None:
        raise ConfigurationError(_NO_API)
    url = _check_url(*given) if given is not None else (up.api if up else "").rstrip("/")
    is_last_up = up is not None and url == up.api.rstrip("/")
    file = _token_file(wanted, environ, up if is_last_up else None)
    return ApiConnection(url, "" if file is None else _read_token(*file), is_last_up=given is None)


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
