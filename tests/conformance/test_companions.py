"""Companions of placements: what the hubs accept, and what people are told when they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.crds import is_established, read_crds
from tests.conformance.documents import Object
from tests.conformance.hub import Hub
from tests.conformance.test_kubectl import edit_by
from tests.conformance.test_validation import NOT_CHECKED, refused

pytestmark = pytest.mark.servers

GROUP: Final = "scheduling.fleet.dev"
API: Final = f"{GROUP}/v1alpha1"
OPTIONS: Final = ("PlacementOptions", "ClusterPlacementOptions")
APPROVALS: Final = ("PlacementApproval", "ClusterPlacementApproval")
QUOTAS: Final = ("PlacementQuota", "ClusterPlacementQuota")
GROUPS: Final = ("PlacementGroup", "ClusterPlacementGroup")
RESERVATION: Final = "ClusterReservation"
KINDS: Final = (*OPTIONS, *APPROVALS, *QUOTAS, *GROUPS, RESERVATION)
ANSWER: Final[Object] = {
    "placement": "web",
    "placementUID": "0d4c7e1a-53cf-4a52-9d8e-6b1f0c2a7e11",
    "rule": "owners",
    "cluster": "ams-1",
    "decision": "Approved",
    "by": {"user": "ann"},
}
LABEL: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
MANY: Final = {"gates": 16, "approvals": 8}


def a_companion(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def rules_of(count: int) -> list[Object]:
    return [{"name": f"r{number}"} for number in range(count)]


def does_not_match(field: str, value: str, pattern: str) -> str:
    return f"{field}: Invalid value: \"{value}\": {field} in body should match '{pattern}'"


def is_out_of_range(field: str, value: int, limit: int) -> str:
    which = "greater" if value < limit else "less"
    return f"{field}: Invalid value: {value}: {field} in body should be {which} than or equal to {limit}"


# --- options ----------------------------------------------------------------------------------------------------------

USABLE: Final[dict[str, Object]] = {
    "nothing": {},
    "schedulerName": {"schedulerName": "approved"},
    "the scheduler of unnamed placements": {"schedulerName": "DefaultScheduler"},
    "priorityClassName": {"priorityClassName": "gold"},
    "the lowest priority": {"priority": -1_000_000_000},
    "the highest priority": {"priority": 1_000_000_000},
    "as many gates as there may be": {"gates": [{"name": f"g{number}", "message": "m" * 1024} for number in range(16)]},
    "as many rules as there may be": {"approvals": rules_of(8)},
    "a whole rule": {
        "approvals": [
            {
                "name": "owners",
                "clusters": {"matchLabels": {"env": "prod"}},
                "approvers": {"users": ["ann"], "groups": ["leads"]},
                "count": 16,
                "holdSeconds": 900,
                "validFor": "1h30m",
                "sticky": True,
            }
        ]
    },
    "requests": {"requests": {"cpu": "500m", "memory": "1Gi"}},
}


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("spec", USABLE)
def test_X_01_usable_options_are_accepted(hub: Hub, unique: str, kind: str, spec: str) -> None:
    hub.kubectl("create", "-f", "-", input=a_companion(kind, unique, USABLE[spec])).ok()
    stored = json.loads(hub.kubectl("get", f"{kind}.{GROUP}", unique, "-o", "json").ok())["spec"]
    assert is_within(USABLE[spec], stored)


def is_within(given: Any, stored: Any) -> bool:
    """The hub adds what was left out, and loses nothing."""
    if isinstance(given, dict):
        return all(key in stored and is_within(value, stored[key]) for key, value in given.items())
    if isinstance(given, list):
        return len(given) == len(stored) and all(map(is_within, given, stored))
    return bool(given == stored)


WRONG: Final[dict[str, tuple[Object, list[str]]]] = {
    "schedulerName": (
        {"schedulerName": "No_Label"},
        [does_not_match("spec.schedulerName", "No_Label", "^([a-z0-9]([-a-z0-9]*[a-z0-9])?|DefaultScheduler)?$")],
    ),
    "a priority too low": (
        {"priority": -1_000_000_001},
        [is_out_of_range("spec.priority", -1_000_000_001, -1_000_000_000)],
    ),
    "a priority too high": (
        {"priority": 1_000_000_001},
        [is_out_of_range("spec.priority", 1_000_000_001, 1_000_000_000)],
    ),
    "a gate without a label for a name": (
        {"gates": [{"name": "Not_Me"}]},
        [does_not_match("spec.gates[0].name", "Not_Me", LABEL)],
    ),
    "too many gates": (
        {"gates": rules_of(17)},
        ["spec.gates: Too many: 17: must have at most 16 items", NOT_CHECKED],
    ),
    "a gate twice": (
        {"gates": [{"name": "review"}, {"name": "review"}]},
        ['spec.gates[1]: Duplicate value: {"name":"review"}'],
    ),
    "too many rules": (
        {"approvals": rules_of(9)},
        ["spec.approvals: Too many: 9: must have at most 8 items", NOT_CHECKED],
    ),
    "a rule twice": (
        {"approvals": [{"name": "owners"}, {"name": "owners"}]},
        ['spec.approvals[1]: Duplicate value: {"name":"owners"}'],
    ),
    "a rule without a label for a name": (
        {"approvals": [{"name": "Not_Me"}]},
        [does_not_match("spec.approvals[0].name", "Not_Me", LABEL)],
    ),
    "no approver": (
        {"approvals": [{"name": "owners", "count": 0}]},
        [is_out_of_range("spec.approvals[0].count", 0, 1)],
    ),
    "too many approvers": (
        {"approvals": [{"name": "owners", "count": 17}]},
        [is_out_of_range("spec.approvals[0].count", 17, 16)],
    ),
    "a hold too long": (
        {"approvals": [{"name": "owners", "holdSeconds": 901}]},
        [is_out_of_range("spec.approvals[0].holdSeconds", 901, 900)],
    ),
    "a hold before now": (
        {"approvals": [{"name": "owners", "holdSeconds": -1}]},
        [is_out_of_range("spec.approvals[0].holdSeconds", -1, 0)],
    ),
    "an approval for no time": (
        {"approvals": [{"name": "owners", "validFor": "0h"}]},
        [does_not_match("spec.approvals[0].validFor", "0h", "^([1-9][0-9]*(s|m|h))+$")],
    ),
}


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("wrong", WRONG)
def test_X_01_wrong_options_are_refused(hub: Hub, unique: str, kind: str, wrong: str) -> None:
    spec, causes = WRONG[wrong]
    said = hub.kubectl("create", "-f", "-", input=a_companion(kind, unique, spec))
    assert (said.code, said.err) == (1, refused(kind, unique, *causes))


@pytest.mark.parametrize("kind", OPTIONS)
def test_X_01_X_06_gates_may_be_removed_and_not_added(hub: Hub, unique: str, kind: str, tmp_path: Path) -> None:
    """With an editor, as people do it."""
    name = f"{kind}.{GROUP}/{unique}"
    gates = [{"name": "review"}, {"name": "freeze"}]
    hub.kubectl("create", "-f", "-", input=a_companion(kind, unique, {"gates": gates})).ok()
    removed = hub.kubectl("edit", name, environment=edit_by(tmp_path, "/name: review/d"))
    assert removed.ok() == f"{kind.lower().removesuffix('s')}s.{GROUP}/{unique} edited\n"
    left = json.loads(hub.kubectl("get", name, "-o", "json").ok())["spec"]["gates"]
    assert [gate["name"] for gate in left] == ["freeze"]
    added = hub.kubectl("edit", name, environment=edit_by(tmp_path, "s/name: freeze/name: budget/"))
    assert f'error: {kind.lower().removesuffix("s")}s.{GROUP} "{unique}" is invalid' in added.err
    patch = json.dumps({"spec": {"gates": [{"name": "freeze"}, {"name": "budget"}]}})
    said = hub.kubectl("patch", name, "--type=merge", "--patch", patch)
    assert "OP-01: gates can be removed, but not added" in said.err


# --- approvals --------------------------------------------------------------------------------------------------------

WRONG_ANSWERS: Final[dict[str, tuple[Object, list[str]]]] = {
    "of no placement": (
        {"placement": ""},
        ['spec.placement: Invalid value: "": spec.placement in body should be at least 1 chars long'],
    ),
    "of no UID": (
        {"placementUID": ""},
        ['spec.placementUID: Invalid value: "": spec.placementUID in body should be at least 1 chars long'],
    ),
    "about no cluster": (
        {"cluster": ""},
        ['spec.cluster: Invalid value: "": spec.cluster in body should be at least 1 chars long'],
    ),
    "to no rule": ({"rule": "Not_Me"}, [does_not_match("spec.rule", "Not_Me", LABEL)]),
    "perhaps": (
        {"decision": "Perhaps"},
        ['spec.decision: Unsupported value: "Perhaps": supported values: "Approved", "Denied"', NOT_CHECKED],
    ),
    "by no user": (
        {"by": {"user": ""}},
        ['spec.by.user: Invalid value: "": spec.by.user in body should be at least 1 chars long'],
    ),
}


@pytest.mark.parametrize("kind", APPROVALS)
@pytest.mark.parametrize("wrong", WRONG_ANSWERS)
def test_X_01_a_wrong_answer_is_refused(hub: Hub, unique: str, kind: str, wrong: str) -> None:
    fields, causes = WRONG_ANSWERS[wrong]
    said = hub.kubectl("create", "-f", "-", input=a_companion(kind, unique, ANSWER | fields))
    assert (said.code, said.err) == (1, refused(kind, unique, *causes))


@pytest.mark.parametrize("decision", ["Approved", "Denied"])
@pytest.mark.parametrize("kind", APPROVALS)
def test_X_01_an_answer_is_accepted_and_stays_as_it_is(hub: Hub, unique: str, kind: str, decision: str) -> None:
    spec = ANSWER | {"decision": decision, "message": "m" * 1024, "expiresAt": "2040-01-01T00:00:00Z"}
    hub.kubectl("create", "-f", "-", input=a_companion(kind, unique, spec)).ok()
    name = f"{kind}.{GROUP}/{unique}"
    said = hub.kubectl("patch", name, "--type=merge", "--patch", '{"spec": {"message": "changed my mind"}}')
    assert said.code == 1
    assert "AP-01: an approval cannot be edited; create a new one" in said.err
    hub.kubectl("label", name, "seen=yes").ok()


# --- quotas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", QUOTAS)
def test_X_01_a_quota_is_accepted_and_a_wrong_one_refused(hub: Hub, unique: str, kind: str) -> None:
    spec: Object = {"min": {"cpu": "500m"}, "max": {"cpu": 20, "memory": "64Gi", "clusters": "50"}}
    hub.kubectl("create", "-f", "-", input=a_companion(kind, unique, spec)).ok()
    stored = json.loads(hub.kubectl("get", f"{kind}.{GROUP}", unique, "-o", "json").ok())["spec"]
    assert is_within(spec, stored)
    many = {f"example.com/r{number}": "1" for number in range(33)}
    said = hub.kubectl("create", "-f", "-", input=a_companion(kind, f"{unique}-2", {"max": many}))
    assert (said.code, said.err) == (
        1,
        refused(kind, f"{unique}-2", "spec.max: Too many: 33: must have at most 32 items"),
    )


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GROUPS)
def test_X_01_a_group_is_accepted_and_a_wrong_one_refused(hub: Hub, unique: str, kind: str) -> None:
    spec: Object = {"minCount": 3, "scheduleTimeoutSeconds": 600, "topologyKey": "region", "onPartialBind": "unwind"}
    hub.kubectl("create", "-f", "-", input=a_companion(kind, unique, spec)).ok()
    stored = json.loads(hub.kubectl("get", f"{kind}.{GROUP}", unique, "-o", "json").ok())["spec"]
    assert is_within(spec, stored)
    both = a_companion(kind, f"{unique}-2", {"sameClusters": True, "topologyKey": "region"})
    said = hub.kubectl("create", "-f", "-", input=both)
    assert said.code == 1
    assert "PG-01: sameClusters and topologyKey exclude each other" in said.err


# --- reservations -----------------------------------------------------------------------------------------------------


def test_X_01_a_reservation_is_accepted_and_wrong_ones_refused(hub: Hub, unique: str) -> None:
    entry: Object = {
        "owner": "fleet-system/second",
        "placement": "shop/web",
        "uid": "0d4c7e1a-53cf-4a52-9d8e-6b1f0c2a7e11",
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "expiresAt": "2026-01-01T00:00:00Z",
    }
    hub.kubectl("create", "-f", "-", input=a_companion(RESERVATION, unique, {"entries": [entry]})).ok()
    stored = json.loads(hub.kubectl("get", f"{RESERVATION}.{GROUP}", unique, "-o", "json").ok())["spec"]
    assert stored == {"entries": [entry]}
    for entries, reason in (
        ([{**entry, "owner": ""}], "spec.entries[0].owner: Invalid value: "),
        ([entry, entry], "spec.entries[1]: Duplicate value: "),
    ):
        said = hub.kubectl("create", "-f", "-", input=a_companion(RESERVATION, f"{unique}-2", {"entries": entries}))
        assert said.code == 1
        assert reason in said.err


# --- the kinds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_X_01_every_kind_is_established_and_structural(hub: Hub, kind: str) -> None:
    (wanted,) = [crd for crd in read_crds() if crd["spec"]["names"]["kind"] == kind]
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    known = hub.http.get(f"{crds}/{wanted['metadata']['name']}").ok()
    assert is_established(known)
    conditions = {each["type"]: each["status"] for each in known["status"]["conditions"]}
    assert conditions.get("NonStructuralSchema", "False") == "False"
    assert known["spec"]["names"]["shortNames"] == wanted["spec"]["names"]["shortNames"]
