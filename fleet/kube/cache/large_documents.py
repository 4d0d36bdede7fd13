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
_NO_SPEC: Final = b"{}"


class _Head(msgspec.Struct, frozen=True):
    metadata: Metadata


class _Spec(msgspec.Struct, frozen=True):
    spec: msgspec.Raw = msgspec.Raw(b"")


_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_spec: Final = msgspec.json.Decoder(_Spec).decode


def read_metadata(document: bytes) -> Metadata | None:
    """Without a look at the spec, which follows the metadata in what an API server writes; None if it does not, or if
    the document is not large."""
    before = document.find(_BEFORE_SPEC) if len(document) >= LARGE else -1
    try:
        return None if before < 0 else _read_head(document[:before] + b"}").metadata
    except msgspec.MsgspecError:  # it was the spec of something inside
        return None


def with_span(observed: Observed[V]) -> Observed[V]:
    """Notes where its spec is, for `read_around_spec`."""
    document = observed.raw
    size = memoryview(_read_spec(document).spec).nbytes
    start = document.find(_BEFORE_SPEC) + len(_BEFORE_SPEC)
    return replace(observed, spec_span=(start, start + size)) if size else observed


def read_around_spec(document: bytes, known: Observed[V], read: Callable[[bytes], V]) -> Observed[V] | None:
    """A document whose metadata were read, with the spec of `known`; None if it has another one."""
    first, last = known.spec_span
    start = document.find(_BEFORE_SPEC) + len(_BEFORE_SPEC)
    end = start + last - first
    if not last or document[start:end] != known.raw[first:last]:
        return None
    try:
        rest = read(b"".join((document[:start], _NO_SPEC, document[end:])))
    except msgspec.MsgspecError:
        return None
    if rest.spec != read(b'{"spec":%b}' % _NO_SPEC).spec:  # type: ignore[attr-defined]  # what has a span has a spec
        return None  # there is another one
    spec = known.view.spec  # type: ignore[attr-defined]
    if isinstance(spec, msgspec.Raw):
        spec = msgspec.Raw(memoryview(document)[start:end])  # else it would keep the whole former document
    return Observed(replace(rest, spec=spec), document, (start, end))
