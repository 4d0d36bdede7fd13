"""Finalizer of a placement: deletes its snapshots, then removes the finalizer.

The scheduler deletes bindings and the work generator works; the finalizer does not wait for the members. Every step is
idempotent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fleet.errors import Conflict, NotFound
from fleet.informers.cache import PlacementKinds
from fleet.kube.objects import Objects, RetryPolicy, call_with_retries, update_with_retries
from fleet.kube.resource import key_of, split_key
from fleet.model.keys import PARENT_PLACEMENT, PLACEMENT_CLEANUP
from fleet.model.labels import is_label_value
from fleet.model.views import Metadata, Observed, Placement


async def add_finalizer(
    kinds: PlacementKinds, placement: Observed[Placement], *, retry_policy: RetryPolicy
) -> Observed[Placement] | None:
    """Adds our finalizer, so that no snapshot outlives the placement; None if it is deleted or terminating."""
    if PLACEMENT_CLEANUP in placement.view.metadata.finalizers:
        return placement

    def change(document: dict[str, Any]) -> dict[str, Any] | None:
        metadata = document["metadata"]
        finalizers = metadata.get("finalizers") or []
        if metadata.get("deletionTimestamp") or PLACEMENT_CLEANUP in finalizers:
            return None
        return {**document, "metadata": {**metadata, "finalizers": [*finalizers, PLACEMENT_CLEANUP]}}

    key = key_of(placement.view.metadata)
    claimed = await update_with_retries(
        kinds.placements.objects, key, change, retry_policy=retry_policy, cached=placement
    )
    return None if claimed is None or claimed.view.metadata.deletion_timestamp else claimed


async def delete_snapshots(
    kinds: PlacementKinds,
    resource_snapshots: Objects[Any],
    placement: Observed[Placement],
    *,
    retry_policy: RetryPolicy,
) -> bool:
    """Deletes the snapshots and removes our finalizer. False if the placement does not have it."""
    metadata = placement.view.metadata
    if PLACEMENT_CLEANUP not in metadata.finalizers:
        return False
    if is_label_value(metadata.name):  # with a longer name there cannot be a snapshot or a label selector for it
        labels = f"{PARENT_PLACEMENT}={metadata.name}"
        for objects in (kinds.policy_snapshots.objects, resource_snapshots):
            await _delete_all(objects, namespace=metadata.namespace, labels=labels, retry_policy=retry_policy)
    await _remove_finalizer(kinds, placement, retry_policy=retry_policy)
    return True


async def delete_orphans(
    kinds: PlacementKinds, resource_snapshots: Objects[Any], key: str, *, retry_policy: RetryPolicy
) -> None:
    """Deletes snapshots created while their placement was deleted in spite of our finalizer: an API server that has
    begun to delete an object ignores finalizers added since.

    They are listed before the placement is looked up, so that none can belong to a new placement of that name."""
    namespace, name = split_key(key)
    if not is_label_value(name):
        return
    kept = (kinds.policy_snapshots.objects, resource_snapshots)
    labels = f"{PARENT_PLACEMENT}={name}"
    snapshots = [
        (objects, snapshot) for objects in kept for snapshot in await objects.list(namespace=namespace, labels=labels)
    ]
    if not snapshots or await kinds.placements.objects.find(key) is not None:
        return
    for objects, snapshot in snapshots:
        with suppress(Conflict):  # another object has the name by now
            await delete_object(objects, objects.codec.metadata_of(snapshot), retry_policy=retry_policy)


async def delete_object(objects: Objects[Any], metadata: Metadata, *, retry_policy: RetryPolicy) -> None:
    """Deletes this object. A missing one is ignored; Conflict means that another object has the name by now."""
    with suppress(NotFound):
        await call_with_retries(lambda: objects.delete(key_of(metadata), uid=metadata.uid), retry_policy=retry_policy)


async def _delete_all(objects: Objects[Any], *, namespace: str, labels: str, retry_policy: RetryPolicy) -> None:
    await call_with_retries(
        lambda: objects.delete_collection(namespace=namespace, labels=labels), retry_policy=retry_policy
    )


async def _remove_finalizer(
    kinds: PlacementKinds, placement: Observed[Placement], *, retry_policy: RetryPolicy
) -> None:
    def change(document: dict[str, Any]) -> dict[str, Any] | None:
        metadata = document["metadata"]
        finalizers = metadata.get("finalizers") or []
        if PLACEMENT_CLEANUP not in finalizers:
            return None
        remaining = [finalizer for finalizer in finalizers if finalizer != PLACEMENT_CLEANUP]
        return {**document, "metadata": {**metadata, "finalizers": remaining}}

    await update_with_retries(
        kinds.placements.objects, key_of(placement.view.metadata), change, retry_policy=retry_policy, cached=placement
    )
