"""Simulated members on the embedded hub, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from fleet.demo.members import SILENT, MemberBehavior, SimulatedMembers
from fleet.model.quantity import quantity_to_float
from fleet.model.timestamps import SECOND, parse_timestamp
from tests.faults.hub_api import Document, HubApi, a_hub
from tests.faults.virtual import VirtualClock, virtual, within

CLUSTERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
UNEVENTFUL = MemberBehavior(silence_every=0, leave_every=0, join_every=0)
RARE = replace(UNEVENTFUL, heartbeat=600.0, report=600.0)
"""For tests that let days pass."""
A_TAINT = {"key": "maintenance", "effect": "NoSchedule"}


def a_cluster(name: str) -> Document:
    """What an administrator writes by hand."""
    spec = {"identity": {"kind": "User", "name": name}}
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name},
        "spec": spec,
    }


@dataclass
class Fleet:
    api: HubApi
    members: SimulatedMembers
    clock: VirtualClock
    told: list[str]

    async def clusters(self) -> dict[str, Document]:
        return {one["metadata"]["name"]: one for one in await self.api.list(CLUSTERS)}

    async def cluster(self, name: str) -> Document:
        return await self.api.get(f"{CLUSTERS}/{name}")

    async def since_heard(self, name: str) -> float:
        """Seconds."""
        heard = agent_of(await self.cluster(name))["lastReceivedHeartbeat"]
        return self.clock.now().timestamp() - parse_timestamp(heard) / SECOND


def agent_of(cluster: Document) -> Document:
    agent: Document = cluster["status"]["agentStatus"][0]
    return agent


def true_conditions(owner: Document) -> set[str]:
    return {one["type"] for one in owner["conditions"] if one["status"] == "True"}


@asynccontextmanager
async def a_fleet(
    size: int = 12, *, behavior: MemberBehavior = UNEVENTFUL, api: HubApi | None = None, **given: Any
) -> AsyncIterator[Fleet]:
    """Once `establish` has returned."""
    api, clock, told = api or a_hub(), VirtualClock(), list[str]()
    given = {"random": Random(7), "announce": lambda about, text: told.append(f"{about} {text}"), **given}
    members = SimulatedMembers(api, clock=clock, behavior=behavior, **given)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(members.run(), name="members")
        await members.establish(size)
        yield Fleet(api, members, clock, told)
        running.cancel()


# --- joining and being heard ------------------------------------------------------------------------------------------


@within(lambda: a_fleet(12))
async def test_all_members_have_joined_and_are_healthy(fleet: Fleet) -> None:
    clusters = await fleet.clusters()

    assert len(clusters) == 12
    for cluster in clusters.values():
        assert agent_of(cluster)["type"] == "MemberAgent"
        assert true_conditions(agent_of(cluster)) == {"Joined", "Healthy"}
        assert true_conditions(cluster["status"]) >= {"Joined", "NamespaceCollectionSucceeded"}
        assert cluster["status"]["namespaces"] == {"default": "", "kube-system": ""}


@within(lambda: a_fleet(1))
async def test_members_report_what_policies_can_ask_for(fleet: Fleet) -> None:
    status = (await fleet.cluster("iad-1"))["status"]

    assert set(status["properties"]) == {
        "kubernetes-fleet.io/node-count",
        "k8s.io/k8s-version",
        "kubernetes.azure.com/per-cpu-core-cost",
        "kubernetes.azure.com/per-gb-memory-cost",
    }
    assert set(status["resourceUsage"]) == {"capacity", "allocatable", "available", "observationTime"}


@within(lambda: a_fleet(12))
async def test_heartbeats_go_on(fleet: Fleet) -> None:
    await asyncio.sleep(180)

    assert max([await fleet.since_heard(name) for name in await fleet.clusters()]) <= 7


@within(lambda: a_fleet(4))
async def test_properties_and_usage_drift_within_what_is_possible(fleet: Fleet) -> None:
    before = await fleet.clusters()
    await asyncio.sleep(600)
    after = await fleet.clusters()

    for name, cluster in after.items():
        usage = cluster["status"]["resourceUsage"]
        assert usage["available"] != before[name]["status"]["resourceUsage"]["available"]
        assert int(cluster["status"]["properties"]["kubernetes-fleet.io/node-count"]["value"]) >= 1
        assert 0 < int(usage["available"]["cpu"][:-1]) < int(usage["allocatable"]["cpu"][:-1])


@virtual
async def test_between_reports_a_heartbeat_says_nothing_else() -> None:
    behavior = replace(UNEVENTFUL, report=1e9)
    async with a_fleet(1, behavior=behavior) as fleet:
        before = (await fleet.cluster("iad-1"))["status"]
        await asyncio.sleep(60)
        after = (await fleet.cluster("iad-1"))["status"]

        assert after["agentStatus"] != before["agentStatus"]
        assert {**after, "agentStatus": 0} == {**before, "agentStatus": 0}


@virtual
async def test_hundreds_of_members_are_heard_evenly_and_with_one_request_each() -> None:
    async with a_fleet(600) as fleet:
        interval = fleet.members.interval
        await asyncio.sleep(interval)
        fleet.api.requests.clear()
        seconds = Counter[int]()
        for second in range(round(interval)):
            await asyncio.sleep(1)
            seconds[second] = len(fleet.api.requests) - seconds.total()

        assert 595 <= seconds.total() <= 640
        assert max(seconds.values()) <= 75
        assert {request.path.rpartition("/")[2] for request in fleet.api.requests} == {"status"}


def test_large_fleets_are_heard_less_often() -> None:
    behavior = MemberBehavior(heartbeat=5, heartbeats_per_second=60)

    assert [behavior.interval(members) for members in (12, 300, 3000)] == [5, 5, 50]


# --- what people do ---------------------------------------------------------------------------------------------------


@within(lambda: a_fleet(1))
async def test_a_cluster_that_somebody_creates_is_given_an_agent(fleet: Fleet) -> None:
    await fleet.api.create(CLUSTERS, a_cluster("edge-lab"))
    await asyncio.sleep(2)

    assert true_conditions(agent_of(await fleet.cluster("edge-lab"))) == {"Joined", "Healthy"}


@virtual
async def test_a_cluster_that_somebody_deletes_leaves_in_good_order() -> None:
    async with a_fleet(2) as fleet:
        await fleet.api.delete(f"{CLUSTERS}/iad-1")
        leaving = await fleet.cluster("iad-1")
        await asyncio.sleep(10)

        assert leaving["metadata"]["deletionTimestamp"]
        assert set(await fleet.clusters()) == {"dub-1"}


@within(lambda: a_fleet(1))
async def test_a_cluster_with_the_silence_annotation_says_nothing_until_it_is_taken_away(fleet: Fleet) -> None:
    await fleet.api.patch(f"{CLUSTERS}/iad-1", {"metadata": {"annotations": {SILENT: "true"}}})
    await asyncio.sleep(600)
    assert await fleet.since_heard("iad-1") >= 590

    await fleet.api.patch(f"{CLUSTERS}/iad-1", {"metadata": {"annotations": {SILENT: None}}})
    await asyncio.sleep(10)
    assert await fleet.since_heard("iad-1") <= 7


@within(lambda: a_fleet(1))
async def test_labels_and_taints_that_people_change_are_left_alone(fleet: Fleet) -> None:
    changed = {"labels": {"env": "canary"}}
    await fleet.api.patch(f"{CLUSTERS}/iad-1", {"metadata": changed, "spec": {"taints": [A_TAINT]}})
    await asyncio.sleep(120)
    cluster = await fleet.cluster("iad-1")

    assert cluster["metadata"]["labels"]["env"] == "canary"
    assert cluster["spec"]["taints"] == [A_TAINT]


@virtual
async def test_namespaces_that_were_placed_are_reported_and_those_that_are_gone_are_not() -> None:
    placed: dict[str, str] = {"shop": "storefront-work"}

    def namespaces_on(cluster: str) -> Mapping[str, str]:
        return placed if cluster == "iad-1" else {}

    async with a_fleet(2, namespaces_on=namespaces_on) as fleet:
        first = (await fleet.cluster("iad-1"))["status"]["namespaces"]
        placed.clear()
        await asyncio.sleep(10)
        then = (await fleet.cluster("iad-1"))["status"]["namespaces"]

        assert first == {"default": "", "kube-system": "", "shop": "storefront-work"}
        assert then == {"default": "", "kube-system": ""}
        assert "shop" not in (await fleet.cluster("dub-1"))["status"]["namespaces"]


@virtual
async def test_what_was_placed_is_not_available_any_more() -> None:
    used: dict[str, int] = {}
    async with a_fleet(1, usage_on=lambda _: used) as fleet:
        free = await read_available(fleet)
        used |= {"cpu": 1_000_000, "memory": 1 << 50}
        await asyncio.sleep(60)

        assert min(free) > 0
        assert await read_available(fleet) == [0, 0]


async def read_available(fleet: Fleet) -> list[float]:
    available = (await fleet.cluster("iad-1"))["status"]["resourceUsage"]["available"]
    return [quantity_to_float(available[resource]) for resource in ("cpu", "memory")]


# --- now and then -----------------------------------------------------------------------------------------------------


@virtual
async def test_now_and_then_a_member_falls_silent_and_comes_back() -> None:
    async with a_fleet(4, behavior=replace(RARE, silence_every=600, silence_lasts=120)) as fleet:
        await asyncio.sleep(4 * 3600)

        silent = [text.split()[1] for text in fleet.told if "falls silent" in text]
        assert 12 <= len(silent) <= 40
        assert f"cluster {silent[0]} is heard again" in fleet.told


@virtual
async def test_at_the_beginning_nothing_happens_of_its_own_accord() -> None:
    behavior = replace(RARE, calm=3600, silence_every=1, leave_every=1, join_every=1)
    async with a_fleet(4, behavior=behavior) as fleet:
        await asyncio.sleep(3590)
        assert fleet.told == []
        await asyncio.sleep(60)
        assert fleet.told != []


@virtual
async def test_a_silent_member_is_not_heard() -> None:
    async with a_fleet(1, behavior=replace(UNEVENTFUL, silence_every=30, silence_lasts=1e9)) as fleet:
        await asyncio.sleep(1200)

        assert fleet.told == ["cluster iad-1 falls silent for 1000000000 s"]
        assert await fleet.since_heard("iad-1") >= 600


@virtual
async def test_members_that_leave_and_join_keep_the_fleet_near_its_size() -> None:
    async with a_fleet(12, behavior=replace(RARE, leave_every=60, join_every=60)) as fleet:
        sizes = set()
        for _ in range(120):
            await asyncio.sleep(30)
            sizes.add(len(await fleet.clusters()))

        assert min(sizes) >= 9
        assert max(sizes) <= 15
        assert any("leaves the fleet" in text for text in fleet.told)
        assert any("joins the fleet" in text for text in fleet.told)


@virtual
async def test_spared_members_neither_leave_nor_fall_silent() -> None:
    spared = frozenset({"iad-1", "dub-1"})
    behavior = replace(RARE, silence_every=30, leave_every=60, join_every=60, spared=spared)
    async with a_fleet(6, behavior=behavior) as fleet:
        await asyncio.sleep(7200)

        assert spared <= set(await fleet.clusters())
        assert any("leaves the fleet" in text for text in fleet.told)
        assert not any(name in text for name in spared for text in fleet.told)


@within(lambda: a_fleet(4, behavior=RARE))
async def test_rates_of_zero_mean_never(fleet: Fleet) -> None:
    names = set(await fleet.clusters())
    await asyncio.sleep(1200)

    assert (set(await fleet.clusters()), fleet.told) == (names, [])


# --- starting again ---------------------------------------------------------------------------------------------------


@virtual
async def test_another_start_goes_on_with_the_clusters_that_are_there() -> None:
    async with a_fleet(4) as fleet:
        await fleet.api.delete(f"{CLUSTERS}/sin-1")
        await asyncio.sleep(60)
        api, before = fleet.api, await fleet.clusters()
    async with a_fleet(3, api=api) as fleet:
        after = await fleet.clusters()

    assert set(after) == set(before) == {"iad-1", "dub-1", "atl-1"}
    assert [one["metadata"]["uid"] for one in after.values()] == [one["metadata"]["uid"] for one in before.values()]
    nodes = [one["status"]["properties"]["kubernetes-fleet.io/node-count"]["value"] for one in before.values()]
    again = [one["status"]["properties"]["kubernetes-fleet.io/node-count"]["value"] for one in after.values()]
    assert all(abs(int(new) - int(old)) <= 1 for new, old in zip(again, nodes, strict=True))


@virtual
async def test_a_fleet_grows_to_the_size_that_is_asked_for() -> None:
    async with a_fleet(4) as fleet:
        api = fleet.api
    async with a_fleet(9, api=api) as fleet:
        assert len(await fleet.clusters()) == 9
