"""Authentication by bearer tokens, from a file in the API server's format: `token,user,uid,"group1,group2"`."""

from __future__ import annotations

import csv
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.errors import ConfigurationError, RequestRefused
from fleet.private_files import create_private_file

ADMINISTRATORS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATORS in self.groups


ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))
LOCAL: Final = User("fleet:local", groups=(ADMINISTRATORS, AUTHENTICATED))


class Tokens:
    """Users by token. Only digests are kept: comparing them takes the same time for every guess."""

    def __init__(self, users: Mapping[str, User]) -> None:
        self._users = {_digest(token): user for token, user in users.items()}

    def find_user(self, token: str) -> User | None:
        return self._users.get(_digest(token))


def read_tokens(path: Path) -> dict[str, User]:
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            return dict(_parse_users(csv.reader(lines), path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path}: cannot read the token file: {error}") from error


def generate_administrator() -> tuple[str, User]:
    """A new random token, and the administrator it authenticates."""
    return secrets.token_urlsafe(_TOKEN_BYTES), User("fleet:admin", "fleet-admin", (ADMINISTRATORS, AUTHENTICATED))


def write_tokens(path: Path, users: Mapping[str, User]) -> None:
    create_private_file(path)
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        for token, user in users.items():
            writer.writerow([token, user.name, user.uid, ",".join(g for g in user.groups if g != AUTHENTICATED)])


def parse_bearer_token(header: str) -> str | None:
    """The token of an Authorization header, or None."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def unauthorized_error() -> RequestRefused:
    return RequestRefused(401, "Unauthorized", "Unauthorized")


def _parse_users(rows: Iterable[list[str]], path: Path) -> Iterable[tuple[str, User]]:
    for number, row in enumerate(rows, start=1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3 or not row[0] or not row[1]:
            raise ConfigurationError(f'{path}:{number}: expected token,user,uid and optionally "group1,group2"')
        groups = [group.strip() for group in row[3].split(",")] if len(row) > 3 else []
        yield row[0], User(row[1], row[2], (*(group for group in groups if group), AUTHENTICATED))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
