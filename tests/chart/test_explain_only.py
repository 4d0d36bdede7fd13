"""`mode: explain-only` beside a KubeFleet that stays as it is: everything is answered, and nothing could be changed.

KubeFleet's hub agent is played by a controller of ours that shares nothing with the release: its bindings are not known
to the API but by what is on the hub.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.chart.aggregated import AggregatedRelease, aggregated, kubeconfig_of
from tests.chart.conftest import settle
from tests.chart.pods import Machine
from tests.chart.release import Release, install_definitions
from tests.chart.rights import Right, granted, requests_of, user_of
from tests.control_plane.access import Access
from tests.control_plane.cluster import Cluster
from tests.control_plane.http_client import HttpClient
from tests.control_plane.process import ServerProcess
from tests.control_plane.waiting import soon
from tests.e2e.hub import Hub
from tests.e2e.world import World

pytestmark = pytest.mark.timeout(900)

CRP: Final = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements"
GROUP: Final = "placement.kubernetes-fleet.io"
PATIENT: Final = "settings.eligibility.heartbeatTimeout=8760h"
READS: Final = {"get", "list", "watch"}
REVIEWS: Final = {
    Right("tokenreviews", "authentication.k8s.io", "create"),
    Right("subjectaccessreviews", "authorization.k8s.io", "create"),
}
"""Creates that the hub answers and does not store."""
QUESTIONS: Final = (
    "/v1/placements/-/web/why",
    "/v1/placements/-/web/why?explain=all&fixes=deep",
    "/v1/clusters/dub-1/why-not?placement=web",
    "/v1/placements",
    "/v1/placements/-/web",
    "/v1/clusters",
    "/v1/clusters/ams-1",
    "/v1/bindings",
    "/v1/profiles",
    "/v1/config",
    "/v1/snapshot",
    "/metrics",
)
_MINUTE: Final = 60.0


@dataclass(frozen=True)
class Beside:
    cluster: Cluster
    hub: AggregatedRelease
    kubeconfig: Path
    home: Path

    def why(self, name: str) -> dict[str, Any]:
        client = HttpClient(self.cluster.access)
        found: dict[str, Any] = client.get(f"/apis/explain.fleet/v1/placements/-/{name}/why").ok()
        return found

    def fleet(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fleet.cli", *arguments, f"--kubeconfig={self.kubeconfig}"],
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=_MINUTE,
            check=False,
        )
        return done.stdout + done.stderr


async def place(access: Access) -> None:
    async with Hub("real", access).connected() as admin:
        world = World(admin)
        for name in ("ams-1", "ams-2", "dub-1"):
            await world.join(name)
        await world.place("web", {"placementType": "PickN", "numberOfClusters": 2})
        await world.place("fixed", {"placementType": "PickFixed", "clusterNames": ["ams-1", "ams-2"]})
        await world.soon_scheduled("web", within=_MINUTE)
        await world.soon_scheduled("fixed", within=_MINUTE)


def decided_by_the_other(access: Access, folder: Path) -> None:
    """Until all placements have their clusters; it is gone afterwards, so that disagreements stay."""
    options = [f"--kubeconfig={access.kubeconfig}", "--no-leader-elect"]
    quiet = ["--health-address=off", "--metrics-address=off", f"--set={PATIENT.removeprefix('settings.')}"]
    process = ServerProcess(
        [sys.executable, "-m", "fleet.cli", "controller", *options, *quiet], log=folder / "other.log"
    )
    process.start()
    try:
        asyncio.run(place(access))
    finally:
        process.stop()


@pytest.fixture(scope="module")
def beside(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("beside")
    release = Release(cluster.access, folder)
    install_definitions(release)
    settle(release.hub)
    decided_by_the_other(cluster.access, folder)
    credentials = {"token": cluster.access.tokens["admin"]}
    kubeconfig = kubeconfig_of(cluster, folder, "admin", credentials)
    with aggregated(
        Machine(release, tmp_path_factory.mktemp("machine")), "--set=mode=explain-only", f"--set={PATIENT}"
    ) as hub:
        yield Beside(cluster, hub, kubeconfig, folder)


def test_an_answer_is_marked_and_agrees_with_what_is_bound(beside: Beside) -> None:
    answer = beside.why("fixed")
    evaluation = answer["evaluation"]

    assert (evaluation["by"], evaluation["decided"], evaluation["agrees"], evaluation["bound"]) == (
        "Fleet",
        True,
        True,
        2,
    )
    assert answer["attempt"]["evaluatedOn"] == "current"
    assert answer["verdict"]["state"] == "Scheduled"
    text = " ".join(beside.fleet("why", "fixed").split())
    assert text.startswith(
        "Evaluated by Fleet on the present fleet; another scheduler decides here. Fleet agrees with it"
    )


def test_a_disagreement_is_pointed_out(beside: Beside) -> None:
    """The other scheduler is late: the placement now wants a cluster that is not bound, and one less of the others."""
    hub = beside.hub.release.hub
    binding = next(
        one
        for one in hub.get(f"/apis/{GROUP}/v1/clusterresourcebindings").ok()["items"]
        if one["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == "fixed"
        and one["spec"]["targetCluster"] == "ams-2"
    )
    spec = {"spec": {"targetCluster": "dub-1"}}
    hub.patch(f"/apis/{GROUP}/v1/clusterresourcebindings/{binding['metadata']['name']}", spec).ok()
    soon(lambda: not beside.why("fixed")["evaluation"]["agrees"])
    evaluation = beside.why("fixed")["evaluation"]
    text = " ".join(beside.fleet("why-not", "dub-1", "fixed").split())
    hub.patch(
        f"/apis/{GROUP}/v1/clusterresourcebindings/{binding['metadata']['name']}", {"spec": {"targetCluster": "ams-2"}}
    ).ok()

    assert evaluation["agrees"] is False
    assert evaluation["adds"] == ["ams-2"]
    assert "Fleet disagrees with what is bound: it would add ams-2" in text


def test_everything_is_answered_nothing_is_refused_and_nothing_could_be_changed(beside: Beside) -> None:
    """By the audit log of the API server, over everything that the API does."""
    client = HttpClient(beside.cluster.access)
    direct = HttpClient(beside.hub.api.api())
    before = objects_of(beside.hub.release.hub)
    for path in QUESTIONS:
        assert direct.get(path).status == 200, path
        if path.startswith("/v1"):
            assert client.get(f"/apis/explain.fleet{path}").status == 200, path
    supposed = {"placement": {"ref": "web"}, "edits": [{"op": "setCount", "value": 3}], "impact": False}
    assert client.post("/apis/explain.fleet/v1/simulate", supposed).status == 200
    account, namespace = "fleet-api", beside.hub.release.namespace
    asked = requests_of(beside.cluster.audit_log, user_of(account, namespace=namespace))
    rights = granted(beside.hub.release.hub, account, namespace=namespace)

    assert asked
    assert [str(one) for one in asked if one.is_denied or one.code in (401, 403)] == []
    assert {one.right for one in asked if one.right and one.right.verb not in READS} <= REVIEWS
    assert {right for right in rights if right.verb not in READS} == REVIEWS
    assert objects_of(beside.hub.release.hub) == before


def objects_of(hub: HttpClient) -> str:
    """Everything that a placement is made of, with versions, which any write changes."""
    kinds = ("clusterresourceplacements", "clusterschedulingpolicysnapshots", "clusterresourcebindings")
    found = [hub.get(f"/apis/{GROUP}/v1/{kind}").ok()["items"] for kind in kinds]
    return json.dumps([[one["metadata"]["resourceVersion"] for one in items] for items in found])


def test_the_release_owns_nothing_that_decides(beside: Beside) -> None:
    kinds = {one["kind"] for one in beside.hub.release.manifests()}

    assert kinds.isdisjoint({"CustomResourceDefinition", "Lease", "Role", "PersistentVolumeClaim"})
    leases = beside.hub.release.hub.get("/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases").ok()["items"]
    assert leases == []
