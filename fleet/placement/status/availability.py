"""Availability: the time until changes of placements are available on all clusters, and counts of failed objects.

A change begins when an available placement no longer is, or when one is created. A change that began before this
process is not measured, because its start is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from fleet.clock import Clock, epoch_nanoseconds
from fleet.model.timestamps import SECOND, timestamp_or_none
from fleet.model.views import Metadata

Json = dict[str, Any]

_LISTS: Final = {"failed": "failedPlacements", "drifted": "driftedPlacements", "diffed": "diffedPlacements"}


class AvailabilityTimer:
    """Measures changes in progress, by placement."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._process_start = epoch_nanoseconds(clock)
        self._started: dict[str, float | None] = {}
        self._available: set[str] = set()

    def observe(self, key: str, metadata: Metadata, *, is_available: bool) -> float | None:
        """The duration in seconds of the change that is now complete; None if there is none."""
        if not is_available:
            self._start(key, metadata)
            return None
        self._available.add(key)
        since = self._started.pop(key, None)
        return None if since is None else self._clock.monotonic() - since

    def forget(self, key: str) -> None:
        self._available.discard(key)
        self._started.pop(key, None)

    def _start(self, key: str, metadata: Metadata) -> None:
        if key in self._available:
            self._available.discard(key)
            self._started[key] = self._clock.monotonic()
        elif key not in self._started:
            self._started[key] = self._compute_start(metadata)

    def _compute_start(self, metadata: Metadata) -> float | None:
        created = timestamp_or_none(metadata.creation_timestamp)
        if created is None or created < self._process_start - SECOND:  # timestamps have whole seconds
            return None
        age = max(0, epoch_nanoseconds(self._clock) - created)
        return self._clock.monotonic() - age / SECOND


class PlacedObjectCounts:
    """Objects that are failed, drifted or different, as the statuses of placements list them."""

    def __init__(self) -> None:
        self._by_placement: dict[str, Counter[str]] = {}

    def observe(self, key: str, status: Json) -> None:
        counts: Counter[str] = Counter()
        for cluster in status.get("placementStatuses") or ():
            for state, field in _LISTS.items():
                counts[state] += len(cluster.get(field) or ())
        if any(counts.values()):
            self._by_placement[key] = counts
        else:
            self.forget(key)

    def forget(self, key: str) -> None:
        self._by_placement.pop(key, None)

    def counts(self) -> Mapping[str, int]:
        total: Counter[str] = Counter(dict.fromkeys(_LISTS, 0))
        for counts in self._by_placement.values():
            total.update(counts)
        return total
