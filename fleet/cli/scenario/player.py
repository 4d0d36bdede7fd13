"""Player: runs the controller through a scenario, on a hub in memory and in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

from fleet.cli.client.hub_objects import list_documents
from fleet.cli.commands.apply import APPLY_PATCH, KindResolver
from fleet.cli.output.failures import strip_request
from fleet.cli.scenario.document import Clusters, Expectation, Fill, ScenarioDocument, Step
from fleet.cli.scenario.memory_hub import MemoryHub
from fleet.cli.scenario.virtual_time import VirtualClock, no_jitter, run_virtually
from fleet.demo.agents import RolloutSimulator
from fleet.errors import AlreadyExists, ApiError, InputError, NotFound, find_first_error
from fleet.kube.api import Method, Request
from fleet.kube.objects import MERGE_PATCH
from fleet.kube.resource import STATUS, Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED, find_scope
from fleet.manager.manager import Manager
from fleet.model.keys import HEALTHY, JOINED, MEMBER_AGENT, PARENT_PLACEMENT, UNSCHEDULED
from fleet.model.timestamps import format_timestamp, timestamp_or_none
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.settings import Settings
from fleet.similarity import did_you_mean

Json = dict[str, Any]

_BEATS: Final = 3
"""Heartbeats within the time-out of a silent agent."""
_PAUSE: Final = 0.5
"""Seconds between two looks."""
_LONGEST_ATTEMPT: Final = 120.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedAttempt:
    after: float
    """Seconds since the start of the scenario."""
    placement: str
    triggers: tuple[str, ...]
    result: str
    digest: str
    error: str


@dataclass(frozen=True, slots=True)
class Move:
    placement: str
    cluster: str


@dataclass(slots=True)
class PlayedStep:
    at: str
    title: str
    attempts: list[PlayedAttempt] = field(default_factory=list)
    placed: list[Move] = field(default_factory=list)
    removed: list[Move] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    """Placements with fewer clusters than they want, when the step ends."""
    fits: int | None = None
    """Of `fill`: how many copies have all their clusters."""
    unmet: list[str] = field(default_factory=list)
    """Expectations that do not hold."""


@dataclass(frozen=True, slots=True)
class Timeline:
    start: datetime
    steps: Sequence[PlayedStep]
    ignored: Mapping[str, int]
    """Documents of kinds that the controllers write themselves, by kind."""

    @property
    def holds(self) -> bool:
        return not any(step.unmet for step in self.steps)

    @property
    def has_failed(self) -> bool:
        failures = {result.value for result in AttemptResult if result.is_failure}
        return any(attempt.result in failures for step in self.steps for attempt in step.attempts)


def play(scenario: ScenarioDocument, documents: Iterable[Json], settings: Settings, *, start: int) -> Timeline:
    """`documents` are on the hub before the first step, at the moment `start`, in nanoseconds since the epoch."""
    try:
        return run_virtually(_play(scenario, list(documents), settings, start=start))
    except ExceptionGroup as failures:
        raise find_first_error(failures) from failures


async def _play(scenario: ScenarioDocument, documents: list[Json], settings: Settings, *, start: int) -> Timeline:
    began = datetime.fromtimestamp(start / 1e9, UTC)
    clock = VirtualClock(began)
    random = Random(0)  # names and digests follow from uids, and are to be the same in every run
    hub = MemoryHub.boot(
        clock=lambda: clock.now().timestamp(), new_uid=lambda: str(UUID(int=random.getrandbits(128), version=4))
    )
    attempts = _Attempts()
    fleet = _Fleet(hub, clock, settings.eligibility.heartbeat_timeout.seconds)
    ignored = await fleet.load(documents)
    manager = Manager(hub, settings, elects=False, recorder=attempts, clock=clock, jitter=no_jitter)
    rollout = RolloutSimulator(hub, clock=clock, jitter=no_jitter)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(manager.run(), name="controller"),
            group.create_task(rollout.run(), name="rollout"),
            group.create_task(fleet.send_heartbeats(), name="heartbeats"),
        ]
        await manager.ready()
        steps = await _Player(fleet, clock, attempts).play(scenario)
        manager.stop()
        for task in tasks[1:]:
            task.cancel()
    return Timeline(began, steps, ignored)


class _Attempts:
    """A recorder that keeps all attempts."""

    def __init__(self) -> None:
        self.records: list[AttemptRecord] = []

    def record(self, attempt: AttemptRecord) -> None:
        self.records.append(attempt)


class _Player:
    def __init__(self, fleet: _Fleet, clock: VirtualClock, attempts: _Attempts) -> None:
        self._fleet, self._clock, self._attempts = fleet, clock, attempts
        self._began = clock.monotonic()
        self._start = int(clock.now().timestamp() * 1e9)
        self._reported = 0

    async def play(self, scenario: ScenarioDocument) -> list[PlayedStep]:
        """A step lasts until the next one begins."""
        ends = [step.at.seconds for step in scenario.steps[1:]] + [scenario.end]
        await self._sleep_until(scenario.steps[0].at.seconds)
        steps = []
        moves = set[Move]()
        for number, (step, end) in enumerate(zip(scenario.steps, ends, strict=True)):
            played = PlayedStep(str(step.at), step.note or describe(step))
            played.unmet += [line for each in step.expect if (line := await self._fleet.judge(each))]
            try:
                await self._act(step, played)
            except (ApiError, InputError) as error:
                message = strip_request(str(error))
                raise InputError(message, field=f"steps[{number}]", value=describe(step)) from error
            await self._sleep_until(end)
            before, moves = moves, await self._fleet.list_moves()
            played.placed, played.removed = _sort(moves - before), _sort(before - moves)
            played.short = await self._fleet.list_short()
            played.attempts = list(self._take_attempts())
            steps.append(played)
        return steps

    async def _sleep_until(self, seconds: float) -> None:
        await self._clock.sleep(max(0.0, self._began + seconds - self._clock.monotonic()))

    async def _act(self, step: Step, played: PlayedStep) -> None:
        for document in step.apply:
            await self._fleet.apply(document)
        for deletion in step.delete:
            await self._fleet.delete(deletion.api_version, deletion.kind, deletion.namespace, deletion.name)
        if step.silence is not None:
            self._fleet.silence(await self._fleet.select(step.silence))
        if step.recover is not None:
            await self._fleet.recover(await self._fleet.select(step.recover))
        if step.leave is not None:
            for name in await self._fleet.select(step.leave):
                await self._fleet.remove(name)
        if step.fill is not None:
            played.fits = await self._fill(step.fill)

    async def _fill(self, fill: Fill) -> int:
        template = await self._fleet.get_placement(fill.placement)
        for number in range(1, fill.at_most + 1):
            name = f"{template['metadata']['name']}-{number}"
            metadata = {**template["metadata"], "name": name}
            await self._fleet.apply({**template, "metadata": metadata})
            namespace = metadata.get("namespace")
            key = f"{namespace}/{name}" if namespace else name
            if not await self._is_satisfied(key):
                await self._fleet.delete(template["apiVersion"], template["kind"], namespace or "", name)
                return number - 1
        return fill.at_most

    async def _is_satisfied(self, key: str) -> bool:
        deadline = self._clock.monotonic() + _LONGEST_ATTEMPT
        while self._clock.monotonic() < deadline:
            decided = (each for each in self._attempts.records if str(each.key) == key and each.decision is not None)
            first = next(decided, None)
            if first is not None:
                return first.result is AttemptResult.DECIDED
            await self._clock.sleep(_PAUSE)
        return False

    def _take_attempts(self) -> Iterator[PlayedAttempt]:
        records, self._reported = self._attempts.records[self._reported :], len(self._attempts.records)
        for record in records:
            yield PlayedAttempt(
                after=max(0.0, (record.started - self._start) / 1e9),
                placement=str(record.key),
                triggers=record.triggers,
                result=record.result.value,
                digest="" if record.decision is None else record.decision.digest,
                error=record.failure,
            )


class _Fleet:
    """The objects of the hub, and the agents of the clusters, which do nothing but report."""

    def __init__(self, hub: MemoryHub, clock: VirtualClock, longest_silence: float) -> None:
        self._hub, self._clock = hub, clock
        self._kinds = KindResolver(hub)
        self._longest_silence = longest_silence
        self._reporting: dict[str, Json] = {}
        """The agent's part of the status, by cluster."""

    async def load(self, documents: Iterable[Json]) -> dict[str, int]:
        ignored: dict[str, int] = {}
        for document in sorted(documents, key=lambda each: each["kind"] != "Namespace"):
            if document["kind"] in _DERIVED:
                ignored[document["kind"]] = ignored.get(document["kind"], 0) + 1
            else:
                await self.apply(document)
        return ignored

    async def apply(self, document: Json) -> None:
        """Server-side, with the status of clusters."""
        content = deepcopy(document)
        status = content.pop("status", None)
        metadata = content["metadata"]
        for name in _IDENTITY:
            metadata.pop(name, None)
        resource = await self._kinds.find(content["apiVersion"], content["kind"])
        if resource.namespaced:
            await self._ensure_namespace(metadata.setdefault("namespace", "default"))
        query = (("fieldManager", "fleet-scenario"), ("force", "true"))
        path = resource.item(key_from(metadata))
        await self._call(Method.PATCH, path, content, content_type=APPLY_PATCH, query=query)
        if resource.kind == MEMBER_CLUSTERS.kind and status:
            await self._call(Method.PATCH, f"{path}/{STATUS}", {"status": status}, content_type=MERGE_PATCH)
            self._adopt(metadata["name"], status)

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

    async def _call(self, method: Method, path: str, body: Json | None = None, **more: Any) -> None:
        content = None if body is None else json.dumps(body).encode()
        await self._hub.call(Request(method, path, body=content, **more))


