"""Queueing hints of plugins: of the rejected placements that a change of a cluster may help, those whose rejecting
plugins agree.

Plugins with `queueing_hints` are asked in the profiles that have them, and only about placements that they rejected.
The others of such a profile have no say of their own: what the index selects for them is requeued.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.framework.explaining import ClusterVersions, HintRegistration
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.placement_key import PlacementKey
from fleet.model.views import MemberCluster
from fleet.scheduler.companions import GANG
from fleet.scheduler.events.cluster_diff import ClusterDiff
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.hints import ANY, GIVEN_BACK, EventKind, EventRegistration, QueueEvent, QueueingHints
from fleet.scheduler.queue.item import QueueItem

METHOD: Final = "queueing_hints"

ObserveHint = Callable[[str, str, str, float], None]
"""Called with plugin, event, result and the seconds that the hint took."""

log = structlog.get_logger(__name__)


class PluginHints:
    def __init__(
        self,
        *,
        profile_of: Callable[[PlacementKey], CompiledProfile],
        compile_request: Callable[[PlacementKey], PlacementRequest | None],
        observe: ObserveHint,
        clock: Clock,
    ) -> None:
        self._profile_of = profile_of
        self._compile = compile_request
        self._observe = observe
        self._clock = clock
        self._names: frozenset[str] = frozenset()
        """Of the profiles with such plugins."""
        self.registered = QueueingHints(on_error=_log_error)
        """For the queue."""

    def register(self, profiles: Iterable[CompiledProfile]) -> None:
        """In place of the former profiles."""
        hinted = [profile for profile in profiles if profile.find_plugins(METHOD)]
        self._names = frozenset(profile.scheduler_name for profile in hinted)
        registrations = {GANG: [EventRegistration(GIVEN_BACK)]}
        for profile in hinted:
            own = {name: plugin.queueing_hints() for name, plugin in profile.find_plugins(METHOD)}
            judges = [judge.name for judge in profile.judges]
            for name in dict.fromkeys((*judges, *(name for name, _ in profile.find_plugins("name")))):
                hints = own.get(name, (HintRegistration(ANY),))
                registrations.setdefault(name, []).extend(
                    EventRegistration(_parse_event(each.event), partial(self._ask, profile.scheduler_name, name, each))
                    for each in hints
                )
        self.registered.register(registrations)

    def offer(
        self,
        queue: AsyncQueue,
        keys: Collection[PlacementKey],
        diff: ClusterDiff,
        old: MemberCluster | None,
        new: MemberCluster | None,
    ) -> Collection[PlacementKey]:
        """The keys that plugins were not asked about: of other profiles, or not rejected."""
        if not self._names:
            return keys
        asked = frozenset(key for key in keys if self._is_hinted(key) and queue.leaves_to_hints(key))
        for action in diff.events if asked else ():
            kind = EventKind(MEMBER_CLUSTERS.kind, action)
            queue.handle_event(QueueEvent(kind, old, new, among=asked, label=str(diff)))
        return [key for key in keys if key not in asked] if asked else keys

    def _is_hinted(self, key: PlacementKey) -> bool:
        return self._profile_of(key).scheduler_name in self._names

    def _ask(self, profile: str, plugin: str, registered: HintRegistration, event: QueueEvent, item: QueueItem) -> bool:
        if self._profile_of(item.key).scheduler_name != profile:
            return False
        request = None if registered.hint is None else self._compile(item.key)
        if registered.hint is None or request is None:
            return True
        started, result = self._clock.monotonic(), "Error"
        try:
            is_hit = bool(registered.hint(ClusterVersions(event.old, event.new), request))
            result = "Queue" if is_hit else "Skip"
        finally:
            self._observe(plugin, str(event.kind), result, self._clock.monotonic() - started)
        return is_hit


def _parse_event(event: str) -> EventKind:
    resource, _, action = event.rpartition("/")
    return EventKind(resource or MEMBER_CLUSTERS.kind, action)


def _log_error(plugin: str, kind: EventKind, error: Exception) -> None:
    log.warning("a queueing hint failed: the placement is requeued", plugin=plugin, change=str(kind), exc_info=error)
