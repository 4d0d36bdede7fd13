"""The operator: informers, a work queue and a worker that brings about the plan for each SecondaryScheduler."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.errors import ApiError, LeadershipLost, NotFound, NotLeading
from fleet.kube.api import Api, WriteGate
from fleet.kube.backoff import JITTER, Jitter
from fleet.kube.cache.reflector import ListFilter
from fleet.kube.cache.store import build_codec
from fleet.kube.events import WARNING, EventRecorder, ObjectReference
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.leader_election import FencedApi, LeaderElector, Leadership, unique_identity
from fleet.kube.lease import LEASES
from fleet.kube.objects import Objects
from fleet.kube.resource import STATUS, Resource, join_key, key_of
from fleet.kube.workqueue import WorkQueue
from fleet.model.views import Metadata, Observed, View
from fleet.operator.configuration import KEY, MISSING, ConfigReview, read_sources, review_config
from fleet.operator.nodes import NODES, Node, count_tolerated, format_selector
from fleet.operator.operands import (
    CONFIG_MAPS,
    MANAGED,
    NAME,
    OWNERS,
    POD_SELECTOR,
    PODS,
    VERBOSITY,
    Json,
    get_operand_name,
    get_topology,
)
from fleet.operator.plan import (
    RESOURCE_NAME,
    ObservedOperands,
    Plan,
    build_condition,
    build_plan,
    complete_spec,
    count_replicas,
    find_document,
)
from fleet.operator.pods import Pod, find_digest
from fleet.operator.prerequisites import DEFAULT_LEASE, HubFacts, read_hub_facts
from fleet.operator.targets import HubTarget, OperandTarget
from fleet.operator.tls_policy import find_observed_config

COMPONENT: Final = "fleet-operator"
RESYNC: Final = 600.0
"""Seconds."""
_STOPPING: Final = (NotLeading, LeadershipLost)
_NEVER_COPIED: Final = ConfigReview(MISSING)

log = structlog.get_logger(__name__)


class NamedObject(View, frozen=True):
    metadata: Metadata = Metadata()


_CODEC: Final = build_codec(NamedObject)
_Objects = Informer[Observed[NamedObject]]


class Operator:
    """One candidate for the lease of the operators of a namespace."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        *,
        clock: Clock,
        jitter: Jitter = JITTER,
        identity: str | None = None,
        target: OperandTarget | None = None,
        set_verbosity: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`target`: the hub if it is None."""
        self._api, self._clock, self._namespace = api, clock, namespace
        self._gate = WriteGate(api, clock=clock)
        self._queue: WorkQueue[str] = WorkQueue(clock=clock)
        self._stopping = asyncio.Event()
        self._set_verbosity, self._log_level = set_verbosity, "Normal"
        self._nodes = Objects(api, NODES, build_codec(Node))
        self._pods = Objects(api, PODS, build_codec(Pod))
        self._events = EventRecorder(self._gate, clock=clock, component=COMPONENT)
        access = InformerConfig(reads=api, writes=self._gate, clock=clock, jitter=jitter)
        within = ListFilter(namespace=namespace)
        self._informers: dict[Resource, _Objects] = {
            resource: Informer(access, resource, _CODEC, selection=within)
            for resource in (LEASES, CONFIG_MAPS, *(() if target else MANAGED))
        }
        for resource in OWNERS:
            self._informers[resource] = Informer(access, resource, _CODEC, optional=resource is not OWNERS[0])
        place, _, name = DEFAULT_LEASE.partition("/")
        first = ListFilter(namespace=place, fields=f"metadata.name={name}")
        self._default_lease: _Objects = Informer(access, LEASES, _CODEC, selection=first)
        self._target: OperandTarget = target or HubTarget(self._informers, namespace)
        self._election = LeaderElector(
            api,
            join_key(namespace, COMPONENT),
            identity=identity or unique_identity(),
            clock=clock,
            jitter=jitter,
            on_problem=lambda error: log.warning("the lease could not be read or written", error=str(error)),
            may_release=lambda: not self._gate.list_unsettled(),
        )

    async def run(self) -> None:
        """Until `stop` is called, or the lease is lost (LeadershipLost)."""
        stop = asyncio.create_task(self._stopping.wait())
        async with asyncio.TaskGroup() as group:
            background: list[asyncio.Task[None]] = [
                group.create_task(item.reflector.run()) for item in self._list_informers()
            ]
            background.append(group.create_task(self._events.run()))
            leading = group.create_task(self._election.lead(self._work))
            await asyncio.wait((stop, leading), return_when=asyncio.FIRST_COMPLETED)
            for task in (stop, leading, *background):
                task.cancel()

    def stop(self) -> None:
        self._stopping.set()

    def list_unsynced(self) -> list[str]:
        return [item.resource.kind for item in self._list_informers() if not item.reflector.is_synced]

    def _list_informers(self) -> list[_Objects]:
        return [*self._informers.values(), self._default_lease]

    async def _work(self, leadership: Leadership) -> None:
        for informer in self._list_informers():
            await informer.reflector.refresh()
        self._gate.open(FencedApi(self._api, leadership))
        for resource, informer in self._informers.items():
            informer.store.subscribe(partial(self._handle_change, resource))
        self._default_lease.store.subscribe(self._handle_default_lease)
        log.info("leader: operator started", namespace=self._namespace)
        key = join_key(self._namespace, RESOURCE_NAME)
        self._queue.add(key)  # it may be gone, and have left objects
        try:
            async with self._target.open(lambda: self._queue.add(key)):
                await self._queue.work(self._reconcile)
        finally:
            self._queue.close()
            self._gate.close()

    # --- event handlers -----------------------------------------------------------------------------------------------

    def _handle_change(
        self, resource: Resource, old: Observed[NamedObject] | None, new: Observed[NamedObject] | None
    ) -> None:
        changed = new or old
        assert changed is not None
        name = changed.view.metadata.name
        if resource in OWNERS:
            self._handle_owner(old, new, changed.view.metadata)
            return
        if resource is LEASES and (name != NAME or _get_holder(old) == _get_holder(new)):
            return
        for key in self._list_own():
            if resource is LEASES or name in self._list_names(resource, key):
                self._queue.add(key)

    def _handle_owner(
        self, old: Observed[NamedObject] | None, new: Observed[NamedObject] | None, changed: Metadata
    ) -> None:
        """Those of other namespaces matter by their selectors."""
        if changed.namespace == self._namespace:
            self._queue.add(join_key(changed.namespace, changed.name))
        elif old is None or new is None or old.view.metadata.generation != new.view.metadata.generation:
            for key in self._list_own():
                self._queue.add(key)

    def _handle_default_lease(self, old: Observed[NamedObject] | None, new: Observed[NamedObject] | None) -> None:
        if _get_holder(old) != _get_holder(new):
            for key in self._list_own():
                self._queue.add(key)

    def _list_own(self) -> list[str]:
        owners = [each.view.metadata for resource in OWNERS for each in self._informers[resource].store.values()]
        return list(dict.fromkeys(key_of(metadata) for metadata in owners if metadata.namespace == self._namespace))

    def _list_names(self, resource: Resource, key: str) -> tuple[str, ...]:
        """Names of the objects of a kind that a SecondaryScheduler depends on."""
        own = get_operand_name(resource)
        owner = self._find_owner(key)
        return (own, owner["spec"]["schedulerConfig"]) if owner and resource is CONFIG_MAPS else (own,)

    # --- reconciling --------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: str) -> None:
        try:
            await self._reconcile_once(key)
        except _STOPPING:
            raise
        except Exception as error:
            wait = self._queue.retry(key)
            if isinstance(error, ApiError):
                log.warning("reconcile failed", resource=key, error=str(error), retry_in=wait)
            else:
                log.error("reconcile failed", resource=key, exc_info=error, retry_in=wait)
            if self._queue.count_failures(key) > 1:
                with suppress(ApiError):
                    await self._report_failure(key, error)
        else:
            self._queue.forget(key)
            if self._find_owner(key) is not None:
                self._queue.add_after(key, RESYNC)

    async def _reconcile_once(self, key: str) -> None:
        owner = self._find_owner(key)
        is_gone = owner is None or bool(owner["metadata"].get("deletionTimestamp"))
        if key == join_key(self._namespace, RESOURCE_NAME):
            await self._target.collect("" if owner is None or is_gone else owner["metadata"]["uid"])
        if owner is None or is_gone:
            return
        spec = owner["spec"]
        self._follow_log_level(spec.get("operatorLogLevel", "Normal"))
        hub = await read_hub_facts(self._api, self._clock.now())
        if observed := find_observed_config(spec, hub.serving_info):
            await self._objects_of(owner).merge_patch(key, {"spec": {"observedConfig": observed}})
            spec = {**spec, "observedConfig": {**(spec.get("observedConfig") or {}), **observed}}
            owner = {**owner, "spec": spec}
        seen = self._observe(await self._count_nodes(spec), await self._find_image_digest(), hub)
        plan = build_plan(owner, self._review(spec), seen)
        await self._apply(owner, plan)
        for reason, message in plan.warnings:
            self._events.emit(_refer_to(owner), WARNING, reason, message)
        await self._write_status(key, owner, plan.status)

    def _review(self, spec: Json) -> ConfigReview:
        name = spec["schedulerConfig"]
        document = find_document(self._find(CONFIG_MAPS, join_key(self._namespace, name)), name)
        if isinstance(document, ConfigReview):
            return document
        return review_config(document, read_sources(spec.get("substitution") or {}))

    def _follow_log_level(self, level: str) -> None:
        if level != self._log_level:
            self._log_level = level
            self._set_verbosity(VERBOSITY[level])

    async def _count_nodes(self, spec: Json) -> int:
        """Read and not watched: a node that joins is counted by the next resync."""
        topology = get_topology(spec)
        if topology is None:
            return 0
        if not self._target.has_nodes:
            return count_replicas(spec, sys.maxsize)
        try:
            matching = await self._nodes.list(labels=format_selector(topology))
        except NotFound:
            return 0  # not every hub has nodes
        return count_tolerated((node.view for node in matching), topology)

    def _list_others(self) -> list[Json]:
        owners = (each for resource in OWNERS for each in self._informers[resource].store.values())
        others = (each.document() for each in owners if each.view.metadata.namespace != self._namespace)
        return [{**other, "spec": complete_spec(other.get("spec"))} for other in others]

    async def _find_image_digest(self) -> str:
        """Read and not watched: pods that are ready change the Deployment, which is."""
        if not self._target.has_nodes:
            return ""
        try:
            pods = await self._pods.list(namespace=self._namespace, labels=POD_SELECTOR)
        except NotFound:
            return ""  # not every hub has pods
        digests = {find_digest(pod.view, NAME) for pod in pods}
        return digests.pop() if len(digests) == 1 else ""

    def _observe(self, nodes: int, image_digest: str, hub: HubFacts) -> ObservedOperands:
        objects = {item: document for item in MANAGED if (document := self._target.find(item)) is not None}
        copied = (objects.get(CONFIG_MAPS, {}).get("data") or {}).get(KEY)
        lease = self._informers[LEASES].store.get(join_key(self._namespace, NAME))
        return ObservedOperands(
            objects=objects,
            copied=_NEVER_COPIED if copied is None else review_config(copied),
            holder=_get_holder(lease),
            image_digest=image_digest,
            nodes=nodes,
            hub=hub,
            others=self._list_others(),
            now=self._clock.now(),
        )

    async def _apply(self, owner: Json, plan: Plan) -> None:
        for resource, document in plan.writes.items():
            if self._target.find(resource) is None:
                await self._target.create(resource, document)
                continue
            await self._target.apply(resource, document)
            if resource in plan.reverted:
                text = f"reverted a change of {resource.kind} {document['metadata']['name']}"
                self._events.emit(_refer_to(owner), WARNING, "Reverted", text)
        for resource in plan.deletions:
            await self._target.delete(resource)

    async def _write_status(self, key: str, owner: Json, status: Json) -> None:
        if owner.get("status") != status:
            await self._objects_of(owner).merge_patch(key, {"status": status}, subresource=STATUS)

    def _objects_of(self, owner: Json) -> Objects[Observed[NamedObject]]:
        resource = next(each for each in OWNERS if each.api_version == owner["apiVersion"])
        return self._informers[resource].objects

    async def _report_failure(self, key: str, error: Exception) -> None:
        owner = self._find_owner(key)
        if owner is None:
            return
        degraded = build_condition(owner, self._clock.now(), "Degraded", "True", "ReconcileFailed", str(error))
        others = [item for item in owner.get("status", {}).get("conditions") or () if item["type"] != "Degraded"]
        await self._write_status(key, owner, {**owner.get("status", {}), "conditions": [*others, degraded]})

    def _find_owner(self, key: str) -> Json | None:
        for resource in OWNERS:
            document = self._find(resource, key)
            if document is not None:
                return {**document, "apiVersion": resource.api_version, "spec": complete_spec(document.get("spec"))}
        return None

    def _find(self, resource: Resource, key: str) -> Json | None:
        stored = self._informers[resource].store.get(key)
        return None if stored is None else stored.document()


def _get_holder(lease: Observed[NamedObject] | None) -> str:
    return "" if lease is None else str(lease.document().get("spec", {}).get("holderIdentity") or "")


def _refer_to(owner: Json) -> ObjectReference:
    metadata = owner["metadata"]
    return ObjectReference(
        owner["apiVersion"], OWNERS[0].kind, metadata["namespace"], metadata["name"], metadata["uid"]
    )
