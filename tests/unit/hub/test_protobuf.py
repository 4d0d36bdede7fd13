"""Protobuf bodies, as typed clients send them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import EncodingError, UnsupportedKind
from fleet.hub.wire.protobuf import MAGIC, decode

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data/protobuf.json").read_text(encoding="utf-8"))[
    "cases"
]
BODIES = [base64.b64decode(case["body"]) for case in RECORDED]


def a_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def an_envelope(kind: str, content: bytes, api_version: str = "v1") -> bytes:
    names = a_field(1, api_version.encode()) + a_field(2, kind.encode())
    return MAGIC + a_field(1, names) + a_field(2, content)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["document"]["kind"])
def test_objects_are_read_as_they_were_written(case: dict[str, Any]) -> None:
    assert decode(base64.b64decode(case["body"])) == case["document"]


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(UnsupportedKind, match="v1 Frob cannot be read as protobuf"):
        decode(an_envelope("Frob", b"", "example.com/v1"))


def test_unknown_fields_are_skipped() -> None:
    assert decode(an_envelope("Namespace", a_field(15, b"x"))) == {"apiVersion": "v1", "kind": "Namespace"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        MAGIC + b"\x0a",
        MAGIC + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        MAGIC + b"\x00\x00",
        MAGIC + b"\x0b",
        an_envelope("Namespace", a_field(1, a_field(1, b"\xff\xfe"))),
        an_envelope("Namespace", b"\x08\x01"),
        an_envelope("ConfigMap", a_field(1, a_field(7, b"x"))),
        an_envelope("Event", a_field(6, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f")),
        an_envelope("ControllerRevision", a_field(2, a_field(1, b"{")), "apps/v1"),
    ],
)
def test_what_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(EncodingError):
        decode(body)


def test_messages_may_not_be_nested_without_end() -> None:
    schema = b""
    for _ in range(70):
        schema = b"\xe2\x01" + _length(schema) + schema
    version = (
        a_field(1, b"v1") + b"\x22" + _length(b"\x0a" + _length(schema) + schema) + b"\x0a" + _length(schema) + schema
    )
    spec = b"\x3a" + _length(version) + version
    body = b"\x12" + _length(spec) + spec
    names = a_field(1, b"apiextensions.k8s.io/v1") + a_field(2, b"CustomResourceDefinition")
    with pytest.raises(EncodingError, match="nested too deeply"):
        decode(MAGIC + a_field(1, names) + b"\x12" + _length(body) + body)


def _length(content: bytes) -> bytes:
    number, encoded = len(content), b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


@given(st.sampled_from(BODIES), st.data())
def test_broken_bodies_are_read_or_refused_but_never_crash(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body)))
    broken = body[:at] + data.draw(st.binary(max_size=8)) + body[at + data.draw(st.integers(0, 8)) :]
    try:
        json.dumps(decode(broken), allow_nan=False)
    except (EncodingError, UnsupportedKind):
        return


@given(st.sampled_from(["Namespace", "Pod", "Service", "Secret"]), st.binary(max_size=120))
def test_any_bytes_are_read_or_refused_but_never_crash(kind: str, content: bytes) -> None:
    try:
        json.dumps(decode(an_envelope(kind, content)), allow_nan=False)
    except EncodingError:
        return
