"""Large documents: a spec that is already known is not decoded again.

Most changes of a large placement or policy snapshot are changes of its status. To decode a policy of a megabyte takes
ten milliseconds, in which the event loop stands still; to compare it takes a tenth of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from fleet.model.views import Metadata, Observed, View

V = TypeVar("V", bound=View)

LARGE: Final = 64 * 1024
"""Bytes."""
_BEFORE_SPEC: Final = b',"spec":'
_STAND_IN: Final = b"{ \t }"
"""In place of a spec: no serializer writes an empty object so."""
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Head(msgspec.Struct, frozen=True):
    metadata: Metadata


class _Spec(msgspec.Struct, frozen=True):
    spec: msgspec.Raw = msgspec.Raw(b"")


_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_spec: Final = msgspec.json.Decoder(_Spec).decode


def read_metadata(document: bytes) -> Metadata | None:
    """Without a look at the spec, which follows the metadata in what an API server writes; None if it does not."""
    before = document.find(_BEFORE_SPEC)
    try:
        return None if before < 0 else _read_head(document[:before] + b"}").metadata
    except _UNREADABLE:  # it was the spec of something inside
        return None


def read_around_spec(document: bytes, known: Observed[V], read: Callable[[bytes], V]) -> Observed[V] | None:
    """A document whose metadata were read, with the spec of `known`, which its view has; None if it has another one.

    Raw parts within a spec that is no text itself would keep the document that they were read from."""
    if document == known.raw:
        return known
    first, last = known.spec_span
    start = document.find(_BEFORE_SPEC) + len(_BEFORE_SPEC)
    end = start + last - first
    if not last or not document.startswith(known.raw[first:last], start):
        return None
    text = b"".join((document[:start], _STAND_IN, document[end:]))
    if bytes(_read_spec(text).spec) != _STAND_IN:
        return None  # there is another one
    rest, spec = read(text), known.view.spec  # type: ignore[attr-defined]
    if isinstance(spec, msgspec.Raw):
        spec = msgspec.Raw(memoryview(document)[start:end])  # else it would keep the whole former document
    return Observed(replace(rest, spec=spec), document, (start, end))


def find_span(document: bytes, spec: msgspec.Raw) -> tuple[int, int]:
    """Where the spec that was read begins and ends; two zeros if it does not follow the metadata."""
    text, start = bytes(spec), document.find(_BEFORE_SPEC) + len(_BEFORE_SPEC)
    return (start, start + len(text)) if text and document.startswith(text, start) else (0, 0)
