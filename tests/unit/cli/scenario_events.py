"""One sequence of events with a preemption, a hint, backoff and a group: as a scenario, and done to a controller."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from fleet.cli.scenario.virtual_time import VirtualClock, no_jitter, run_virtually
from fleet.demo.agents import RolloutSimulator
from fleet.kube.resource import STATUS, Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.manager.manager import Manager
from fleet.model.keys import UNSCHEDULED
from fleet.model.timestamps import format_timestamp
from fleet.scheduler.attempt_record import AttemptRecord
from fleet.settings import Settings
from tests.e2e.world import World
from tests.faults.hub_api import HubApi
from tests.unit.cli.manifests import Manifest, sized, wanting

Json = dict[str, Any]


class Attempt(NamedTuple):
    after: str
    """Since the start."""
    placement: str
    triggers: tuple[str, ...]
    result: str
    digest: str


PROFILE: Final[Json] = {
    "base": "ExtendedProfile",
    "backoffOnRejection": True,
    "plugins": {"multiPoint": {"enabled": [{"name": "DefaultPreemption"}, {"name": "GangPlacement"}]}},
}
QUEUE: Final[Json] = {"queue": {"earlyPop": False}}
"""Idle workers take nothing before its backoff has passed."""
_FLEET: Final = "scheduling.fleet.dev/v1alpha1"
_OPTIONS: Final[Manifest] = {
    "apiVersion": _FLEET,
    "kind": "ClusterPlacementOptions",
    "metadata": {"name": "vip"},
    "spec": {"priority": 100, "requests": {"cpu": "3"}},
}
_TRIO: Final[Manifest] = {
    "apiVersion": _FLEET,
    "kind": "ClusterPlacementGroup",
    "metadata": {"name": "trio"},
    "spec": {"minCount": 3},
}


def _member_of_trio(name: str) -> Manifest:
    made = wanting(name, "cpu=2")
    made["metadata"]["annotations"]["scheduling.fleet.dev/group"] = "trio"
    return made


BEGIN: Final[list[Manifest]] = [sized("a", has={"cpu": "4"}), wanting("low", "cpu=3")]
EVENTS: Final[list[Json]] = [
    {"at": "0s"},
    {"at": "1m", "apply": [_OPTIONS, wanting("vip", "cpu=3")]},
    {"at": "3m", "apply": [_TRIO, *map(_member_of_trio, ("m1", "m2", "m3"))]},
    {"at": "5m", "apply": [sized("b", has={"cpu": "4"})], "recover": {"names": ["b"]}},
    {"at": "5m10s", "apply": [wanting("late", "cpu=2")]},
    {"at": "5m10.5s", "apply": [sized("c", has={"cpu": "4"})], "recover": {"names": ["c"]}},
    {"at": "8m", "delete": [{"name": "vip"}]},
]
UNTIL: Final = "20m"
MOVES: Final = [
    {("low", "a")},
    {("vip", "a")},
    {("vip", "a")},
    {("vip", "a"), ("low", "b")},
    {("vip", "a"), ("low", "b")},
    {("vip", "a"), ("low", "b"), ("late", "c")},
    {("low", "b"), ("late", "c"), ("m1", "a"), ("m2", "a"), ("m3", "c")},
]
"""Placements with their clusters, after each of the events."""


class Outcome(NamedTuple):
    attempts: list[Attempt]
    moves: list[set[tuple[str, str]]]


def read_report(report: Json) -> Outcome:
    """From the report of a scenario."""
    attempts = [
        Attempt(each["after"], each["placement"], tuple(each["triggers"]), each["result"], each["digest"])
        for step in report["steps"]
        for each in step["attempts"]
    ]
    there, moves = set[tuple[str, str]](), []
    for step in report["steps"]:
        placed, removed = (
            {(move["placement"], move["cluster"]) for move in step[kind]} for kind in ("placed", "removed")
        )
        there = (there | placed) - removed
        moves.append(there)
    return Outcome(attempts, moves)


# --- done to a controller ---------------------------------------------------------------------------------------------


def run_controller(settings: Settings, start: datetime) -> Outcome:
    """Of a controller that runs while the events happen on its hub."""
    return run_virtually(_run(settings, start))


async def _run(settings: Settings, start: datetime) -> Outcome:
    clock, random, attempts = VirtualClock(start), Random(0), _Attempts(start)
    hub = HubApi.boot(
        clock=lambda: clock.now().timestamp(), new_uid=lambda: str(UUID(int=random.getrandbits(128), version=4))
    )
    fleet = _Fleet(World(hub), clock)
    for document in BEGIN:
        await fleet.create(document)
    controller = Manager(hub, settings, elects=False, recorder=attempts, clock=clock, jitter=no_jitter)
    agents = RolloutSimulator(hub, clock=clock, jitter=no_jitter)
    moves = []
    async with asyncio.TaskGroup() as group:
        running = group.create_task(controller.run())
        others = [group.create_task(agents.run()), group.create_task(fleet.send_heartbeats())]
        await controller.ready()
        moments = [_seconds(event["at"]) for event in EVENTS]
        for event, end in zip(EVENTS, [*moments[1:], _seconds(UNTIL)], strict=True):
            for document in event.get("apply", ()):
                await fleet.create(document)
            for deletion in event.get("delete", ()):
                await fleet.world.delete(CLUSTER_SCOPED.placement, deletion["name"])
            await clock.sleep(end - clock.monotonic())
            moves.append(await fleet.list_moves())
        controller.stop()
        await running
        for task in others:
            task.cancel()
    return Outcome(attempts.read, moves)


async def create_all(world: World, documents: Sequence[Json]) -> None:
    """With the status that they have."""
    for document in documents:
        content = deepcopy(document)
        status = content.pop("status", None)
        resource = _RESOURCES[content["kind"]]
        await world.create(resource, content)
        if status is not None:
            await world.patch(resource, content["metadata"]["name"], {"status": status}, subresource=STATUS)


class _Attempts:
    def __init__(self, start: datetime) -> None:
        self._start = int(start.timestamp() * 1e9)
        self.read: list[Attempt] = []

    def record(self, attempt: AttemptRecord) -> None:
        after = f"{max(0, attempt.started - self._start) / 1e9:.3f}s"
        digest = "" if attempt.decision is None else attempt.decision.digest
        self.read.append(Attempt(after, str(attempt.key), attempt.triggers, attempt.result.value, digest))


class _Fleet:
    """Its clusters report as long as the test lasts."""

    def __init__(self, world: World, clock: VirtualClock) -> None:
        self.world, self._clock = world, clock
        self._names: list[str] = []

    async def create(self, document: Json) -> None:
        await create_all(self.world, [document])
        if document["kind"] == MEMBER_CLUSTERS.kind:
            self._names.append(document["metadata"]["name"])
            await self._report(self._names[-1])

    async def send_heartbeats(self) -> None:
        while True:
            await self._clock.sleep(60)
            for name in self._names:
                await self._report(name)

    async def _report(self, name: str) -> None:
        now = format_timestamp(int(self._clock.now().timestamp()) * 1_000_000_000)
        (agent,) = BEGIN[0]["status"]["agentStatus"]
        status = {"agentStatus": [{**agent, "lastReceivedHeartbeat": now}]}
        await self.world.patch(MEMBER_CLUSTERS, name, {"status": status}, subresource=STATUS)

    async def list_moves(self) -> set[tuple[str, str]]:
        return {
            (each["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"], each["spec"]["targetCluster"])
            for each in await self.world.all(CLUSTER_SCOPED.binding)
            if each["spec"]["state"] != UNSCHEDULED and "deletionTimestamp" not in each["metadata"]
        }


_RESOURCES: Final[dict[str, Resource]] = {
    each.kind: each
    for each in (MEMBER_CLUSTERS, CLUSTER_SCOPED.placement, CLUSTER_SCOPED.options, CLUSTER_SCOPED.group)
}


def list_delayed(outcome: Outcome) -> list[str]:
    """Placements of attempts that begin between events."""
    moments = {f"{_seconds(event['at']):.3f}s" for event in EVENTS}
    return [each.placement for each in outcome.attempts if each.after not in moments]


def _seconds(text: str) -> float:
    minutes, _, seconds = text.rpartition("m") if "m" in text else ("0", "", text)
    return float(minutes) * 60 + float(seconds.removesuffix("s") or 0)
