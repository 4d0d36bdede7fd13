"""Requests that no client sends, as bytes: what is in them is chosen by others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any, Final

VALUES: Final = (
    "", "-", "..", "%00", "a" * 300, "web", "default", "💥", "';--", "<script>", "-1", "1e999", "NaN", "null",
    "\r\nX: y",
)  # fmt: skip
SCALARS: Final[tuple[Any, ...]] = (
    None, True, -1, 1e308, 2**70, "", "web", "💥", "\ud800", "1e999999999", "9" * 400, "a" * 200_000 + "!", [], {},
    [None], {"": None}, {"matchLabels": "x"}, [[[[]]]],
)  # fmt: skip
_HEADERS: Final = (
    "Accept: */*;q=x", "Accept: application/yaml", "Content-Type: text/html", "Content-Type: application/json",
    "If-None-Match: \"", "Range: bytes=9-1", "Content-Length: -1", "Content-Length: 99999999999",
    "Expect: 100-continue",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Host: a b", "Cookie: =;=;fleet=\x7f", "X:\t\t",
    "Authorization: Basic !!", "Last-Event-ID: -1", "Idempotency-Key: " + "k" * 300, "Upgrade: websocket",
    "A: " + "b" * 9000, "Authorization: Bearer " + "x" * 9000, "Authorization: Bearer", "Authorization: Bearer \t a b",
    "Content-Encoding: gzip", "Accept-Encoding: gzip;q=-1, *;q=0", "Content-Type: application/json; charset=utf-7",
    "X-Forwarded-For: 127.0.0.1, ::1", "Forwarded: for=\"[::1\"", "X-Remote-User: system:admin", "Origin: null",
    "X-HTTP-Method-Override: DELETE", "Sec-Fetch-Site: cross-site", "If-Match: *", "Connection: keep-alive, upgrade",
    "Traceparent: 00-" + "0" * 300, "\x00: a", "é: é", " folded", "no colon", "Host: 127.0.0.1\r\nHost: other",
)  # fmt: skip


def spoil(rng: Random, document: dict[str, Any], fields: Sequence[str]) -> None:
    """Another value at any depth, in one of its fields or of these."""
    while True:
        key = rng.choice((*document, *fields))
        inner = document.get(key)
        if not isinstance(inner, dict) or rng.random() < 0.4:
            document[key] = deepcopy(rng.choice(SCALARS))
            return
        document = inner


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
    if kind < 0.13:
        return message[: rng.randrange(1, len(message))]
    if kind < 0.25:
        head, _, body = message.partition(b"\r\n\r\n")
        return rng.choice(_MALFORMATIONS)(head, body)
    return message


def _pipeline(head: bytes, body: bytes) -> bytes:
    """Three requests at once, the last of them cut off."""
    message = head.replace(b"Connection: close\r\n", b"") + b"\r\n\r\n" + body
    return message * 2 + message[: len(message) // 2]


def _chunk(head: bytes, body: bytes, *, size: bytes = b"") -> bytes:
    head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:"))
    size = size or b"%x;a=b" % len(body)
    end = b"0\r\nX-Trailer: %s\r\n\r\n" % (b"y" * 9000)
    return head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\n" + body + b"\r\n" + end


_MALFORMATIONS: Final[tuple[Callable[[bytes, bytes], bytes], ...]] = (
    _pipeline,
    _chunk,
    lambda head, body: _chunk(head, body, size=b"ffffffffffffffffff"),
    lambda head, body: _chunk(head, body, size=b"-1"),
    lambda head, body: _chunk(head, body, size=b"0" * 9000),
    lambda head, body: head + b"\r\nContent-Length: 1\r\n\r\n" + body,  # two of them
    lambda head, body: head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + body,  # beside Content-Length
    lambda head, body: head.replace(b"\r\n", b"\n") + b"\n\n" + body,
    lambda head, body: head.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n\r\n" + body,
    lambda head, body: head.replace(b"HTTP/1.1", b"HTTP/9.9") + b"\r\n\r\n" + body,
    lambda head, body: head.replace(b" /", b" http://other.example/", 1) + b"\r\n\r\n" + body,
    lambda head, body: head.replace(b" /", b" //../", 1) + b"\r\n\r\n" + body,
    lambda head, body: head + b"\r\nX: y" * 3000 + b"\r\n\r\n" + body,
    lambda head, body: head + b"\r\nA: " + b"b" * 200_000 + b"\r\n\r\n" + body,
    lambda head, body: head.replace(b"?", b"?" + b"q" * 100_000, 1) + b"\r\n\r\n" + body,
    lambda head, body: b"\r\n" * 500 + head + b"\r\n\r\n" + body,
    lambda head, body: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + body,
    lambda head, body: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + head,  # TLS
    lambda head, body: head + b"\r\n\r\n" + body + b"\x00" * 70_000,
)  # fmt: skip
