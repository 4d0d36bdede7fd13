"""Requests that no client sends, as bytes: what is in them is chosen by others."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

VALUES: Final = (
    "", "-", "..", "%00", "a" * 300, "web", "default", "💥", "';--", "<script>", "-1", "1e999", "NaN", "null",
    "\r\nX: y",
)  # fmt: skip
_HEADERS: Final = (
    "Accept: */*;q=x", "Accept: application/yaml", "Content-Type: text/html", "Content-Type: application/json",
    "If-None-Match: \"", "Range: bytes=9-1", "Content-Length: -1", "Content-Length: 99999999999",
    "Expect: 100-continue",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Host: a b", "Cookie: =;=;fleet=\x7f", "X:\t\t",
    "Authorization: Basic !!", "Last-Event-ID: -1", "Idempotency-Key: " + "k" * 300, "Upgrade: websocket",
    "A: " + "b" * 9000,
)  # fmt: skip


def frame(
    rng: Random, start: str, body: bytes, tokens: Sequence[str], *, content_type: str = "", is_whole: bool = False
) -> bytes:
    """A request by one of the callers or without a token, whole or cut off; sometimes bytes that are none. With
    `is_whole`, one by a caller as clients send it."""
    lines = [f"{start} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {content_type}"] if content_type else []
    lines += [f"Authorization: Bearer {rng.choice(tokens)}"] if is_whole or rng.random() < 0.8 else []
    lines += [] if is_whole else rng.sample(_HEADERS, rng.choice((0, 0, 0, 1, 2)))
    message = "\r\n".join([*lines, "", ""]).encode(errors="surrogateescape") + body
    if is_whole:
        return message
    kind = rng.random()
    if kind < 0.03:
        return rng.randbytes(rng.randrange(1, 2000))
    return message[: rng.randrange(1, len(message))] if kind < 0.13 else message
