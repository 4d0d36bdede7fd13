"""Binding calls: create, update, unschedule and delete bindings, rebased on the newest object after a conflict.

A create that finds its name taken checks the holder. An update or a revival depends on the version that was read and
fails on a conflict. Removals only ever take away, so they go on with the object as it is. Every call may be repeated
after its answer was lost: the repetition finds the effect of the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar

from msgspec import Struct, structs

from fleet.errors import AlreadyExists, ApiError, Conflict, NotFound, StaleInputs
from fleet.framework.operations import (
    Action,
    Operation,
    binding_of,
    build_binding_name,
    drop_finalizer,
    holds_finalizer,
    rebase_removal,
)
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import PlacementKinds, PolicyVersion
from fleet.kube.objects import Objects, RetryPolicy, call_with_retries, contains_patch
from fleet.kube.resource import join_key, key_of
from fleet.model.keys import BOUND, PARENT_PLACEMENT, SCHEDULED, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Observed
from fleet.scheduler.dispatch.call_queue import RETRIED, Call, CallOutcome, CallResult, CallType
from fleet.scheduler.dispatch.dispatcher import Dispatcher

R = TypeVar("R")

LiveBinding = Observed[Binding]

NAMES_TRIED: Final = 6
"""The first, and five that depend on the holder of the one before."""

_GROUP: Final = attrgetter("group")


@dataclass(frozen=True, slots=True)
class Precondition:
    """The placement and the policy that were decided on. Compared with the caches right before a binding is created or
    updated: writing may take a minute in a large fleet, and no workload is placed for an outdated decision."""

    placement: PlacementKey
    placement_uid: str
    policy: PolicyVersion

    def check(self, kinds: PlacementKinds) -> None:
        placement = kinds.get_placement(self.placement)
        if placement is not None:
            metadata = placement.view.metadata
            if metadata.deletion_timestamp or metadata.uid != self.placement_uid:
                raise StaleInputs(f"placement {self.placement} was deleted after the decision")
        if not any(self.policy.is_current_in(snapshot.view) for snapshot in kinds.latest_snapshots(self.placement)):
            raise self.policy.build_error()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The parts that all calls for the bindings of one placement share."""

    kinds: PlacementKinds
    objects: Objects[LiveBinding]
    request: PlacementRequest
    retry_policy: RetryPolicy
    precondition: Precondition | None = None

    def for_type(self, type: CallType) -> CallContext:
        objects = self.objects.with_call_class(type.call_class)
        return self if objects is self.objects else replace(self, objects=objects)

    def check(self) -> None:
        if self.precondition is not None:
            self.precondition.check(self.kinds)

    async def retry(self, request: Callable[[], Awaitable[R]], *, conflicts: bool = False) -> R:
        on = (*RETRIED, Conflict) if conflicts else RETRIED
        return await call_with_retries(request, retry_policy=self.retry_policy, on=on)

    async def patch(self, operation: Operation) -> LiveBinding:
        """With the version that the operation was decided on."""
        return await self.objects.merge_patch(_key(operation), operation.document(self.request))


class _BindingCall(Call[LiveBinding | None]):
    context: CallContext

    @property
    def owner(self) -> str:
        return self.context.request.key


# --- creating ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create(_BindingCall):
    type: ClassVar[CallType] = CallType.BIND

    operation: Operation
    context: CallContext

    @property
    def key(self) -> str:
        context = self.context
        return context.objects.resource.item(join_key(context.request.namespace, self.operation.name))

    async def send(self) -> LiveBinding:
        self.context.check()
        document = self.operation.document(self.context.request)
        for _ in range(NAMES_TRIED):
            try:
                return await self.context.retry(lambda: self.context.objects.create(document))
            except AlreadyExists:
                holder = await self._find_holder(document)
            if holder is None:
                continue  # deleted between the two requests
            if self._is_wanted(holder.view):
                return holder
            document["metadata"]["name"] = self._derive_name(holder.view)
        raise StaleInputs(
            f"{self.context.request.key}: every name for a binding on cluster {self.operation.cluster} is taken, "
            f"the last one tried was {document['metadata']['name']}"
        )

    async def _find_holder(self, document: dict[str, Any]) -> LiveBinding | None:
        key = join_key(self.context.request.namespace, document["metadata"]["name"])
        return await self.context.retry(lambda: self.context.objects.refresh(key))

    def _is_wanted(self, holder: Binding) -> bool:
        """Whether the holder is the binding to create. One that the decision should have considered is an error."""
        metadata, spec, request = holder.metadata, holder.spec, self.context.request
        if metadata.deletion_timestamp:
            return False
        if metadata.label(PARENT_PLACEMENT) != request.placement or spec.target_cluster != self.operation.cluster:
            return False
        if spec.state in (SCHEDULED, BOUND) and spec.scheduling_policy_snapshot_name == request.snapshot:
            return True
        raise StaleInputs(
            f"{request.key}: cluster {spec.target_cluster} has binding {metadata.name} already, in state {spec.state} "
            f"for snapshot {spec.scheduling_policy_snapshot_name}; read it again"
        )

    def _derive_name(self, holder: Binding) -> str:
        request = self.context.request
        return build_binding_name(
            placement=request.placement,
            placement_uid=request.uid,
            cluster=self.operation.cluster,
            holder_uid=holder.metadata.uid,
        )


