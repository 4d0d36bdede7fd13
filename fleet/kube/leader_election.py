"""Leader election: at most one process leads at a time, despite faults of the server, the network or the clocks.

Other candidates may take the lease when they have observed no renewal for its whole duration, each by its own clock,
and they cannot observe our last renewal before we send it. So leadership is counted from the moment *before* a
successful renewal was sent, on a clock that never jumps, and it ends at the renew deadline, which is shorter than the
duration. No response of the server can prolong it: a renewal that fails, hangs or is answered too late does not extend
it.

When leadership ends, its fence closes and the work is cancelled. Between the renew deadline and the end of the lease
the work has time to stop; writes in flight are cut off when the lease may expire. A fence cannot call back a request
that was sent: therefore writes also carry versions or uids as preconditions.

A candidate measures the lease of another from when it observed the lease change, never from the times in the lease.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from fleet.clock import Clock
from fleet.errors import (
    ApiError,
    Conflict,
    DeadlineExceeded,
    LeadershipLost,
    NotFound,
    NotLeading,
    UnreadableAnswer,
)
from fleet.kube.api import LEASE_CLASS, Api, Method, Request
from fleet.kube.backoff import Jitter
from fleet.kube.resource import Resource

R = TypeVar("R")

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
_RELEASE_DEADLINE: Final = 5.0
"""Seconds, for all requests that it takes."""


@dataclass(frozen=True, slots=True)
class LeaseDurations:
    """In seconds."""

    duration: int = 60
    """After this without a renewal others may lead."""
    renew_deadline: float = 45.0
    """After this without a renewal we stop leading."""
    retry: float = 5.0
    """Between two renewals, and between two attempts to acquire."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.duration:
            raise ValueError(
                f"a lease needs 0 < retry < renew deadline < duration, not {self.retry:g}, {self.renew_deadline:g}, "
                f"{self.duration}"
            )

    @property
    def attempt(self) -> float:
        """The deadline of one request: a hung one must leave time for a retry."""
        return self.renew_deadline / 3


class Leadership:
    """Whether this process leads, at any moment, without a request."""

    def __init__(self, clock: Clock, terms: LeaseDurations) -> None:
        self._clock = clock
        self._terms = terms
        self._renewed_at: float | None = None

    def extend(self, sent_at: float) -> None:
        """After the success of a renewal that was sent at that time."""
        self._renewed_at = sent_at

    def end(self) -> None:
        self._renewed_at = None

    @property
    def remaining(self) -> float:
        """Seconds for which we lead if no renewal succeeds; 0 when we do not lead."""
        return self._seconds_left(self._terms.renew_deadline)

    def fence(self) -> float:
        """Raises if we do not lead. Returns the seconds after which a write that starts now must have ended."""
        if not self.remaining:
            raise NotLeading("this process does not hold the lease, or may have lost it: nothing is written")
        return self._seconds_left(self._terms.duration)

    def _seconds_left(self, seconds: float) -> float:
        if self._renewed_at is None:
            return 0.0
        return max(0.0, self._renewed_at + seconds - self._clock.monotonic())


