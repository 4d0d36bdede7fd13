"""Policy snapshots: one object per policy of a placement, one of them labeled as the latest.

A new snapshot makes every binding obsolete, so one is created only if the policy changed. The number of clusters does
not count: it is stored in an annotation, like the placement's generation.

Replacing the latest takes several writes, and the process may end between any two of them. No state is kept for that:
without a latest snapshot the one with the greatest index takes its place, and comparing its policy shows what is left
to do. This is only correct on the newest state, so it is never concluded from the cache.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

from fleet.cached import cached_property
from fleet.errors import AlreadyExists, NotFound, StaleInputs
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.objects import RetryPolicy, call_with_retries, update_with_retries
from fleet.kube.resource import join_key, key_of
from fleet.kube.scopes import owner_key
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_N,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
    WORKLOAD_LIMITS,
    WORKLOAD_REMARKS,
    WORKLOAD_REQUESTS,
)
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Observed, Placement, PolicySnapshot
from fleet.placement.deletion import delete_object
from fleet.placement.reconcile_context import PolicyFields, ReconcileContext, decode_field, read_policy_fields
from fleet.placement.snapshots.hashing import are_policies_equal, is_policy_unchanged, policy_hash

Json = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")

_LARGE: Final = 32 * 1024
"""Bytes from which on a policy is decoded and hashed in a thread: it takes some milliseconds."""
_NAMES_TRIED: Final = 16
_OF_WORKLOADS: Final = (WORKLOAD_REQUESTS, WORKLOAD_LIMITS, WORKLOAD_REMARKS)
NO_WORKLOADS: Final[Mapping[str, str]] = MappingProxyType({})


class SeveralLatest(StaleInputs):
    """Only one snapshot may be the latest, and the controller cannot decide which."""


class _OwnerReference(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    owner_references: tuple[_OwnerReference, ...] = ()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    policy: msgspec.Raw = msgspec.Raw(b"")
    policy_hash: str = ""


class _SnapshotDocument(msgspec.Struct, frozen=True):
    """The fields of a snapshot that the scheduler does not read."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


_decode_document = msgspec.json.Decoder(_SnapshotDocument).decode


@dataclass(frozen=True)
class _Snapshot:
    observed: Observed[PolicySnapshot]

    @cached_property
    def document(self) -> _SnapshotDocument:
        """Decoded for few: to decode all snapshots of a placement takes long where they are large."""
        return _decode_document(self.observed.raw)

    @property
    def name(self) -> str:
        return self.observed.view.metadata.name

    @property
    def index(self) -> int:
        """From the label, because other controllers may use other names; -1 if it cannot be parsed."""
        text = self.observed.view.metadata.label(POLICY_INDEX) or ""
        return int(text) if text.isdecimal() and text.isascii() else -1

    @property
    def is_latest(self) -> bool:
        return self.observed.view.metadata.label(IS_LATEST_SNAPSHOT) == "true"

    @property
    def is_terminating(self) -> bool:
        return bool(self.observed.view.metadata.deletion_timestamp)

    def belongs_to(self, placement: Observed[Placement]) -> bool:
        """False for snapshots of a deleted placement of the same name: the garbage collector will delete them."""
        metadata = placement.view.metadata
        owners = [owner for owner in self.document.metadata.owner_references if owner.name == metadata.name]
        return not owners or any(owner.uid == metadata.uid for owner in owners)

    async def has_policy_of(self, context: ReconcileContext) -> bool:
        """Most often it is as it was written. To decode and hash a large policy takes long."""
        spec, policy = self.document.spec, context.spec.policy
        return (
            spec.policy == policy
            or _drop_count(read_policy_fields(spec.policy)) == _drop_count(context.policy_fields)
            or await _run(policy, _is_equal, spec, policy)
        )


def read_cluster_count(snapshot: PolicySnapshot) -> int | None:
    """The number of clusters of a PickN policy."""
    text = snapshot.metadata.annotation(NUMBER_OF_CLUSTERS) or ""
    return int(text) if text.isdecimal() and text.isascii() else None


