"""Recorder of Kubernetes events: short messages about an object, shown by `kubectl describe`.

They are best effort. To emit one costs no request and cannot fail; a task of the recorder sends them, one after the
other; events that cannot be sent are dropped and counted. A repetition within ten minutes raises the count of the
existing event. Events about one object are rate limited, which spares readers and the storage of the API server.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from fleet.clock import Clock, to_nanoseconds
from fleet.errors import AlreadyExists, ApiError, NotFound
from fleet.kube.api import Api, Method, Request
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.client.rate_limiter import RateLimit, TokenBucket
from fleet.kube.objects import MERGE_PATCH
from fleet.kube.resource import Resource
from fleet.model.views import Metadata

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
COMPONENT: Final = "fleet-scheduler"
CALL_CLASS: Final = "events"

_DEFAULT_NAMESPACE: Final = "default"
"""Namespace of events about cluster-scoped objects."""
_REPETITION_WINDOW: Final = 600.0
_CACHE_SIZE: Final = 4096
_MAX_PENDING: Final = 1000
_RATE_LIMIT: Final = RateLimit(rate=1 / 300, burst=25)
_RETRY_BACKOFF: Final = ExponentialBackoff(initial=0.5, maximum=10.0)
_MAX_ATTEMPTS: Final = 4
_LONGEST_NAME: Final = 236
"""253 less what makes the name of an event unique."""
_LONGEST_MESSAGE: Final = 1024
_FLUSH_TIMEOUT: Final = 5.0


class ObjectReference(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    @classmethod
    def of(cls, resource: Resource, metadata: Metadata) -> ObjectReference:
        return cls(
            resource.api_version,
            resource.kind,
            metadata.namespace,
            metadata.name,
            metadata.uid,
            metadata.resource_version,
        )

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The same for every version of the object."""
        return self.kind, self.namespace, self.name, self.uid


_Key = tuple[tuple[str, str, str, str], str, str, str]


