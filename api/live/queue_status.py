"""Where a placement stands beside its decision: in the queue, in a failed attempt, or in no hub any more."""

from __future__ import annotations

from typing import Any, Final

from api.live.live import Live, Queue, Subject
from api.live.wake_events import Hides, wakes_on
from api.models import QueueModel, Waker
from fleet.clock import SECOND, to_nanoseconds
from fleet.explain.answer.parts import State
from fleet.history import HistoryAttempt
from fleet.kube.backoff import ExponentialBackoff
from fleet.model.timestamps import format_timestamp
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.queue.backoff_queue import backoff_window, window_end
from fleet.scheduler.queue.item import ItemState, QueueItem
from fleet.scheduler.queue.unschedulable import flush_time
from fleet.settings.tree import QueueSection as QueueSettings

UNSEEN: Final = "This process does not schedule and cannot see the queue: ask the API of the controller for more."
_FAILED: Final = frozenset({AttemptResult.TRANSIENT.value, AttemptResult.INTERNAL.value})
_BACKS_OFF: Final = frozenset({ItemState.BACKOFF, ItemState.ERROR_BACKOFF})


def queue_model(live: Live, subject: Subject, settings: QueueSettings, *, hides: Hides) -> QueueModel:
    snapshot = subject.snapshot.view if subject.snapshot is not None else None
    wakers = wakes_on(snapshot, subject.key, hides=hides)
    if live.queue is None:
        return QueueModel(space="unknown", note=UNSEEN, wakes_on=wakers)
    item = live.queue.peek(subject.key)
    if item is None:
        return QueueModel(space="none", ready=live.queue.count_items().active, wakes_on=wakers)
    return _of_item(live, live.queue, item, settings, wakers)


def _of_item(
    live: Live, queue: Queue, item: QueueItem, settings: QueueSettings, wakers: tuple[Waker, ...]
) -> QueueModel:
    until, flush = _back_off_end(item, settings), _flush(item, settings)
    return QueueModel(
        space=_space(item),
        ready=queue.count_items().active,
        priority=item.priority,
        attempts=item.attempts,
        unschedulable_count=item.unschedulable_count,
        consecutive_errors=item.consecutive_errors_count,
        rejectors=tuple(sorted(item.rejectors)),
        pending=tuple(sorted(item.pending)),
        gated_by=item.gate.plugin if item.gate else None,
        gate_message=item.gate.message if item.gate else "",
        since=_time_of_day(live, _entered(item)),
        backoff_until=None if until is None else _time_of_day(live, until),
        early_pop=settings.early_pop and item.state is ItemState.BACKOFF if item.state in _BACKS_OFF else None,
        flush_by=None if flush is None else _time_of_day(live, flush),
        wakes_on=wakers,
        **_line(live, queue, item),
    )


def _line(live: Live, queue: Queue, item: QueueItem) -> dict[str, Any]:
    """Who comes before a placement that is ready."""
    if item.state is not ItemState.ACTIVE:
        return {}
    rank = live.framework.queue_sort_func().key
    others = (queue.peek(key) for key in live.placement_keys())
    ready = [one for one in others if one is not None and one.state is ItemState.ACTIVE]
    first = [one for one in ready if rank(one) < rank(item)]
    return {"ahead": len(first), "ahead_of_higher_priority": sum(one.priority > item.priority for one in first)}


def _space(item: QueueItem) -> str:
    return "gated" if item.state is ItemState.UNSCHEDULABLE and item.gate else item.state.value


# --- moments ----------------------------------------------------------------------------------------------------------


def _entered(item: QueueItem) -> int:
    match item.state:
        case ItemState.IN_FLIGHT:
            return item.popped_at
        case ItemState.UNSCHEDULABLE:
            return item.pooled_at
        case ItemState.ACTIVE:
            return item.active_since
    return item.timestamp


def _back_off_end(item: QueueItem, settings: QueueSettings) -> int | None:
    match item.state:
        case ItemState.BACKOFF:
            backoff = ExponentialBackoff(settings.initial_backoff_seconds, settings.max_backoff_seconds)
            return window_end(backoff_window(item, backoff))
        case ItemState.ERROR_BACKOFF:
            backoff = ExponentialBackoff(settings.base_delay.seconds, settings.max_delay.seconds)
            return item.timestamp + to_nanoseconds(backoff.compute_delay(item.consecutive_errors_count - 1))
    return None


def _flush(item: QueueItem, settings: QueueSettings) -> int | None:
    if (
        item.state is not ItemState.UNSCHEDULABLE
        or not item.policy.timed_retry
        or not settings.max_in_unschedulable_seconds
    ):
        return None
    return flush_time(item.pooled_at, to_nanoseconds(settings.max_in_unschedulable_seconds))


def _time_of_day(live: Live, moment: int) -> str:
    """The queue counts on a clock of its own."""
    age = to_nanoseconds(live.clock.elapsed()) - moment
    return format_timestamp((live.now() - age) // SECOND * SECOND)


# --- states -----------------------------------------------------------------------------------------------------------


def present_state(queue: QueueModel | None, attempt: HistoryAttempt | None, *, was_decided: bool) -> State | None:
    """What is more urgent to know than the decision; None where the decision says it all."""
    match queue.space if queue else "":
        case "in_flight":
            return "InFlight"
        case "gated":
            return "Gated"
        case "active" if not was_decided:
            return "Queued"
    if attempt is not None and attempt.ending in _FAILED:
        return "BindFailed" if any(one.error for one in attempt.writes) else "SchedulerError"
    if attempt is not None and attempt.ending == AttemptResult.BAD_INPUT.value:
        return None
    if queue is not None and queue.space in ("backoff", "error"):
        return "BackingOff"
    return None if was_decided else "Queued"


def next_step(queue: QueueModel | None) -> str:
    """What the queue will do with it, in one line."""
    if queue is None:
        return ""
    match queue.space:
        case "active":
            return "is tried as soon as a worker is free" + (f", after {queue.ahead} others" if queue.ahead else "")
        case "in_flight":
            return "is being decided right now"
        case "backoff":
            early = ", or earlier if a worker is idle" if queue.early_pop else ""
            return f"is tried again at {_clock(queue.backoff_until)}{early}"
        case "error":
            return f"is tried again at {_clock(queue.backoff_until)} or soon after; each failure doubles the wait"
        case "gated":
            message = f": {queue.gate_message}" if queue.gate_message else ""
            return f"waits until {queue.gated_by} lets it in{message}"
        case "unschedulable":
            return f"tried again when {_events(queue)}" + (
                f"; else at {_clock(queue.flush_by)}" if queue.flush_by else ""
            )
        case "unknown":
            events = _of_clusters(queue)
            return f"tried again when {_events(queue)}. {queue.note}" if events else ""
    return ""


def _events(queue: QueueModel) -> str:
    return "; ".join([*_of_clusters(queue), "the placement is edited"])


def _of_clusters(queue: QueueModel) -> list[str]:
    """What the placement waits for. That a deleted cluster wakes everybody goes without saying."""
    about_clusters = [one for one in queue.wakes_on if one.event.startswith("MemberCluster/")]
    return [one.when for one in about_clusters if not one.event.endswith("/Delete")]


def _clock(moment: str | None) -> str:
    return (moment or "").partition("T")[2][:8]
