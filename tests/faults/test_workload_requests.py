"""What the selected workloads need, through a running controller: it counts as room."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.resource import STATUS, Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from tests.e2e.hub import soon
from tests.faults.configured import Scene, a_scene
from tests.faults.virtual import virtual

EXTENDED: Final = "profiles: [{base: ExtendedProfile}]\n"
BOTH: Final = """
profiles:
- {schedulerName: DefaultScheduler, base: DefaultProfile}
- {schedulerName: roomy, base: ExtendedProfile}
"""
NAMESPACE: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENT: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
WORKLOADS: Final = {
    kind: Resource(group, "v1", f"{kind.lower()}s", kind, namespaced=True)
    for group, kind in (
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "ReplicaSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("batch", "CronJob"),
    )
}
ENVELOPE: Final = Resource(
    "placement.kubernetes-fleet.io", "v1beta1", "resourceenvelopes", "ResourceEnvelope", namespaced=True
)
ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
REQUESTS: Final = "scheduling.fleet.dev/workload-requests"
REMARKS: Final = "scheduling.fleet.dev/workload-remarks"

Json = dict[str, Any]


def container(name: str = "app", limits: Mapping[str, str] | None = None, **requests: str) -> Json:
    resources = {"requests": requests} | ({} if limits is None else {"limits": dict(limits)})
    return {"name": name, "image": "registry.example.com/app:1", "resources": resources}


def pods(*containers: Json, init: tuple[Json, ...] = (), **more: Any) -> Json:
    return {"containers": list(containers or (container(cpu="1", memory="1Gi"),)), "initContainers": list(init), **more}


def template(spec: Json) -> Json:
    return {"metadata": {"labels": {"app": "app"}}, "spec": spec}


def replicated(spec: Json, replicas: int | None = None) -> Json:
    count = {} if replicas is None else {"replicas": replicas}
    return {"selector": {"matchLabels": {"app": "app"}}, "template": template(spec), **count}


SIDECAR: Final = container("proxy", cpu="200m", memory="128Mi") | {"restartPolicy": "Always"}
TABLE: Final[Mapping[str, tuple[str, Json, str]]] = {
    "replicas": ("Deployment", replicated(pods(), 3), "cpu=3,memory=3Gi"),
    "one replica by default": ("Deployment", replicated(pods()), "cpu=1,memory=1Gi"),
    "scaled down": ("Deployment", replicated(pods(), 0), ""),
    "two containers": (
        "StatefulSet",
        replicated(pods(container(cpu="1500m"), container("log", cpu="100m", memory="64Mi")), 2),
        "cpu=3200m,memory=128Mi",
    ),
    "limits where nothing is requested": (
        "ReplicaSet",
        replicated(pods(container(limits={"cpu": "2", "memory": "1Gi"}, cpu="500m")), 2),
        "cpu=1,memory=2Gi",
    ),
    "a larger init container": (
        "Deployment",
        replicated(pods(container(cpu="1", memory="1Gi"), init=(container("warm", cpu="3", memory="512Mi"),))),
        "cpu=3,memory=1Gi",
    ),
    "init containers one after the other": (
        "Deployment",
        replicated(pods(container(cpu="1"), init=(container("a", cpu="1"), container("b", cpu="2")))),
        "cpu=2",
    ),
    "a sidecar runs beside what comes after it": (
        "Deployment",
        replicated(
            pods(container(cpu="1"), init=(container("before", cpu="1100m"), SIDECAR, container("after", cpu="1100m")))
        ),
        "cpu=1300m,memory=128Mi",
    ),
    "overhead": (
        "Deployment",
        replicated(pods(container(cpu="1"), overhead={"cpu": "250m", "memory": "120Mi"}), 3),
        "cpu=3750m,memory=360Mi",
    ),
    "the pod as a whole": (
        "Deployment",
        replicated(pods(container(cpu="1", memory="1Gi"), resources={"requests": {"cpu": "3"}}), 2),
        "cpu=6,memory=2Gi",
    ),
    "fractions are rounded up at the end": (
        "Deployment",
        replicated(pods(container(memory="1Ki")), 3) | {"replicas": 3},
        "memory=3Ki",
    ),
    "a job": ("Job", {"template": template(pods(restartPolicy="Never")), "parallelism": 4}, "cpu=4,memory=4Gi"),
    "a job with fewer completions": (
        "Job",
        {"template": template(pods(restartPolicy="Never")), "parallelism": 4, "completions": 3},
        "cpu=3,memory=3Gi",
    ),
    "one run of a cron job": (
        "CronJob",
        {
            "schedule": "0 3 * * *",
            "jobTemplate": {"spec": {"template": template(pods(restartPolicy="Never")), "parallelism": 2}},
        },
        "cpu=2,memory=2Gi",
    ),
    "each node": ("DaemonSet", replicated(pods(container(cpu="100m"))), ";node:cpu=100m"),
    "another resource": (
        "Deployment",
        replicated(pods(container(limits={"example.com/gpu": "2"})), 2),
        "example.com/gpu=4",
    ),
}


async def own(scene: Scene, kind: str, name: str, spec: Json, namespace: str = "shop") -> None:
    if await scene.world.find(NAMESPACE, namespace) is None:
        await scene.world.create(NAMESPACE, {"metadata": {"name": namespace}})
    await scene.world.create(WORKLOADS[kind], {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


async def place(
    scene: Scene, name: str, namespace: str = "shop", policy: Json | None = None, **annotations: str
) -> None:
    """A placement of a namespace with all that is in it."""
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": namespace}
    given = {f"scheduling.fleet.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    document = {
        "metadata": {"name": name, "annotations": given},
        "spec": {"resourceSelectors": [selector], "policy": policy or ONE},
    }
    await scene.world.create(CLUSTER_SCOPED.placement, document)


async def join(scene: Scene, name: str, cpu: str, *, nodes: int | None = None) -> None:
    usage = {kind: {"cpu": cpu, "memory": "64Gi"} for kind in ("capacity", "allocatable", "available")}
    counted = {"value": str(nodes), "observationTime": "2026-03-10T09:00:00Z"}
    properties = {} if nodes is None else {"kubernetes-fleet.io/node-count": counted}
    await scene.world.join(name)
    await scene.world.patch(
        MEMBER_CLUSTERS, name, {"status": {"resourceUsage": usage, "properties": properties}}, subresource=STATUS
    )


async def read_annotation(scene: Scene, placement: str, key: str = REQUESTS) -> str | None:
    snapshot = await scene.world.latest_snapshot(placement)
    return None if snapshot is None else (snapshot["metadata"].get("annotations") or {}).get(key, "")


async def _needs(scene: Scene, placement: str, text: str, key: str = REQUESTS) -> bool:
    return await read_annotation(scene, placement, key) == text


async def _is_on(scene: Scene, placement: str, *clusters: str) -> bool:
    return await scene.world.in_use(placement) == set(clusters)


# --- the table --------------------------------------------------------------------------------------------------------


@virtual
async def test_X_12_requests_of_each_kind_of_workload_equal_the_table(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        for number, (kind, spec, _) in enumerate(TABLE.values()):
            await own(scene, kind, "app", spec, f"case-{number}")
            await place(scene, f"case-{number}", f"case-{number}")
        await soon(lambda: _needs(scene, f"case-{len(TABLE) - 1}", list(TABLE.values())[-1][2]))
        texts = {case: await read_annotation(scene, f"case-{number}") for number, case in enumerate(TABLE)}
        assert texts == {case: text for case, (_, _, text) in TABLE.items()}


@virtual
async def test_X_12_workloads_add_up_also_from_envelopes(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        await own(scene, "Deployment", "web", replicated(pods(), 2))
        await own(scene, "StatefulSet", "db", replicated(pods(container(cpu="500m"))))
        wrapped = {
            "quota.yaml": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "quota"}},
            "pod.yaml": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pods()},
        }
        await scene.world.create(ENVELOPE, {"metadata": {"name": "more", "namespace": "shop"}, "data": wrapped})
        await place(scene, "shop")
        await soon(lambda: _needs(scene, "shop", "cpu=3500m,memory=3Gi"))


# --- overrides --------------------------------------------------------------------------------------------------------

CLUSTER_OVERRIDE: Final = Resource(
    "placement.kubernetes-fleet.io",
    "v1beta1",
    "clusterresourceoverrides",
    "ClusterResourceOverride",
    namespaced=False,
)
OVERRIDE: Final = Resource(
    "placement.kubernetes-fleet.io", "v1beta1", "resourceoverrides", "ResourceOverride", namespaced=True
)
REPLICAS: Final = "/spec/replicas"
CPU: Final = "/spec/template/spec/containers/0/resources/requests/cpu"


def rule(op: str = "", path: str = "", value: Any = None, **labels: str) -> Json:
    """For clusters with these labels, all without; it deletes without an operation."""
    terms = [{"labelSelector": {"matchLabels": labels}}] if labels else []
    change: Json = {"overrideType": "Delete"}
    if op:
        patch = {"op": op, "path": path} | ({} if op == "remove" else {"value": value})
        change = {"overrideType": "JSONPatch", "jsonPatchOverrides": [patch]}
    return {"clusterSelector": {"clusterSelectorTerms": terms}, **change}


async def override_namespace(
    scene: Scene, name: str, *rules: Json, placement: str = "", namespace: str = "shop"
) -> None:
    spec: Json = {
        "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
        "policy": {"overrideRules": list(rules)},
    } | ({"placement": {"name": placement}} if placement else {})
    await scene.world.create(CLUSTER_OVERRIDE, {"metadata": {"name": name}, "spec": spec})


async def override_web(scene: Scene, name: str, *rules: Json) -> None:
    spec = {
        "resourceSelectors": [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}],
        "policy": {"overrideRules": list(rules)},
    }
    await scene.world.create(OVERRIDE, {"metadata": {"name": name, "namespace": "shop"}, "spec": spec})


async def join_labelled(scene: Scene, name: str, cpu: str, *, nodes: int | None = None, **labels: str) -> None:
    await join(scene, name, cpu, nodes=nodes)
    await scene.world.relabel(name, **labels)


ALL: Final = {"placementType": "PickAll"}


def read_booked(scene: Scene, cluster: str) -> int:
    """Thousandths of a core."""
    assert scene.controller.scheduler is not None
    frame = scene.controller.scheduler.table.frame()
    row = frame.row_of(cluster)
    assert row is not None
    return int(frame.capacity("cpu").assumed[row])


@pytest.mark.parametrize(
    "rules, prod, lab",
    [
        ([rule("replace", REPLICAS, 5, env="prod")], 5, 2),
        ([rule("replace", CPU, "250m", env="lab")], 2, 0.5),
        ([rule("replace", REPLICAS, 1), rule("replace", CPU, "3", env="prod")], 3, 1),
        ([rule("remove", CPU, env="lab")], 2, 0),
        ([rule(env="lab")], 2, 0),
        ([rule("add", REPLICAS, 4, env="prod"), rule("replace", REPLICAS, 3, env="prod")], 3, 2),
        ([rule("replace", "/spec/nothing/replicas", 9)], 2, 2),
    ],
    ids=["replicas", "requests", "two rules", "no request", "left out", "the last wins", "not applicable"],
)
@pytest.mark.parametrize("by", ["namespace", "name"])
def test_X_12_overrides_count_on_the_clusters_that_they_are_for(
    tmp_path: Path, rules: list[Json], prod: float, lab: float, by: str
) -> None:
    @virtual
    async def run() -> None:
        async with a_scene(tmp_path, EXTENDED) as scene:
            await join_labelled(scene, "p", "16", env="prod")
            await join_labelled(scene, "l", "16", env="lab")
            await own(scene, "Deployment", "web", replicated(pods(container(cpu="1")), 2))
            await (override_namespace if by == "namespace" else override_web)(scene, "own", *rules)
            await place(scene, "shop", policy=ALL)
            await soon(lambda: _is_on(scene, "shop", "p", "l"))
            booked = {name: read_booked(scene, name) for name in ("p", "l")}
            assert booked == {"p": prod * 1000, "l": lab * 1000}
        async with a_scene(tmp_path, EXTENDED, after=scene) as again:
            await soon(lambda: _has_booked(again, prod + lab))

    run()


@virtual
async def test_X_12_an_override_that_comes_later_lets_a_placement_in_and_names_its_placement(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        await join_labelled(scene, "small", "2", env="lab")
        await own(scene, "Deployment", "web", replicated(pods(container(cpu="1")), 3))
        await place(scene, "shop")
        await place(scene, "other")
        await asyncio.sleep(60)
        assert await scene.world.in_use("shop") == set()
        await override_namespace(scene, "fewer", rule("replace", REPLICAS, 2, env="lab"), placement="shop")
        await soon(lambda: _is_on(scene, "shop", "small"))
        await asyncio.sleep(60)
        assert await scene.world.in_use("other") == set()


# --- what becomes of it -----------------------------------------------------------------------------------------------


@virtual
async def test_X_12_room_is_compared_and_booked_with_what_workloads_need_also_after_a_restart(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        await join(scene, "small", "2")
        await join(scene, "large", "7")
        await own(scene, "Deployment", "web", replicated(pods(), 3))
        for name in ("first", "second", "third"):
            await place(scene, name)
        await soon(lambda: _is_on(scene, "second", "large"))
        await asyncio.sleep(60)
        assert await scene.world.in_use("third") == set()
        assert scene.sample("fleet_room_booked", resource="cpu") == 6
    async with a_scene(tmp_path, EXTENDED, after=scene) as again:
        await asyncio.sleep(60)
        assert again.sample("fleet_room_booked", resource="cpu") == 6
        await again.world.patch(DEPLOYMENT, "shop/web", {"spec": {"replicas": 2}})
        await soon(lambda: _is_placed(again, "third"))


@virtual
async def test_X_12_what_is_needed_on_each_node_counts_by_the_nodes_of_a_cluster(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        await join(scene, "wide", "8", nodes=10)
        await own(scene, "DaemonSet", "agent", replicated(pods(container(cpu="1"))))
        await place(scene, "agents")
        await asyncio.sleep(60)
        assert await scene.world.in_use("agents") == set()
        await join(scene, "narrow", "6", nodes=3)
        await soon(lambda: _is_on(scene, "agents", "narrow"))
        await soon(lambda: _has_booked(scene, 3))
    async with a_scene(tmp_path, EXTENDED, after=scene) as again:
        await soon(lambda: _has_booked(again, 3))


async def _is_placed(scene: Scene, placement: str) -> bool:
    return bool(await scene.world.in_use(placement))


async def _has_booked(scene: Scene, cores: float) -> bool:
    return scene.sample("fleet_room_booked", resource="cpu") == cores


@virtual
async def test_X_12_what_the_placement_says_wins(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        await join(scene, "ams", "2")
        await own(scene, "Deployment", "web", replicated(pods(), 3))
        await place(scene, "annotated", requests="cpu=1")
        await scene.world.create(
            CLUSTER_SCOPED.options, {"metadata": {"name": "sized"}, "spec": {"requests": {"cpu": "1"}}}
        )
        await place(scene, "sized")
        await soon(lambda: _is_on(scene, "annotated", "ams"))
        await soon(lambda: _is_on(scene, "sized", "ams"))


@virtual
async def test_X_12_what_cannot_be_read_counts_as_nothing_and_is_remarked(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        await join(scene, "ams", "4")
        await own(scene, "Deployment", "web", replicated(pods(container(cpu="lots", memory="1Gi")), 2))
        odd = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "odd"}, "spec": {"replicas": "many"}}
        await scene.world.create(
            ENVELOPE, {"metadata": {"name": "more", "namespace": "shop"}, "data": {"odd.yaml": odd}}
        )
        await place(scene, "shop")
        await soon(lambda: _is_on(scene, "shop", "ams"))
        assert await read_annotation(scene, "shop") == "memory=2Gi"
        remarks = await read_annotation(scene, "shop", REMARKS)
        assert remarks is not None
        unread = "'lots' is no quantity for cpu: write cpu=4, 500m or 16Gi; it counts as nothing"
        assert f"Deployment shop/web: container app: {unread}" in remarks.splitlines()
        assert any("Deployment odd cannot be read" in line and "spec.replicas" in line for line in remarks.splitlines())


@pytest.mark.parametrize("base", ["DefaultProfile", "ExtendedProfile"])
def test_X_12_profiles_that_do_not_read_requests_have_none_written(tmp_path: Path, base: str) -> None:
    @virtual
    async def run() -> None:
        async with a_scene(tmp_path, f"profiles: [{{base: {base}}}]\n") as scene:
            await own(scene, "Deployment", "web", replicated(pods()))
            await place(scene, "shop")
            await soon(lambda: _needs(scene, "shop", "cpu=1,memory=1Gi" if base == "ExtendedProfile" else ""))

    run()


@virtual
async def test_X_12_a_placement_that_changes_its_profile_gets_and_loses_them(tmp_path: Path) -> None:
    async with a_scene(tmp_path, BOTH) as scene:
        await own(scene, "Deployment", "web", replicated(pods()))
        await place(scene, "shop")
        await soon(lambda: _needs(scene, "shop", ""))
        await scene.annotate("shop", scheduler_name="roomy")
        await soon(lambda: _needs(scene, "shop", "cpu=1,memory=1Gi"))
        await scene.annotate("shop", scheduler_name=None)
        await soon(lambda: _needs(scene, "shop", ""))
