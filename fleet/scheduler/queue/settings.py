"""Settings of the scheduling queue."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Seconds, as operators give them."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_in_unschedulable: float = 300.0
    """0: only events move placements out of the unschedulable pool."""
    early_pop: bool = True
    """Idle workers take unschedulable placements before their backoff ends."""
    base_delay: float = 0.005
    max_delay: float = 60.0
    rate: float = 10.0
    burst: int = 100
    batch_period: float = 0.0
    """How long changes of clusters are collected before placements are requeued; 0: not at all."""

    def __post_init__(self) -> None:
        if not 0 < self.initial_backoff <= self.max_backoff:
            raise ConfigurationError(
                f"queue.initialBackoffSeconds {self.initial_backoff:g}: must be above 0 and at most "
                f"queue.maxBackoffSeconds, which is {self.max_backoff:g}"
            )
        if self.rate <= 0 or self.burst < 1:
            raise ConfigurationError(
                f"queue.rate {self.rate:g} with queue.burst {self.burst}: no failed placement would ever run again; "
                "give a rate above 0 and a burst of at least 1"
            )
