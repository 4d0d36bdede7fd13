"""Which rejected placements an event can help: plugins register what could change their mind, and hints judge it.

A plugin that rejected a placement is asked about an event only if it registered for that kind of event. It may answer
per item, or for many items at once, and an index may name the few items that are worth asking about. In doubt a
placement is woken: a wasted attempt is cheap, a placement that sleeps through its chance is not. What waking means,
and who waits where, is left to the queue.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fleet.scheduler.queue.item import QueueItem

ANY: Final = "*"
NO_PLUGIN: Final = ""
"""Stands for the rejecting plugin of items that none rejected."""


class EventKind(NamedTuple):
    """Such as MemberCluster/UpdateTaints. `*` stands for every resource or action."""

    resource: str
    action: str

    def __str__(self) -> str:
        return f"{self.resource}/{self.action}"

    def covers(self, other: EventKind) -> bool:
        return self.resource in (ANY, other.resource) and self.action in (ANY, other.action)


EVERYTHING: Final = EventKind(ANY, ANY)


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """Something changed. What the objects are is between those who tell of events and the plugins."""

    kind: EventKind
    old: Any = None
    new: Any = None
    only: str | None = None
    """The one key it is about; all keys otherwise."""
    excluding: str | None = None
    """The key that caused it: space that a placement gave up cannot help that placement."""
    label: str = ""

    def __str__(self) -> str:
        return self.label or str(self.kind)

    def concerns(self, key: str) -> bool:
        return key != self.excluding and self.only in (None, key)


QueueingHint = Callable[[QueueEvent, QueueItem], bool]
"""Whether the event may make the plugin accept the item."""

BatchQueueingHint = Callable[[QueueEvent, Sequence[QueueItem]], Iterable[bool]]
"""The same for many items: a mask in their order, such as a numpy array of booleans."""

QueueingPreHint = Callable[[QueueEvent], Collection[str] | None]
"""The keys worth asking about; None for all."""


@dataclass(frozen=True, slots=True)
class EventRegistration:
    """A kind of event that may change a plugin's mind. Without a hint every such event does."""

    kind: EventKind
    hint: QueueingHint | None = None
    hint_many: BatchQueueingHint | None = None
    pre_hint: QueueingPreHint | None = None


class QueueingStrategy(enum.IntEnum):
    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


RejectedBy = Mapping[str, Mapping[str, QueueItem]]
"""Items by the plugin that rejected them (or holds them), then by key."""

OnError = Callable[[str, EventKind, Exception], None]


class _Listener(NamedTuple):
    plugin: str
    registration: EventRegistration


class QueueingHints:
    def __init__(
        self, registrations: Mapping[str, Sequence[EventRegistration]] | None = None, *, on_error: OnError | None = None
    ) -> None:
        """By plugin name. A plugin that registers nothing wants to know of everything.

        `on_error` is told of hints that raised; the items in question are woken."""
        self._listeners = [
            _Listener(plugin, one)
            for plugin, given in (registrations or {}).items()
            for one in given or (EventRegistration(EVERYTHING),)
        ]
        self._on_error = on_error
        self._by_kind: dict[EventKind, tuple[_Listener, ...]] = {}

    def handles(self, kind: EventKind) -> bool:
        """Whether anything can follow from such an event."""
        return kind == EVERYTHING or bool(self._of_kind(kind))

    def evaluate(self, event: QueueEvent, rejected_by: RejectedBy) -> dict[str, QueueingStrategy]:
        """Who is to be woken, and how. Keys that are to stay are not in it."""
        if event.kind == EVERYTHING:
            return _all_of(event, *rejected_by.values())
        listeners = self._of_kind(event.kind)
        if not listeners:
            return {}
        found = _all_of(event, rejected_by.get(NO_PLUGIN, {}))
        for listener in listeners:
            self._ask(listener, event, rejected_by.get(listener.plugin, {}), found)
        return found

    def evaluate_item(self, event: QueueEvent, item: QueueItem) -> QueueingStrategy:
        plugins = item.rejectors | item.pending or {NO_PLUGIN}
        return self.evaluate(event, {plugin: {item.key: item} for plugin in plugins}).get(
            item.key, QueueingStrategy.SKIP
        )

    def _of_kind(self, kind: EventKind) -> tuple[_Listener, ...]:
        known = self._by_kind.get(kind)
        if known is None:
            known = tuple(one for one in self._listeners if one.registration.kind.covers(kind))
            self._by_kind[kind] = known
        return known

    def _ask(
        self, listener: _Listener, event: QueueEvent, items: Mapping[str, QueueItem], found: dict[str, QueueingStrategy]
    ) -> None:
        asked, best = [], []
        for item in self._worth_asking(listener, event, items):
            wake = _strongest(listener.plugin, item)
            if event.concerns(item.key) and found.get(item.key, QueueingStrategy.SKIP) < wake:
                asked.append(item)
                best.append(wake)
        if not asked:
            return
        for item, wake, yes in zip(asked, best, self._answers(listener, event, asked), strict=True):
            if yes:
                found[item.key] = wake

    def _worth_asking(
        self, listener: _Listener, event: QueueEvent, items: Mapping[str, QueueItem]
    ) -> Iterator[QueueItem]:
        pre_hint = listener.registration.pre_hint
        if pre_hint is None or not items:
            return iter(items.values())
        try:
            keys = pre_hint(event)
        except Exception as error:
            self._tell(listener, error)
            keys = None
        return iter(items.values()) if keys is None else (items[key] for key in keys if key in items)

    def _answers(self, listener: _Listener, event: QueueEvent, items: Sequence[QueueItem]) -> Sequence[bool]:
        registered = listener.registration
        if registered.hint_many is not None:
            return self._many(listener, registered.hint_many, event, items)
        if registered.hint is None:
            return [True] * len(items)
        return [self._single(listener, registered.hint, event, item) for item in items]

    def _many(
        self, listener: _Listener, hint: BatchQueueingHint, event: QueueEvent, items: Sequence[QueueItem]
    ) -> Sequence[bool]:
        try:
            answers = [bool(one) for one in hint(event, items)]
            if len(answers) != len(items):
                raise ValueError(f"{len(answers)} answers for {len(items)} items")
        except Exception as error:
            self._tell(listener, error)
            return [True] * len(items)
        return answers

    def _single(self, listener: _Listener, hint: QueueingHint, event: QueueEvent, item: QueueItem) -> bool:
        try:
            return bool(hint(event, item))
        except Exception as error:
            self._tell(listener, error)
            return True

    def _tell(self, listener: _Listener, error: Exception) -> None:
        if self._on_error is not None:
            self._on_error(listener.plugin, listener.registration.kind, error)


def _all_of(event: QueueEvent, *groups: Mapping[str, QueueItem]) -> dict[str, QueueingStrategy]:
    return {key: QueueingStrategy.AFTER_BACKOFF for items in groups for key in items if event.concerns(key)}


def _strongest(plugin: str, item: QueueItem) -> QueueingStrategy:
    """What the plugin's yes is worth."""
    return (
        QueueingStrategy.IMMEDIATELY if plugin in item.pending and item.gate is None else QueueingStrategy.AFTER_BACKOFF
    )
