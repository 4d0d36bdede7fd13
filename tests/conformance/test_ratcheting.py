"""Operators that were accepted before the definitions enumerated them: objects that have them can be used and repaired.

The definition is that of a placement under another name, first without the enumeration of operators and then with it.
"""

from __future__ import annotations

import copy
import json
import time
from typing import Any, Final

import pytest
import yaml

from tests.conformance.crds import FOLDER, PATH, is_established
from tests.conformance.documents import Object, a_placement, pick
from tests.conformance.hub import Hub, Said
from tests.control_plane.failures import NeverReady

pytestmark = pytest.mark.servers

SOURCE: Final = FOLDER / "placement.kubernetes-fleet.io_clusterresourceplacements.yaml"
AFFINITY: Final = "/spec/policy/affinity/clusterAffinity/requiredDuringSchedulingIgnoredDuringExecution"
OPERATOR: Final = f"{AFFINITY}/clusterSelectorTerms/0/propertySelector/matchExpressions/0/operator"
UNKNOWN: Final = 'propertySelector.matchExpressions[0].operator: Unsupported value: "AtMost"'
SECONDS: Final = 60.0


def without_operators(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _free_operator(part) if key == "operator" else without_operators(part) for key, part in value.items()
        }
    return [without_operators(part) for part in value] if isinstance(value, list) else value


def _free_operator(schema: Any) -> Any:
    """Of selectors; those of tolerations were always enumerated."""
    is_enumerated_anew = "Equal" not in schema.get("enum", ())
    return {key: part for key, part in schema.items() if key != "enum" or not is_enumerated_anew}


def a_definition(unique: str) -> Object:
    definition: Object = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    group = f"{unique}.example.com"
    definition["metadata"]["name"] = f"wishes.{group}"
    definition["spec"]["group"] = group
    definition["spec"]["names"] = {"kind": "Wish", "listKind": "WishList", "plural": "wishes", "singular": "wish"}
    definition["spec"]["versions"] = [one for one in definition["spec"]["versions"] if one["storage"]]
    return definition


def a_wish(unique: str, operator: str) -> Object:
    expression = {"name": "example.com/rating", "operator": operator, "values": ["5"]}
    terms = {"clusterSelectorTerms": [{"propertySelector": {"matchExpressions": [expression]}}]}
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    wish = a_placement("old", policy=pick(1, affinity=affinity))
    return {**wish, "apiVersion": f"{unique}.example.com/v1beta1", "kind": "Wish"}


def wait_until(hub: Hub, unique: str, *, status: int) -> None:
    """The server takes a moment to validate by a new schema."""
    path, deadline = f"/apis/{unique}.example.com/v1beta1/wishes?dryRun=All", time.monotonic() + SECONDS
    wish = a_wish(unique, "AtLeast")
    wish["metadata"]["name"] = "probe"
    while hub.http.post(path, wish).status != status:
        if time.monotonic() > deadline:
            raise NeverReady(f"the definition is not in use after {SECONDS:.0f} s")
        time.sleep(0.1)


def change(hub: Hub, unique: str, body: Any, *options: str) -> Said:
    form = "json" if isinstance(body, list) else "merge"
    kind = f"wishes.{unique}.example.com"
    return hub.kubectl("patch", kind, "old", f"--type={form}", "--patch", json.dumps(body), *options)


def set_operator(operator: str) -> list[Object]:
    return [{"op": "replace", "path": OPERATOR, "value": operator}]


def test_a_stored_object_keeps_an_operator_that_is_refused_now(hub: Hub, unique: str) -> None:
    strict = a_definition(unique)
    item, path = f"{PATH}/{strict['metadata']['name']}", f"/apis/{unique}.example.com/v1beta1/wishes"
    hub.http.post(PATH, without_operators(copy.deepcopy(strict))).ok()
    try:
        while not is_established(hub.http.get(item).ok()):
            time.sleep(0.1)
        wait_until(hub, unique, status=201)
        hub.http.post(path, a_wish(unique, "AtLeast")).ok()
        lenient = hub.http.get(item).ok()
        hub.http.put(item, {**lenient, "spec": {**lenient["spec"], "versions": strict["spec"]["versions"]}}).ok()
        wait_until(hub, unique, status=422)

        change(hub, unique, {"metadata": {"finalizers": ["example.com/held"]}}).ok()
        change(hub, unique, {"spec": {"policy": {"numberOfClusters": 2}}}).ok()
        change(hub, unique, {"status": {"observedResourceIndex": "1"}}, "--subresource=status").ok()
        assert UNKNOWN in change(hub, unique, set_operator("AtMost")).err
        change(hub, unique, set_operator("Ge")).ok()
        change(hub, unique, {"metadata": {"finalizers": None}}).ok()
        hub.http.delete(f"{path}/old").ok()
    finally:
        hub.http.delete(item)
