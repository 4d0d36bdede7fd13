"""One cluster and all placements: what is there, what is not, and what rejects it."""

from __future__ import annotations

from typing import Final

from api.auth.permissions import Permissions, Visibility
from api.http.paging import take_page
from api.live.backend import Backend
from api.live.evaluation import EvaluatedDecision
from api.live.live import LivePlacement
from api.services.decisions.departures import refuse_cluster
from api.services.objects import list_visible_keys
from api.status_models import ClusterPlacements, PlacementOnCluster, Presence
from fleet.errors import FleetError
from fleet.explain.facts.clusters import ClusterExplanation, Explainer
from fleet.explain.facts.outcomes import ClusterOutcome
from fleet.explain.facts.redaction import Redaction
from fleet.explain.facts.rejections import ClusterRejection, describe_lack
from fleet.model.keys import UNSCHEDULED

_SAME_PLACEMENT: Final = "SamePlacementAntiAffinity"
"""Rejects every cluster that is in use: that is no reason to leave it."""


async def list_cluster_placements(
    backend: Backend, permissions: Permissions, cluster: str, *, limit: int, cursor: str | None
) -> ClusterPlacements:
    """Of the placements that the caller may list. Each is decided on the fleet as it is."""
    live = backend.live
    live.require_synced()
    if cluster not in live.caches.clusters:
        raise await refuse_cluster(backend, cluster)
    keys = await list_visible_keys(backend, permissions)
    visibility = await permissions.load_visibility(live.caches.clusters)
    page = take_page(keys, limit=limit, cursor=cursor, list_name="cluster-placements")
    items = []
    async with backend.evaluator.admit(permissions.caller.name):
        for key in page.keys:
            placement = live.find_placement(key)
            if placement is not None:
                items.append(await _explain(backend, placement, cluster, visibility))
    return ClusterPlacements(cluster=cluster, items=tuple(items), next=page.next)


async def _explain(
    backend: Backend, placement: LivePlacement, cluster: str, visibility: Visibility
) -> PlacementOnCluster:
    presence = _find_presence(placement, cluster)
    if placement.snapshot is None:
        return PlacementOnCluster(
            key=placement.key, state=presence or "unknown", plugin="", why="it has no policy snapshot"
        )
    try:
        evaluated = await backend.evaluator.evaluate_live(placement, requeue=True)
        async with evaluated.turn():
            explanation, rejection = await evaluated.run(_explain_rejection, evaluated, cluster, visibility)
    except (FleetError, KeyError):
        return PlacementOnCluster(
            key=placement.key, state=presence or "unknown", plugin="", why="its policy cannot be evaluated"
        )
    state = presence or _name_state(explanation, rejection)
    return PlacementOnCluster(
        key=placement.key,
        state=state,
        plugin="" if rejection is None else rejection.plugin,
        why="" if rejection is None else describe_lack(rejection),
    )


def _explain_rejection(
    evaluated: EvaluatedDecision, cluster: str, visibility: Visibility
) -> tuple[ClusterExplanation, ClusterRejection | None]:
    explanation = Explainer(evaluated.decision, evaluated.scenario.question).explain(cluster)
    rejection = _find_rejection(explanation)
    if rejection is not None:
        rejection = Redaction(evaluated.decision.frame, visibility.redact).redact_rejection(rejection)
    return explanation, rejection


def _find_presence(placement: LivePlacement, cluster: str) -> Presence | None:
    """By its bindings, whatever the policy says; None without one."""
    own = [binding for binding in placement.bindings if binding.spec.target_cluster == cluster]
    if not own:
        return None
    stays = any(binding.metadata.deletion_timestamp is None and binding.spec.state != UNSCHEDULED for binding in own)
    return "there" if stays else "leaving"


def _find_rejection(explanation: ClusterExplanation) -> ClusterRejection | None:
    """The first plugin that rejects it, also where the decision needed no further cluster."""
    refusals = [verdict.refusal for verdict in explanation.verdicts if verdict.refusal is not None]
    reasons = [explanation.first, *refusals]
    return next((reason for reason in reasons if reason is not None and reason.plugin != _SAME_PLACEMENT), None)


def _name_state(explanation: ClusterExplanation, rejection: ClusterRejection | None) -> Presence:
    if explanation.outcome is ClusterOutcome.NOT_LISTED:
        return "not-named"
    if rejection is not None:
        return "rejected"
    unknown = explanation.verdicts and all(verdict.verdict == "unknown" for verdict in explanation.verdicts)
    return "unknown" if unknown else "fits"
