"""What is wrong inside an object: the field, its value, and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.manifests import Manifest, binding, complaints_about, member, objects, placement


def changed(manifest: Manifest, path: str, value: Any) -> Manifest:
    """With one field set, by its dotted path."""
    *holders, last = path.split(".")
    inside = manifest
    for step in holders:
        inside = inside.setdefault(step, {})
    inside[last] = value
    return manifest


def without(manifest: Manifest, path: str) -> Manifest:
    *holders, last = path.split(".")
    inside = manifest
    for step in holders:
        inside = inside[step]
    del inside[last]
    return manifest


def complaint(manifest: Manifest) -> str:
    """The one complaint, without its place and object."""
    (found,) = complaints_about(manifest)
    return found.split(": ", 2)[2]


def test_a_fine_object_draws_no_complaint() -> None:
    assert complaints_about(member("a"), placement("web"), binding("a", of="web", snapshot="web-0")) == []


def test_a_complaint_names_file_line_and_object() -> None:
    text = (
        "apiVersion: cluster.kubernetes-fleet.io/v1beta1\n"
        "kind: MemberCluster\nmetadata:\n  name: a\nspec:\n  identity: 3\n"
    )

    assert objects(text)[1] == ["x.yaml:6: MemberCluster a: spec.identity: 3 should be a mapping"]


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "manifest, want",
    [
        (without(member("a"), "spec.identity"), "spec.identity: is required"),
        (without(member("a"), "spec"), "spec: is required"),
        (changed(member("a"), "spec", None), "spec: is required"),
        (
            changed(member("a"), "spec.taints", [{"key": "x", "effect": "NoExecute"}]),
            "spec.taints[0].effect: 'NoExecute' should be 'NoSchedule'",
        ),
        (
            changed(placement("web"), "spec.policy", {"placementType": "pickall"}),
            "spec.policy.placementType: 'pickall' should be 'PickAll', 'PickN' or 'PickFixed'; did you mean PickAll?",
        ),
        (
            changed(placement("web"), "spec.policy", {"placementType": "PickN", "numberOfClusters": "three"}),
            "spec.policy.numberOfClusters: 'three' should be a whole number",
        ),
        (
            changed(placement("web"), "spec.policy", {"placementType": "PickN"}),
            "spec.policy: PO-05: PickN needs numberOfClusters and no clusterNames",
        ),
        (
            changed(placement("web"), "spec.resourceSelectors", []),
            "spec.resourceSelectors: PL-02: between 1 and 100 resource selectors are needed",
        ),
        (
            changed(placement("web"), "spec.strategy", {"rollingUpdate": {"maxSurge": "many"}}),
            "spec.strategy.rollingUpdate.maxSurge: 'many': "
            "ST-03: maxSurge must be a whole number ≥ 0 or a percentage from 0 to 100",
        ),
        (
            changed(member("a"), "metadata.labels", {"x": True}),
            'metadata.labels.x: true is a boolean here; write "true" for a string',
        ),
        (
            changed(member("a"), "metadata.labels", {"a/b": 3}),
            'metadata.labels[a/b]: 3 is a number here; write "3" for a string',
        ),
        (changed(member("a"), "metadata.labels", ["x"]), "metadata.labels: a list should be a mapping"),
        (changed(member("a"), "spec.taints", {"x": 1}), "spec.taints: a mapping should be a list"),
        (
            changed(member("a"), "status.resourceUsage", {"capacity": {"cpu": 1.5}}),
            "status.resourceUsage.capacity.cpu: 1.5 should be a whole number or a string",
        ),
        (
            changed(member("a"), "status.resourceUsage", {"capacity": {"cpu": "four"}}),
            "status.resourceUsage.capacity.cpu: 'four' is not a quantity such as 4, 500m or 16Gi",
        ),
        (
            changed(member("a"), "metadata.deletionTimestamp", "yesterday"),
            "metadata.deletionTimestamp: 'yesterday' is not an RFC 3339 time such as 2026-01-05T10:00:00Z",
        ),
        (changed(member("x" * 64), "spec.taints", []), "MC-01: name can have at most 63 characters"),
    ],
    ids=[
        "missing", "missing part", "null", "one choice", "choices", "number", "rule", "limit", "count or percentage",
        "boolean", "number for text", "list", "mapping", "fraction", "quantity", "time", "rule of the object",
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_with_what_would_be_right(manifest: Manifest, want: str) -> None:
    assert complaint(manifest) == want


def test_a_boolean_is_quoted_as_it_was_written() -> None:
    text = (
        "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\n"
        "metadata: {name: a, labels: {gpu: yes}}\nspec: {identity: {kind: User, name: x}}\n"
    )

    assert objects(text)[1][0].endswith('metadata.labels.gpu: yes is a boolean here; write "yes" for a string')


def test_nulls_are_taken_for_absent_as_the_api_server_does() -> None:
    manifest = changed(changed(member("a"), "metadata.creationTimestamp", None), "spec.taints", None)

    assert complaints_about(manifest) == []


def test_everything_wrong_with_an_object_is_told_from_top_to_bottom() -> None:
    manifest = changed(changed(member("a"), "spec.taints", [{"effect": "x"}]), "status.agentStatus", "none")

    assert [one.split(": ")[2] for one in complaints_about(manifest)] == [
        "spec.taints[0].key",
        "spec.taints[0].effect",
        "status.agentStatus",
    ]


# --- unknown fields ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, want",
    [
        ("spec.policy.affinity.clusterAfinity", "unknown field; did you mean clusterAffinity?"),
        ("spec.policy.clusterAffinity", "unknown field; did you mean affinity.clusterAffinity?"),
        ("spec.policy.number_of_clusters", "unknown field; did you mean numberOfClusters?"),
        ("spec.colour", "unknown field"),
        ("metadata.anotations", "unknown field; did you mean annotations?"),
        ("status.condition", "unknown field; did you mean conditions?"),
        ("sepc", "unknown field; did you mean spec?"),
    ],
)
def test_an_unknown_field_is_told_with_the_nearest_known_one(path: str, want: str) -> None:
    assert complaint(changed(placement("web", placementType="PickAll"), path, {})) == f"{path}: {want}"


@pytest.mark.parametrize("path", ["metadata.selfLink", "status.brandNew", "metadata.annotations.anything"])
def test_metadata_and_status_may_hold_what_nobody_here_knows(path: str) -> None:
    assert complaints_about(changed(placement("web"), path, "x")) == []


def test_unknown_fields_are_found_in_lists() -> None:
    manifest = changed(member("a"), "spec.taints", [{"key": "x", "efect": "NoSchedule", "effect": "NoSchedule"}])

    assert complaint(manifest) == "spec.taints[0].efect: unknown field; did you mean effect?"
