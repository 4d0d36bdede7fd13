"""Credentials of registries, from the file that container tools write when they log in.

Helper programs that keep passwords elsewhere are not run.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from pathlib import Path


def find_credentials(host: str) -> str | None:
    """`user:password`"""
    for file in _list_files():
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            entry = document["auths"][host]["auth"]
            return base64.b64decode(entry, validate=True).decode()
        except (OSError, ValueError, KeyError, TypeError, binascii.Error):
            continue
    return None


def _list_files() -> list[Path]:
    named = os.environ.get("REGISTRY_AUTH_FILE")
    folder = os.environ.get("DOCKER_CONFIG")
    own = Path(folder) if folder else Path.home() / ".docker"
    return [*([Path(named)] if named else []), own / "config.json"]
