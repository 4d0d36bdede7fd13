"""The fleet of a scenario: the objects of its hub, and the agents of its clusters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fleet.cli.client.hub_objects import list_documents
from fleet.cli.commands.apply import APPLY_PATCH, KindResolver
from fleet.cli.scenario.document import Clusters, Expectation
from fleet.cli.scenario.memory_hub import MemoryHub
from fleet.cli.scenario.virtual_time import VirtualClock
from fleet.errors import AlreadyExists, InputError, NotFound
from fleet.kube.api import Method, Request
from fleet.kube.objects import MERGE_PATCH
from fleet.kube.resource import STATUS, Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED, find_scope
from fleet.model.keys import HEALTHY, JOINED, MEMBER_AGENT, PARENT_PLACEMENT, UNSCHEDULED
from fleet.model.timestamps import format_timestamp, parse_timestamp, timestamp_or_none
from fleet.similarity import did_you_mean

Json = dict[str, Any]

_BEATS: Final = 3
"""Heartbeats within the time-out of a silent agent."""
_NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
_IDENTITY: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")
_DERIVED: Final = (
    "ClusterSchedulingPolicySnapshot",
    "SchedulingPolicySnapshot",
    "ClusterResourceSnapshot",
    "ResourceSnapshot",
    "ClusterResourceBinding",
    "ResourceBinding",
    "Work",
)
"""Kinds that controllers write."""
_PLACEMENTS: Final = (CLUSTER_SCOPED.placement.kind, NAMESPACED.placement.kind)
_APPROVALS: Final = (CLUSTER_SCOPED.approval.kind, NAMESPACED.approval.kind)


@dataclass(frozen=True, slots=True)
class Move:
    placement: str
    cluster: str


class SimulatedFleet:
    """The agents of its clusters do nothing but report."""

    def __init__(self, hub: MemoryHub, clock: VirtualClock, longest_silence: float) -> None:
        self._hub, self._clock = hub, clock
        self._kinds = KindResolver(hub)
        self._longest_silence = longest_silence
        self._reporting: dict[str, Json] = {}
        """The agent's part of the status, by cluster."""
        self._uids: dict[str, str] = {}
        """Of placements: the one that each has here, by that in the files."""

    async def load(self, documents: Iterable[Json]) -> dict[str, int]:
        """Approvals keep their age, and follow their placements."""
        ignored: dict[str, int] = {}
        for document in sorted(documents, key=lambda each: (each["kind"] in _APPROVALS, each["kind"] != "Namespace")):
            if document["kind"] in _DERIVED:
                ignored[document["kind"]] = ignored.get(document["kind"], 0) + 1
                continue
            created = document["metadata"].get("creationTimestamp")
            is_dated = created is not None and document["kind"] in _APPROVALS
            with self._hub.backdate(parse_timestamp(created) / 1e9 if is_dated else None):
                await self.apply(document)
        return ignored

    async def apply(self, document: Json) -> None:
        """Server-side, with the status of clusters."""
        content = deepcopy(document)
        status = content.pop("status", None)
        metadata = content["metadata"]
        uid = metadata.get("uid")
        for name in _IDENTITY:
            metadata.pop(name, None)
        resource = await self._kinds.find(content["apiVersion"], content["kind"])
        if resource.namespaced:
            await self._ensure_namespace(metadata.setdefault("namespace", "default"))
        query = (("fieldManager", "fleet-scenario"), ("force", "true"))
        path = resource.item(key_from(metadata))
        if resource.kind in _APPROVALS:
            await self._address(content, metadata.get("namespace"))
        applied = await self._call(Method.PATCH, path, content, content_type=APPLY_PATCH, query=query)
        if uid and resource.kind in _PLACEMENTS:
            self._uids[uid] = applied["metadata"]["uid"]
        if resource.kind == MEMBER_CLUSTERS.kind and status:
            await self._call(Method.PATCH, f"{path}/{STATUS}", {"status": status}, content_type=MERGE_PATCH)
            self._adopt(metadata["name"], status)

    async def _address(self, approval: Json, namespace: str | None) -> None:
        """To the placement of its name, unless it is about an earlier one."""
        spec = approval.get("spec") or {}
        if "placementUID" in spec:
            spec["placementUID"] = self._uids.get(spec["placementUID"], spec["placementUID"])
            return
        key = key_from({"namespace": namespace, "name": spec.get("placement")})
        with suppress(NotFound):
            placement = await self._call(Method.GET, find_scope(key).placement.item(key))
            spec["placementUID"] = placement["metadata"]["uid"]

    def _adopt(self, name: str, status: Json) -> None:
        """An agent that was alive goes on reporting."""
        agent = next((each for each in status.get("agentStatus") or () if each.get("type") == MEMBER_AGENT), None)
        beat = timestamp_or_none((agent or {}).get("lastReceivedHeartbeat"))
        if agent is not None and beat is not None:
            silent = self._clock.now() - datetime.fromtimestamp(beat / 1e9, UTC)
            if silent < timedelta(seconds=self._longest_silence):
                self._reporting[name] = agent

    async def _ensure_namespace(self, name: str) -> None:
        with suppress(AlreadyExists):
            await self._call(Method.POST, _NAMESPACES.collection(), {"metadata": {"name": name}})

    async def delete(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        resource = await self._kinds.find(api_version, kind)
        metadata = {"name": name, "namespace": namespace or "default"} if resource.namespaced else {"name": name}
        await self._call(Method.DELETE, resource.item(key_from(metadata)))

    async def remove(self, cluster: str) -> None:
        """Its hub-side finalizers with it, as KubeFleet's hub agent does when a member has left."""
        self._reporting.pop(cluster, None)
        path = MEMBER_CLUSTERS.item(cluster)
        await self._call(Method.DELETE, path)
        with suppress(NotFound):
            await self._call(Method.PATCH, path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)

    def silence(self, clusters: Iterable[str]) -> None:
        for name in clusters:
            self._reporting.pop(name, None)

    async def recover(self, clusters: Iterable[str]) -> None:
        for name in clusters:
            self._reporting[name] = {"type": MEMBER_AGENT, "conditions": self._build_conditions()}
            await self._report(name)

    async def send_heartbeats(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(self._longest_silence / _BEATS)
            for name in sorted(self._reporting):
                with suppress(NotFound):
                    await self._report(name)

    async def _report(self, name: str) -> None:
        agent = {**self._reporting[name], "lastReceivedHeartbeat": self._format_now()}
        path = f"{MEMBER_CLUSTERS.item(name)}/{STATUS}"
        await self._call(Method.PATCH, path, {"status": {"agentStatus": [agent]}}, content_type=MERGE_PATCH)

    def _build_conditions(self) -> list[Json]:
        return [
            {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": self._format_now()}
            for type_ in (JOINED, HEALTHY)
        ]

    def _format_now(self) -> str:
        return format_timestamp(int(self._clock.now().timestamp()) * 1_000_000_000)

    # --- questions ----------------------------------------------------------------------------------------------------

    async def select(self, clusters: Clusters) -> list[str]:
        known = await list_documents(self._hub, MEMBER_CLUSTERS)
        selected = clusters.select(known)
        missing = sorted(set(clusters.names).difference(selected))
        if missing:
            near = did_you_mean(missing[0], [cluster["metadata"]["name"] for cluster in known])
            raise InputError(f"there is no cluster named {missing[0]!r} at that time{near}")
        return selected

    async def get_placement(self, key: str) -> Json:
        """As a document that can be applied with another name."""
        resource = find_scope(key).placement
        answer = json.loads(await self._hub.call(Request(Method.GET, resource.item(key))))
        metadata = answer["metadata"]
        kept = {name: metadata[name] for name in ("namespace", "labels", "annotations") if metadata.get(name)}
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        return {**typed, "metadata": {**kept, "name": metadata["name"]}, "spec": answer["spec"]}

    async def list_moves(self) -> set[Move]:
        """What every placement has, without what it has given up."""
        moves = set()
        for scope in (CLUSTER_SCOPED, NAMESPACED):
            for binding in await list_documents(self._hub, scope.binding):
                metadata, spec = binding["metadata"], binding["spec"]
                name = (metadata.get("labels") or {}).get(PARENT_PLACEMENT)
                if name and spec.get("state") != UNSCHEDULED and "deletionTimestamp" not in metadata:
                    moves.add(Move(key_from({**metadata, "name": name}), spec["targetCluster"]))
        return moves

    async def list_short(self) -> list[str]:
        return sorted(
            [
                key_from(placement["metadata"])
                for scope in (CLUSTER_SCOPED, NAMESPACED)
                for placement in await list_documents(self._hub, scope.placement)
                if not _is_scheduled(placement)
            ]
        )

    async def judge(self, expectation: Expectation) -> str:
        """How the placement differs from what is expected; empty if it does not."""
        key = expectation.placement
        try:
            resource = find_scope(key).placement
            placement = json.loads(await self._hub.call(Request(Method.GET, resource.item(key))))
        except NotFound:
            return f"{key}: there is no such placement"
        clusters = sorted(move.cluster for move in await self.list_moves() if move.placement == key)
        shown = ", ".join(clusters) or "no cluster"
        if expectation.clusters is not None and sorted(expectation.clusters) != clusters:
            return f"{key}: expected on {', '.join(sorted(expectation.clusters)) or 'no cluster'}, is on {shown}"
        if expectation.count is not None and expectation.count != len(clusters):
            return f"{key}: expected on {expectation.count} clusters, is on {len(clusters)}: {shown}"
        state = "Scheduled" if _is_scheduled(placement) else "Unscheduled"
        if expectation.state is not None and expectation.state != state:
            return f"{key}: expected {expectation.state}, is {state} on {shown}"
        return ""

    async def _call(self, method: Method, path: str, body: Json | None = None, **more: Any) -> Json:
        content = None if body is None else json.dumps(body).encode()
        answer: Json = json.loads(await self._hub.call(Request(method, path, body=content, **more)))
        return answer


def key_from(metadata: Mapping[str, Any]) -> str:
    namespace, name = metadata.get("namespace"), metadata.get("name", "")
    return f"{namespace}/{name}" if namespace else str(name)


def _is_scheduled(placement: Json) -> bool:
    conditions = (placement.get("status") or {}).get("conditions") or ()
    wanted = "ClusterResourcePlacementScheduled", "ResourcePlacementScheduled"
    return any(each["type"] in wanted and each["status"] == "True" for each in conditions)
