"""The users of a test's control plane, and the key that signs service-account tokens."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.control_plane.access import ADMIN

GROUPS: Final = {ADMIN: "system:masters", "alice": "team-a", "bob": "team-b"}
"""Each user's group. Only the administrator's means anything before a test binds a role."""

# The numbers of ASN.1 around a private key on the curve P-256, as RFC 5915 lays it out.
_KEY_BEFORE: Final = bytes.fromhex("30310201010420")
_KEY_AFTER: Final = bytes.fromhex("a00a06082a8648ce3d030107")


def new_tokens() -> dict[str, str]:
    return {user: secrets.token_urlsafe(24) for user in GROUPS}


def write_token_file(file: Path, tokens: Mapping[str, str]) -> None:
    """The format of --token-auth-file: token, user, uid, groups."""
    lines = (f'{token},{user},{user}-uid,"{GROUPS[user]}"\n' for user, token in tokens.items())
    file.write_text("".join(lines), encoding="utf-8")


def write_signing_key(file: Path) -> None:
    """A new private key. Any number of 31 random bytes is below the order of the curve."""
    der = _KEY_BEFORE + secrets.token_bytes(31).rjust(32, b"\0") + _KEY_AFTER
    body = base64.encodebytes(der).decode()
    file.touch(mode=0o600)
    file.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n", encoding="ascii")
