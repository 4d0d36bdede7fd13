"""Redaction of secrets in settings, before they are logged, served or written to files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "***"
_SECRET: Final = re.compile(r"password|secret|token|credential", re.IGNORECASE)
_PASSWORD_IN_URL: Final = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^/@:\s]*):\S*@")
_SECRET_IN_QUERY: Final = re.compile(r"(?P<name>[?&][^=&]*(?:password|secret|token)[^=&]*)=[^&\s]*", re.IGNORECASE)


def redact(name: str, value: Any) -> Any:
    """Replace secret values, and passwords within URLs."""
    if _SECRET.search(name) and value not in (None, ""):
        return HIDDEN
    if isinstance(value, str):
        value = _PASSWORD_IN_URL.sub(rf"\g<before>:{HIDDEN}@", value)
        return _SECRET_IN_QUERY.sub(rf"\g<name>={HIDDEN}", value)
    return value


def redact_all(value: Any, name: str = "") -> Any:
    """Likewise in nested values."""
    if isinstance(value, Mapping):
        return {key: redact_all(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [redact_all(inner, name) for inner in value]
    return redact(name, value)
