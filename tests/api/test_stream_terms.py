"""Streams with more to send than their reader takes: they end, and rights are looked at, by time all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from api.auth.access import Caller, operator_access
from api.auth.permissions import Permissions
from api.http.limits import StreamTiming
from api.live.backend import Backend
from api.services.decisions import decision_stream
from api.services.decisions.decision_stream import StreamFilter, stream_decisions
from fleet.errors import FleetError
from tests.faults.virtual import VirtualClock, virtual

RIGHT = operator_access("get", "/v1/decisions")
FOLLOWING = StreamFilter(since=0, right=RIGHT, follow=True)
TIMING = StreamTiming()


class Endless:
    """A history in which there is always more, read by a client that takes one line in a second."""

    def __init__(self, clock: VirtualClock, *, revoked_after: float = float("inf")) -> None:
        self.clock, self.revoked_after = clock, revoked_after
        self.looks = 0

    def backend(self) -> Backend:
        live = type("Live", (), {"clock": self.clock})
        return cast("Backend", type("Backend", (), {"live": live})())

    def permissions(self) -> Permissions:
        permissions = Permissions(cast("Any", None), Caller("rosa"))

        async def require(request: object) -> None:
            self.looks += 1
            assert request == RIGHT
            if self.clock.monotonic() >= self.revoked_after:
                raise FleetError("revoked")

        permissions.require = require  # type: ignore[method-assign]
        return permissions


@pytest.fixture(autouse=True)
def _endless(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(backend: Backend, selected: StreamFilter, seq: int, remaining: int | None) -> list[Any]:
        return [type("Attempt", (), {"seq": seq + number + 1}) for number in range(50)]

    async def build(backend: Backend, permissions: Permissions, attempts: list[Any]) -> list[Any]:
        return attempts

    monkeypatch.setattr(decision_stream, "_read_page", read)
    monkeypatch.setattr(decision_stream, "_build_models", build)


async def read_slowly(stream: AsyncIterator[Any], clock: VirtualClock) -> float:
    began = clock.monotonic()
    async for _ in stream:
        await clock.sleep(1)
    return clock.monotonic() - began


@virtual
async def test_a_stream_ends_although_there_is_more() -> None:
    clock = VirtualClock()
    endless = Endless(clock)
    seconds = await read_slowly(stream_decisions(endless.backend(), endless.permissions(), FOLLOWING, TIMING), clock)

    assert TIMING.longest <= seconds <= TIMING.longest + 50
    assert endless.looks >= TIMING.longest / TIMING.heartbeat - 1


@virtual
async def test_a_stream_ends_soon_after_its_right_although_there_is_more() -> None:
    clock = VirtualClock()
    endless = Endless(clock, revoked_after=clock.monotonic() + 100)
    seconds = await read_slowly(stream_decisions(endless.backend(), endless.permissions(), FOLLOWING, TIMING), clock)

    assert 100 <= seconds <= 100 + TIMING.heartbeat + 1


@virtual
async def test_a_backlog_whose_reader_loses_the_right_fails_instead_of_looking_complete() -> None:
    clock = VirtualClock()
    endless = Endless(clock, revoked_after=clock.monotonic() + 100)
    backlog = replace(FOLLOWING, follow=False)

    with pytest.raises(FleetError, match="revoked"):
        await read_slowly(stream_decisions(endless.backend(), endless.permissions(), backlog, TIMING), clock)
