"""Holds of decisions that are made on request: what keeps the scheduler from carrying them out, as the hub is now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.live.backend import Backend
from api.services.held.headlines import describe_foreign, note_foreign
from fleet.errors import ApiError
from fleet.explain.answer.answer import AnswerContext
from fleet.explain.answer.parts import StatusNote
from fleet.framework.cycle.decision import Decision
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata
from fleet.scheduler.companions import Companion
from fleet.scheduler.holds import Hold, list_holds

_WOULD_BE_HELD: Final = "WouldBeHeld"


@dataclass(frozen=True, slots=True)
class ProposalHolds:
    holds: tuple[Hold, ...] = ()
    foreign: AnswerContext | None = None
    """Of a placement that is another scheduler's: nothing here holds it."""

    def build_context(self, decision: Decision) -> AnswerContext:
        if self.foreign is not None:
            return self.foreign
        is_new = bool(decision.newly_chosen)
        messages = [hold.message for hold in self.holds if is_new or not hold.is_of_new_clusters]
        return AnswerContext(
            headline=f"{messages[0]}; the choice" if messages else "",
            status_notes=tuple(StatusNote(reason=_WOULD_BE_HELD, message=message) for message in messages),
            evaluated_on="current",
        )


async def find_proposal_holds(backend: Backend, metadata: Metadata) -> ProposalHolds:
    """Of a placement with this metadata."""
    live = backend.live
    name = live.companions.scheduler_name_of(metadata)
    if live.frameworks.is_foreign(name):
        context = AnswerContext(
            state="ForeignScheduler",
            headline=describe_foreign(live.frameworks, name),
            status_notes=(note_foreign(live.frameworks, name),),
            evaluated_on="current",
        )
        return ProposalHolds(foreign=context)
    if backend.explains_other:
        return ProposalHolds()
    companion = live.companions.find(PlacementKey.of(metadata))
    holds = list(list_holds(metadata, companion, live.frameworks.choose(name).profile, place="the hub has"))
    missing = await _find_missing_class(backend, companion, metadata)
    if missing:
        holds.append(Hold(f"the scheduler holds it: there is no PriorityClass {missing}"))
    return ProposalHolds(tuple(holds))


async def _find_missing_class(backend: Backend, companion: Companion, metadata: Metadata) -> str:
    """Its name. Classes are not watched here unless a profile evicts."""
    name = companion.choose_class(metadata)
    try:
        known = name and await backend.live.caches.priority_classes.objects.find(name)
    except ApiError:
        return ""
    return "" if known else name
