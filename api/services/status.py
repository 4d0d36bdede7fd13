"""The fleet at a glance: placements and clusters in trouble, and the moves of the last hour."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec

from api.auth.permissions import Permissions, Visibility
from api.live.backend import Backend
from api.live.live import LivePlacement
from api.models import ClusterModel, PlacementModel
from api.services.decisions.attempts import strip_object
from api.services.held.groups import find_group_of
from api.services.objects import build_cluster_models, build_placement_model, list_visible_keys
from api.status_models import (
    EligibilityCounts,
    FleetStatus,
    PlacementCounts,
    RecentMove,
    TroubledCluster,
    TroubledPlacement,
)
from fleet.errors import FleetError
from fleet.explain.facts.redaction import Redaction
from fleet.explain.facts.summary import summarize
from fleet.framework.operations import Action
from fleet.history import HistoryAttempt
from fleet.kube.scopes import find_scope
from fleet.model.timestamps import HOUR, format_timestamp
from fleet.model.views import Condition, PlacementStatus
from fleet.scheduler.binding.companion_status import GATED, PREEMPTING, WAITING

_MOST: Final = 10
"""Rows of each table: one screen."""
_PAGE: Final = 1000
_MOST_ATTEMPTS: Final = 20_000
_HOLDING: Final = (GATED, PREEMPTING, WAITING)
"""Conditions of options, in the order in which they are named."""
_SCHEDULED: Final = "Scheduled"
_SHORT: Final = frozenset({"SchedulingPolicyUnfulfilled", ""})
"""Reasons that say less than the decision itself."""
_GAINED: Final = frozenset({Action.CREATE.value, Action.REVIVE.value})
_LOST: Final = frozenset({Action.UNSCHEDULE.value, Action.DROP_FINALIZER.value})


async def build_status(backend: Backend, permissions: Permissions) -> FleetStatus:
    live = backend.live
    live.require_synced()
    keys = await list_visible_keys(backend, permissions)
    visibility = await permissions.load_visibility(live.caches.clusters)
    models, trouble = await survey_placements(backend, keys, visibility)
    names = (name for name in live.cluster_names() if not visibility.hides(name))
    clusters = await build_cluster_models(backend, names)
    states = ((cluster, describe_cluster_state(cluster)) for cluster in clusters)
    troubled = sorted((pair for pair in states if pair[1]), key=lambda pair: (pair[0].eligible, pair[0].name))
    present = Counter(target for model in models for target in model.targets)
    moves = await _collect_moves(backend, permissions, visibility)
    async with backend.evaluator.admit(permissions.caller.name):
        explained = [await _explain_trouble(backend, permissions, each, visibility) for each in trouble[:_MOST]]
    return FleetStatus(
        at=format_timestamp(live.now()),
        placements=_count_placements(models),
        trouble=tuple(explained),
        more_trouble=max(0, len(trouble) - _MOST),
        clusters=EligibilityCounts(
            total=len(clusters),
            eligible=sum(cluster.eligible for cluster in clusters),
            tainted=sum(bool(cluster.taints) for cluster in clusters),
            redacted=len(live.caches.clusters) - len(clusters),
        ),
        troubled_clusters=tuple(
            _build_troubled(cluster, state, present[cluster.name]) for cluster, state in troubled[:_MOST]
        ),
        more_clusters=max(0, len(troubled) - _MOST),
        moves_since=None if moves is None else format_timestamp(live.now() - HOUR),
        moves=tuple(heapq.nlargest(_MOST, moves or (), key=lambda move: move.at)),
        more_moves=max(0, len(moves or ()) - _MOST),
    )


def describe_cluster_state(cluster: ClusterModel) -> str:
    """Empty for a cluster that may get any work."""
    if cluster.leaving:
        return "leaving"
    if cluster.eligible:
        return "tainted" if cluster.taints else ""
    if cluster.joined != "True":
        return "not joined"
    return "unhealthy" if cluster.healthy == "False" else "silent"


def _build_troubled(cluster: ClusterModel, state: str, placements: int) -> TroubledCluster:
    return TroubledCluster(
        name=cluster.name,
        eligible=cluster.eligible,
        state=state,
        last_heartbeat=cluster.last_heartbeat,
        taints=cluster.taints,
        placements=placements,
    )


# --- placements -------------------------------------------------------------------------------------------------------


class Trouble(msgspec.Struct, frozen=True):
    live: LivePlacement
    model: PlacementModel
    condition: Condition

    @property
    def selected(self) -> int:
        return len(self.model.targets) + self.model.redacted

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Those without clusters first, then by how many are missing."""
        return self.selected > 0, self.selected - (self.model.wanted or self.selected), self.model.key


def _count_placements(models: Iterable[PlacementModel]) -> PlacementCounts:
    states = Counter(model.fulfilled for model in models)
    return PlacementCounts(total=states.total(), fulfilled=states[True], short=states[False], undecided=states[None])


async def survey_placements(
    backend: Backend, keys: Iterable[str], visibility: Visibility
) -> tuple[list[PlacementModel], list[Trouble]]:
    """All placements, and those in trouble, the worst first. Others may work between two placements."""
    models, trouble = [], []
    for key in keys:
        await asyncio.sleep(0)
        live = backend.live.find_placement(key)
        if live is not None:
            models.append(build_placement_model(live, visibility))
            condition = _find_trouble(live)
            trouble += [] if condition is None else [Trouble(live, models[-1], condition)]
    return models, sorted(trouble, key=lambda each: each.rank)


