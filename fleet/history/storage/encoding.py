"""Encoding of values as bytes in the database.

Compressed at a low level, which gives most of the gain in a fraction of the time. The first byte of a value identifies
the encoding, so that it can change without a migration.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from fleet.history.entries import (
    AttemptSource,
    ClusterRow,
    Columns,
    HistoryAttempt,
    RecordedHook,
    RecordedInputs,
    RecordedRejection,
    RecordedWarning,
    RecordedWrite,
    SnapshotReference,
)

T = TypeVar("T")

_PLAIN: Final = b"\0"
_ZLIB: Final = b"\1"
_WORTH_IT: Final = 160
"""Bytes; shorter values hardly shrink."""
_LEVEL: Final = 1
_LEVEL_OF_DOCUMENTS: Final = 3  # of many alike: a sixth less than the lowest, in the same time
_LARGEST_DICTIONARY: Final = 32_768  # what zlib can look back on
_OVERHEAD: Final = 600
"""Bytes of the objects around the packed bytes of an attempt."""


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of an attempt that are never searched for."""

    error: str = ""
    wanted: int | None = None
    active: int | None = None
    clusters: int = 0
    triggers: tuple[str, ...] = ()
    phases: dict[str, float] = {}
    generation: int | None = None
    placement_type: str = ""
    snapshot: SnapshotReference | None = None
    writes: tuple[RecordedWrite, ...] = ()
    effects: tuple[RecordedHook, ...] = ()
    warnings: tuple[RecordedWarning, ...] = ()
    groups: tuple[RecordedRejection, ...] = ()
    invalid: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: bytes = b"{}"
    published: bytes = b""
    status_written: bool = False
    rounds: int = 0
    process_number: int = 0
    is_end: bool = False


def pack_facts(attempt: HistoryAttempt) -> bytes:
    return _pack(Facts(**{name: getattr(attempt, name) for name in Facts.__struct_fields__}))


def unpack_facts(body: bytes) -> dict[str, Any]:
    return msgspec.structs.asdict(_unpack(body, Facts))


def pack_attempt(attempt: HistoryAttempt) -> bytes:
    return _pack(attempt)


def unpack_attempt(body: bytes) -> HistoryAttempt:
    return _unpack(body, HistoryAttempt)


def pack_columns(columns: Columns) -> bytes:
    return _pack(columns)


def unpack_columns(body: bytes) -> Columns:
    return _unpack(body, Columns)


def pack_inputs(inputs: RecordedInputs) -> bytes:
    return _pack(inputs)


def unpack_inputs(body: bytes) -> RecordedInputs:
    return _unpack(body, RecordedInputs)


def pack_profile(document: bytes) -> bytes:
    return _pack(document)


def unpack_profile(body: bytes) -> bytes:
    return _unpack(body, bytes)


def _pack(value: object) -> bytes:
    encoded = msgspec.msgpack.encode(value)
    return _PLAIN + encoded if len(encoded) < _WORTH_IT else _ZLIB + zlib.compress(encoded, _LEVEL)


def _unpack(body: bytes, kind: type[T]) -> T:
    encoded = body[1:] if body[:1] == _PLAIN else zlib.decompress(body[1:])
    return msgspec.msgpack.decode(encoded, type=kind)


class DocumentCodec:
    """Compresses similar documents together, with a dictionary of their common parts."""

    def __init__(self, dictionary: bytes) -> None:
        self.dictionary = dictionary[-_LARGEST_DICTIONARY:]

    def pack(self, rows: Sequence[ClusterRow]) -> bytes:
        encoded = msgspec.msgpack.encode(rows)
        level = _LEVEL_OF_DOCUMENTS
        compressor = zlib.compressobj(level, zdict=self.dictionary) if self.dictionary else zlib.compressobj(level)
        return compressor.compress(encoded) + compressor.flush()

    def unpack(self, body: bytes) -> list[ClusterRow]:
        decompressor = zlib.decompressobj(zdict=self.dictionary) if self.dictionary else zlib.decompressobj()
        return msgspec.msgpack.decode(decompressor.decompress(body) + decompressor.flush(), type=list[ClusterRow])


class SlimAttempt:
    """A buffered attempt reduced to its decision, for when the buffer is almost full.

    Packed immediately: as objects, the decision takes ten times as much memory and keeps its inputs alive.
    """

    __slots__ = ("_packed", "changed", "key", "shed", "weight")

    fleet: object = None

    def __init__(self, source: AttemptSource) -> None:
        self.key = source.key
        self.changed = source.changed
        self.shed = source.shed
        self._packed = pack_attempt(source.attempt())
        self.weight = len(self._packed) + _OVERHEAD

    @property
    def light_weight(self) -> int:
        return self.weight

    def without_columns(self) -> SlimAttempt:
        return self

    def without_inputs(self) -> SlimAttempt:
        return self

    def attempt(self) -> HistoryAttempt:
        return unpack_attempt(self._packed)

    def columns(self, *, with_names: bool) -> Columns | None:
        del with_names
        return None

    def inputs(self) -> RecordedInputs | None:
        return None

    def profile(self) -> bytes:
        return b""

    def clusters(self, *, anew: bool) -> Sequence[ClusterRow]:
        del anew
        return ()
