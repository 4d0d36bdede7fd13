"""The snapshot status: decisions, condition, and whether it differs from what is published already."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from tests.oracle.documents import Json, condition_of, dig, rfc3339
from tests.oracle.evaluation import FILTERED, NOT_PICKED, Verdict, Verdicts
from tests.oracle.settings import Settings

FULFILLED, UNFULFILLED = "SchedulingPolicyFulfilled", "SchedulingPolicyUnfulfilled"


# -- decisions -------------------------------------------------------------------------------------------------------


def scored_decision(verdict: Verdict) -> Json:
    scores = f"(affinity score: {verdict.affinity}, topology spread score: {verdict.topology})"
    return {
        "clusterName": verdict.cluster,
        "selected": True,
        "reason": f'Successfully scheduled resources for placement in "{verdict.cluster}" {scores}: '
        "picked by scheduling policy",
        "clusterScore": {"affinityScore": verdict.affinity, "priorityScore": verdict.topology},
    }


def fixed_decision(cluster: str) -> Json:
    reason = f'Successfully scheduled resources for placement in "{cluster}": picked by scheduling policy'
    return {"clusterName": cluster, "selected": True, "reason": reason}


def refused_decision(cluster: str, reason: str) -> Json:
    return {"clusterName": cluster, "selected": False, "reason": reason}


def unselected_decisions(verdicts: Verdicts) -> list[Json]:
    """Not picked in sort order, then filtered by name."""
    not_picked = [verdict for verdict in verdicts.values() if verdict.outcome == NOT_PICKED]
    filtered = [verdict for verdict in verdicts.values() if verdict.outcome == FILTERED]
    decisions = [not_picked_decision(verdict) for verdict in sorted(not_picked, key=Verdict.rank, reverse=True)]
    for verdict in sorted(filtered, key=lambda verdict: verdict.cluster):
        decisions.append(refused_decision(verdict.cluster, verdict.reason))
    return decisions


def not_picked_decision(verdict: Verdict) -> Json:
    scores = f"(affinity score: {verdict.affinity}, topology spread score: {verdict.topology})"
    return {
        "clusterName": verdict.cluster,
        "selected": False,
        "reason": f'Cluster "{verdict.cluster}" does not score high enough {scores}',
        "clusterScore": {"affinityScore": verdict.affinity, "priorityScore": verdict.topology},
    }


def published(selected: list[Json], unselected: Iterable[Json], settings: Settings) -> list[Json]:
    """A cluster appears once; selected entries first; both limits hold."""
    decisions: list[Json] = []
    listed: set[str] = set()
    for decision in selected:
        if decision["clusterName"] not in listed and len(decisions) < settings.max_decisions:
            decisions.append(decision)
        listed.add(decision["clusterName"])
    budget = min(settings.unselected_budget, settings.max_decisions - len(decisions))
    for decision in unselected:
        if decision["clusterName"] not in listed and budget > 0:
            decisions.append(decision)
            listed.add(decision["clusterName"])
            budget -= 1
    return decisions


# -- condition -------------------------------------------------------------------------------------------------------


def outcome_condition(snapshot: Json, *, fulfilled: bool, count: int) -> Json:
    found = "found all cluster needed" if fulfilled else "could not find all clusters needed"
    clusters = f"found {count} cluster(s)" + ("" if fulfilled else " instead")
    message = f"{found} as specified by the scheduling policy, {clusters}"
    return condition(snapshot, status=str(fulfilled), reason=FULFILLED if fulfilled else UNFULFILLED, message=message)


def stopped_condition(snapshot: Json, cause: str) -> Json:
    return condition(snapshot, status="False", reason=UNFULFILLED, message=f"scheduling stopped: {cause}")


def condition(snapshot: Json, *, status: str, reason: str, message: str) -> Json:
    generation = dig(snapshot, "metadata", "generation") or 0
    return {
        "type": "Scheduled",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


# -- writing ---------------------------------------------------------------------------------------------------------


class Status:
    """The status of the policy snapshot, before and after."""

    def __init__(self, snapshot: Json, now: datetime.datetime) -> None:
        self.now = now
        self.decisions: list[Json] = dig(snapshot, "status", "targetClusters") or []
        self.generation: int = dig(snapshot, "status", "observedCRPGeneration") or 0
        self.condition: Json | None = condition_of(dig(snapshot, "status", "conditions"), "Scheduled")
        self.written = False

    def publish(self, condition: Json, decisions: list[Json], generation: int) -> None:
        if self._says(condition, decisions, generation):
            return
        self.condition = {**condition, "lastTransitionTime": self._transition_time(condition["status"])}
        self.decisions, self.generation, self.written = decisions, generation, True

    def _says(self, condition: Json, decisions: list[Json], generation: int) -> bool:
        before = self.condition
        return (
            before is not None
            and self.generation == generation
            and by_cluster(self.decisions) == by_cluster(decisions)
            and all(before.get(field) == condition[field] for field in ("status", "reason", "message"))
            and (before.get("observedGeneration") or 0) >= condition["observedGeneration"]
        )

    def _transition_time(self, status: str) -> str | None:
        if self.condition is not None and self.condition.get("status") == status:
            return self.condition.get("lastTransitionTime")
        return rfc3339(self.now)


def by_cluster(decisions: list[Json]) -> dict[str, tuple[Any, ...]]:
    return {decision["clusterName"]: comparable(decision) for decision in decisions}


def comparable(decision: Json) -> tuple[Any, ...]:
    score = decision.get("clusterScore")
    scores = None if score is None else (score.get("affinityScore") or 0, score.get("priorityScore") or 0)
    return decision["clusterName"], bool(decision.get("selected")), decision.get("reason"), scores
