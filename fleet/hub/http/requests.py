"""A parsed request, and the decoding of its body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from fleet.errors import InputError, RequestRefused
from fleet.hub.access.authentication import User
from fleet.hub.kinds.kind import Document
from fleet.hub.wire import protobuf
from fleet.hub.wire.bodies import (
    NO_TEXTS,
    decode_around,
    decode_object,
    find_duplicate_fields,
    parse_yaml,
    unrecognized_body,
)
from fleet.hub.wire.options import Query

_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_UNKNOWN_FORMAT: Final = (
    f"the body of the request was in an unknown format - accepted media types include: {_JSON}, {_YAML}, {_PROTOBUF}"
)


@dataclass(frozen=True, slots=True)
class HubRequest:
    method: str
    path: str
    query: Query
    headers: Mapping[bytes, str]
    body: bytes
    user: User

    @property
    def accept(self) -> str:
        return self.headers.get(b"accept", "")

    @property
    def media_type(self) -> str:
        return self.headers.get(b"content-type", "").partition(";")[0].strip().lower()

    @property
    def agent(self) -> str:
        return self.headers.get(b"user-agent", "")

    def decode_body(self, expected: str, known: Mapping[str, msgspec.Raw] = NO_TEXTS) -> Document:
        """The body as an object; `expected` is the kind that errors name. What has the text of a `known` field may stay
        that text."""
        match self.media_type:
            case "application/json" | "":
                if known:
                    return decode_around(self.body, known, expected=expected)
                return decode_object(self.body, expected=expected)
            case "application/yaml":
                return _decode_yaml(self.body, expected)
            case "application/vnd.kubernetes.protobuf":
                return _decode_protobuf(self.body, expected)
        raise RequestRefused(415, "UnsupportedMediaType", _UNKNOWN_FORMAT)

    def find_duplicate_fields(self) -> list[str]:
        """Paths of duplicate fields in a JSON body."""
        return find_duplicate_fields(self.body) if self.media_type in (_JSON, "") else []


def _decode_yaml(body: bytes, expected: str) -> Document:
    parsed = parse_yaml(body)
    if not isinstance(parsed, dict):
        raise unrecognized_body(expected, "couldn't get version/kind; yaml parse error: not an object", body)
    return parsed


def _decode_protobuf(body: bytes, expected: str) -> Document:
    try:
        return protobuf.decode(body)
    except InputError as error:
        raise unrecognized_body(expected, str(error), b"") from error
