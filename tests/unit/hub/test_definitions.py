"""CustomResourceDefinitions: becoming kinds, conflicts, discovery and tables."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleet.hub.hub import Hub
from fleet.hub.storage.entries import StoredEntry
from tests.unit.hub.asking import DEFINITIONS, NOON, THINGS, TOKENS, Asker, a_definition, a_thing

TABLE = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")]
AGGREGATED = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")]


def conditions(definition: Any) -> dict[str, str]:
    return {found["type"]: found["status"] for found in definition["status"]["conditions"]}


def stored_definitions(ask: Asker) -> list[tuple[str, StoredEntry]]:
    resource = "customresourcedefinitions.apiextensions.k8s.io"
    return [(resource, entry) for entry in ask.hub.store.collection(resource).scan()]


def test_a_definition_is_established_at_once(ask: Asker) -> None:
    created = ask("POST", DEFINITIONS, a_definition()).json
    assert conditions(created) == {"NamesAccepted": "True", "Established": "True"}
    assert created["status"]["storedVersions"] == ["v1"]
    assert created["spec"]["names"]["listKind"] == "ThingList"
    assert ask("GET", THINGS).json["kind"] == "ThingList"


def test_a_second_definition_of_a_kind_waits(things: Asker, runner: asyncio.Runner) -> None:
    names = {"plural": "thingies", "kind": "Thing"}
    second = things("POST", DEFINITIONS, a_definition(names=names)).json
    assert conditions(second) == {"NamesAccepted": "False", "Established": "False"}
    restarted = Asker(Hub(TOKENS, entries=stored_definitions(things), clock=lambda: NOON), runner)
    again = restarted("POST", DEFINITIONS, a_definition(names={"plural": "others", "kind": "Thing"})).json
    assert conditions(again) == conditions(second)
    assert things("GET", THINGS.replace("things", "thingies")).code == 404


def test_a_definition_says_everything_that_is_wrong_with_it(ask: Asker) -> None:
    definition = a_definition(scope="Anywhere", versions=[])
    definition["metadata"]["name"] = "other"
    code, reason, message = ask("POST", DEFINITIONS, definition).refusal
    assert (code, reason) == (422, "Invalid")
    assert 'metadata.name: Invalid value: "other": must be spec.names.plural+"."+spec.group' in message
    assert 'spec.scope: Unsupported value: "Anywhere": supported values: "Cluster", "Namespaced"' in message
    assert "must have exactly one version marked as storage version" in message


def test_a_definition_that_cannot_be_served_can_be_taken_away(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Today's checks let none through; a data directory may have one from before."""
    monkeypatch.setattr("fleet.hub.objects.definitions._validate_versions", lambda versions: ())
    definition = a_definition()
    definition["spec"]["versions"][0]["selectableFields"] = [{}]
    assert ask("POST", DEFINITIONS, definition).code == 201
    assert ask("GET", THINGS).code == 404
    assert ask("DELETE", f"{DEFINITIONS}/things.example.com").code == 200
    ask.settle()
    assert ask("GET", f"{DEFINITIONS}/things.example.com").code == 404


def test_webhook_conversion_is_refused(ask: Asker) -> None:
    code, _, message = ask("POST", DEFINITIONS, a_definition(conversion={"strategy": "Webhook"})).refusal
    assert code == 422
    assert "spec.conversion.strategy" in message


def test_a_new_version_is_served_after_an_update(things: Asker) -> None:
    definition = things("GET", f"{DEFINITIONS}/things.example.com").json
    third = definition["spec"]["versions"][1] | {"name": "v3"}
    definition["spec"]["versions"].append(third)
    things("PUT", f"{DEFINITIONS}/things.example.com", definition)
    assert things("GET", THINGS.replace("v1", "v3")).code == 200


def test_discovery_tells_of_new_kinds_in_both_forms(things: Asker) -> None:
    listed = things("GET", "/apis/example.com/v1").json["resources"]
    assert [(found["name"], found["kind"]) for found in listed] == [("things", "Thing"), ("things/status", "Thing")]
    groups = things("GET", "/apis", headers=AGGREGATED).json["items"]
    (found,) = [group for group in groups if group["metadata"]["name"] == "example.com"]
    assert [version["version"] for version in found["versions"]] == ["v2", "v1"]
    assert found["versions"][1]["resources"][0]["shortNames"] == ["th"]


def test_the_schema_is_published(things: Asker) -> None:
    index = things("GET", "/openapi/v3").json["paths"]
    published = things("GET", index["apis/example.com/v1"]["serverRelativeURL"]).json
    schema = published["components"]["schemas"]["com.example.v1.Thing"]
    assert schema["properties"]["spec"]["properties"]["n"] == {"type": "integer", "minimum": 0}
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "kind": "Thing", "version": "v1"}]


def test_a_table_has_the_columns_of_the_definition(things: Asker) -> None:
    things("POST", THINGS, a_thing("t", n=7))
    table = things("GET", THINGS, headers=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "N"]
    assert table["rows"][0]["cells"] == ["t", 7]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_the_hub_comes_with_fleets_own_definitions(ask: Asker) -> None:
    ask.hub.bootstrap()
    placements = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}]
    placement = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": selectors},
    }
    created = ask("POST", placements, placement)
    assert created.code == 201
    assert created.json["spec"]["revisionHistoryLimit"] == 10
    assert ask("GET", "/apis/placement.kubernetes-fleet.io/v1beta1/appliedworks").code == 404


def test_furnishing_twice_changes_nothing(ask: Asker) -> None:
    ask.hub.bootstrap()
    revision = ask.hub.store.revision
    ask.hub.bootstrap()
    assert ask.hub.store.revision == revision


def test_hubs_of_one_process_share_the_kinds_of_equal_definitions(things: Asker) -> None:
    again = Hub(TOKENS, entries=stored_definitions(things), clock=lambda: NOON)
    first, second = (hub.registry.find("example.com", "v1", "things") for hub in (things.hub, again))
    assert first is not None
    assert first is second
