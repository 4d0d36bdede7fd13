"""Targets of a decision, and the writes that realize them: changes to bindings, with their exact content.

An operation is data. Its document is built when it is sent, the name of a new binding when it is decided.
"""

from __future__ import annotations

import enum
import hashlib
import re
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import structs

from fleet.errors import StaleInputs
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


# A label holds 63 bytes; two dashes and the suffix leave 53 for the two names.
PLACEMENT_BYTES: Final = 26
CLUSTER_BYTES: Final = 27
SUFFIX_CHARACTERS: Final = 8

_NOT_ALLOWED: Final = re.compile(rb"[^a-z0-9-]")


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


def binding_of(operation: Operation) -> Binding:
    assert operation.binding is not None, f"{operation.action.value} without a binding"
    return operation.binding


def rebase_removal(operation: Operation, fresh: Binding) -> Operation | None:
    """The removal, decided again on a newer version of the binding; None if it is no longer needed.

    The state to remember is the fresh one: it is computed once per object that was read, and repetitions of the same
    request send the same bytes. Remembering the state of an earlier read would call a binding `Scheduled` that became
    `Bound` meanwhile, and others would conclude that no workload runs there. A binding that is `Unscheduled` already
    is not changed, so the remembered state can never be `Unscheduled`.
    """
    if fresh.metadata.uid != binding_of(operation).metadata.uid:
        return None  # another object with the same name; ours is gone
    if fresh.metadata.deletion_timestamp:
        return drop_finalizer(fresh) if holds_finalizer(fresh) else None
    if operation.action is not Action.UNSCHEDULE or fresh.spec.state == UNSCHEDULED:
        return None
    if fresh.spec.state not in (SCHEDULED, BOUND):
        raise StaleInputs(f"binding {fresh.metadata.name} is in the unknown state {fresh.spec.state!r}")
    return structs.replace(unschedule(fresh), group=operation.group)


def selected_reason(cluster: str, scores: tuple[int, int] | None) -> str:
    """`scores` are affinity and topology, in this order."""
    scored = "" if scores is None else " (affinity score: {}, topology spread score: {})".format(*scores)
    return f'Successfully scheduled resources for placement in "{cluster}"{scored}: picked by scheduling policy'


def build_binding_name(*, placement: str, placement_uid: str, cluster: str, holder_uid: str | None = None) -> str:
    """A readable name that is valid as a label, and the same again after a lost answer.

    It is `<placement>-<cluster>-<suffix>`. The suffix depends on the placement's UID and the cluster, so repeating a
    create finds the object it created before; if another object has that name, the suffix includes its UID,
    `holder_uid`, as well. Names are never parsed: bindings are found by label.
    """
    identity = f"{placement_uid}/{cluster}" if holder_uid is None else f"{placement_uid}/{cluster}/{holder_uid}"
    suffix = hashlib.sha256(identity.encode()).hexdigest()[:SUFFIX_CHARACTERS]
    visible = (_sanitize(placement, PLACEMENT_BYTES), _sanitize(cluster, CLUSTER_BYTES))
    return "-".join((*filter(None, visible), suffix))


@lru_cache(maxsize=1 << 16)
def _sanitize(name: str, limit: int) -> str:
    return _NOT_ALLOWED.sub(b"-", name.encode().lower()).lstrip(b"-")[:limit].decode()