def _find_trouble(live: LivePlacement) -> Condition | None:
    """What people keep it from, else the first condition of the present generation that does not hold; one without a
    status while the scheduler has not decided. The name of the kind is taken off its type."""
    held = _find_what_holds(live)
    if held is not None:
        return held
    view, prefix = live.placement.view, find_scope(live.key).condition_prefix
    conditions = msgspec.json.decode(view.status, type=PlacementStatus).conditions
    current = [condition for condition in conditions if condition.observed_generation == view.metadata.generation]
    broken = next((condition for condition in current if condition.status != "True"), None)
    if broken is None and not any(condition.type == prefix + _SCHEDULED for condition in current):
        return Condition(type=_SCHEDULED)
    return None if broken is None else msgspec.structs.replace(broken, type=broken.type.removeprefix(prefix))


def _find_what_holds(live: LivePlacement) -> Condition | None:
    if live.options is None or live.options.view.status.placement_uid != live.placement.view.metadata.uid:
        return None
    conditions = live.options.view.status.conditions
    return next((each for each in conditions if each.type in _HOLDING and each.status == "True"), None)


async def _explain_trouble(
    backend: Backend, permissions: Permissions, trouble: Trouble, visibility: Visibility
) -> TroubledPlacement:
    model, condition = trouble.model, trouble.condition
    of_group = await _describe_group(backend, permissions, trouble, visibility)
    return TroubledPlacement(
        key=model.key,
        type=model.type,
        wanted=model.wanted,
        selected=trouble.selected,
        condition=condition.type,
        reason=condition.reason,
        why=of_group or await _describe_trouble(backend, trouble, visibility),
        since=condition.last_transition_time,
    )


async def _describe_group(backend: Backend, permissions: Permissions, trouble: Trouble, visibility: Visibility) -> str:
    """That its group waits, unless people keep it from being placed; empty otherwise."""
    if trouble.condition.type != _SCHEDULED:
        return ""
    group = await find_group_of(backend, permissions, trouble.live, visibility)
    if group is None or group.state != "Waiting":
        return ""
    return ": ".join(filter(None, (f"its group {group.name} waits", group.message or group.reason)))


async def _describe_trouble(backend: Backend, trouble: Trouble, visibility: Visibility) -> str:
    """Messages of conditions may name clusters."""
    condition = trouble.condition
    message = condition.message if visibility.is_whole else ""
    if condition.type in _HOLDING:
        return message or condition.reason
    if condition.type != _SCHEDULED or condition.reason not in _SHORT:
        return message
    if trouble.live.snapshot is None:
        return message or "the placement controller has not made its policy snapshot"
    try:
        evaluated = await backend.evaluator.evaluate_live(trouble.live, requeue=True)
        async with evaluated.turn():
            redaction = Redaction(evaluated.decision.frame, visibility.redact)
            summary = await evaluated.run(summarize, evaluated.decision, redaction)
    except FleetError:
        return message
    return summary.partition(": ")[2] or summary


# --- moves ------------------------------------------------------------------------------------------------------------


async def _collect_moves(backend: Backend, permissions: Permissions, visibility: Visibility) -> list[RecentMove] | None:
    """Of the last hour, the oldest first; None without a history."""
    try:
        attempts = [attempt async for attempt in _read_attempts(backend)]
    except FleetError:
        return None
    names = {write.cluster for attempt in attempts for write in attempt.writes}
    if not visibility.is_whole:
        visibility = await permissions.load_visibility(backend.live.caches.clusters, names)
    visible = await permissions.filter_placements({attempt.key for attempt in attempts})
    gone: set[str] = set()
    moves = (_build_move(attempt, visibility, gone) for attempt in attempts if attempt.key in visible)
    return [move for move in moves if move is not None]


async def _read_attempts(backend: Backend) -> AsyncIterator[HistoryAttempt]:
    after, count, since = 0, 0, backend.live.now() - HOUR
    query = backend.history.require().started_since
    while count < _MOST_ATTEMPTS:
        page = await backend.history.call(query, since, limit=_PAGE, after=after)
        for attempt in page:
            if attempt.writes:
                yield attempt
        if len(page) < _PAGE:
            return
        after, count = page[-1].seq, count + len(page)


def _build_move(attempt: HistoryAttempt, visibility: Visibility, gone: set[str]) -> RecentMove | None:
    """`gone` has the bindings that were lost before: unscheduling one, and letting it go later, is one loss."""
    written = [write for write in attempt.writes if write.result == "written"]
    gained = {write.cluster for write in written if write.action in _GAINED}
    lost = {write.cluster for write in written if write.action in _LOST and write.binding not in gone}
    gone.update(write.binding for write in written if write.action in _LOST)
    if not gained | lost:
        return None
    hidden = {name for name in gained | lost if visibility.hides(name)}
    return RecentMove(
        at=format_timestamp(attempt.started),
        key=attempt.key,
        gained=tuple(sorted(gained - hidden)),
        lost=tuple(sorted(lost - hidden)),
        redacted=len(hidden),
        triggers=attempt.triggers if visibility.is_whole else tuple(map(strip_object, attempt.triggers)),
    )
