"""From `helm install`, users ask with nothing but their kubeconfig, and see what they may see on the hub."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from tests.chart.aggregated import (
    API_SERVICE,
    AggregatedRelease,
    aggregated,
    certificate_of,
    exec_plugin,
    kubeconfig_of,
)
from tests.chart.conftest import settle
from tests.chart.pods import Machine
from tests.chart.release import Release, install_definitions, provide_volume
from tests.control_plane.access import Access
from tests.control_plane.cluster import SECONDS_TO_ANSWER, Cluster
from tests.control_plane.http_client import HttpClient
from tests.control_plane.waiting import soon
from tests.e2e.hub import Hub
from tests.e2e.world import World

pytestmark = pytest.mark.timeout(900)

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
ON_ALL: Final = {"placementType": "PickAll"}
CLUSTERS: Final = ("ams-1", "ams-2", "dub-1")
CAROL_SEES: Final = ("ams-1",)
"""By name; the others are counted."""
QUESTIONS: Final[dict[tuple[str, ...], dict[str, int]]] = {
    ("why", "web"): {"admin": 0, "carol": 0, "alice": 2},
    ("why-not", "ams-1", "web"): {"admin": 0, "carol": 0, "alice": 2},
    ("why-not", "dub-1", "web"): {"admin": 0, "carol": 2, "alice": 2},
    ("history", "web"): {"admin": 0, "carol": 0, "alice": 2},
    ("decisions", "web"): {"admin": 0, "carol": 0, "alice": 2},
    ("decisions",): {"admin": 0, "carol": 2, "alice": 2},
    ("simulate", "--live", "web", "--edit", "setCount value=1"): {"admin": 0, "carol": 2, "alice": 2},
    ("snapshot", "export", "-"): {"admin": 0, "carol": 2, "alice": 2},
    ("replay",): {"admin": 0, "carol": 2, "alice": 2},
}
"""The exit codes of all questions, by user. Alice comes with a token from a plugin, Carol with a certificate;
Carol may read placements and one of the clusters, Alice nothing."""
_MINUTE: Final = 60


@dataclass(frozen=True)
class Office:
    """The users' machine: their kubeconfigs, and the commands."""

    hub: AggregatedRelease
    kubeconfigs: dict[str, Path]
    home: Path

    def fleet(self, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-m", "fleet.cli", *arguments], user)

    def kubectl(
        self, user: str, *arguments: str, stdin: str | None = None, editor: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return self._run([str(self.hub.release.access.kubectl), *arguments], user, stdin, KUBE_EDITOR=editor)

    def environment(self, user: str) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(self.kubeconfigs[user])}

    def _run(
        self, command: list[str], user: str, stdin: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment(user) | environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_MINUTE,
            check=False,
        )


async def seed(access: Access) -> None:
    async with Hub("real", access).connected() as admin:
        world = World(admin)
        for name in CLUSTERS:
            await world.join(name)
        await world.place("web", {"placementType": "PickN", "numberOfClusters": 3})


async def wait_until_placed(access: Access) -> None:
    async with Hub("real", access).connected() as admin:
        await World(admin).soon_on("web", *CLUSTERS)


def grant_carol(hub: HttpClient) -> None:
    rules = [
        {
            "apiGroups": ["placement.kubernetes-fleet.io"],
            "resources": ["clusterresourceplacements"],
            "verbs": ["get", "list"],
        },
        {
            "apiGroups": ["cluster.kubernetes-fleet.io"],
            "resources": ["memberclusters"],
            "resourceNames": list(CAROL_SEES),
            "verbs": ["get"],
        },
    ]
    hub.post(f"{RBAC}/clusterroles", {"metadata": {"name": "carol"}, "rules": rules}).ok()
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "carol"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "carol"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "team-c"}],
    }
    hub.post(f"{RBAC}/clusterrolebindings", binding).ok()


