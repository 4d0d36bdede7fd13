"""The calls that change bindings, and what each does when it finds the hub different from what was decided on.

A create that finds its name taken looks who has it. A refresh or a revival stands on what was read and gives up on a
conflict. Removals only ever take away, so they go on with the object as it is. Every call may be repeated after its
answer was lost: the first time leaves a trace that the second finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import structs

from fleet.errors import AlreadyExists, Conflict, NotFound, StaleInputs
from fleet.framework.operations import Action, Operation, drop_finalizer, holds_finalizer, unschedule
from fleet.framework.request import PlacementRequest
from fleet.kube.objects import Objects
from fleet.kube.patch import RetryPolicy
from fleet.kube.resource import join_key, key_of
from fleet.model.binding_names import binding_name
from fleet.model.keys import BOUND, PARENT_PLACEMENT, SCHEDULED, UNSCHEDULED
from fleet.model.views import Binding, Observed
from fleet.scheduler.dispatch.api_calls import Call, CallType
from fleet.scheduler.dispatch.live_reads import read_live, repeatedly

Live = Observed[Binding]

Check = Callable[[], None]
"""Raises StaleInputs where what was decided is no longer asked for: workloads go nowhere for it any more."""

NAMES_TRIED: Final = 6
"""The first, and five that depend on who holds the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What it takes to carry out operations of one placement."""

    objects: Objects[Live]
    request: PlacementRequest
    retry_policy: RetryPolicy
    check: Check = lambda: None

    def paid_as(self, type: CallType) -> Means:
        objects = self.objects.with_call_class(type.call_class)
        return self if objects is self.objects else replace(self, objects=objects)

    async def patch(self, operation: Operation) -> Live:
        """With the version that the operation was decided on."""
        return await self.objects.merge_patch(_key(operation), operation.document(self.request))


def calls_for(operations: Iterable[Operation], means: Means) -> list[Call[Live | None]]:
    binding, evicting = means.paid_as(CallType.BIND), means.paid_as(CallType.EVICT)

    def call_for(operation: Operation) -> Call[Live | None]:
        match operation.action:
            case Action.CREATE:
                return Create(operation, binding)
            case Action.REFRESH | Action.REVIVE:
                return Update(operation, binding)
            case Action.UNSCHEDULE | Action.DROP_FINALIZER:
                return Removal(operation, evicting)

    return [call_for(one) for one in operations]


class _Ours(Call[Live | None]):
    """Placements take turns with their bindings."""

    means: Means

    @property
    def owner(self) -> str:
        return self.means.request.key


# --- creating ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create(_Ours):
    operation: Operation
    means: Means

    @property
    def key(self) -> str:
        return self.means.objects.resource.item(join_key(self.means.request.namespace, self.operation.name))

    @property
    def type(self) -> CallType:
        return CallType.BIND

    async def send(self) -> Live:
        self.means.check()
        document = self.operation.document(self.means.request)
        for _ in range(NAMES_TRIED):
            try:
                return await self._post(document)
            except AlreadyExists:
                holder = await self._holder_of_name(document)
            if holder is None:
                continue  # it left between the two requests
            if self._is_wanted(holder.view):
                return holder
            document["metadata"]["name"] = self._name_beside(holder.view)
        raise StaleInputs(
            f"{self.means.request.key}: every name for a binding on cluster {self.operation.cluster} is taken, "
            f"the last one tried was {document['metadata']['name']}"
        )

    async def _post(self, document: dict[str, Any]) -> Live:
        return await repeatedly(lambda: self.means.objects.create(document), retry_policy=self.means.retry_policy)

    async def _holder_of_name(self, document: dict[str, Any]) -> Live | None:
        key = join_key(self.means.request.namespace, document["metadata"]["name"])
        return await repeatedly(lambda: read_live(self.means.objects, key), retry_policy=self.means.retry_policy)

    def _is_wanted(self, holder: Binding) -> bool:
        """Whether the holder is what was to be created. One that should have been decided about instead is an error."""
        metadata, spec, request = holder.metadata, holder.spec, self.means.request
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

    def _name_beside(self, holder: Binding) -> str:
        request = self.means.request
        return binding_name(
            placement=request.placement,
            placement_uid=request.uid,
            cluster=self.operation.cluster,
            holder_uid=holder.metadata.uid,
        )


# --- refreshing and reviving ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Update(_Ours):
    operation: Operation
    means: Means
    seen: Live | None = None

    @property
    def key(self) -> str:
        return _read(self.operation).metadata.uid

    @property
    def type(self) -> CallType:
        return CallType.BIND

    async def send(self) -> Live:
        self.means.check()
        try:
            return await repeatedly(lambda: self.means.patch(self.operation), retry_policy=self.means.retry_policy)
        except (Conflict, NotFound) as error:
            request, operation = self.means.request, self.operation
            raise StaleInputs(f"{request.key}: binding {operation.name} changed meanwhile: {error}") from error

    def on(self, fresh: Live) -> Update:
        """Where the fresh object is no longer what was decided on, the outdated version brings the conflict."""
        stands = self._stands_for(fresh.view)
        operation = structs.replace(self.operation, binding=fresh.view) if stands else self.operation
        return replace(self, operation=operation, seen=fresh)

    def changes_nothing(self) -> bool:
        if self.seen is None:
            return False
        patch = self.operation.document(self.means.request)
        del patch["metadata"]["resourceVersion"]
        return is_already_in(self.seen.document(), patch)

    def _stands_for(self, fresh: Binding) -> bool:
        states = (UNSCHEDULED,) if self.operation.action is Action.REVIVE else (SCHEDULED, BOUND)
        return not fresh.metadata.deletion_timestamp and fresh.spec.state in states


def is_already_in(document: Any, patch: Any) -> bool:
    """Whether the merge patch would leave the document as it is."""
    if not isinstance(patch, dict) or not isinstance(document, dict):
        return type(document) is type(patch) and bool(document == patch)
    return all(
        key not in document if value is None else is_already_in(document.get(key), value)
        for key, value in patch.items()
    )


# --- removing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Removal(_Ours):
    """Unscheduling, or dropping our finalizer."""

    operation: Operation
    means: Means
    is_needless: bool = False

    @property
    def key(self) -> str:
        return _read(self.operation).metadata.uid

    @property
    def type(self) -> CallType:
        return CallType.EVICT

    async def send(self) -> Live | None:
        """None: the binding is gone."""
        left: Operation | None = self.operation
        reread: Live | None = None

        async def attempt() -> Live | None:
            nonlocal left, reread
            if left is None:
                reread = await read_live(self.means.objects, _key(self.operation))
                left = None if reread is None else what_is_left(self.operation, reread.view)
            if left is None:
                return reread
            try:
                return await self.means.patch(left)
            except Conflict:
                left = None
                raise

        try:
            return await repeatedly(attempt, retry_policy=self.means.retry_policy, also=Conflict)
        except NotFound:
            return None

    def over(self, earlier: Call[Any]) -> Call[Any]:
        return earlier if isinstance(earlier, Erasure) else self

    def on(self, fresh: Live) -> Removal:
        try:
            left = what_is_left(self.operation, fresh.view)
        except StaleInputs:
            return self  # sending it brings the conflict that tells the caller
        return replace(self, operation=left or self.operation, is_needless=left is None)

    def changes_nothing(self) -> bool:
        return self.is_needless


def what_is_left(operation: Operation, fresh: Binding) -> Operation | None:
    """The removal, decided again on a newer state of the binding; None when nothing is left to do.

    The state to remember is the fresh one: it is computed once per object that was read, and repetitions of the same
    request send the same bytes. Remembering the state of an earlier read would call a binding `Scheduled` that became
    `Bound` meanwhile, and others would conclude that no workload runs there. A binding that is `Unscheduled` already
    is left alone, so what is remembered can never be `Unscheduled`.
    """
    if fresh.metadata.uid != _read(operation).metadata.uid:
        return None  # another one by the same name; ours is gone
    if fresh.metadata.deletion_timestamp:
        return drop_finalizer(fresh) if holds_finalizer(fresh) else None
    if operation.action is not Action.UNSCHEDULE or fresh.spec.state == UNSCHEDULED:
        return None
    if fresh.spec.state not in (SCHEDULED, BOUND):
        raise StaleInputs(f"binding {fresh.metadata.name} is in state {fresh.spec.state!r}, which nobody knows")
    return structs.replace(unschedule(fresh), group=operation.group)


@dataclass(frozen=True, slots=True)
class Erasure(_Ours):
    """For a placement that is being deleted: first our finalizer, then the binding itself."""

    binding: Live
    means: Means

    @property
    def key(self) -> str:
        return self.binding.view.metadata.uid

    @property
    def type(self) -> CallType:
        return CallType.EVICT

    async def send(self) -> None:
        known: Live | None = self.binding

        async def attempt() -> None:
            nonlocal known
            if known is None:
                known = await read_live(self.means.objects, key_of(self.binding.view.metadata))
            if known is None or known.view.metadata.uid != self.key:
                return
            try:
                if holds_finalizer(known.view):
                    known = await self.means.patch(drop_finalizer(known.view))
                if not known.view.metadata.deletion_timestamp:
                    await self.means.objects.delete(key_of(known.view.metadata), uid=self.key)
            except Conflict:
                known = None
                raise

        try:
            await repeatedly(attempt, retry_policy=self.means.retry_policy, also=Conflict)
        except NotFound:
            return

    def on(self, fresh: Live) -> Erasure:
        return replace(self, binding=fresh)

    def changes_nothing(self) -> bool:
        return bool(self.binding.view.metadata.deletion_timestamp) and not holds_finalizer(self.binding.view)


def _read(operation: Operation) -> Binding:
    assert operation.binding is not None, f"{operation.action.value} of nothing"
    return operation.binding


def _key(operation: Operation) -> str:
    return key_of(_read(operation).metadata)
