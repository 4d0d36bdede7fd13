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

from fleet.checkpoint import check

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
Steps = Generator[None, None, T]
"""Returns the result; each yield is the end of a step."""

_STEP: Final = 64 * 1024
"""Bytes."""
_LONGEST_PIECE: Final = 2 * _STEP
_DEEPEST: Final = 16
"""Levels that are taken apart, each of which reads all inside: values of a proposed policy are in the 13th."""
_BLANKS: Final = b" \t\r\n"
_ENDS: Final = {b'"': b'"', b"{": b"}", b"[": b"]"}
"""By the first byte of an item, its last one."""

_get_decoder = cache(msgspec.json.Decoder)
read_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _NotInPieces(Exception):
    """An item is large itself, or a piece is not what it seems."""


def run_steps(steps: Steps[T]) -> T:
    """In a thread, with a checkpoint after each: what waits for the interpreter has its turn, and what has precedence
    ends before the next step."""
    results: list[T] = []
    for _ in _keep_result(steps, results):
        check()
    return results[0]


async def take_turns(steps: Steps[T]) -> T:
    """One step in each turn of the event loop."""
    results: list[T] = []
    for _ in _keep_result(steps, results):
        await asyncio.sleep(0)
    return results[0]


def _keep_result(steps: Steps[T], results: list[T]) -> Steps[None]:
    results.append((yield from steps))


def decode_in_steps(text: bytes | msgspec.Raw, kind: Any, *, levels: int = _DEEPEST) -> Steps[Any]:
    """As `msgspec.json.decode(text, type=kind)`, with another message for what is invalid. Of two fields of one name
    the first may not be looked at."""
    if memoryview(text).nbytes <= _STEP or not levels:
        return _get_decoder(kind).decode(text)
    kind = _find_container(text) if kind is Any else _without_none(kind)
    if kind is msgspec.Raw:
        return text if isinstance(text, msgspec.Raw) else msgspec.Raw(text)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        texts = read_fields(text)
        yield
        return (yield from decode_fields(texts, kind, levels=levels - 1))
    origin = get_origin(kind)
    if origin is dict:
        return (yield from _decode_mapping(bytes(text).strip(_BLANKS), kind, levels - 1))
    if origin is list or (origin is tuple and get_args(kind)[1:] == (...,)):
        items = yield from _decode_list(bytes(text).strip(_BLANKS), get_args(kind)[0], levels - 1)
        return items if origin is list else tuple(items)
    return _get_decoder(kind).decode(text)


def _find_container(text: bytes | msgspec.Raw) -> Any:
    """The kind of a text that may be anything."""
    first = bytes(memoryview(text)[:_STEP]).lstrip(_BLANKS)[:1]
    return {b"{": dict[str, Any], b"[": list[Any]}.get(first, object)


def _without_none(kind: Any) -> Any:
    """A large text is no null."""
    others = [each for each in get_args(kind) if each is not type(None)]
    return others[0] if len(others) == 1 and type(None) in get_args(kind) else kind


def decode_fields(texts: Mapping[str, msgspec.Raw], kind: type[S], *, levels: int = _DEEPEST) -> Steps[S]:
    """An object of which `read_fields` has read the texts."""
    values = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in texts:
            values[field.name] = yield from decode_in_steps(texts[field.encode_name], field.type, levels=levels)
    return kind(**values)


def _decode_mapping(text: bytes, kind: Any, levels: int) -> Steps[dict[str, Any]]:
    values: dict[str, Any] = {}
    item_kind = get_args(kind)[1]
    try:
        yield from _decode_pieces(text, kind, values.update)
    except _NotInPieces:
        if item_kind is str:
            return dict(_get_decoder(kind).decode(text))
        texts = read_fields(text)
        yield
        for name, each in texts.items():
            values[name] = yield from decode_in_steps(each, item_kind, levels=levels)
    return values


def _decode_list(text: bytes, item_kind: Any, levels: int) -> Steps[list[Any]]:
    items: list[Any] = []
    try:
        yield from _decode_pieces(text, list[item_kind], items.extend)
    except _NotInPieces:
        if _read_second_byte(text) not in (b"{", b"["):
            return list(_get_decoder(list[item_kind]).decode(text))
        texts = _read_items(text)
        items.clear()
        yield
        for each in texts:
            items.append((yield from decode_in_steps(each, item_kind, levels=levels)))
    return items


def _decode_pieces(text: bytes, kind: Any, take: Callable[[Any], None]) -> Steps[None]:
    decode = _get_decoder(kind).decode
    for piece in _cut(text, _find_separator(text)):
        if len(piece) > _LONGEST_PIECE or not piece[1:-1].strip(_BLANKS):
            raise _NotInPieces
        try:
            take(decode(piece))
        except msgspec.MsgspecError as error:
            raise _NotInPieces from error
        yield


def _find_separator(text: bytes) -> bytes:
    """What seems to be between two items."""
    before, after = b"", b'"'
    if not text.startswith(b"{"):
        after = _read_second_byte(text)
        before = _ENDS.get(after, b"")
        after = after if before else b""
    tight = before + b"," + after
    return tight if tight in text[:_LONGEST_PIECE] else before + b", " + after


def _read_second_byte(text: bytes) -> bytes:
    return text[1:_STEP].lstrip(_BLANKS)[:1]


def _cut(text: bytes, between: bytes) -> Iterator[bytes]:
    opening, closing, comma, start = text[:1], text[-1:], between.index(b","), 1
    while start:
        end = text.find(between, start + _STEP)
        yield opening + (text[start : end + comma] if end >= 0 else text[start:-1]) + closing
        start = end + comma + 1 if end >= 0 else 0
