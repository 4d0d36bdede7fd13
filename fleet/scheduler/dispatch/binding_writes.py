"""Carries out what was decided about bindings, group after group.

The writes of a group go out together and all of them finish. When one failed, the groups after it are left out: the
next attempt starts from what is there. How each write copes with what it finds is in `binding_calls`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from fleet.errors import ApiError, Conflict, StaleInputs
from fleet.framework.operations import Action, Operation, WriteGroup, drop_finalizer
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import PlacementKinds
from fleet.kube.patch import RetryPolicy
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.views import Binding, Observed
from fleet.scheduler.dispatch.api_calls import Fate, Outcome
from fleet.scheduler.dispatch.binding_calls import Check, Means, calls_for
from fleet.scheduler.dispatch.dispatcher import Dispatcher

Live = Observed[Binding]
OnWrite = Callable[[Action, str], None]


@dataclass(frozen=True, slots=True)
class WriteResult:
    operation: Operation
    written: Live | None = None
    """As the API server has it now; None after a failure, for a binding that is gone, and where nothing was sent."""
    error: Exception | None = None
    skipped: bool = False
    """The object was already as it should be."""

    @property
    def result(self) -> str:
        if self.error is None:
            return "skipped" if self.skipped else "written"
        return "conflict" if isinstance(self.error, Conflict | StaleInputs) else "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingWrites:
    dispatcher: Dispatcher
    retry_policy: RetryPolicy
    on_write: OnWrite = lambda *_: None
    """Told of every write: the action, and written, skipped, conflict or failed."""

    async def write_operations(
        self,
        kinds: PlacementKinds,
        request: PlacementRequest,
        operations: Iterable[Operation],
        *,
        check: Check = lambda: None,
    ) -> list[WriteResult]:
        """Up to and with the first group in which a write failed. Failures are in the results: `raise_failure`."""
        means = Means(objects=kinds.bindings.objects, request=request, retry_policy=self.retry_policy, check=check)
        results: list[WriteResult] = []
        for _, group in groupby(sorted(operations, key=_group_of), key=_group_of):
            written = await self._write_group(list(group), means)
            results += written
            if any(one.error for one in written):
                break
        return results

    async def release(self, kinds: PlacementKinds, binding: Binding) -> WriteResult:
        """Drops our finalizer of a binding that is being deleted."""
        metadata = binding.metadata
        placement = PlacementRequest(placement=metadata.label(PARENT_PLACEMENT) or "", namespace=metadata.namespace)
        means = Means(objects=kinds.bindings.objects, request=placement, retry_policy=self.retry_policy)
        (result,) = await self._write_group([drop_finalizer(binding)], means)
        return result

    async def _write_group(self, operations: list[Operation], means: Means) -> list[WriteResult]:
        outcomes = await asyncio.gather(*map(self.dispatcher.submit, calls_for(operations, means)))
        results = [_result_of(one, outcome) for one, outcome in zip(operations, outcomes, strict=True)]
        for one in results:
            self.on_write(one.operation.action, one.result)
        return results


def raise_failure(results: Sequence[WriteResult]) -> None:
    """What speaks against going on at all, such as a lost lease, comes before what another attempt may heal."""
    errors = [one.error for one in results if one.error is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, ApiError | StaleInputs))


def _group_of(operation: Operation) -> WriteGroup:
    return operation.group


def _result_of(operation: Operation, outcome: Outcome[Live | None]) -> WriteResult:
    if outcome.by is not None:
        error = StaleInputs(f"binding {operation.name}: a call to {outcome.by.call_class} it came first")
        return WriteResult(operation, error=error)
    return WriteResult(operation, outcome.value, outcome.error, skipped=outcome.fate is Fate.SKIPPED)
