"""Changes of objects on the hub as documents, while the caller waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from fleet.clock import SystemClock
from fleet.errors import ApiError, Gone
from fleet.kube.api import Api
from fleet.kube.backoff import JITTER
from fleet.kube.cache.reflector import ListFilter, Reflector, WatchProblem
from fleet.kube.cache.store import Codec, Store
from fleet.kube.resource import Resource
from fleet.model.views import Metadata

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """Of one object; `new` is None when it is gone, `old` when it is new."""

    old: Json | None
    new: Json | None


class HubWatch:
    """`documents` is what there was when it began; `changes` follow without a gap, over interruptions of the watch."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.documents: list[Json] = []
        self._changes: asyncio.Queue[Change | ApiError] = asyncio.Queue()
        self._is_listed = False
        self._note = note
        self._noted = ""

    async def next_changes(self, *, within: float | None = None) -> list[Change]:
        """At least one, or none in time. Raises the error of a watch that cannot go on."""
        try:
            async with asyncio.timeout(within):
                changes = [await self._changes.get()]
        except TimeoutError:
            return []
        while not self._changes.empty():
            changes.append(self._changes.get_nowait())
        for each in changes:
            if isinstance(each, ApiError):
                raise each
        return [each for each in changes if isinstance(each, Change)]

    def follow(self, store: Store[Json]) -> None:
        store.subscribe(self._take)

    def begin_changes(self) -> None:
        self._is_listed = True

    def _take(self, old: Json | None, new: Json | None) -> None:
        if self._is_listed:
            self._noted = ""
            self._changes.put_nowait(Change(old, new))
        elif new is not None:
            self.documents.append(new)

    def report(self, problem: WatchProblem) -> None:
        if not isinstance(problem, ApiError):
            return
        if not self._is_listed or not (problem.retriable or isinstance(problem, Gone)):
            self._changes.put_nowait(problem)
        elif str(problem) != self._noted:
            self._noted = str(problem)
            self._note(f"the watch was interrupted and goes on when the hub answers: {problem}")


@asynccontextmanager
async def watch_documents(
    api: Api, sources: Sequence[tuple[Resource, ListFilter]], note: Callable[[str], None]
) -> AsyncIterator[HubWatch]:
    """Raises the first error of a list. `note` is called for interruptions."""
    watch = HubWatch(note)
    stores = [Store(_build_codec(resource)) for resource, _ in sources]
    reflectors = [
        Reflector(
            api, resource, store, clock=SystemClock(), jitter=JITTER, selection=selection, on_problem=watch.report
        )
        for store, (resource, selection) in zip(stores, sources, strict=True)
    ]
    running = [asyncio.create_task(reflector.run(), name="watching") for reflector in reflectors]
    try:
        await _wait_for_lists(watch, reflectors)
        for store in stores:
            watch.follow(store)
        watch.begin_changes()
        yield watch
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _wait_for_lists(watch: HubWatch, reflectors: Sequence[Reflector[Json]]) -> None:
    """Raises the first error of one of them."""
    failing = asyncio.ensure_future(watch.next_changes())
    try:
        for reflector in reflectors:
            listing = asyncio.ensure_future(reflector.wait_for_sync())
            await asyncio.wait({listing, failing}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                listing.cancel()
                failing.result()
    finally:
        failing.cancel()


def _build_codec(resource: Resource) -> Codec[Json]:
    return Codec(partial(_read, {"apiVersion": resource.api_version, "kind": resource.kind}), _find_metadata)


def _read(typed: Json, document: bytes) -> Json:
    return {**typed, **json.loads(document)}


def _find_metadata(document: Json) -> Metadata:
    metadata = document["metadata"]
    name, namespace, uid, version = (
        str(metadata.get(part) or "") for part in ("name", "namespace", "uid", "resourceVersion")
    )
    return Metadata(name, namespace, uid, version)
