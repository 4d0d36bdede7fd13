"""Grammar and order of release tags. Pure: no clock, no git, no registry.

The order is not the one of SemVer: `v0.20.1001` is a fix of 0.20.10, and older than 0.20.11.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from fleet.errors import InputError

MAX_LENGTH: Final = 128
"""Of a tag in a registry."""
LAST: Final = 99
"""The sequence has two digits."""
_DIGITS: Final = re.compile(r"[0-9]+")
_STAGING: Final = re.compile(r"v([0-9]{8})-v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9]+-g[0-9a-f]+)?")
_NUMBERED: Final = re.compile(r"v([0-9]+)\.([0-9]+)\.([0-9]+)(-[A-Za-z][0-9A-Za-z.-]*)?")


class TagKind(enum.StrEnum):
    SNAPSHOT = "snapshot"
    BRANCHFIX = "branchfix"
    RELEASE = "release"
    ONDEMAND = "ondemand"
    LOCAL = "local"
    STAGING = "staging"
    PRERELEASE = "prerelease"


OURS: Final = (TagKind.SNAPSHOT, TagKind.BRANCHFIX)
"""Made by this tool, and kept in the registry of bridge builds."""
UPSTREAM: Final = (TagKind.RELEASE, TagKind.ONDEMAND)
_RANKS: Final = {TagKind.RELEASE: 0, TagKind.ONDEMAND: 1, TagKind.BRANCHFIX: 2}


class TagError(InputError):
    """Names the offending part of a tag and marks where it stands."""

    def __init__(self, text: str, message: str, *, start: int = 0, end: int | None = None) -> None:
        end = len(text) if end is None else end
        shown = text[:MAX_LENGTH].translate(dict.fromkeys((*range(32), 127), "?"))
        marks = " " * min(start, len(shown)) + "^" * max(min(end, len(shown) + 1) - start, 1)
        super().__init__(f"{text!r} is no release tag: {message}\n  {shown}\n  {marks}", value=text)


class UnorderedTags(InputError):
    pass


class SequenceExhausted(InputError):
    pass


@dataclass(frozen=True, slots=True)
class Tag:
    """`base_micro` is the micro version of the upstream release that a tag names; None where there is none."""

    kind: TagKind
    text: str
    major: int | None = None
    minor: int | None = None
    base_micro: int | None = None
    seq: int | None = None
    date: dt.date | None = None

    @property
    def base(self) -> str:
        """`0.20.10`"""
        return f"{self.major}.{self.minor}.{self.base_micro}"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "major": self.major,
            "minor": self.minor,
            "base_micro": self.base_micro,
            "seq": self.seq,
            "date": None if self.date is None else self.date.isoformat(),
            "text": self.text,
        }


LOCAL: Final = Tag(TagKind.LOCAL, "v0.0.0", 0, 0)

OrderKey = tuple[int, ...]


# --- reading ----------------------------------------------------------------------------------------------------------


def parse_tag(text: str) -> Tag:
    if text == LOCAL.text:
        return LOCAL
    if len(text) > MAX_LENGTH:
        raise TagError(text, f"a tag has at most {MAX_LENGTH} characters", start=MAX_LENGTH)
    if staging := _STAGING.fullmatch(text):
        return Tag(TagKind.STAGING, text, date=_read_date(text, *staging.span(1)))
    numbered = _NUMBERED.fullmatch(text)
    if numbered is None:
        _explain_shape(text)
    for group in (1, 2):
        _refuse_leading_zero(text, *numbered.span(group))
    major, minor, third = int(numbered[1]), int(numbered[2]), numbered[3]
    start, end = numbered.span(3)
    if (major, minor) == (0, 0):
        return _read_snapshot(text, start, end)
    _refuse_leading_zero(text, start, end)
    if len(third) > 4:
        raise TagError(text, f"the third part has {len(third)} digits, at most four are used", start=start, end=end)
    if numbered[4]:
        if len(third) > 2:
            raise TagError(text, "nothing may follow the digits of a fix", start=end)
        return Tag(TagKind.PRERELEASE, text, major, minor, int(third))
    if len(third) <= 2:
        return Tag(TagKind.RELEASE, text, major, minor, int(third))
    base, seq = int(third[:-2]), int(third[-2:])
    kind = TagKind.BRANCHFIX if seq else TagKind.ONDEMAND
    return Tag(kind, text, major, minor, base, seq)


def _read_snapshot(text: str, start: int, end: int) -> Tag:
    if end != len(text):
        raise TagError(text, "v0.0 is reserved for snapshots, which end with their number", start=end)
    digits = text[start:end]
    if len(digits) < 8:
        raise TagError(text, "v0.0 is reserved for snapshots: date and sequence in ten digits", start=start)
    if len(digits) != 10:
        raise TagError(text, f"date and sequence have ten digits, not {len(digits)}", start=start)
    date, seq = _read_date(text, start, start + 8), int(digits[8:])
    if not seq:
        raise TagError(text, "the sequence starts at 01", start=start + 8)
    return Tag(TagKind.SNAPSHOT, text, 0, 0, seq=seq, date=date)


def _read_date(text: str, start: int, end: int) -> dt.date:
    digits = text[start:end]
    try:
        return dt.date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        raise TagError(text, f"{digits} is no date of the calendar", start=start, end=end) from None


def _refuse_leading_zero(text: str, start: int, end: int) -> None:
    if end - start > 1 and text[start] == "0":
        raise TagError(text, "leading zero", start=start, end=end)


def _explain_shape(text: str) -> NoReturn:
    if not text:
        raise TagError(text, "it is empty")
    if not text.startswith("v"):
        raise TagError(text, "it starts with a lower-case v", start=0, end=1)
    position = 1
    for part in ("major", "minor", "third"):
        digits = _DIGITS.match(text, position)
        if digits is None:
            raise TagError(text, f"the {part} part is missing", start=position, end=max(position + 1, len(text)))
        position = digits.end()
        if part != "third":
            if text[position : position + 1] != ".":
                raise TagError(text, f"a dot and further digits should follow the {part} part", start=position)
            position += 1
    raise TagError(text, "nothing may follow the digits", start=position)


# --- writing ----------------------------------------------------------------------------------------------------------


def format_snapshot(date: dt.date, seq: int) -> Tag:
    return parse_tag(f"v0.0.{date.year:04d}{date:%m%d}{seq:02d}")


def format_branchfix(base: Tag, seq: int) -> Tag:
    return parse_tag(f"v{base.base}{seq:02d}")


# --- order ------------------------------------------------------------------------------------------------------------


def build_order_key(tag: Tag) -> OrderKey:
    """Snapshots are below everything else."""
    if tag.kind is TagKind.SNAPSHOT and tag.date is not None:
        return (0, tag.date.toordinal(), tag.seq or 0)
    if tag.kind not in _RANKS:
        raise UnorderedTags(
            f"{tag.text} has no order: {tag.kind} tags are not compared\nnext: compare releases, fixes or snapshots"
        )
    return (1, tag.major or 0, tag.minor or 0, tag.base_micro or 0, tag.seq or 0, _RANKS[tag.kind])


def compare_tags(left: Tag, right: Tag) -> int:
    left_key, right_key = build_order_key(left), build_order_key(right)
    return (left_key > right_key) - (left_key < right_key)


# --- the next tag -----------------------------------------------------------------------------------------------------


def choose_next_snapshot(date: dt.date, used: Iterable[Tag]) -> Tag:
    taken = (tag.seq or 0 for tag in used if tag.kind is TagKind.SNAPSHOT and tag.date == date)
    return format_snapshot(date, _follow(max(taken, default=0), date.isoformat()))


def choose_next_branchfix(base: Tag, used: Iterable[Tag]) -> Tag:
    taken = (tag.seq or 0 for tag in used if tag.kind is TagKind.BRANCHFIX and tag.base == base.base)
    return format_branchfix(base, _follow(max(taken, default=0), base.base))


def _follow(highest: int, subject: str) -> int:
    if highest >= LAST:
        raise SequenceExhausted(f"sequence exhausted for {subject}: {LAST} builds have been tagged")
    return highest + 1
