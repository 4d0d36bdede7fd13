"""Kubernetes events: short messages about an object, for people who look at it with kubectl.

They are best effort. To emit one costs no request and cannot fail; a task of the recorder sends them, one after the
other, and what cannot be sent is dropped and counted. The same thing said again within ten minutes raises the count of
the event that is there. An object that causes too many events falls silent for a while: nobody reads the hundredth, and
the API server has better things to store.
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

_HOME: Final = "default"
"""Where events about cluster-scoped objects live."""
_REPEATED_WITHIN: Final = 600.0
_REMEMBERED: Final = 4096
_WAITING: Final = 1000
_SPAM: Final = RateLimit(rate=1 / 300, burst=25)
_RETRIES: Final = ExponentialBackoff(initial=0.5, maximum=10.0)
_ATTEMPTS: Final = 4
_LONGEST_NAME: Final = 236
"""253 less what makes the name of an event unique."""
_LONGEST_MESSAGE: Final = 1024
_FLUSHING: Final = 5.0


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
class _Entry:
    """One event, as often as it happened."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    first: datetime
    last: datetime
    said_at: float
    """When it happened last, on a clock that never jumps."""
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
        """Events that nobody will see."""
        self._api = api
        self._clock = clock
        self._component = component
        self._instance = instance
        self._on_dropped = on_dropped
        self._number = 0
        self._known: OrderedDict[_Key, _Entry] = OrderedDict()
        self._allowances: OrderedDict[tuple[str, str, str, str], TokenBucket] = OrderedDict()
        self._waiting: OrderedDict[_Key, _Entry] = OrderedDict()
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    # --- telling ------------------------------------------------------------------------------------------------------

    def emit(self, about: ObjectReference, type: str, reason: str, message: str) -> None:
        """`type` is NORMAL or WARNING. Returns at once."""
        key = (about.identity, type, reason, _shortened(message))
        if not self._is_allowed(about) or (len(self._waiting) >= _WAITING and key not in self._waiting):
            self._drop()
            return
        entry = self._repeated(key) or self._new(key, about)
        self._remember(key, entry)
        self._waiting[key] = entry
        self._has_work.set()
        self._is_idle.clear()

    def _is_allowed(self, about: ObjectReference) -> bool:
        bucket = self._allowances.get(about.identity)
        if bucket is None:
            bucket = self._allowances[about.identity] = TokenBucket(_SPAM)
        self._allowances.move_to_end(about.identity)
        if len(self._allowances) > _REMEMBERED:
            self._allowances.popitem(last=False)
        if bucket.reserve(to_nanoseconds(self._clock.elapsed())):
            bucket.cancel()
            return False
        return True

    def _repeated(self, key: _Key) -> _Entry | None:
        entry, now = self._known.get(key), self._clock.elapsed()
        if entry is None or now - entry.said_at > _REPEATED_WITHIN:
            return None
        entry.count += 1
        entry.last, entry.said_at = self._clock.now(), now
        return entry

    def _new(self, key: _Key, about: ObjectReference) -> _Entry:
        _, type, reason, message = key
        now = self._clock.now()
        self._number += 1
        unique = f"{key}{now.isoformat()}{self._instance}{self._number}"
        suffix = hashlib.sha256(unique.encode()).hexdigest()[:16]
        name = f"{about.name[:_LONGEST_NAME].rstrip('.-')}.{suffix}"
        return _Entry(about, type, reason, message, now, now, self._clock.elapsed(), name)

    def _remember(self, key: _Key, entry: _Entry) -> None:
        self._known[key] = entry
        self._known.move_to_end(key)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def _drop(self) -> None:
        self.dropped += 1
        self._on_dropped()

    # --- sending ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._has_work.wait()
            key, entry = self._waiting.popitem(last=False)
            if not self._waiting:
                self._has_work.clear()
            await self._deliver(key, entry)
            if not self._waiting:
                self._is_idle.set()

    async def flush(self) -> None:
        """Returns when everything is sent or dropped, or after a few seconds. Needs `run` to be running."""
        try:
            async with asyncio.timeout(_FLUSHING):
                await self._is_idle.wait()
        except TimeoutError:
            return

    async def _deliver(self, key: _Key, entry: _Entry) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await self._send(entry)
            except Exception as error:  # whatever it is, no event is worth the process
                if not isinstance(error, ApiError) or not error.retriable or attempt == _ATTEMPTS - 1:
                    break
                await self._clock.sleep(max(_RETRIES.compute_delay(attempt), error.retry_after or 0.0))
            else:
                return
        self._forget(key, entry)
        self._drop()

    async def _send(self, entry: _Entry) -> None:
        if entry.is_created:
            try:
                await self._call(Method.PATCH, self._path(entry, entry.name), _repetition(entry))
            except NotFound:
                entry.is_created = False  # events do not live long
            else:
                return
        with suppress(AlreadyExists):  # an earlier attempt arrived although it seemed to fail
            await self._call(Method.POST, self._path(entry), self._document(entry))
        entry.is_created = True

    def _forget(self, key: _Key, entry: _Entry) -> None:
        """What could not be told is new when it happens again."""
        if not entry.is_created and self._known.get(key) is entry:
            del self._known[key]

    def _path(self, entry: _Entry, name: str = "") -> str:
        namespace = entry.about.namespace or _HOME
        return EVENTS.item(f"{namespace}/{name}") if name else EVENTS.collection(namespace)

    async def _call(self, method: Method, path: str, body: dict[str, Any]) -> None:
        content_type = MERGE_PATCH if method is Method.PATCH else "application/json"
        encoded = msgspec.json.encode(body)
        await self._api.call(Request(method, path, body=encoded, content_type=content_type, call_class=CALL_CLASS))

    def _document(self, entry: _Entry) -> dict[str, Any]:
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
            "metadata": {"name": entry.name, "namespace": about.namespace or _HOME},
            "involvedObject": {name: value for name, value in involved.items() if value},
            "type": entry.type,
            "reason": entry.reason,
            "message": entry.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": _written(entry.first),
            **_repetition(entry),
        }


def _repetition(entry: _Entry) -> dict[str, Any]:
    return {"count": entry.count, "lastTimestamp": _written(entry.last)}


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _shortened(message: str) -> str:
    """At most so many bytes, without half a character at the end."""
    encoded = message.encode(errors="replace")
    if len(encoded) <= _LONGEST_MESSAGE:
        return encoded.decode()
    return encoded[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "…"
