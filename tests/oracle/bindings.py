"""The bindings of one placement: their classes, and the operations that change them.

Operations are applied to copies at once and noted in order, so that both the writes and the outcome can be compared.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from tests.oracle.documents import (
    PARENT_LABEL,
    PREVIOUS_STATE,
    SCHEDULER_FINALIZER,
    Json,
    annotations_of,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
)
from tests.oracle.naming import new_name

SCHEDULED, BOUND, UNSCHEDULED = "Scheduled", "Bound", "Unscheduled"


@dataclass
class Bindings:
    """All bindings of the placement by class, each list sorted by binding name.

    `obsolete`, `scheduled` and `bound` hold one binding per cluster altogether; the others went to `surplus`
    (to be unscheduled) or `surplus_bound` (left alone).
    """

    snapshot_name: str
    placement: str
    placement_uid: str
    namespace: str
    everything: list[Json]
    deleting: list[Json] = field(default_factory=list)
    unscheduled: list[Json] = field(default_factory=list)
    dangling: list[Json] = field(default_factory=list)
    unknown: list[Json] = field(default_factory=list)
    obsolete: list[Json] = field(default_factory=list)
    scheduled: list[Json] = field(default_factory=list)
    bound: list[Json] = field(default_factory=list)
    surplus: list[Json] = field(default_factory=list)
    surplus_bound: list[Json] = field(default_factory=list)
    operations: list[Json] = field(default_factory=list)
    created: list[Json] = field(default_factory=list)
    holders: dict[str, Json] = field(default_factory=dict)
    """Who held which name at the start of the cycle, other placements included."""

    # -- questions ---------------------------------------------------------------------------------------------------

    def active(self) -> list[Json]:
        return self.scheduled + self.bound

    def active_clusters(self) -> set[str]:
        return {target_of(binding) for binding in self.active()}

    def obsolete_on(self, cluster: str) -> Json | None:
        return next((binding for binding in self.obsolete if target_of(binding) == cluster), None)

    def unscheduled_on(self, cluster: str) -> Json | None:
        """The one with the greatest name."""
        on_cluster = [binding for binding in self.unscheduled if target_of(binding) == cluster]
        return on_cluster[-1] if on_cluster else None

    # -- operations --------------------------------------------------------------------------------------------------

    def drop_finalizer(self, binding: Json) -> None:
        finalizers = binding["metadata"].get("finalizers") or []
        if SCHEDULER_FINALIZER in finalizers:
            binding["metadata"]["finalizers"] = [each for each in finalizers if each != SCHEDULER_FINALIZER]
            self._note("dropFinalizer", binding)
            if not binding["metadata"]["finalizers"]:
                self.everything.remove(binding)

    def unschedule(self, binding: Json) -> None:
        annotations = {**annotations_of(binding), PREVIOUS_STATE: binding["spec"]["state"]}
        binding["metadata"]["annotations"] = annotations
        binding["spec"]["state"] = UNSCHEDULED
        self._note("unschedule", binding)

    def refresh(self, binding: Json, decision: Json) -> None:
        binding["spec"]["schedulingPolicySnapshotName"] = self.snapshot_name
        binding["spec"]["clusterDecision"] = copy.deepcopy(decision)
        self._note("refresh", binding)

    def revive(self, binding: Json, decision: Json) -> None:
        annotations = dict(annotations_of(binding))
        previous = annotations.pop(PREVIOUS_STATE, None)
        binding["metadata"]["annotations"] = annotations
        binding["spec"]["state"] = previous if previous in (SCHEDULED, BOUND) else SCHEDULED
        binding["spec"]["schedulingPolicySnapshotName"] = self.snapshot_name
        binding["spec"]["clusterDecision"] = copy.deepcopy(decision)
        self._note("revive", binding)

    def create(self, cluster: str, decision: Json) -> Json:
        metadata: Json = {
            "name": new_name(self.placement, cluster, self.placement_uid, self.holders),
            "labels": {PARENT_LABEL: self.placement},
            "finalizers": [SCHEDULER_FINALIZER],
        }
        if self.namespace:
            metadata["namespace"] = self.namespace
        spec = {
            "state": SCHEDULED,
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": self.snapshot_name,
            "targetCluster": cluster,
            "clusterDecision": copy.deepcopy(decision),
        }
        binding = {"metadata": metadata, "spec": spec}
        self.everything.append(binding)
        self.created.append(binding)
        self._note("create", binding)
        return binding

    def _note(self, operation: str, binding: Json) -> None:
        self.operations.append({"operation": operation, "name": name_of(binding), "cluster": target_of(binding)})


def target_of(binding: Json) -> str:
    return str(binding["spec"]["targetCluster"])


def belonging_to(snapshot: Json, candidates: list[Json]) -> list[Json]:
    """Copies of the placement's bindings: same tracking label, same namespace; sorted by name."""
    placement, namespace = labels_of(snapshot).get(PARENT_LABEL), namespace_of(snapshot)
    own = [
        copy.deepcopy(binding)
        for binding in candidates
        if labels_of(binding).get(PARENT_LABEL) == placement and namespace_of(binding) == namespace
    ]
    return sorted(own, key=name_of)


def classify(scenario: Json) -> Bindings:
    snapshot = scenario["policySnapshot"]
    bindings = Bindings(
        snapshot_name=name_of(snapshot),
        placement=labels_of(snapshot)[PARENT_LABEL],
        placement_uid=scenario.get("placementUid", ""),
        namespace=namespace_of(snapshot),
        everything=belonging_to(snapshot, scenario["bindings"]),
    )
    neighbours = [each for each in scenario["bindings"] if namespace_of(each) == namespace_of(snapshot)]
    bindings.holders = {name_of(binding): binding for binding in neighbours}
    staying = {name_of(cluster) for cluster in scenario["memberClusters"] if not is_terminating(cluster)}
    for binding in bindings.everything:
        getattr(bindings, class_of(binding, name_of(snapshot), staying)).append(binding)
    one_per_cluster(bindings)
    return bindings


def class_of(binding: Json, snapshot_name: str, staying: set[str]) -> str:
    state = binding["spec"].get("state")
    if is_terminating(binding):
        return "deleting"
    if state == UNSCHEDULED:
        return "unscheduled"
    if state not in (SCHEDULED, BOUND):
        return "unknown"
    if target_of(binding) not in staying:
        return "dangling"
    if binding["spec"].get("schedulingPolicySnapshotName") != snapshot_name:
        return "obsolete"
    return "scheduled" if state == SCHEDULED else "bound"


def one_per_cluster(bindings: Bindings) -> None:
    """Keep bound before scheduled before obsolete, then the greatest name."""
    taken: set[str] = set()
    for kind, surplus in (("bound", "surplus_bound"), ("scheduled", "surplus"), ("obsolete", "surplus")):
        kept: list[Json] = []
        for binding in reversed(getattr(bindings, kind)):
            (getattr(bindings, surplus) if target_of(binding) in taken else kept).append(binding)
            taken.add(target_of(binding))
        setattr(bindings, kind, sorted(kept, key=name_of))
    bindings.surplus.sort(key=name_of)
    bindings.surplus_bound.sort(key=name_of)
