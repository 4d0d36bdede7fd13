"""Decisions one after the other, from where a reader stopped, and on as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from api.http.limits import Pace
from api.http.request_context import Asked
from api.models import DecisionModel
from api.services.attempts import clusters_named, decision_model, without_placement
from fleet.errors import FleetError
from fleet.history import HistoryAttempt

_PAGE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    since: int
    key: str | None = None
    outcome: str | None = None
    limit: int | None = None
    follow: bool = False


async def decisions(
    asked: Asked, selection: Selection, pace: Pace, *, check: Callable[[], Awaitable[None]]
) -> AsyncIterator[DecisionModel | None]:
    """None is a sign of life. Ends at the limit, when the reader may not read any more, and when all is told, unless
    it follows. `check` raises when the reader lost the right to it, or nobody can say."""
    clock = asked.live.clock
    begun = told = checked = clock.elapsed()
    seq, left = selection.since, selection.limit
    while left is None or left > 0:
        try:
            found = await _page(asked, selection, seq, left)
            shown = await _shown(asked, found)
        except FleetError:
            if not selection.follow:
                raise
            found, shown = [], []  # the history may come back, or the hub that says what may be shown
        for one in shown:
            yield one
        now = clock.elapsed()
        if found:
            seq, told = found[-1].seq, now
            left = None if left is None else left - len(found)
            continue
        if not selection.follow or now - begun >= pace.longest:
            return
        if now - told >= pace.sign_of_life:
            told = now
            yield None
        if now - checked >= pace.sign_of_life:
            checked = now
            try:
                await check()
            except FleetError:
                return
        await clock.sleep(pace.look_every)


async def _page(asked: Asked, selection: Selection, seq: int, left: int | None) -> list[HistoryAttempt]:
    limit = _PAGE if left is None else min(_PAGE, left)
    return await asyncio.to_thread(
        lambda: asked.history().since(seq, key=selection.key, outcome=selection.outcome, limit=limit)
    )


async def _shown(asked: Asked, found: list[HistoryAttempt]) -> list[DecisionModel]:
    if not found:
        return []
    sight = await asked.sight(clusters_named(found))
    shown = [decision_model(one, sight) for one in found]
    seen = await asked.placements_seen({one.key for one in found})
    return [one if one.key in seen else without_placement(one) for one in shown]