@dataclass(frozen=True, slots=True)
class FencedApi:
    """An `Api` that lets writes pass only while we lead, and none longer than the lease is certain to last."""

    api: Api
    leadership: Leadership

    async def call(self, request: Request) -> bytes:
        if request.is_write:
            left = self.leadership.fence()
            request = replace(request, deadline=min(request.deadline, left), guard=self.leadership.fence)
        return await self.api.call(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.api.stream(request)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a lease that every renewal changes."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@dataclass(frozen=True, slots=True)
class _Lease:
    document: dict[str, Any]
    spec: _Spec

    @property
    def holder(self) -> str:
        return self.spec.holder_identity or ""


@dataclass(frozen=True, slots=True)
class _Observation:
    spec: _Spec
    at: float

    def has_expired(self, now: float) -> bool:
        return now - self.at > (self.spec.lease_duration_seconds or 0)


class LeaderElector:
    """One candidate. `identity` must be this process's alone: `unique_identity` makes one."""

    def __init__(
        self,
        api: Api,
        key: str,
        *,
        identity: str,
        clock: Clock,
        jitter: Jitter,
        terms: LeaseDurations | None = None,
        on_problem: Callable[[ApiError], None] | None = None,
        may_release: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_release` is called when the work has ended: while a write of ours may still be applied, the lease has to
        expire, so that no other process leads before that."""
        self.identity = identity
        self.terms = terms or LeaseDurations()
        self._requests = _Requests(api, key, deadline=self.terms.attempt)
        self._key = key
        self._clock = clock
        self._jitter = jitter
        self._on_problem = on_problem or (lambda _: None)
        self._may_release = may_release
        self._observation: _Observation | None = None
        self._ours: _Lease | None = None

    async def lead(self, work: Callable[[Leadership], Awaitable[R]]) -> R:
        """Waits for the lease, works while it holds, and releases it.

        Raises LeadershipLost if the lease was lost before the work was done; the work has been cancelled then.
        """
        leadership = await self._acquire()
        try:
            return await self._work(work, leadership)
        finally:
            leadership.end()
            if self._may_release():
                await self._release()

    async def _work(self, work: Callable[[Leadership], Awaitable[R]], leadership: Leadership) -> R:
        try:
            async with asyncio.TaskGroup() as group:
                guards = (
                    group.create_task(self._renew_periodically(leadership), name=f"renewing lease {self._key}"),
                    group.create_task(self._wait_for_expiry(leadership), name=f"guarding lease {self._key}"),
                )
                result = await work(leadership)
                for guard in guards:
                    guard.cancel()
        except BaseExceptionGroup as several:
            # Both guards may fail at the same moment. An error of the work itself is more helpful than either.
            lost, others = several.split(LeadershipLost)
            error = (others or lost or several).exceptions[0]
            raise error from error.__cause__
        return result

    # --- acquiring ----------------------------------------------------------------------------------------------------

    async def _acquire(self) -> Leadership:
        leadership = Leadership(self._clock, self.terms)
        while True:
            try:
                sent_at = await self._try_to_acquire()
            except ApiError as error:
                self._on_problem(error)
            else:
                if sent_at is not None:
                    leadership.extend(sent_at)
                if leadership.remaining:
                    return leadership
            await self._clock.sleep(self.terms.retry * (1 + 0.2 * self._jitter()))

    async def _try_to_acquire(self) -> float | None:
        """When the request was sent that made us the leader; None if another process leads."""
        lease = await self._requests.get()
        if lease is not None and not self._is_free(lease):
            return None
        sent_at = self._clock.monotonic()
        self._ours = await self._requests.put(self._build_acquired(lease))
        return sent_at

    def _is_free(self, lease: _Lease) -> bool:
        now = self._clock.monotonic()
        if self._observation is None or self._observation.spec != lease.spec:
            self._observation = _Observation(lease.spec, now)
        return lease.holder in ("", self.identity) or self._observation.has_expired(now)

    def _build_acquired(self, lease: _Lease | None) -> dict[str, Any]:
        now = _format_microtime(self._clock.now())
        before = lease.spec if lease is not None else _Spec(lease_transitions=-1)
        changed = lease is None or lease.holder != self.identity
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.terms.duration,
            "acquireTime": now if changed else before.acquire_time or now,
            "renewTime": now,
            "leaseTransitions": (before.lease_transitions or 0) + changed,
        }
        return _with_spec(lease.document if lease is not None else {}, spec)

    # --- leading ------------------------------------------------------------------------------------------------------

    async def _renew_periodically(self, leadership: Leadership) -> None:
        while True:
            await self._clock.sleep(self.terms.retry)
            try:
                sent_at = await self._renew()
            except ApiError as error:
                self._on_problem(error)
            except LeadershipLost:
                leadership.end()
                raise
            else:
                leadership.extend(sent_at)

    async def _renew(self) -> float:
        try:
            return await self._put_renewal()
        except NotFound as error:
            raise LeadershipLost(f"lease {self._key} was deleted") from error
        except Conflict:
            # The lease was edited, or an earlier renewal of ours arrived although it seemed to fail.
            self._ours = self._require_ours(await self._requests.get())
            return await self._put_renewal()

    async def _put_renewal(self) -> float:
        sent_at = self._clock.monotonic()
        self._ours = await self._requests.put(self._build_acquired(self._ours))
        return sent_at

    def _require_ours(self, lease: _Lease | None) -> _Lease:
        if lease is None:
            raise LeadershipLost(f"lease {self._key} was deleted")
        if lease.holder != self.identity:
            raise LeadershipLost(f"lease {self._key} is held by {lease.holder or 'no process'} now")
        return lease

    async def _wait_for_expiry(self, leadership: Leadership) -> None:
        while left := leadership.remaining:
            await self._clock.sleep(left)
        leadership.end()
        raise LeadershipLost(f"lease {self._key} could not be renewed for {self.terms.renew_deadline:g} s")

    # --- releasing ----------------------------------------------------------------------------------------------------

    async def _release(self) -> None:
        """Safe at any time: the version it carries makes it fail when another process has taken the lease."""
        ours, self._ours = self._ours, None
        if ours is None:
            return
        try:
            async with asyncio.timeout(_RELEASE_DEADLINE):
                try:
                    await self._requests.put(self._build_released(ours))
                except Conflict:
                    await self._requests.put(self._build_released(self._require_ours(await self._requests.get())))
        except LeadershipLost:
            return
        except ApiError as error:
            self._on_problem(error)
        except TimeoutError:
            self._on_problem(DeadlineExceeded(f"lease {self._key} was not released within {_RELEASE_DEADLINE:g} s"))

    def _build_released(self, ours: _Lease) -> dict[str, Any]:
        now = _format_microtime(self._clock.now())
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        return _with_spec(ours.document, spec)


def unique_identity() -> str:
    """Contains the host name for people, and is unique to the process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class _Requests:
    """The requests about one lease. They are not rate limited: being late costs the leadership."""

    api: Api
    key: str
    _: KW_ONLY
    deadline: float

    async def get(self) -> _Lease | None:
        try:
            return _read(await self._call(Method.GET, LEASES.item(self.key)))
        except NotFound:
            return None

    async def put(self, document: dict[str, Any]) -> _Lease:
        """Creates it if the document is new, else replaces the version that the document has."""
        namespace, _, name = self.key.rpartition("/")
        metadata = {**document.get("metadata", {}), "namespace": namespace, "name": name}
        body = {**document, "apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
        if metadata.get("resourceVersion"):
            return _read(await self._call(Method.PUT, LEASES.item(self.key), body))
        return _read(await self._call(Method.POST, LEASES.collection(namespace), body))

    async def _call(self, method: Method, path: str, body: dict[str, Any] | None = None) -> bytes:
        encoded = None if body is None else msgspec.json.encode(body)
        request = Request(method, path, body=encoded, call_class=LEASE_CLASS, deadline=self.deadline)
        return await self.api.call(request)


def _read(body: bytes) -> _Lease:
    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
        return _Lease(document, msgspec.convert(document.get("spec") or {}, _Spec))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableAnswer(f"the server's response is not a Lease: {error}") from error


def _with_spec(document: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {**document, "spec": {**(document.get("spec") or {}), **spec}}


def _format_microtime(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
