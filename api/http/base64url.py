"""Base64 for URLs and cookies, without padding."""

from __future__ import annotations

import base64
import binascii


def decode(text: str) -> bytes:
    """Raises ValueError on anything else, the other alphabet included, which Python accepts."""
    if "+" in text or "/" in text:
        raise binascii.Error("not the alphabet for URLs")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
