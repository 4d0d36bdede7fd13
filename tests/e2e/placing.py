"""Placements as their owners see them: a stage with content to place, and a test that acts as rollout and agents."""

from __future__ import annotations

from asyncio import TaskGroup
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from fleet.clock import SystemClock
from fleet.demo.agents import RolloutSimulator
from fleet.kube.api import Api, Method
from fleet.kube.backoff import JITTER
from fleet.kube.resource import STATUS, Resource
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED, find_scope
from fleet.manager.manager import CONTROLLERS
from fleet.model.keys import BOUND, IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, RESOURCE_INDEX, SCHEDULED, UNSCHEDULED
from tests.control_plane.waiting import SECONDS_TO_HAPPEN
from tests.e2e.scheduling import Notebook, Overheard, Stage, key_in
from tests.e2e.world import CONFIG_MAPS, EVENTS, Hub, Json, controlled, soon

COPIES: Final = Resource(
    "placement.kubernetes-fleet.io",
    "v1beta1",
    "clusterresourceplacementstatuses",
    "ClusterResourcePlacementStatus",
    namespaced=True,
)
RESOURCE_HASH: Final = "kubernetes-fleet.io/resource-hash"
GROUP_SIZE: Final = "kubernetes-fleet.io/number-of-resource-snapshots"
ENVELOPES: Final = "kubernetes-fleet.io/number-of-enveloped-object"
SUBINDEX: Final = "kubernetes-fleet.io/subindex-of-resource-snapshot"
CHANGE_SEEN_AT: Final = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time"

SCHEDULED_OK: Final = {"Scheduled": "True SchedulingPolicyFulfilled"}
_PAUSE: Final = 0.05
"""Seconds between two looks at what takes several requests."""
_LONG_AGO: Final = "2026-01-01T00:00:00Z"


class Places(Stage):
    async def join_with(self, namespace: str, *names: str) -> None:
        """Eligible clusters that have this namespace."""
        async with TaskGroup() as group:
            for name in names:
                group.create_task(self.join(name, namespaces=(namespace,)))

    # --- content ------------------------------------------------------------------------------------------------------

    async def config_map(self, key: str, **data: str) -> None:
        namespace, _, name = key.rpartition("/")
        await self.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace}, "data": data})

    # --- acting as rollout and agents ---------------------------------------------------------------------------------

    async def roll_out(self, key: str, *clusters: str, snapshot: str | None = None) -> None:
        """The bindings of these clusters, or all, are bound to the newest resource snapshot."""
        wanted = snapshot or (await self.master(key))["metadata"]["name"]
        for one in await self.bindings(key):
            if one["spec"]["state"] in (SCHEDULED, BOUND) and (
                not clusters or one["spec"]["targetCluster"] in clusters
            ):
                change = {"state": BOUND, "resourceSnapshotName": wanted}
                await self.patch(find_scope(key).binding, key_in(one), {"spec": change})

    async def agents_say(self, key: str, cluster: str, *said: str, **lists: list[Json]) -> None:
        """Each of `said` is type, status and reason of a condition of the binding; they replace all earlier ones."""
        (binding,) = [one for one in await self.bindings(key) if one["spec"]["targetCluster"] == cluster]
        generation = binding["metadata"]["generation"]
        status = {"conditions": [binding_condition(one, generation) for one in said], **lists}
        await self.patch(find_scope(key).binding, key_in(binding), {"status": status}, subresource=STATUS)

    # --- looking ------------------------------------------------------------------------------------------------------

    async def status(self, key: str) -> Json:
        found: Json = (await self.placement(key)).get("status") or {}
        return found

    async def message(self, key: str, name: str) -> str:
        found = by_type((await self.status(key))["conditions"], find_scope(key).condition_prefix)
        return str(found[name]["message"])

    async def says(self, key: str) -> dict[str, str]:
        """Status and reason of the placement's conditions; those about an older generation are marked as such."""
        placement = await self.placement(key)
        generation = placement["metadata"]["generation"]
        found = by_type((placement.get("status") or {}).get("conditions", ()), find_scope(key).condition_prefix)
        return {name: _told(one, generation) for name, one in found.items()}

    async def soon_says(self, key: str, expected: dict[str, str], *, within: float = SECONDS_TO_HAPPEN) -> None:
        """All the conditions there are, no more and no less."""
        await soon_equal(lambda: self.says(key), expected, within=within)

    async def listed(self, key: str) -> list[Json]:
        found: list[Json] = (await self.status(key)).get("placementStatuses", [])
        return found

    async def on(self, key: str, cluster: str) -> Json:
        """The entry of a cluster in the list."""
        (found,) = [one for one in await self.listed(key) if one.get("clusterName") == cluster]
        return found

    async def says_of(self, key: str, cluster: str) -> dict[str, str]:
        generation = (await self.placement(key))["metadata"]["generation"]
        return {one["type"]: _told(one, generation) for one in (await self.on(key, cluster))["conditions"]}

    async def policies(self, key: str) -> list[Json]:
        return await self._owned(find_scope(key).policy_snapshot, key)

    async def resources(self, key: str) -> list[Json]:
        """All parts of all groups, by index and name."""
        found = await self._owned(find_scope(key).resource_snapshot, key)
        return sorted(found, key=lambda one: (index_in(one), one["metadata"]["name"]))

    async def master(self, key: str) -> Json:
        """The latest one."""

        async def look() -> list[Json]:
            labels = f"{PARENT_PLACEMENT}={key.rpartition('/')[2]},{IS_LATEST_SNAPSHOT}=true"
            return await self.all(find_scope(key).resource_snapshot, namespace=key.rpartition("/")[0], labels=labels)

        (found,) = await soon(look)
        return dict(found)

    async def reasons_told(self, key: str, uid: str) -> set[str]:
        """Of all events about a placement, which may be gone."""
        found = await self.all(EVENTS, namespace=key.rpartition("/")[0] or "default")
        return {one["reason"] for one in found if one["involvedObject"].get("uid") == uid}

    async def soon_told(self, key: str, *reasons: str) -> None:
        uid = (await self.placement(key))["metadata"]["uid"]

        async def look() -> bool:
            return set(reasons) <= await self.reasons_told(key, uid)

        await soon(look)

    def written_statuses(self, key: str) -> list[Json]:
        """Everything the controller ever said in the status of a placement."""
        path = find_scope(key).placement.item(key, STATUS)
        bodies = [one.body for one in self.overheard.requests if one.method is Method.PUT and one.path == path]
        return [msgspec.json.decode(body)["status"] for body in bodies if body is not None]


