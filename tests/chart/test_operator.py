"""The operator as the chart installs it, with the rights that it has then, on a cluster with its controllers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import OPENSHIFT_OPERATOR_GROUP, OPERATOR_GROUP
from fleet.operator.installation import build_manifests
from fleet.operator.operands import CONFIG_HASH, DEPLOYMENTS, MANAGED, NAME, get_operand_name
from tests.chart.pods import Machine
from tests.chart.release import Release, install_definitions, make_restricted
from tests.chart.rights import requests_of, user_of
from tests.control_plane.cluster import Cluster
from tests.control_plane.waiting import soon
from tests.e2e.hub import Hub
from tests.e2e.hub import soon as soon_async
from tests.e2e.world import NAMESPACES, World
from tests.faults.changes_by_hand import CHANGES_BY_HAND, ChangeByHand, get_contents
from tests.faults.configured import HEAD

Json = dict[str, Any]

pytestmark = pytest.mark.timeout(900)

GOOD: Final = HEAD + "profiles:\n- schedulerName: packed\n"
OTHER: Final = HEAD + "profiles:\n- schedulerName: packed\n  percentageOfClustersToScore: 50\n"
BROKEN: Final = (
    HEAD + "profiles:\n- schedulerName: packed\n  plugins:\n    filter:\n      enabled: [{name: Nonesuch}]\n"
)
IMAGE: Final = "registry.example/fleet/scheduler:v0.1.6"
VALUES: Final = ("--set=operator.enabled=true", "--set=history.type=none", "--set=api.enabled=false")
OPERATOR: Final = "fleet-operator"
RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"


@dataclass(frozen=True)
class Scene:
    machine: Machine
    audit_log: Path
    group: str = OPERATOR_GROUP

    @property
    def release(self) -> Release:
        return self.machine.release

    def path(self, group: str, plural: str, name: str) -> str:
        return f"{group}/namespaces/{self.release.namespace}/{plural}/{name}"

    @property
    def deployment(self) -> str:
        return self.operand(DEPLOYMENTS)

    @property
    def config(self) -> str:
        return self.path("/api/v1", "configmaps", "load-aware")

    def operand(self, resource: Resource) -> str:
        return resource.item(f"{self.release.namespace}/{get_operand_name(resource)}")

    @property
    def operands(self) -> tuple[str, ...]:
        return tuple(map(self.operand, MANAGED))

    @property
    def owner(self) -> str:
        return self.path(f"/apis/{self.group}/v1", "secondaryschedulers", "cluster")

    def get(self, path: str) -> Json:
        document: Json = self.release.hub.get(path).ok()
        return document

    def exists(self, path: str) -> bool:
        return self.release.hub.get(path).status == 200

    def patch(self, path: str, patch: Json) -> None:
        self.release.hub.patch(path, patch).ok()

    def configure(self, document: str) -> None:
        written = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "load-aware"}}
        self.release.kubectl("apply", "-f", "-", stdin=json.dumps({**written, "data": {"config.yaml": document}}))

    def condition(self, type: str) -> tuple[str, str]:
        conditions = self.get(self.owner).get("status", {}).get("conditions", ())
        return next(((each["status"], each["reason"]) for each in conditions if each["type"] == type), ("", ""))

    def soon_is(self, type: str, status: str, reason: str) -> None:
        soon(lambda: self.condition(type) == (status, reason))

    def read_hash(self) -> str:
        template = self.get(self.deployment)["spec"]["template"]
        digest: str = template["metadata"]["annotations"][CONFIG_HASH]
        return digest


@pytest.fixture(scope="module")
def scene(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """With the controller and the operator running, in a namespace that takes restricted pods only."""
    folder = tmp_path_factory.mktemp("operator")
    release = Release(cluster.access, folder)
    make_restricted(release.hub, release.namespace)
    install_definitions(release)
    # Half a minute passes until objects of a new kind may own others (OwnerReferencesPermissionEnforcement).
    theirs = build_manifests(release.namespace, IMAGE, group=OPENSHIFT_OPERATOR_GROUP)[0]
    release.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(theirs))
    release.install(*VALUES)
    machine = Machine(release, folder)
    with machine.container_of("fleet-controller").running(), machine.container_of(OPERATOR).running():
        yield Scene(machine, cluster.audit_log)


@contextmanager
def declared(scene: Scene, document: str | None = GOOD, **spec: Any) -> Iterator[None]:
    """A SecondaryScheduler, gone with all that belongs to it at the end."""
    if document is not None:
        scene.configure(document)
    owner = {
        "apiVersion": f"{scene.group}/v1",
        "kind": "SecondaryScheduler",
        "metadata": {"name": "cluster"},
        "spec": {"schedulerConfig": "load-aware", "schedulerImage": IMAGE, **spec},
    }
    scene.release.kubectl("create", "-f", "-", stdin=json.dumps(owner))
    try:
        yield
    finally:
        resources = f"secondaryschedulers.{scene.group}/cluster", "configmap/load-aware"
        scene.release.kubectl("delete", *resources, "--ignore-not-found")
        soon(lambda: not any(map(scene.exists, scene.operands)))


async def place(scene: Scene) -> dict[str, Any]:
    async with Hub("real", scene.release.access).connected() as admin:
        world = World(admin)
        await world.join("ams")
        await world.create(NAMESPACES, {"metadata": {"name": "shop"}})
        selector = [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]
        annotations = {"scheduling.fleet.dev/scheduler-name": "packed"}
        await world.create(
            CLUSTER_SCOPED.placement,
            {"metadata": {"name": "web", "annotations": annotations}, "spec": {"resourceSelectors": selector}},
        )
        bound: dict[str, Any] = await soon_async(lambda: world.states("web"))
        return bound


def test_O_01_the_scheduler_runs_with_the_rights_of_the_chart_and_binds_what_names_its_profile(scene: Scene) -> None:
    with declared(scene):
        scene.soon_is("Progressing", "False", "AsExpected")
        scene.soon_is("Available", "False", "NoLeader")
        with scene.machine.container_of(NAME).running():
            assert list(asyncio.run(place(scene))) == ["ams"]
            scene.soon_is("Available", "True", "AsExpected")
        assert scene.get(scene.owner)["status"]["readyReplicas"] == 1
    for account in (OPERATOR, NAME):
        asked = requests_of(scene.audit_log, user_of(account, namespace=scene.release.namespace))
        assert asked
        assert [str(each) for each in asked if each.is_denied or each.code in (401, 403)] == []


def test_O_02_O_03_O_04_documents_that_come_late_change_and_break(scene: Scene) -> None:
    with declared(scene, document=None):
        scene.soon_is("ConfigValid", "False", "Missing")
        scene.configure(GOOD)
        scene.soon_is("ConfigValid", "True", "Valid")
        soon(lambda: scene.exists(scene.deployment))
        before = scene.read_hash()
        scene.configure(OTHER)
        soon(lambda: scene.read_hash() != before)
        rolled = scene.read_hash()
        scene.soon_is("Progressing", "False", "AsExpected")
        scene.configure(BROKEN)
        scene.soon_is("Degraded", "True", "InvalidConfiguration")
        assert (scene.read_hash(), scene.condition("ConfigValid")) == (rolled, ("False", "UnknownPlugin"))
        scene.configure(GOOD)
        scene.soon_is("Degraded", "False", "AsExpected")
        assert scene.read_hash() == before


def test_O_05_what_is_deleted_comes_back_when_managed(scene: Scene) -> None:
    with declared(scene):
        soon(lambda: scene.exists(scene.deployment))
        uid = scene.get(scene.deployment)["metadata"]["uid"]
        scene.release.hub.delete(scene.deployment).ok()
        soon(lambda: scene.exists(scene.deployment) and scene.get(scene.deployment)["metadata"]["uid"] != uid)
        scene.patch(scene.owner, {"spec": {"managementState": "Unmanaged"}})
        scene.soon_is("Upgradeable", "False", "Unmanaged")
        scene.release.hub.delete(scene.deployment).ok()
        scene.soon_is("Available", "False", "NoReadyReplica")
        assert not scene.exists(scene.deployment)


def test_O_12_what_is_changed_by_hand_is_reverted_with_one_event_each(scene: Scene) -> None:
    with declared(scene):
        scene.soon_is("Progressing", "False", "AsExpected")
        for changes in list_rounds():
            before = {resource: scene.get(scene.operand(resource)) for resource, _ in changes}
            for resource, change in changes:
                scene.patch(scene.operand(resource), change(before[resource]))
            for resource, document in before.items():
                soon(partial(has_contents, scene, scene.operand(resource), get_contents(document)))
        scene.soon_is("Progressing", "False", "AsExpected")
        reverts = Counter(resource.kind for resource, _ in CHANGES_BY_HAND)
        soon(lambda: count_reverts(scene) == reverts)
        scene.release.kubectl("rollout", "restart", f"deployment/{NAME}")
        scene.configure(OTHER)
        scene.soon_is("Progressing", "False", "AsExpected")
        assert RESTARTED in scene.get(scene.deployment)["spec"]["template"]["metadata"]["annotations"]
        assert count_reverts(scene) == reverts


def list_rounds() -> Iterator[list[tuple[Resource, ChangeByHand]]]:
    """Each with one change of an object at most."""
    by_resource: dict[Resource, list[tuple[Resource, ChangeByHand]]] = {}
    for resource, change in CHANGES_BY_HAND:
        by_resource.setdefault(resource, []).append((resource, change))
    for changes in zip_longest(*by_resource.values()):
        yield list(filter(None, changes))


def test_O_12_fields_of_an_earlier_document_are_gone_with_it(scene: Scene) -> None:
    alone = f"{GOOD}leaderElection: {{leaderElect: false}}\n"
    with declared(scene):
        for document, strategy in ((OTHER, "RollingUpdate"), (alone, "Recreate"), (GOOD, "RollingUpdate")):
            scene.configure(document)
            digest = hashlib.sha256(document.encode()).hexdigest()
            soon(partial(has_rolled, scene, digest))
            written = scene.get(scene.deployment)["spec"]["strategy"]
            assert (written["type"], "rollingUpdate" in written) == (strategy, strategy == "RollingUpdate")
        assert count_reverts(scene) == {}


def has_rolled(scene: Scene, digest: str) -> bool:
    return scene.exists(scene.deployment) and scene.read_hash() == digest


def has_contents(scene: Scene, path: str, contents: Json) -> bool:
    return get_contents(scene.get(path)) == contents


def count_reverts(scene: Scene) -> Counter[str]:
    """By kinds."""
    uid = scene.get(scene.owner)["metadata"]["uid"]
    events = [each for each in events_of(scene) if each["involvedObject"]["uid"] == uid]
    counts: Counter[str] = Counter()
    for each in events:
        if each["reason"] == "Reverted":
            counts[each["message"].split()[-2]] += each["count"]
    return counts


def test_O_06_removed_deletes_what_the_operator_made(scene: Scene) -> None:
    with declared(scene):
        soon(lambda: all(map(scene.exists, scene.operands)))
        scene.patch(scene.owner, {"spec": {"managementState": "Removed"}})
        soon(lambda: not any(map(scene.exists, scene.operands)))
        scene.soon_is("Available", "False", "Removed")
        assert scene.exists(scene.config)


def read_scheduler(scene: Scene) -> Json:
    """The container of its pods."""
    container: Json = scene.get(scene.deployment)["spec"]["template"]["spec"]["containers"][0]
    return container


def test_O_07_O_15_what_is_outside_the_matrix_is_refused_unless_forced(scene: Scene) -> None:
    with declared(scene, schedulerImage="registry.example/fleet/scheduler:v7.3.1"):
        scene.soon_is("Degraded", "True", "VersionSkew")
        assert not scene.exists(scene.deployment)
        scene.patch(scene.owner, {"spec": {"managementState": "Force"}})
        scene.soon_is("ForcedReconcile", "True", "VersionSkew")
        soon(lambda: scene.exists(scene.deployment))
        soon(lambda: "ForcedReconcile" in [each["reason"] for each in events_of(scene)])


def test_O_08_O_14_another_image_and_log_level_roll_the_deployment(scene: Scene) -> None:
    with declared(scene):
        soon(lambda: scene.exists(scene.deployment))
        assert "-v=2" in read_scheduler(scene)["args"]
        newer = IMAGE.replace("v0.1.6", "v0.1.7")
        scene.patch(scene.owner, {"spec": {"logLevel": "Trace", "schedulerImage": newer}})
        soon(lambda: bool(read_scheduler(scene)["image"] == newer))
        assert "-v=6" in read_scheduler(scene)["args"]
        soon(lambda: bool(scene.get(scene.owner)["status"]["image"]["tag"] == "v0.1.7"))
        scene.soon_is("Progressing", "False", "AsExpected")


def test_O_08_O_10_the_hub_refuses_values_that_mean_nothing(scene: Scene) -> None:
    with declared(scene):
        for spec in {"logLevel": "Loud"}, {"topology": {"mode": "SingleReplica", "highlyAvailableTopology": {}}}:
            assert scene.release.hub.patch(scene.owner, {"spec": spec}).status == 422


def test_O_09_the_nodes_of_the_cluster_are_counted(scene: Scene) -> None:
    with nodes_of_pool(scene, count=5) as nodes, declared(scene, topology=select_nodes("fleet")):
        soon_has_replicas(scene, 3)
        scene.release.kubectl("delete", "node", *nodes[2:])
        scene.patch(scene.owner, {"spec": {"logLevel": "Debug"}})
        soon_has_replicas(scene, 2)
        assert "NoMatchingNode" not in [each["reason"] for each in events_of(scene)]
        scene.patch(scene.owner, {"spec": {"topology": select_nodes("nonesuch")}})
        soon_has_replicas(scene, 1)
        soon(lambda: "NoMatchingNode" in [each["reason"] for each in events_of(scene)])
        scene.patch(scene.owner, {"spec": {"topology": select_nodes("fleet")}})
        soon_has_replicas(scene, 2)
        single = {"mode": "SingleReplica", "highlyAvailableTopology": None}
        scene.patch(scene.owner, {"spec": {"topology": single}})
        soon_has_replicas(scene, 1)


@contextmanager
def nodes_of_pool(scene: Scene, count: int) -> Iterator[list[str]]:
    names = [f"pool-{number}" for number in range(count)]
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": "fleet"}}} for name in names
    ]
    document = {"apiVersion": "v1", "kind": "List", "items": nodes}
    scene.release.kubectl("create", "-f", "-", stdin=json.dumps(document))
    try:
        yield names
    finally:
        scene.release.kubectl("delete", "node", *names, "--ignore-not-found")


def select_nodes(pool: str) -> Json:
    return {"mode": "HighlyAvailable", "highlyAvailableTopology": {"nodeSelector": {"pool": pool}}}


def soon_has_replicas(scene: Scene, count: int) -> None:
    soon(lambda: scene.exists(scene.deployment) and scene.get(scene.deployment)["spec"]["replicas"] == count)


def events_of(scene: Scene) -> list[Json]:
    path = f"/api/v1/namespaces/{scene.release.namespace}/events"
    events: list[Json] = scene.get(path)["items"]
    return [each for each in events if each["involvedObject"]["kind"] == "SecondaryScheduler"]


def test_O_11_the_garbage_collector_removes_what_belongs_to_the_resource(scene: Scene) -> None:
    with declared(scene):
        soon(lambda: all(map(scene.exists, scene.operands)))
        scene.release.kubectl("delete", "secondaryscheduler/cluster", "--wait=false")
        soon(lambda: not any(map(scene.exists, scene.operands)))


def test_G_12_a_snapshot_runs_only_where_it_is_listed(scene: Scene) -> None:
    snapshot = "registry.example/fleet/scheduler:v0.0.2026111501"
    with declared(scene, schedulerImage=snapshot):
        scene.soon_is("Degraded", "True", "ImageRefused")
        scene.patch(scene.owner, {"spec": {"imagePolicy": {"allowedKinds": ["release", "snapshot"]}}})
        scene.soon_is("Degraded", "False", "AsExpected")
        assert scene.get(scene.deployment)["spec"]["template"]["spec"]["containers"][0]["image"] == snapshot


def install_second(scene: Scene, folder: Path, namespace: str, group: str) -> Scene:
    command = [sys.executable, "-m", "fleet.cli", "operator", "manifests", f"--namespace={namespace}"]
    command += [f"--image={IMAGE}", f"--group={group}"]
    manifests = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    second = Scene(Machine(replace(scene.release, namespace=namespace), folder), scene.audit_log, group)
    second.release.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
    return second


def test_O_16_O_17_plain_manifests_install_an_operator_in_another_namespace_for_clusters_of_its_own(
    scene: Scene, tmp_path: Path
) -> None:
    # Its name comes first: of two that are created in the same second, the first by name is the older one.
    second = install_second(scene, tmp_path, "another", OPERATOR_GROUP)
    with second.machine.container_of(OPERATOR).running(), declared(second):
        second.soon_is("Progressing", "False", "AsExpected")
        second.soon_is("Available", "False", "NoLeader")
        with declared(scene, capacity=select_pool("a")):
            scene.soon_is("Progressing", "False", "AsExpected")
            second.patch(second.owner, {"spec": {"capacity": select_pool("a")}})  # the older one
            second.soon_is("Progressing", "False", "AsExpected")
            scene.soon_is("Degraded", "True", "OverlappingSelectors")
            scene.patch(scene.owner, {"spec": {"capacity": select_pool("b")}})
            scene.soon_is("Degraded", "False", "AsExpected")


def select_pool(name: str) -> Json:
    return {"mode": "Partitioned", "clusterSelector": {"matchLabels": {"pool": name}}}


def test_O_01_a_resource_of_the_operator_of_openshift_is_taken_as_it_is(scene: Scene, tmp_path: Path) -> None:
    written = {"managementState": "Managed", "logLevel": "Normal", "operatorLogLevel": "Normal"}
    second = install_second(scene, tmp_path, "third", OPENSHIFT_OPERATOR_GROUP)
    with second.machine.container_of(OPERATOR).running(), declared(second, **written):
        second.soon_is("Progressing", "False", "AsExpected")
        status = second.get(second.owner)["status"]
        assert [each["resource"] for each in status["generations"]] == [
            "serviceaccounts",
            "configmaps",
            "services",
            "deployments",
        ]
        assert status["generations"][-1]["lastGeneration"] == status["latestAvailableRevision"] >= 1
    asked = requests_of(scene.audit_log, user_of(OPERATOR, namespace="third"))
    assert [str(each) for each in asked if each.is_denied] == []
