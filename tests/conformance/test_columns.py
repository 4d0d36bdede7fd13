"""What `kubectl get` shows of Fleet's kinds."""

from __future__ import annotations

import re

import pytest

from fleet.model.catalog import CATALOG, KindDefinition
from tests.conformance.documents import CLUSTERS, PLACEMENTS, Object, a_cluster, a_placement, pick
from tests.conformance.hub import Hub

pytestmark = pytest.mark.servers

SHOWN_BY_SHORT_NAME = [resource for resource in CATALOG if resource.short_names]


def _columns(resource: KindDefinition, *, wide: bool) -> list[str]:
    columns = [column.name.upper() for column in resource.columns if wide or not column.wide]
    return ["NAME", *(columns or ["AGE"])]


def _table(text: str) -> list[dict[str, str]]:
    """The rows by column. Cells may be empty, so a column is where its heading stands."""
    header, *rows = text.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", header)]
    slices = [slice(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return [{header[part].strip(): row[part].strip() for part in slices} for row in rows]


@pytest.fixture
def placement(hub: Hub, unique: str) -> str:
    """A placement that was scheduled in its first generation and changed since."""
    hub.http.post(PLACEMENTS, a_placement(unique, policy=pick(2))).ok()
    hub.http.patch(f"{PLACEMENTS}/{unique}/status", {"status": {"conditions": [_scheduled(generation=1)]}}).ok()
    hub.http.patch(f"{PLACEMENTS}/{unique}", {"spec": {"policy": {"numberOfClusters": 3}}}).ok()
    return unique


def _scheduled(*, generation: int) -> Object:
    return {
        "type": "ClusterResourcePlacementScheduled",
        "status": "True",
        "observedGeneration": generation,
        "reason": "SchedulingPolicyFulfilled",
        "message": "found all clusters",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_a_placement(hub: Hub, placement: str) -> None:
    (row,) = _table(hub.kubectl("get", "crp", placement).ok())
    assert re.fullmatch(r"\d+s", row.pop("AGE"))
    assert row == {
        "NAME": placement,
        "GEN": "2",
        "SCHEDULED": "True",
        "SCHEDULED-GEN": "1",
        "AVAILABLE": "",
        "AVAILABLE-GEN": "",
    }


def test_a_placement_at_length(hub: Hub, placement: str) -> None:
    (row,) = _table(hub.kubectl("get", "crp", placement, "-o", "wide").ok())
    assert row["TYPE"] == "PickN"
    assert row["WORK-SYNCHRONIZED"] == ""


def test_a_cluster(hub: Hub, unique: str) -> None:
    hub.http.post(CLUSTERS, a_cluster(unique)).ok()
    status = {
        "properties": {
            "kubernetes-fleet.io/node-count": {"value": "7", "observationTime": "2026-01-01T00:00:00Z"},
        },
        "resourceUsage": {"available": {"cpu": "12", "memory": "3Gi"}, "observationTime": "2026-01-01T00:00:00Z"},
    }
    hub.http.patch(f"{CLUSTERS}/{unique}/status", {"status": status}).ok()
    (row,) = _table(hub.kubectl("get", "cluster", unique).ok())
    assert (row["NODE-COUNT"], row["AVAILABLE-CPU"], row["AVAILABLE-MEMORY"]) == ("7", "12", "3Gi")


def test_labels_beside_the_columns(hub: Hub, unique: str) -> None:
    hub.http.post(CLUSTERS, a_cluster(unique, metadata={"labels": {"region": "eu"}})).ok()
    (row,) = _table(hub.kubectl("get", "cluster", unique, "--show-labels").ok())
    assert row["LABELS"] == "region=eu"
    (row,) = _table(hub.kubectl("get", "cluster", unique, "-L", "region").ok())
    assert row["REGION"] == "eu"


def test_columns_of_ones_own(hub: Hub, placement: str) -> None:
    columns = "NAME:.metadata.name,PICKS:.spec.policy.numberOfClusters,ELSE:.spec.nothing"
    said = hub.kubectl("get", "crp", placement, "-o", f"custom-columns={columns}").ok()
    assert _table(said) == [{"NAME": placement, "PICKS": "3", "ELSE": "<none>"}]


def test_a_column_in_another_order(hub: Hub, unique: str) -> None:
    for name, number in (("a", 2), ("b", 1)):
        placement = a_placement(f"{unique}-{name}", policy=pick(number))
        placement["metadata"]["labels"] = {"test": unique}
        hub.http.post(PLACEMENTS, placement).ok()
    order = "--sort-by=.spec.policy.numberOfClusters"
    said = hub.kubectl("get", "crp", "-l", f"test={unique}", order, "-o", "name").ok()
    assert [line.rpartition("-")[2] for line in said.split()] == ["b", "a"]


def test_a_category_shows_several_kinds(hub: Hub, unique: str) -> None:
    labelled = {"labels": {"test": unique}}
    hub.http.post(CLUSTERS, a_cluster(unique, metadata=labelled)).ok()
    placement = a_placement(unique)
    placement["metadata"] |= labelled
    hub.http.post(PLACEMENTS, placement).ok()
    said = hub.kubectl("get", "fleet", "-l", f"test={unique}", "-o", "name").ok()
    assert said.split() == [
        f"membercluster.cluster.kubernetes-fleet.io/{unique}",
        f"clusterresourceplacement.placement.kubernetes-fleet.io/{unique}",
    ]


@pytest.mark.parametrize("resource", SHOWN_BY_SHORT_NAME, ids=lambda resource: resource.short_names[0])
def test_every_kind_has_its_columns(hub: Hub, resource: KindDefinition) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    place = f"/namespaces/{hub.namespace}" if resource.is_namespaced else ""
    for version in resource.versions:
        path = f"/apis/{resource.group}/{version}{place}/{resource.plural}"
        columns = hub.http.request("GET", path, headers={"Accept": accept}).ok()["columnDefinitions"]
        assert [column["name"].upper() for column in columns] == _columns(resource, wide=True)
        narrow = [column["name"].upper() for column in columns if not column["priority"]]
        assert narrow == _columns(resource, wide=False)


BUILT_IN = {
    "configmap": "NAME DATA AGE",
    "secret": "NAME TYPE DATA AGE",
    "serviceaccount": "NAME SECRETS AGE",
    "namespace": "NAME STATUS AGE",
}


@pytest.mark.parametrize("kind", BUILT_IN)
def test_built_in_kinds_have_theirs(hub: Hub, kind: str) -> None:
    for words in (["secret", "generic", "a"], ["configmap", "a"], ["serviceaccount", "a"]):
        hub.kubectl("create", *words).ok()
    header, *_ = hub.kubectl("get", kind).ok().splitlines()
    assert header.split() == BUILT_IN[kind].split()


def test_a_deployment_has_its_columns(hub: Hub) -> None:
    hub.kubectl("create", "deployment", "web", "--image=web:1").ok()
    (row,) = _table(hub.kubectl("get", "deployment", "web", "-o", "wide").ok())
    assert re.fullmatch(r"\d+s", row.pop("AGE"))
    assert row == {
        "NAME": "web",
        "READY": "0/1",
        "UP-TO-DATE": "0",
        "AVAILABLE": "0",
        "CONTAINERS": "web",
        "IMAGES": "web:1",
        "SELECTOR": "app=web",
    }
