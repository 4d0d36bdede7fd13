"""What must hold on the hub after every single write, whoever made it. Broken rules are collected for tests to show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.hub.storage.store import HubStore, StoreChange
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.keys import (
    BOUND,
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_FIXED,
    PICK_N,
    SCHEDULED,
)

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

_BINDINGS: Final = {one.binding.kind for one in (CLUSTER_SCOPED, NAMESPACED)}
_SNAPSHOTS: Final = {one.policy_snapshot.kind for one in (CLUSTER_SCOPED, NAMESPACED)}


@dataclass
class Guard:
    """At most one live binding of a placement for a cluster; never more of a snapshot than it asks for; one latest
    snapshot.

    A limit that was lowered binds from the moment the system has come to rest with it: until then, clusters that were
    picked under the former limit are still on their way out, or even in. Bindings of a former snapshot do not count:
    they make room only when those of the new one are there. At rest there is one limit, for all of them together.
    """

    broken: list[str] = field(default_factory=list)
    _bindings: dict[Key, Json] = field(default_factory=dict)
    _snapshots: dict[Key, Json] = field(default_factory=dict)
    _limits: dict[Key, int] = field(default_factory=dict)

    def watch(self, store: HubStore) -> None:
        for collection in store.collections:
            for entry in collection.scan():
                self._take(StoreChange(collection.resource, entry.revision, entry, None))
        store.listeners.append(self._take)

    def _take(self, change: StoreChange) -> None:
        document = change.entry.document()
        if document["kind"] in _BINDINGS:
            self._keep(self._bindings, document, gone=change.current is None)
            self._check_placement(document["metadata"], revision=change.revision)
        elif document["kind"] in _SNAPSHOTS:
            self._keep(self._snapshots, document, gone=change.current is None)
            self._take_limit(document)
            self._check_latest(document["metadata"], revision=change.revision)

    def at_rest(self) -> None:
        """Now limits hold as they are, and for all bindings together."""
        self._limits.clear()
        for document in self._snapshots.values():
            self._take_limit(document)
        for key, snapshot in self._snapshots.items():
            if _is_latest(snapshot) and key in self._limits:
                live = self._live(_owner(snapshot["metadata"]))
                if len(live) > self._limits[key]:
                    self.broken.append(f"at rest: {len(live)} bindings of {_owner(snapshot['metadata'])}")

    # --- rules --------------------------------------------------------------------------------------------------------

    def _check_placement(self, metadata: Json, *, revision: int) -> None:
        owner = _owner(metadata)
        live = self._live(owner)
        for cluster, count in Counter(one["spec"]["targetCluster"] for one in live).items():
            if count > 1:
                self.broken.append(f"at {revision}: {count} live bindings of {owner} for cluster {cluster}")
        for snapshot, count in Counter(one["spec"]["schedulingPolicySnapshotName"] for one in live).items():
            limit = self._limits.get((owner[0], snapshot))
            if limit is not None and count > limit:
                self.broken.append(f"at {revision}: {count} live bindings of {owner} for {snapshot}, {limit} allowed")

    def _check_latest(self, metadata: Json, *, revision: int) -> None:
        owner = _owner(metadata)
        latest = [key for key, one in self._snapshots.items() if _owner(one["metadata"]) == owner and _is_latest(one)]
        if len(latest) > 1:
            self.broken.append(f"at {revision}: {owner} has the latest snapshots {latest}")

    def _live(self, owner: Key) -> list[Json]:
        return [one for one in self._bindings.values() if _owner(one["metadata"]) == owner and _is_live(one)]

    def _take_limit(self, snapshot: Json) -> None:
        policy = snapshot["spec"].get("policy") or {}
        key, limit = _key(snapshot["metadata"]), 0
        if policy.get("placementType") == PICK_N:
            limit = int(snapshot["metadata"]["annotations"][NUMBER_OF_CLUSTERS])
        elif policy.get("placementType") == PICK_FIXED:
            limit = len(policy["clusterNames"])
        else:
            return
        self._limits[key] = max(limit, self._limits.get(key, 0))

    def _keep(self, kept: dict[Key, Json], document: Json, *, gone: bool) -> None:
        if gone:
            kept.pop(_key(document["metadata"]), None)
        else:
            kept[_key(document["metadata"])] = document


def _is_live(binding: Json) -> bool:
    return "deletionTimestamp" not in binding["metadata"] and binding["spec"]["state"] in (SCHEDULED, BOUND)


def _is_latest(snapshot: Json) -> bool:
    metadata = snapshot["metadata"]
    return metadata["labels"].get(IS_LATEST_SNAPSHOT) == "true" and "deletionTimestamp" not in metadata


def _owner(metadata: Json) -> Key:
    return metadata.get("namespace", ""), metadata["labels"][PARENT_PLACEMENT]


def _key(metadata: Json) -> Key:
    return metadata.get("namespace", ""), metadata["name"]
