"""Compiled requests of the latest policy snapshots, shared by attempts and by hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fleet.eventloop import free_later
from fleet.framework.policy.placement_terms import format_labels
from fleet.framework.policy.size import has_more_parts
from fleet.framework.request import ANNOTATIONS_READ, PlacementRequest, compile_request
from fleet.model.keys import (
    AFFINITY,
    MIN_TARGETS,
    PARENT_PLACEMENT,
    PLACEMENT_LABELS,
    PREEMPTION_POLICY,
    PRIORITY,
    REQUESTS,
    WORKLOAD_REQUESTS,
)
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata, Observed, PolicySnapshot, PolicySnapshotSpec
from fleet.scheduler.profiles.frameworks import read_scheduler_name

PARTS_ON_LOOP: Final = 500
"""The largest policy that is decided on the event loop: it takes some 20 ms."""


def read_annotations(placement: Metadata) -> dict[str, str]:
    """Those that decisions read."""
    return {key: text for key in ANNOTATIONS_READ if (text := placement.annotation(key)) is not None}


def add_labels(annotations: Mapping[str, str], labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """With the labels of the placement, as requests are compiled from them."""
    return {**annotations, PLACEMENT_LABELS: format_labels(labels)} if labels else annotations


class _Source(NamedTuple):
    """What a request was compiled from."""

    uid: str
    generation: int
    annotations: Mapping[str, str] | None
    spec: PolicySnapshotSpec
    placement_uid: str
    scheduler_name: str
    placement_annotations: Mapping[str, str]


class RequestCache:
    """Each request is valid until anything it was compiled from changes."""

    def __init__(
        self,
        scheduler_name_of: Callable[[Metadata], str] = read_scheduler_name,
        annotations_of: Callable[[Metadata], Mapping[str, str]] = read_annotations,
        reads_labels: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`reads_labels` says by its name whether a profile reads the labels of placements."""
        self._scheduler_name_of = scheduler_name_of
        self._annotations_of = annotations_of
        self._reads_labels = reads_labels
        self._entries: dict[PlacementKey, tuple[_Source, PlacementRequest]] = {}

    def get(self, snapshot: Observed[PolicySnapshot], *, placement: Metadata) -> PlacementRequest:
        key, source = self._read_source(snapshot.view, placement)
        entry = self._entries.get(key)
        if entry is None or entry[0] != source:
            entry = self._entries[key] = (source, _compile(snapshot.view, source))
        return entry[1]

    def compile(self, snapshot: PolicySnapshot, *, placement: Metadata) -> PlacementRequest:
        """Of a snapshot that is not on the hub: nothing is kept."""
        return _compile(snapshot, self._read_source(snapshot, placement)[1])

    def find(self, snapshot: Observed[PolicySnapshot], *, placement: Metadata) -> PlacementRequest | None:
        """Only if it has been compiled."""
        key, source = self._read_source(snapshot.view, placement)
        entry = self._entries.get(key)
        return None if entry is None or entry[0] != source else entry[1]

    def read_own(self, snapshot: PolicySnapshot, placement: Metadata) -> tuple[str | None, ...]:
        """What filters and the search for room may read of a placement beside its policy, as text: what one cluster's
        copy of it needs, what it says about other placements, its labels, its priority, and how it may make room."""
        said = self._read_own(placement, self._scheduler_name_of(placement))
        needed = said.get(REQUESTS, snapshot.metadata.annotation(WORKLOAD_REQUESTS))
        return (needed, *map(said.get, (AFFINITY, PLACEMENT_LABELS, PRIORITY, PREEMPTION_POLICY, MIN_TARGETS)))

    def _read_own(self, placement: Metadata, scheduler_name: str) -> Mapping[str, str]:
        said = self._annotations_of(placement)
        return add_labels(said, placement.labels) if self._reads_labels(scheduler_name) else said

    def forget(self, key: PlacementKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None and has_more_parts(entry[1].policy, PARTS_ON_LOOP):
            free_later(entry[1].required, entry[1].preferred)

    def _read_source(self, snapshot: PolicySnapshot, placement: Metadata) -> tuple[PlacementKey, _Source]:
        metadata, name = snapshot.metadata, self._scheduler_name_of(placement)
        return PlacementKey(metadata.namespace, metadata.label(PARENT_PLACEMENT) or ""), _Source(
            metadata.uid,
            metadata.generation,
            metadata.annotations,
            snapshot.spec,
            placement.uid,
            name,
            self._read_own(placement, name),
        )


def _compile(snapshot: PolicySnapshot, source: _Source) -> PlacementRequest:
    return compile_request(
        snapshot,
        placement_uid=source.placement_uid,
        scheduler_name=source.scheduler_name,
        placement_annotations=source.placement_annotations,
    )
