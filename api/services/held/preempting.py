"""Room that is being made for a placement, as the status of its options has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import cast

from api.auth.permissions import Visibility
from api.live.live import LivePlacement, LiveState
from api.why_models import MakingRoomModel, Phase, PreemptingModel, VictimBudgetModel
from fleet.model.views import PreemptionStatus


def list_preemptions(placement: LivePlacement) -> tuple[PreemptionStatus, ...]:
    """Of this placement, not of an earlier one of its name."""
    if placement.options is None:
        return ()
    status = placement.options.view.status
    return status.preemptions if status.placement_uid == placement.placement.view.metadata.uid else ()


def describe_preempting(
    live: LiveState, placement: LivePlacement, visibility: Visibility, readable: Collection[str]
) -> PreemptingModel | None:
    preemptions = list_preemptions(placement)
    if not preemptions:
        return None
    shown = [each for each in preemptions if not visibility.hides(each.cluster)]
    return PreemptingModel(
        clusters=tuple(_build_model(live, each, readable) for each in shown), redacted=len(preemptions) - len(shown)
    )


def _build_model(live: LiveState, preemption: PreemptionStatus, readable: Collection[str]) -> MakingRoomModel:
    victims = tuple(victim for victim in preemption.victims if victim in readable)
    return MakingRoomModel(
        cluster=preemption.cluster,
        phase=cast(Phase, preemption.phase),
        since=preemption.since,
        victims=victims,
        hidden=len(preemption.victims) - len(victims),
        budgets=tuple(_list_budgets(live, victims)),
    )


def _list_budgets(live: LiveState, victims: Iterable[str]) -> Iterator[VictimBudgetModel]:
    for victim in victims:
        budget = live.find_budget(victim)
        if budget is not None:
            yield VictimBudgetModel(placement=victim, rule=budget.rule, disruptions=budget.disruptions)
