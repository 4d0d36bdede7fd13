"""Clusters that left the fleet or were given up: when and why, as this process watched it or as the history tells.

Deleting a MemberCluster enqueues every placement, so the attempts that follow name it as their trigger. A cluster that
was deleted while no controller ran is known from the last decision that selected it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from api.http.problems import ProblemError, not_found, refusal
from api.live.backend import Backend
from api.live.live import LivePlacement, LiveState
from fleet.errors import HistoryUnavailable
from fleet.explain.answer.parts import PastUse
from fleet.explain.answer.sentences import format_moment
from fleet.framework.operations import Action
from fleet.history import History, HistoryAttempt
from fleet.model.timestamps import format_timestamp

_NEXT: Final = "GET /v1/clusters lists those that are there"
_SEARCHED: Final = 1000
"""Attempts of all placements, the newest."""
_MOST_READ: Final = 5
"""Attempts whose list of clusters is read."""
_MOST_GIVEN_UP: Final = 20
_SHRINK: Final = "Shrink"


async def refuse_cluster(backend: Backend, cluster: str) -> ProblemError:
    """For a cluster that is not in the fleet: any more, or at all."""
    left = backend.live.find_departure(cluster)
    if left is not None:
        return _refuse_left(cluster, f"at {_format(left)}: its MemberCluster was deleted")
    history = backend.history.history
    if history is not None:
        try:
            text = await backend.history.call(_find_recorded, history, cluster)
        except HistoryUnavailable:
            text = ""
        if text:
            return _refuse_left(cluster, text)
    return not_found(f"cluster {cluster}", _NEXT)


def _refuse_left(cluster: str, text: str) -> ProblemError:
    return refusal(410, f"cluster {cluster} left the fleet {text}", object=f"cluster {cluster}", next=_NEXT)


def _find_recorded(history: History, cluster: str) -> str:
    selected = next(iter(history.targets_of(cluster, limit=1)), None)
    recent = history.since(max(history.last_seq() - _SEARCHED, 0), limit=_SEARCHED)
    later = [] if selected is None else history.attempts(selected[0].key, limit=_SEARCHED)
    left = max((attempt.started for attempt in (*recent, *later) if names_departure(attempt, cluster)), default=None)
    if left is not None and (selected is None or left >= selected[0].started):
        return f"at {_format(left)}: its MemberCluster was deleted"
    if selected is not None:
        return f"after {_format(selected[0].started)}, when it was last selected: its MemberCluster is gone"
    return ""


def _format(moment: int) -> str:
    return format_moment(format_timestamp(moment))


def names_departure(attempt: HistoryAttempt, cluster: str) -> bool:
    return f"MemberCluster/Delete {cluster}" in attempt.triggers


# --- clusters that a placement gave up --------------------------------------------------------------------------------


def list_given_up(
    placement: LivePlacement | None, attempts: Sequence[HistoryAttempt], departed: Collection[str]
) -> Iterator[PastUse]:
    """`attempts`: the newest first. Each cluster once, by the last time it was given up. `departed` had left the fleet
    by then."""
    in_use = set() if placement is None else {binding.spec.target_cluster for binding in placement.list_live_bindings()}
    seen = set(in_use)
    for attempt, before in pairwise([*attempts, None]):
        if attempt is None:
            continue
        for cluster in _list_given_up(attempt):
            if cluster not in seen:
                seen.add(cluster)
                because = _find_cause(attempt, before, has_left=cluster in departed)
                yield PastUse(cluster=cluster, at=format_timestamp(attempt.started), because=because, n=attempt.number)
                if len(seen) - len(in_use) >= _MOST_GIVEN_UP:
                    return


def _find_cause(attempt: HistoryAttempt, before: HistoryAttempt | None, *, has_left: bool) -> str:
    if has_left:
        return "the cluster left the fleet"
    if attempt.outcome == _SHRINK:
        wanted = "" if before is None or before.wanted is None else f" {before.wanted} → {attempt.wanted}"
        return f"numberOfClusters{wanted}: the lowest stored score goes first"
    if before is None or before.snapshot != attempt.snapshot:
        return "the policy changed"
    return "it was not chosen again"


async def find_departed(backend: Backend, attempts: Sequence[HistoryAttempt]) -> frozenset[str]:
    """Of the clusters that these attempts gave up, those that had left the fleet by then. The newest attempt is the
    first, and the one that counts."""
    live, history = backend.live, backend.history.history
    last: dict[str, HistoryAttempt] = {}
    for attempt in attempts:
        for cluster in _list_given_up(attempt):
            last.setdefault(cluster, attempt)
    departed = {cluster for cluster, attempt in last.items() if _is_departed(live, attempt, cluster)}
    unknown = [item for item in last.items() if item[0] not in departed and item[0] not in live.caches.clusters]
    if history is None or not unknown:
        return frozenset(departed)
    try:
        absent = await backend.history.call(_find_absent, history, unknown[:_MOST_READ])
    except HistoryUnavailable:
        absent = set()
    return frozenset(departed | absent)


def _is_departed(live: LiveState, attempt: HistoryAttempt, cluster: str) -> bool:
    left = live.find_departure(cluster)
    return names_departure(attempt, cluster) or (left is not None and left <= attempt.started)


def _find_absent(history: History, given_up: Iterable[tuple[str, HistoryAttempt]]) -> set[str]:
    """Clusters that the fleet of the attempt did not have."""
    known = ((cluster, history.cluster_names(attempt.id)) for cluster, attempt in given_up)
    return {cluster for cluster, names in known if names is not None and cluster not in names}


def _list_given_up(attempt: HistoryAttempt) -> list[str]:
    return [write.cluster for write in attempt.writes if write.action == Action.UNSCHEDULE.value and not write.error]
