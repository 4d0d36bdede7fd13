"""Objects out of documents: kinds, lists, names, doubles."""

from __future__ import annotations

import pytest

from fleet.cli.input.documents import parse_documents
from fleet.cli.input.files import SourceText
from fleet.cli.input.objects import read_objects
from fleet.cli.input.problems import Findings
from tests.fast_yaml import safe_dump, safe_dump_all
from tests.unit.cli.manifests import Manifest, complaints_about, member, objects, placement


def named(*manifests: Manifest) -> list[str]:
    found, problems = objects(safe_dump_all(manifests))
    assert problems == []
    return [str(one) for one in found]


def document(api_version: str, kind: str) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}


def complaint(manifest: object) -> str:
    (problem,) = objects(safe_dump(manifest))[1]
    return problem.removeprefix("x.yaml:1: ")


# --- lists ------------------------------------------------------------------------------------------------------------


def test_a_list_is_its_items() -> None:
    manifest = {"apiVersion": "v1", "kind": "List", "items": [member("a"), placement("web")]}

    assert named(manifest) == ["MemberCluster a", "ClusterResourcePlacement web"]


def test_items_of_a_typed_list_need_no_kind_of_their_own() -> None:
    item = {key: value for key, value in member("a").items() if key not in ("apiVersion", "kind")}

    assert named(
        {"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberClusterList", "items": [item]}
    ) == ["MemberCluster a"]


def test_a_list_may_be_empty() -> None:
    assert named({"apiVersion": "v1", "kind": "List", "items": []}) == []


def test_a_mistake_in_an_item_has_the_line_of_the_item() -> None:
    text = safe_dump({"apiVersion": "v1", "kind": "List", "items": [member("a"), {"kind": "x"}]}, sort_keys=False)
    line = text[: text.index("- kind: x")].count("\n") + 1

    assert objects(text)[1] == [f"x.yaml:{line}: x (no name): apiVersion missing: every object needs both"]


# --- kinds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "manifest, want",
    [
        (["a"], "should be an object with apiVersion and kind, not a list"),
        ("text", "should be an object with apiVersion and kind, not 'text'"),
        ({"metadata": {"name": "x"}}, "the object x: apiVersion and kind missing: every object needs both"),
        (
            document("placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacment"),
            "ClusterResourcePlacment x: kind 'ClusterResourcePlacment' does not exist in "
            "placement.kubernetes-fleet.io; did you mean ClusterResourcePlacement?",
        ),
        (
            document("placement.kubernetes-fleet.io/v1", "MemberCluster"),
            "MemberCluster x: kind MemberCluster is in cluster.kubernetes-fleet.io, "
            "not in placement.kubernetes-fleet.io",
        ),
        (
            document("cluster.kubernetes-fleet.io/v2", "MemberCluster"),
            "MemberCluster x: version 'v2' of MemberCluster does not exist; use v1 or v1beta1",
        ),
        (
            document("cluster.kubernetesfleet.io/v1", "MemberCluster"),
            "MemberCluster x: apiVersion 'cluster.kubernetesfleet.io/v1': no such group; "
            "did you mean cluster.kubernetes-fleet.io?",
        ),
        (
            document("fleet.io/v1", "ResourcePlacement"),
            "ResourcePlacement x: apiVersion 'fleet.io/v1': kind ResourcePlacement is in "
            "placement.kubernetes-fleet.io/v1beta1; use that",
        ),
    ],
    ids=["list", "text", "nothing", "kind", "group of another", "version", "group", "foreign group"],
)
def test_what_is_no_object_of_a_known_kind_is_told(manifest: object, want: str) -> None:
    assert complaint(manifest) == want


def test_kinds_of_others_are_left_out_and_counted() -> None:
    findings = Findings()
    text = safe_dump_all([document("apps/v1", "Deployment"), document("apps/v1", "Deployment"), document("v1", "Pod")])

    assert read_objects(parse_documents(SourceText("x.yaml", text), findings), findings) == []
    assert findings.details == ["ignored, not Fleet's own: 2 Deployment.apps/v1, 1 Pod.v1"]


def test_objects_of_other_projects_are_noted_once_per_project() -> None:
    findings = Findings()
    kinds = [
        ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
        ("work.karmada.io/v1alpha2", "ResourceBinding"),
        ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
        ("cluster.open-cluster-management.io/v1", "ManagedCluster"),
        ("notkarmada.io/v1", "Thing"),
    ]
    text = safe_dump_all([document(group, kind) for group, kind in kinds])

    assert read_objects(parse_documents(SourceText("x.yaml", text), findings), findings) == []
    assert findings.problems == []
    assert [note.partition(";")[0] for note in findings.notes] == [
        "left out, because they are Karmada's: PropagationPolicy, ResourceBinding",
        "left out, because they are Open Cluster Management's: ManagedCluster",
    ]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, want",
    [
        ("", "MemberCluster (no name): metadata.name: is required"),
        ("A_b", "MemberCluster A_b: metadata.name: 'A_b' should be lower-case letters, digits, '-' and '.'"),
    ],
)
def test_a_name_is_required_and_has_to_be_one(name: str, want: str) -> None:
    (problem,) = complaints_about(member(name))

    assert problem.split(": ", 1)[1] == want


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    manifest = member("a")
    manifest["metadata"]["namespace"] = "shop"

    (problem,) = complaints_about(manifest)

    assert problem.endswith("metadata.namespace: a MemberCluster has no namespace; leave it out")


def test_a_namespaced_object_without_a_namespace_is_in_the_default_one() -> None:
    manifest = placement("web", namespace="x")
    del manifest["metadata"]["namespace"]

    assert named(manifest) == ["ResourcePlacement default/web"]


def test_an_object_that_is_there_twice_is_told_with_both_places() -> None:
    text = safe_dump_all([member("a"), member("b"), member("a")])

    (problem,) = objects(text)[1]

    assert problem.endswith("MemberCluster a: is also in x.yaml:1; keep one of the two")
    assert "(document 3)" in problem


def test_a_second_object_is_told_also_when_the_first_one_is_wrong() -> None:
    wrong = member("a")
    wrong["spec"]["heartbeatPeriodSeconds"] = 9999

    problems = objects(safe_dump_all([wrong, member("a")]))[1]

    assert [problem.split(": ", 2)[2].split(";")[0] for problem in problems] == [
        "spec.heartbeatPeriodSeconds: 9999 should be less than or equal to 600",
        "is also in x.yaml:1",
    ]


def test_the_same_name_in_two_namespaces_is_no_double() -> None:
    assert named(placement("web", namespace="x"), placement("web", namespace="y"), placement("web")) == [
        "ResourcePlacement x/web",
        "ResourcePlacement y/web",
        "ClusterResourcePlacement web",
    ]
