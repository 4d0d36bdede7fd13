"""The scheduler as a whole: a hub with a controller whose requests and attempts a test can look at.

That something does not happen is proved without waiting: once the controller has seen everything that is on the hub and
has nothing left to do (`settled`), what it was going to do has been done.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec

import msgspec

from fleet.errors import AlreadyExists, NotFound, Unavailable
from fleet.kube.api import Api, Method, Request
from fleet.kube.informer import Informer
from fleet.kube.objects import JSON_PATCH
from fleet.kube.resource import STATUS, Resource, key_of
from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.manager.manager import CONTROLLERS, SCHEDULER, Manager
from fleet.model.keys import (
    BOUND,
    IS_LATEST_SNAPSHOT,
    MEMBER_CLUSTER_FINALIZER,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_GENERATION,
    PLACEMENT_GROUP,
    SCHEDULED_CONDITION,
    SCHEDULER_BINDING_CLEANUP,
    STORAGE_VERSION,
)
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptRecord
from tests.control_plane.waiting import SECONDS_TO_HAPPEN
from tests.e2e.world import EVENTS, NAMESPACES, Hub, Json, World, controlled, handed_over, member_status, soon

P = ParamSpec("P")

ONLY_SCHEDULER: Final = (SCHEDULER,)
FOREIGN: Final = "tests.example.com/keeps"
"""A finalizer of somebody else."""


_ROOT: Final = f"/apis/{PLACEMENT_GROUP}/{STORAGE_VERSION}/"


def story(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*args, **named))

    return run


Before = Callable[[Request], Awaitable[None]]


async def _nothing(request: Request) -> None:
    """What usually happens before a request."""


def refusing(which: Callable[[Request], bool]) -> Before:
    async def refuse(request: Request) -> None:
        if which(request):
            raise Unavailable("the test refuses this request")

    return refuse


def once(which: Callable[[Request], bool], act: Callable[[], Awaitable[object]]) -> Before:
    """Somebody else is quicker than the first such request."""
    left = [act]

    async def intervene(request: Request) -> None:
        if left and which(request):
            await left.pop()()

    return intervene


class Overheard:
    """Passes requests on, and keeps them. `before` may do something else first, or fail instead."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.requests: list[Request] = []
        self.under_way = 0
        self.before: Before = _nothing

    async def call(self, request: Request) -> bytes:
        self.requests.append(request)
        self.under_way += 1
        try:
            await self.before(request)
            return await self._api.call(request)
        finally:
            self.under_way -= 1

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._api.stream(request)

    def sent(self, below: str) -> list[tuple[str, str]]:
        """Methods and paths, in order, without watches."""
        return [(one.method.value, one.path) for one in self.requests if one.path.startswith(below)]

    def writes(self) -> list[tuple[str, str]]:
        """Of placements, snapshots and bindings: method and kind."""
        return [(one.method.value, _kind_in(one.path)) for one in self.requests if one.is_write and _ROOT in one.path]


class Notebook:
    """Every attempt of a scheduler."""

    def __init__(self) -> None:
        self.attempts: list[AttemptRecord] = []

    def record(self, attempt: AttemptRecord) -> None:
        self.attempts.append(attempt)


