"""A stream of recorded decisions, from a sequence number on, and further ones as they are recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from api.auth.access import AccessRequest
from api.auth.permissions import Permissions
from api.http.limits import StreamTiming
from api.live.backend import Backend
from api.models import DecisionModel
from api.services.decisions.attempts import build_decision_model, collect_cluster_names, redact_placement
from fleet.clock import Clock
from fleet.errors import FleetError
from fleet.history import HistoryAttempt

_PAGE_SIZE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFilter:
    since: int
    right: AccessRequest
    """Required again while the stream is open: tokens expire, and rights are revoked."""
    key: str | None = None
    outcome: str | None = None
    limit: int | None = None
    follow: bool = False


async def stream_decisions(
    backend: Backend, permissions: Permissions, selected: StreamFilter, timing: StreamTiming
) -> AsyncIterator[DecisionModel | None]:
    """None is a heartbeat. Ends at the limit, when the right is lost or cannot be reviewed, after the longest time,
    and, unless it follows, after the last decision. One that does not follow fails instead of ending early."""
    clock = backend.live.clock
    term = _Term(permissions, selected, clock, timing)
    last_sent = clock.monotonic()
    seq, remaining = selected.since, selected.limit
    while remaining is None or remaining > 0:
        try:
            attempts = await _read_page(backend, selected, seq, remaining)
            models = await _build_models(backend, permissions, attempts)
        except FleetError:
            if not selected.follow:
                raise
            attempts, models = [], []  # the history or the hub may come back
        for model in models:
            yield model
            if not await term.is_permitted():
                return
        now = clock.monotonic()
        if term.is_over:
            return
        if attempts:
            seq, last_sent = attempts[-1].seq, now
            remaining = None if remaining is None else remaining - len(attempts)
            continue
        if not selected.follow or not await term.is_permitted():
            return
        if now - last_sent >= timing.heartbeat:
            last_sent = now
            yield None
        await clock.sleep(timing.poll_interval)


class _Term:
    """How long a stream may go on: looked at by time, however much there is to send."""

    def __init__(self, permissions: Permissions, selected: StreamFilter, clock: Clock, timing: StreamTiming) -> None:
        self._permissions, self._selected, self._clock, self._timing = permissions, selected, clock, timing
        self._began = self._last_checked = clock.monotonic()

    @property
    def is_over(self) -> bool:
        return self._selected.follow and self._clock.monotonic() - self._began >= self._timing.longest

    async def is_permitted(self) -> bool:
        now = self._clock.monotonic()
        if now - self._last_checked < self._timing.heartbeat:
            return True
        self._last_checked = now
        try:
            await self._permissions.renew()
            await self._permissions.require(self._selected.right)
        except FleetError:
            if self._selected.follow:
                return False
            raise
        return True


async def _read_page(backend: Backend, selected: StreamFilter, seq: int, remaining: int | None) -> list[HistoryAttempt]:
    limit = _PAGE_SIZE if remaining is None else min(_PAGE_SIZE, remaining)
    since = backend.history.require().since
    return await backend.history.call(since, seq, key=selected.key, outcome=selected.outcome, limit=limit)


async def _build_models(
    backend: Backend, permissions: Permissions, attempts: list[HistoryAttempt]
) -> list[DecisionModel]:
    if not attempts:
        return []
    visibility = await permissions.load_visibility(backend.live.caches.clusters, collect_cluster_names(attempts))
    visible = await permissions.filter_placements({attempt.key for attempt in attempts})
    models = (build_decision_model(attempt, visibility) for attempt in attempts)
    return [model if model.key in visible else redact_placement(model) for model in models]
