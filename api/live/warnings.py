"""Warning events about a placement, as far as neither its status nor its decision shows the same."""

from __future__ import annotations

from typing import Final

import msgspec

from api.live.live import LivePlacement
from fleet.clock import Clock
from fleet.errors import ApiError
from fleet.kube.api import Api, Method, Request
from fleet.kube.events import EVENTS, WARNING
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import View

_CLUSTER_SCOPED: Final = "default"
"""Namespace of events about cluster-scoped objects."""
_DEADLINE: Final = 2.0
_PAUSE: Final = 60.0
"""Seconds without a request after one that failed: answers do not wait for a hub that does not answer."""
_MOST: Final = 5
_MOST_LISTED: Final = 100
_SHOWN_ELSEWHERE: Final = frozenset(
    {
        "ClusterPropertyUnreadable",
        "PlacementApplyFailed",
        "PlacementNotAvailable",
        "PlacementOverrideFailed",
        "PlacementSelectorInvalid",
        "PlacementStatusSyncFailed",
        "PolicyRemarked",
        "SchedulingIncomplete",
    }
)
"""Reasons of events that repeat a condition, a remark or the summary."""


class WarningEvent(View, frozen=True):
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def at(self) -> str:
        return self.last_timestamp or self.event_time or ""


class _Events(View, frozen=True):
    items: tuple[WarningEvent, ...] = ()


class WarningEvents:
    def __init__(self, api: Api | None, *, clock: Clock) -> None:
        """Without an API there are no events."""
        self._api = api
        self._clock = clock
        self._paused_until = 0.0

    async def list_latest(self, placement: LivePlacement) -> tuple[WarningEvent, ...]:
        """The newest first. None where the hub does not answer or does not allow it: an answer does without."""
        if self._api is None or self._clock.monotonic() < self._paused_until:
            return ()
        metadata = placement.placement.view.metadata
        selector = f"involvedObject.uid={metadata.uid},type={WARNING}"
        request = Request(
            Method.GET,
            EVENTS.collection(metadata.namespace or _CLUSTER_SCOPED),
            query=(("fieldSelector", selector), ("limit", str(_MOST_LISTED))),
            deadline=_DEADLINE,
        )
        try:
            events = msgspec.json.decode(await self._api.call(request), type=_Events).items
        except (ApiError, msgspec.MsgspecError):
            self._paused_until = self._clock.monotonic() + _PAUSE
            return ()
        others = [event for event in events if event.reason not in _SHOWN_ELSEWHERE]
        return tuple(sorted(others, key=_order, reverse=True)[:_MOST])


def _order(event: WarningEvent) -> tuple[int, str]:
    return timestamp_or_none(event.at) or 0, event.message
