"""A rollout works beside us: it binds what we schedule and deletes what we unschedule, while we go on deciding."""

from __future__ import annotations

from fleet.kube.api import Method
from fleet.kube.scopes import find_scope
from fleet.model.keys import BOUND
from tests.e2e.placing import SCHEDULED_OK, Hub, Places, namespace_and, places, selector, soon, soon_equal
from tests.e2e.scheduling import story, versions
from tests.e2e.world import CONFIG_MAPS

NS = "e2e-rollout"
BOTH = ("web", f"{NS}/web")
CLUSTERS = ("a", "b", "c", "d", "e")
SELECTS = {"web": namespace_and(NS, selector("ConfigMap")), f"{NS}/web": [selector("ConfigMap")]}
COMPLETE = "True ResourceAvailable"


async def five_clusters_and_content(fleet: Places) -> None:
    await fleet.namespace(NS)
    await fleet.join_with(NS, *CLUSTERS)
    if await fleet.find(CONFIG_MAPS, f"{NS}/settings") is None:
        await fleet.config_map(f"{NS}/settings", mode="1")


async def bound(fleet: Places, key: str) -> dict[str, str]:
    """By cluster, the resource snapshot it runs; of all bindings there are."""
    found = await fleet.bindings(key)
    assert all(one["spec"]["state"] == BOUND for one in found)
    return {one["spec"]["targetCluster"]: one["spec"]["resourceSnapshotName"] for one in found}


async def soon_runs(fleet: Places, key: str, snapshot: str, *clusters: str) -> None:
    """Everything is bound, what is not wanted is gone, and the status says so, of this snapshot."""
    index = snapshot.removeprefix("web-").removesuffix("-snapshot")

    async def look() -> bool:
        bindings = {one["spec"]["targetCluster"]: one["spec"] for one in await fleet.bindings(key)}
        runs = {(one["state"], one["resourceSnapshotName"]) for one in bindings.values()}
        listed, says = await fleet.listed(key), await fleet.says(key)
        return (
            set(bindings) == set(clusters) == {one.get("clusterName") for one in listed}
            and {one.get("observedResourceIndex") for one in listed} == {index}
            and runs == {(BOUND, snapshot)}
            and says.get("Available") == COMPLETE
            and says["Scheduled"] == SCHEDULED_OK["Scheduled"]
        )

    await soon(look)


@story
async def test_what_is_scheduled_is_bound_and_what_is_given_up_is_deleted(hub: Hub) -> None:
    async with places(hub, rolled_out=True) as fleet:
        await five_clusters_and_content(fleet)
        for key in BOTH:
            await fleet.place(key, {"placementType": "PickN", "numberOfClusters": 2}, selects=SELECTS[key])
        for key in BOTH:
            await soon_runs(fleet, key, "web-0-snapshot", "d", "e")

        for key in BOTH:
            await fleet.edit_policy(key, numberOfClusters=4)
        for key in BOTH:
            await soon_runs(fleet, key, "web-0-snapshot", "b", "c", "d", "e")

        before = {key: versions(await fleet.bindings(key)).keys() for key in BOTH}
        for key in BOTH:
            await fleet.edit_policy(key, tolerations=[{"key": "gpu", "operator": "Exists"}])
        for key in BOTH:
            await fleet.soon_scheduled(key)
            await soon_runs(fleet, key, "web-0-snapshot", "b", "c", "d", "e")
            assert versions(await fleet.bindings(key)).keys() == before[key]

        for key in BOTH:
            await fleet.edit_policy(key, numberOfClusters=1)
        for key in BOTH:
            await soon_runs(fleet, key, "web-0-snapshot", "e")

        await fleet.leave("e")
        for key in BOTH:
            await soon_runs(fleet, key, "web-0-snapshot", "d")

        for key in BOTH:
            await fleet.delete(find_scope(key).placement, key)
        for key in BOTH:
            await soon_equal(lambda key=key: fleet.bindings(key), [])


