"""A placement with one change of policy and two contents, object by object: how everything hangs together."""

from __future__ import annotations

import asyncio
from typing import Final

from fleet.model.catalog import CATALOG
from fleet.placement.selection.resolution import SelectedObject, SelectionResult
from tests.fake_hub import GROUP, Json
from tests.faults.virtual import within
from tests.unit.placement.workbench import (
    RUNNING,
    THE_NAMESPACE,
    WEB,
    Neighbours,
    Workbench,
    a_placement,
    an_object,
    pick_n,
)

PREFIX: Final = "kubernetes-fleet.io/"
LARGE: Final = b'{"data":"' + b"x" * 500 * 1024 + b'"}'


def large(name: str) -> SelectedObject:
    return SelectedObject("", "v1", "ConfigMap", "shop", name, LARGE)


def tied(document: Json) -> Json:
    """Labels and annotations without prefix, hashes and the parent aside."""
    metadata = document["metadata"]
    found = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
    short = {key.removeprefix(PREFIX): value for key, value in found.items()}
    return {key: value for key, value in short.items() if key not in ("parent-CRP", "resource-hash")}


@within(Workbench)
async def test_the_objects_of_a_placement_with_a_history(bench: Workbench) -> None:
    await a_history(bench)
    snapshots = {
        path.removeprefix(f"{GROUP}/cluster"): tied(document)
        for path, document in bench.hub.objects.items()
        if "snapshots/" in path
    }
    assert snapshots == {
        "schedulingpolicysnapshots/web-0": {
            "policy-index": "0",
            "is-latest-snapshot": "false",
            "CRP-generation": "1",
            "number-of-clusters": "2",
        },
        "schedulingpolicysnapshots/web-1": {
            "policy-index": "1",
            "is-latest-snapshot": "true",
            "CRP-generation": "3",
            "number-of-clusters": "3",
        },
        "resourcesnapshots/web-0-snapshot": {
            "resource-index": "0",
            "is-latest-snapshot": "false",
            "number-of-resource-snapshots": "1",
            "number-of-enveloped-object": "0",
        },
        "resourcesnapshots/web-1-snapshot": {
            "resource-index": "1",
            "is-latest-snapshot": "true",
            "number-of-resource-snapshots": "2",
            "number-of-enveloped-object": "0",
        },
        "resourcesnapshots/web-1-0": {"resource-index": "1", "subindex-of-resource-snapshot": "0"},
    }


@within(Workbench)
async def test_the_status_of_a_placement_with_a_history(bench: Workbench) -> None:
    await a_history(bench)
    others = Neighbours(bench.hub)
    others.schedule("east-1", "west-1", fulfilled=False, refused=["north-1"])
    others.report("east-1", RUNNING, snapshot="web-1-snapshot")
    others.report("west-1", RUNNING)
    await bench.settle()
    assert bench.status()["observedResourceIndex"] == "1"
    assert [one["name"] for one in bench.status()["selectedResources"]] == ["shop", "a", "b"]
    assert bench.conditions() == {"Scheduled": "False", "RolloutStarted": "Unknown"}
    indices = [one.get("observedResourceIndex") for one in bench.status()["placementStatuses"]]
    assert indices == ["1", "0", None]


@within(Workbench)
async def test_everything_that_is_written_fits_its_kind(bench: Workbench) -> None:
    await a_history(bench)
    bench.hub.edit(WEB, spec={"statusReportingScope": "NamespaceAccessible"})
    await bench.settle()
    others = Neighbours(bench.hub)
    others.schedule("east-1", fulfilled=False, refused=["north-1"])
    others.report("east-1", {**RUNNING, "Applied": ("False", "NotAllWorkHaveBeenApplied")})
    await bench.settle()
    models = {resource.plural: resource.model for resource in CATALOG}
    checked = set()
    for path, document in bench.hub.objects.items():
        plural = path.split("/")[-2]
        models[plural].model_validate(document)
        checked.add(plural)
    assert {"clusterresourceplacements", "clusterresourceplacementstatuses"} < checked


async def a_history(bench: Workbench) -> None:
    a_placement(bench.hub, policy=pick_n(2))
    bench.content.selected = SelectionResult((THE_NAMESPACE, an_object("a")))
    await bench.settle()
    bench.hub.edit(WEB, spec={"policy": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}})
    await bench.settle()
    bench.hub.edit(WEB, spec={"policy": {"numberOfClusters": 3}})
    bench.content.selected = SelectionResult((THE_NAMESPACE, large("a"), large("b")))
    await bench.settle()
    await asyncio.sleep(60)
    await bench.settle()
