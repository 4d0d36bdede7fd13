"""The placement controller on a hub in memory, with doubles for what it gets its content from, and for its neighbours.

`Workbench` makes single passes over caches that are brought up to date by hand. `Neighbours` play scheduler, rollout
and members: they write what those would write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import msgspec

from fleet.informers.cache import Caches
from fleet.kube.events import ObjectReference
from fleet.kube.informer import InformerConfig
from fleet.kube.objects import RetryPolicy
from fleet.kube.resource import key_of
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    PARENT_PLACEMENT,
    PLACEMENT_GENERATION,
    POLICY_FULFILLED,
    POLICY_UNFULFILLED,
)
from fleet.model.views import Metadata
from fleet.placement.controller import PlacementController
from fleet.placement.reconciler import PlacementReconciler, ReconcilerDeps
from fleet.placement.selection.resolution import SelectedObject, SelectionResult, UnmatchedSelector, find_namespace
from fleet.placement.selection.selectors import SelectorTerm
from fleet.placement.snapshots.resource_snapshots import ResourceSnapshots
from fleet.placement.status.kubernetes_events import PlacementReporter
from fleet.placement.status.namespaced_status import NamespacedStatuses, build_copy_informer
from fleet.placement.status.staged_runs import StagedRunLister
from tests.fake_hub import FakeHub
from tests.faults.virtual import VirtualClock, no_jitter

Json = dict[str, Any]

WEB: Final = "clusterresourceplacements/web"
SNAPSHOT: Final = "clusterschedulingpolicysnapshots/web-0"
NAMESPACE_TERM: Final = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}


def an_object(name: str, *, kind: str = "ConfigMap", namespace: str = "shop") -> SelectedObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    document = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    return SelectedObject("", "v1", kind, namespace, name, msgspec.json.encode(document))


THE_NAMESPACE: Final = an_object("shop", kind="Namespace", namespace="")


@dataclass
class FakeContent:
    selected: SelectionResult = field(default_factory=lambda: SelectionResult((THE_NAMESPACE, an_object("settings"))))
    failure: Exception | None = None
    meanwhile: Callable[[], Awaitable[None]] | None = None
    forgotten: list[str] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)
    enqueue: Callable[[str], None] = lambda _: None

    async def resolve(self, placement: Metadata, terms: Sequence[SelectorTerm]) -> SelectionResult:
        self.resolved.append(key_of(placement))
        if self.failure is not None:
            raise self.failure
        if self.meanwhile is not None:
            await self.meanwhile()
        namespace = find_namespace(terms, self.selected.objects)
        return replace(self.selected, namespace=namespace)

    def forget(self, key: str) -> None:
        self.forgotten.append(key)

    def subscribe(self, enqueue: Callable[[str], None]) -> None:
        self.enqueue = enqueue

    async def run(self) -> None:
        await asyncio.sleep(1e9)

    def reject(self, problem: str) -> None:
        self.selected = SelectionResult(problems=(problem,))

    def match_nothing(self, *unmatched: UnmatchedSelector) -> None:
        self.selected = SelectionResult(unmatched=unmatched)


@dataclass
class Told:
    """Events, series of the gauge, and how passes ended."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    series: dict[tuple[str, str], tuple[str, str, str]] = field(default_factory=dict)
    passes: list[tuple[str, str]] = field(default_factory=list)
    """Controller and result."""
    changes: list[tuple[str, float]] = field(default_factory=list)
    """Kind, and how many seconds it took until everything was available."""
    workers: dict[str, int] = field(default_factory=dict)

    def emit(self, about: ObjectReference, type: str, reason: str, message: str) -> None:
        self.events.append((type, reason, message))

    def set_condition(
        self,
        *,
        namespace: str,
        name: str,
        generation: int,
        condition_type: str,
        status: str,
        reason: str,
        timestamp: float,
    ) -> None:
        self.series[namespace, name] = (condition_type, status, reason)

    def remove_placement(self, *, namespace: str, name: str) -> None:
        self.series.pop((namespace, name), None)

    def observe_available(self, *, kind: str, seconds: float) -> None:
        self.changes.append((kind, seconds))

    def observe_reconcile(self, *, controller: str, result: str, seconds: float) -> None:
        self.passes.append((controller, result))

    @contextmanager
    def track_worker(self, controller: str) -> Iterator[None]:
        yield

    def set_workers(self, controller: str, count: int) -> None:
        self.workers[controller] = count

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]


