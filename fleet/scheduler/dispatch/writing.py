"""What an attempt may ask of the API server: everything it writes, and the one thing it reads live."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.framework.cycle.decision import Published
from fleet.framework.operations import Operation
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import PlacementKinds
from fleet.kube.patch import RetryPolicy
from fleet.model.views import Binding, Observed, Placement, PolicySnapshot
from fleet.scheduler.cleanup import Cleanup
from fleet.scheduler.dispatch.binding_calls import Check
from fleet.scheduler.dispatch.binding_writes import BindingWrites, WriteResult
from fleet.scheduler.dispatch.finalizers import add_finalizer
from fleet.scheduler.dispatch.live_reads import list_bindings
from fleet.scheduler.dispatch.status_writes import StatusWrites


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    bindings: BindingWrites
    statuses: StatusWrites
    cleanup: Cleanup
    retry_policy: RetryPolicy

    async def claim(self, kinds: PlacementKinds, placement: Observed[Placement]) -> bool:
        """Our finalizer goes onto the placement; False if it is gone or being deleted."""
        return await add_finalizer(kinds, placement, retry_policy=self.retry_policy) is not None

    async def listed(self, kinds: PlacementKinds, key: str) -> list[Observed[Binding]]:
        """A placement's bindings, live and by name."""
        return await list_bindings(kinds.bindings.objects, key, retry_policy=self.retry_policy)

    async def operations(
        self, kinds: PlacementKinds, request: PlacementRequest, operations: Iterable[Operation], *, check: Check
    ) -> list[WriteResult]:
        """Failures are in the results."""
        return await self.bindings.write_operations(kinds, request, operations, check=check)

    async def status(self, kinds: PlacementKinds, snapshot: Observed[PolicySnapshot], published: Published) -> bool:
        """Whether anything had to be written."""
        return await self.statuses.write_status(kinds, snapshot, published)

    async def clean_up(self, kinds: PlacementKinds, placement: Observed[Placement]) -> None:
        """For a placement that is being deleted."""
        await self.cleanup.clean_up(kinds, placement)

    async def erase_left_behind(self, kinds: PlacementKinds, key: str, bindings: Iterable[Observed[Binding]]) -> None:
        """For a placement that is gone."""
        await self.cleanup.erase_left_behind(kinds, key, bindings)