# --- updating ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Update(_BindingCall):
    """Refreshes or revives a binding."""

    type: ClassVar[CallType] = CallType.BIND

    operation: Operation
    context: CallContext
    seen: LiveBinding | None = None

    @property
    def key(self) -> str:
        return binding_of(self.operation).metadata.uid

    async def send(self) -> LiveBinding:
        self.context.check()
        try:
            return await self.context.retry(lambda: self.context.patch(self.operation))
        except (Conflict, NotFound) as error:
            name = self.operation.name
            raise StaleInputs(f"{self.context.request.key}: binding {name} changed meanwhile: {error}") from error

    def rebase(self, fresh: LiveBinding) -> Update:
        """Where the fresh object requires another decision, the outdated version leads to the conflict."""
        holds = self._holds_for(fresh.view)
        operation = structs.replace(self.operation, binding=fresh.view) if holds else self.operation
        return replace(self, operation=operation, seen=fresh)

    def is_noop(self) -> bool:
        if self.seen is None:
            return False
        patch = self.operation.document(self.context.request)
        del patch["metadata"]["resourceVersion"]
        return contains_patch(self.seen.document(), patch)

    def _holds_for(self, fresh: Binding) -> bool:
        states = (UNSCHEDULED,) if self.operation.action is Action.REVIVE else (SCHEDULED, BOUND)
        return not fresh.metadata.deletion_timestamp and fresh.spec.state in states


# --- removing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Removal(_BindingCall):
    """Unschedules a binding or drops our finalizer."""

    type: ClassVar[CallType] = CallType.EVICT

    operation: Operation
    context: CallContext
    is_needless: bool = False

    @property
    def key(self) -> str:
        return binding_of(self.operation).metadata.uid

    async def send(self) -> LiveBinding | None:
        """None: the binding is gone."""
        remaining: Operation | None = self.operation
        fresh: LiveBinding | None = None

        async def attempt() -> LiveBinding | None:
            nonlocal remaining, fresh
            if remaining is None:
                fresh = await self.context.objects.refresh(_key(self.operation))
                remaining = None if fresh is None else rebase_removal(self.operation, fresh.view)
            if remaining is None:
                return fresh
            try:
                return await self.context.patch(remaining)
            except Conflict:
                remaining = None
                raise

        try:
            return await self.context.retry(attempt, conflicts=True)
        except NotFound:
            return None

    def merge(self, earlier: Call[Any]) -> Call[Any]:
        return earlier if isinstance(earlier, Delete) else self

    def rebase(self, fresh: LiveBinding) -> Removal:
        try:
            remaining = rebase_removal(self.operation, fresh.view)
        except StaleInputs:
            return self  # sending it leads to the conflict that reports this
        return replace(self, operation=remaining or self.operation, is_needless=remaining is None)

    def is_noop(self) -> bool:
        return self.is_needless


@dataclass(frozen=True, slots=True)
class Delete(_BindingCall):
    """For a placement that is being deleted: drops our finalizer, then deletes the binding."""

    type: ClassVar[CallType] = CallType.EVICT

    binding: LiveBinding
    context: CallContext

    @property
    def key(self) -> str:
        return self.binding.view.metadata.uid

    async def send(self) -> None:
        known: LiveBinding | None = self.binding

        async def attempt() -> None:
            nonlocal known
            objects = self.context.objects
            if known is None:
                known = await objects.refresh(key_of(self.binding.view.metadata))
            if known is None or known.view.metadata.uid != self.key:
                return
            try:
                if holds_finalizer(known.view):
                    known = await self.context.patch(drop_finalizer(known.view))
                if not known.view.metadata.deletion_timestamp:
                    await objects.delete(key_of(known.view.metadata), uid=self.key)
            except Conflict:
                known = None
                raise

        try:
            await self.context.retry(attempt, conflicts=True)
        except NotFound:
            return

    def rebase(self, fresh: LiveBinding) -> Delete:
        return replace(self, binding=fresh)

    def is_noop(self) -> bool:
        return bool(self.binding.view.metadata.deletion_timestamp) and not holds_finalizer(self.binding.view)


def _key(operation: Operation) -> str:
    return key_of(binding_of(operation).metadata)


# --- groups of writes -------------------------------------------------------------------------------------------------


