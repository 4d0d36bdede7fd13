"""Rows of `fleet get`, the names of kinds, and which hub is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.cli.client.hub_access import HubOptions, find_kubeconfig
from fleet.cli.client.last_up import UpInstance, announce
from fleet.cli.client.names import find_kinds
from fleet.cli.output.object_rows import ELIGIBLE, key_of, listing_of, sort_documents
from fleet.errors import ConfigurationError, InputError
from fleet.model.timestamps import SECOND, format_elapsed, parse_timestamp
from fleet.text_table import Page, finish

NOW = parse_timestamp("2026-03-02T09:00:00Z")
BORN = {"creationTimestamp": "2026-03-02T08:00:00Z"}


def row(kind: str, document: dict[str, Any]) -> tuple[str, ...]:
    (found,) = listing_of(kind).rows([document], NOW)
    assert len(found) == len(listing_of(kind).headings)
    return tuple(finish(cell, Page()) for cell in found)


# --- ages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seconds, want", [(-5, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86399, "23h"), (86400, "1d")]
)
def test_an_age_is_told_in_its_largest_unit(seconds: int, want: str) -> None:
    assert format_elapsed("2026-03-02T09:00:00Z", NOW + seconds * SECOND) == want


def test_what_has_no_time_has_no_age() -> None:
    assert format_elapsed(None, NOW) == format_elapsed("soon", NOW) == "-"


# --- placements ---------------------------------------------------------------------------------------------------


def placement(**changes: Any) -> dict[str, Any]:
    condition = {"type": "ClusterResourcePlacementScheduled", "status": "True", "observedGeneration": 2}
    done = [{"type": "Scheduled", "status": "True"}, {"type": "Applied", "status": "True"}]
    begun = [{"type": "Scheduled", "status": "True"}, {"type": "Applied", "status": "Unknown"}]
    chosen = [{"clusterName": "ams-1", "conditions": done}, {"clusterName": "dub-1", "conditions": begun}, {}]
    return {
        "metadata": {"name": "web", "generation": 2, **BORN},
        "spec": {"policy": {"placementType": "PickN", "numberOfClusters": 3}},
        "status": {"conditions": [condition], "placementStatuses": chosen},
        **changes,
    }


def test_a_placement_tells_what_it_wants_and_what_it_got() -> None:
    found = row("ClusterResourcePlacement", placement())

    assert found == ("web", "PickN", "1/3", "True", "", "ams-1 dub-1", "", "1h")


def test_without_agents_that_report_anything_what_is_selected_counts() -> None:
    chosen = [{"clusterName": "ams-1", "conditions": [{"type": "Scheduled", "status": "True"}]}]
    status = {**placement()["status"], "placementStatuses": chosen}

    assert row("ClusterResourcePlacement", placement(status=status))[2] == "1/3"


def test_a_placement_in_trouble_gives_its_reason_and_comes_first() -> None:
    short = {
        "type": "ClusterResourcePlacementScheduled",
        "status": "False",
        "observedGeneration": 2,
        "reason": "SchedulingPolicyUnfulfilled",
        "message": "found 2",
    }
    troubled = placement(status={"conditions": [short]}, metadata={"name": "zoo", "generation": 2, **BORN})

    found = row("ClusterResourcePlacement", troubled)

    assert found[2:5] == ("0/3", "False", "SchedulingPolicyUnfulfilled")
    assert found[6] == "found 2"
    ordered = sort_documents([placement(), troubled], "ClusterResourcePlacement", None)
    assert [key_of(document) for document in ordered] == ["zoo", "web"]


@pytest.mark.parametrize(
    "by, want",
    [
        (".metadata.name", ["a", "b", "c"]),
        ("{.spec.policy.numberOfClusters}", ["c", "a", "b"]),
        ("ready", ["b", "a", "c"]),
        ("AGE", ["b", "c", "a"]),
    ],
)
def test_lists_are_sorted_by_columns_and_paths(by: str, want: list[str]) -> None:
    wanted = {"a": (4, "2026-03-02T07:00:00Z"), "b": (10, "2026-03-02T08:30:00Z"), "c": (2, "2026-03-02T08:00:00Z")}
    documents = [
        placement(
            metadata={"name": name, "generation": 2, "creationTimestamp": created},
            spec={"policy": {"placementType": "PickN", "numberOfClusters": count}},
        )
        for name, (count, created) in wanted.items()
    ]

    ordered = sort_documents(documents, "ClusterResourcePlacement", by)

    assert [key_of(document) for document in ordered] == want


def test_a_column_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputError, match="'size' is not a column; use one of placement, type, ready"):
        sort_documents([], "ClusterResourcePlacement", "size")


def test_a_word_about_an_earlier_generation_counts_for_nothing() -> None:
    metadata = {"name": "web", "namespace": "shop", "generation": 3, **BORN}

    found = row("ResourcePlacement", placement(metadata=metadata))

    assert (found[0], found[3], found[4]) == ("shop/web", "Pending", "NotDecided")


@pytest.mark.parametrize(
    "spec, want",
    [
        ({}, ("PickAll", "1/2")),
        ({"policy": {"placementType": "PickFixed", "clusterNames": ["a", "b", "c"]}}, ("PickFixed", "1/3")),
    ],
)
def test_how_many_are_wanted_depends_on_the_type(spec: dict[str, Any], want: tuple[str, str]) -> None:
    assert row("ClusterResourcePlacement", placement(spec=spec))[1:3] == want


def test_of_many_clusters_the_first_are_named() -> None:
    many = {"placementStatuses": [{"clusterName": f"c{number}"} for number in range(11)]}

    found = row("ClusterResourcePlacement", placement(status=many))

    assert found[5] == "c0 c1 c2 c3 c4 c5 c6 c7 +3"


# --- clusters, bindings and others --------------------------------------------------------------------------------


def test_a_cluster_tells_how_it_is_and_when_it_was_heard() -> None:
    conditions = [{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": "False"}]
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": "2026-03-02T08:59:48Z", "conditions": conditions}
    taints = [{"key": "gpu", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]
    document = {"metadata": {"name": "ams-1", **BORN}, "spec": {"taints": taints}, "status": {"agentStatus": [agent]}}

    taints_shown = "gpu:NoSchedule a=b:NoSchedule"
    assert row("MemberCluster", document) == ("ams-1", "-", "True", "False", "12s", taints_shown, "", "1h")
    assert row("MemberCluster", {**document, ELIGIBLE: False})[1] == "no"
    assert row("MemberCluster", {**document, ELIGIBLE: True})[1] == "yes"


def test_a_cluster_that_leaves_says_so() -> None:
    document = {"metadata": {"name": "ams-1", "deletionTimestamp": "2026-03-02T08:59:48Z"}}

    assert row("MemberCluster", document)[2] == "leaving"


def test_a_binding_tells_whose_it_is_and_how_far_it_came() -> None:
    labels = {"kubernetes-fleet.io/parent-CRP": "web"}
    document = {
        "metadata": {"name": "web-ams-1-x", "namespace": "shop", "labels": labels, **BORN},
        "spec": {"state": "Bound", "targetCluster": "ams-1"},
        "status": {"conditions": [{"type": "Applied", "status": "True"}]},
    }

    shown = ("shop/web", "ams-1", "Bound", "True", "-", "web-ams-1-x", "-", "-", "1h")
    assert row("ResourceBinding", document) == shown


def test_kinds_without_columns_of_their_own_are_named_and_counted() -> None:
    assert row("Work", {"metadata": {"name": "w", "namespace": "m", "generation": 4, **BORN}}) == ("m/w", "4", "1h")


# --- kinds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word, want",
    [
        ("placements", ["ClusterResourcePlacement", "ResourcePlacement"]),
        ("binding", ["ClusterResourceBinding", "ResourceBinding"]),
        ("clusters", ["MemberCluster"]),
        ("mc", ["MemberCluster"]),
        ("crp", ["ClusterResourcePlacement"]),
        ("rp", ["ResourcePlacement"]),
        ("crb", ["ClusterResourceBinding"]),
        ("rb", ["ResourceBinding"]),
        ("ClusterSchedulingPolicySnapshot", ["ClusterSchedulingPolicySnapshot"]),
        ("works.placement.kubernetes-fleet.io", ["Work"]),
    ],
)
def test_a_kind_has_the_names_that_kubectl_takes(word: str, want: list[str]) -> None:
    assert [one.kind for one in find_kinds(word)] == want


def test_a_kind_that_was_misspelt_is_met_with_the_one_that_was_meant() -> None:
    with pytest.raises(InputError, match="'placments' is not a kind of Fleet; did you mean placements\\?"):
        find_kinds("placments")


def test_a_kind_of_somebody_else_is_none_of_ours() -> None:
    with pytest.raises(InputError, match="'pods' is not a kind of Fleet; there are placements, clusters and bindings"):
        find_kinds("pods")


# --- hubs ---------------------------------------------------------------------------------------------------------


def test_a_kubeconfig_that_is_named_has_to_be_there(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="--kubeconfig: there is no file"):
        find_kubeconfig(HubOptions(kubeconfig=home / "none"), {})


def test_who_has_a_hub_is_not_sent_to_a_fleet_up(home: Path) -> None:
    environ = {"XDG_STATE_HOME": str(home / "state")}
    up = UpInstance(api="http://x", token_file="x", kubeconfig=str(home / "of-up"))
    with announce(up, environ):
        assert find_kubeconfig(HubOptions(), environ) == home / "of-up"
        assert find_kubeconfig(HubOptions(), environ | {"KUBECONFIG": "x"}) is None
        (home / ".kube").mkdir()
        (home / ".kube" / "config").touch()
        assert find_kubeconfig(HubOptions(), environ) is None


def test_without_any_hub_it_is_said_what_to_do(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="next: try `fleet up`, or set --kubeconfig"):
        find_kubeconfig(HubOptions(), {"XDG_STATE_HOME": str(home)})
