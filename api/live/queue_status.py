"""The state of a placement apart from its decision: in the scheduling queue, after a failed attempt, and what wakes it.

The scheduler requeues placements after the events that plugins register (`fleet.scheduler.events.interest_index`). Here
the same events are listed, in words and by name, so that a user sees what a placement waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, Final

import msgspec

from api.live.live import LiveState, QueueReader
from api.why_models import QueueModel, Waker
from fleet.clock import SECOND, to_nanoseconds
from fleet.explain.answer.parts import State
from fleet.explain.facts.redaction import Redaction
from fleet.framework.explaining import ClusterEvent, ClusterEventKind, EventSources
from fleet.framework.policy.placement_terms import RESIDENTS
from fleet.framework.profiles.profile import CompiledProfile
from fleet.history import HistoryAttempt
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.model.keys import PICK_ALL, PICK_FIXED, PICK_N, RESOURCE_PROPERTY_PREFIX
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp
from fleet.model.views import PlacementPolicy, PolicySnapshot
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.events.event_handlers import QUOTA, RESIDENT
from fleet.scheduler.events.interest_index import is_never_satisfied, lacks_clusters
from fleet.scheduler.queue.item import ItemState, QueueItem
from fleet.scheduler.queue.sub_queues import backoff_window, compute_backoff_end, flush_time, window_end
from fleet.settings.tree import QueueSection as QueueSettings

QUEUE_UNKNOWN: Final = (
    "This process does not schedule and cannot see the queue: ask the API of the controller for more."
)
_FAILED: Final = frozenset({AttemptResult.TRANSIENT.value, AttemptResult.INTERNAL.value})
_BACKS_OFF: Final = frozenset({ItemState.BACKOFF, ItemState.ERROR_BACKOFF})


_VALUES_OF: Final = attrgetter(*QueueItem.__slots__)
Hides = Callable[[str], bool]
_CLUSTER: Final = MEMBER_CLUSTERS.kind
_ANY_PLUGIN: Final = "*"
_MOST_NAMES: Final = 200
_SORTED_AT_ONCE: Final = 1_000
_MOST_IN_WORDS: Final = 10
_ORDER: Final = {
    ClusterEventKind.UPDATE_HEALTH: 0,
    ClusterEventKind.UPDATE_TAINTS: 1,
    ClusterEventKind.UPDATE_NAMESPACES: 2,
    ClusterEventKind.UPDATE_LABELS: 3,
    ClusterEventKind.UPDATE_PROPERTIES: 3,
    ClusterEventKind.UPDATE_CAPACITY: 3,
    ClusterEventKind.UPDATE: 4,
}


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The placement in the queue of this process, at one moment."""

    item: QueueItem | None = None
    ready: int = 0

    @property
    def version(self) -> Hashable:
        """Equal as long as the queue says the same; unlike everything while others are before the placement."""
        if self.item is None:
            return self.ready
        return object() if self.item.state is ItemState.ACTIVE else (self.ready, *_VALUES_OF(self.item))


def find_queue_place(live: LiveState, key: str) -> QueuePlace:
    if live.queue is None:
        return QueuePlace()
    return QueuePlace(live.queue.peek(PlacementKey.parse(key)), live.queue.count_active())


def build_queue_model(
    live: LiveState, place: QueuePlace, settings: QueueSettings, wakers: tuple[Waker, ...], *, hides: Hides | None
) -> QueueModel:
    """`hides`: clusters that what a plugin says must not name."""
    if live.queue is None:
        return QueueModel(space="unknown", note=QUEUE_UNKNOWN, wakes_on=wakers)
    if place.item is None:
        return QueueModel(space="none", ready=place.ready, wakes_on=wakers)
    queued = _build_from_item(live, live.queue, place.item, place.ready, settings, wakers)
    return msgspec.structs.replace(queued, gate_message=redact_message(live, queued.gate_message, hides))


def redact_message(live: LiveState, message: str, hides: Hides | None) -> str:
    """Without the names of clusters that its reader may not know."""
    return Redaction(live.frame(), hides).redact_text(message)


