"""Canonical JSON for hashing: byte for byte the output of Go's encoder.

Compact, keys in byte order, HTML characters escaped, and numbers verbatim: parsing them as floats would turn 1.50 into
1.5 and change long numbers.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

_ESCAPED: Final = tuple(
    (character.encode(), b"\\u%04x" % ord(character)) for character in ("<", ">", "&", "\u2028", "\u2029")
)
_SURELY_SMALL: Final = 18
"""Digits of an integer that certainly fits into 64 bits."""


class VerbatimNumber:
    """The text of a number. Not a dataclass, which the encoder would encode as an object."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def read(document: bytes) -> Any:
    """The value of a document, with verbatim numbers."""
    return json.loads(document, parse_float=VerbatimNumber, parse_int=_integer)


def write(value: Any) -> bytes:
    return escape(_encode_sorted(value))


def sort(value: Any) -> Any:
    """For `write_in_order`: it sorts no keys."""
    return msgspec.Raw(_encode_sorted(value)) if isinstance(value, dict | list) and value else value


def write_in_order(value: Any) -> bytes:
    """With keys as they come, and without escapes."""
    return msgspec.json.encode(value, enc_hook=_encode_verbatim)


def escape(text: bytes) -> bytes:
    for character, escape in _ESCAPED:
        text = text.replace(character, escape)
    return text


def _encode_sorted(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic", enc_hook=_encode_verbatim)


def canonical(document: bytes) -> bytes:
    return write(read(document))


def _integer(text: str) -> int | VerbatimNumber:
    return VerbatimNumber(text) if text == "-0" or len(text) > _SURELY_SMALL else int(text)


def _encode_verbatim(value: Any) -> msgspec.Raw:
    if isinstance(value, VerbatimNumber):
        return msgspec.Raw(value.text.encode())
    raise NotImplementedError(f"{type(value).__name__} is not a JSON type")
