"""What is decided: each placement with one policy snapshot and its bindings."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.cli.input.problems import Findings
from fleet.cli.input.simulation_inputs import PlacementInputs, read_inputs
from tests.unit.cli.manifests import LATEST, Manifest, binding, inputs, member, placement, snapshot, written


def asked(folder: Path, *manifests: Manifest) -> PlacementInputs:
    found, findings = inputs(folder, *manifests)
    assert findings.problems == []
    (one,) = found.placements
    return one


def notes(folder: Path, *manifests: Manifest) -> list[str]:
    _, findings = inputs(folder, *manifests)
    assert findings.problems == []
    return findings.notes


def problems(folder: Path, *manifests: Manifest) -> list[str]:
    return [one.message for one in inputs(folder, *manifests)[1].problems]


# --- policies of placements -------------------------------------------------------------------------------------------


def test_the_policy_of_a_placement_becomes_a_snapshot(tmp_path: Path) -> None:
    found = asked(tmp_path, placement("web", generation=4, placementType="PickN", numberOfClusters=3))

    assert found.snapshot.metadata.name == "web-0"
    assert (found.request.placement, found.request.generation, found.request.wanted) == ("web", 4, 3)
    assert found.from_placement


def test_a_placement_without_a_generation_is_of_the_first(tmp_path: Path) -> None:
    assert asked(tmp_path, placement("web")).request.generation == 1


def test_a_placement_without_a_policy_takes_every_cluster(tmp_path: Path) -> None:
    found = asked(tmp_path, placement("web"))

    assert (found.snapshot.spec.policy, found.request.placement_type) == (None, "PickAll")


def test_defaults_are_filled_in_as_the_api_server_does(tmp_path: Path) -> None:
    policy: Manifest = {
        "placementType": "PickN",
        "numberOfClusters": 1,
        "topologySpreadConstraints": [{"topologyKey": "zone"}],
        "tolerations": [{"key": "gpu"}],
    }

    found = asked(tmp_path, placement("web", **policy)).snapshot.spec.policy

    assert found is not None
    (constraint,), (toleration,) = found.topology_spread_constraints, found.tolerations
    assert (constraint.max_skew, constraint.when_unsatisfiable, toleration.operator) == (1, "DoNotSchedule", "Equal")


def test_a_namespaced_placement_is_asked_in_its_namespace(tmp_path: Path) -> None:
    found = asked(tmp_path, placement("web", namespace="shop"))

    assert (found.kind, found.request.key) == ("ResourcePlacement", "shop/web")


def test_a_placement_that_is_being_deleted_is_not_asked(tmp_path: Path) -> None:
    manifest = placement("web")
    manifest["metadata"] |= {"deletionTimestamp": "2026-03-10T08:00:00Z", "finalizers": ["x/y"]}

    assert inputs(tmp_path, manifest)[0].placements == ()
    assert notes(tmp_path, manifest) == ["placement web is being deleted and is skipped"]


def test_placements_are_asked_in_the_order_of_their_names(tmp_path: Path) -> None:
    found, _ = inputs(tmp_path, placement("b"), placement("a", namespace="shop"), placement("a"))

    assert [one.request.key for one in found.placements] == ["a", "b", "shop/a"]


def test_the_same_policy_in_a_later_file_keeps_the_snapshot(tmp_path: Path) -> None:
    policy: Manifest = {"placementType": "PickN", "topologySpreadConstraints": [{"topologyKey": "zone"}]}
    hub = written(
        tmp_path,
        placement("web", generation=3, numberOfClusters=1, **policy),
        snapshot("web-4", "web", number=1, **policy),
        name="hub.yaml",
    )
    later = written(tmp_path, placement("web", numberOfClusters=2, **policy), name="web.yaml")
    findings = Findings()

    (found,) = read_inputs([str(hub), str(later)], findings).placements

    assert (findings.problems, findings.notes) == ([], [])
    assert (found.request.snapshot, found.request.wanted, found.request.generation) == ("web-4", 2, 4)


# --- given snapshots --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latest", ["true", None], ids=["marked as latest", "not marked at all"])
def test_a_snapshot_beats_the_policy_of_its_placement(tmp_path: Path, latest: str | None) -> None:
    found = asked(tmp_path, placement("web"), snapshot("web-7", "web", latest=latest, placementType="PickFixed"))

    assert (found.request.snapshot, found.request.placement_type, found.from_placement) == ("web-7", "PickFixed", False)


def test_a_snapshot_needs_no_placement(tmp_path: Path) -> None:
    manifest = snapshot("web-7", "web")
    owner = {"apiVersion": "x/v1", "kind": "ClusterResourcePlacement", "name": "web", "uid": "u-1"}
    manifest["metadata"]["ownerReferences"] = [owner]

    assert asked(tmp_path, manifest).request.uid == "u-1"


def test_an_older_snapshot_does_not_count_but_the_next_name_comes_after_it(tmp_path: Path) -> None:
    found = asked(tmp_path, placement("web"), snapshot("web-7", "web", latest="false"))

    assert (found.request.snapshot, found.from_placement) == ("web-8", True)


def test_only_old_snapshots_are_nothing_to_decide_by(tmp_path: Path) -> None:
    assert notes(tmp_path, snapshot("web-7", "web", latest="false")) == [
        "placement web: neither the placement nor its latest policy snapshot is in the files"
    ]


def test_two_latest_snapshots_are_one_too_many(tmp_path: Path) -> None:
    assert problems(tmp_path, snapshot("web-0", "web"), snapshot("web-1", "web")) == [
        "ClusterSchedulingPolicySnapshot web-0 is also marked as the latest policy of placement web; only one can be"
    ]


def test_a_snapshot_has_to_name_its_placement(tmp_path: Path) -> None:
    manifest = snapshot("web-0", "web")
    manifest["metadata"]["labels"] = {LATEST: "true"}

    assert problems(tmp_path, manifest) == [
        "metadata.labels[kubernetes-fleet.io/parent-CRP]: is required: it names the placement"
    ]


def test_a_snapshot_that_differs_from_its_placement_is_noted(tmp_path: Path) -> None:
    manifests = (placement("web", placementType="PickAll"), snapshot("web-0", "web", placementType="PickFixed"))

    (note,) = notes(tmp_path, *manifests)

    assert note.startswith(
        "placement web: scheduled by policy snapshot web-0, which differs from the policy of the placement"
    )


def test_a_snapshot_that_says_the_same_in_fewer_words_is_not_noted(tmp_path: Path) -> None:
    spread = [{"topologyKey": "zone"}]
    full = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    manifests = (
        placement("web", placementType="PickN", numberOfClusters=3, topologySpreadConstraints=full),
        snapshot("web-0", "web", number=3, placementType="PickN", topologySpreadConstraints=spread),
    )

    assert notes(tmp_path, *manifests) == []


# --- bindings and bystanders ------------------------------------------------------------------------------------------


def test_a_placement_gets_its_own_bindings(tmp_path: Path) -> None:
    found, _ = inputs(
        tmp_path,
        placement("web"),
        placement("api"),
        binding("a", of="web", snapshot="web-0"),
        binding("b", of="api", snapshot="api-0"),
    )

    assert {one.request.key: [b.spec.target_cluster for b in one.bindings] for one in found.placements} == {
        "web": ["a"],
        "api": ["b"],
    }


def test_bindings_of_unknown_placements_are_noted(tmp_path: Path) -> None:
    assert notes(tmp_path, placement("web"), binding("a", of="api", snapshot="api-0")) == [
        "1 binding belongs to placement api, which is not in the files"
    ]


def test_bindings_of_snapshots_nobody_has_seen_are_noted(tmp_path: Path) -> None:
    (note,) = notes(tmp_path, placement("web"), binding("a", of="web", snapshot="web-9"))

    assert note.startswith("placement web: bindings refer to web-9, which is not in the files")


def test_kinds_that_do_not_matter_are_noted(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacementDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1},
    }

    assert notes(tmp_path, placement("web"), budget) == [
        "read, but ignored by scheduling: 1 ClusterResourcePlacementDisruptionBudget"
    ]


def test_the_newest_heartbeat_is_that_of_any_cluster(tmp_path: Path) -> None:
    found, _ = inputs(
        tmp_path, member("a", heard="2026-03-10T09:00:00Z"), member("b", heard="2026-03-10T11:30:00+02:00")
    )

    assert found.newest_heartbeat() == 1_773_135_000 * 10**9


def test_an_empty_fleet_was_never_heard(tmp_path: Path) -> None:
    assert inputs(tmp_path, placement("web"))[0].newest_heartbeat() is None
