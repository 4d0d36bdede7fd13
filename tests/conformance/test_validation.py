"""What people are told when an object is wrong, in the words kubectl shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.conformance.documents import PLACEMENT_API, Object, a_cluster, a_placement, a_selector, pick
from tests.conformance.hub import Hub

pytestmark = pytest.mark.servers

NOT_CHECKED: Final = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)
SPEC: Final = 'spec: Invalid value: "object": '
POLICY: Final = 'spec.policy: Invalid value: "object": '
A_CLUSTER_NAME: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
CHOOSING: Final = "NamespaceWithResourceSelectors"


def refused(kind: str, name: str, *causes: str) -> str:
    """How kubectl writes it: one cause in the same line, several as a list.

    The API server walks the fields of an object in no fixed order: give each case one wrong field.
    """
    listed = causes[0] if len(causes) == 1 else "".join(f"\n* {cause}" for cause in causes)
    return f'The {kind} "{name}" is invalid: {listed}\n'


AFFINITY: Final = "requiredDuringSchedulingIgnoredDuringExecution"
TERM: Final = f"spec.policy.affinity.clusterAffinity.{AFFINITY}.clusterSelectorTerms[0]"
EQUALS: Final[Object] = {
    "labelSelector": {"matchExpressions": [{"key": "env", "operator": "Equals", "values": ["prod"]}]}
}
AT_LEAST: Final[Object] = {
    "propertySelector": {"matchExpressions": [{"name": "example.com/rating", "operator": ">=", "values": ["5"]}]}
}


def requiring(term: Object) -> Object:
    return {"clusterAffinity": {AFFINITY: {"clusterSelectorTerms": [term]}}}


# --- a new placement --------------------------------------------------------------------------------------------------

WRONG_PLACEMENTS: Final[dict[str, tuple[Object, list[str]]]] = {
    "PL-02 no selector": (
        {"resourceSelectors": []},
        ["spec.resourceSelectors: Invalid value: 0: spec.resourceSelectors in body should have at least 1 items"],
    ),
    "PL-02 too many selectors": (
        {"resourceSelectors": [a_selector(f"n{number}") for number in range(101)]},
        ["spec.resourceSelectors: Too many: 101: must have at most 100 items", NOT_CHECKED],
    ),
    "PL-03 name and labels": (
        {"resourceSelectors": [a_selector(labelSelector={"matchLabels": {"a": "b"}})]},
        ['spec.resourceSelectors[0]: Invalid value: "object": PL-03: use either name or labelSelector in one selector'],
    ),
    "PL-08 two namespaces with selectors": (
        {"resourceSelectors": [a_selector("a", selectionScope=CHOOSING), a_selector("b", selectionScope=CHOOSING)]},
        [f"{SPEC}PL-08: only one namespace can be combined with resource selectors"],
    ),
    "PL-10 another namespace": (
        {"resourceSelectors": [a_selector("a", selectionScope=CHOOSING), a_selector("b")]},
        [f"{SPEC}PL-10: other namespace selectors are not allowed in this scope"],
    ),
    "PL-14 status in no namespace": (
        {
            "statusReportingScope": "NamespaceAccessible",
            "resourceSelectors": [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "a"}],
        },
        [f"{SPEC}PL-14: status can be shown in exactly one namespace: select exactly one"],
    ),
    "PO-04 names with PickAll": (
        {"policy": {"placementType": "PickAll", "clusterNames": ["a"]}},
        [f"{POLICY}PO-04: clusterNames, numberOfClusters and topologySpreadConstraints are not allowed with PickAll"],
    ),
    "PO-05 no number with PickN": (
        {"policy": {"placementType": "PickN"}},
        [f"{POLICY}PO-05: PickN needs numberOfClusters and no clusterNames"],
    ),
    "PO-17 a toleration of nothing": (
        {"policy": pick(1, tolerations=[{"operator": "Equal", "value": "v"}])},
        [f"{POLICY}PO-17: tolerations: with Exists give no value; without a key use Exists"],
    ),
    "PL-04 a label operator of another language": (
        {"policy": pick(1, affinity=requiring(EQUALS))},
        [
            f'{TERM}.labelSelector.matchExpressions[0].operator: Unsupported value: "Equals": supported values: "In", '
            '"NotIn", "Exists", "DoesNotExist"',
            NOT_CHECKED,
        ],
    ),
    "PO-12 a property operator of another language": (
        {"policy": pick(1, affinity=requiring(AT_LEAST))},
        [
            f'{TERM}.propertySelector.matchExpressions[0].operator: Unsupported value: ">=": supported values: "Gt", '
            '"Ge", "Eq", "Ne", "Lt", "Le"',
            NOT_CHECKED,
        ],
    ),
    "an unknown type": (
        {"policy": {"placementType": "PickSome"}},
        [
            'spec.policy.placementType: Unsupported value: "PickSome": supported values: "PickAll", "PickN", '
            '"PickFixed"',
            NOT_CHECKED,
        ],
    ),
    "a text for a number": (
        {"policy": pick(1) | {"numberOfClusters": "two"}},
        [
            'spec.policy.numberOfClusters: Invalid value: "string": spec.policy.numberOfClusters in body must be of '
            'type integer: "string"',
            NOT_CHECKED,
        ],
    ),
    "a number too small": (
        {"revisionHistoryLimit": 0},
        [
            "spec.revisionHistoryLimit: Invalid value: 0: spec.revisionHistoryLimit in body should be greater than or "
            "equal to 1"
        ],
    ),
    "a number too large": (
        {"revisionHistoryLimit": 1001},
        [
            "spec.revisionHistoryLimit: Invalid value: 1001: spec.revisionHistoryLimit in body should be less than or "
            "equal to 1000"
        ],
    ),
    "a field missing in a list": (
        {"resourceSelectors": [{"group": "", "kind": "Namespace"}]},
        ["spec.resourceSelectors[0].version: Required value", NOT_CHECKED],
    ),
}


@pytest.mark.parametrize("wrong", WRONG_PLACEMENTS)
def test_a_wrong_placement_is_refused(hub: Hub, unique: str, wrong: str) -> None:
    spec, causes = WRONG_PLACEMENTS[wrong]
    said = hub.kubectl("create", "-f", "-", input=a_placement(unique, **spec))
    assert (said.code, said.out) == (1, "")
    assert said.err == refused("ClusterResourcePlacement", unique, *causes)


def test_an_old_version_is_held_to_the_same_rules(hub: Hub, unique: str) -> None:
    placement = a_placement(unique, policy={"placementType": "PickN"})
    placement["apiVersion"] = placement["apiVersion"].replace("v1", "v1beta1")
    said = hub.kubectl("create", "-f", "-", input=placement)
    assert said.err == refused(
        "ClusterResourcePlacement", unique, f"{POLICY}PO-05: PickN needs numberOfClusters and no clusterNames"
    )


# --- a change of a placement ------------------------------------------------------------------------------------------

WRONG_CHANGES: Final[dict[str, tuple[str, list[str]]]] = {
    "PO-01 and PO-02 no policy any more": (
        '{"spec": {"policy": null}}',
        [
            f"{SPEC}PO-01: a policy can be changed but not removed",
            f"{SPEC}PO-02: placementType cannot be changed; create a new placement",
        ],
    ),
    "PO-02 another type": (
        '{"spec": {"policy": {"placementType": "PickAll", "numberOfClusters": null}}}',
        [f"{SPEC}PO-02: placementType cannot be changed; create a new placement"],
    ),
    "PO-05 names with PickN": (
        '{"spec": {"policy": {"clusterNames": ["a"]}}}',
        [f"{POLICY}PO-05: PickN needs numberOfClusters and no clusterNames"],
    ),
    "PL-15 another scope": (
        '{"spec": {"statusReportingScope": "NamespaceAccessible"}}',
        [f"{SPEC}PL-15: statusReportingScope cannot be changed"],
    ),
}


@pytest.mark.parametrize("wrong", WRONG_CHANGES)
def test_a_wrong_change_is_refused(hub: Hub, unique: str, wrong: str) -> None:
    patch, causes = WRONG_CHANGES[wrong]
    hub.kubectl("create", "-f", "-", input=a_placement(unique, policy=pick(2))).ok()
    said = hub.kubectl("patch", "crp", unique, "--type=merge", "--patch", patch)
    assert (said.code, said.err) == (1, refused("ClusterResourcePlacement", unique, *causes))


def test_ST_01_an_external_strategy_stays(hub: Hub, unique: str) -> None:
    placement = a_placement(unique, policy=pick(2), strategy={"type": "External"})
    hub.kubectl("create", "-f", "-", input=placement).ok()
    said = hub.kubectl("patch", "crp", unique, "--type=merge", "--patch", '{"spec": {"strategy": null}}')
    assert said.err == refused(
        "ClusterResourcePlacement", unique, f"{SPEC}ST-01: a placement with an external strategy stays external"
    )


def test_a_change_may_keep_what_it_does_not_touch(hub: Hub, unique: str) -> None:
    hub.kubectl("create", "-f", "-", input=a_placement(unique, policy=pick(2))).ok()
    patch = '{"spec": {"policy": {"numberOfClusters": 3}}}'
    said = hub.kubectl("patch", "crp", unique, "--type=merge", "--patch", patch)
    assert said.ok() == f"clusterresourceplacement.placement.kubernetes-fleet.io/{unique} patched\n"


# --- other kinds ------------------------------------------------------------------------------------------------------


def test_MC_01_a_cluster_has_a_short_name(hub: Hub) -> None:
    said = hub.kubectl("create", "-f", "-", input=a_cluster("c" * 64))
    assert said.err == refused(
        "MemberCluster", "c" * 64, '<nil>: Invalid value: "object": MC-01: name can have at most 63 characters'
    )


def test_a_name_is_a_subdomain(hub: Hub) -> None:
    said = hub.kubectl("create", "-f", "-", input=a_cluster("Big_One"))
    assert said.err.startswith(
        refused("MemberCluster", "Big_One", f'metadata.name: Invalid value: "Big_One": {A_CLUSTER_NAME}').rstrip()
    )


WRONG_CLUSTERS: Final[dict[str, tuple[Callable[[str], Object], list[str]]]] = {
    "no identity": (
        lambda name: a_cluster(name) | {"spec": {}},
        ["spec.identity: Required value", NOT_CHECKED],
    ),
    "a heartbeat of never": (
        lambda name: a_cluster(name, heartbeatPeriodSeconds=0),
        [
            "spec.heartbeatPeriodSeconds: Invalid value: 0: spec.heartbeatPeriodSeconds in body should be greater than "
            "or equal to 1"
        ],
    ),
    "a list for an object": (
        lambda name: a_cluster(name, identity=["agent"]),
        [
            'spec.identity: Invalid value: "array": spec.identity in body must be of type object: "array"',
            NOT_CHECKED,
        ],
    ),
}


@pytest.mark.parametrize("wrong", WRONG_CLUSTERS)
def test_a_wrong_cluster_is_refused(hub: Hub, unique: str, wrong: str) -> None:
    build, causes = WRONG_CLUSTERS[wrong]
    said = hub.kubectl("create", "--validate=false", "-f", "-", input=build(unique))
    assert said.err == refused("MemberCluster", unique, *causes)


def an_eviction(name: str) -> Object:
    return {
        "apiVersion": PLACEMENT_API.replace("v1", "v1beta1"),
        "kind": "ClusterResourcePlacementEviction",
        "metadata": {"name": name},
        "spec": {"placementName": "web", "clusterName": "eu-1"},
    }


def test_EV_01_an_eviction_is_not_edited(hub: Hub, unique: str) -> None:
    hub.kubectl("create", "-f", "-", input=an_eviction(unique)).ok()
    said = hub.kubectl("patch", "crpe", unique, "--type=merge", "--patch", '{"spec": {"clusterName": "eu-2"}}')
    assert said.err == refused(
        "ClusterResourcePlacementEviction", unique, f"{SPEC}EV-01: an eviction cannot be edited; create a new one"
    )


def test_DB_01_a_budget_has_one_limit(hub: Hub, unique: str) -> None:
    budget: dict[str, Any] = an_eviction(unique) | {
        "kind": "ClusterResourcePlacementDisruptionBudget",
        "spec": {"maxUnavailable": 1, "minAvailable": 1},
    }
    said = hub.kubectl("create", "-f", "-", input=budget)
    assert said.code == 1
    assert said.err.startswith(f'The ClusterResourcePlacementDisruptionBudget "{unique}" is invalid: {SPEC}DB-01: ')


# --- unknown fields ---------------------------------------------------------------------------------------------------


def test_unknown_fields_are_refused_by_default(hub: Hub, unique: str) -> None:
    said = hub.kubectl("create", "-f", "-", input=a_placement(unique, policy=pick(1, colour="green")))
    assert said.err == (
        'Error from server (BadRequest): error when creating "STDIN": ClusterResourcePlacement in version "v1" cannot '
        'be handled as a ClusterResourcePlacement: strict decoding error: unknown field "spec.policy.colour"\n'
    )


def test_unknown_fields_are_warned_about(hub: Hub, unique: str) -> None:
    said = hub.kubectl("create", "--validate=warn", "-f", "-", input=a_cluster(unique, colour="green"))
    assert said.err == 'Warning: unknown field "spec.colour"\n'
    assert said.ok() == f"membercluster.cluster.kubernetes-fleet.io/{unique} created\n"


def test_unknown_fields_can_be_dropped_in_silence(hub: Hub, unique: str) -> None:
    said = hub.kubectl("create", "--validate=false", "-f", "-", input=a_cluster(unique, colour="green"))
    assert (said.code, said.err) == (0, "")


def test_an_unknown_kind_is_named(hub: Hub) -> None:
    said = hub.kubectl("create", "-f", "-", input=a_cluster("c") | {"kind": "Planet"})
    assert said.code == 1
    assert said.err == (
        'error: resource mapping not found for name: "c" namespace: "" from "STDIN": no matches for kind "Planet" in '
        'version "cluster.kubernetes-fleet.io/v1"\nensure CRDs are installed first\n'
    )
