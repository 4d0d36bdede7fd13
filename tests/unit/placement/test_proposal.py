"""The snapshot that a proposed policy would leave, beside those that the placement has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
)
from fleet.model.views import Metadata, PolicySnapshot
from fleet.placement.snapshots.proposal import propose_snapshot

WEB = Metadata(name="web", generation=7)
SPREAD = {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
POLICY: dict[str, Any] = {
    "placementType": "PickN",
    "numberOfClusters": 2,
    "topologySpreadConstraints": [SPREAD],
    "tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes"}],
}


def a_snapshot(index: int, policy: dict[str, Any] | None = POLICY, **metadata: Any) -> PolicySnapshot:
    labels = {PARENT_PLACEMENT: "web", POLICY_INDEX: str(index), IS_LATEST_SNAPSHOT: "true"}
    document = {
        "metadata": {"name": f"web-{index}", "uid": f"uid-{index}", "labels": labels, **metadata},
        "spec": {"policy": policy},
    }
    return msgspec.convert(document, PolicySnapshot)


@pytest.mark.parametrize(
    "policy",
    [
        POLICY,
        {**POLICY, "numberOfClusters": 5},
        {**POLICY, "topologySpreadConstraints": [{"topologyKey": "region"}]},
        {**POLICY, "tolerations": [{"key": "gpu", "operator": "", "value": "yes"}], "clusterNames": []},
    ],
    ids=["same", "another number", "without defaults", "with empty fields"],
)
def test_an_equal_policy_leaves_the_latest_snapshot_with_new_annotations(policy: dict[str, Any]) -> None:
    latest = a_snapshot(4, annotations={"team": "a", NUMBER_OF_CLUSTERS: "1"})

    made = propose_snapshot(
        WEB, policy, [a_snapshot(3, None, labels={POLICY_INDEX: "3", IS_LATEST_SNAPSHOT: "false"}), latest]
    )

    annotations = {"team": "a", NUMBER_OF_CLUSTERS: str(policy["numberOfClusters"]), PLACEMENT_GENERATION: "7"}
    assert made == msgspec.structs.replace(
        latest, metadata=msgspec.structs.replace(latest.metadata, annotations=annotations)
    )


def test_no_policy_is_the_same_as_pick_all() -> None:
    assert propose_snapshot(WEB, None, [a_snapshot(0, {"placementType": "PickAll"})]).metadata.uid == "uid-0"
    assert propose_snapshot(WEB, {"placementType": "PickAll"}, [a_snapshot(0, None)]).metadata.uid == "uid-0"


@pytest.mark.parametrize(
    "known, index",
    [
        ([], 0),
        ([a_snapshot(9, {**POLICY, "tolerations": []}), a_snapshot(10, None)], 11),
        ([a_snapshot(3, deletionTimestamp="2026-01-01T00:00:00Z")], 4),
        ([a_snapshot(3, labels={IS_LATEST_SNAPSHOT: "false"})], 4),
        ([a_snapshot(3, None, name="web-x", labels={})], 0),
    ],
    ids=["first", "another policy", "only a terminating one", "only an earlier one, by its name", "without an index"],
)
def test_another_policy_gets_the_next_index(known: list[PolicySnapshot], index: int) -> None:
    made = propose_snapshot(WEB, POLICY, known)

    assert made.metadata.name == f"web-{index}"
    assert made.metadata.labels == {PARENT_PLACEMENT: "web", IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: str(index)}
    assert made.metadata.annotations == {NUMBER_OF_CLUSTERS: "2", PLACEMENT_GENERATION: "7"}
    assert made.spec == a_snapshot(index).spec
