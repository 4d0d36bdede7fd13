"""Pagination: a cursor holds the key after which the next page begins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from api.http import base64url
from api.http.problems import unprocessable

DEFAULT_LIMIT: Final = 100
LARGEST_LIMIT: Final = 500
_LONGEST: Final = 2048

T = TypeVar("T")


class KeyPage(NamedTuple):
    """The keys of a page, and the cursor of the next one."""

    keys: list[str]
    next: str | None


def take_page(keys: Sequence[str], *, limit: int, cursor: str | None, list_name: str) -> KeyPage:
    """The keys after the cursor. `keys` are sorted."""
    start = 0 if cursor is None else bisect_right(keys, read_cursor(cursor, list_name))
    page = list(keys[start : start + limit])
    more = start + limit < len(keys)
    return KeyPage(page, make_cursor(list_name, page[-1]) if more else None)


def make_cursor(list_name: str, after: str) -> str:
    return base64url.encode(f"{list_name} {after}".encode())


def read_cursor(cursor: str, list_name: str, *, valid: Callable[[str], bool] = bool) -> str:
    """The key in a cursor. Only cursors of this list are accepted."""
    try:
        content = base64url.decode(cursor).decode()
    except ValueError:
        content = ""
    name, _, after = content.partition(" ")
    if len(cursor) > _LONGEST or name != list_name or not valid(after):
        raise unprocessable(
            "cursor",
            cursor,
            "this is not a cursor of this list",
            "leave it out to start again, or send the `next` of an earlier page unchanged",
        )
    return after
