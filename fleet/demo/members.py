"""Simulated member clusters: they join, report, drift, go stale, recover and leave.

Every MemberCluster on the hub gets a simulated agent, so `kubectl apply` and `kubectl delete` work as on a real fleet.
Clock and random generator are parameters.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Final, TypeVar

import msgspec

from fleet.clock import Clock, epoch_nanoseconds
from fleet.demo.heartbeat_schedule import HeartbeatSchedule
from fleet.demo.locations import LONGEST_FLEET, Location, find_location, location_at
from fleet.demo.member import OWN_NAMESPACES, Document, Member
from fleet.errors import AlreadyExists, ApiError, NotFound
from fleet.kube.api import Api
from fleet.kube.cache.store import Codec
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.objects import RetryPolicy, call_with_retries
from fleet.kube.resource import STATUS
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.keys import MEMBER_CLUSTER_FINALIZER
from fleet.model.timestamps import format_timestamp
from fleet.model.views import MemberCluster

T = TypeVar("T")

SILENT: Final = "demo.fleet/silent"
"""Annotation: with the value "true", the agent of the cluster sends no heartbeats."""

_LOG: Final = logging.getLogger(__name__)
_SHORTEST_TICK: Final = 0.2
_LONGEST_TICK: Final = 1.0
"""Longest delay of the first heartbeat of a new member."""
_AT_ONCE: Final = 16
_JOINING: Final = 32
_CODEC: Final[Codec[MemberCluster]] = Codec(msgspec.json.Decoder(MemberCluster).decode, lambda seen: seen.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBehavior:
    """How members behave, in seconds. `…_every` is an average interval; 0 disables the event."""

    heartbeat: float = 5.0
    heartbeats_per_second: float = 60.0
    """Of all members together; large fleets send heartbeats less often."""
    report: float = 30.0
    """Between two full reports with nodes, load and prices."""
    calm: float = 60.0
    """Initial period in which no member goes stale, leaves or joins."""
    silence_every: float = 90.0
    silence_lasts: float = 60.0
    leave_every: float = 300.0
    join_every: float = 300.0
    leaving_takes: float = 3.0
    spared: frozenset[str] = frozenset()
    """Members that neither go stale nor leave by themselves."""

    def interval(self, members: int) -> float:
        """Between two heartbeats of one member."""
        return max(self.heartbeat, members / self.heartbeats_per_second)


Announce = Callable[[str, str], None]
"""Subject and text."""


def _ignore(about: str, text: str) -> None:
    del about, text


def _no_usage(_: str) -> Mapping[str, int]:
    return {}


def _no_namespaces(_: str) -> Mapping[str, str]:
    return {}


class SimulatedMembers:
    """`namespaces_on` returns the namespaces that were placed on a cluster, and the work that owns each. `usage_on`
    returns what they use there of each resource, beside the load that drifts. `announce` is called when a member goes
    stale, recovers, leaves or joins."""

    def __init__(
        self,
        api: Api,
        *,
        clock: Clock,
        random: Random,
        behavior: MemberBehavior | None = None,
        namespaces_on: Callable[[str], Mapping[str, str]] = _no_namespaces,
        usage_on: Callable[[str], Mapping[str, int]] = _no_usage,
        announce: Announce = _ignore,
    ) -> None:
        self._clock = clock
        self._random = random
        self._size = 0
        self._established = asyncio.Event()
        self._behavior = behavior or MemberBehavior()
        self._namespaces_on = namespaces_on
        self._usage_on = usage_on
        self._announce = announce
        jitter = Random(random.random()).random  # retries must not change the sequence of events
        self._retry_policy = RetryPolicy(clock, jitter)
        self._schedule = HeartbeatSchedule(self._behavior.heartbeat)
        self._members: dict[str, Member] = {}
        self._without_heartbeat: set[str] = set()
        """Members before their first heartbeat."""
        self._reported: dict[str, float] = {}
        self._silent: dict[str, float] = {}
        self._leaving: dict[str, float] = {}
        access = InformerConfig(reads=api, writes=api, clock=clock, jitter=jitter)
        self.clusters: Informer[MemberCluster] = Informer(access, MEMBER_CLUSTERS, _CODEC)
        self.clusters.store.subscribe(self._on_change)

    @property
    def interval(self) -> float:
        """Seconds between two heartbeats of one member."""
        return self._schedule.interval

    async def run(self) -> None:
        """Until cancelled. No heartbeats are sent before `establish` is called."""
        behavior = self._behavior
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.clusters.reflector.run(), name="demo-clusters")
            await self._established.wait()
            tasks.create_task(self._run_heartbeats(), name="demo-heartbeats")
            for every, act in (
                (behavior.silence_every, self._fall_silent),
                (behavior.leave_every, self._leave),
                (behavior.join_every, self._join),
            ):
                if every:
                    tasks.create_task(self._repeat_randomly(every, act), name=f"demo-{act.__name__.strip('_')}")

    async def wait_for_sync(self) -> None:
        await self.clusters.reflector.wait_for_sync()

    async def establish(self, size: int) -> None:
        """Creates missing clusters, and returns after the first heartbeat of each. Never deletes existing clusters."""
        await self.wait_for_sync()
        self._size = max(size, len(self.clusters.store))
        missing = self._size - len(self.clusters.store)
        self._schedule.interval = self._behavior.interval(self._size)
        self._established.set()
        await self._run_concurrently(self._create, list(islice(self._iter_free_locations(), missing)), at_once=_JOINING)
        while self._without_heartbeat:
            await self._clock.sleep(_SHORTEST_TICK)

    # --- informer -----------------------------------------------------------------------------------------------------

    def _on_change(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is None:
            assert old is not None, "a change has a state before or after it"
            self._forget(old.metadata.name)
        elif new.metadata.deletion_timestamp is not None:
            self._schedule.remove(new.metadata.name)
            self._without_heartbeat.discard(new.metadata.name)
            self._leaving.setdefault(new.metadata.name, self._clock.monotonic() + self._behavior.leaving_takes)
        elif new.metadata.name not in self._members:
            self._adopt(new)

    def _adopt(self, seen: MemberCluster) -> None:
        name = seen.metadata.name
        self._members[name] = Member.resume(find_location(name), seen, self._random, now=self._now())
        self._schedule.add(name, self._clock.monotonic())
        self._without_heartbeat.add(name)

    def _forget(self, name: str) -> None:
        self._schedule.remove(name)
        self._without_heartbeat.discard(name)
        for known in (self._members, self._reported, self._silent, self._leaving):
            known.pop(name, None)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    async def _run_heartbeats(self) -> None:
        while True:
            now = self._clock.monotonic()
            await self._run_concurrently(self._send_heartbeat, self._schedule.due(now))
            await self._run_concurrently(
                self._remove_finalizer, [name for name, due in self._leaving.items() if due <= now]
            )
            await self._clock.sleep(min(max(self._schedule.wait(now), _SHORTEST_TICK), _LONGEST_TICK))

    async def _send_heartbeat(self, name: str) -> None:
        member, seen = self._members.get(name), self.clusters.store.get(name)
        try:
            if member is not None and seen is not None and not self._is_silent(seen):
                status = {"status": self._status_of(member, seen)}
                await self.clusters.objects.merge_patch(name, status, subresource=STATUS)
        finally:
            self._without_heartbeat.discard(name)

    def _status_of(self, member: Member, seen: MemberCluster) -> Document:
        name, namespaces = seen.metadata.name, self._namespace_changes(seen)
        if not namespaces and not self._report_is_due(name):
            return member.build_heartbeat(self._now())
        member.drift(self._random)
        self._reported[name] = self._clock.monotonic()
        return member.build_status(self._now(), namespaces=namespaces, used=self._usage_on(name))

    def _is_silent(self, seen: MemberCluster) -> bool:
        name = seen.metadata.name
        until = self._silent.get(name)
        if until is not None and until <= self._clock.monotonic():
            del self._silent[name]
            self._announce(f"cluster {name}", "is heard again")
        return name in self._silent or seen.metadata.annotation(SILENT) == "true"

    def _namespace_changes(self, seen: MemberCluster) -> dict[str, str | None]:
        there = seen.status.namespaces or {}
        wanted = {**OWN_NAMESPACES, **self._namespaces_on(seen.metadata.name)}
        changes: dict[str, str | None] = {name: None for name in there if name not in wanted}
        return changes | {name: work for name, work in wanted.items() if there.get(name) != work}

    def _report_is_due(self, name: str) -> bool:
        last = self._reported.get(name)
        return last is None or self._clock.monotonic() - last >= self._behavior.report

    # --- random events ------------------------------------------------------------------------------------------------

    async def _repeat_randomly(self, every: float, act: Callable[[], Awaitable[None]]) -> None:
        await self._clock.sleep(self._behavior.calm)
        while True:
            await self._clock.sleep(self._random.expovariate(1 / every))
            if not self._without_heartbeat:  # else members are still joining
                await self._log_errors(act())

    async def _fall_silent(self) -> None:
        lasts = self._behavior.silence_lasts
        if name := self._pick_member():
            self._silent[name] = self._clock.monotonic() + lasts
            self._announce(f"cluster {name}", f"falls silent for {lasts:.0f} s")

    async def _leave(self) -> None:
        staying = len(self._schedule)
        few = staying <= math.floor(self._size * 3 / 4)
        if not few and (name := self._pick_member()):
            await self.clusters.objects.delete(name)
            self._announce(f"cluster {name}", "leaves the fleet")

    async def _join(self) -> None:
        many = len(self.clusters.store) >= math.ceil(self._size * 5 / 4)
        newcomer = next(self._iter_free_locations(first=self._size), None)
        if newcomer is not None and not many:
            await self._create(newcomer)
            self._announce(f"cluster {newcomer.name}", "joins the fleet")

    def _pick_member(self) -> str | None:
        unchanging = self._silent.keys() | self._behavior.spared
        heard = sorted(name for name in self._members if name in self._schedule and name not in unchanging)
        return self._random.choice(heard) if heard else None

    def _iter_free_locations(self, *, first: int = 0) -> Iterator[Location]:
        """In the order of their numbers, from `first` on and then from 0."""
        numbers = (*range(first, LONGEST_FLEET), *range(first))
        return (free for free in map(location_at, numbers) if free.name not in self.clusters.store)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _create(self, newcomer: Location) -> None:
        member = Member.create(newcomer, self._random, now=self._now())
        document = member.build_document(heartbeat_seconds=min(math.ceil(self.interval), 600))
        with contextlib.suppress(AlreadyExists):  # created by another client, or the response was lost
            await call_with_retries(lambda: self.clusters.objects.create(document), retry_policy=self._retry_policy)

    async def _remove_finalizer(self, name: str) -> None:
        """The last step of a leaving member, after its workloads are removed."""
        seen = self.clusters.store.get(name)
        if seen is None or MEMBER_CLUSTER_FINALIZER not in seen.metadata.finalizers:
            return
        kept = [finalizer for finalizer in seen.metadata.finalizers if finalizer != MEMBER_CLUSTER_FINALIZER]
        patch = {"metadata": {"finalizers": kept, "resourceVersion": seen.metadata.resource_version}}
        await self.clusters.objects.merge_patch(name, patch)

    async def _run_concurrently(
        self, act: Callable[[T], Awaitable[None]], items: Sequence[T], *, at_once: int = _AT_ONCE
    ) -> None:
        """Runs some at the same time; what fails is retried on the next occasion."""
        waiting = iter(items)

        async def work() -> None:
            for item in waiting:
                await self._log_errors(act(item))

        async with asyncio.TaskGroup() as tasks:
            for number in range(min(at_once, len(items))):
                tasks.create_task(work(), name=f"demo-members-{number}")

    async def _log_errors(self, act: Awaitable[None]) -> None:
        try:
            await act
        except NotFound:
            pass  # the member left meanwhile
        except ApiError as error:
            _LOG.info("heartbeat of a simulated member failed: %s", error)

    def _now(self) -> str:
        return format_timestamp(epoch_nanoseconds(self._clock))
