"""Whole matrices in one answer: filters by clusters of one placement, placements by clusters of the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from api.auth.permissions import Permissions, Visibility
from api.live.backend import Backend
from api.live.evaluation import EvaluatedDecision
from api.models import ClusterModel, PlacementModel
from api.page_models import FleetColumn, FleetGrid, FleetRow, VerdictGrid
from api.services.decisions.attempts import collect_cluster_names, load_attempt, load_record
from api.services.objects import build_cluster_models, list_visible_keys
from api.services.status import Trouble, describe_cluster_state, survey_placements
from api.services.why import evaluate_record
from fleet.checkpoint import check
from fleet.explain.facts.compact import build_compact_verdicts
from fleet.explain.facts.redaction import Redaction
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.policy.reads import LabelRead
from fleet.snapshot.columns.bitset import from_rows

_MOST_KEYS: Final = 8
_MOST_VALUES: Final = 200
_MOST_LABELS: Final = 64
"""Of one placement: a policy may name tens of thousands, and each has a value for every cluster."""


# --- one placement ----------------------------------------------------------------------------------------------------


async def build_verdict_grid(
    backend: Backend, permissions: Permissions, key: str, attempt: str | None
) -> tuple[VerdictGrid, str]:
    """About the same decision as the answer to `why`, with what names it."""
    backend.live.require_synced()
    # As for `why`: a review of each cluster takes no slot from others.
    reviewed = frozenset(backend.live.caches.clusters)
    visibility = await permissions.load_visibility(reviewed)
    async with backend.evaluator.admit(permissions.caller.name):
        record = await (load_record(backend, key) if attempt is None else load_attempt(backend, key, attempt))
        evaluated, _ = await evaluate_record(backend, key, record, is_past=attempt is not None)
        recorded_names = () if record.explaining is None else collect_cluster_names([record.explaining])
        visibility = await permissions.extend_visibility(
            visibility, reviewed, evaluated.decision.frame.names.ordered, recorded_names
        )
        explaining = evaluated.attempt or record.explaining
        attempt_id = "" if explaining is None else explaining.id
        async with evaluated.turn():
            grid = await evaluated.run(build_grid, key, attempt_id, evaluated, visibility)
    return grid, attempt_id or evaluated.decision.digest


def build_grid(key: str, attempt: str, evaluated: EvaluatedDecision, visibility: Visibility) -> VerdictGrid:
    decision, question = evaluated.decision, evaluated.scenario.question
    compact = build_compact_verdicts(decision, question, Redaction(decision.frame, visibility.redact))
    return VerdictGrid(
        placement=key,
        attempt=attempt,
        evaluated_on="current" if evaluated.attempt is None else "recorded",
        plugins=compact.plugins,
        clusters=compact.clusters,
        redacted=compact.redacted,
        verdicts=compact.verdicts,
        reasons=compact.reasons,
        scores=compact.scores,
        outcomes=compact.outcomes,
        bound=compact.bound,
        labels=_read_labels(evaluated, compact.clusters),
    )


def _read_labels(evaluated: EvaluatedDecision, clusters: Iterable[str]) -> dict[str, tuple[str | None, ...]]:
    """Of the keys that the policy names, in its order; of very many the first that count."""
    frame, keys = evaluated.decision.frame, dict.fromkeys(_list_keys(evaluated.scenario.question))
    rows = [frame.names.row_of(name) for name in clusters]
    shown = list(keys) if len(keys) <= _MOST_LABELS else _choose_labels(keys, evaluated, rows)
    columns = {key: frame.labels(key) for key in shown}
    return {key: tuple(None if row is None else column.value(row) for row in rows) for key, column in columns.items()}


def _list_keys(question: DecisionInput) -> Iterator[str]:
    for _, plugin in question.profile.find_plugins("list_reads"):
        for read in plugin.list_reads(question.request):
            check()
            if isinstance(read, LabelRead):
                yield read.key


def _choose_labels(keys: Iterable[str], evaluated: EvaluatedDecision, rows: Iterable[int | None]) -> list[str]:
    """Those of spread constraints, and the first that some of these clusters has."""
    frame, visible = evaluated.decision.frame, from_rows(row for row in rows if row is not None)
    spread = {constraint.key for constraint in evaluated.scenario.question.request.constraints}

    def list_present() -> Iterator[str]:
        for key in keys:
            check()
            if key not in spread and frame.labels(key).exists() & visible:
                yield key

    chosen = spread.union(islice(list_present(), _MOST_LABELS))
    return [key for key in keys if key in chosen]


# --- the fleet --------------------------------------------------------------------------------------------------------


async def build_fleet_grid(backend: Backend, permissions: Permissions, *, limit: int) -> FleetGrid:
    live = backend.live
    live.require_synced()
    keys = await list_visible_keys(backend, permissions)
    visibility = await permissions.load_visibility(live.caches.clusters)
    async with backend.evaluator.admit(permissions.caller.name):
        models, troubles = await survey_placements(backend, keys, visibility)
        names = [name for name in live.cluster_names() if not visibility.hides(name)]
        redacted = len(live.caches.clusters) - len(names)
        clusters = await build_cluster_models(backend, names)
    by_key = {trouble.model.key: trouble for trouble in troubles}
    ordered = [*(trouble.model for trouble in troubles), *(model for model in models if model.key not in by_key)]
    places = {cluster.name: place for place, cluster in enumerate(clusters)}
    return FleetGrid(
        clusters=tuple(_build_columns(clusters)),
        redacted=redacted,
        placements=tuple(_build_row(model, by_key.get(model.key), places) for model in ordered[:limit]),
        more=max(0, len(ordered) - limit),
    )


def _build_columns(clusters: list[ClusterModel]) -> Iterable[FleetColumn]:
    keys = _find_grouping_keys(clusters)
    for cluster in clusters:
        yield FleetColumn(
            name=cluster.name,
            eligible=cluster.eligible,
            state=describe_cluster_state(cluster),
            labels={key: cluster.labels[key] for key in keys if key in cluster.labels},
        )


def _find_grouping_keys(clusters: list[ClusterModel]) -> list[str]:
    """Labels that most clusters have, and that many clusters share the values of."""
    values: dict[str, set[str]] = {}
    holders: Counter[str] = Counter()
    for cluster in clusters:
        holders.update(cluster.labels.keys())
        for key, value in cluster.labels.items():
            values.setdefault(key, set()).add(value)
    usable = [key for key, distinct in values.items() if len(distinct) <= _MOST_VALUES and len(distinct) < holders[key]]
    return sorted(usable, key=lambda key: (-holders[key], key))[:_MOST_KEYS]


def _build_row(model: PlacementModel, trouble: Trouble | None, places: dict[str, int]) -> FleetRow:
    bound = tuple(places[name] for name in model.targets if name in places)
    return FleetRow(
        key=model.key,
        type=model.type,
        wanted=model.wanted,
        selected=len(model.targets) + model.redacted,
        fulfilled=model.fulfilled,
        condition="" if trouble is None else trouble.condition.type,
        reason="" if trouble is None else trouble.condition.reason,
        bound=bound,
        redacted=model.redacted,
    )
