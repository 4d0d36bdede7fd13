"""What the demo places, and that it is created once."""

from __future__ import annotations

from typing import Any

from fleet.demo.locations import location_at
from fleet.demo.workloads import CONFIG_MAP, Workloads, demo_objects
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import VirtualClock, no_jitter, virtual

PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
CACHE = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/shop/resourceplacements/catalog-cache"


def workloads(api: HubApi) -> Workloads:
    return Workloads(api, clock=VirtualClock(), jitter=no_jitter)


def policies() -> dict[str, Any]:
    specs = {one["metadata"]["name"]: one["spec"] for _, one in demo_objects() if "spec" in one}
    return {name: spec["policy"] for name, spec in specs.items() if "policy" in spec}


@virtual
async def test_five_placements_of_every_type_are_accepted_by_the_hub() -> None:
    api = a_hub()
    await workloads(api).establish()

    placed = {one["metadata"]["name"]: one["spec"]["policy"]["placementType"] for one in await api.list(PLACEMENTS)}
    assert placed == {
        "node-agents": "PickAll",
        "payments-ledger": "PickFixed",
        "storefront": "PickN",
        "batch-reports": "PickN",
    }
    assert (await api.get(CACHE))["spec"]["policy"]["placementType"] == "PickN"


@virtual
async def test_what_is_selected_exists() -> None:
    api = a_hub()
    await workloads(api).establish()

    for placement in await api.list(PLACEMENTS):
        namespace = placement["spec"]["resourceSelectors"][0]["name"]
        assert await api.exists(f"/api/v1/namespaces/{namespace}")
        assert await api.list(f"/apis/apps/v1/namespaces/{namespace}/deployments")


def test_the_fixed_clusters_are_members_of_the_smallest_demo_fleets() -> None:
    assert policies()["payments-ledger"]["clusterNames"] == [location_at(0).name, location_at(1).name]


@virtual
async def test_a_second_start_changes_nothing() -> None:
    api = a_hub()
    await workloads(api).establish()
    await api.patch(f"{PLACEMENTS}/storefront", {"spec": {"policy": {"numberOfClusters": 2}}})
    revision = api.hub.store.revision

    await workloads(api).establish()

    assert api.hub.store.revision == revision


@virtual
async def test_what_was_deleted_does_not_come_back() -> None:
    api = a_hub()
    await workloads(api).establish()
    await api.delete(f"{PLACEMENTS}/storefront")

    await workloads(api).establish()

    assert not await api.exists(f"{PLACEMENTS}/storefront")


@virtual
async def test_a_start_that_was_cut_short_is_continued() -> None:
    api = a_hub()
    await workloads(api).establish(demo_objects()[:3])

    await workloads(api).establish()

    assert len(await api.list(PLACEMENTS)) == 4


@virtual
async def test_objects_of_the_same_name_are_left_as_they_are() -> None:
    api = a_hub()
    ours = (CONFIG_MAP, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"by": "the demo"}})
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"by": "somebody"}}
    await api.create("/api/v1/namespaces/default/configmaps", theirs)

    await workloads(api).establish([ours])

    assert (await api.get("/api/v1/namespaces/default/configmaps/settings"))["data"] == {"by": "somebody"}
