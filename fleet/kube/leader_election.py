"""Leader election: at most one process leads at a time, despite faults of the server, the network or the clocks.

Other candidates may take the lease when they have observed no renewal for its whole duration, each by its own clock,
and they cannot observe our last renewal before we send it. So leadership is counted from the moment *before* a
successful renewal was sent, on a clock that never jumps, and it ends at the renew deadline, which is shorter than the
duration. No response of the server can prolong it: a renewal that fails, hangs or is answered too late does not extend
it.

When leadership ends, its fence closes and the work is cancelled. Between the renew deadline and the end of the lease
the work has time to stop; writes in flight are cut off when the lease may expire. A fence cannot call back a request
that was sent: therefore writes also carry versions or uids as preconditions.

A candidate measures the lease of another from when it observed the lease change, never from the times in the lease, and
by the duration in the lease, which may be that of another program. It watches the lease, so that it acquires a released
one at once and an expired one when it expires. A watch may fail or be silent: the lease is also read periodically.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from msgspec import structs

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import (
    ApiError,
    Conflict,
    DeadlineExceeded,
    LeadershipLost,
    NotFound,
    NotLeading,
)
from fleet.kube.api import Api, Request
from fleet.kube.backoff import Jitter
from fleet.kube.lease import Lease, LeaseRequests, LeaseSpec
from fleet.model.timestamps import timestamp_or_none

R = TypeVar("R")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_RELEASE_DEADLINE: Final = 5.0
"""Seconds, for all requests that it takes."""
_EXPIRED_FOR: Final = 0.05
"""Seconds after which an expired lease is acquired."""
_LONGEST_WATCH: Final = 360.0
"""Seconds after which a watch that the server did not end is given up."""
_OF_FLEET: Final = "_fleet-"
"""In each identity: the hub agent of KubeFleet takes the same lease, under a name of the same form."""


@dataclass(frozen=True, slots=True)
class LeaseDurations:
    """In seconds."""

    duration: int = 15
    """After this without a renewal others may lead."""
    renew_deadline: float = 10.0
    """After this without a renewal we stop leading."""
    retry: float = 2.0
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
        self.epoch = 0
        """When the lease was acquired, in microseconds since 1970: greater than that of every leadership before."""

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
            request = structs.replace(request, deadline=min(request.deadline, left), guard=self.leadership.fence)
        return await self.api.call(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.api.stream(request)


@dataclass(frozen=True, slots=True)
class _Observation:
    spec: LeaseSpec
    version: str
    at: float

    def expires_at(self, default: float) -> float:
        """`default` is the duration of a lease that names none."""
        return self.at + (self.spec.lease_duration_seconds or default)


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
        self._requests = LeaseRequests(api, key, deadline=self.terms.attempt)
        self._key = key
        self._clock = clock
        self._jitter = jitter
        self._on_problem = on_problem or (lambda _: None)
        self._may_release = may_release
        self._observation: _Observation | None = None
        self._observed = asyncio.Event()
        self._freed = asyncio.Event()
        self._ours: Lease | None = None

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
        watching = asyncio.create_task(self._watch_periodically(), name=f"watching lease {self._key}")
        try:
            return await self._acquire_by_turns()
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _acquire_by_turns(self) -> Leadership:
        leadership = Leadership(self._clock, self.terms)
        while True:
            self._freed.clear()
            try:
                sent_at = await self._try_to_acquire()
            except ApiError as error:
                self._on_problem(error)
            else:
                if sent_at is not None and self._ours is not None:
                    leadership.epoch = _read_microtime(self._ours.spec.acquire_time)
                    leadership.extend(sent_at)
                if leadership.remaining:
                    return leadership
            await self._wait_for_turn()

    async def _wait_for_turn(self) -> None:
        """Until the lease is free or expires, at most for the retry period."""
        seconds = self.terms.retry * (1 + 0.2 * self._jitter())
        if self._observation is not None:
            until_expired = self._observation.expires_at(self.terms.duration) + _EXPIRED_FOR - self._clock.monotonic()
            if until_expired > 0:
                seconds = min(seconds, until_expired)
        tasks = {asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(self._freed.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _watch_periodically(self) -> None:
        """A failure only costs time: the lease is also read periodically, and that reports what is wrong."""
        await self._observed.wait()
        while True:
            try:
                async with asyncio.timeout(_LONGEST_WATCH):
                    await self._watch()
            except (ApiError, TimeoutError):
                pass
            await self._clock.sleep(self.terms.retry)

    async def _watch(self) -> None:
        assert self._observation is not None
        async for lease in self._requests.watch(self._observation.version):
            self._observe(lease)
            if not lease.holder:
                self._freed.set()

    def _observe(self, lease: Lease) -> _Observation:
        now, seen = self._clock.monotonic(), self._observation
        at = now if seen is None or seen.spec != lease.spec else seen.at
        self._observation = _Observation(lease.spec, lease.version, at)
        self._observed.set()
        return self._observation

    async def _try_to_acquire(self) -> float | None:
        """When the request was sent that made us the leader; None if another process leads."""
        lease = await self._requests.get()
        if lease is not None and not self._is_free(lease):
            return None
        sent_at = self._clock.monotonic()
        self._ours = await self._requests.put(self._build_acquired(lease))
        return sent_at

    def _is_free(self, lease: Lease) -> bool:
        expires_at = self._observe(lease).expires_at(self.terms.duration)
        return lease.holder in ("", self.identity) or self._clock.monotonic() > expires_at

    def _build_acquired(self, lease: Lease | None) -> dict[str, Any]:
        now = _format_microtime(self._clock.now())
        before = lease.spec if lease is not None else LeaseSpec(lease_transitions=-1)
        changed = lease is None or lease.holder != self.identity
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.terms.duration,
            "acquireTime": self._next_acquire_time(before) if changed else before.acquire_time or now,
            "renewTime": now,
            "leaseTransitions": (before.lease_transitions or 0) + changed,
        }
        return _with_spec(lease.document if lease is not None else {}, spec)

    def _next_acquire_time(self, before: LeaseSpec) -> str:
        """Later than that of every leadership before, also if the clock of another process is ahead of ours."""
        now = epoch_nanoseconds(self._clock) // 1000
        chosen = max(now, _read_microtime(before.acquire_time) + 1)
        return _format_microtime(_EPOCH + timedelta(microseconds=min(chosen, _LATEST)))

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

    def _require_ours(self, lease: Lease | None) -> Lease:
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

    def _build_released(self, ours: Lease) -> dict[str, Any]:
        now = _format_microtime(self._clock.now())
        acquired = self._next_acquire_time(ours.spec)
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": acquired, "renewTime": now}
        return _with_spec(ours.document, spec)


def unique_identity() -> str:
    """Contains the host name for people, and is unique to the process."""
    return f"{socket.gethostname()}{_OF_FLEET}{uuid.uuid4()}"


def is_fleet(identity: str) -> bool:
    """Whether `unique_identity` made it."""
    return _OF_FLEET in identity


def _with_spec(document: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {**document, "spec": {**(document.get("spec") or {}), **spec}}


def _read_microtime(text: str | None) -> int:
    """Microseconds since 1970; 0 if it is not a time."""
    return (timestamp_or_none(text) or 0) // 1000


def _format_microtime(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
