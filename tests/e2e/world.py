"""A hub with a fleet and a running controller, in the words of a test."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from fleet.errors import NotFound
from fleet.history import History
from fleet.kube.api import Api, Method, Request
from fleet.kube.objects import MERGE_PATCH
from fleet.kube.resource import STATUS, Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED, find_scope
from fleet.manager.manager import CONTROLLERS, Manager
from fleet.model.keys import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT
from fleet.scheduler.attempt_record import Recorder
from fleet.settings import Settings
from fleet.settings.loading import load_settings
from tests.control_plane.waiting import SECONDS_TO_HAPPEN
from tests.e2e.hub import Hub, soon

Json = dict[str, Any]

NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)


class World:
    """Everything a test does to a hub, and all it looks at, through plain requests of its own."""

    def __init__(self, api: Api) -> None:
        self.api = api

    # --- any object ---------------------------------------------------------------------------------------------------

    async def create(self, resource: Resource, document: Json) -> Json:
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        return await self._call(Method.POST, resource.collection(document["metadata"].get("namespace", "")), typed)

    async def get(self, resource: Resource, key: str) -> Json:
        return await self._call(Method.GET, resource.item(key))

    async def find(self, resource: Resource, key: str) -> Json | None:
        try:
            return await self.get(resource, key)
        except NotFound:
            return None

    async def all(self, resource: Resource, *, namespace: str = "", labels: str = "") -> list[Json]:
        query = (("labelSelector", labels),) if labels else ()
        found = await self._call(Method.GET, resource.collection(namespace), query=query)
        items: list[Json] = found["items"]
        return sorted(items, key=lambda one: str(one["metadata"]["name"]))

    async def patch(self, resource: Resource, key: str, patch: Json, *, subresource: str = "") -> Json:
        return await self._call(Method.PATCH, resource.item(key, subresource), patch, content_type=MERGE_PATCH)

    async def replace(self, resource: Resource, key: str, document: Json, *, subresource: str = "") -> Json:
        return await self._call(Method.PUT, resource.item(key, subresource), document)

    async def delete(self, resource: Resource, key: str) -> None:
        await self._call(Method.DELETE, resource.item(key))

    # --- member clusters ----------------------------------------------------------------------------------------------

    async def hold_secret(self, key: str, **values: bytes) -> None:
        """With these values and no others: the hub keeps Secrets of earlier tests."""
        if await self.find(SECRETS, key) is not None:
            await self.delete(SECRETS, key)
        namespace, _, name = key.partition("/")
        data = {field: base64.b64encode(value).decode() for field, value in values.items()}
        await self.create(SECRETS, {"metadata": {"name": name, "namespace": namespace}, "data": data})

    async def join(self, name: str, *, labels: Mapping[str, str] | None = None, **spec_and_status: Any) -> None:
        """An eligible cluster. `taints` go into the spec, everything else `member_status` knows into the status."""
        taints = spec_and_status.pop("taints", ())
        await self.create(
            MEMBER_CLUSTERS,
            {
                "metadata": {"name": name, "labels": dict(labels or {})},
                "spec": {"identity": {"kind": "User", "name": f"agent-{name}"}, "taints": list(taints)},
            },
        )
        await self.report(name, **spec_and_status)

    async def report(self, name: str, **status: Any) -> None:
        """What the agent of a cluster says now: a heartbeat, and what else is given."""
        await self.patch(MEMBER_CLUSTERS, name, {"status": member_status(**status)}, subresource=STATUS)

    async def relabel(self, name: str, **labels: str | None) -> None:
        await self.patch(MEMBER_CLUSTERS, name, {"metadata": {"labels": labels}})

    async def taint(self, name: str, *taints: Mapping[str, str]) -> None:
        """These and no others."""
        await self.patch(MEMBER_CLUSTERS, name, {"spec": {"taints": list(taints)}})

    # --- placements ---------------------------------------------------------------------------------------------------

    async def place(
        self, key: str, policy: Json | None = None, *, selects: Iterable[Json] | None = None, **spec: Any
    ) -> Json:
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        chosen = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "nothing"}] if namespace else [ANYTHING]
        wanted = {"resourceSelectors": list(selects or chosen), **spec}
        if policy is not None:
            wanted["policy"] = policy
        return await self.create(find_scope(key).placement, {"metadata": metadata, "spec": wanted})

    async def edit_policy(self, key: str, **changes: Any) -> None:
        await self.patch(find_scope(key).placement, key, {"spec": {"policy": changes}})

    async def placement(self, key: str) -> Json:
        return await self.get(find_scope(key).placement, key)

    async def latest_snapshot(self, key: str) -> Json | None:
        found = await self._owned(find_scope(key).policy_snapshot, key)
        latest = [one for one in found if one["metadata"]["labels"].get(IS_LATEST_SNAPSHOT) == "true"]
        return latest[0] if len(latest) == 1 else None

    async def bindings(self, key: str) -> list[Json]:
        return await self._owned(find_scope(key).binding, key)

    async def states(self, key: str) -> dict[str, str]:
        """By cluster; of several bindings for one cluster, all states."""
        found: dict[str, list[str]] = {}
        for one in await self.bindings(key):
            state = "Terminating" if one["metadata"].get("deletionTimestamp") else one["spec"]["state"]
            found.setdefault(one["spec"]["targetCluster"], []).append(state)
        return {cluster: "+".join(sorted(states)) for cluster, states in sorted(found.items())}

    async def in_use(self, key: str) -> set[str]:
        """Clusters with a binding that is neither unscheduled nor being deleted."""
        found = await self.states(key)
        return {cluster for cluster, states in found.items() if {"Scheduled", "Bound"} & set(states.split("+"))}

    async def scheduled(self, key: str) -> Json | None:
        """The condition of the newest snapshot, once it speaks of the newest generation of everything."""
        placement, snapshot = await self.placement(key), await self.latest_snapshot(key)
        status = (snapshot or {}).get("status") or {}
        if snapshot is None or status.get("observedCRPGeneration", -1) < placement["metadata"]["generation"]:
            return None
        for one in status.get("conditions", ()):
            if one["type"] == "Scheduled" and one["observedGeneration"] >= snapshot["metadata"]["generation"]:
                return dict(one)
        return None

    async def soon_scheduled(self, key: str, *, status: str = "True", within: float = SECONDS_TO_HAPPEN) -> Json:
        async def look() -> Json | None:
            found = await self.scheduled(key)
            return found if found is not None and found["status"] == status else None

        found: Json = await soon(look, within=within)
        return found

    async def soon_on(self, key: str, *clusters: str, within: float = SECONDS_TO_HAPPEN) -> None:
        """The placement uses exactly these clusters."""

        async def look() -> bool:
            return await self.in_use(key) == set(clusters)

        await soon(look, within=within)

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _owned(self, resource: Resource, key: str) -> list[Json]:
        namespace, _, name = key.rpartition("/")
        return await self.all(resource, namespace=namespace, labels=f"{PARENT_PLACEMENT}={name}")

    async def _call(self, method: Method, path: str, body: Json | None = None, **more: Any) -> Json:
        encoded = None if body is None else msgspec.json.encode(body)
        answer: Json = msgspec.json.decode(await self.api.call(Request(method, path, body=encoded, **more)))
        return answer


ANYTHING: Final = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing-by-this-name"}


def member_status(
    *,
    silent_for: float = 0.0,
    joined: str = "True",
    healthy: str = "True",
    unhealthy_for: float = 3600.0,
    properties: Mapping[str, str] | None = None,
    available: Mapping[str, str] | None = None,
    namespaces: Iterable[str] | None = None,
) -> Json:
    """`silent_for` and `unhealthy_for` are seconds before now."""
    changed = _ago(unhealthy_for)
    agent = {
        "type": "MemberAgent",
        "lastReceivedHeartbeat": _ago(silent_for),
        "conditions": [
            {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": changed}
            for kind, status in (("Joined", joined), ("Healthy", healthy))
        ],
    }
    status: Json = {"agentStatus": [agent]}
    if properties is not None:
        now = _ago(0)
        status["properties"] = {name: {"value": value, "observationTime": now} for name, value in properties.items()}
    if available is not None:
        status["resourceUsage"] = {key: dict(available) for key in ("capacity", "allocatable", "available")}
    if namespaces is not None:
        collected = {"type": "NamespaceCollectionSucceeded", "status": "True", "reason": "Succeeded", "message": ""}
        status["namespaces"] = dict.fromkeys(namespaces, "")
        status["conditions"] = [{**collected, "lastTransitionTime": changed}]
    return status


def _ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def configured(*assignments: str, file: Path | None = None) -> Settings:
    """Settings as operators write them, on top of what suits tests: no lease, no ports, no waiting for more changes."""
    suitable = ("metrics.address=off", "health.address=off", "resourceSnapshots.minimumInterval=0s")
    quick = ("resourceSnapshots.collectionTime=0s", "api.qps=10000", "api.burst=10000")
    return load_settings(file, {}, [*suitable, *quick, *assignments]).settings


@asynccontextmanager
async def controlled(
    api: Api,
    *assignments: str,
    controllers: Iterable[str] = CONTROLLERS,
    elects: bool = False,
    recorder: Recorder | None = None,
    file: Path | None = None,
) -> AsyncIterator[Manager]:
    """A controller in this process, ready to work; what it dies of fails the test."""
    settings = configured(*assignments, file=file)
    controller = Manager(api, settings, controllers=frozenset(controllers), elects=elects, recorder=recorder)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(), name="controller")
        await controller.ready()
        yield controller
        controller.stop()


async def handed_over(controller: Manager) -> None:
    """The history was given every decision that shows on the hub: it gets an attempt a moment after its last write, and
    before it counts as finished."""
    scheduler = controller.scheduler
    assert scheduler is not None

    async def is_between_attempts() -> bool:
        return not scheduler.queue.count_items().in_flight

    await soon(is_between_attempts)


async def all_recorded(controller: Manager, history: History) -> None:
    """Every decision that shows on the hub is in the history."""
    await handed_over(controller)
    assert await asyncio.to_thread(history.flush, seconds=SECONDS_TO_HAPPEN)


@asynccontextmanager
async def world(hub: Hub, *assignments: str, **options: Any) -> AsyncIterator[World]:
    """A hub with a controller on it. The controller and the test have connections of their own."""
    async with hub.connected() as own, hub.connected() as transport, controlled(transport, *assignments, **options):
        yield World(own)


__all__ = [
    "CLUSTER_SCOPED",
    "NAMESPACED",
    "Hub",
    "World",
    "all_recorded",
    "configured",
    "controlled",
    "handed_over",
    "member_status",
    "soon",
    "world",
]