@pytest.fixture(scope="module")
def office(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    release = Release(cluster.access, folder)
    machine = Machine(release, tmp_path_factory.mktemp("machine"))
    provide_volume(release.hub, "history")
    install_definitions(release)
    settle(release.hub)
    asyncio.run(seed(release.access))
    grant_carol(release.hub)
    kubeconfigs = {
        "admin": release.access.kubeconfig,
        "carol": kubeconfig_of(cluster, folder, "carol", certificate_of(cluster, "carol", group="team-c")),
        "alice": kubeconfig_of(cluster, folder, "alice", exec_plugin(folder, cluster.access.tokens["alice"])),
    }
    with aggregated(machine, "--set=settings.eligibility.heartbeatTimeout=8760h") as hub:
        migrated = machine.container_of("fleet-controller", name="migrate").run_to_its_end()
        assert migrated.returncode == 0, migrated.stderr
        with machine.container_of("fleet-controller").running():
            asyncio.run(wait_until_placed(release.access))
            found = Office(hub, kubeconfigs, folder)
            soon(lambda: found.fleet("carol", "history", "web").returncode == 0, within=_MINUTE)
            yield found


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_every_question_is_answered_as_far_as_the_user_may_read(office: Office, question: tuple[str, ...]) -> None:
    answers = {user: office.fleet(user, *question) for user in QUESTIONS[question]}

    assert {user: done.returncode for user, done in answers.items()} == QUESTIONS[question], answers
    hidden = [name for name in CLUSTERS if name not in CAROL_SEES and name not in question]
    assert not [name for name in hidden if name in answers["carol"].stdout + answers["carol"].stderr]
    unseen = [name for name in CLUSTERS if name not in question]
    assert not [name for name in unseen if name in answers["alice"].stdout + answers["alice"].stderr]
    assert "next: ask an administrator of the hub for the right to" in answers["alice"].stderr
    assert "--user=alice" in answers["alice"].stderr


def test_kubectl_asks_as_well_and_runs_the_plugin(office: Office) -> None:
    """With its own credentials; nothing of ours is involved in the first case."""
    raw = office.kubectl("carol", "get", "--raw", "/apis/explain.fleet/v1/placements/-/web/why")
    asked = json.loads(raw.stdout)

    assert (asked["verdict"]["state"], asked["redacted"]) == ("Scheduled", len(CLUSTERS) - len(CAROL_SEES))
    assert office.fleet("carol", "why", "web", "--verbose").stderr.startswith(
        f"asking {office.hub.release.access.url}/apis/explain.fleet (context hub of "
    )


def test_an_option_names_another_kubeconfig(office: Office) -> None:
    file, rights = str(office.kubeconfigs["admin"]), ("--context", "hub")

    assert office.fleet("alice", "why", "web", "--kubeconfig", file, *rights).returncode == 0


def test_a_stream_lives_longer_than_the_hub_lets_a_request_take(office: Office) -> None:
    """Time passes nowhere else in this test."""
    command = [sys.executable, "-m", "fleet.cli", "decisions", "web", "--follow"]
    log = office.hub.api.root.with_suffix(".log")
    with subprocess.Popen(command, env=office.environment("carol"), stdout=subprocess.PIPE, text=True) as following:
        time.sleep(SECONDS_TO_ANSWER + 5)
        before = log.read_text().count('"path":"/v1/decisions"')  # earlier requests are in it by now
        office.hub.release.hub.patch(
            "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements/web",
            {"spec": {"policy": {"numberOfClusters": 2}}},
        ).ok()
        assert following.stdout is not None
        line = following.stdout.readline()
        following.terminate()

    assert "  web: " in line
    soon(lambda: log.read_text().count('"path":"/v1/decisions"') == before + 1)


def test_a_browser_asks_with_the_kubeconfig_as_well(office: Office) -> None:
    """Carol's client certificate, which no browser has."""
    command = [sys.executable, "-m", "fleet.cli", "ui", "--no-open"]
    with subprocess.Popen(command, env=office.environment("carol"), stdout=subprocess.PIPE, text=True) as explorer:
        try:
            assert explorer.stdout is not None
            address, _, code = explorer.stdout.readline().strip().partition("/ui/signin#")
            signed_in = ask(f"{address}/v1/session", json.dumps({"code": code}).encode())
            cookie = signed_in.headers["Set-Cookie"].partition(";")[0]
            caller = json.load(ask(f"{address}/v1/session", Cookie=cookie))
            grid = json.load(ask(f"{address}/v1/matrix?placement=web", Cookie=cookie))
            stream = f"{address}/v1/decisions?placement=web&since=0"
            with ask(stream, Cookie=cookie, Accept="text/event-stream") as events:
                first = [events.readline(), events.readline()]
        finally:
            explorer.terminate()

    assert caller["user"] == "carol"
    assert (grid["clusters"], grid["redacted"]) == (list(CAROL_SEES), len(CLUSTERS) - len(CAROL_SEES))
    assert first[0].startswith(b"id: ")
    assert first[1] == b"event: decision\n"


def ask(url: str, body: bytes | None = None, **headers: str) -> Any:
    media_type = {} if body is None else {"Content-Type": "application/json"}
    return urlopen(Request(url, body, {**media_type, **headers}), timeout=_MINUTE)


def answer_of(user: str, *, rule: str = "owners", groups: Sequence[str] = ()) -> str:
    spec = {
        "placement": "web",
        "placementUID": "0d4c7e1a-53cf-4a52-9d8e-6b1f0c2a7e11",
        "rule": rule,
        "cluster": CLUSTERS[0],
        "decision": "Approved",
        "by": {"user": user, "groups": list(groups)},
    }
    kind = {"apiVersion": "scheduling.fleet.dev/v1alpha1", "kind": "ClusterPlacementApproval"}
    return json.dumps({**kind, "metadata": {"generateName": "web-"}, "spec": spec})


def test_X_07_an_answer_that_kubectl_creates_is_held_to_its_author(office: Office) -> None:
    hub = office.hub.release.hub
    resource = {"apiGroups": ["scheduling.fleet.dev"], "resources": ["clusterplacementapprovals"]}
    rules = [{**resource, "verbs": ["create"]}, {**resource, "resourceNames": ["owners"], "verbs": ["approve"]}]
    hub.post(f"{RBAC}/clusterroles", {"metadata": {"name": "owners"}, "rules": rules}).ok()
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "owners"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "owners"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    }
    hub.post(f"{RBAC}/clusterrolebindings", binding).ok()

    def create(document: str) -> str:
        done = office.kubectl("alice", "create", "-f", "-", stdin=document)
        return "" if done.returncode == 0 else done.stderr

    soon(lambda: "spec.by.user has to be alice" in create(answer_of("bob")), within=_MINUTE)
    masters = create(answer_of("alice", groups=["team-a", "system:masters"]))
    assert "spec.by.groups may name only groups of alice" in masters
    assert "alice may not approve clusterplacementapprovals named platform" in create(
        answer_of("alice", rule="platform")
    )
    assert create(answer_of("alice", groups=["team-a"])) == ""