@dataclass(slots=True)
class _EventEntry:
    """One event, as often as it happened."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    first: datetime
    last: datetime
    last_emitted: float
    """On a clock that never jumps."""
    name: str
    _: KW_ONLY
    count: int = 1
    is_created: bool = field(default=False)
    """Whether the hub has it already."""


class EventRecorder:
    def __init__(
        self,
        api: Api,
        *,
        clock: Clock,
        component: str = COMPONENT,
        instance: str = "",
        on_dropped: Callable[[], None] = lambda: None,
    ) -> None:
        self.dropped = 0
        """Events that were never sent."""
        self._api = api
        self._clock = clock
        self._component = component
        self._instance = instance
        self._on_dropped = on_dropped
        self._number = 0
        self._recent: OrderedDict[_Key, _EventEntry] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, str, str], TokenBucket] = OrderedDict()
        self._pending: OrderedDict[_Key, _EventEntry] = OrderedDict()
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    # --- emitting -----------------------------------------------------------------------------------------------------

    def emit(self, about: ObjectReference, type: str, reason: str, message: str) -> None:
        """`type` is NORMAL or WARNING. Returns at once."""
        key = (about.identity, type, reason, _truncate(message))
        if not self._is_allowed(about) or (len(self._pending) >= _MAX_PENDING and key not in self._pending):
            self._drop()
            return
        entry = self._find_repeated(key) or self._build_entry(key, about)
        self._cache(key, entry)
        self._pending[key] = entry
        self._has_work.set()
        self._is_idle.clear()

    def _is_allowed(self, about: ObjectReference) -> bool:
        bucket = self._buckets.get(about.identity)
        if bucket is None:
            bucket = self._buckets[about.identity] = TokenBucket(_RATE_LIMIT)
        self._buckets.move_to_end(about.identity)
        if len(self._buckets) > _CACHE_SIZE:
            self._buckets.popitem(last=False)
        if bucket.reserve(to_nanoseconds(self._clock.monotonic())):
            bucket.cancel()
            return False
        return True

    def _find_repeated(self, key: _Key) -> _EventEntry | None:
        entry, now = self._recent.get(key), self._clock.monotonic()
        if entry is None or now - entry.last_emitted > _REPETITION_WINDOW:
            return None
        entry.count += 1
        entry.last, entry.last_emitted = self._clock.now(), now
        return entry

    def _build_entry(self, key: _Key, about: ObjectReference) -> _EventEntry:
        _, type, reason, message = key
        now = self._clock.now()
        self._number += 1
        unique = f"{key}{now.isoformat()}{self._instance}{self._number}"
        suffix = hashlib.sha256(unique.encode()).hexdigest()[:16]
        name = f"{about.name[:_LONGEST_NAME].rstrip('.-')}.{suffix}"
        return _EventEntry(about, type, reason, message, now, now, self._clock.monotonic(), name)

    def _cache(self, key: _Key, entry: _EventEntry) -> None:
        self._recent[key] = entry
        self._recent.move_to_end(key)
        if len(self._recent) > _CACHE_SIZE:
            self._recent.popitem(last=False)

    def _drop(self) -> None:
        self.dropped += 1
        self._on_dropped()

    # --- sending ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._has_work.wait()
            key, entry = self._pending.popitem(last=False)
            if not self._pending:
                self._has_work.clear()
            await self._send_with_retries(key, entry)
            if not self._pending:
                self._is_idle.set()

    async def flush(self) -> None:
        """Returns when everything is sent or dropped, or after a few seconds. Needs `run` to be running."""
        try:
            async with asyncio.timeout(_FLUSH_TIMEOUT):
                await self._is_idle.wait()
        except TimeoutError:
            return

    async def _send_with_retries(self, key: _Key, entry: _EventEntry) -> None:
        for attempt in range(_MAX_ATTEMPTS):
            try:
                await self._send(entry)
            except Exception as error:  # no error about an event may end the process
                if not isinstance(error, ApiError) or not error.retriable or attempt == _MAX_ATTEMPTS - 1:
                    break
                await self._clock.sleep(max(_RETRY_BACKOFF.compute_delay(attempt), error.retry_after or 0.0))
            else:
                return
        self._forget(key, entry)
        self._drop()

    async def _send(self, entry: _EventEntry) -> None:
        if entry.is_created:
            try:
                await self._call(Method.PATCH, self._path(entry, entry.name), _build_repetition(entry))
            except NotFound:
                entry.is_created = False  # events do not live long
            else:
                return
        with suppress(AlreadyExists):  # an earlier attempt arrived although it seemed to fail
            await self._call(Method.POST, self._path(entry), self._build_document(entry))
        entry.is_created = True

    def _forget(self, key: _Key, entry: _EventEntry) -> None:
        """An event that could not be sent is a new one when it happens again."""
        if not entry.is_created and self._recent.get(key) is entry:
            del self._recent[key]

    def _path(self, entry: _EventEntry, name: str = "") -> str:
        namespace = entry.about.namespace or _DEFAULT_NAMESPACE
        return EVENTS.item(f"{namespace}/{name}") if name else EVENTS.collection(namespace)

    async def _call(self, method: Method, path: str, body: dict[str, Any]) -> None:
        content_type = MERGE_PATCH if method is Method.PATCH else "application/json"
        encoded = msgspec.json.encode(body)
        await self._api.call(Request(method, path, body=encoded, content_type=content_type, call_class=CALL_CLASS))

    def _build_document(self, entry: _EventEntry) -> dict[str, Any]:
        about = entry.about
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
        }
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": entry.name, "namespace": about.namespace or _DEFAULT_NAMESPACE},
            "involvedObject": {name: value for name, value in involved.items() if value},
            "type": entry.type,
            "reason": entry.reason,
            "message": entry.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": _format_time(entry.first),
            **_build_repetition(entry),
        }


def _build_repetition(entry: _EventEntry) -> dict[str, Any]:
    return {"count": entry.count, "lastTimestamp": _format_time(entry.last)}


def _format_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _truncate(message: str) -> str:
    """At most so many bytes, without half a character at the end."""
    encoded = message.encode(errors="replace")
    if len(encoded) <= _LONGEST_MESSAGE:
        return encoded.decode()
    return encoded[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "…"
