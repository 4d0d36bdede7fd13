"""The operator of secondary schedulers, on the embedded hub and under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

import fleet
from fleet.errors import Invalid
from fleet.kube.api import Api, Method, Request
from fleet.kube.lease import LEASES
from fleet.kube.objects import APPLY_PATCH
from fleet.kube.resource import STATUS, Resource
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.manager.manager import SCHEDULER, Manager
from fleet.operator.compatibility import HUB_GROUP
from fleet.operator.installation import build_manifests
from fleet.operator.nodes import NODES
from fleet.operator.operands import (
    CONFIG_COPY,
    CONFIG_HASH,
    CONFIG_MAPS,
    DEPLOYMENTS,
    MANAGED,
    NAME,
    OWNERS,
    PODS,
    SECONDARY_SCHEDULERS,
    SERVICE_ACCOUNTS,
    SERVICES,
    get_operand_name,
)
from fleet.operator.operator import RESYNC, Operator
from fleet.operator.prerequisites import DEFAULT_LEASE
from fleet.operator.targets import OperandTarget
from tests.e2e.world import EVENTS, NAMESPACES, World, configured
from tests.fake_hub import Fault, Faults, FaultyApi, fair
from tests.faults.changes_by_hand import CHANGES_BY_HAND, ChangeByHand, add_port, get_contents, set_affinity_of_sessions
from tests.faults.configured import HEAD
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.scripted import Refuse
from tests.faults.virtual import VirtualClock, no_jitter, virtual

PLACE: Final = "second"
OWNER: Final = f"{PLACE}/cluster"
SCHEDULER_KEY: Final = f"{PLACE}/{NAME}"
COPY: Final = f"{PLACE}/{CONFIG_COPY}"
USERS: Final = f"{PLACE}/load-aware"
GOOD: Final = HEAD + "profiles:\n- schedulerName: packed\n"
OTHER: Final = HEAD + "profiles:\n- schedulerName: packed\n  percentageOfClustersToScore: 50\n"
BROKEN: Final = (
    HEAD + "profiles:\n- schedulerName: packed\n  plugins:\n    filter:\n      enabled: [{name: Nonesuch}]\n"
)
IMAGE: Final = "registry.example/fleet/scheduler:v0.1.6"
FOREIGN: Final = "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n"
REFERRING: Final = """\
profiles:
- schedulerName: packed
  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args:
      metricProvider: {type: Prometheus, address: "${ADDRESS}"}
