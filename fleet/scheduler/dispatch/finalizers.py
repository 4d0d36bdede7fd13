"""Our finalizer on placements: while it is there, a placement cannot vanish before its bindings are gone.

It is the only thing the scheduler ever changes on a placement, by a PUT of the object exactly as read.
"""

from __future__ import annotations

from typing import Any, Final

from fleet.errors import StaleInputs
from fleet.informers.cache import PlacementKinds
from fleet.kube.patch import Mutation, RetryPolicy, update_with_retries
from fleet.kube.resource import key_of
from fleet.model.keys import SCHEDULER_CLEANUP
from fleet.model.views import Observed, Placement
from fleet.scheduler.dispatch.api_calls import CallType

Live = Observed[Placement]
Document = dict[str, Any]

_FINALIZERS: Final = "finalizers"


async def add_finalizer(kinds: PlacementKinds, placement: Live, *, retry_policy: RetryPolicy) -> Live | None:
    """The placement with our finalizer. None: it is gone or being deleted, and nothing may be placed any more."""

    def change(document: Document) -> Document | None:
        if document["metadata"].get("uid") != placement.view.metadata.uid:
            raise StaleInputs(f"placement {key_of(placement.view.metadata)} was deleted and made again")
        held = document["metadata"].get(_FINALIZERS) or []
        if SCHEDULER_CLEANUP in held or document["metadata"].get("deletionTimestamp"):
            return None
        return _with_finalizers(document, [*held, SCHEDULER_CLEANUP])

    held = await _revised(kinds, placement, change, type=CallType.BIND, retry_policy=retry_policy)
    return None if held is None or held.view.metadata.deletion_timestamp else held


async def remove_finalizer(kinds: PlacementKinds, placement: Live, *, retry_policy: RetryPolicy) -> None:
    def change(document: Document) -> Document | None:
        held = document["metadata"].get(_FINALIZERS) or []
        if document["metadata"].get("uid") != placement.view.metadata.uid or SCHEDULER_CLEANUP not in held:
            return None
        return _with_finalizers(document, [one for one in held if one != SCHEDULER_CLEANUP])

    await _revised(kinds, placement, change, type=CallType.EVICT, retry_policy=retry_policy)


async def _revised(
    kinds: PlacementKinds, placement: Live, change: Mutation, *, type: CallType, retry_policy: RetryPolicy
) -> Live | None:
    objects = kinds.placements.objects.with_call_class(type.call_class)
    return await update_with_retries(
        objects, key_of(placement.view.metadata), change, retry_policy=retry_policy, seen=placement
    )


def _with_finalizers(document: Document, finalizers: list[str]) -> Document:
    return {**document, "metadata": {**document["metadata"], _FINALIZERS: finalizers}}