def test_X_06_gates_are_cleared_by_the_command_and_by_an_editor(office: Office) -> None:
    gates = [{"name": "review", "message": "ask the owners"}, {"name": "freeze"}]
    options = {"apiVersion": "scheduling.fleet.dev/v1alpha1", "kind": "ClusterPlacementOptions"}
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing-by-this-name"}
    placement = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement"}
    named = {"metadata": {"name": "held"}}
    for document in (
        {**options, **named, "spec": {"gates": gates}},
        {**placement, **named, "spec": {"resourceSelectors": [selector], "policy": ON_ALL}},
    ):
        created = office.kubectl("admin", "create", "-f", "-", stdin=json.dumps(document))
        assert created.returncode == 0, created.stderr
    soon(lambda: "ask the owners" in office.fleet("admin", "why", "held").stdout, within=_MINUTE)
    refused = office.fleet("carol", "gates", "clear", "held", "review")
    cleared = office.fleet("admin", "gates", "clear", "held", "review")
    edited = office.kubectl("admin", "edit", "cpo", "held", editor="sed -i '/name: freeze/d;s/gates:/gates: []/'")

    assert (refused.returncode, cleared.returncode) == (2, 0), refused.stderr + cleared.stderr
    assert cleared.stdout == "gate review of held cleared; it still waits for freeze\n"
    assert edited.stdout == "clusterplacementoptions.scheduling.fleet.dev/held edited\n", edited.stderr
    soon(lambda: office.fleet("admin", "why", "held").returncode == 0, within=_MINUTE)
    bindings = office.hub.release.hub.get("/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings").ok()
    placed = {
        each["spec"]["targetCluster"] for each in bindings["items"] if each["metadata"]["name"].startswith("held-")
    }
    assert placed == set(CLUSTERS)


