"""Settings that cannot work, and the arithmetic of waits."""

from __future__ import annotations

import re

import pytest

from fleet.clock import SECOND
from fleet.errors import ConfigurationError
from fleet.scheduler.queue.settings import QueueSettings
from fleet.scheduler.queue.sub_queues import flush_time


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


@pytest.mark.parametrize("pooled_at, searched_at", [(0, 330), (1, 330), (29.9, 330), (30, 360)])
def test_the_pool_is_searched_every_thirty_seconds_for_what_is_strictly_older(
    pooled_at: float, searched_at: int
) -> None:
    assert flush_time(round(pooled_at * SECOND), 300 * SECOND) == searched_at * SECOND
