"""Compiled requests of the latest policy snapshots, shared by attempts and by hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fleet.framework.request import PlacementRequest, compile_request
from fleet.model.keys import GATES, OPTIONS, PARENT_PLACEMENT
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata, Observed, PolicySnapshot
from fleet.scheduler.profiles import read_scheduler_name

_ANNOTATIONS: Final = (OPTIONS, GATES)
"""Of placements, beside the scheduler name."""
PARTS_ON_LOOP: Final = 500
"""The largest policy that is decided on the event loop: it takes some 20 ms."""


class RequestCache:
    """Each request is valid until anything it was compiled from changes."""

    def __init__(self, scheduler_name_of: Callable[[Metadata], str] = read_scheduler_name) -> None:
        self._scheduler_name_of = scheduler_name_of
        self._entries: dict[PlacementKey, tuple[object, PlacementRequest]] = {}

    def get(self, snapshot: Observed[PolicySnapshot], *, placement: Metadata) -> PlacementRequest:
        metadata, uid, name = snapshot.view.metadata, placement.uid, self._scheduler_name_of(placement)
        own = {key: text for key in _ANNOTATIONS if (text := placement.annotation(key)) is not None}
        source = (metadata.uid, metadata.generation, metadata.annotations, snapshot.view.spec, uid, name, own)
        key = PlacementKey(metadata.namespace, metadata.label(PARENT_PLACEMENT) or "")
        entry = self._entries.get(key)
        if entry is None or entry[0] != source:
            entry = self._entries[key] = (
                source,
                compile_request(snapshot.view, placement_uid=uid, scheduler_name=name, placement_annotations=own),
            )
        return entry[1]

    def forget(self, key: PlacementKey) -> None:
        self._entries.pop(key, None)