@asynccontextmanager
async def places(
    hub: Hub, *assignments: str, controllers: Iterable[str] = CONTROLLERS, rolled_out: bool = False
) -> AsyncIterator[Places]:
    """With `rolled_out`, a stand-in for rollout and agents works beside the controller."""
    async with hub.connected() as own, hub.connected() as connection, TaskGroup() as beside:
        overheard, notebook = Overheard(connection), Notebook()
        async with controlled(overheard, *assignments, controllers=controllers, recorder=notebook) as controller:
            stand_in = _stand_in(own)
            task = beside.create_task(stand_in.run(), name="rollout") if rolled_out else None
            yield Places(own, controller, overheard, notebook)
        if task is not None:
            task.cancel()


def _stand_in(api: Api) -> RolloutSimulator:
    return RolloutSimulator(api, clock=SystemClock(), jitter=JITTER)


# --- documents --------------------------------------------------------------------------------------------------------


def selector(kind: str, name: str | None = None, *, group: str = "", version: str = "v1", **more: Any) -> Json:
    """What a placement selects."""
    named = {} if name is None else {"name": name}
    return {"group": group, "version": version, "kind": kind, **named, **more}


def namespace_and(name: str, *others: Json) -> list[Json]:
    """A namespace, and only these things inside it."""
    return [selector("Namespace", name, selectionScope="NamespaceWithResourceSelectors"), *others]


def binding_condition(said: str, generation: int) -> Json:
    kind, status, reason = said.split()
    named = {"type": kind, "status": status, "reason": reason, "message": f"{reason} by the agent"}
    return {**named, "observedGeneration": generation, "lastTransitionTime": _LONG_AGO}


def by_type(conditions: Iterable[Json], prefix: str = "") -> dict[str, Json]:
    return {one["type"].removeprefix(prefix): one for one in conditions}


def index_in(snapshot: Json) -> int:
    return int(snapshot["metadata"]["labels"][RESOURCE_INDEX])


def names_of(documents: Iterable[Json]) -> list[str]:
    return [one["metadata"]["name"] for one in documents]


def _told(condition: Json, generation: int) -> str:
    age = "" if condition["observedGeneration"] == generation else " (old)"
    return f"{condition['status']} {condition['reason']}{age}"


async def soon_equal(look: Any, expected: object, *, within: float = SECONDS_TO_HAPPEN) -> None:
    """Fails with the difference between what is expected and what was seen last."""
    seen: list[object] = []

    async def is_equal() -> bool:
        seen[:] = [await look()]
        return seen == [expected]

    try:
        await soon(is_equal, within=within, pause=_PAUSE)
    except AssertionError as error:
        raise AssertionError(f"not within {within:g} s:\nexpected {expected!r}\nseen     {seen!r}") from error


__all__ = [
    "BOUND",
    "CLUSTER_SCOPED",
    "NAMESPACED",
    "SCHEDULED",
    "UNSCHEDULED",
    "Hub",
    "Json",
    "Places",
    "places",
    "soon",
]
