"""Targets of a decision, and the writes that realize them: changes to bindings, with their exact content.

An operation is data. Its document is built when it is sent.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

from fleet.framework.request import PlacementRequest
from fleet.model.keys import (
    BOUND,
    PARENT_PLACEMENT,
    PICK_FIXED,
    PLACEMENT_GROUP,
    PREVIOUS_BINDING_STATE,
    SCHEDULED,
    SCHEDULER_BINDING_CLEANUP,
    STORAGE_VERSION,
    UNSCHEDULED,
)
from fleet.model.views import Binding, ClusterDecision, ClusterScore

API_VERSION: Final = f"{PLACEMENT_GROUP}/{STORAGE_VERSION}"


class Action(enum.Enum):
    DROP_FINALIZER = "dropFinalizer"
    UNSCHEDULE = "unschedule"
    CREATE = "create"
    REFRESH = "refresh"
    REVIVE = "revive"


class WriteGroup(enum.IntEnum):
    """Groups are written one after the other; the writes of a group may go in any order.

    New bindings come before removals, so that a placement is not briefly without clusters.
    """

    CLEAN_UP = 0
    CREATE = 1
    UPDATE = 2
    REMOVE = 3


class TargetScores(msgspec.Struct, frozen=True, gc=False):
    """A cluster's published score, without the obsolete bonus."""

    affinity: int = 0
    topology: int = 0


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    action: Action
    group: WriteGroup
    cluster: str
    name: str
    binding: Binding | None = None
    """The binding as read; None for a new one."""
    scores: TargetScores | None = None
    """Of the cluster chosen; None where the placement type does not score."""

    def document(self, request: PlacementRequest) -> dict[str, Any]:
        """The whole object for a create, a JSON merge patch for everything else."""
        match self.action:
            case Action.CREATE:
                return self._new(request)
            case Action.DROP_FINALIZER:
                return self._patch(finalizers=[f for f in self._finalizers() if f != SCHEDULER_BINDING_CLEANUP])
            case Action.UNSCHEDULE:
                note = {PREVIOUS_BINDING_STATE: self.previous_state}
                return self._patch(annotations=note) | {"spec": {"state": UNSCHEDULED}}
            case Action.REFRESH:
                return self._patch() | {"spec": self._chosen_spec(request)}
            case Action.REVIVE:
                spec = self._chosen_spec(request) | {"state": self.revived_state}
                return self._patch(annotations={PREVIOUS_BINDING_STATE: None}) | {"spec": spec}

    @property
    def previous_state(self) -> str:
        """The state to record when unscheduling."""
        return "" if self.binding is None else self.binding.spec.state

    @property
    def revived_state(self) -> str:
        remembered = self.binding and self.binding.metadata.annotation(PREVIOUS_BINDING_STATE)
        return remembered if remembered in (SCHEDULED, BOUND) else SCHEDULED

    def decision(self) -> ClusterDecision:
        if self.scores is None:
            return ClusterDecision(self.cluster, True, selected_reason(self.cluster, None))
        affinity, topology = self.scores.affinity, self.scores.topology
        reason = selected_reason(self.cluster, (affinity, topology))
        return ClusterDecision(self.cluster, True, reason, ClusterScore(affinity, topology))

    def _new(self, request: PlacementRequest) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "name": self.name,
            "labels": {PARENT_PLACEMENT: request.placement},
            "finalizers": [SCHEDULER_BINDING_CLEANUP],
        }
        if request.namespace:
            metadata["namespace"] = request.namespace
        return {
            "apiVersion": API_VERSION,
            "kind": "ResourceBinding" if request.namespace else "ClusterResourceBinding",
            "metadata": metadata,
            "spec": {
                "state": SCHEDULED,
                "resourceSnapshotName": "",
                "schedulingPolicySnapshotName": request.snapshot,
                "targetCluster": self.cluster,
                "clusterDecision": msgspec.to_builtins(self.decision()),
            },
        }

    def _patch(self, **metadata: Any) -> dict[str, Any]:
        version = "" if self.binding is None else self.binding.metadata.resource_version
        return {"metadata": {"resourceVersion": version, **metadata}}

    def _chosen_spec(self, request: PlacementRequest) -> dict[str, Any]:
        decision = msgspec.to_builtins(self.decision())
        if request.placement_type == PICK_FIXED:
            decision["clusterScore"] = None  # a merge patch would keep an older score
        return {"schedulingPolicySnapshotName": request.snapshot, "clusterDecision": decision}

    def _finalizers(self) -> tuple[str, ...]:
        return () if self.binding is None else self.binding.metadata.finalizers


class Target(msgspec.Struct, frozen=True, gc=False):
    """A cluster chosen in this attempt."""

    cluster: str
    row: int
    operation: Operation | None
    """The write that binds the cluster; None where a binding is in place already."""
    scores: TargetScores | None
    obsolete: int = 0
    step: int = 0
    """The round in which the cluster was picked, from 1; 0 if there is no ranking."""

    @property
    def action(self) -> Action | None:
        return None if self.operation is None else self.operation.action


def unschedule(binding: Binding, group: WriteGroup = WriteGroup.REMOVE) -> Operation:
    return Operation(
        action=Action.UNSCHEDULE,
        group=group,
        cluster=binding.spec.target_cluster,
        name=binding.metadata.name,
        binding=binding,
    )


def drop_finalizer(binding: Binding) -> Operation:
    return Operation(
        action=Action.DROP_FINALIZER,
        group=WriteGroup.CLEAN_UP,
        cluster=binding.spec.target_cluster,
        name=binding.metadata.name,
        binding=binding,
    )


def holds_finalizer(binding: Binding) -> bool:
    return SCHEDULER_BINDING_CLEANUP in binding.metadata.finalizers


def selected_reason(cluster: str, scores: tuple[int, int] | None) -> str:
    """`scores` are affinity and topology, in this order."""
    scored = "" if scores is None else " (affinity score: {}, topology spread score: {})".format(*scores)
    return f'Successfully scheduled resources for placement in "{cluster}"{scored}: picked by scheduling policy'
