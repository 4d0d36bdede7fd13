"""What the driver creates, and what the plain client writes: of the same size as what the scheduler writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from fleet.framework.cycle.publish import FULFILLED, not_picked_reason
from fleet.framework.operations import selected_reason
from fleet.model.keys import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, POLICY_FULFILLED, SCHEDULER_BINDING_CLEANUP
from tests.bench.fleets import cluster_document, name_of
from tests.bench.policies import plain_policy, policy_snapshot, spread_policy

Json = dict[str, Any]

PICKS: Final = 10
_NOT_PICKED: Final = 20
"""As many unselected clusters as a scheduler publishes."""

SPREAD: Final = "spread"
PLAIN: Final = "plain"
LIMIT: Final = "limit"
POLICIES: Final[dict[str, Callable[[int, int], Json]]] = {
    SPREAD: spread_policy,
    PLAIN: plain_policy,
    LIMIT: spread_policy,
}
_RUN: Final = "bench"


def selector(run: str) -> str:
    return f"{_RUN}%3D{run}"


def names(run: str, count: int) -> list[str]:
    return [f"{run}-{number:04d}" for number in range(count)]


def member_cluster(number: int) -> Json:
    return cluster_document(number, heartbeat=_now())


def placement(name: str, *, run: str, form: str) -> Json:
    nothing = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing-by-this-name"}
    return {
        "metadata": {"name": name, "labels": {_RUN: run}},
        "spec": {"resourceSelectors": [nothing], "policy": _policy(name, form)},
    }


def snapshot(name: str, *, run: str, form: str) -> Json:
    """Those for the plain client are of no interest to a scheduler: they do not say that they are the latest."""
    document = policy_snapshot(name, _policy(name, form))
    document["metadata"]["labels"] |= {_RUN: run, IS_LATEST_SNAPSHOT: "false" if form == LIMIT else "true"}
    return document


def _policy(name: str, form: str) -> Json:
    return POLICIES[form](PICKS, int(name.rpartition("-")[2]) % 5)


# --- what a scheduler writes ------------------------------------------------------------------------------------------


def binding(placement: str, cluster: str) -> Json:
    return {
        "metadata": {
            "name": f"{placement}-{cluster}-0a1b2c3d",
            "labels": {PARENT_PLACEMENT: placement},
            "finalizers": [SCHEDULER_BINDING_CLEANUP],
        },
        "spec": {
            "state": "Scheduled",
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": f"{placement}-0",
            "targetCluster": cluster,
            "clusterDecision": build_selected(cluster),
        },
    }


def status() -> Json:
    condition = {
        "type": "Scheduled",
        "status": "True",
        "reason": POLICY_FULFILLED,
        "message": FULFILLED.format(PICKS),
        "observedGeneration": 1,
        "lastTransitionTime": _now(),
    }
    others = [_not_picked(name_of(number)) for number in range(PICKS, PICKS + _NOT_PICKED)]
    decisions = [*(build_selected(name_of(number)) for number in range(PICKS)), *others]
    return {"observedCRPGeneration": 1, "conditions": [condition], "targetClusters": decisions}


def build_selected(cluster: str) -> Json:
    scores = {"affinityScore": 70, "priorityScore": -4}
    return {
        "clusterName": cluster,
        "selected": True,
        "clusterScore": scores,
        "reason": selected_reason(cluster, (70, -4)),
    }


def _not_picked(cluster: str) -> Json:
    scores = {"affinityScore": 20, "priorityScore": -4}
    return {
        "clusterName": cluster,
        "selected": False,
        "clusterScore": scores,
        "reason": not_picked_reason(cluster, affinity=20, topology=-4),
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