class WriteResult(Struct, frozen=True):
    operation: Operation
    written: LiveBinding | None = None
    """As the API server has it now; None after a failure, for a binding that is gone, and if no request was sent."""
    error: Exception | None = None
    skipped: bool = False
    """The object was already as it should be."""

    @property
    def result(self) -> str:
        if self.error is None:
            return "skipped" if self.skipped else "written"
        return "conflict" if isinstance(self.error, Conflict | StaleInputs) else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingWriter:
    dispatcher: Dispatcher
    retry_policy: RetryPolicy
    on_write: Callable[[Action, str], None] = lambda *_: None
    """Called after every write with the action and: written, skipped, conflict or failed."""

    async def write_operations(
        self,
        kinds: PlacementKinds,
        request: PlacementRequest,
        operations: Iterable[Operation],
        *,
        precondition: Precondition | None = None,
    ) -> list[WriteResult]:
        """Up to and with the first group in which a write failed. Failures are in the results: `raise_failure`.

        The writes of a group are sent together, and all of them finish."""
        context = self._build_context(kinds, request, precondition)
        results: list[WriteResult] = []
        for _, group in groupby(sorted(operations, key=_GROUP), key=_GROUP):
            written = await self._write_group(list(group), context)
            results += written
            if any(result.error for result in written):
                break
        return results

    async def release(self, kinds: PlacementKinds, binding: Binding) -> WriteResult:
        """Drops our finalizer of a binding that is being deleted."""
        metadata = binding.metadata
        placement = PlacementKey(metadata.namespace, metadata.label(PARENT_PLACEMENT) or "")
        context = self._build_context(kinds, _request_for(placement))
        (result,) = await self._write_group([drop_finalizer(binding)], context)
        return result

    async def delete(self, kinds: PlacementKinds, placement: PlacementKey, bindings: Iterable[LiveBinding]) -> None:
        """All are tried before the first failure is raised."""
        context = self._build_context(kinds, _request_for(placement))
        calls = [Delete(binding, context.for_type(CallType.EVICT)) for binding in bindings]
        for outcome in await asyncio.gather(*map(self.dispatcher.submit, calls)):
            if outcome.error is not None:
                raise outcome.error

    async def list_live(self, kinds: PlacementKinds, placement: PlacementKey) -> list[LiveBinding]:
        """All bindings of the placement, by name. The store receives them, too."""
        objects, labels = kinds.bindings.objects, f"{PARENT_PLACEMENT}={placement.name}"
        context = self._build_context(kinds, _request_for(placement))
        bindings = await context.retry(lambda: objects.list(namespace=placement.namespace, labels=labels))
        for binding in bindings:
            kinds.bindings.store.apply_write(binding)
        return sorted(bindings, key=lambda binding: binding.view.metadata.name)

    def _build_context(
        self, kinds: PlacementKinds, request: PlacementRequest, precondition: Precondition | None = None
    ) -> CallContext:
        return CallContext(
            kinds=kinds,
            objects=kinds.bindings.objects,
            request=request,
            retry_policy=self.retry_policy,
            precondition=precondition,
        )

    async def _write_group(self, operations: list[Operation], context: CallContext) -> list[WriteResult]:
        outcomes = await asyncio.gather(*map(self.dispatcher.submit, build_calls(operations, context)))
        results = [_build_result(*pair) for pair in zip(operations, outcomes, strict=True)]
        for result in results:
            self.on_write(result.operation.action, result.result)
        return results


def _request_for(placement: PlacementKey) -> PlacementRequest:
    """For calls that need no more of the request than its placement."""
    return PlacementRequest(placement=placement.name, namespace=placement.namespace)


def build_calls(operations: Iterable[Operation], context: CallContext) -> list[_BindingCall]:
    binding = context.for_type(CallType.BIND)

    def build_call(operation: Operation) -> _BindingCall:
        match operation.action:
            case Action.CREATE:
                return Create(operation, binding)
            case Action.REFRESH | Action.REVIVE:
                return Update(operation, binding)
            case Action.UNSCHEDULE | Action.DROP_FINALIZER:
                return Removal(operation, context.for_type(CallType.EVICT))

    return [build_call(operation) for operation in operations]


def raise_failure(results: Sequence[WriteResult]) -> None:
    """Errors that end all work, such as a lost lease, come before those that another attempt may heal."""
    errors = [result.error for result in results if result.error is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, ApiError | StaleInputs))


def _build_result(operation: Operation, outcome: CallOutcome[LiveBinding | None]) -> WriteResult:
    if outcome.by is not None:
        error = StaleInputs(f"binding {operation.name}: replaced by a stronger write ({outcome.by.call_class})")
        return WriteResult(operation, error=error)
    return WriteResult(operation, outcome.value, outcome.error, skipped=outcome.result is CallResult.SKIPPED)
