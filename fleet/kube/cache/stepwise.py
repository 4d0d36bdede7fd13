"""Large documents are decoded in steps of a millisecond or two, between which others have their turn.

What comes out is what one decoding of the whole gives. A list or mapping is cut where an item seems to end: if it does
not, the piece before has an open bracket or text, and cannot be decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
Steps = Generator[None, None, T]
"""Returns the result; each yield is the end of a step."""

_STEP: Final = 64 * 1024
"""Bytes."""
_LONGEST_PIECE: Final = 2 * _STEP
_BETWEEN_OBJECTS: Final = b"},{"
_BETWEEN_TEXTS: Final = b'","'

_get_decoder = cache(msgspec.json.Decoder)
read_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _NotInPieces(Exception):
    """An item is large itself, or a piece is not what it seems."""


async def take_turns(steps: Steps[T]) -> T:
    """One step in each turn of the event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def decode_in_steps(text: bytes | msgspec.Raw, kind: Any) -> Steps[Any]:
    """As `msgspec.json.decode(text, type=kind)`, with another message for what is invalid."""
    if memoryview(text).nbytes <= _STEP:
        return _get_decoder(kind).decode(text)
    kind = _without_none(kind)
    if kind is msgspec.Raw:
        return text if isinstance(text, msgspec.Raw) else msgspec.Raw(text)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        texts = read_fields(text)
        yield
        return (yield from decode_fields(texts, kind))
    arguments = get_args(kind)
    try:
        if get_origin(kind) is tuple and arguments[1:] == (...,):
            between = _BETWEEN_TEXTS if arguments[0] is str else _BETWEEN_OBJECTS
            items: list[Any] = []
            yield from _decode_pieces(text, list[arguments[0]], between, items.extend)  # type: ignore[valid-type]
            return tuple(items)
        if get_origin(kind) is dict:
            values: dict[str, Any] = {}
            yield from _decode_pieces(text, kind, _BETWEEN_TEXTS, values.update)
            return values
    except _NotInPieces:
        if arguments[0] is not str:
            return (yield from _decode_items(text, arguments[0]))
    return _get_decoder(kind).decode(text)


def _without_none(kind: Any) -> Any:
    """A large text is no null."""
    others = [each for each in get_args(kind) if each is not type(None)]
    return others[0] if len(others) == 1 and type(None) in get_args(kind) else kind


def decode_fields(texts: Mapping[str, msgspec.Raw], kind: type[S]) -> Steps[S]:
    """An object of which `read_fields` has read the texts."""
    values = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in texts:
            values[field.name] = yield from decode_in_steps(texts[field.encode_name], field.type)
    return kind(**values)


def _decode_items(text: bytes | msgspec.Raw, kind: Any) -> Steps[tuple[Any, ...]]:
    """One by one: for few large ones."""
    texts = _read_items(text)
    yield
    items = []
    for each in texts:
        items.append((yield from decode_in_steps(each, kind)))
    return tuple(items)


def _decode_pieces(text: bytes | msgspec.Raw, kind: Any, between: bytes, take: Callable[[Any], None]) -> Steps[None]:
    decode = _get_decoder(kind).decode
    for piece in _cut(bytes(text), between):
        if len(piece) > _LONGEST_PIECE:
            raise _NotInPieces
        try:
            take(decode(piece))
        except msgspec.MsgspecError as error:
            raise _NotInPieces from error
        yield


def _cut(text: bytes, between: bytes) -> Iterator[bytes]:
    opening, closing, start = text[:1], text[-1:], 1
    while start:
        end = text.find(between, start + _STEP)
        yield opening + text[start : end + 1 or -1] + closing
        start = end + 2 if end >= 0 else 0
