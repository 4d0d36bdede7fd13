"""Decoding of lists and watches, without I/O.

Errors are separated by what is lost. A line that is not an event means that the stream cannot be trusted. An event
whose object does not fit its kind affects only that object, whose name is still known.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

import msgspec

from fleet.errors import UnreadableAnswer
from fleet.kube.client.failures import ApiStatus
from fleet.kube.resource import key_of
from fleet.model.views import Metadata

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"

_USUAL_STARTS: Final = (b'{"type":"MODIFIED","object":', b'{"type":"ADDED","object":')
"""The beginning of most lines; the object follows, and one closing brace."""
_DELETED_START: Final = b'{"type":"DELETED","object":'

LONGEST_LINE: Final = 16 * 2**20
"""Bytes. Etcd stores no object of more than 1.5 MiB; what is much longer is not an event."""
_MAX_SHOWN: Final = 80
_BATCH_BYTES: Final = 256 * 1024
"""Of the objects of a page between two yields to the event loop: one or two milliseconds of decoding."""

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class ObjectHead(msgspec.Struct, frozen=True):
    """The metadata of an object whose other fields cannot be read or do not matter."""

    metadata: Metadata = Metadata()

    @property
    def key(self) -> str:
        return key_of(self.metadata)


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct, frozen=True):
    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None
    """Go writes an empty list as null."""


class _LooseMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _LooseHead(msgspec.Struct, frozen=True):
    metadata: _LooseMetadata = _LooseMetadata()


_EVENTS: Final = msgspec.json.Decoder(WatchEvent)
_LOOSE_HEADS: Final = msgspec.json.Decoder(_LooseHead)
_PAGES: Final = msgspec.json.Decoder(ListPage)
_STATUSES: Final = msgspec.json.Decoder(ApiStatus)


def extract_document(line: bytes) -> bytes | None:
    """The added or modified object, if the line has the usual form of the API server."""
    return _extract(line, _USUAL_STARTS)


def extract_deleted(line: bytes) -> bytes | None:
    """The deleted object, in the same way."""
    return _extract(line, (_DELETED_START,))


def _extract(line: bytes, beginnings: Iterable[bytes]) -> bytes | None:
    for beginning in beginnings:
        if line.startswith(beginning) and line.endswith(b"}"):
            return line[len(beginning) : -1]
    return None


def read_event(line: bytes) -> WatchEvent:
    try:
        return _EVENTS.decode(line)
    except _UNREADABLE as error:
        raise UnreadableAnswer(f"a line of a watch is not an event: {_abbreviate(line)}: {error}") from error


def read_status(document: msgspec.Raw) -> ApiStatus:
    try:
        return _STATUSES.decode(document)
    except _UNREADABLE as error:
        raise UnreadableAnswer(f"a watch error is not a Status: {_abbreviate(bytes(document))}: {error}") from error


def read_page(body: bytes) -> ListPage:
    try:
        return _PAGES.decode(body)
    except _UNREADABLE as error:
        raise UnreadableAnswer(f"the response is not a list: {_abbreviate(body)}: {error}") from error


async def iter_items(page: ListPage) -> AsyncIterator[bytes]:
    """The documents, between which the event loop has its turn where they are large."""
    size = 0
    for item in page.items or ():
        document = bytes(item)
        yield document
        size += len(document)
        if size > _BATCH_BYTES:
            size = 0
            await asyncio.sleep(0)


def read_version(document: bytes) -> str:
    """The version of a bookmark, which has no object."""
    try:
        return _LOOSE_HEADS.decode(document).metadata.resource_version
    except _UNREADABLE as error:
        raise UnreadableAnswer(f"a bookmark of a watch has no version: {_abbreviate(document)}: {error}") from error


def read_head(document: bytes) -> ObjectHead | None:
    """Name and version of an object, independent of the rest; None if not even those can be read."""
    try:
        metadata = _LOOSE_HEADS.decode(document).metadata
    except _UNREADABLE:
        return None
    if not metadata.name:
        return None
    return ObjectHead(Metadata(metadata.name, metadata.namespace, metadata.uid, metadata.resource_version))


class LineSplitter:
    """Splits a stream into lines. The text after the last line break may be incomplete and is not a line yet."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        first, *others = piece.split(b"\n")
        self._rest.append(first)
        self._length += len(first)
        if self._length > LONGEST_LINE:
            raise UnreadableAnswer(f"a line of a watch is longer than {LONGEST_LINE} bytes")
        if not others:
            return
        yield b"".join(self._rest)
        *whole, last = others
        self._rest, self._length = [last], len(last)
        yield from whole


def _abbreviate(text: bytes) -> str:
    return repr(text[:_MAX_SHOWN].decode(errors="replace"))
