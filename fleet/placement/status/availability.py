"""How long changes of placements take until they are available on all clusters, and what is wrong with their objects.

A change begins when a placement that was available no longer is, or when a new one is made. One that was on its way
already when this process began is not measured: nobody knows since when.
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
    """Changes under way, by placement."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at = epoch_nanoseconds(clock)
        self._since: dict[str, float | None] = {}
        self._available: set[str] = set()

    def observe(self, key: str, metadata: Metadata, *, is_available: bool) -> float | None:
        """How many seconds the change took that has just come to its end; None if none has."""
        if not is_available:
            self._begin(key, metadata)
            return None
        self._available.add(key)
        since = self._since.pop(key, None)
        return None if since is None else self._clock.elapsed() - since

    def forget(self, key: str) -> None:
        self._available.discard(key)
        self._since.pop(key, None)

    def _begin(self, key: str, metadata: Metadata) -> None:
        if key in self._available:
            self._available.discard(key)
            self._since[key] = self._clock.elapsed()
        elif key not in self._since:
            self._since[key] = self._beginning_of(metadata)

    def _beginning_of(self, metadata: Metadata) -> float | None:
        created = timestamp_or_none(metadata.creation_timestamp)
        if created is None or created < self._began_at - SECOND:  # times are written in whole seconds
            return None
        age = max(0, epoch_nanoseconds(self._clock) - created)
        return self._clock.elapsed() - age / SECOND


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
