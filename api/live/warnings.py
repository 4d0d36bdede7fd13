"""Warning events about a placement, as far as neither its status nor its decision shows the same."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

import msgspec

from api.live.live import LivePlacement
from fleet.clock import Clock
from fleet.errors import ApiError
from fleet.kube.api import Api, Method, Request
from fleet.kube.events import EVENTS, WARNING
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import Metadata, View

_CLUSTER_SCOPED: Final = "default"
"""Namespace of events about cluster-scoped objects."""
_DEADLINE: Final = 2.0
_PAUSE: Final = 60.0
"""Seconds without a request after one that failed: answers do not wait for a hub that does not answer."""
_FRESH: Final = 2.0
"""Seconds for which events that were read are shown while they are read anew: who asks again and again does not
wait for a hub that is busy."""
_MOST_KNOWN: Final = 1000
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


Warnings = tuple[WarningEvent, ...]


class _Events(View, frozen=True):
    items: tuple[WarningEvent, ...] = ()


class WarningEvents:
    def __init__(self, api: Api | None, *, clock: Clock) -> None:
        """Without an API there are no events."""
        self._api = api
        self._clock = clock
        self._paused_until = 0.0
        self._known: OrderedDict[str, tuple[float, Warnings]] = OrderedDict()
        """By uid of the placement, with the time until which they are shown."""
        self._reading: dict[str, asyncio.Task[Warnings]] = {}

    async def list_latest(self, placement: LivePlacement) -> Warnings:
        """The newest first. None where the hub does not answer or does not allow it: an answer does without."""
        if self._api is None or self._clock.monotonic() < self._paused_until:
            return ()
        metadata = placement.placement.view.metadata
        reading = self._reading.get(metadata.uid)
        if reading is None:
            reading = self._reading[metadata.uid] = asyncio.create_task(self._read(self._api, metadata))
            reading.add_done_callback(lambda _: self._reading.pop(metadata.uid))
        shown_until, warnings = self._known.get(metadata.uid, (0.0, ()))
        if self._clock.monotonic() < shown_until:
            return warnings
        await asyncio.wait((reading,))  # it goes on for others when this caller goes
        return reading.result()

    async def _read(self, api: Api, metadata: Metadata) -> Warnings:
        request = Request(
            Method.GET,
            EVENTS.collection(metadata.namespace or _CLUSTER_SCOPED),
            query=(
                ("fieldSelector", f"involvedObject.uid={metadata.uid},type={WARNING}"),
                ("limit", str(_MOST_LISTED)),
            ),
            deadline=_DEADLINE,
        )
        try:
            events = msgspec.json.decode(await api.call(request), type=_Events).items
        except (ApiError, msgspec.MsgspecError):
            self._paused_until = self._clock.monotonic() + _PAUSE
            return ()
        others = [event for event in events if event.reason not in _SHOWN_ELSEWHERE]
        warnings = tuple(sorted(others, key=_order, reverse=True)[:_MOST])
        self._known.pop(metadata.uid, None)
        self._known[metadata.uid] = self._clock.monotonic() + _FRESH, warnings
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return warnings


def _order(event: WarningEvent) -> tuple[int, str]:
    return timestamp_or_none(event.at) or 0, event.message