@story
async def test_new_content_reaches_every_cluster_without_a_decision(hub: Hub) -> None:
    async with places(hub, rolled_out=True) as fleet:
        await five_clusters_and_content(fleet)
        for key in BOTH:
            await fleet.place(key, {"placementType": "PickAll"}, selects=SELECTS[key])
        for key in BOTH:
            await soon_runs(fleet, key, "web-0-snapshot", *CLUSTERS)
        await fleet.settled()
        attempts = len(fleet.notebook.attempts)
        fleet.overheard.requests.clear()

        await fleet.config_map(f"{NS}/more", mode="2")
        for key in BOTH:
            await soon_runs(fleet, key, "web-1-snapshot", *CLUSTERS)
            assert {one["observedResourceIndex"] for one in await fleet.listed(key)} == {"1"}
        await fleet.settled()
        assert len(fleet.notebook.attempts) == attempts
        kinds = {kind for _, kind in fleet.overheard.writes()}
        assert not {kind for kind in kinds if "binding" in kind or "policysnapshot" in kind}
        await fleet.delete(CONFIG_MAPS, f"{NS}/more")


@story
async def test_many_edits_in_a_row_come_to_one_end(hub: Hub) -> None:
    """Nobody waits for anybody: decisions, rollout and edits race, and no cluster ever has two live bindings."""
    async with places(hub, rolled_out=True) as fleet:
        await five_clusters_and_content(fleet)
        for key in BOTH:
            await fleet.place(key, {"placementType": "PickN", "numberOfClusters": 1}, selects=SELECTS[key])
        tolerated: list[dict[str, str]] = []
        for number in (5, 2, 4, 0, 3):
            tolerated.append({"key": f"taint-{number}", "operator": "Exists"})
            for key in BOTH:
                await fleet.edit_policy(key, numberOfClusters=number)
                await fleet.edit_policy(key, tolerations=tolerated)
                live = [states.split("+") for states in (await fleet.states(key)).values()]
                assert all(one.count("Bound") + one.count("Scheduled") <= 1 for one in live)
        for key in BOTH:
            await soon_says_complete(fleet, key, 3)
            assert len(await bound(fleet, key)) == 3


async def soon_says_complete(fleet: Places, key: str, clusters: int) -> None:
    async def look() -> bool:
        says = await fleet.says(key)
        return (
            says.get("Available") == COMPLETE
            and says["Scheduled"] == SCHEDULED_OK["Scheduled"]
            and len(await fleet.listed(key)) == len(await fleet.bindings(key)) == clusters
        )

    await soon(look)


@story
async def test_a_settled_fleet_is_quiet(hub: Hub) -> None:
    """Heartbeats are answered by nobody; a restart finds nothing to write."""
    async with places(hub, rolled_out=True) as fleet:
        await five_clusters_and_content(fleet)
        for key in BOTH:
            await fleet.place(key, {"placementType": "PickN", "numberOfClusters": 3}, selects=SELECTS[key])
        for key in BOTH:
            await soon_says_complete(fleet, key, 3)
        await fleet.settled()
        fleet.overheard.requests.clear()
        for _ in range(3):
            for name in CLUSTERS:
                await fleet.report(name, namespaces=(NS,))
        await fleet.settled()
        assert [one.path for one in fleet.overheard.requests if one.method is not Method.GET] == []
    async with places(hub, rolled_out=True) as fleet:
        # A placement that comes after the others has been through every worker's hands when it is done.
        await fleet.settled()
        await fleet.place("last", {"placementType": "PickN", "numberOfClusters": 0})
        await fleet.soon_says("last", SCHEDULED_OK)
        await fleet.settled()
        written = [one.path for one in fleet.overheard.requests if one.is_write]
        assert [path for path in written if "last" not in path and "events" not in path] == [
            find_scope("last").policy_snapshot.collection(),
            find_scope("last").resource_snapshot.collection(),
        ]
