"""Times against datetime, the independent implementation at hand."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import InputError, TimestampError
from fleet.model.timestamps import (
    HOUR,
    MINUTE,
    SECOND,
    format_timestamp,
    parse_duration,
    parse_timestamp,
    timestamp_or_none,
)

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
# From the second day of year 1 to the last but one of 9999, so that every moment exists in every zone.
MICROSECONDS = st.integers(-62_135_510_400 * 10**6, 253_402_214_400 * 10**6)


def a_moment(microseconds: int, zone: dt.timezone) -> dt.datetime:
    return (EPOCH + dt.timedelta(microseconds=microseconds)).astimezone(zone)


MOMENTS = st.builds(a_moment, MICROSECONDS, ZONES)


def nanoseconds(moment: dt.datetime) -> int:
    past = moment - EPOCH
    return (past.days * 86_400 + past.seconds) * SECOND + past.microseconds * 1000


@given(MOMENTS)
def test_a_time_in_any_zone_is_the_same_moment(moment: dt.datetime) -> None:
    assert parse_timestamp(moment.isoformat()) == nanoseconds(moment)


@given(MOMENTS)
def test_formatting_writes_utc_without_fraction(moment: dt.datetime) -> None:
    whole = moment.astimezone(dt.UTC).replace(microsecond=0, tzinfo=None)
    assert format_timestamp(nanoseconds(moment)) == f"{whole.isoformat()}Z"


@given(st.integers(-60_000_000_000, 250_000_000_000))
def test_formatting_and_parsing_are_inverse_at_second_resolution(seconds: int) -> None:
    assert parse_timestamp(format_timestamp(seconds * SECOND)) == seconds * SECOND


@given(st.text("0123456789-:TZ.+tz", max_size=30))
def test_any_text_is_a_time_or_a_timestamp_error(text: str) -> None:
    moment = timestamp_or_none(text)
    if moment is not None:
        assert parse_timestamp(text) == moment


@pytest.mark.parametrize(
    "text, value",
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01t00:00:01z", SECOND),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59Z", -SECOND),
        ("2000-02-29T00:00:00Z", 951_782_400 * SECOND),
        ("1970-01-01T00:00:00.1234567899Z", 123_456_789),
    ],
)
def test_well_known_times(text: str, value: int) -> None:
    assert parse_timestamp(text) == value


def test_a_leap_second_counts_as_the_next_second() -> None:
    assert parse_timestamp("2016-12-31T23:59:60Z") == parse_timestamp("2017-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "text",
    [
        *["", "now", "2026-01-05", "2026-01-05T10:00:00", "2026-01-05 10:00:00Z", "2026-1-5T10:00:00Z"],
        *["2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z"],
        *["2026-01-00T00:00:00Z", "2026-01-05T24:00:00Z", "2026-01-05T10:60:00Z", "2026-01-05T10:00:61Z"],
        *[
            "2026-01-05T10:00:00+24:00",
            "2026-01-05T10:00:00+01:60",
            "2026-01-05T10:00:00.Z",
            "\uff12026-01-05T10:00:00Z",
        ],
        "2026-01-05T10:00:00Z\n",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(TimestampError):
        parse_timestamp(text)
    assert timestamp_or_none(text) is None


def test_an_absent_time_is_none() -> None:
    assert timestamp_or_none(None) is None


@pytest.mark.parametrize(
    "text, value",
    [
        ("0", 0),
        ("0s", 0),
        ("90s", 90 * SECOND),
        ("1h30m", HOUR + 30 * MINUTE),
        ("250ms", SECOND // 4),
        ("1.5h", 90 * MINUTE),
        ("1m1m", 2 * MINUTE),
    ],
)
def test_durations_are_sums_of_numbers_with_units(text: str, value: int) -> None:
    assert parse_duration(text) == value


@pytest.mark.parametrize("text", ["", "5", "m", "-1m", "1 m", "1d", "1h-5m", "1.h", "h1", "1m\n", "\u0661m"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no duration such as 90s, 5m or 1h30m"):
        parse_duration(text)


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 59))
def test_hours_minutes_and_seconds_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * HOUR + minutes * MINUTE + seconds * SECOND