class PolicySnapshots:
    def __init__(self, caches: Caches, *, retry_policy: RetryPolicy) -> None:
        self._caches = caches
        self._retry_policy = retry_policy

    async def ensure(self, context: ReconcileContext, workloads: Mapping[str, str]) -> Observed[PolicySnapshot]:
        """Creates or updates the latest snapshot so that it has the policy of the placement, and returns it.

        `workloads` are annotations that tell what the selected workloads need."""
        known = await self._list_snapshots(context, reads_live=context.reads_live)
        current = _find_current(known, context.placement)
        if current is not None and not current.is_latest and not context.reads_live:
            known = await self._list_snapshots(context, reads_live=True)
            current = _find_current(known, context.placement)
        annotations = {**_annotations(context), **workloads}
        if current is None or not await current.has_policy_of(context):
            return await self._replace(context, known, annotations)
        marked = await self._mark_latest(context.kinds, current.observed, annotations)
        limit = context.spec.revision_history_limit
        if len(known) > limit:
            ours = await _list_owned(known, context.placement)
            await self._delete(context.kinds, _find_oldest(ours, keep=limit, sparing=current))
        return marked

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _list_snapshots(self, context: ReconcileContext, *, reads_live: bool) -> list[_Snapshot]:
        """By index, with those that another placement of this name left."""
        kinds, metadata = context.kinds, context.placement.view.metadata
        if reads_live:
            objects = kinds.policy_snapshots.objects
            observed = await objects.list(namespace=metadata.namespace, labels=f"{PARENT_PLACEMENT}={metadata.name}")
            for snapshot in observed:
                kinds.policy_snapshots.store.apply_write(snapshot)
        else:
            observed = self._caches.policy_snapshots(PlacementKey.of(metadata))
        return sorted(map(_Snapshot, observed), key=attrgetter("index", "name"))

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _replace(
        self, context: ReconcileContext, known: Sequence[_Snapshot], annotations: dict[str, str]
    ) -> Observed[PolicySnapshot]:
        """One snapshot always stays until there is a newer one, because the next index is derived from it."""
        kinds, limit = context.kinds, context.spec.revision_history_limit
        ours = await _list_owned(known, context.placement)
        for snapshot in ours:
            if snapshot.is_latest and not snapshot.is_terminating:
                await self._unmark_latest(kinds, snapshot)
        await self._delete(kinds, _find_oldest(ours, keep=max(limit - 1, 1)))
        index = max((snapshot.index for snapshot in ours), default=-1) + 1
        created = await self._create(context, annotations, index=index)
        if limit == 1:
            await self._delete(kinds, _find_oldest(ours, keep=0)[-1:])
        return created

    async def _create(
        self, context: ReconcileContext, annotations: dict[str, str], *, index: int
    ) -> Observed[PolicySnapshot]:
        create, policy = context.kinds.policy_snapshots.objects.create, context.spec.policy
        hash_text = await _run(policy, _hash, policy)
        for candidate in range(index, index + _NAMES_TRIED):
            document = _document(context, hash_text, annotations, index=candidate)
            name = document["metadata"]["name"]
            try:
                return await call_with_retries(partial(create, document), retry_policy=self._retry_policy)
            except AlreadyExists:
                created = await self._find_created(context, name)
            if created is not None:
                return await self._mark_latest(context.kinds, created, annotations)
        raise StaleInputs(f"{_NAMES_TRIED} names for a policy snapshot of {context.key} are taken")

    async def _find_created(self, context: ReconcileContext, name: str) -> Observed[PolicySnapshot] | None:
        """The snapshot with this name if an earlier reconcile created it; None if it belongs to another owner."""
        placement, metadata = context.placement, context.placement.view.metadata
        key = join_key(metadata.namespace, name)
        try:
            holder = _Snapshot(await context.kinds.policy_snapshots.objects.get(key))
        except NotFound as error:
            raise StaleInputs(f"policy snapshot {key} was deleted a moment ago") from error
        is_ours = owner_key(holder.observed.view.metadata) == PlacementKey.of(metadata) and holder.belongs_to(placement)
        if not is_ours or holder.is_terminating:
            return None
        if not await holder.has_policy_of(context):
            raise StaleInputs(f"policy snapshot {key} exists already with another policy")
        return holder.observed

    async def _mark_latest(
        self,
        kinds: PlacementKinds,
        snapshot: Observed[PolicySnapshot],
        annotations: dict[str, str],
    ) -> Observed[PolicySnapshot]:
        labels = {IS_LATEST_SNAPSHOT: "true"}
        marked = await self._revise(kinds, snapshot, labels=labels, annotations=annotations)
        if marked is None:
            raise StaleInputs(f"policy snapshot {snapshot.view.metadata.name} was deleted a moment ago")
        return marked

    async def _unmark_latest(self, kinds: PlacementKinds, snapshot: _Snapshot) -> None:
        await self._revise(kinds, snapshot.observed, labels={IS_LATEST_SNAPSHOT: "false"})

    async def _revise(
        self,
        kinds: PlacementKinds,
        snapshot: Observed[PolicySnapshot],
        *,
        labels: dict[str, str],
        annotations: dict[str, str] | None = None,
    ) -> Observed[PolicySnapshot] | None:
        def revise(metadata: Json) -> Json:
            kept = dict(metadata.get("annotations") or {})
            if annotations is not None:
                kept = {key: text for key, text in kept.items() if key not in _OF_WORKLOADS} | annotations
            return {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}, "annotations": kept}

        def is_revised(metadata: Json) -> bool:
            wanted = revise(metadata)
            return all((metadata.get(field) or {}) == wanted[field] for field in ("labels", "annotations"))

        def change(document: Json) -> Json | None:
            metadata = document["metadata"]
            return None if is_revised(metadata) else {**document, "metadata": revise(metadata)}

        seen = snapshot.view.metadata
        if is_revised({"labels": seen.labels, "annotations": seen.annotations}):
            return snapshot  # most often; to decode a large one takes long
        objects = kinds.policy_snapshots.objects
        return await update_with_retries(
            objects, key_of(snapshot.view.metadata), change, retry_policy=self._retry_policy, cached=snapshot
        )

    async def _delete(self, kinds: PlacementKinds, snapshots: Iterable[_Snapshot]) -> None:
        for snapshot in snapshots:
            await delete_object(
                kinds.policy_snapshots.objects, snapshot.observed.view.metadata, retry_policy=self._retry_policy
            )


