"""Random bindings of a placement, of every class, and some that belong to others."""

from __future__ import annotations

from tests.oracle.documents import PARENT_LABEL, PREVIOUS_STATE, SCHEDULER_FINALIZER, Json
from tests.oracle.naming import digest, new_name
from tests.vectors.generation import vocabulary as words
from tests.vectors.generation.dice import Dice

CLASSES = {"current": 8.0, "obsolete": 6.0, "unscheduled": 3.0, "deleting": 1.5, "unknown": 0.3}
HISTORIES = {
    "mixed": CLASSES,
    "settled": {"current": 20.0, "unscheduled": 1.0, "deleting": 1.0},
    "changed": {"obsolete": 20.0, "unscheduled": 3.0, "deleting": 1.0},
}


class BindingMaker:
    """Makes bindings of one placement with names that are unique among all of them."""

    def __init__(self, dice: Dice, *, placement: str, namespace: str, uid: str, snapshot: str, scored: bool) -> None:
        self.dice = dice
        self.placement, self.namespace, self.uid, self.snapshot = placement, namespace, uid, snapshot
        self.scored = scored
        self.taken: dict[str, Json] = {}

    def bindings(self, clusters: list[str]) -> list[Json]:
        history = HISTORIES[self.dice.weighed({"mixed": 3, "settled": 3, "changed": 2})]
        targets = self.dice.some(clusters, most=20) + (["gone"] if self.dice.chance(0.1) else [])
        crowded = self.dice.chance(0.15)
        for target in targets:
            for _ in range(self.dice.randint(2, 4) if crowded and self.dice.chance(0.3) else 1):
                self.add(target, self.dice.weighed(history))
        made = list(self.taken.values())
        self.dice.shuffle(made)
        return made

    def add(self, cluster: str, kind: str) -> None:
        states = {"unscheduled": "Unscheduled", "unknown": self.dice.choice(("", "Pending"))}
        spec = {
            "state": states.get(kind) or self.dice.choice(("Scheduled", "Bound")),
            "targetCluster": cluster,
            "resourceSnapshotName": self.dice.choice(("", "resources-3")),
            "schedulingPolicySnapshotName": self.snapshot if kind == "current" else self.any_snapshot(kind),
            "clusterDecision": self.decision(cluster),
        }
        if kind == "unknown":
            spec["state"] = states["unknown"]
        metadata = self.metadata(cluster, kind)
        self.taken[metadata["name"]] = {"metadata": metadata, "spec": spec}

    def any_snapshot(self, kind: str) -> str:
        old = self.dice.choice(("old-0", "old-1"))
        return old if kind == "obsolete" else self.dice.choice((old, self.snapshot))

    def metadata(self, cluster: str, kind: str) -> Json:
        metadata: Json = {
            "name": self.name(cluster, kind),
            "uid": digest(f"{self.dice.random()}"),
            "resourceVersion": str(self.dice.randint(1, 9999)),
            "labels": {PARENT_LABEL: self.placement},
            "finalizers": [SCHEDULER_FINALIZER],
        }
        if self.namespace:
            metadata["namespace"] = self.namespace
        if self.dice.chance(0.3):
            metadata["finalizers"].append("kubernetes-fleet.io/work-cleanup")
        if annotations := self.annotations(kind):
            metadata["annotations"] = annotations
        if kind == "deleting":
            metadata["deletionTimestamp"] = words.NOW
            if self.dice.chance(0.3):
                metadata["finalizers"] = ["kubernetes-fleet.io/work-cleanup"]
        return metadata

    def name(self, cluster: str, kind: str) -> str:
        """Often the name a create would choose. Not for unknown states: what to do about those is for people."""
        if kind != "unknown" and self.dice.chance(0.6):
            name = new_name(self.placement, cluster, self.uid, {})
            if name not in self.taken:
                return name
        while True:
            name = f"{self.dice.choice('abz')}-{digest(str(self.dice.random()))}"
            if name not in self.taken:
                return name

    def annotations(self, kind: str) -> dict[str, str]:
        annotations = {"example.com/note": "keep"} if self.dice.chance(0.2) else {}
        remembered = {"Scheduled": 6.0, "Bound": 6.0, "absent": 1.0, "Unscheduled": 0.4, "": 0.4}
        previous = self.dice.weighed(remembered)
        if previous != "absent" and (kind == "unscheduled" or self.dice.chance(0.05)):
            annotations[PREVIOUS_STATE] = previous
        return annotations

    def decision(self, cluster: str) -> Json:
        decision: Json = {"clusterName": cluster, "selected": True, "reason": f"picked {cluster} before"}
        if self.scored and self.dice.chance(0.9):
            topology, affinity = self.dice.choice((-1000, -2, -1, 0, 0, 1)), self.dice.choice((-20, 0, 0, 0, 40, 100))
            decision["clusterScore"] = {"affinityScore": affinity, "priorityScore": topology}
        return decision


def strangers(dice: Dice, maker: BindingMaker, clusters: list[str]) -> list[Json]:
    """Bindings of another placement or namespace; one may hold a name that this placement would choose."""
    found: list[Json] = []
    for cluster in dice.some(clusters, most=2):
        other = BindingMaker(
            dice,
            placement=dice.choice(("neighbour", maker.placement)),
            namespace=maker.namespace,
            uid=dice.choice(("another-uid", maker.uid)),
            snapshot=maker.snapshot,
            scored=maker.scored,
        )
        if other.placement == maker.placement:
            other.namespace = "elsewhere"
        other.add(cluster, "current")
        found += other.taken.values()
    for binding in found:
        if dice.chance(0.3) and binding["metadata"].get("namespace", "") == maker.namespace:
            name = new_name(maker.placement, binding["spec"]["targetCluster"], maker.uid, {})
            binding["metadata"]["name"] = name if name not in maker.taken else binding["metadata"]["name"]
    return found
