"""The rules of the CRDs, evaluated with a real CEL engine, beside their Python twins (validation rows, layer S)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import DocumentError
from fleet.model.catalog import CATALOG
from fleet.model.crd_generator import build_crd
from fleet.model.documents import read_document
from tests.unit.model.structural import broken_rules, nodes, value_problems, with_defaults

pytestmark = pytest.mark.cel

RULE_ID = re.compile(r"[A-Z]{2}-\d\d")
SCHEMAS: dict[tuple[str, str], dict[str, Any]] = {
    (resource.kind, version["name"]): version["schema"]["openAPIV3Schema"]
    for resource in CATALOG
    for version in build_crd(resource)["spec"]["versions"]
}
GROUPS = {resource.kind: resource.group for resource in CATALOG}
STORED = {resource.kind: resource.storage for resource in CATALOG}

NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
CHOSEN = {**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"}
SECRETS = {"group": "", "version": "v1", "kind": "Secret"}


def an_object(kind: str, spec: Any, *, name: str = "web") -> dict[str, Any]:
    return {"apiVersion": f"{GROUPS[kind]}/{STORED[kind]}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def a_placement(*selectors: dict[str, Any], kind: str = "ClusterResourcePlacement", **spec: Any) -> dict[str, Any]:
    return an_object(kind, {"resourceSelectors": list(selectors) or [NAMESPACE], **spec})


def with_policy(**policy: Any) -> dict[str, Any]:
    return a_placement(policy=policy)


def a_strategy(**stage: Any) -> dict[str, Any]:
    return an_object("ClusterStagedUpdateStrategy", {"stages": [{"name": "canary", **stage}]})


def an_override(kind: str = "ClusterResourceOverride", **spec: Any) -> dict[str, Any]:
    selectors = "clusterResourceSelectors" if kind.startswith("Cluster") else "resourceSelectors"
    policy = {"overrideRules": [{"overrideType": "Delete"}]}
    return an_object(kind, {selectors: [NAMESPACE], "policy": policy, **spec})


def a_run(**spec: Any) -> dict[str, Any]:
    return an_object("ClusterStagedUpdateRun", {"placementName": "web", "stagedRolloutStrategyName": "waves", **spec})


def a_budget(**spec: Any) -> dict[str, Any]:
    return an_object("ClusterResourcePlacementDisruptionBudget", spec)


def options(**spec: Any) -> dict[str, Any]:
    return an_object("ClusterPlacementOptions", spec)


def an_approval(**spec: Any) -> dict[str, Any]:
    required = {"placement": "web", "placementUID": "u", "rule": "owners", "cluster": "a", "decision": "Approved"}
    return an_object("ClusterPlacementApproval", {**required, "by": {"user": "ann"}, **spec})


def a_member(name: str) -> dict[str, Any]:
    return an_object("MemberCluster", {"identity": {"kind": "User", "name": "m"}}, name=name)


def messages(new: dict[str, Any], old: dict[str, Any] | None = None, *, version: str = "") -> list[str]:
    """What an API server would say about a write, in the given version or the one that is stored."""
    schema = SCHEMAS[new["kind"], version or STORED[new["kind"]]]
    stored = None if old is None else with_defaults(schema, old) | {"metadata": old["metadata"]}
    written = with_defaults(schema, new) | {"metadata": new["metadata"]}
    return [*value_problems(schema, written), *broken_rules(schema, written, stored)]


def ids(texts: list[str]) -> set[str]:
    return {found for text in texts for found in RULE_ID.findall(text)}


def ids_in_python(document: dict[str, Any]) -> set[str]:
    try:
        read_document(document)
    except DocumentError as error:
        return ids([str(error)])
    return set()


WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("PL-03", "name and labels", a_placement({**SECRETS, "name": "a", "labelSelector": {}})),
    ("PL-08", "two chosen namespaces", a_placement(CHOSEN, {**CHOSEN, "name": "b"}, SECRETS)),
    ("PL-09", "chosen by no name", a_placement({**CHOSEN, "name": ""}, SECRETS)),
    ("PL-09", "chosen by labels", a_placement({**CHOSEN, "name": "", "labelSelector": {}}, SECRETS)),
    ("PL-10", "beside another namespace", a_placement(CHOSEN, {**NAMESPACE, "name": "b"})),
    ("PL-14", "no namespace", a_placement(SECRETS, statusReportingScope="NamespaceAccessible")),
    (
        "PL-14",
        "two namespaces",
        a_placement(NAMESPACE, {**NAMESPACE, "name": "b"}, statusReportingScope="NamespaceAccessible"),
    ),
    ("PO-03", "fixed with affinity", with_policy(placementType="PickFixed", clusterNames=["a"], affinity={})),
    ("PO-03", "fixed with a count", with_policy(placementType="PickFixed", numberOfClusters=0)),
    (
        "PO-03",
        "fixed with spread",
        with_policy(placementType="PickFixed", topologySpreadConstraints=[{"topologyKey": "zone"}]),
    ),
    ("PO-03", "fixed with tolerations", with_policy(placementType="PickFixed", tolerations=[{"key": "a"}])),
    ("PO-04", "all with names", with_policy(clusterNames=["a"])),
    ("PO-04", "all with a count", with_policy(placementType="PickAll", numberOfClusters=1)),
    ("PO-04", "all with spread", with_policy(topologySpreadConstraints=[{"topologyKey": "zone"}])),
    ("PO-05", "N without a count", with_policy(placementType="PickN")),
    ("PO-05", "N with names", with_policy(placementType="PickN", numberOfClusters=1, clusterNames=["a"])),
    ("PO-17", "exists with a value", with_policy(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])),
    ("PO-17", "equal without a key", with_policy(tolerations=[{"key": "a"}, {"value": "b"}])),
    ("ST-03", "negative surge", a_placement(strategy={"rollingUpdate": {"maxSurge": -1}})),
    ("ST-03", "negative unavailable", a_placement(strategy={"rollingUpdate": {"maxUnavailable": -1}})),
    ("ST-05", "mirror to nowhere", a_placement(strategy={"reportBackStrategy": {"type": "Mirror"}})),
    ("MC-01", "a long name", a_member("m" * 64)),
    ("OV-01", "namespaced placement", an_override(placement={"name": "web", "scope": "Namespaced"})),
    ("DB-01", "both fields", a_budget(maxUnavailable=1, minAvailable="10%")),
    ("DB-01", "negative", a_budget(minAvailable=-1)),
    ("SU-01", "a long name", a_run() | {"metadata": {"name": "r" * 64}}),
    ("SU-02", "approval with a time", a_strategy(afterStageTasks=[{"type": "Approval", "waitTime": "1h"}])),
    ("SU-02", "wait without a time", a_strategy(afterStageTasks=[{"type": "TimedWait"}])),
    ("SU-02", "wait before", a_strategy(beforeStageTasks=[{"type": "TimedWait", "waitTime": "1h"}])),
    ("SU-02", "approval before with a time", a_strategy(beforeStageTasks=[{"type": "Approval", "waitTime": "1h"}])),
    ("SU-02", "no concurrency", a_strategy(maxConcurrency=0)),
]

RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("no policy", a_placement()),
    ("empty policy", with_policy()),
    ("fixed and empty", with_policy(placementType="PickFixed", clusterNames=[])),
    ("fixed with empty lists", with_policy(placementType="PickFixed", tolerations=[], topologySpreadConstraints=[])),
    ("none of N", with_policy(placementType="PickN", numberOfClusters=0, clusterNames=[])),
    (
        "N with everything",
        with_policy(
            placementType="PickN",
            numberOfClusters=3,
            affinity={"clusterAffinity": {}},
            topologySpreadConstraints=[{"topologyKey": "zone"}],
            tolerations=[{"operator": "Exists"}, {"key": "a", "value": ""}],
        ),
    ),
    ("all with tolerations", with_policy(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}])),
    ("a chosen namespace", a_placement(CHOSEN, SECRETS, {**SECRETS, "kind": "ConfigMap"})),
    ("a status for one namespace", a_placement(NAMESPACE, SECRETS, statusReportingScope="NamespaceAccessible")),
    (
        "a namespaced placement that ignores the scope of the status",
        a_placement(SECRETS, kind="ResourcePlacement", statusReportingScope="NamespaceAccessible"),
    ),
    (
        "another group's Namespace",
        a_placement(CHOSEN, {"group": "example.com", "version": "v1", "kind": "Namespace"}),
    ),
    ("labels beside an empty name", a_placement({**SECRETS, "name": "", "labelSelector": {}})),
    ("a mirror", a_placement(strategy={"reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"}})),
    ("no report", a_placement(strategy={"reportBackStrategy": {}})),
    ("whole numbers", a_placement(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}})),
    ("the longest name", a_member("m" * 63)),
    ("an override for a placement", an_override(placement={"name": "web"})),
    (
        "a namespaced override for a placement",
        an_override("ResourceOverride", placement={"name": "web", "scope": "Namespaced"}),
    ),
    ("one field", a_budget(maxUnavailable="0%")),
    ("no field", a_budget()),
    ("an approval before", a_strategy(beforeStageTasks=[{"type": "Approval"}])),
    (
        "both tasks after",
        a_strategy(afterStageTasks=[{"type": "Approval"}, {"type": "TimedWait", "waitTime": "1h30m"}]),
    ),
    ("concurrency in percent", a_strategy(maxConcurrency="50%")),
    ("a run", a_run()),
    ("options that say nothing", options()),
    ("gates at creation", options(gates=[{"name": "review", "message": "wait for the review"}])),
    ("an approval", an_approval()),
]


@pytest.mark.parametrize("rule, document", [pytest.param(rule, doc, id=f"{rule} {what}") for rule, what, doc in WRONG])
def test_a_wrong_object_breaks_exactly_its_rule(rule: str, document: dict[str, Any]) -> None:
    assert ids(messages(document)) == {rule}


@pytest.mark.parametrize("rule, document", [pytest.param(rule, doc, id=f"{rule} {what}") for rule, what, doc in WRONG])
def test_the_same_rule_is_broken_without_an_api_server(rule: str, document: dict[str, Any]) -> None:
    assert ids_in_python(document) == {rule}


@pytest.mark.parametrize("document", [pytest.param(document, id=what) for what, document in RIGHT])
def test_a_right_object_breaks_no_rule(document: dict[str, Any]) -> None:
    assert messages(document) == []
    read_document(document)


@pytest.mark.parametrize(
    "rule, old, new",
    [
        pytest.param("PO-01", with_policy(), a_placement(), id="PO-01 policy removed"),
        pytest.param(
            "PO-02",
            with_policy(),
            with_policy(placementType="PickN", numberOfClusters=1),
            id="PO-02 absent type counts as PickAll",
        ),
        pytest.param(
            "PO-02",
            a_placement(),
            with_policy(placementType="PickFixed"),
            id="PO-02 absent policy counts as PickAll",
        ),
        pytest.param(
            "ST-01",
            a_placement(strategy={"type": "External"}),
            a_placement(strategy={"type": "RollingUpdate"}),
            id="ST-01 changed back",
        ),
        pytest.param("ST-01", a_placement(strategy={"type": "External"}), a_placement(), id="ST-01 removed"),
        pytest.param(
            "PL-15",
            a_placement(),
            a_placement(statusReportingScope="NamespaceAccessible"),
            id="PL-15 default to other",
        ),
        pytest.param("OV-01", an_override(), an_override(placement={"name": "web"}), id="OV-01 added"),
        pytest.param("OV-01", an_override(placement={"name": "web"}), an_override(), id="OV-01 removed"),
        pytest.param(
            "OV-01",
            an_override("ResourceOverride", placement={"name": "web"}),
            an_override("ResourceOverride", placement={"name": "web", "scope": "Namespaced"}),
            id="OV-01 scope changed",
        ),
        pytest.param(
            "EV-01",
            an_object("ClusterResourcePlacementEviction", {"placementName": "web", "clusterName": "a"}),
            an_object("ClusterResourcePlacementEviction", {"placementName": "web", "clusterName": "b"}),
            id="EV-01 cluster changed",
        ),
        pytest.param("SU-01", a_run(), a_run(placementName="other"), id="SU-01 placement"),
        pytest.param("SU-01", a_run(), a_run(resourceSnapshotIndex="1"), id="SU-01 index"),
        pytest.param("SU-01", a_run(), a_run(stagedRolloutStrategyName="other"), id="SU-01 strategy"),
        pytest.param("SU-01", a_run(), a_run(state="Stop"), id="SU-01 Initialize to Stop"),
        pytest.param("SU-01", a_run(state="Run"), a_run(), id="SU-01 Run to Initialize"),
        pytest.param("SU-01", a_run(state="Stop"), a_run(state="Initialize"), id="SU-01 Stop to Initialize"),
        pytest.param(
            "SU-03",
            an_object("ApprovalRequest", {"parentStageRollout": "run", "targetStage": "a"}),
            an_object("ApprovalRequest", {"parentStageRollout": "run", "targetStage": "b"}),
            id="SU-03 stage changed",
        ),
        pytest.param("OP-01", options(), options(gates=[{"name": "late"}]), id="OP-01 first gate later"),
        pytest.param(
            "OP-01", options(gates=[{"name": "a"}]), options(gates=[{"name": "b"}]), id="OP-01 gate exchanged"
        ),
        pytest.param("AP-01", an_approval(), an_approval(decision="Denied"), id="AP-01 decision changed"),
    ],
)
def test_a_forbidden_change_breaks_exactly_its_rule(rule: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    assert ids(messages(new, old)) == {rule}
    assert messages(new) == []


@pytest.mark.parametrize(
    "old, new",
    [
        pytest.param(a_placement(), with_policy(), id="policy added"),
        pytest.param(with_policy(), with_policy(tolerations=[{"key": "a"}]), id="policy changed"),
        pytest.param(a_placement(), a_placement(strategy={"type": "External"}), id="made external"),
        pytest.param(an_override(), an_override(), id="override kept"),
        pytest.param(
            an_override(placement={"name": "web"}),
            an_override(placement={"name": "web", "scope": "Cluster"}),
            id="default scope spelled out",
        ),
        pytest.param(a_run(), a_run(resourceSnapshotIndex=""), id="empty index spelled out"),
        pytest.param(a_run(), a_run(state="Run"), id="run"),
        pytest.param(a_run(state="Run"), a_run(state="Stop"), id="stop"),
        pytest.param(options(gates=[{"name": "a"}, {"name": "b"}]), options(gates=[{"name": "b"}]), id="gate cleared"),
        pytest.param(options(gates=[{"name": "a"}]), options(priority=1), id="all gates cleared"),
        pytest.param(a_run(state="Stop"), a_run(state="Run"), id="run again"),
    ],
)
def test_an_allowed_change_breaks_no_rule(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert messages(new, old) == []


def test_the_cluster_manager_of_a_profile_cannot_be_changed() -> None:
    one = an_object("ClusterProfile", {"clusterManager": {"name": "KubeFleet"}})
    other = an_object("ClusterProfile", {"clusterManager": {"name": "another"}})
    assert messages(other, one, version="v1alpha1") == ["clusterManager cannot be changed"]


def test_a_message_names_the_stage() -> None:
    document = a_strategy(afterStageTasks=[{"type": "TimedWait"}])
    assert messages(document) == ["SU-02: stage canary: a TimedWait after the stage needs a waitTime"]


def test_the_placement_of_an_override_can_be_changed_through_v1alpha1() -> None:
    assert messages(an_override(placement={"name": "web"}), an_override(), version="v1alpha1") == []


def test_the_whole_spec_of_a_run_is_fixed_in_v1alpha1() -> None:
    old, new = a_run(resourceSnapshotIndex="0"), a_run(resourceSnapshotIndex="1")
    assert messages(new, old, version="v1alpha1") == ["SU-01: spec cannot be changed"]


@pytest.mark.parametrize("length, broken", [(64, set()), (127, set()), (128, {"SU-01"})])
def test_a_run_may_have_a_longer_name_in_v1alpha1(length: int, broken: set[str]) -> None:
    run = a_run(resourceSnapshotIndex="0") | {"metadata": {"name": "r" * length}}
    assert ids(messages(run, version="v1alpha1")) == broken


def test_a_snapshot_is_not_judged_by_the_rules_for_requests() -> None:
    policy = {"placementType": "PickN", "affinity": {}}
    snapshot = an_object("ClusterSchedulingPolicySnapshot", {"policy": policy, "policyHash": "aGFzaA=="})
    assert messages(snapshot) == []
    read_document(snapshot)


@pytest.mark.parametrize("kind", ["PlacementGroup", "ClusterPlacementGroup"])
def test_a_group_has_one_domain_or_the_same_clusters(kind: str) -> None:
    assert ids(messages(an_object(kind, {"sameClusters": True, "topologyKey": "region"}))) == {"PG-01"}
    for spec in ({"sameClusters": True}, {"topologyKey": "region"}, {"sameClusters": False, "topologyKey": "region"}):
        assert messages(an_object(kind, spec)) == []


def test_every_rule_of_every_version_is_exercised_by_these_tests() -> None:
    declared = {
        found
        for schema in SCHEMAS.values()
        for _, node in nodes(schema)
        for rule in node.get("x-kubernetes-validations", ())
        for found in RULE_ID.findall(rule["message"])
    }
    exercised = {rule for rule, _, _ in WRONG} | {
        "PO-01",
        "PO-02",
        "ST-01",
        "PL-15",
        "EV-01",
        "SU-03",
        "OP-01",
        "AP-01",
        "PG-01",
    }
    assert declared == exercised


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    toleration = st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["", "gpu"]),
            "operator": st.sampled_from(["Equal", "Exists"]),
            "value": st.sampled_from(["", "a100"]),
        },
    )
    policy = st.fixed_dictionaries(
        {},
        optional={
            "placementType": st.sampled_from(["PickAll", "PickN", "PickFixed"]),
            "clusterNames": st.lists(st.sampled_from(["a", "b"]), max_size=2),
            "numberOfClusters": st.integers(0, 3),
            "affinity": st.just({}),
            "topologySpreadConstraints": st.lists(st.just({"topologyKey": "zone"}), max_size=1),
            "tolerations": st.lists(toleration, max_size=2),
        },
    )
    return draw(policy)


@given(policies())
def test_python_and_cel_agree_about_every_policy(policy: dict[str, Any]) -> None:
    document = with_policy(**policy)
    assert ids_in_python(document) == ids(messages(document))


@st.composite
def selections(draw: st.DrawFn) -> list[dict[str, Any]]:
    selector = st.fixed_dictionaries(
        {
            "group": st.sampled_from(["", "apps"]),
            "version": st.just("v1"),
            "kind": st.sampled_from(["Namespace", "Secret"]),
        },
        optional={
            "name": st.sampled_from(["", "shop"]),
            "labelSelector": st.just({}),
            "selectionScope": st.sampled_from(["NamespaceOnly", "NamespaceWithResourceSelectors"]),
        },
    )
    return draw(st.lists(selector, min_size=1, max_size=4))


@given(selections(), st.sampled_from(["ClusterScopeOnly", "NamespaceAccessible"]))
def test_python_and_cel_agree_about_every_selection(selection: list[dict[str, Any]], scope: str) -> None:
    document = a_placement(*selection, statusReportingScope=scope)
    # Pydantic does not judge a whole whose parts are wrong already, so a wrong part hides the others there.
    in_cel = ids(messages(document))
    assert ids_in_python(document) == ({"PL-03"} if "PL-03" in in_cel else in_cel)