class Stage(World):
    """A world in which one controller works."""

    def __init__(self, api: Api, controller: Manager, overheard: Overheard, notebook: Notebook) -> None:
        super().__init__(api)
        self.controller = controller
        self.overheard = overheard
        self.notebook = notebook

    # --- doing --------------------------------------------------------------------------------------------------------

    async def patch(self, resource: Resource, key: str, patch: Json, *, subresource: str = "") -> Json:
        """Of a member cluster, until the controller has heard of it: two watches have no common order, and what is
        placed next has to be decided with it."""
        written = await super().patch(resource, key, patch, subresource=subresource)
        if resource == MEMBER_CLUSTERS:
            await self._heard_of(self.controller.caches.cluster_informer, key)
        return written

    async def delete(self, resource: Resource, key: str) -> None:
        """Like `patch`."""
        await super().delete(resource, key)
        if resource == MEMBER_CLUSTERS:
            await self._heard_of(self.controller.caches.cluster_informer, key)

    async def _heard_of(self, watched: Informer[Any], key: str) -> None:
        async def look() -> bool:
            held, there = watched.store.get(key), await self.find(watched.resource, key)
            if held is None or there is None:
                return held is there
            return bool(watched.store.codec.metadata_of(held).resource_version == there["metadata"]["resourceVersion"])

        await soon(look)

    async def bring(self, *members: Json) -> None:
        """Member clusters as documents; one with a deletionTimestamp starts to leave."""
        await asyncio.gather(*map(self._bring, members))

    async def _bring(self, member: Json) -> None:
        metadata, leaving = member["metadata"], "deletionTimestamp" in member["metadata"]
        kept = {"finalizers": [MEMBER_CLUSTER_FINALIZER]} if leaving else {}
        named = {"name": metadata["name"], "labels": metadata.get("labels", {}), **kept}
        spec = {"identity": {"kind": "User", "name": "agent"}, **member.get("spec", {})}
        await self.create(MEMBER_CLUSTERS, {"metadata": named, "spec": spec})
        await self.patch(MEMBER_CLUSTERS, named["name"], {"status": member["status"]}, subresource=STATUS)
        if leaving:
            await self.delete(MEMBER_CLUSTERS, named["name"])

    async def join_all(self, members: Mapping[str, Mapping[str, str]]) -> None:
        """Eligible clusters with these labels."""
        await asyncio.gather(*(self.join(name, labels=labels) for name, labels in members.items()))

    async def start_leaving(self, cluster: str) -> None:
        """Like a cluster whose agent has not said goodbye yet."""
        await self.patch(MEMBER_CLUSTERS, cluster, {"metadata": {"finalizers": [MEMBER_CLUSTER_FINALIZER]}})
        await self.delete(MEMBER_CLUSTERS, cluster)

    async def finish_leaving(self, cluster: str) -> None:
        await self.patch(MEMBER_CLUSTERS, cluster, {"metadata": {"finalizers": None}})

    async def leave(self, cluster: str) -> None:
        """Gone at once."""
        await self.delete(MEMBER_CLUSTERS, cluster)

    async def namespace(self, name: str) -> None:
        try:
            await self.create(NAMESPACES, {"metadata": {"name": name}})
        except AlreadyExists:
            return

    async def bind(self, key: str, *clusters: str) -> None:
        """What the rollout does with scheduled bindings, until the controller has heard of it."""
        for one in await self.bindings(key):
            if one["spec"]["targetCluster"] in clusters:
                await self.patch(find_scope(key).binding, key_in(one), {"spec": {"state": BOUND}})
                await self._heard_of(self.controller.caches.kinds_of(PlacementKey.parse(key)).bindings, key_in(one))

    async def nudge(self, key: str) -> None:
        """A new generation of the placement that asks for nothing new."""
        limit = (await self.placement(key))["spec"].get("revisionHistoryLimit", 10)
        await self.patch(find_scope(key).placement, key, {"spec": {"revisionHistoryLimit": limit + 1}})

    async def set_policy(self, key: str, policy: Json) -> None:
        """This policy and nothing of the one before."""
        path = find_scope(key).placement.item(key)
        operations = [{"op": "add", "path": "/spec/policy", "value": policy}]
        body = msgspec.json.encode(operations)
        await self.api.call(Request(Method.PATCH, path, body=body, content_type=JSON_PATCH))

    # --- written by hand, where no placement controller is ------------------------------------------------------------

    async def snapshot(
        self,
        key: str,
        policy: Json | None,
        *,
        index: int = 0,
        latest: str = "true",
        annotations: Mapping[str, str | None] | None = None,
    ) -> Json:
        """Of generation 1, with the count of the policy, where `annotations` say nothing else."""
        namespace, _, name = key.rpartition("/")
        count = (policy or {}).get("numberOfClusters")
        counted = {} if count is None else {NUMBER_OF_CLUSTERS: str(count)}
        given = {PLACEMENT_GENERATION: "1", **counted, **(annotations or {})}
        metadata = {
            "name": f"{name}-{index}",
            **({"namespace": namespace} if namespace else {}),
            "labels": {PARENT_PLACEMENT: name, IS_LATEST_SNAPSHOT: latest},
            "annotations": {name: value for name, value in given.items() if value is not None},
        }
        spec = {"policyHash": "c29tZQ==", **({} if policy is None else {"policy": policy})}
        return await self.create(find_scope(key).policy_snapshot, {"metadata": metadata, "spec": spec})

    async def mark(self, key: str, index: int, *, latest: str) -> None:
        await self.edit_snapshot(key, index, labels={IS_LATEST_SNAPSHOT: latest})

    async def annotate(self, key: str, index: int = 0, /, **annotations: str | None) -> None:
        """`count` and `generation` for short."""
        names = {"count": NUMBER_OF_CLUSTERS, "generation": PLACEMENT_GENERATION}
        await self.edit_snapshot(key, index, annotations={names[short]: text for short, text in annotations.items()})

    async def edit_snapshot(self, key: str, index: int, **metadata: Any) -> None:
        await self.patch(find_scope(key).policy_snapshot, f"{key}-{index}", {"metadata": metadata})

    async def written_binding(self, key: str, cluster: str, *, name: str, **spec_and_metadata: Any) -> Json:
        """A binding that another scheduler left here."""
        namespace, _, placement = key.rpartition("/")
        metadata = {
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "labels": {PARENT_PLACEMENT: placement},
            "finalizers": [SCHEDULER_BINDING_CLEANUP],
            **spec_and_metadata.pop("metadata", {}),
        }
        decision = {"clusterName": cluster, "selected": True, "reason": "picked by another"}
        spec = {
            "state": "Scheduled",
            "targetCluster": cluster,
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": f"{placement}-0",
            "clusterDecision": decision,
            **spec_and_metadata,
        }
        return await self.create(find_scope(key).binding, {"metadata": metadata, "spec": spec})

    # --- looking ------------------------------------------------------------------------------------------------------

    async def decided(self, key: str, *, within: float = SECONDS_TO_HAPPEN) -> Json:
        """The status of the newest snapshot, as soon as it speaks of the newest generation of everything. By then
        events and figures tell of the attempt that wrote it."""

        async def look() -> Json | None:
            return await self.scheduled(key)

        await soon(look, within=within)
        await handed_over(self.controller)
        snapshot = await self.latest_snapshot(key)
        assert snapshot is not None
        status: Json = snapshot["status"]
        return status

    async def read_by(self, key: str) -> Json:
        """The status of the latest snapshot as it is now, which may say nothing."""
        snapshot = await self.latest_snapshot(key)
        assert snapshot is not None
        return snapshot.get("status") or {}

    async def settled(self) -> None:
        """The controller has seen everything that is on the hub, and did nothing as long as looking took."""

        async def look() -> bool:
            was_idle, sent = self._is_idle(), len(self.overheard.requests)
            seen = await self.has_seen_everything()
            return seen and was_idle and self._is_idle() and len(self.overheard.requests) == sent

        await soon(look)

    async def woken_by(self, change: Awaitable[object]) -> set[str]:
        """The placements of which an attempt was made because of this change."""
        await self.settled()
        before = len(self.notebook.attempts)
        await change
        await self.settled()
        return {str(one.key) for one in self.notebook.attempts[before:]}

    def _is_idle(self) -> bool:
        assert self.controller.scheduler is not None
        counts = self.controller.scheduler.queue.count_items()
        waiting = counts.active or counts.backoff or counts.in_flight or counts.batched
        return not (waiting or self.overheard.under_way)

    async def has_seen_everything(self) -> bool:
        caches = self.controller.caches
        for watched in (caches.cluster_informer, *(one for kinds in caches.kinds for one in kinds)):
            if await self._on_hub(watched) != _seen(watched):
                return False
        return True

    async def _on_hub(self, watched: Informer[Any]) -> dict[str, str]:
        try:
            found = await self.all(watched.resource)
        except NotFound:  # its definition is optional and not installed
            return {}
        return {key_in(one): one["metadata"]["resourceVersion"] for one in found}

    # --- what was told ------------------------------------------------------------------------------------------------

    async def told(self, key: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of the events of the scheduler about a placement, in no particular order."""
        namespace = key.rpartition("/")[0]
        uid = (await self.placement(key))["metadata"]["uid"]
        found = await self.all(EVENTS, namespace=namespace or "default")
        about = [one for one in found if one["involvedObject"].get("uid") == uid]
        reasons = ("SchedulingChanged", "SchedulingIncomplete", "SchedulingInputInvalid", "ClusterPropertyUnreadable")
        return [(one["type"], one["reason"], one["message"]) for one in about if one["reason"] in reasons]

    async def all_told(self) -> None:
        """The events of all attempts so far are on the hub."""
        clock = asyncio.get_running_loop()

        async def look() -> bool:
            begun_at = clock.time()
            await self.controller.events.flush()
            return clock.time() - begun_at < 1  # it gives up after a few seconds, and does not say so

        await soon(look)

    def count(self, metric: str, **labels: str) -> float:
        """Of a counter or a histogram of the controller."""
        return self.controller.registry.get_sample_value(metric, labels) or 0.0


@asynccontextmanager
async def stage(hub: Hub, *assignments: str, controllers: Iterable[str] = CONTROLLERS) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(hub.connected())
        overheard = Overheard(await stack.enter_async_context(hub.connected()))
        notebook = Notebook()
        working = controlled(overheard, *assignments, controllers=controllers, recorder=notebook)
        yield Stage(own, await stack.enter_async_context(working), overheard, notebook)


def on_stage(
    *assignments: str, controllers: Iterable[str] = CONTROLLERS
) -> Callable[[Callable[Concatenate[Stage, P], Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Makes a test of a hub of a story that takes place on one stage."""

    def decorate(test: Callable[Concatenate[Stage, P], Coroutine[Any, Any, None]]) -> Callable[..., None]:
        @wraps(test)
        @story
        async def run(hub: Hub, *args: P.args, **named: P.kwargs) -> None:
            async with stage(hub, *assignments, controllers=controllers) as fleet:
                await test(fleet, *args, **named)

        signature = inspect.signature(test)
        hub, *others = signature.parameters.values()
        run.__signature__ = signature.replace(parameters=[hub.replace(name="hub"), *others])  # type: ignore[attr-defined]
        return run

    return decorate


def _kind_in(path: str) -> str:
    """The plural, with `/status` where only that was written."""
    parts = path.removeprefix(_ROOT).split("/")
    plural = parts[2] if parts[0] == "namespaces" else parts[0]
    return f"{plural}/status" if parts[-1] == "status" else plural


# --- reading documents ------------------------------------------------------------------------------------------------


def key_in(document: Json) -> str:
    metadata = document["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _seen(watched: Informer[Any]) -> dict[str, str]:
    found = map(watched.store.codec.metadata_of, watched.store.values())
    return {key_of(one): one.resource_version for one in found}


def condition(status: Json) -> Json:
    """The one there is."""
    (found,) = status["conditions"]
    assert found["type"] == SCHEDULED_CONDITION
    return dict(found)


def verdict(status: Json) -> tuple[str, str, str]:
    found = condition(status)
    return found["status"], found["reason"], found["message"]


def selected(status: Json) -> list[str]:
    """Published as selected, in order."""
    return [one["clusterName"] for one in status.get("targetClusters", ()) if one["selected"]]


def scores(status: Json) -> dict[str, tuple[int, int] | None]:
    """(topology, affinity) by cluster, in the published order; None where no score was published."""
    return {one["clusterName"]: _score(one) for one in status.get("targetClusters", ())}


def _score(decision: Json) -> tuple[int, int] | None:
    found = decision.get("clusterScore")
    return None if found is None else (found["priorityScore"], found["affinityScore"])


def refusals(status: Json) -> dict[str, str]:
    """Reasons of the clusters that were filtered."""
    return {
        one["clusterName"]: one["reason"]
        for one in status.get("targetClusters", ())
        if not one["selected"] and "clusterScore" not in one
    }


def by_cluster(bindings: Iterable[Json]) -> dict[str, Json]:
    """One binding for each cluster, or the test fails."""
    found = list(bindings)
    clusters = {one["spec"]["targetCluster"]: one for one in found}
    assert len(clusters) == len(found), "several bindings for one cluster"
    return clusters


def stored_score(binding: Json) -> tuple[int, int] | None:
    return _score(binding["spec"]["clusterDecision"])


def versions(bindings: Iterable[Json]) -> dict[str, str]:
    """By name: equal before and after if nobody wrote anything."""
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in bindings}


__all__ = ["FOREIGN", "ONLY_SCHEDULER", "Hub", "Json", "Stage", "member_status", "soon", "stage", "story"]