def test_headers_of_the_layer_mean_nothing_from_a_user(office: Office) -> None:
    """Neither on the way through the API server, which drops them, nor at the API itself."""
    claims = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    through = HttpClient(office.hub.release.access, user="alice")
    direct = HttpClient(office.hub.api.api(), user="alice")
    nobody = HttpClient(office.hub.api.api(), user="a stranger")

    assert through.request("GET", "/apis/explain.fleet/v1/placements/-/web/why", headers=claims).status == 403
    assert direct.request("GET", "/v1/placements/-/web/why", headers=claims).status == 403
    assert nobody.request("GET", "/v1/placements/-/web/why", headers=claims).status == 401


def test_who_may_not_ask_is_told_the_role_and_the_command(office: Office) -> None:
    """After the chart's binding is taken away: without it, only administrators get through."""
    hub = office.hub.release.hub
    binding: dict[str, Any] = hub.get(f"{RBAC}/clusterrolebindings/fleet-ask").ok()
    hub.delete(f"{RBAC}/clusterrolebindings/fleet-ask").ok()
    refused = partial(office.fleet, "carol", "why", "web")
    soon(lambda: "cannot get resource" in refused().stderr, within=_MINUTE)
    done = refused()
    *_, step = done.stderr.strip().splitlines()
    command = step.partition("`")[2].rstrip("`").split()
    granted = office.kubectl("admin", *command[1:])
    soon(lambda: refused().returncode == 0, within=_MINUTE)
    hub.post(f"{RBAC}/clusterrolebindings", {**binding, "metadata": {"name": "fleet-ask"}}).ok()

    assert done.returncode == 2
    assert granted.returncode == 0, granted.stderr


def test_discovery_and_the_deletion_of_namespaces_work_beside_it(office: Office) -> None:
    namespaces = "/api/v1/namespaces"
    office.hub.release.hub.post(namespaces, {"metadata": {"name": "passing"}}).ok()
    office.hub.release.hub.delete(f"{namespaces}/passing").ok()
    soon(lambda: office.hub.release.hub.get(f"{namespaces}/passing").status == 404, within=_MINUTE)

    assert office.kubectl("admin", "api-resources").stderr == ""


def test_without_the_api_the_answer_says_where_to_look(office: Office) -> None:
    """The API is gone for a while, and the APIService with it in the end."""
    hub = office.hub.release.hub
    office.hub.api.process.stop()
    soon(lambda: not office.hub.is_available(), within=_MINUTE)
    down = office.fleet("carol", "why", "web").stderr
    service = hub.get(API_SERVICE).ok()
    hub.delete(API_SERVICE).ok()
    soon(lambda: "has no Fleet API" in office.fleet("carol", "why", "web").stderr, within=_MINUTE)
    office.hub.api.process.start()  # for the tests that follow, too
    kept = {"name": service["metadata"]["name"], "labels": service["metadata"]["labels"]}
    hub.post(API_SERVICE.rpartition("/")[0], {"metadata": kept, "spec": service["spec"]}).ok()
    soon(office.hub.is_available, within=_MINUTE)
    again = office.fleet("carol", "why", "web").returncode

    assert down.startswith("error: the hub cannot reach the Fleet API: ")
    assert "next: `kubectl get apiservice v1.explain.fleet -o yaml` has the reason" in down
    assert again == 0
