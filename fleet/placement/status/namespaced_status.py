"""Copies the status of a cluster-scoped placement into the one namespace that it selects, for readers there.

The copy is a ClusterResourcePlacementStatus, named like the placement and owned by it. Whether it could be written is a
condition of the placement, which the copy leaves out: otherwise each write would cause a write of the other.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, NotFound, StaleInputs
from fleet.kube.cache.store import build_codec
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.objects import RetryPolicy, call_with_retries, update_with_retries
from fleet.kube.resource import Resource
from fleet.model.keys import PLACEMENT_GROUP, STORAGE_VERSION
from fleet.model.timestamps import format_timestamp
from fleet.model.views import ClusterResourcePlacementStatus, Observed, Placement
from fleet.placement.selection.selectors import NAMESPACE
from fleet.placement.status import messages
from fleet.placement.status.conditions import FALSE, STATUS_SYNCED, SYNC_FAILED, SYNC_SUCCEEDED, TRUE, ConditionFinding
from fleet.placement.status.placement_status import decode_status

Json = dict[str, Any]
StatusCopy = Observed[ClusterResourcePlacementStatus]

COPIES: Final = Resource(
    PLACEMENT_GROUP,
    STORAGE_VERSION,
    "clusterresourceplacementstatuses",
    "ClusterResourcePlacementStatus",
    namespaced=True,
)
_BY_NAME: Final = "name"
_SYNC_SECONDS: Final = 10.0
"""Longest wait of a reconcile before it fails and is retried."""
_NOT_ONE: Final = "PL-14: status can be shown in exactly one namespace: select exactly one"


def build_copy_informer(access: InformerConfig) -> Informer[StatusCopy]:
    return Informer(access, COPIES, build_codec(ClusterResourcePlacementStatus), call_class="status")


class NamespacedStatuses:
    def __init__(self, copies: Informer[StatusCopy], *, retry_policy: RetryPolicy, clock: Clock) -> None:
        self.copies = copies
        self._retry_policy = retry_policy
        self._clock = clock
        copies.store.add_index(_BY_NAME, lambda copy: (copy.view.metadata.name,))

    async def wait_for_sync(self) -> None:
        """Before that, a copy may exist that is not in the cache."""
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                await self.copies.reflector.wait_for_sync()
        except TimeoutError as error:
            raise StaleInputs(f"objects of kind {COPIES.kind} were not read yet") from error

    def namespace_in_use(self, placement: Observed[Placement]) -> str:
        """The namespace of the first copy; empty if there is no trace of one."""
        held = self.copies.store.by_index(_BY_NAME, placement.view.metadata.name)
        namespaces = sorted(copy.view.metadata.namespace for copy in held if _is_owned(copy, placement))
        return namespaces[0] if namespaces else _namespace_from_status(placement)

    async def sync(
        self, placement: Observed[Placement], status: Json, *, namespace: str, owner: Json, prefix: str
    ) -> ConditionFinding:
        """Writes the copy and returns the resulting condition. Transient errors are raised."""
        if not namespace:
            return ConditionFinding(STATUS_SYNCED, FALSE, SYNC_FAILED, _NOT_ONE)
        source = _drop_own_condition(status, prefix)
        try:
            await self._write(placement.view.metadata.name, source, namespace=namespace, owner=owner)
        except (NotFound, Forbidden, Invalid, BadRequest) as error:
            return ConditionFinding(STATUS_SYNCED, FALSE, SYNC_FAILED, _describe_failure(namespace, error))
        return ConditionFinding(STATUS_SYNCED, TRUE, SYNC_SUCCEEDED, messages.describe_copy(namespace))

    async def _write(self, name: str, source: Json, *, namespace: str, owner: Json) -> None:
        key = f"{namespace}/{name}"
        now = format_timestamp(epoch_nanoseconds(self._clock))
        wanted: Json = {"sourceStatus": source, "lastUpdatedTime": now}

        def change(document: Json) -> Json | None:
            metadata = document["metadata"]
            is_owned = any(reference.get("uid") == owner["uid"] for reference in metadata.get("ownerReferences") or ())
            if document.get("sourceStatus") == source and is_owned:
                return None
            return {**document, **wanted, "metadata": {**metadata, "ownerReferences": [owner]}}

        held = self.copies.store.get(key)
        if held is None:
            document = {"metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]}, **wanted}
            try:
                await call_with_retries(lambda: self.copies.objects.create(document), retry_policy=self._retry_policy)
                return
            except AlreadyExists:
                pass  # the cache did not have it yet
        await update_with_retries(self.copies.objects, key, change, retry_policy=self._retry_policy, cached=held)


def check_namespace_unchanged(before: str, now: str) -> str | None:
    """The problem, if the selected namespace differs from that of the existing copy."""
    if not before or not now or before == now:
        return None
    return f"PL-16: the namespace {before} cannot be replaced by {now}"


def _is_namespace(identifier: Json) -> bool:
    return not identifier.get("group") and identifier.get("kind") == NAMESPACE


def _is_owned(copy: StatusCopy, placement: Observed[Placement]) -> bool:
    owners = copy.document()["metadata"].get("ownerReferences") or []
    return any(reference.get("uid") == placement.view.metadata.uid for reference in owners)


def _namespace_from_status(placement: Observed[Placement]) -> str:
    """Read from the placement's own status, because the copy may have been deleted."""
    status = decode_status(placement)
    conditions = (
        condition for condition in status.get("conditions") or () if condition["type"].endswith(STATUS_SYNCED)
    )
    if not any(condition["status"] == TRUE for condition in conditions):
        return ""
    names = [identifier["name"] for identifier in status.get("selectedResources") or () if _is_namespace(identifier)]
    return names[0] if len(names) == 1 else ""


def _drop_own_condition(status: Json, prefix: str) -> Json:
    conditions = [
        condition for condition in status.get("conditions") or () if condition.get("type") != prefix + STATUS_SYNCED
    ]
    return {**status, "conditions": conditions}


def _describe_failure(namespace: str, error: ApiError) -> str:
    return f"the status cannot be shown in namespace {namespace}: {error}"
