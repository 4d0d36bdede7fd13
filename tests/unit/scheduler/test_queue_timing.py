"""Settings that cannot work, and the arithmetic of waits."""

from __future__ import annotations

import re

import pytest

from fleet.errors import ConfigurationError
from fleet.scheduler.queue.timing import SECOND, Doubling, QueueSettings, TokenBucket, flush_moment


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"initial_backoff": 0}, "queue.initialBackoffSeconds 0: must be above 0"),
        (
            {"initial_backoff": 11},
            "queue.initialBackoffSeconds 11: must be above 0 and at most queue.maxBackoffSeconds",
        ),
        ({"rate": 0}, "queue.rate 0 with queue.burst 100"),
        ({"burst": 0}, "queue.rate 10 with queue.burst 0"),
    ],
)
def test_settings_with_which_nobody_would_come_back_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        QueueSettings(**settings)  # type: ignore[arg-type]


def test_waits_double_up_to_the_longest_and_there_is_none_after_nothing() -> None:
    waits = Doubling(first=1, most=10)
    assert [waits.nth(number) for number in (0, 1, 2, 3, 4, 5, 1_000_000)] == [0, 1, 2, 4, 8, 10, 10]


def test_a_bucket_gives_its_burst_at_once_and_then_one_token_at_a_time() -> None:
    bucket = TokenBucket(rate=2, burst=3)
    assert [bucket.take(0) for _ in range(5)] == [0, 0, 0, SECOND // 2, SECOND]


def test_a_bucket_never_saves_more_than_its_burst() -> None:
    bucket = TokenBucket(rate=2, burst=3)
    for _ in range(3):
        bucket.take(0)
    assert [bucket.take(1000 * SECOND) for _ in range(4)] == [0, 0, 0, SECOND // 2]


@pytest.mark.parametrize("pooled_at, searched_at", [(0, 330), (1, 330), (29.9, 330), (30, 360)])
def test_the_pool_is_searched_every_thirty_seconds_for_what_is_strictly_older(
    pooled_at: float, searched_at: int
) -> None:
    assert flush_moment(round(pooled_at * SECOND), 300 * SECOND) == searched_at * SECOND