def _find_current(known: Sequence[_Snapshot], placement: Observed[Placement]) -> _Snapshot | None:
    alive = [snapshot for snapshot in known if not snapshot.is_terminating]
    latest = [snapshot for snapshot in alive if snapshot.is_latest and snapshot.belongs_to(placement)]
    if len(latest) > 1:
        names = ", ".join(snapshot.name for snapshot in latest)
        raise SeveralLatest(f"policy snapshots {names} are all marked as the latest; exactly one may be")
    return latest[0] if latest else next((each for each in reversed(alive) if each.belongs_to(placement)), None)


async def _list_owned(known: Sequence[_Snapshot], placement: Observed[Placement]) -> list[_Snapshot]:
    """In a thread where they are large."""

    def list_owned() -> list[_Snapshot]:
        return [snapshot for snapshot in known if snapshot.belongs_to(placement)]

    is_large = sum(len(snapshot.observed.raw) for snapshot in known) > _LARGE
    return await asyncio.to_thread(list_owned) if is_large else list_owned()


def _find_oldest(known: Sequence[_Snapshot], *, keep: int, sparing: _Snapshot | None = None) -> list[_Snapshot]:
    alive = [snapshot for snapshot in known if not snapshot.is_terminating]
    return [snapshot for snapshot in alive[: max(0, len(alive) - keep)] if snapshot is not sparing]


# --- the object -------------------------------------------------------------------------------------------------------


def _document(context: ReconcileContext, hash_text: str, annotations: dict[str, str], *, index: int) -> Json:
    metadata = context.placement.view.metadata
    spec: Json = {"policyHash": _encode_hash(hash_text)}
    if context.policy_fields is not None:
        spec["policy"] = context.spec.policy
    return {
        "metadata": {
            "name": f"{metadata.name}-{index}",
            **({"namespace": metadata.namespace} if metadata.namespace else {}),
            "labels": {PARENT_PLACEMENT: metadata.name, IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: str(index)},
            "annotations": annotations,
            "ownerReferences": [build_owner_reference(context.kinds, context.placement)],
        },
        "spec": spec,
    }


def build_owner_reference(kinds: PlacementKinds, placement: Observed[Placement]) -> Json:
    """A controller reference to the placement, so that the garbage collector deletes the object with it."""
    resource, metadata = kinds.scope.placement, placement.view.metadata
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _annotations(context: ReconcileContext) -> dict[str, str]:
    """Without a number where the policy has none: the scheduler reports that to the user."""
    annotations = {PLACEMENT_GENERATION: str(context.generation)}
    fields = context.policy_fields or {}
    if decode_field(fields, "placementType") == PICK_N and "numberOfClusters" in fields:
        annotations[NUMBER_OF_CLUSTERS] = str(decode_field(fields, "numberOfClusters"))
    return annotations


# --- large policies ---------------------------------------------------------------------------------------------------


async def _run(policy: msgspec.Raw, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Beside the event loop where the policy is large."""
    if len(bytes(policy)) > _LARGE:
        return await asyncio.to_thread(function, *args, **named)
    return function(*args, **named)


def _drop_count(policy: PolicyFields | None) -> PolicyFields | None:
    return policy and {name: text for name, text in policy.items() if name != "numberOfClusters"}


def _is_equal(spec: _Spec, policy: msgspec.Raw) -> bool:
    known, wanted = _decode(spec.policy), _decode(policy)
    if is_policy_unchanged(known, wanted):
        return True
    return spec.policy_hash == _encode_hash(policy_hash(wanted)) or are_policies_equal(known, wanted)


def _hash(policy: msgspec.Raw) -> str:
    return policy_hash(_decode(policy))


def _decode(policy: msgspec.Raw) -> Json | None:
    decoded: Json | None = msgspec.json.decode(policy) if bytes(policy) else None
    return decoded


def _encode_hash(hash_text: str) -> str:
    """The field is of type bytes and holds the hexadecimal text, hence base64."""
    return base64.b64encode(hash_text.encode()).decode()
