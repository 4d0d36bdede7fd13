"""Publishes decisions on policy snapshots, where users and the placement controller read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleet.clock import Clock
from fleet.errors import Conflict, StaleInputs
from fleet.framework.cycle.decision import Published
from fleet.informers.cache import PlacementKinds
from fleet.kube.patch import RetryPolicy
from fleet.model.views import Observed, PolicySnapshot
from fleet.scheduler.dispatch.api_calls import CallType, Fate, Outcome
from fleet.scheduler.dispatch.dispatcher import Dispatcher
from fleet.scheduler.dispatch.status_calls import StatusCall, StatusChange, StatusMeans

Live = Observed[PolicySnapshot]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWrites:
    dispatcher: Dispatcher
    retry_policy: RetryPolicy
    clock: Clock
    on_write: Callable[[str], None] = lambda _: None
    """Told how it went: written, skipped, conflict or failed."""

    async def write_status(self, kinds: PlacementKinds, snapshot: Live, published: Published) -> bool:
        """Whether anything had to be written."""
        if not published.differs_from(snapshot.view.status):
            self.on_write("skipped")
            return False
        objects = kinds.policy_snapshots.objects.with_call_class(CallType.STATUS.call_class)
        change = StatusChange(published.observed_generation, (published.condition,), published.decisions)
        call = StatusCall(change, snapshot, StatusMeans(objects, self.retry_policy, self.clock))
        outcome = await self.dispatcher.submit(call)
        self.on_write(_result_of(outcome))
        if outcome.error is not None:
            raise outcome.error
        return outcome.fate is Fate.DONE


def _result_of(outcome: Outcome[Live]) -> str:
    if outcome.error is None:
        return "written" if outcome.fate is Fate.DONE else "skipped"
    return "conflict" if isinstance(outcome.error, Conflict | StaleInputs) else "failed"
