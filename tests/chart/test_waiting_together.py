"""A placement that waits for people, as documented for high availability: a controller and two replicas of the API.

Each is a process of its own, and their history is in PostgreSQL.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.chart.pods import Container, Machine
from tests.chart.rights import requests_of, user_of
from tests.chart.test_leaders import highly_available, migrate
from tests.control_plane.cluster import Cluster
from tests.control_plane.http_client import HttpClient
from tests.control_plane.waiting import soon
from tests.e2e.hub import Hub
from tests.e2e.world import World
from tests.postgres import Postgres

PLUGIN: Final = "PlacementApproval"
CLUSTERS: Final = ("ams", "dub")
HOLD: Final = 600
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
PROFILE: Final = {"schedulerName": "DefaultScheduler", "plugins": {"permit": {"enabled": [{"name": PLUGIN}]}}}
BINDINGS: Final = ("clusterresourcebindings", "placement.kubernetes-fleet.io", "create")
SECONDS: Final = 120

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Site:
    cluster: Cluster
    namespace: str
    controller: Container
    apis: tuple[Container, ...]

    def ask(self, replica: int, path: str, *, user: str = "admin") -> Any:
        return HttpClient(self.apis[replica].api(), user=user).get(path).ok()

    def list_waiting(self, replica: int) -> dict[str, Any]:
        """By placement and cluster."""
        items = self.ask(replica, "/v1/waiting")["items"]
        return {f"{item['key']} {one['cluster']}": one for item in items for one in item["waiting"]}

    def soon_waiting(self, replica: int, *expected: str) -> dict[str, Any]:
        soon(lambda: set(self.list_waiting(replica)) == set(expected), within=SECONDS)
        return self.list_waiting(replica)

    def answer(self, replica: int, verb: str, uid: str, *, user: str = "alice", key: str = "", **body: str) -> Any:
        client = HttpClient(self.apis[replica].api(), user=user)
        headers = {"Idempotency-Key": key} if key else {}
        content = {"plugin": PLUGIN, **body}
        return client.request("POST", f"/v1/waiting/{uid}/{verb}", body=content, headers=headers)

    def count_created(self) -> int:
        """Bindings, by the audit log of the API server."""
        asked = requests_of(self.cluster.audit_log, user_of("fleet-controller", namespace=self.namespace))
        rights = (one.right for one in asked if one.right)
        return sum((right.resource, right.group, right.verb) == BINDINGS for right in rights)

    async def place(self, name: str) -> str:
        async with Hub("real", self.cluster.access).connected() as admin:
            world = World(admin)
            rule = {"name": "owners", "approvers": {"users": ["alice"]}, "holdSeconds": HOLD}
            options = {"metadata": {"name": name}, "spec": {"approvals": [rule]}}
            await world.create(CLUSTER_SCOPED.options, options)
            placement = await world.place(name, {"placementType": "PickAll"})
            return str(placement["metadata"]["uid"])

    async def soon_on(self, name: str, *clusters: str) -> None:
        async with Hub("real", self.cluster.access).connected() as admin:
            await World(admin).soon_on(name, *clusters, within=SECONDS)


def grant_alice(hub: HttpClient) -> None:
    rules = [
        {
            "apiGroups": ["scheduling.fleet.dev"],
            "resources": ["clusterplacementapprovals"],
            "resourceNames": ["owners"],
            "verbs": ["approve"],
        },
        {
            "apiGroups": ["placement.kubernetes-fleet.io"],
            "resources": ["clusterresourceplacements"],
            "verbs": ["get", "list"],
        },
        {"apiGroups": ["cluster.kubernetes-fleet.io"], "resources": ["memberclusters"], "verbs": ["get", "list"]},
    ]
    hub.post(f"{RBAC}/clusterroles", {"metadata": {"name": "waits"}, "rules": rules}).ok()
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "waits"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "waits"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    }
    hub.post(f"{RBAC}/clusterrolebindings", binding).ok()


@pytest.fixture(scope="module")
def site(cluster: Cluster, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    async def join() -> None:
        async with Hub("real", cluster.access).connected() as admin:
            for name in CLUSTERS:
                await World(admin).join(name)

    with postgres.database() as url, ExitStack() as running:
        home = tmp_path_factory.mktemp("helm")
        release = highly_available(cluster, url, home, "--set-json", f"profiles={json.dumps([PROFILE])}")
        machine = Machine(release, tmp_path_factory.mktemp("machine"))
        migrate(machine)
        asyncio.run(join())
        grant_alice(release.hub)
        controller = machine.container_of("fleet-controller")
        apis = tuple(machine.container_of("fleet-api", replica=number) for number in range(2))
        for one in (controller, *apis):
            running.enter_context(one.running())
        yield Site(cluster, release.namespace, controller, apis)


def test_a_kill_in_the_middle_of_a_wait_loses_neither_the_time_nor_the_clusters(site: Site) -> None:
    """Asked at one replica, answered at the other, and bound by a process that did not ask."""
    uid = asyncio.run(site.place("gold"))
    asked = ("gold ams", "gold dub")
    first, other = (site.soon_waiting(replica, *asked) for replica in range(2))
    for replica in range(2):
        before = time.time()
        found = site.list_waiting(replica)
        after = time.time()
        for one in found.values():
            deadline = datetime.fromisoformat(one["deadline"]).timestamp()
            assert deadline - after - 1 <= one["remainingSeconds"] <= min(deadline - before + 1, HOLD)
    deadlines = {name: one["deadline"] for name, one in first.items()}
    assert {name: one["deadline"] for name, one in other.items()} == deadlines

    site.controller.process.kill()
    soon(lambda: not site.controller.process.is_running, within=SECONDS)
    site.controller.keep_running()
    soon(site.controller.is_ready, within=SECONDS)
    again = site.soon_waiting(1, *asked)
    assert {name: one["deadline"] for name, one in again.items()} == deadlines
    assert all(again[name]["remainingSeconds"] < first[name]["remainingSeconds"] for name in asked)
    why = site.ask(1, "/v1/placements/-/gold/why")
    assert why["verdict"]["state"] == "Waiting"
    assert site.count_created() == 0

    assert site.answer(0, "allow", uid, user="bob").status == 403
    allowed = [site.answer(replica, "allow", uid, key="once", reason="tested") for replica in (0, 1)]
    assert [(one.status, one.json) for one in allowed] == [(200, {"dealtWith": True, "remaining": []})] * 2
    asyncio.run(site.soon_on("gold", *CLUSTERS))
    late = site.answer(1, "allow", uid)
    assert late.status == 410
    assert late.json["detail"].startswith("approved already by alice at ")
    soon(lambda: site.count_created() == len(CLUSTERS), within=SECONDS)


def test_what_is_denied_creates_nothing_and_says_why_in_its_words(site: Site) -> None:
    before = site.count_created()
    uid = asyncio.run(site.place("lead"))
    site.soon_waiting(0, "lead ams", "lead dub")
    denied = site.answer(1, "reject", uid, message="not before the release")
    assert (denied.status, denied.json) == (200, {"delivered": True})
    for replica in range(2):
        soon(
            lambda replica=replica: "not before the release" in str(site.ask(replica, "/v1/placements/-/lead/why")),  # type: ignore[misc]
            within=SECONDS,
        )
        assert "denied already by alice" in site.answer(replica, "allow", uid).json["detail"]
    assert site.count_created() == before
