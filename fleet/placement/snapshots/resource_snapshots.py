"""Reconciles resource snapshots: keeps the latest snapshot group of a placement equal to what it selects.

A group is replaced in several writes, and the process may end between any two of them. All state is on the API server:
an incomplete group is completed if the selection is still the same, and without a latest label the group with the
greatest index takes its place. This is only correct on the newest state, so it is never concluded from the cache alone.

A new group starts a rollout, so changes are collected for a while before one is created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

from fleet.errors import AlreadyExists, Conflict, NotFound, StaleInputs
from fleet.kube.informer import InformerConfig
from fleet.kube.objects import Objects, RetryPolicy, call_with_retries
from fleet.kube.resource import Resource, key_of
from fleet.kube.scopes import PlacementScope
from fleet.model.keys import IS_LATEST_SNAPSHOT
from fleet.model.timestamps import SECOND, format_timestamp, timestamp_or_none
from fleet.model.views import Metadata, Observed, Placement, PlacementSpec
from fleet.placement.deletion import delete_object
from fleet.placement.selection.resolution import SelectionResult
from fleet.placement.snapshots.hashing import fingerprint, resources_hash
from fleet.placement.snapshots.snapshot_cache import SnapshotCache, StoredSnapshots
from fleet.placement.snapshots.snapshot_group import (
    CHANGE_SEEN_AT,
    PART_BYTES,
    GroupPlan,
    SnapshotGroup,
    SnapshotView,
    split_objects,
)

EXTERNAL: Final = "External"
_NAMES_TRIED: Final = 16
_SYNC_SECONDS: Final = 10.0
"""Longest wait of a reconcile before it fails and is retried."""

Json = dict[str, Any]


class SeveralLatestGroups(StaleInputs):
    """Only one group may be the latest, and the controller cannot decide which."""


@dataclass(frozen=True, slots=True)
class Pacing:
    """In seconds."""

    minimum_interval: float = 30.0
    """Between the creation of two groups."""
    collection_time: float = 15.0
    """From the first change that is not in the latest group to a new group."""


@dataclass(frozen=True, slots=True)
class EnsureResult:
    """The group that the status of the placement describes."""

    index: int
    names: tuple[str, ...]
    """Of its snapshots, master first."""
    wait_seconds: float | None = None
    """Time until a newer group may be created; None if this one is up to date."""

    @property
    def master(self) -> str:
        return self.names[0]


class ResourceSnapshots:
    """The groups of all placements, cluster-scoped and namespaced."""

    def __init__(
        self,
        access: InformerConfig,
        scopes: Iterable[PlacementScope],
        *,
        retry_policy: RetryPolicy,
        pacing: Pacing | None = None,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._cache = SnapshotCache(access, scopes)
        self._retry_policy = retry_policy
        self._pacing = pacing or Pacing()
        self._part_bytes = part_bytes

    # --- informers ----------------------------------------------------------------------------------------------------

    def subscribe(self, enqueue: Callable[[str], None]) -> None:
        """`enqueue` is called with the key of a placement when another client changed its snapshots."""
        self._cache.subscribe(enqueue)

    async def run(self) -> NoReturn:
        """Until cancelled."""
        await self._cache.run()

    async def wait_for_sync(self) -> None:
        """Returns once all snapshots are cached. `ensure` waits for it; the lookups do not."""
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                await self._cache.wait_for_sync()
        except TimeoutError as error:
            raise StaleInputs("the resource snapshots were not read yet") from error

    def forget(self, key: str) -> None:
        """The placement is gone."""
        self._cache.forget(key)

    # --- lookups ------------------------------------------------------------------------------------------------------

    def snapshots(self) -> Iterable[tuple[Resource, Collection[SnapshotView]]]:
        """All cached snapshots by their kind."""
        return self._cache.all()

    def index_of(self, placement: Observed[Placement], snapshot: str) -> int | None:
        """None for a snapshot that does not exist or has no index."""
        for cache in self._cache.list_cached(placement.view.metadata):
            if cache.name == snapshot and cache.index >= 0:
                return cache.index
        return None

    def resources_of(self, placement: Observed[Placement], index: int) -> list[Json]:
        """The identifiers of the objects in a group, as a status lists them."""
        parts = (part for part in self._cache.list_cached(placement.view.metadata) if part.index == index)
        return [identifier for part in sorted(parts, key=_part_order) for identifier in part.identifiers()]

    def objects(self, namespace: str) -> Objects[SnapshotView]:
        return self._cache.objects(namespace)

    # --- reconciling --------------------------------------------------------------------------------------------------

    async def ensure(
        self,
        metadata: Metadata,
        spec: PlacementSpec,
        selected: SelectionResult,
        *,
        now: int,
        reads_live: bool = False,
    ) -> EnsureResult:
        """Creates, completes or replaces the latest group, unless it is too early for that; `now` in nanoseconds.

        Not for external placements: staged updates create their groups. `reads_live` after a failure, when the cache
        may lack one of our own writes."""
        if spec.strategy.type == EXTERNAL:
            raise ValueError(f"the resource snapshots of {key_of(metadata)} are created by staged updates")
        await self.wait_for_sync()
        contents = (selected_object.content for selected_object in selected.objects)
        parts = split_objects(selected.objects, limit=self._part_bytes)
        plan = GroupPlan(self._cache.owner_resource(metadata), metadata, resources_hash(contents), parts)
        attempt = _EnsureAttempt(self._cache, self._retry_policy, self._pacing, plan, limit=spec.revision_history_limit)
        try:
            with self._cache.ignore_own_changes(metadata):
                return await attempt.run(now, reads_live=reads_live)
        except Conflict as error:
            raise StaleInputs(f"a resource snapshot of {key_of(metadata)} changed meanwhile") from error


@dataclass(slots=True)
class _EnsureAttempt:
    """One attempt to bring the latest group in line with a plan."""

    cache: SnapshotCache
    retry_policy: RetryPolicy
    pacing: Pacing
    plan: GroupPlan
    limit: int

    async def run(self, now: int, *, reads_live: bool) -> EnsureResult:
        known = await self.cache.load_groups(self.plan.placement, reads_live=reads_live)
        current = _find_current(known.groups)
        if current is not None and not current.is_latest and not reads_live:
            known = await self.cache.load_groups(self.plan.placement, reads_live=True)
            current = _find_current(known.groups)
        if current is None:
            return await self._replace(known, None)
        if await self._matches_plan(current):
            return await self._complete(known, current)
        wait = await self._compute_wait(current, now)
        if wait > 0:
            return EnsureResult(current.index, current.names, wait)
        return await self._replace(known, current)

    # --- the same selection -------------------------------------------------------------------------------------------

    async def _matches_plan(self, current: SnapshotGroup) -> bool:
        """Whether the group has the planned objects, or can be completed to have them."""
        if not current.is_complete:
            return current.hash == self.plan.hash and await self._has_planned_parts(current)
        if current.hash == self.plan.hash:
            return True
        return await self.cache.fingerprint(self.plan.placement, current) == fingerprint(self.plan.contents())

    async def _has_planned_parts(self, current: SnapshotGroup) -> bool:
        """Another writer may split the same objects differently; parts of both cannot be combined."""
        if current.size != len(self.plan.parts):
            return False
        for part in current.parts():
            position = 0 if part.subindex is None else part.subindex + 1
            wanted = self.plan.parts[position] if position < len(self.plan.parts) else ()
            there = await self.cache.contents(self.plan.placement, part)
            if fingerprint(there) != fingerprint(selected_object.content for selected_object in wanted):
                return False
        return True

    async def _complete(self, known: StoredSnapshots, current: SnapshotGroup) -> EnsureResult:
        assert current.master is not None
        await self._mark_latest(current.master, latest=True, seen_at=None)
        names = current.names
        if not current.is_complete:
            names = self.plan.names(current.index)
            for subindex, document in self.plan.others(current.index):
                if subindex not in current.others:
                    await self._create_other(document)
        await self._delete_old_groups(known.groups, keep=self.limit, sparing=current)
        return EnsureResult(current.index, names)

    # --- another selection --------------------------------------------------------------------------------------------

    async def _compute_wait(self, current: SnapshotGroup, now: int) -> float:
        """Seconds until a new group may replace this one. Records the time of the first change in an annotation."""
        master = current.master
        if master is None or not master.is_latest:
            return 0.0
        collecting = round(self.pacing.collection_time * SECOND)
        seen_at = timestamp_or_none(master.metadata.annotation(CHANGE_SEEN_AT))
        if collecting and (seen_at is None or seen_at > now + SECOND):  # a time in the future is wrong
            seen_at = -(-now // SECOND) * SECOND
            await self._mark_latest(master, latest=True, seen_at=seen_at)
        created = timestamp_or_none(master.metadata.creation_timestamp) or 0
        due = max(created + round(self.pacing.minimum_interval * SECOND), (seen_at or 0) + collecting)
        return max(0, due - now) / SECOND

    async def _replace(self, known: StoredSnapshots, current: SnapshotGroup | None) -> EnsureResult:
        """One group always stays until there is a newer one, because the next index is derived from it."""
        if current is not None and current.master is not None and current.is_latest:
            await self._mark_latest(current.master, latest=False, seen_at=None)
        await self._delete_old_groups(known.groups, keep=max(self.limit - 1, 1), sparing=current)
        index = await self._create_master(known.next_index)
        for _, document in self.plan.others(index):
            await self._create_other(document)
        if self.limit == 1 and current is not None:
            await self._delete(current)
        return EnsureResult(index, self.plan.names(index))

    # --- writing ------------------------------------------------------------------------------------------------------

    @property
    def _objects(self) -> Objects[SnapshotView]:
        return self.cache.objects(self.plan.placement.namespace)

    async def _create_master(self, index: int) -> int:
        for candidate in range(index, index + _NAMES_TRIED):
            if await self._ensure_created(self.plan.master(candidate)):
                return candidate
        key = key_of(self.plan.placement)
        raise StaleInputs(f"{_NAMES_TRIED} names for a resource snapshot of {key} are taken by others")

    async def _create_other(self, document: Json) -> None:
        if not await self._ensure_created(document):
            raise StaleInputs(f"resource snapshot {document['metadata']['name']} exists already and is not ours")

    async def _ensure_created(self, document: Json) -> bool:
        """True also if an earlier request created it and its response was lost. False if the name is taken."""
        try:
            await call_with_retries(partial(self._objects.create, document), retry_policy=self.retry_policy)
        except AlreadyExists:
            return await self._is_already_created(document["metadata"])
        return True

    async def _is_already_created(self, wanted: Json) -> bool:
        holder = await self.cache.get(self.plan.placement, wanted["name"])
        if holder.is_terminating or not holder.belongs_to(self.plan.placement):
            return False
        if any(holder.metadata.annotation(name) != value for name, value in wanted["annotations"].items()):
            raise StaleInputs(f"resource snapshot {wanted['name']} exists already with another content")
        return True

    async def _mark_latest(self, master: SnapshotView, *, latest: bool, seen_at: int | None) -> None:
        metadata, label = master.metadata, "true" if latest else "false"
        annotation = None if seen_at is None else format_timestamp(seen_at)
        change: Json = {}
        if metadata.label(IS_LATEST_SNAPSHOT) != label:
            change["labels"] = {IS_LATEST_SNAPSHOT: label}
        if metadata.annotation(CHANGE_SEEN_AT) != annotation:
            change["annotations"] = {CHANGE_SEEN_AT: annotation}
        if change:
            await self._patch(metadata, change)

    async def _patch(self, metadata: Metadata, change: Json) -> None:
        """A patch, because the objects inside can be large; with the resource version, for optimistic locking."""
        patch = {"metadata": {"resourceVersion": metadata.resource_version, **change}}
        try:
            await call_with_retries(
                partial(self._objects.merge_patch, key_of(metadata), patch), retry_policy=self.retry_policy
            )
        except NotFound as error:
            raise StaleInputs(f"resource snapshot {metadata.name} was deleted a moment ago") from error

    async def _delete_old_groups(
        self, groups: Sequence[SnapshotGroup], *, keep: int, sparing: SnapshotGroup | None
    ) -> None:
        for group in groups[: max(0, len(groups) - keep)]:
            if group is not sparing:
                await self._delete(group)

    async def _delete(self, group: SnapshotGroup) -> None:
        """Master first: without it, the rest does not count as a group."""
        for part in group.parts():
            await delete_object(self._objects, part.metadata, retry_policy=self.retry_policy)


def _find_current(groups: Sequence[SnapshotGroup]) -> SnapshotGroup | None:
    latest = [master.name for group in groups for master in group.masters if master.is_latest]
    if len(latest) > 1:
        raise SeveralLatestGroups(
            f"resource snapshots {', '.join(latest)} are all marked as the latest; exactly one may be"
        )
    with_master = [group for group in groups if group.masters]
    return next((group for group in with_master if group.is_latest), with_master[-1] if with_master else None)


def _part_order(part: SnapshotView) -> int:
    return -1 if part.subindex is None else part.subindex