"""
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
ANY_FIELDS: Final = {"x-kubernetes-preserve-unknown-fields": True}
SETTLED: Final = 5.0
"""Seconds."""


@dataclass
class Scene:
    hub: HubApi
    world: World
    clock: VirtualClock
    verbosities: list[int]
    """As the operator changed its own."""
    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]

    async def configure(self, document: str) -> None:
        metadata = {"name": "load-aware", "namespace": PLACE}
        await self.world.create(CONFIG_MAPS, {"metadata": metadata, "data": {"config.yaml": document}})
        await asyncio.sleep(SETTLED)

    async def edit_config(self, document: str) -> None:
        await self.edit(CONFIG_MAPS, USERS, {"data": {"config.yaml": document}})

    async def declare(self, name: str = "cluster", **spec: Any) -> None:
        metadata = {"name": name, "namespace": PLACE}
        given = {"schedulerConfig": "load-aware", "schedulerImage": IMAGE, **spec}
        await self.world.create(SECONDARY_SCHEDULERS, {"metadata": metadata, "spec": given})
        await asyncio.sleep(SETTLED)

    async def edit(self, resource: Resource, key: str, patch: dict[str, Any]) -> None:
        await self.world.patch(resource, key, patch)
        await asyncio.sleep(SETTLED)

    async def set_state(self, state: str) -> None:
        await self.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"managementState": state}})

    async def roll_out(self) -> None:
        """As the controller of Deployments would."""
        generation = (await self.world.get(DEPLOYMENTS, SCHEDULER_KEY))["metadata"]["generation"]
        status = {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
        await self.world.patch(DEPLOYMENTS, SCHEDULER_KEY, {"status": status}, subresource=STATUS)
        await asyncio.sleep(SETTLED)

    async def place(self, name: str) -> None:
        """For the profile of the documents."""
        selector = [{"group": "", "version": "v1", "kind": "Namespace", "name": PLACE}]
        metadata = {"name": name, "annotations": {"scheduling.fleet.dev/scheduler-name": "packed"}}
        await self.world.create(
            CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": {"resourceSelectors": selector}}
        )
        await asyncio.sleep(SETTLED)

    async def status(self, name: str = "cluster") -> dict[str, Any]:
        status: dict[str, Any] = (await self.world.get(SECONDARY_SCHEDULERS, f"{PLACE}/{name}")).get("status", {})
        return status

    async def condition(self, type: str, name: str = "cluster") -> tuple[str, str, str]:
        conditions = {item["type"]: item for item in (await self.status(name))["conditions"]}
        return conditions[type]["status"], conditions[type]["reason"], conditions[type]["message"]

    async def list_operands(self) -> list[str]:
        keys = {resource: f"{PLACE}/{get_operand_name(resource)}" for resource in MANAGED}
        return [item.kind for item, key in keys.items() if await self.world.find(item, key) is not None]

    async def read_deployed(self) -> tuple[str, str, list[str]]:
        """Image, digest of the document, and arguments."""
        template = (await self.world.get(DEPLOYMENTS, SCHEDULER_KEY))["spec"]["template"]
        container = template["spec"]["containers"][0]
        return container["image"], template["metadata"]["annotations"][CONFIG_HASH], container["args"]

    async def count_replicas(self) -> int:
        replicas: int = (await self.world.get(DEPLOYMENTS, SCHEDULER_KEY))["spec"]["replicas"]
        return replicas

    async def read_pod(self) -> dict[str, Any]:
        pod: dict[str, Any] = (await self.world.get(DEPLOYMENTS, SCHEDULER_KEY))["spec"]["template"]["spec"]
        return pod

    async def list_events(self, reason: str) -> list[tuple[str, str]]:
        events = await self.world.all(EVENTS)
        return [(item["reason"], item["message"]) for item in events if item["reason"] == reason]

    async def list_reverted(self) -> list[tuple[str, int]]:
        events = await self.world.all(EVENTS)
        return [(item["message"], item["count"]) for item in events if item["reason"] == "Reverted"]

    def count_writes(self) -> int:
        return sum(request.is_write and "leases" not in request.path for request in self.hub.requests)


class ApiWithNodes:
    """Of a hub that has nodes and pods; the embedded one has none."""

    def __init__(self, api: Api, nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> None:
        self._api, self._nodes, self._pods = api, nodes, pods

    async def call(self, request: Request) -> bytes:
        if request.path == PODS.collection(PLACE):
            return msgspec.json.encode({"kind": "PodList", "metadata": {}, "items": self._pods})
        if request.path != NODES.collection():
            return await self._api.call(request)
        wanted = parse_labels(dict(request.query).get("labelSelector", ""))
        matching = [node for node in self._nodes if wanted.items() <= node["metadata"]["labels"].items()]
        return msgspec.json.encode({"kind": "NodeList", "metadata": {}, "items": matching})

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._api.stream(request)


def parse_labels(selector: str) -> dict[str, str]:
    return dict(part.split("=") for part in selector.split(",") if part)


def format_now(clock: VirtualClock) -> str:
    return f"{clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"


@asynccontextmanager
async def a_scene(
    fault: Faults = fair,
    *,
    around: Callable[[Api], Api] = lambda api: api,
    target: Callable[[VirtualClock], OperandTarget | None] = lambda _: None,
) -> AsyncIterator[Scene]:
    clock = VirtualClock()
    hub = a_hub(clock=lambda: clock.now().timestamp())
    world = World(hub)
    await world.create(NAMESPACES, {"metadata": {"name": PLACE}})
    verbosities: list[int] = []
    nodes: list[dict[str, Any]] = []
    pods: list[dict[str, Any]] = []
    operator = Operator(
        around(ApiWithNodes(FaultyApi(hub, fault), nodes, pods)),
        PLACE,
        clock=clock,
        jitter=no_jitter,
        target=target(clock),
        set_verbosity=verbosities.append,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(operator.run(), name="operator")
        yield Scene(hub, world, clock, verbosities, nodes, pods)
        operator.stop()


@asynccontextmanager
async def a_controller(manager: Manager) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await manager.ready()
        yield
        manager.stop()


TIMEOUT: Final = "eligibility.heartbeatTimeout=24h"


def build_first(scene: Scene) -> Manager:
    return Manager(scene.hub, configured(TIMEOUT), elects=False, clock=scene.clock, jitter=no_jitter)


async def build_deployed(scene: Scene, folder: Path) -> Manager:
    """What the pod would run: with the arguments of the Deployment, from the copy of the document."""
    file = folder / "config.yaml"
    file.write_text((await scene.world.get(CONFIG_MAPS, COPY))["data"]["config.yaml"], encoding="utf-8")
    _, _, arguments = await scene.read_deployed()
    given = [item.removeprefix("--set=") for item in arguments if item.startswith("--set=")]
    return Manager(
        scene.hub,
        configured(TIMEOUT, *given, file=file),
        controllers=[SCHEDULER],
        clock=scene.clock,
        jitter=no_jitter,
        identity="pod-1",
    )


@virtual
async def test_O_01_the_scheduler_that_is_deployed_binds_placements_that_name_its_profile(tmp_path: Path) -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        _, _, arguments = await scene.read_deployed()
        assert "--controllers=scheduler" in arguments
        first, second = build_first(scene), await build_deployed(scene, tmp_path)
        async with a_controller(first):
            await scene.world.join("ams")
            await scene.place("web")
            assert await scene.world.bindings("web") == [], "the first scheduler leaves it alone"
            async with a_controller(second):
                await scene.roll_out()
                assert list(await scene.world.states("web")) == ["ams"]
                assert (await scene.condition("Available")) == ("True", "AsExpected", "pod-1 leads")
                assert (await scene.condition("Progressing"))[0] == "False"
                assert (await scene.condition("Degraded"))[0] == "False"


@virtual
async def test_O_01_the_pods_have_no_rights_on_their_node_and_keep_away_from_each_other() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        pod = await scene.read_pod()
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].items() >= {"cpu": "100m", "memory": "256Mi"}.items()
        assert container["livenessProbe"]["initialDelaySeconds"] == 45
        (term,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert (term["weight"], term["podAffinityTerm"]["topologyKey"]) == (100, "kubernetes.io/hostname")
        deployment = await scene.world.get(DEPLOYMENTS, SCHEDULER_KEY)
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert labels.items() >= term["podAffinityTerm"]["labelSelector"]["matchLabels"].items()
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert mounts["config"]["readOnly"] is True
        assert {"name": "config", "configMap": {"name": CONFIG_COPY}} in pod["volumes"]


OWN_TERMS: Final = "leaderElection: {leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 2s}\n"


@pytest.mark.parametrize("terms, expected", [("", ["137s", "107s", "26s"]), (OWN_TERMS, [])])
@virtual
async def test_O_01_the_lease_is_long_unless_the_document_says_otherwise(terms: str, expected: list[str]) -> None:
    names = ("leaseDuration", "renewDeadline", "retryPeriod")
    async with a_scene() as scene:
        await scene.configure(GOOD + terms)
        await scene.declare()
        _, _, arguments = await scene.read_deployed()
        given = [item for name in names for item in arguments if item.startswith(f"--set=leaderElection.{name}=")]
        assert [item.rpartition("=")[2] for item in given] == expected


@virtual
async def test_O_01_the_status_has_generations_versions_and_the_digest_of_the_image() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        scene.pods[:] = [build_pod_that_runs(1), build_pod_that_runs(2)]
        await scene.roll_out()
        status = await scene.status()
        assert status["version"] == fleet.__version__
        assert status["image"]["digest"] == "", "the pods run different images"
        assert status["latestAvailableRevision"] == 1
        assert [(each["resource"], each["name"], each["lastGeneration"]) for each in status["generations"]] == [
            ("serviceaccounts", NAME, 0),
            ("configmaps", CONFIG_COPY, 0),
            ("services", NAME, 0),
            ("deployments", NAME, 1),
        ]
        scene.pods.pop()
        await scene.edit_config(OTHER)
        status = await scene.status()
        assert status["generations"][-1]["lastGeneration"] == 2
        assert status["latestAvailableRevision"] == 1, "the new one is not rolled out"
        await scene.roll_out()
        status = await scene.status()
        assert status["latestAvailableRevision"] == 2
        assert status["image"] == {
            "reference": IMAGE,
            "tag": "v0.1.6",
            "kind": "release",
            "digest": f"sha256:{'1' * 64}",
        }


def build_pod_that_runs(digit: int) -> dict[str, Any]:
    image = f"registry.example/fleet/scheduler@sha256:{str(digit) * 64}"
    sidecar = {"name": "a-proxy", "imageID": f"registry.example/proxy@sha256:{'f' * 64}"}
    containers = [sidecar, {"name": NAME, "imageID": image}]
    return {"metadata": {"name": f"pod-{digit}"}, "status": {"containerStatuses": containers}}


@virtual
async def test_O_01_a_document_without_leader_election_has_one_pod_that_needs_no_lease() -> None:
    async with a_scene() as scene:
        add_nodes(scene, {}, {})
        await scene.configure(f"{GOOD}leaderElection: {{leaderElect: false}}\n")
        await scene.declare()
        await scene.roll_out()
        assert (await scene.condition("Available"))[:2] == ("True", "AsExpected")
        assert (await scene.world.get(DEPLOYMENTS, SCHEDULER_KEY))["spec"]["strategy"]["type"] == "Recreate"
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"topology": {"mode": "HighlyAvailable"}}})
        assert (await scene.condition("Degraded"))[:2] == ("True", "NoLeaderElection")
        assert await scene.count_replicas() == 1
        await scene.edit_config(GOOD)
        assert await scene.count_replicas() == 2
        assert (await scene.world.get(DEPLOYMENTS, SCHEDULER_KEY))["spec"]["strategy"]["type"] == "RollingUpdate"
        assert (await scene.condition("Available"))[:2] == ("False", "NoLeader")


@virtual
async def test_overrides_and_unknown_suites_are_not_used_and_the_resource_says_so() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        anything = {"servingInfo": {"minTLSVersion": "VersionTLS12", "cipherSuites": ["A", "B"]}}
        await scene.declare(unsupportedConfigOverrides=anything, observedConfig=anything)
        assert (await scene.condition("Upgradeable"))[:2] == ("False", "UnsupportedConfigOverrides")
        assert (await scene.condition("Degraded"))[0] == "False"
        spec = (await scene.world.get(SECONDARY_SCHEDULERS, OWNER))["spec"]
        assert spec["unsupportedConfigOverrides"] == spec["observedConfig"] == anything
        (ignored,) = await scene.list_events("ObservedConfigIgnored")
        assert ignored[1] == "spec.observedConfig.servingInfo.cipherSuites: A, B cannot be served"
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"unsupportedConfigOverrides": None}})
        assert (await scene.condition("Upgradeable"))[0] == "True"


async def list_tls_settings(scene: Scene) -> list[str]:
    _, _, arguments = await scene.read_deployed()
    return [item.removeprefix("--set=tls.") for item in arguments if item.startswith("--set=tls.")]


@virtual
async def test_probes_and_metrics_are_served_over_https_as_the_resource_says(tmp_path: Path) -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare(observedConfig={"servingInfo": {"minTLSVersion": "VersionTLS13"}})
        assert await list_tls_settings(scene) == ["enabled=true", "minVersion=VersionTLS13"]
        pod = await scene.read_pod()
        (container,) = pod["containers"]
        probes = [container[f"{probe}Probe"]["httpGet"]["scheme"] for probe in ("startup", "liveness", "readiness")]
        assert probes == ["HTTPS"] * 3
        secret = {"secretName": "secondary-scheduler-tls", "optional": True}
        assert {"name": "tls", "secret": secret} in pod["volumes"]
        service = (await scene.world.get(SERVICES, SCHEDULER_KEY))["metadata"]["annotations"]
        assert service["service.beta.openshift.io/serving-cert-secret-name"] == secret["secretName"]
        await build_deployed(scene, tmp_path)  # it takes its arguments


API_SERVERS: Final = Resource("config.openshift.io", "v1", "apiservers", "APIServer", namespaced=False)


async def declare_profile(scene: Scene, type: str) -> None:
    """On a hub that did not know the kind."""
    schema = {"type": "object", **ANY_FIELDS}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "apiservers", "singular": "apiserver", "kind": "APIServer", "listKind": "APIServerList"}
    spec = {"group": "config.openshift.io", "scope": "Cluster", "names": names, "versions": [version]}
    await scene.world.create(DEFINITIONS, {"metadata": {"name": "apiservers.config.openshift.io"}, "spec": spec})
    await scene.world.create(API_SERVERS, {"metadata": {"name": "cluster"}, "spec": build_profile(type)})


@virtual
async def test_the_tls_policy_of_the_hub_is_observed_and_followed() -> None:
    async with a_scene() as scene:
        await declare_profile(scene, "Modern")
        await scene.configure(GOOD)
        await scene.declare()
        assert await list_tls_settings(scene) == ["enabled=true", "minVersion=VersionTLS13"]
        spec = (await scene.world.get(SECONDARY_SCHEDULERS, OWNER))["spec"]
        assert spec["observedConfig"] == {"servingInfo": {"minTLSVersion": "VersionTLS13"}}
        custom = {"minTLSVersion": "VersionTLS12", "ciphers": ["ECDHE-RSA-AES128-GCM-SHA256", "RC4-SHA"]}
        await scene.edit(API_SERVERS, "cluster", {"spec": build_profile("Custom", custom=custom)})
        await asyncio.sleep(RESYNC + 1)
        known = "cipherSuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        assert await list_tls_settings(scene) == ["enabled=true", "minVersion=VersionTLS12", known]
        assert [message for _, message in await scene.list_events("ObservedConfigIgnored")] == [
            "spec.observedConfig.servingInfo.cipherSuites: RC4-SHA cannot be served"
        ]
        writes = scene.count_writes()
        await asyncio.sleep(RESYNC + 1)
        assert scene.count_writes() == writes


@virtual
async def test_the_policy_of_the_hub_is_not_written_where_nothing_is_managed() -> None:
    async with a_scene() as scene:
        await declare_profile(scene, "Modern")
        await scene.configure(GOOD)
        await scene.declare(managementState="Unmanaged")
        assert "observedConfig" not in (await scene.world.get(SECONDARY_SCHEDULERS, OWNER))["spec"]


def build_profile(type: str, **more: Any) -> dict[str, Any]:
    return {"tlsSecurityProfile": {"type": type, **more}}


@virtual
async def test_a_resource_without_unused_fields_gets_no_warning() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        assert await scene.world.all(EVENTS) == []


@virtual
@pytest.mark.parametrize("head", [FOREIGN, HEAD])
@pytest.mark.parametrize("sources", [{"fromSecret": ["load-metrics"]}, {"fromEnv": ["ADDRESS"]}])
async def test_sources_of_a_document_that_names_none_are_those_of_the_resource(
    head: str, sources: dict[str, list[str]]
) -> None:
    document = head + REFERRING
    async with a_scene() as scene:
        await scene.configure(document)
        await scene.declare()
        status, reason, message = await scene.condition("ConfigValid")
        assert (status, reason) == ("False", "ParseError")
        assert "${ADDRESS} has no source" in message
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"substitution": sources}})
        assert (await scene.condition("ConfigValid"))[0] == "True"
        copy = (await scene.world.get(CONFIG_MAPS, COPY))["data"]["config.yaml"]
        assert yaml.safe_load(copy)["substitution"] == sources
        assert "${ADDRESS}" in copy
        (container,) = (await scene.read_pod())["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": f"{NAME}-environment", "optional": True}}]


@virtual
@pytest.mark.parametrize("head", [FOREIGN, HEAD])
async def test_problems_of_a_document_without_sources_have_the_lines_in_which_they_are_written(head: str) -> None:
    lines = ["# of team x", "", *head.splitlines(), "", "profiles:", "# the only one", "- schedulerName: packed"]
    lines += ["  plugins:", "    score:", "      enabled:", "      - name: Nonesuch", "        weight: 3"]
    async with a_scene() as scene:
        await scene.configure("\n".join(lines))
        await scene.declare(substitution={"fromEnv": ["ADDRESS"]})
        with_sources = await scene.condition("ConfigValid")
        assert with_sources[0] == "False"
        assert with_sources[2].startswith(f"config.yaml:{lines.index('      - name: Nonesuch') + 1}: ")
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"substitution": None}})
        assert await scene.condition("ConfigValid") == with_sources


@virtual
@pytest.mark.parametrize("head", [FOREIGN, HEAD])
async def test_problems_of_the_sources_name_the_field_of_the_resource(head: str) -> None:
    async with a_scene() as scene:
        await scene.configure(f"{head}profiles:\n- schedulerName: packed\n")
        await scene.declare(substitution={"fromSecret": ["good", "a/b/c"]})
        assert await scene.condition("ConfigValid") == (
            "False",
            "ParseError",
            "spec.substitution.fromSecret[1]: 'a/b/c' should be the name of a Secret, or NAMESPACE/NAME",
        )


@virtual
async def test_a_document_that_names_its_sources_keeps_them() -> None:
    document = HEAD + "substitution: {fromSecret: [own]}\n" + REFERRING
    async with a_scene() as scene:
        await scene.configure(document)
        await scene.declare(substitution={"fromSecret": ["load-metrics"]})
        assert (await scene.world.get(CONFIG_MAPS, COPY))["data"]["config.yaml"] == document


@virtual
async def test_O_01_a_resource_of_the_operator_of_openshift_is_taken_as_it_is() -> None:
    theirs = OWNERS[1]
    written = {
        "managementState": "Managed",
        "schedulerConfig": "load-aware",
        "schedulerImage": IMAGE,
        "logLevel": "",
        "operatorLogLevel": "Normal",
    }
    definition = build_manifests(PLACE, IMAGE, group=theirs.group)[0]
    for version in definition["spec"]["versions"]:  # theirs has no defaults, and other values
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"type": "object", **ANY_FIELDS}
    async with a_scene() as scene:
        await scene.world.create(DEFINITIONS, definition)
        await scene.configure(GOOD)
        metadata = {"name": "cluster", "namespace": PLACE}
        await scene.world.create(theirs, {"metadata": metadata, "spec": written})
        await asyncio.sleep(RESYNC)
        owner = await scene.world.get(theirs, OWNER)
        deployment = await scene.world.get(DEPLOYMENTS, SCHEDULER_KEY)
        assert "-v=2" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        (reference,) = deployment["metadata"]["ownerReferences"]
        assert (reference["apiVersion"], reference["uid"]) == ("operator.openshift.io/v1", owner["metadata"]["uid"])
        assert owner["status"]["conditions"][0]["type"] == "ConfigValid"
        await scene.edit(theirs, OWNER, {"spec": {"managementState": "Removed"}})
        assert await scene.list_operands() == []


@virtual
@pytest.mark.parametrize(
    "spec, reason, message",
    [
        (None, "Missing", "spec.schedulerConfig: is required: name the ConfigMap with the document"),
        ({"schedulerImage": IMAGE}, "Missing", "spec.schedulerConfig: is required"),
        ({"schedulerConfig": "", "schedulerImage": IMAGE}, "Missing", "spec.schedulerConfig: is required"),
        ({"schedulerConfig": "load-aware"}, "ImageRefused", "spec.schedulerImage: is required: name the image"),
        ({"schedulerConfig": "load-aware", "schedulerImage": ""}, "ImageRefused", "spec.schedulerImage: is required"),
        ({"managementState": "Removed"}, "Missing", "spec.schedulerConfig: is required"),
        (
            {
                "schedulerConfig": "load-aware",
                "schedulerImage": IMAGE,
                "imagePolicy": None,
                "topology": None,
                "capacity": None,
                "substitution": None,
            },
            "AsExpected",
            "",
        ),
        (
            {
                "schedulerConfig": "load-aware",
                "schedulerImage": IMAGE,
                "topology": {"mode": "HighlyAvailable", "highlyAvailableTopology": None},
            },
            "AsExpected",
            "",
        ),
    ],
)
async def test_O_01_a_resource_of_openshift_that_lacks_fields_is_told_what_it_lacks(
    spec: dict[str, Any] | None, reason: str, message: str
) -> None:
    """Its definition requires none of them."""
    theirs = OWNERS[1]
    definition = build_manifests(PLACE, IMAGE, group=theirs.group)[0]
    for version in definition["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        properties["spec"] = {"type": "object", **ANY_FIELDS}
        version["schema"]["openAPIV3Schema"].pop("required", None)
    async with a_scene() as scene:
        await scene.world.create(DEFINITIONS, definition)
        await scene.configure(GOOD)
        await scene.world.create(NAMESPACES, {"metadata": {"name": "third"}})
        for place in ("third", PLACE):
            metadata = {"name": "cluster", "namespace": place}
            await scene.world.create(theirs, {"metadata": metadata, **({} if spec is None else {"spec": spec})})
        await asyncio.sleep(RESYNC / 2)
        await scene.world.create(CONFIG_MAPS, {"metadata": {"name": "unrelated", "namespace": PLACE}, "data": {}})
        await asyncio.sleep(SETTLED)
        conditions = (await scene.world.get(theirs, OWNER))["status"]["conditions"]
        told = {each["type"]: (each["reason"], each["message"]) for each in conditions}
        found = told["ConfigValid"] if reason == "Missing" else told["Degraded"]
        assert found[0] == reason
        assert found[1].startswith(message)
        await scene.edit_config(OTHER)  # the operator still follows
        assert await scene.list_operands() == ([item.kind for item in MANAGED] if reason == "AsExpected" else [])


@virtual
async def test_O_02_another_document_rolls_the_deployment_and_other_config_maps_cause_no_reconcile() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        await scene.roll_out()
        before = await scene.read_deployed()
        await scene.edit_config(OTHER)
        after = await scene.read_deployed()
        assert after[1] != before[1]
        assert (await scene.status())["configHash"] == after[1]
        assert (await scene.condition("Progressing"))[:2] == ("True", "RollingOut")
        assert await scene.list_reverted() == []
        writes = scene.count_writes()
        await scene.world.create(CONFIG_MAPS, {"metadata": {"name": "unrelated", "namespace": PLACE}, "data": {}})
        await scene.edit(CONFIG_MAPS, f"{PLACE}/unrelated", {"data": {"config.yaml": BROKEN}})
        assert scene.count_writes() == writes + 2, "those of the test"
        assert await scene.read_deployed() == after


@virtual
async def test_a_rollout_goes_on_while_old_pods_are_there() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        await scene.roll_out()
        await scene.world.patch(DEPLOYMENTS, SCHEDULER_KEY, {"status": {"replicas": 2}}, subresource=STATUS)
        await asyncio.sleep(SETTLED)
        assert await scene.condition("Progressing") == ("True", "RollingOut", "1 old pods are still there")


@virtual
async def test_O_03_a_config_map_that_comes_later_is_used_at_once() -> None:
    async with a_scene() as scene:
        await scene.declare()
        assert await scene.list_operands() == []
        missing = "spec.schedulerConfig: there is no ConfigMap load-aware"
        assert await scene.condition("ConfigValid") == ("False", "Missing", missing)
        await asyncio.sleep(300)
        await scene.configure(GOOD)
        assert await scene.list_operands() == [resource.kind for resource in MANAGED]
        assert (await scene.condition("ConfigValid"))[:2] == ("True", "Valid")


@virtual
async def test_O_04_a_broken_document_leaves_the_deployment_and_its_copy_and_a_good_one_recovers() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        await scene.roll_out()
        before = await scene.read_deployed()
        await scene.edit_config(BROKEN)
        assert await scene.read_deployed() == before
        assert (await scene.world.get(CONFIG_MAPS, COPY))["data"] == {"config.yaml": GOOD}
        valid, reason, message = await scene.condition("ConfigValid")
        assert (valid, reason) == ("False", "UnknownPlugin")
        assert message.startswith("config.yaml:7: ")
        assert "profiles[0].plugins.filter.enabled[0]" in message
        assert await scene.condition("Degraded") == ("True", "InvalidConfiguration", message)
        await scene.world.delete(DEPLOYMENTS, SCHEDULER_KEY)
        await asyncio.sleep(SETTLED)
        assert await scene.read_deployed() == before, "from the copy"
        await scene.edit_config(OTHER)
        assert (await scene.condition("Degraded"))[:2] == ("False", "AsExpected")
        assert (await scene.read_deployed())[1] != before[1]


@pytest.mark.parametrize("wrong", ["targetUtilisation: 70", "targetUtilization: 101", "metricProvider: {type: Any}"])
@virtual
async def test_O_04_arguments_that_a_plugin_refuses_are_bad_args_with_their_path(wrong: str) -> None:
    broken = REFERRING.replace('metricProvider: {type: Prometheus, address: "${ADDRESS}"}', wrong)
    async with a_scene() as scene:
        await scene.configure(HEAD + broken)
        await scene.declare()
        valid, reason, message = await scene.condition("ConfigValid")
        assert (valid, reason) == ("False", "BadArgs")
        assert f"profiles[0].pluginConfig[0].args.{wrong.split(':')[0]}" in message
        await scene.edit_config(HEAD + broken.replace("TargetLoadPacking", "Nonesuch"))
        assert (await scene.condition("ConfigValid"))[1] == "UnknownPlugin"


@virtual
async def test_O_04_the_scheduler_goes_on_binding_while_the_document_is_broken_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        async with a_controller(build_first(scene)):
            await scene.world.join("ams")
            async with a_controller(await build_deployed(scene, tmp_path)):
                await scene.edit_config(BROKEN)
                assert (await scene.condition("Degraded"))[:2] == ("True", "InvalidConfiguration")
                await scene.place("web")
                assert list(await scene.world.states("web")) == ["ams"]
                await scene.roll_out()
                assert (await scene.condition("Available"))[:2] == ("True", "AsExpected")
            async with a_controller(await build_deployed(scene, tmp_path)):
                await scene.place("api")
                assert list(await scene.world.states("api")) == ["ams"]


@pytest.mark.parametrize("names", ["", "profiles:\n- schedulerName: DefaultScheduler\n"])
@virtual
async def test_a_document_that_would_decide_the_placements_of_the_first_scheduler_is_invalid(names: str) -> None:
    async with a_scene() as scene:
        await scene.configure(HEAD + names)
        await scene.declare()
        assert (await scene.condition("ConfigValid"))[:2] == ("False", "BuildError")
        assert await scene.list_operands() == []


@virtual
async def test_O_05_a_deleted_deployment_comes_back_when_managed_and_stays_away_when_not() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        await scene.world.delete(DEPLOYMENTS, SCHEDULER_KEY)
        await asyncio.sleep(SETTLED)
        assert "Deployment" in await scene.list_operands()
        await scene.set_state("Unmanaged")
        await scene.world.delete(DEPLOYMENTS, SCHEDULER_KEY)
        await asyncio.sleep(1200)
        assert "Deployment" not in await scene.list_operands()
        assert (await scene.condition("Upgradeable"))[:2] == ("False", "Unmanaged")
        assert (await scene.condition("Available"))[:2] == ("False", "NoReadyReplica")
        await scene.set_state("Managed")
        assert "Deployment" in await scene.list_operands()


@virtual
async def test_O_06_removed_deletes_what_the_operator_made_and_nothing_else() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        await scene.set_state("Removed")
        assert await scene.list_operands() == []
        assert await scene.world.find(CONFIG_MAPS, USERS) is not None
        assert (await scene.condition("Available"))[:2] == ("False", "Removed")
        await scene.set_state("Managed")
        assert await scene.list_operands() == [resource.kind for resource in MANAGED]


@virtual
async def test_O_11_every_object_belongs_to_the_resource_and_goes_with_it() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        uid = (await scene.world.get(SECONDARY_SCHEDULERS, OWNER))["metadata"]["uid"]
        for resource in MANAGED:
            document = await scene.world.get(resource, f"{PLACE}/{get_operand_name(resource)}")
            assert [item["uid"] for item in document["metadata"]["ownerReferences"]] == [uid]
        await scene.world.delete(SECONDARY_SCHEDULERS, OWNER)
        await asyncio.sleep(SETTLED)
        assert await scene.list_operands() == []


@pytest.mark.parametrize("resource, change", CHANGES_BY_HAND)
@virtual
async def test_O_12_what_is_changed_by_hand_is_reverted_with_one_event(
    resource: Resource, change: ChangeByHand
) -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        key = f"{PLACE}/{get_operand_name(resource)}"
        before = await scene.world.get(resource, key)
        await scene.edit(resource, key, change(before))
        await asyncio.sleep(60)
        assert get_contents(await scene.world.get(resource, key)) == get_contents(before)
        name = get_operand_name(resource)
        assert await scene.list_reverted() == [(f"reverted a change of {resource.kind} {name}", 1)]


@virtual
async def test_O_12_what_controllers_and_a_restart_add_stays() -> None:
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-11-27T09:00:00Z"}
    revision = {"deployment.kubernetes.io/revision": "1"}
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        pulls = [{"name": "pull"}]
        await scene.edit(SERVICE_ACCOUNTS, SCHEDULER_KEY, {"imagePullSecrets": pulls})
        template = {"template": {"metadata": {"annotations": restarted}}}
        await scene.edit(DEPLOYMENTS, SCHEDULER_KEY, {"metadata": {"annotations": revision}, "spec": template})
        assert await scene.list_reverted() == []
        await scene.edit_config(OTHER)
        deployment = await scene.world.get(DEPLOYMENTS, SCHEDULER_KEY)
        assert deployment["metadata"]["annotations"].items() > revision.items()
        assert deployment["spec"]["template"]["metadata"]["annotations"].items() > restarted.items()
        assert (await scene.world.get(SERVICE_ACCOUNTS, SCHEDULER_KEY))["imagePullSecrets"] == pulls


@pytest.mark.parametrize("failing", [1, 2, 3])
@virtual
async def test_O_12_a_change_is_reverted_in_full_whichever_request_fails(failing: int) -> None:
    writes: list[str] = []

    def refuse(request: Request) -> Fault:
        if not (has_changed and request.path.endswith(f"/services/{NAME}")):
            return None
        writes.append(request.path)
        return Refuse(500, "InternalError") if len(writes) == failing else None

    has_changed = False
    async with a_scene(refuse) as scene:
        await scene.configure(GOOD)
        await scene.declare()
        before = await scene.world.get(SERVICES, SCHEDULER_KEY)
        has_changed = True
        await scene.edit(SERVICES, SCHEDULER_KEY, set_affinity_of_sessions(before))
        await asyncio.sleep(60)
        assert len(writes) > failing
        assert get_contents(await scene.world.get(SERVICES, SCHEDULER_KEY)) == get_contents(before)


class ReplacingHub:
    """Where somebody else puts an object of their own in the place of one that is about to be applied."""

    def __init__(self, api: Api, replacements: list[dict[str, Any]]) -> None:
        self._api, self._replacements = api, replacements

    async def call(self, request: Request) -> bytes:
        is_applied = request.path == SERVICES.item(SCHEDULER_KEY) and request.content_type == APPLY_PATCH
        if is_applied and self._replacements:
            await self._api.call(Request(Method.DELETE, request.path))
            body = msgspec.json.encode(self._replacements.pop())
            await self._api.call(Request(Method.POST, SERVICES.collection(PLACE), body=body))
        return await self._api.call(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._api.stream(request)


@virtual
async def test_O_12_an_object_that_another_put_in_its_place_meanwhile_is_left_alone() -> None:
    replacements: list[dict[str, Any]] = []
    async with a_scene(around=lambda api: ReplacingHub(api, replacements)) as scene:
        await scene.configure(GOOD)
        await scene.declare()
        service = await scene.world.get(SERVICES, SCHEDULER_KEY)
        head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "namespace": PLACE}}
        replacements.append({**head, "spec": {"ports": [{"name": "web", "port": 80}]}})
        await scene.edit(SERVICES, SCHEDULER_KEY, add_port(service))
        assert replacements == []
        assert (await scene.condition("Degraded"))[:2] == ("True", "NameTaken")
        assert [port["name"] for port in (await scene.world.get(SERVICES, SCHEDULER_KEY))["spec"]["ports"]] == ["web"]


@virtual
async def test_nothing_is_written_while_nothing_changes() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        await scene.roll_out()
        writes = scene.count_writes()
        await asyncio.sleep(3600)
        assert scene.count_writes() == writes
        assert await scene.list_reverted() == []


@pytest.mark.parametrize("level, verbosity", [("", 2), ("Normal", 2), ("Debug", 4), ("Trace", 6), ("TraceAll", 8)])
@virtual
async def test_O_08_the_log_level_is_an_option_of_the_scheduler(level: str, verbosity: int) -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare(**({"logLevel": level} if level else {}))
        _, _, arguments = await scene.read_deployed()
        assert [item for item in arguments if item.startswith("-v")] == [f"-v={verbosity}"]


@virtual
async def test_O_08_the_log_level_of_the_operator_is_followed() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        assert scene.verbosities == []
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"operatorLogLevel": "Trace"}})
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"operatorLogLevel": None}})
        assert scene.verbosities == [6, 2]


def add_nodes(scene: Scene, *labels: dict[str, str], **spec: Any) -> None:
    for own in labels:
        scene.nodes.append({"metadata": {"name": f"node-{len(scene.nodes)}", "labels": own}, "spec": spec})


HA: Final = {"mode": "HighlyAvailable"}


@pytest.mark.parametrize("nodes, replicas", [(5, 3), (2, 2), (0, 1)])
@virtual
async def test_O_09_there_are_as_many_pods_as_nodes_up_to_three(nodes: int, replicas: int) -> None:
    async with a_scene() as scene:
        add_nodes(scene, *[{"pool": "fleet"}] * nodes)
        await scene.configure(GOOD)
        await scene.declare(topology=HA)
        assert await scene.count_replicas() == replicas
        assert [reason for reason, _ in await scene.list_events("NoMatchingNode")] == ["NoMatchingNode"] * (not nodes)
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"topology": {"mode": "SingleReplica"}}})
        assert await scene.count_replicas() == 1


@virtual
async def test_O_09_fewer_pods_may_be_asked_for_than_there_are_nodes() -> None:
    async with a_scene() as scene:
        add_nodes(scene, *[{}] * 5)
        await scene.configure(GOOD)
        await scene.declare(topology=HA)
        for most in (2, 4, 1):
            topology = {**HA, "highlyAvailableTopology": {"maxReplicas": most}}
            await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"topology": topology}})
            assert await scene.count_replicas() == most


@virtual
async def test_O_09_only_nodes_that_match_and_whose_taints_are_tolerated_count() -> None:
    taint = {"key": "infra", "effect": "NoSchedule"}
    async with a_scene() as scene:
        add_nodes(scene, {"pool": "fleet"}, {"pool": "other"})
        add_nodes(scene, {"pool": "fleet"}, taints=[taint])
        add_nodes(scene, {"pool": "fleet"}, taints=[{**taint, "effect": "PreferNoSchedule"}])
        await scene.configure(GOOD)
        selector = {"nodeSelector": {"pool": "fleet"}}
        await scene.declare(topology={**HA, "highlyAvailableTopology": selector})
        assert await scene.count_replicas() == 2
        tolerating = {**selector, "tolerations": [{"key": "infra", "operator": "Exists"}]}
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"topology": {"highlyAvailableTopology": tolerating}}})
        assert await scene.count_replicas() == 3
        pod = await scene.read_pod()
        assert (pod["nodeSelector"], pod["tolerations"]) == (selector["nodeSelector"], tolerating["tolerations"])


@virtual
async def test_O_09_a_node_that_joins_is_counted_by_the_next_resync() -> None:
    async with a_scene() as scene:
        add_nodes(scene, {})
        await scene.configure(GOOD)
        await scene.declare(topology=HA)
        add_nodes(scene, {})
        await asyncio.sleep(RESYNC + SETTLED)
        assert await scene.count_replicas() == 2


@virtual
async def test_O_09_nodes_that_an_earlier_topology_asked_for_are_forgotten() -> None:
    async with a_scene() as scene:
        add_nodes(scene, {"pool": "fleet", "zone": "1"})
        await scene.configure(GOOD)
        await scene.declare(topology={**HA, "highlyAvailableTopology": {"nodeSelector": {"pool": "fleet"}}})
        change = {"spec": {"topology": {"highlyAvailableTopology": {"nodeSelector": {"pool": None, "zone": "1"}}}}}
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, change)
        assert (await scene.read_pod())["nodeSelector"] == {"zone": "1"}
        single = {"mode": "SingleReplica", "highlyAvailableTopology": None}
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"topology": single}})
        assert "nodeSelector" not in await scene.read_pod()
        await scene.roll_out()
        writes = scene.count_writes()
        await asyncio.sleep(2 * RESYNC)
        assert scene.count_writes() == writes


@virtual
async def test_O_14_another_image_alone_rolls_the_deployment() -> None:
    other = "registry.example/platform/fleet-with-plugins:v0.1.7"
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        await scene.roll_out()
        before = await scene.read_deployed()
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": other}})
        assert await scene.read_deployed() == (other, *before[1:])
        assert (await scene.condition("Progressing"))[:2] == ("True", "RollingOut")


class HubOfVersions:
    """Whose API group of placements has other versions."""

    def __init__(self, api: Api, *versions: str) -> None:
        self._api, self._versions = api, versions

    async def call(self, request: Request) -> bytes:
        if request.path != f"/apis/{HUB_GROUP}":
            return await self._api.call(request)
        return msgspec.json.encode({"kind": "APIGroup", "versions": [{"version": item} for item in self._versions]})

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._api.stream(request)


UNKNOWN: Final = "registry.example/fleet/scheduler:v7.3.1"


@virtual
async def test_O_15_an_image_outside_the_matrix_is_refused_and_what_runs_stays() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare(schedulerImage=UNKNOWN)
        assert await scene.list_operands() == []
        degraded, reason, message = await scene.condition("Degraded")
        assert (degraded, reason) == ("True", "VersionSkew")
        assert message == (
            "spec.schedulerImage: v7.3.1 is of Fleet 7.3.x, and this operator knows 0.1.x only; managementState Force "
            "goes on anyway"
        )
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": IMAGE}})
        assert (await scene.condition("Degraded"))[:2] == ("False", "AsExpected")
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": UNKNOWN}})
        assert (await scene.read_deployed())[0] == IMAGE


@virtual
async def test_O_15_a_hub_outside_the_matrix_is_refused() -> None:
    async with a_scene(around=lambda api: HubOfVersions(api, "v3", "v2")) as scene:
        await scene.configure(GOOD)
        await scene.declare()
        assert await scene.list_operands() == []
        assert (await scene.condition("Degraded"))[1:] == (
            "VersionSkew",
            f"Fleet 0.1.x needs {HUB_GROUP}/v1, and the hub serves v3, v2 of {HUB_GROUP}; managementState Force goes "
            "on anyway",
        )


@virtual
async def test_O_07_force_goes_on_and_records_the_check_that_failed() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare(schedulerImage=UNKNOWN)
        await scene.set_state("Force")
        assert (await scene.read_deployed())[0] == UNKNOWN
        assert (await scene.condition("Degraded"))[:2] == ("False", "AsExpected")
        recorded = "spec.schedulerImage: v7.3.1 is of Fleet 7.3.x, and this operator knows 0.1.x only"
        assert await scene.condition("ForcedReconcile") == ("True", "VersionSkew", recorded)
        assert await scene.list_events("ForcedReconcile") == [("ForcedReconcile", f"VersionSkew: {recorded}")]
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": IMAGE}})
        assert await scene.condition("ForcedReconcile") == ("False", "AsExpected", "all checks hold")
        await scene.set_state("Managed")
        types = [item["type"] for item in (await scene.status())["conditions"]]
        assert "ForcedReconcile" not in types


@virtual
async def test_O_07_a_scheduler_that_is_not_of_fleet_keeps_others_away_unless_forced() -> None:
    async with a_scene() as scene:
        namespace, name = DEFAULT_LEASE.split("/")
        lease = {"holderIdentity": "hub-agent_1", "leaseDurationSeconds": 60, "renewTime": format_now(scene.clock)}
        await scene.world.create(LEASES, {"metadata": {"name": name, "namespace": namespace}, "spec": lease})
        await scene.configure(GOOD)
        await scene.declare()
        assert await scene.list_operands() == []
        degraded, reason, message = await scene.condition("Degraded")
        assert (degraded, reason) == ("True", "ForeignScheduler")
        assert message.startswith(f"hub-agent_1 holds Lease {DEFAULT_LEASE} ")
        await scene.set_state("Force")
        assert await scene.list_operands() == [resource.kind for resource in MANAGED]
        assert (await scene.condition("ForcedReconcile"))[:2] == ("True", "ForeignScheduler")
        await asyncio.sleep(RESYNC)
        assert (await scene.condition("ForcedReconcile"))[:2] == ("False", "AsExpected"), "the lease has expired"


@virtual
async def test_O_07_a_foreign_scheduler_that_ends_frees_the_way_at_once() -> None:
    async with a_scene() as scene:
        namespace, name = DEFAULT_LEASE.split("/")
        lease = {"holderIdentity": "hub-agent_1", "leaseDurationSeconds": 60, "renewTime": format_now(scene.clock)}
        await scene.world.create(LEASES, {"metadata": {"name": name, "namespace": namespace}, "spec": lease})
        await scene.configure(GOOD)
        await scene.declare()
        assert (await scene.condition("Degraded"))[1] == "ForeignScheduler"
        await scene.edit(LEASES, DEFAULT_LEASE, {"spec": {"holderIdentity": ""}})
        assert (await scene.condition("Degraded"))[:2] == ("False", "AsExpected")
        await scene.edit(LEASES, DEFAULT_LEASE, {"spec": lease})
        assert (await scene.condition("Degraded"))[1] == "ForeignScheduler"


@virtual
async def test_O_07_the_first_scheduler_of_fleet_is_no_foreign_one() -> None:
    async with a_scene() as scene:
        first = Manager(scene.hub, configured(), clock=scene.clock, jitter=no_jitter)
        async with a_controller(first):
            assert (await scene.world.get(LEASES, DEFAULT_LEASE))["spec"]["holderIdentity"]
            await scene.configure(GOOD)
            await scene.declare()
            assert await scene.list_operands() == [resource.kind for resource in MANAGED]


async def declare_elsewhere(scene: Scene, **capacity: Any) -> None:
    """A resource of another namespace, which is there first."""
    await scene.world.create(NAMESPACES, {"metadata": {"name": "third"}})
    metadata = {"name": "cluster", "namespace": "third"}
    spec = {"schedulerConfig": "own", "schedulerImage": IMAGE, "capacity": capacity}
    await scene.world.create(SECONDARY_SCHEDULERS, {"metadata": metadata, "spec": spec})


def partition(*pools: str) -> dict[str, Any]:
    expressions = [{"key": "pool", "operator": "In", "values": list(pools)}]
    return {"mode": "Partitioned", "clusterSelector": {"matchExpressions": expressions}}


@virtual
async def test_O_17_schedulers_share_room_unless_they_divide_the_clusters() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        assert "--set=capacity.reservation=Shared" in (await scene.read_deployed())[2]
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"capacity": partition("a", "b")}})
        assert "--set=capacity.clusterSelector=pool in (a,b)" in (await scene.read_deployed())[2]
        assert not [item for item in (await scene.read_deployed())[2] if "reservation" in item]


@virtual
async def test_O_17_selectors_that_overlap_are_refused_and_named() -> None:
    async with a_scene() as scene:
        await declare_elsewhere(scene, **partition("b", "c"))
        await asyncio.sleep(SETTLED)
        await scene.configure(GOOD)
        await scene.declare(capacity=partition("a", "b"))
        assert await scene.list_operands() == []
        degraded, reason, message = await scene.condition("Degraded")
        assert (degraded, reason) == ("True", "OverlappingSelectors")
        assert message == (
            "spec.capacity.clusterSelector: pool in (a,b) and the pool in (b,c) of SecondaryScheduler third/cluster "
            "may select the same cluster; give both a label with different values"
        )
        await scene.set_state("Force")
        assert await scene.list_operands() == [], "two schedulers would fill the same clusters"
        change = {"managementState": "Managed", "capacity": partition("a")}
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": change})
        assert (await scene.condition("Degraded"))[:2] == ("False", "AsExpected")
        before = await scene.read_deployed()
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"capacity": partition("a", "c")}})
        assert await scene.read_deployed() == before, "what runs stays"


@virtual
async def test_O_17_a_selector_that_no_longer_overlaps_is_used_at_once() -> None:
    async with a_scene() as scene:
        await declare_elsewhere(scene, **partition("b", "c"))
        await scene.configure(GOOD)
        await scene.declare(capacity=partition("a", "b"))
        assert (await scene.condition("Degraded"))[1] == "OverlappingSelectors"
        await scene.edit(SECONDARY_SCHEDULERS, "third/cluster", {"spec": {"capacity": partition("c")}})
        assert (await scene.condition("Degraded"))[:2] == ("False", "AsExpected")
        await scene.edit(SECONDARY_SCHEDULERS, "third/cluster", {"spec": {"capacity": partition("a", "c")}})
        assert (await scene.condition("Degraded"))[1] == "OverlappingSelectors"
        await scene.world.delete(SECONDARY_SCHEDULERS, "third/cluster")
        await asyncio.sleep(SETTLED)
        assert (await scene.condition("Degraded"))[:2] == ("False", "AsExpected")


@virtual
async def test_O_17_a_status_elsewhere_causes_no_reconcile() -> None:
    async with a_scene() as scene:
        await declare_elsewhere(scene, **partition("b", "c"))
        await scene.configure(GOOD)
        await scene.declare(capacity=partition("a"))
        asked = len(scene.hub.requests)
        await scene.world.patch(
            SECONDARY_SCHEDULERS, "third/cluster", {"status": {"readyReplicas": 1}}, subresource=STATUS
        )
        await asyncio.sleep(SETTLED)
        others = [each for each in scene.hub.requests[asked:] if LEASES.plural not in each.path]
        assert len(others) == 1, "that of the test"


@virtual
async def test_O_17_the_older_of_two_that_overlap_goes_on() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare(capacity=partition("a", "b"))
        await scene.roll_out()
        await declare_elsewhere(scene, **partition("b", "c"))
        await asyncio.sleep(RESYNC + SETTLED)
        assert (await scene.condition("Degraded"))[:2] == ("False", "AsExpected")


@virtual
async def test_G_12_an_image_of_a_kind_that_is_not_allowed_is_refused_with_its_kind() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        snapshot = "registry.example/fleet/scheduler:v0.0.2026111501"
        await scene.declare(schedulerImage=snapshot)
        assert await scene.list_operands() == []
        degraded, reason, message = await scene.condition("Degraded")
        assert (degraded, reason) == ("True", "ImageRefused")
        assert f"{snapshot} is a snapshot image" in message
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": IMAGE}})
        assert (await scene.status())["image"] == {
            "reference": IMAGE,
            "tag": "v0.1.6",
            "kind": "release",
            "digest": "",
        }
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, {"spec": {"schedulerImage": snapshot}})
        assert (await scene.read_deployed())[0] == IMAGE, "what runs stays"
        allowed = {"spec": {"imagePolicy": {"allowedKinds": ["snapshot"]}}}
        await scene.edit(SECONDARY_SCHEDULERS, OWNER, allowed)
        assert (await scene.read_deployed())[0] == snapshot


@virtual
async def test_an_image_without_a_tag_is_refused() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare(schedulerImage=f"registry.example/fleet/scheduler@sha256:{'0' * 64}")
        assert "has no release tag" in (await scene.condition("Degraded"))[2]


@virtual
async def test_another_name_is_ignored_with_a_reason() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare("other")
        assert (await scene.condition("Degraded", "other"))[:2] == ("True", "UnexpectedName")
        assert await scene.list_operands() == []


@virtual
async def test_objects_of_others_are_neither_changed_nor_deleted() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        mine = {"metadata": {"name": CONFIG_COPY, "namespace": PLACE}, "data": {"mine": "yes"}}
        await scene.world.create(CONFIG_MAPS, mine)
        await scene.declare()
        assert (await scene.condition("Degraded"))[:2] == ("True", "NameTaken")
        await scene.set_state("Removed")
        assert (await scene.world.get(CONFIG_MAPS, COPY))["data"] == {"mine": "yes"}
        await scene.set_state("Managed")
        await scene.world.delete(CONFIG_MAPS, COPY)
        await asyncio.sleep(SETTLED)
        assert await scene.list_operands() == [resource.kind for resource in MANAGED]


@virtual
async def test_a_rollout_that_takes_ten_minutes_is_degraded() -> None:
    async with a_scene() as scene:
        await scene.configure(GOOD)
        await scene.declare()
        assert (await scene.condition("Degraded"))[0] == "False"
        await asyncio.sleep(1300)
        assert (await scene.condition("Degraded"))[:2] == ("True", "ProgressDeadline")
        await scene.roll_out()
        assert (await scene.condition("Degraded"))[0] == "False"


def forbid_services(request: Request) -> Fault:
    return Refuse(403, "Forbidden") if request.is_write and "/services" in request.path else None


@virtual
async def test_a_write_that_fails_twice_is_reported_as_degraded() -> None:
    async with a_scene(forbid_services) as scene:
        await scene.configure(GOOD)
        await scene.declare()
        assert (await scene.condition("Degraded"))[:2] == ("True", "ReconcileFailed")


@pytest.mark.cel
@pytest.mark.parametrize(
    "spec",
    [
        {"managementState": "Forced"},
        {"schedulerConfig": ""},
        {"schedulerImage": None},
        {"imagePolicy": {"allowedKinds": ["nightly"]}},
        {"logLevel": "Loud"},
        {"topology": {"mode": "Many"}},
        {"capacity": {"mode": "Partitioned"}},
        {"capacity": {"mode": "Shared", "clusterSelector": {"matchLabels": {"pool": "a"}}}},
        {"topology": {"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": 0}}},
        {"topology": {"highlyAvailableTopology": {"maxReplicas": 2}}},
    ],
)
@virtual
async def test_O_08_O_10_the_hub_refuses_values_that_mean_nothing(spec: dict[str, Any]) -> None:
    async with a_scene() as scene:
        with pytest.raises(Invalid):
            await scene.declare(**spec)
