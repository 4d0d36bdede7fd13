"""Where the API is and what opens it: from options, from the environment, or from the last `fleet up`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fleet.cli.client.last_up import Announced, latest
from fleet.errors import ConfigurationError

API: Final = "FLEET_API"
TOKEN_FILE: Final = "FLEET_TOKEN_FILE"
_NOBODY: Final = (
    "there is no API to ask: start one with `fleet up`, or say where it is with --api URL or "
    f"{API}, and what opens it with --token-file FILE or {TOKEN_FILE}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """As it stands on the command line."""

    api: str | None = None
    token_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    url: str
    """Without a slash at its end."""
    token: str = field(default="", repr=False)
    is_last_up: bool = False


def find_connection(wanted: Wanted, environ: Mapping[str, str] = os.environ) -> Connection:
    """Options count more than the environment, and both more than a `fleet up`."""
    given = _first(("--api", wanted.api), (API, environ.get(API)))
    up = latest(environ)
    if given is None and up is None:
        raise ConfigurationError(_NOBODY)
    url = _checked(*given) if given is not None else (up.api if up else "").rstrip("/")
    is_last_up = up is not None and url == up.api.rstrip("/")
    file = _token_file(wanted, environ, up if is_last_up else None)
    return Connection(url, "" if file is None else _token(*file), is_last_up=given is None)


def _token_file(wanted: Wanted, environ: Mapping[str, str], up: Announced | None) -> tuple[str, str] | None:
    """A token is only ever sent to the API it was meant for."""
    option = None if wanted.token_file is None else str(wanted.token_file)
    of_up = None if up is None else up.token_file
    return _first(("--token-file", option), (TOKEN_FILE, environ.get(TOKEN_FILE)), ("the token of fleet up", of_up))


def _first(*given: tuple[str, str | None]) -> tuple[str, str] | None:
    return next(((source, value) for source, value in given if value), None)


def _checked(source: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    else:
        usable = usable and not (parts.query or parts.fragment or parts.username)
    if not usable or any(character.isspace() for character in url):
        raise ConfigurationError(f"{source}: {url!r} is no address of an API; write it as http://127.0.0.1:8080")
    return url.rstrip("/")


def _token(source: str, file: str) -> str:
    try:
        text = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigurationError(f"{source}: {file} cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise ConfigurationError(f"{source}: {file} holds no token: a token is plain ASCII") from error
    if not text or any(character.isspace() for character in text):
        raise ConfigurationError(f"{source}: {file} should hold one token and nothing else")
    return text