def _build_from_item(
    live: LiveState,
    queue: QueueReader,
    item: QueueItem,
    ready: int,
    settings: QueueSettings,
    wakers: tuple[Waker, ...],
) -> QueueModel:
    until, flush = _compute_backoff_end(item, settings), _compute_flush(item, settings)
    return QueueModel(
        space=_describe_state(item),
        ready=ready,
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
    rank = live.frameworks.queue_sort.key
    others = (queue.peek(PlacementKey.parse(key)) for key in live.placement_keys())
    ready = [other for other in others if other is not None and other.state is ItemState.ACTIVE]
    ahead = [other for other in ready if rank(other) < rank(item)]
    return {"ahead": len(ahead), "ahead_of_higher_priority": sum(other.priority > item.priority for other in ahead)}


def _describe_state(item: QueueItem) -> str:
    if item.state is ItemState.ERROR_BACKOFF and not item.consecutive_errors_count:
        return ItemState.BACKOFF.value
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
    rejected = ExponentialBackoff(settings.initial_backoff_seconds, settings.max_backoff_seconds)
    match item.state:
        case ItemState.BACKOFF:
            return window_end(backoff_window(item, rejected))
        case ItemState.ERROR_BACKOFF if not item.consecutive_errors_count:
            return compute_backoff_end(item, rejected)
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
        return _name_failure(attempt)
    if attempt is not None and attempt.ending == AttemptResult.BAD_INPUT.value:
        return None
    if queue is not None and queue.space in ("backoff", "error"):
        return "BackingOff"
    return None if was_decided else name_undecided(attempt)


def name_end(attempt: HistoryAttempt) -> State | None:
    """The state that a past attempt has left, if its decision was not carried out."""
    match attempt.ending:
        case AttemptResult.REJECTED.value:
            return "Unschedulable"
        case AttemptResult.WAITING.value:
            return "Waiting"
        case AttemptResult.BIND_FAILED.value | AttemptResult.TRANSIENT.value | AttemptResult.INTERNAL.value:
            return _name_failure(attempt)
    return None


def _name_failure(attempt: HistoryAttempt) -> State:
    return "BindFailed" if any(write.error for write in attempt.writes) else "SchedulerError"


def name_undecided(attempt: HistoryAttempt | None) -> State:
    """The state of a placement on whose policy nothing is published."""
    is_refused = attempt is not None and attempt.ending == AttemptResult.REJECTED.value
    return "Unschedulable" if is_refused else "Queued"


# --- events -----------------------------------------------------------------------------------------------------------


def list_wake_events(
    snapshot: PolicySnapshot | None,
    key: str,
    sources: EventSources,
    *,
    others: Iterable[Waker] = (),
    hides: Hides = lambda _: False,
) -> tuple[Waker, ...]:
    """A fulfilled placement is requeued by no event of a cluster but its deletion, and by none of the `others`."""
    if snapshot is None or not _is_waiting(snapshot):
        return tuple(_list_own_events(key))
    return (*_list_cluster_events(snapshot, sources, hides), *others, *_list_own_events(key))


def _is_waiting(snapshot: PolicySnapshot) -> bool:
    return lacks_clusters(snapshot) or is_never_satisfied(snapshot.spec.policy)


# --- clusters ---------------------------------------------------------------------------------------------------------


def _list_cluster_events(snapshot: PolicySnapshot, sources: EventSources, hides: Hides) -> Iterator[Waker]:
    policy, namespace = snapshot.spec.policy or PlacementPolicy(), snapshot.metadata.namespace
    kind = policy.placement_type or PICK_ALL
    events = sorted(
        (
            (each.name, event)
            for each in sources
            if each.judges_fixed or kind != PICK_FIXED
            for event in each.source.events_to_register(policy, namespace)
        ),
        key=lambda item: _ORDER[item[1].kind],
    )
    if kind == PICK_FIXED:
        judges = [plugin for plugin, event in events if event.kind is ClusterEventKind.UPDATE_HEALTH]
        yield from _list_named_clusters(policy.cluster_names, judges, hides)
        events = [item for item in events if item[1].kind is not ClusterEventKind.UPDATE_HEALTH]
    elif kind in (PICK_ALL, PICK_N):
        yield _build_cluster_waker("Add", _ANY_PLUGIN, "a cluster joins that may take work")
    else:
        return
    for plugin, event in events:
        yield from _list_plugin_event(plugin, event)


def _list_named_clusters(names: Iterable[str], judges: Iterable[str], hides: Hides) -> Iterator[Waker]:
    targets = tuple(_sort(set(names)))
    visible = tuple(name for name in targets if not hides(name))
    hidden = len(targets) - len(visible)
    if not targets:
        return
    subject = _join_names(visible, *([f"one of {hidden} that you may not read"] if hidden else []))
    yield _build_cluster_waker("Add", "PickFixed", f"{subject} joins and may take work", visible)
    for plugin in judges:
        yield _build_cluster_waker("UpdateHealth", plugin, f"{subject} may take work again", visible)


def _list_plugin_event(plugin: str, event: ClusterEvent) -> Iterator[Waker]:
    names = tuple(_sort(set(event.names)))
    either = _join_names(names)
    match event.kind:
        case ClusterEventKind.UPDATE_HEALTH:
            yield _build_cluster_waker("UpdateHealth", plugin, "a cluster may take work again")
        case ClusterEventKind.UPDATE_TAINTS:
            when = "a cluster loses a taint that the policy does not tolerate"
            yield _build_cluster_waker("UpdateTaints", plugin, when)
        case ClusterEventKind.UPDATE_NAMESPACES:
            when = f"namespace {either} comes or goes on a cluster, or a cluster stops reporting its namespaces"
            yield _build_cluster_waker("UpdateNamespaces", plugin, when, names)
        case ClusterEventKind.UPDATE_LABELS:
            yield _build_cluster_waker("UpdateLabels", plugin, f"label {either} of a cluster changes", names)
        case ClusterEventKind.UPDATE_PROPERTIES:
            yield _build_cluster_waker("UpdateProperties", plugin, f"property {either} of a cluster changes", names)
            yield from _list_capacity_event(plugin, names)
        case ClusterEventKind.UPDATE_CAPACITY:
            when = "a cluster has room for what is requested: it reports more, or a placement there gives room back"
            yield _build_cluster_waker("UpdateCapacity", plugin, when)
        case ClusterEventKind.UPDATE:
            yield _build_cluster_waker("Update", plugin, "anything about a cluster changes, beyond its heartbeat")


def _list_capacity_event(plugin: str, properties: Iterable[str]) -> Iterator[Waker]:
    resources = tuple(name for name in properties if name.startswith(RESOURCE_PROPERTY_PREFIX))
    if resources:
        either = _join_names([name.removeprefix(RESOURCE_PROPERTY_PREFIX) for name in resources])
        when = f"{either} of a cluster changes"
        yield _build_cluster_waker("UpdateCapacity", plugin, when, resources)


# --- other placements -------------------------------------------------------------------------------------------------


def list_resident_events(profile: CompiledProfile) -> Iterator[Waker]:
    """For a placement with terms about others."""
    for plugin in profile.list_judges_of(RESIDENTS):
        yield _build_waker(f"{RESIDENT}/Add", plugin, "a placement that it names comes to a cluster")
        yield _build_waker(f"{RESIDENT}/Delete", plugin, "a placement that it names leaves a cluster")


def list_quota_events(profile: CompiledProfile) -> Iterator[Waker]:
    """For a placement that counts in a quota."""
    for plugin in sorted(profile.quota_readers):
        yield _build_waker(f"{QUOTA}/Update", plugin, "there is more room in a quota that it counts in")


# --- the placement itself ---------------------------------------------------------------------------------------------


def _list_own_events(key: str) -> Iterator[Waker]:
    scope = find_scope(key)
    snapshot, placement, binding = scope.policy_snapshot.kind, scope.placement.kind, scope.binding.kind
    yield _build_cluster_waker("Delete", _ANY_PLUGIN, "a cluster is deleted")
    yield _build_placement_waker(f"{snapshot}/Add", "the policy changes")
    yield _build_placement_waker(f"{snapshot}/UpdateCount", "the number of clusters changes")
    yield _build_placement_waker(f"{snapshot}/UpdateGeneration", "the placement is edited")
    yield _build_placement_waker(f"{snapshot}/UpdateLatest", "another policy becomes the latest")
    yield _build_placement_waker(f"{binding}/Add", "another client creates a binding of the placement")
    yield _build_placement_waker(f"{binding}/Delete", "a binding of the placement is deleted")
    yield _build_placement_waker(f"{placement}/Terminating", "the placement is being deleted")
    yield _build_placement_waker(f"{placement}/UpdateScheduler", "the placement names another profile")
    yield _build_placement_waker(
        f"{placement}/UpdateOptions", "its gates, its priority class, or whether it needs options"
    )


def _build_cluster_waker(action: str, plugin: str, when: str, names: tuple[str, ...] | None = None) -> Waker:
    listed = None if names is None else names[:_MOST_NAMES]
    more = len(names or ()) - len(listed or ())
    return Waker(event=f"{_CLUSTER}/{action}", plugin=plugin, when=when, names=listed, more_names=more)


def _sort(names: Iterable[str]) -> Iterator[str]:
    """A few at a time: tens of thousands of names at once would take as many microseconds, with no turn for others."""
    left = iter(names)
    return merge(*iter(lambda: sorted(islice(left, _SORTED_AT_ONCE)), []))


def _join_names(names: Sequence[str], *others: str) -> str:
    more = len(names) - _MOST_IN_WORDS
    return " or ".join([*names[:_MOST_IN_WORDS], *([f"one of {more} more"] if more > 0 else []), *others])


def _build_placement_waker(event: str, when: str) -> Waker:
    return _build_waker(event, _ANY_PLUGIN, when)


def _build_waker(event: str, plugin: str, when: str) -> Waker:
    return Waker(event=event, plugin=plugin, when=when, names=None)
