"""Queueing hints: plugins register the events that may make a placement they rejected schedulable.

The hint of a plugin is called only for events of the kinds that it registered. In doubt a placement is requeued: a
wasted attempt is cheap, a missed chance is not. The moves that follow are left to the queue.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.item import QueueItem

ANY: Final = "*"
NO_PLUGIN: Final = ""
"""In place of a plugin, for items that no plugin rejected."""


class EventKind(NamedTuple):
    """Such as MemberCluster/UpdateTaints. `*` stands for every resource or action."""

    resource: str
    action: str

    def __str__(self) -> str:
        return f"{self.resource}/{self.action}"

    def covers(self, other: EventKind) -> bool:
        return self.resource in (ANY, other.resource) and self.action in (ANY, other.action)


EVERYTHING: Final = EventKind(ANY, ANY)
GIVEN_BACK: Final = EventKind("PlacementGroup", "GivenBack")
"""An attempt has ended that gave something back which may help members of groups."""


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """A change of an object. The types of `old` and `new` are agreed between event handlers and plugins."""

    kind: EventKind
    old: Any = None
    new: Any = None
    only: PlacementKey | None = None
    """The only key it is about; None for all keys."""
    excluding: PlacementKey | None = None
    """The key that caused it: space that a placement releases cannot help that placement."""
    among: Collection[PlacementKey] | None = None
    """The keys that an index has selected; None for all keys."""
    plugins: Collection[str] | None = None
    """Those whose rejections it may end; None for all."""
    backs_off: bool = False
    """It comes from attempts that are refused, as those are that it wakes: without a delay they would wake each other
    without end."""
    label: str = ""

    def __str__(self) -> str:
        return self.label or str(self.kind)

    def concerns(self, key: PlacementKey) -> bool:
        return key != self.excluding and self.only in (None, key) and (self.among is None or key in self.among)


QueueingHint = Callable[[QueueEvent, QueueItem], bool]
"""Whether the event may make the item schedulable for the plugin."""


@dataclass(frozen=True, slots=True)
class EventRegistration:
    """A kind of event that may make items schedulable for a plugin. Without a hint every such event may."""

    kind: EventKind
    hint: QueueingHint | None = None


class QueueingStrategy(enum.IntEnum):
    SKIP = 0
    AFTER_FULL_BACKOFF = 1
    """Also in profiles without backoff, and no idle worker takes it earlier."""
    AFTER_BACKOFF = 2
    IMMEDIATELY = 3


RejectedBy = Mapping[str, Mapping[PlacementKey, QueueItem]]
"""Items by the plugin that rejected or gates them, then by key."""

OnError = Callable[[str, EventKind, Exception], None]


class _Listener(NamedTuple):
    plugin: str
    registration: EventRegistration


class QueueingHints:
    def __init__(
        self, registrations: Mapping[str, Sequence[EventRegistration]] | None = None, *, on_error: OnError | None = None
    ) -> None:
        """`on_error` is called for hints that raised; their items are requeued."""
        self._on_error = on_error
        self.register(registrations)

    def register(self, registrations: Mapping[str, Sequence[EventRegistration]] | None) -> None:
        """By plugin name, in place of the former ones. A plugin without a registration is registered for every
        event."""
        self._listeners = [
            _Listener(plugin, registration)
            for plugin, registered in (registrations or {}).items()
            for registration in registered or (EventRegistration(EVERYTHING),)
        ]
        self._by_kind: dict[EventKind, tuple[_Listener, ...]] = {}

    def handles(self, kind: EventKind) -> bool:
        """Whether such an event can requeue anything."""
        return kind == EVERYTHING or bool(self._listeners_for(kind))

    def evaluate(self, event: QueueEvent, rejected_by: RejectedBy) -> dict[PlacementKey, QueueingStrategy]:
        """The keys to requeue, and how. Keys to skip are not in it."""
        if event.kind == EVERYTHING:
            return _requeue_all(event, *rejected_by.values())
        listeners = self._listeners_for(event.kind)
        if not listeners:
            return {}
        strategies = _requeue_all(event, rejected_by.get(NO_PLUGIN, {})) if event.plugins is None else {}
        for listener in listeners:
            if event.plugins is None or listener.plugin in event.plugins:
                self._evaluate(listener, event, rejected_by.get(listener.plugin, {}), strategies)
        return dict.fromkeys(strategies, QueueingStrategy.AFTER_FULL_BACKOFF) if event.backs_off else strategies

    def evaluate_item(self, event: QueueEvent, item: QueueItem) -> QueueingStrategy:
        plugins = item.rejectors | item.pending or {NO_PLUGIN}
        strategies = self.evaluate(event, {plugin: {item.key: item} for plugin in plugins})
        return strategies.get(item.key, QueueingStrategy.SKIP)

    def _listeners_for(self, kind: EventKind) -> tuple[_Listener, ...]:
        listeners = self._by_kind.get(kind)
        if listeners is None:
            listeners = tuple(each for each in self._listeners if each.registration.kind.covers(kind))
            self._by_kind[kind] = listeners
        return listeners

    def _evaluate(
        self,
        listener: _Listener,
        event: QueueEvent,
        items: Mapping[PlacementKey, QueueItem],
        strategies: dict[PlacementKey, QueueingStrategy],
    ) -> None:
        """Adds to `strategies` what the hint of one plugin can improve."""
        keys = items if event.among is None else (key for key in event.among if key in items)
        for key in keys:
            item, strategy = items[key], _strongest_strategy(listener.plugin, items[key])
            is_better = event.concerns(key) and strategies.get(key, QueueingStrategy.SKIP) < strategy
            if is_better and self._call_hint(listener, event, item):
                strategies[key] = strategy

    def _call_hint(self, listener: _Listener, event: QueueEvent, item: QueueItem) -> bool:
        hint = listener.registration.hint
        try:
            return hint is None or bool(hint(event, item))
        except Exception as error:
            if self._on_error is not None:
                self._on_error(listener.plugin, listener.registration.kind, error)
            return True


def _requeue_all(event: QueueEvent, *groups: Mapping[PlacementKey, QueueItem]) -> dict[PlacementKey, QueueingStrategy]:
    return {key: QueueingStrategy.AFTER_BACKOFF for items in groups for key in items if event.concerns(key)}


def _strongest_strategy(plugin: str, item: QueueItem) -> QueueingStrategy:
    """How an item is requeued if the hint of this plugin hits."""
    return (
        QueueingStrategy.IMMEDIATELY if plugin in item.pending and item.gate is None else QueueingStrategy.AFTER_BACKOFF
    )
