"""The scheduler alone, on a hub that knows the placement kinds it works with and nothing else of ours, with the rights
of KubeFleet's hub agent and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleet.clock import SystemClock
from fleet.errors import Forbidden
from fleet.kube.api import Api, Request
from fleet.kube.client.rate_limiter import RateLimiter
from fleet.kube.client.transport import Transport
from fleet.kube.scopes import find_scope
from fleet.manager.manager import SCHEDULER
from fleet.model.keys import CLUSTER_GROUP, PLACEMENT_GROUP, SCHEDULER_CLEANUP, SCHEDULING_GROUP
from tests.conformance.crds import FOLDER, PATH, is_established
from tests.conformance.embedded import new_hub
from tests.control_plane.access import Access, kubeconfig
from tests.control_plane.http_client import HttpClient
from tests.control_plane.waiting import soon as until
from tests.e2e.hub import LEASE_NAMESPACE
from tests.e2e.placing import Hub, Json, Places, soon, soon_equal
from tests.e2e.scheduling import Notebook, Overheard, by_cluster, selected, story
from tests.e2e.world import controlled

AGENT: Final = "alice"
LEASE: Final = "136224848560.hub.fleet.azure.com"
CLUSTER_KINDS: Final = (
    "memberclusters",
    "clusterresourceplacements",
    "clusterschedulingpolicysnapshots",
    "clusterresourcebindings",
)
NAMESPACED_KINDS: Final = ("resourceplacements", "schedulingpolicysnapshots", "resourcebindings")
NS: Final = "team-a"


def role(*, group: str, kinds: tuple[str, ...], verbs: str, names: tuple[str, ...] = ()) -> Json:
    rule: Json = {"apiGroups": [group], "resources": list(kinds), "verbs": verbs.split()}
    return rule | ({"resourceNames": list(names)} if names else {})


RULES: Final = [
    role(
        group=PLACEMENT_GROUP, kinds=("clusterresourceplacements", "resourceplacements"), verbs="get list watch update"
    ),
    role(
        group=PLACEMENT_GROUP,
        kinds=("clusterschedulingpolicysnapshots", "schedulingpolicysnapshots"),
        verbs="get list watch",
    ),
    role(
        group=PLACEMENT_GROUP,
        kinds=("clusterschedulingpolicysnapshots/status", "schedulingpolicysnapshots/status"),
        verbs="get update",
    ),
    role(
        group=PLACEMENT_GROUP,
        kinds=("clusterresourcebindings", "resourcebindings"),
        verbs="get list watch create patch update delete",
    ),
    role(group=CLUSTER_GROUP, kinds=("memberclusters",), verbs="get list watch"),
    role(group="", kinds=("events",), verbs="create patch"),
    role(group="coordination.k8s.io", kinds=("leases",), verbs="get list watch create"),
    role(group="coordination.k8s.io", kinds=("leases",), verbs="update patch", names=(LEASE,)),
]


class Denied:
    """Passes requests on, and keeps those that were refused."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.requests: list[str] = []

    async def call(self, request: Request) -> bytes:
        try:
            return await self._api.call(request)
        except Forbidden as error:
            self.requests.append(f"{request.method} {request.path}: {error}")
            raise

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._streamed(request)

    @asynccontextmanager
    async def _streamed(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            async with self._api.stream(request) as events:
                yield events
        except Forbidden as error:
            self.requests.append(f"watch {request.path}: {error}")
            raise


# --- a bare hub -------------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(target: str, tmp_path: Path) -> Iterator[Hub]:
    """A hub of its own, with the cluster-scoped kinds that a scheduler works with, and a user for it."""
    with new_hub(target, tmp_path / "hub") as running:
        client = HttpClient(running.access)
        for name in (LEASE_NAMESPACE, NS):
            client.post("/api/v1/namespaces", {"metadata": {"name": name}})  # it may be there
        grant(client)
        uninstall_all(client)
        install(client, CLUSTER_KINDS)
        yield Hub(target, running.access)


def grant(client: HttpClient) -> None:
    rbac, reference = "/apis/rbac.authorization.k8s.io/v1", {"apiGroup": "rbac.authorization.k8s.io"}
    named = {"metadata": {"name": "fleet-scheduler"}}
    client.post(f"{rbac}/clusterroles", {**named, "rules": RULES}).ok()
    role_reference = {**reference, "kind": "ClusterRole", "name": "fleet-scheduler"}
    subject = {**reference, "kind": "User", "name": AGENT}
    client.post(f"{rbac}/clusterrolebindings", {**named, "roleRef": role_reference, "subjects": [subject]}).ok()


def install(client: HttpClient, plurals: tuple[str, ...]) -> None:
    for plural in plurals:
        (file,) = FOLDER.glob(f"*_{plural}.yaml")
        client.post(PATH, yaml.safe_load(file.read_text(encoding="utf-8"))).ok()


def uninstall_all(client: HttpClient) -> None:
    """An embedded hub comes with everything."""
    for crd in client.get(PATH).ok()["items"]:
        client.delete(f"{PATH}/{crd['metadata']['name']}").ok()
    until(lambda: client.get(PATH).ok()["items"] == [])


async def served(hub: Hub, plurals: tuple[str, ...]) -> None:
    """To the agent as well: an API server needs a moment to learn of a role."""
    client, agent = HttpClient(hub.access), HttpClient(hub.access, user=AGENT)

    async def look() -> bool:
        crds: list[Json] = client.get(PATH).ok()["items"]
        ours = [crd for crd in crds if crd["spec"]["names"]["plural"] in plurals]
        paths = [f"/apis/{crd['spec']['group']}/v1beta1/{crd['spec']['names']['plural']}" for crd in ours]
        both = (client.get, agent.get)
        return all(map(is_established, ours)) and all(get(path).status == 200 for get in both for path in paths)

    await soon(look)


@asynccontextmanager
async def least(hub: Hub, *assignments: str) -> AsyncIterator[tuple[Places, Denied]]:
    """A scheduler that may do what its role allows; the test itself may do everything."""
    file = hub.access.kubeconfig.with_name("scheduler.kubeconfig")
    access: Access = hub.access
    file.write_text(kubeconfig(url=access.url, ca_file=access.ca_file, token=access.tokens[AGENT]), encoding="utf-8")
    clock = SystemClock()
    async with (
        hub.connected() as own,
        await Transport.from_kubeconfig(file, clock=clock, rate_limiter=RateLimiter(clock)) as connection,
    ):
        denied, notebook = Denied(connection), Notebook()
        overheard = Overheard(denied)
        options: dict[str, Any] = {"controllers": (SCHEDULER,), "elects": True, "recorder": notebook}
        async with controlled(overheard, *assignments, **options) as controller:
            yield Places(own, controller, overheard, notebook), denied


# --- the story --------------------------------------------------------------------------------------------------------


@story
async def test_a_hub_of_kubefleet_is_served_with_the_rights_of_its_agent(bare: Hub) -> None:
    """First without ResourcePlacements, which such a hub may lack, then with them."""
    await served(bare, CLUSTER_KINDS)
    async with least(bare, "resourcePlacements.enabled=false") as (fleet, denied):
        for name in ("a", "b", "c", "d"):
            await fleet.join(name, namespaces=(NS,))
        await live_and_die(fleet, "web")
        # Rights come before the look whether there is such a kind, and those of Fleet's own group are optional.
        assert [one for one in denied.requests if SCHEDULING_GROUP not in str(one)] == []
        asked = {one.path.split("/")[2] for one in fleet.overheard.requests if one.path.startswith("/apis")}
        assert asked == {PLACEMENT_GROUP, CLUSTER_GROUP, "coordination.k8s.io", SCHEDULING_GROUP}
        lease = HttpClient(bare.access).get(f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases/{LEASE}")
        assert lease.ok()["spec"]["holderIdentity"]

    install(HttpClient(bare.access), NAMESPACED_KINDS)
    await served(bare, NAMESPACED_KINDS)
    async with least(bare) as (fleet, denied):
        await fleet.join("d", namespaces=(NS,))
        for key in ("web", f"{NS}/web"):
            await live_and_die(fleet, key)
            if "/" not in key:
                await fleet.join("d", namespaces=(NS,))
        assert [one for one in denied.requests if SCHEDULING_GROUP not in str(one)] == []

    # What is not in the role is refused: otherwise nothing above means anything.
    agent = HttpClient(bare.access, user=AGENT)
    root = f"/apis/{PLACEMENT_GROUP}/v1beta1"
    refused = {
        agent.delete(f"{root}/clusterresourceplacements/web").status,
        agent.patch(f"{root}/clusterschedulingpolicysnapshots/web-0/status", {}).status,
        agent.get("/api/v1/namespaces").status,
        agent.get(PATH).status,
    }
    assert refused == {403}


async def live_and_die(fleet: Places, key: str) -> None:
    """The life of a placement whose snapshots somebody else writes and whose bindings somebody else rolls out."""
    policy = {"placementType": "PickN", "numberOfClusters": 2}
    await fleet.settled()
    await fleet.place(key, policy)
    await fleet.snapshot(key, policy)
    assert set(selected(await fleet.decided(key))) == {"c", "d"}
    assert SCHEDULER_CLEANUP in (await fleet.placement(key))["metadata"]["finalizers"]

    await fleet.bind(key, "c")
    await fleet.annotate(key, count="3")
    await fleet.soon_on(key, "b", "c", "d")
    await fleet.annotate(key, count="2")
    await fleet.soon_on(key, "c", "d")
    await fleet.annotate(key, count="3")
    await fleet.soon_on(key, "b", "c", "d")

    await fleet.mark(key, 0, latest="false")
    await fleet.snapshot(key, {**policy, "tolerations": [{"key": "gpu", "operator": "Exists"}]}, index=1)
    await soon_equal(lambda: snapshots_in_use(fleet, key), {"web-1"})
    await fleet.soon_on(key, "c", "d")

    await fleet.start_leaving("d")
    await fleet.finish_leaving("d")
    await soon(lambda: is_replaced(fleet, key))
    by_cluster(one for one in await fleet.bindings(key) if one["spec"]["state"] != "Unscheduled")
    await fleet.soon_told(key, "SchedulingChanged")

    await fleet.delete(find_scope(key).placement, key)
    await soon_equal(lambda: fleet.find(find_scope(key).placement, key), None)
    await soon_equal(lambda: fleet.bindings(key), [])
    for index in (0, 1):
        await fleet.delete(find_scope(key).policy_snapshot, f"{key}-{index}")


async def snapshots_in_use(fleet: Places, key: str) -> set[str]:
    live = [one["spec"] for one in await fleet.bindings(key) if one["spec"]["state"] != "Unscheduled"]
    return {one["schedulingPolicySnapshotName"] for one in live}


async def is_replaced(fleet: Places, key: str) -> bool:
    in_use = await fleet.in_use(key)
    return len(in_use) == 2 and "d" not in in_use
