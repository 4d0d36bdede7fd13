"""From the bytes of a list or a watch to objects, without waiting and without I/O.

What cannot be read is told apart by how much is lost with it. A line that is no event loses the stream: nobody knows
what it said. An event whose object does not fit its kind loses only that object, whose name is still known.
"""

from __future__ import annotations

from collections.abc import Iterator
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

_PLAIN: Final = (b'{"type":"MODIFIED","object":', b'{"type":"ADDED","object":')
"""How the bulk of all lines begins; the object follows, and one closing brace."""

LONGEST_LINE: Final = 16 * 2**20
"""Bytes. Etcd stores no object of more than 1.5 MiB; what is much longer is no event."""
_SHOWN: Final = 80

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class ObjectHead(msgspec.Struct, frozen=True):
    """What is read of an object when the rest of it cannot be read or does not matter."""

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


def plain_document(line: bytes) -> bytes | None:
    """The object that is new or has changed, if the line is one as the API server always writes it."""
    for beginning in _PLAIN:
        if line.startswith(beginning) and line.endswith(b"}"):
            return line[len(beginning) : -1]
    return None


def read_event(line: bytes) -> WatchEvent:
    try:
        return _EVENTS.decode(line)
    except _UNREADABLE as error:
        raise UnreadableAnswer(f"a line of a watch is no event: {_shown(line)}: {error}") from error


def read_status(document: msgspec.Raw) -> ApiStatus:
    try:
        return _STATUSES.decode(document)
    except _UNREADABLE as error:
        raise UnreadableAnswer(f"an error in a watch is no Status: {_shown(bytes(document))}: {error}") from error


def read_page(body: bytes) -> ListPage:
    try:
        return _PAGES.decode(body)
    except _UNREADABLE as error:
        raise UnreadableAnswer(f"the answer to a list is none: {_shown(body)}: {error}") from error


def read_version(document: bytes) -> str:
    """The version that a bookmark carries: it names no object."""
    try:
        return _LOOSE_HEADS.decode(document).metadata.resource_version
    except _UNREADABLE as error:
        raise UnreadableAnswer(f"a bookmark of a watch has no version: {_shown(document)}: {error}") from error


def read_head(document: bytes) -> ObjectHead | None:
    """Name and version of an object, however odd the rest is; None if not even those can be read."""
    try:
        found = _LOOSE_HEADS.decode(document).metadata
    except _UNREADABLE:
        return None
    if not found.name:
        return None
    return ObjectHead(Metadata(found.name, found.namespace, found.uid, found.resource_version))


class LineSplitter:
    """Cuts a stream into lines. What follows the last line break is no line: it may be cut off anywhere."""

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


def _shown(text: bytes) -> str:
    return repr(text[:_SHOWN].decode(errors="replace"))
