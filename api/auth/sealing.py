"""Seals the sessions of browsers with a key that every replica of the API has: one derived from the private key of its
certificate, so that there is no further secret to create, to share and to renew."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from api.http import base64url

_PURPOSE: Final = b"fleet: sessions of browsers"
_NONCE_BYTES: Final = 12
_KEPT: Final = 2
"""Keys: after the certificate is renewed, those who are signed in stay signed in."""


class Sealer:
    def __init__(self, key_file: Path) -> None:
        self._file = key_file
        self._loaded: tuple[int, int] | None = None
        self._keys: dict[bytes, AESGCM] = {}
        """By derived key, newest last."""
        self._load()

    def seal(self, content: bytes) -> str:
        self._load()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        *_, newest = self._keys.values()
        sealed = nonce + newest.encrypt(nonce, content, _PURPOSE)
        return base64url.encode(sealed)

    def open(self, text: str) -> bytes | None:
        """None for what was sealed with another key, or changed since."""
        try:
            sealed = base64url.decode(text)
        except ValueError:
            return None
        if len(sealed) <= _NONCE_BYTES or base64url.encode(sealed) != text:
            return None  # another spelling of the same bytes would pass for a session that was not signed out
        self._load()
        for key in reversed(self._keys.values()):
            try:
                return key.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _PURPOSE)
            except InvalidTag:
                continue
        return None

    def _load(self) -> None:
        """A renewed certificate has another key. While its file is being replaced, the known keys remain."""
        try:
            status = os.stat(self._file)
            written = (status.st_mtime_ns, status.st_ino)
            if written == self._loaded:
                return
            content = self._file.read_bytes()
        except OSError:
            if not self._keys:
                raise
            return
        derived = HKDF(SHA256(), length=32, salt=None, info=_PURPOSE).derive(content)
        cipher = self._keys.pop(derived, None) or AESGCM(derived)
        self._keys = dict([*self._keys.items(), (derived, cipher)][-_KEPT:])
        self._loaded = written
