"""The expiry of Events: like the API server, the hub keeps each for an hour after its last write.

After a restart the last write of an Event is taken from its metadata.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Final

from fleet.clock import SECOND
from fleet.errors import RequestRefused
from fleet.hub.kinds.builtin import EVENTS
from fleet.hub.objects.metadata import Clock
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.storage.store import HubStore, Key, StoreChange
from fleet.model.timestamps import timestamp_or_none

KEPT_SECONDS: Final = 3600.0
_CHECK_EVERY: Final = 60.0  # seconds
_BATCH: Final = 100  # Events removed before yielding to requests


class EventExpiry:
    def __init__(self, store: HubStore, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._written: dict[Key, float] = {}  # times of the last writes, the oldest first

    def load_existing(self) -> None:
        written = [(_find_last_write(entry), entry.key) for entry in self._store.collection(EVENTS).scan()]
        self._written = {key: seconds for seconds, key in sorted(written)}

    def on_change(self, change: StoreChange) -> None:
        if change.resource != EVENTS:
            return
        self._written.pop(change.entry.key, None)
        if change.current is not None:
            self._written[change.entry.key] = self._clock()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            while self.remove_batch():
                try:
                    await self._store.settle()
                except RequestRefused:
                    break  # they are still there, and are removed at the next check
                await asyncio.sleep(0)

    def remove_batch(self) -> int:
        """Removes a limited number of expired Events, with or without finalizers, and returns how many."""
        collection, oldest = self._store.collection(EVENTS), self._clock() - KEPT_SECONDS
        removed = 0
        for key, written in list(islice(self._written.items(), _BATCH)):
            entry = collection.head(key)
            if written > oldest:
                break
            if entry is not None and entry is collection.entries.get(key):
                self._store.remove(EVENTS, entry)
                removed += 1
        return removed


def _find_last_write(entry: StoredEntry) -> float:
    metadata = entry.metadata()
    times = [metadata.get("creationTimestamp"), *(fields.get("time") for fields in metadata.get("managedFields") or ())]
    return max(timestamp_or_none(time) or 0 for time in times) / SECOND