def describe(step: Step) -> str:
    """In a few words what happens."""
    parts = [f"apply {each.get('kind', '')} {key_from(each.get('metadata') or {})}".rstrip() for each in step.apply]
    parts += [f"delete {each.kind} {key_from(each.model_dump())}" for each in step.delete]
    for verb, clusters in (("leave", step.leave), ("silence", step.silence), ("recover", step.recover)):
        if clusters is not None:
            labels = (f"{name}={value}" for name, value in clusters.match_labels.items())
            parts.append(f"{verb} {', '.join(clusters.names or labels)}")
    if step.fill is not None:
        parts.append(f"fill with {step.fill.placement}")
    if step.expect:
        parts.append(f"expect {', '.join(each.placement for each in step.expect)}")
    return "; ".join(parts)


def key_from(metadata: Mapping[str, Any]) -> str:
    namespace, name = metadata.get("namespace"), metadata.get("name", "")
    return f"{namespace}/{name}" if namespace else str(name)


def _is_scheduled(placement: Json) -> bool:
    conditions = (placement.get("status") or {}).get("conditions") or ()
    wanted = "ClusterResourcePlacementScheduled", "ResourcePlacementScheduled"
    return any(each["type"] in wanted and each["status"] == "True" for each in conditions)


def _sort(moves: Iterable[Move]) -> list[Move]:
    return sorted(moves, key=lambda move: (move.placement, move.cluster))
