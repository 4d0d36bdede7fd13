"""Answers while the newest decisions are still in the write buffer of the history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fleet.history.history import WriterTiming
from fleet.kube.scopes import MEMBER_CLUSTERS
from tests.api.stage import Json, Stage, a_stage
from tests.databases import SOON
from tests.e2e.world import handed_over, soon

UNTIL_ASKED_FOR = WriterTiming(linger=3600.0, quiet=3600.0, burst=3600.0)
WHY = "/v1/placements/-/web/why"


@asynccontextmanager
async def moved(folder: Path) -> AsyncIterator[tuple[Stage, int, str]]:
    """A cluster left that `web` was on, which is on another one by now, and nothing of that is recorded: the newest
    record, and the cluster."""
    async with a_stage(folder, records=UNTIL_ASKED_FOR) as stage:
        before, known = await stage.world.in_use("web"), (await stage.json(WHY))["recorded"]["n"]
        left = min(before)
        await stage.world.delete(MEMBER_CLUSTERS, left)

        async def has_moved() -> bool:
            now = await stage.world.in_use("web")
            return len(now) == 2 and left not in now

        await soon(has_moved)
        await handed_over(stage.controller)
        yield stage, known, left


def chosen(found: Json) -> set[str]:
    return {one["name"] for one in found["attempt"]["clusters"] if one["outcome"] in ("selected", "already-selected")}


def test_a_decision_that_waits_to_be_recorded_is_recorded_for_who_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with moved(tmp_path) as (stage, known, _):
            found = await stage.json(WHY)

            assert chosen(found) == await stage.world.in_use("web")
            assert found["attempt"]["evaluatedOn"] == "recorded"
            assert found["attempt"]["n"] > known

    monkeypatch.setattr("api.services.decisions.attempts._FLUSH_SECONDS", SOON)
    asyncio.run(main())


def test_where_it_cannot_be_recorded_in_time_the_answer_is_about_the_fleet_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with moved(tmp_path) as (stage, known, left):
            with monkeypatch.context() as patched:
                patched.setattr(stage.history, "flush", lambda *, seconds: False)
                found = await stage.json(WHY)

            assert chosen(found) == await stage.world.in_use("web")
            assert (found["attempt"]["evaluatedOn"], found["recorded"]["n"]) == ("current", known)
            assert left in {one["cluster"] for one in found["recorded"]["targets"]}

    asyncio.run(main())
