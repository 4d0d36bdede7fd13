"""RFC 3339 texts and integer nanoseconds since the epoch, both ways, without a clock or a time zone database."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from fleet.errors import InputError, TimestampError

SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_AGE_UNITS: Final = (("d", DAY // SECOND), ("h", HOUR // SECOND), ("m", MINUTE // SECOND))
_RFC3339: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_DAYS_IN_MONTH: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@lru_cache(maxsize=1 << 12)  # members report in the same seconds; every second there is another one to keep
def parse_timestamp(text: str) -> int:
    """Nanoseconds since 1970-01-01T00:00:00Z."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimestampError(f"{text!r} is not an RFC 3339 time such as 2026-01-05T10:00:00Z", value=text)
    date, hour, minute, second, fraction, sign, zone_hour, zone_minute = match.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second) > 60:
        raise TimestampError(f"{text!r} names a time of day that does not exist", value=text)
    seconds = (_days(date) * 24 + int(hour)) * 3600 + int(minute) * 60 + int(second)
    if sign:
        if int(zone_hour) > 23 or int(zone_minute) > 59:
            raise TimestampError(f"{text!r} names a time zone that does not exist", value=text)
        offset = int(zone_hour) * 3600 + int(zone_minute) * 60
        seconds += -offset if sign == "+" else offset
    return seconds * SECOND + (int(fraction.ljust(9, "0")) if fraction else 0)


def timestamp_or_none(text: str | None) -> int | None:
    """The time, or None if the text is absent or not a time."""
    if not text:
        return None
    try:
        return parse_timestamp(text)
    except TimestampError:
        return None


def format_elapsed(text: str | None, now: int) -> str:
    """`41s`, `12m`, `3h` or `9d`: the largest unit. `now` in nanoseconds since the epoch."""
    then = timestamp_or_none(text)
    if then is None:
        return "-"
    seconds = max(0, now - then) // SECOND
    return next((f"{seconds // size}{unit}" for unit, size in _AGE_UNITS if seconds >= size), f"{seconds}s")


def format_timestamp(nanoseconds: int) -> str:
    """RFC 3339 in UTC with second resolution, as the Kubernetes API writes times."""
    days, second_of_day = divmod(nanoseconds // SECOND, 86_400)
    year, month, day = _civil(days)
    hour, rest = divmod(second_of_day, 3600)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{rest // 60:02d}:{rest % 60:02d}Z"


@lru_cache(maxsize=4096)
def _days(date: str) -> int:
    """Days since 1970-01-01."""
    year, month, day = int(date[:4]), int(date[5:7]), int(date[8:])
    if not 1 <= month <= 12 or not 1 <= day <= _length(year, month):
        raise TimestampError(f"{date!r} is not a date of the calendar", value=date)
    return _days_before_year(year) + _days_before_month(year, month) + day - 1


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _length(year: int, month: int) -> int:
    return 29 if month == 2 and _is_leap(year) else _DAYS_IN_MONTH[month - 1]


def _days_before_year(year: int) -> int:
    """Days between 1970-01-01 and the first of January of that year, in the proleptic Gregorian calendar."""
    past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400 - 719_162


def _days_before_month(year: int, month: int) -> int:
    return sum(_length(year, earlier) for earlier in range(1, month))


@lru_cache(maxsize=64)  # most times are of the present day
def _civil(days: int) -> tuple[int, int, int]:
    year = 1970 + days * 400 // 146_097
    while _days_before_year(year) > days:
        year -= 1
    while _days_before_year(year + 1) <= days:
        year += 1
    rest = days - _days_before_year(year)
    month = 1
    while rest >= _length(year, month):
        rest -= _length(year, month)
        month += 1
    return year, month, rest + 1


_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)", re.ASCII)
_UNITS: Final = {"h": HOUR, "m": MINUTE, "s": SECOND, "ms": SECOND // 1000}


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as 90s, 5m, 1h30m, 250ms or 0."""
    if text == "0":
        return 0
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InputError(f"{text!r} is no duration such as 90s, 5m or 1h30m", value=text)
    return sum(int(Fraction(number) * _UNITS[unit]) for number, unit in parts)


def format_age(nanoseconds: int) -> str:
    """`42m10s`: the two largest units that are not zero, rounded down."""
    left, parts = max(nanoseconds, 0), []
    for name, unit in (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)):
        count, left = divmod(left, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts[:2]) or "0s"
