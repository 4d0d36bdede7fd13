"""The state of a placement apart from its decision: in the scheduling queue, or after a failed attempt."""

from __future__ import annotations

from typing import Any, Final

from api.live.live import LivePlacement, LiveState, QueueReader
from api.live.wake_events import Hides, list_wake_events
from api.models import QueueModel, Waker
from fleet.clock import SECOND, to_nanoseconds
from fleet.explain.answer.parts import State
from fleet.history import HistoryAttempt
from fleet.kube.backoff import ExponentialBackoff
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.queue.backoff_queue import backoff_window, window_end
from fleet.scheduler.queue.item import ItemState, QueueItem
from fleet.scheduler.queue.unschedulable import flush_time
from fleet.settings.tree import QueueSection as QueueSettings

QUEUE_UNKNOWN: Final = (
    "This process does not schedule and cannot see the queue: ask the API of the controller for more."
)
_FAILED: Final = frozenset({AttemptResult.TRANSIENT.value, AttemptResult.INTERNAL.value})
_BACKS_OFF: Final = frozenset({ItemState.BACKOFF, ItemState.ERROR_BACKOFF})


def build_queue_model(
    live: LiveState, placement: LivePlacement, settings: QueueSettings, *, hides: Hides
) -> QueueModel:
    snapshot = placement.snapshot.view if placement.snapshot is not None else None
    wakers = list_wake_events(snapshot, placement.key, live.framework.profile.event_sources, hides=hides)
    if live.queue is None:
        return QueueModel(space="unknown", note=QUEUE_UNKNOWN, wakes_on=wakers)
    item = live.queue.peek(PlacementKey.parse(placement.key))
    if item is None:
        return QueueModel(space="none", ready=live.queue.count_items().active, wakes_on=wakers)
    return _build_from_item(live, live.queue, item, settings, wakers)


def _build_from_item(
    live: LiveState, queue: QueueReader, item: QueueItem, settings: QueueSettings, wakers: tuple[Waker, ...]
) -> QueueModel:
    until, flush = _compute_backoff_end(item, settings), _compute_flush(item, settings)
    return QueueModel(
        space=_describe_state(item),
        ready=queue.count_items().active,
        priority=item.priority,
        attempts=item.attempts,
        unschedulable_count=item.unschedulable_count,
        consecutive_errors=item.consecutive_errors_count,
        rejectors=tuple(sorted(item.rejectors)),
        pending=tuple(sorted(item.pending)),
        gated_by=item.gate.plugin if item.gate else None,
        gate_message=item.gate.message if item.gate else "",
        since=_wall_clock_time(live, _entered_at(item)),
        backoff_until=None if until is None else _wall_clock_time(live, until),
        early_pop=settings.early_pop and item.state is ItemState.BACKOFF if item.state in _BACKS_OFF else None,
        flush_by=None if flush is None else _wall_clock_time(live, flush),
        wakes_on=wakers,
        **_count_ahead(live, queue, item),
    )


def _count_ahead(live: LiveState, queue: QueueReader, item: QueueItem) -> dict[str, Any]:
    """The ready placements that a worker takes before this one, if it is ready."""
    if item.state is not ItemState.ACTIVE:
        return {}
    rank = live.framework.queue_sort_func().key
    others = (queue.peek(PlacementKey.parse(key)) for key in live.placement_keys())
    ready = [other for other in others if other is not None and other.state is ItemState.ACTIVE]
    ahead = [other for other in ready if rank(other) < rank(item)]
    return {"ahead": len(ahead), "ahead_of_higher_priority": sum(other.priority > item.priority for other in ahead)}


def _describe_state(item: QueueItem) -> str:
    return "gated" if item.state is ItemState.UNSCHEDULABLE and item.gate else item.state.value


# --- moments ----------------------------------------------------------------------------------------------------------


def _entered_at(item: QueueItem) -> int:
    match item.state:
        case ItemState.IN_FLIGHT:
            return item.popped_at
        case ItemState.UNSCHEDULABLE:
            return item.pooled_at
        case ItemState.ACTIVE:
            return item.active_since
    return item.timestamp


def _compute_backoff_end(item: QueueItem, settings: QueueSettings) -> int | None:
    match item.state:
        case ItemState.BACKOFF:
            backoff = ExponentialBackoff(settings.initial_backoff_seconds, settings.max_backoff_seconds)
            return window_end(backoff_window(item, backoff))
        case ItemState.ERROR_BACKOFF:
            backoff = ExponentialBackoff(settings.base_delay.seconds, settings.max_delay.seconds)
            return item.timestamp + to_nanoseconds(backoff.compute_delay(item.consecutive_errors_count - 1))
    return None


def _compute_flush(item: QueueItem, settings: QueueSettings) -> int | None:
    if (
        item.state is not ItemState.UNSCHEDULABLE
        or not item.policy.timed_retry
        or not settings.max_in_unschedulable_seconds
    ):
        return None
    return flush_time(item.pooled_at, to_nanoseconds(settings.max_in_unschedulable_seconds))


def _wall_clock_time(live: LiveState, moment: int) -> str:
    """The queue uses a monotonic clock."""
    age = to_nanoseconds(live.clock.monotonic()) - moment
    return format_timestamp((live.now() - age) // SECOND * SECOND)


# --- states -----------------------------------------------------------------------------------------------------------


def compute_present_state(
    queue: QueueModel | None, attempt: HistoryAttempt | None, *, was_decided: bool
) -> State | None:
    """The state that overrides the one of the decision, if any."""
    match queue.space if queue else "":
        case "in_flight":
            return "InFlight"
        case "gated":
            return "Gated"
        case "active" if not was_decided:
            return "Queued"
    if attempt is not None and attempt.ending in _FAILED:
        return "BindFailed" if any(write.error for write in attempt.writes) else "SchedulerError"
    if attempt is not None and attempt.ending == AttemptResult.BAD_INPUT.value:
        return None
    if queue is not None and queue.space in ("backoff", "error"):
        return "BackingOff"
    return None if was_decided else "Queued"


def render_next_step(queue: QueueModel | None) -> str:
    """The next step of the queue, in one line."""
    if queue is None:
        return ""
    match queue.space:
        case "active":
            return "is tried as soon as a worker is free" + (f", after {queue.ahead} others" if queue.ahead else "")
        case "in_flight":
            return "is being decided right now"
        case "backoff":
            early = ", or earlier if a worker is idle" if queue.early_pop else ""
            return f"is tried again at {_time_of(queue.backoff_until)}{early}"
        case "error":
            return f"is tried again at {_time_of(queue.backoff_until)} or soon after; each failure doubles the wait"
        case "gated":
            message = f": {queue.gate_message}" if queue.gate_message else ""
            return f"waits until {queue.gated_by} lets it in{message}"
        case "unschedulable":
            return f"tried again when {_describe_events(queue)}" + (
                f"; else at {_time_of(queue.flush_by)}" if queue.flush_by else ""
            )
        case "unknown":
            events = _describe_cluster_events(queue)
            return f"tried again when {_describe_events(queue)}. {queue.note}" if events else ""
    return ""


def _describe_events(queue: QueueModel) -> str:
    return "; ".join([*_describe_cluster_events(queue), "the placement is edited"])


def _describe_cluster_events(queue: QueueModel) -> list[str]:
    """Without deletions of clusters, which requeue every placement."""
    cluster_events = [waker for waker in queue.wakes_on if waker.event.startswith("MemberCluster/")]
    return [waker.when for waker in cluster_events if not waker.event.endswith("/Delete")]


def _time_of(moment: str | None) -> str:
    return (moment or "").partition("T")[2][:8]