class Workbench:
    """An asynchronous context, in which the watches run."""

    def __init__(self, hub: FakeHub | None = None) -> None:
        self.hub = hub or FakeHub()
        self.clock = VirtualClock()
        self.access = InformerConfig(reads=self.hub, writes=self.hub, clock=self.clock, jitter=no_jitter)
        self.content, self.told = FakeContent(), Told()
        self._watching: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """A new process: caches are empty, memory is gone."""
        retry_policy = RetryPolicy(self.clock, no_jitter)
        self.reports = PlacementReporter(self.told, self.told, self.clock)
        self.caches = Caches(self.access)
        self.copies = build_copy_informer(self.access)
        self.groups = ResourceSnapshots(
            self.access, [kinds.scope for kinds in self.caches.kinds], retry_policy=retry_policy
        )
        self.visible = NamespacedStatuses(self.copies, retry_policy=retry_policy, clock=self.clock)
        self.reconciler = PlacementReconciler(
            ReconcilerDeps(
                caches=self.caches,
                selection=self.content,
                resource_snapshots=self.groups,
                namespaced=self.visible,
                runs=StagedRunLister(self.hub),
                reporter=self.reports,
                retry_policy=retry_policy,
                clock=self.clock,
            )
        )
        running = (self.caches.run(), self.groups.run(), self.copies.reflector.run())
        self._watching = [asyncio.create_task(one, name="watching") for one in running]
        await self.caches.wait_until_synced()
        await self.groups.wait_for_sync()

    async def stop(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    async def catch_up(self) -> None:
        """The watches bring what happened."""
        await asyncio.sleep(1)

    async def pass_over(self, key: str = "web", *, reads_live: bool = False) -> float | None:
        await self.catch_up()
        return await self.reconciler.reconcile(key, reads_live=reads_live)

    async def settle(self, key: str = "web") -> None:
        """Until a pass changes nothing."""
        for _ in range(20):
            before = self.hub.version
            await self.pass_over(key)
            if self.hub.version == before:
                return
        raise AssertionError("the controller never comes to rest")

    # --- reading the result -------------------------------------------------------------------------------------------

    def troubles(self) -> dict[str, int]:
        """Objects by what is wrong with them."""
        return dict(self.reports.placed_objects.counts())

    def status(self, path: str = WEB) -> Json:
        found: Json = self.hub.get(path).get("status") or {}
        return found

    def condition(self, name: str, path: str = WEB) -> tuple[str, str, str]:
        """Status, reason and message of a condition of the placement, named without prefix."""
        prefix = "ClusterResourcePlacement" if path.startswith("cluster") else "ResourcePlacement"
        return _said(self.status(path)["conditions"], prefix + name)

    def conditions(self, path: str = WEB) -> dict[str, str]:
        """Statuses by type without prefix."""
        found = self.status(path).get("conditions", [])
        names = [one["type"].removeprefix("Cluster").removeprefix("ResourcePlacement") for one in found]
        return {name: one["status"] for name, one in zip(names, found, strict=True)}

    def of_cluster(self, cluster: str, name: str) -> tuple[str, str, str]:
        return _said(self.entry(cluster)["conditions"], name)

    def entry(self, cluster: str) -> Json:
        entries: list[Json] = self.status()["placementStatuses"]
        return next(one for one in entries if one.get("clusterName") == cluster)


class Office(Workbench):
    """A workbench with the whole controller at it."""

    async def start(self) -> None:
        await super().start()
        for task in self._watching[1:]:
            task.cancel()  # the controller watches these itself
        self.controller = PlacementController(
            self.caches,
            self.reconciler,
            self.visible,
            self.content,
            self.groups,
            metrics=self.told,
            clock=self.clock,
        )
        self.stopping = asyncio.Event()
        self.running = asyncio.create_task(self.controller.run(self.stopping), name="controller")

    async def stop(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        await super().stop()

    async def soon(self) -> None:
        await asyncio.sleep(2)


def _said(conditions: Sequence[Json], type: str) -> tuple[str, str, str]:
    found = next(one for one in conditions if one["type"] == type)
    return found["status"], found["reason"], found["message"]


# --- placements -------------------------------------------------------------------------------------------------------


def pick_n(count: int, **more: Any) -> Json:
    return {"placementType": "PickN", "numberOfClusters": count, **more}


def a_placement(hub: FakeHub, path: str = WEB, **spec: Any) -> Json:
    terms = spec.pop("resourceSelectors", [NAMESPACE_TERM])
    given = {field: value for field, value in spec.items() if value is not None}
    return hub.put(path, {"spec": {"resourceSelectors": terms, "revisionHistoryLimit": 10, **given}})


# --- the others -------------------------------------------------------------------------------------------------------

SYNCED: Final = ("True", "AllWorkSynced")
ROLLED_OUT: Final[Mapping[str, tuple[str, str]]] = {
    "RolloutStarted": ("True", "RolloutStarted"),
    "Overridden": ("True", "NoOverrideSpecified"),
    "WorkSynchronized": SYNCED,
}
RUNNING: Final[Mapping[str, tuple[str, str]]] = {
    **ROLLED_OUT,
    "Applied": ("True", "AllWorkHaveBeenApplied"),
    "Available": ("True", "AllWorkAreAvailable"),
}


@dataclass
class Neighbours:
    hub: FakeHub
    namespace: str = ""
    placement: str = "web"

    @property
    def _within(self) -> str:
        return f"namespaces/{self.namespace}/" if self.namespace else ""

    @property
    def _kind(self) -> str:
        return "" if self.namespace else "cluster"

    def latest(self) -> str:
        """The path of the latest policy snapshot."""
        folder = f"{self._within}{self._kind}schedulingpolicysnapshots"
        paths = [f"{folder}/{name}" for name in self.hub.names(f"{self._kind}schedulingpolicysnapshots")]
        return next(one for one in paths if self.hub.get(one)["metadata"]["labels"][IS_LATEST_SNAPSHOT] == "true")

    def schedule(self, *clusters: str, refused: Sequence[str] = (), fulfilled: bool = True) -> None:
        """As the scheduler: bindings, then the status of the snapshot."""
        path = self.latest()
        name = path.rpartition("/")[2]
        for cluster in clusters:
            self._bind(cluster, name)
        snapshot = self.hub.get(path)
        decisions = [{"clusterName": one, "selected": True, "reason": f"picked {one}"} for one in clusters]
        decisions += [{"clusterName": one, "selected": False, "reason": f"{one} is full"} for one in refused]
        condition = {
            "type": "Scheduled",
            "status": "True" if fulfilled else "False",
            "reason": POLICY_FULFILLED if fulfilled else POLICY_UNFULFILLED,
            "message": f"found {len(clusters)} cluster(s)",
            "observedGeneration": snapshot["metadata"]["generation"],
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        observed = int(snapshot["metadata"]["annotations"][PLACEMENT_GENERATION])
        status = {"observedCRPGeneration": observed, "conditions": [condition], "targetClusters": decisions}
        self.hub.put(path, {**snapshot, "status": status})

    def _bind(self, cluster: str, snapshot: str) -> None:
        path = self.binding(cluster)
        held = self.hub.objects.get(f"/apis/placement.kubernetes-fleet.io/v1beta1/{path}") or {"spec": {}}
        spec = {
            "state": "Scheduled",
            "resourceSnapshotName": "",
            **held["spec"],
            "targetCluster": cluster,
            "schedulingPolicySnapshotName": snapshot,
            "clusterDecision": {"clusterName": cluster, "selected": True, "reason": "picked"},
        }
        labels = {PARENT_PLACEMENT: self.placement}
        self.hub.put(path, {**held, "metadata": {**held.get("metadata", {}), "labels": labels}, "spec": spec})

    def binding(self, cluster: str) -> str:
        return f"{self._within}{self._kind}resourcebindings/{self.placement}-{cluster}-0a1b2c3d"

    def report(
        self,
        cluster: str,
        conditions: Mapping[str, tuple[str, str]],
        *,
        snapshot: str = "web-0-snapshot",
        **status: Any,
    ) -> None:
        """As rollout and work generator: the binding gets its content, then says how far that has come."""
        path = self.binding(cluster)
        held = self.hub.get(path)
        bound = self.hub.put(
            path, {**held, "spec": {**held["spec"], "state": "Bound", "resourceSnapshotName": snapshot}}
        )
        said = [
            {
                "type": type,
                "status": state,
                "reason": reason,
                "message": f"{cluster}: {reason}",
                "observedGeneration": bound["metadata"]["generation"],
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type, (state, reason) in conditions.items()
        ]
        self.hub.put(path, {**bound, "status": {"conditions": said, **status}})
