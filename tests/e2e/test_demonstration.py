"""A placement from its first decision to a fix that is carried out, on both targets and under both rankings.

It is spread, loses a cluster, shrinks, and gets another policy. Then the API is asked why a cluster that would do was
not taken; what it says would help best is done, and helps as it said. In the end all attempts are decided again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.http.server import ListenOptions, serve_app
from api.live.embedded import build_live_state
from fleet.clock import SystemClock
from fleet.history import History
from fleet.recorder.recorder import CombinedRecorder, build_recorder, run_history
from fleet.settings import Address, load_settings
from tests.control_plane.access import ADMIN
from tests.e2e.hub import Hub
from tests.e2e.scheduling import Notebook, Overheard, Stage, story
from tests.e2e.world import Json, controlled
from tests.unit.scheduler.test_configured_profiles import HEAD

PATIENT: Final = "eligibility.heartbeatTimeout=24h"
"""Nobody sends heartbeats here."""

TIERS: Final = {"gold": ("ams-1", "ams-2"), "silver": ("ams-3", "dub-1", "osl-1"), "bronze": ("dub-2", "osl-2")}
LABELS: Final = {name: {"region": name[:3], "tier": tier} for tier, names in TIERS.items() for name in names}
"""By cluster."""

EVENLY: Final = {"topologyKey": "region", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
GOOD_TIERS: Final = {"key": "tier", "operator": "In", "values": ["gold", "silver"]}


def preferring(**weights: int) -> list[Json]:
    """By tier."""
    return [
        {"weight": weight, "preference": {"labelSelector": {"matchLabels": {"tier": tier}}}}
        for tier, weight in weights.items()
    ]


def spread_over(count: int, *, prefers: list[Json], requires: Json | None = None) -> Json:
    terms: Json = {"preferredDuringSchedulingIgnoredDuringExecution": prefers}
    if requires is not None:
        term = {"labelSelector": {"matchExpressions": [requires]}}
        terms["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": [term]}
    return {
        "placementType": "PickN",
        "numberOfClusters": count,
        "topologySpreadConstraints": [EVENLY],
        "affinity": {"clusterAffinity": terms},
    }


FIRST_POLICY: Final = spread_over(4, prefers=preferring(gold=60, silver=20))
SECOND_POLICY: Final = spread_over(3, prefers=preferring(silver=60), requires=GOOD_TIERS)

KEPT_IN_THE_REGION: Final = {"lexicographic": "ams-2", "weighted": "ams-3"}
"""Which of the two in Amsterdam stays when one has to go: by the scores that they were picked with, the lower leaves.
Compared as they are, the 60 of gold are more than the 20 of silver. Scaled to be added up, each of the two was the best
of its attempt, and of equals the smaller name leaves."""


@dataclass(frozen=True)
class Demonstration:
    fleet: Stage
    asking: httpx.AsyncClient
    history: History

    async def told(self, path: str) -> Json:
        answer = await self.asking.get(path)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def clusters(self) -> set[str]:
        """Those of the placement, once nothing is left to be done."""
        await self.fleet.settled()
        return await self.fleet.in_use("web")


@asynccontextmanager
async def demonstration(hub: Hub, folder: Path, ranking: str) -> AsyncIterator[Demonstration]:
    """A controller that records, and the API beside it."""
    document = folder / "fleet.yaml"
    document.write_text(f"{HEAD}profiles: [{{ranking: {ranking}}}]\n")
    effective = load_settings(document, {}, [PATIENT])
    url, clock, notebook = f"sqlite:///{folder / 'history.sqlite'}", SystemClock(), Notebook()
    async with (
        run_history(effective.settings, url=url, may_migrate=True, clock=clock) as history,
        hub.connected() as own,
        hub.connected() as transport,
    ):
        assert history is not None
        overheard = Overheard(transport)
        recorder = CombinedRecorder(notebook, build_recorder(history, effective.settings))
        async with controlled(overheard, PATIENT, recorder=recorder, file=document) as controller:
            app = create_app(
                build_live_state(controller), history, HubAuthorizer(own, clock=clock), effective, shares_loop=True
            )
            async with (
                serve_app(app, ListenOptions(address=Address("127.0.0.1:0"))) as api,
                httpx.AsyncClient(base_url=api, headers=bearer(hub), timeout=60) as asking,
            ):
                fleet = Stage(own, controller, overheard, notebook)
                yield Demonstration(fleet, asking, history)


def bearer(hub: Hub) -> dict[str, str]:
    return {"Authorization": f"Bearer {hub.access.tokens[ADMIN]}"}


@pytest.fixture(params=["lexicographic", "weighted"])
def ranking(request: pytest.FixtureRequest) -> str:
    """Of the profile of the controller and of the API."""
    name: str = request.param
    return name


@pytest.mark.timeout(600)
@story
async def test_a_placement_from_its_first_decision_to_a_fix_that_helps(hub: Hub, ranking: str, tmp_path: Path) -> None:
    async with demonstration(hub, tmp_path, ranking) as shown:
        fleet = shown.fleet
        await fleet.join_all(LABELS)
        await fleet.settled()

        await fleet.place("web", FIRST_POLICY)
        assert await shown.clusters() == {"ams-1", "ams-2", "dub-1", "osl-1"}

        await fleet.leave("ams-1")
        assert await shown.clusters() == {"ams-2", "ams-3", "dub-1", "osl-1"}

        await fleet.edit_policy("web", numberOfClusters=3)
        assert await shown.clusters() == {KEPT_IN_THE_REGION[ranking], "dub-1", "osl-1"}

        await fleet.set_policy("web", SECOND_POLICY)
        assert await shown.clusters() == {"ams-3", "dub-1", "osl-1"}

        best = await best_fix_of_who_fits(shown)
        await carry_out(fleet, best)
        await has_its_stated_effect(shown, best)
        await all_attempts_are_decided_the_same_again(shown)


async def best_fix_of_who_fits(shown: Demonstration) -> Json:
    """Of the one gold cluster that is left: the policy prefers others now."""
    answer = await shown.told("/v1/clusters/ams-2/why-not?placement=web")

    (row,) = answer["attempt"]["clusters"]
    assert (row["name"], row["outcome"], row["because"]) == ("ams-2", "fit-not-selected", "rank")
    assert (row["rank"], row["margin"]["to"]) == (4, "ams-3")
    assert row["margin"]["affinity"] < 0
    assert all(fix["verified"] for fix in answer["fixes"])
    best: Json = answer["fixes"][0]
    return best


async def carry_out(fleet: Stage, fix: Json) -> None:
    (edit,) = fix["edits"]
    assert edit == {"op": "setCount", "value": 4}
    await fleet.edit_policy("web", numberOfClusters=edit["value"])


async def has_its_stated_effect(shown: Demonstration, fix: Json) -> None:
    effect = fix["effect"]
    assert "ams-2" in effect["targets"]
    assert await shown.clusters() == set(effect["targets"])

    answer = await shown.told("/v1/clusters/ams-2/why-not?placement=web")
    (row,) = answer["attempt"]["clusters"]
    assert row["outcome"] == effect["after"] == "selected"
    assert answer["verdict"]["inUse"] == effect["selected"] == 4


async def all_attempts_are_decided_the_same_again(shown: Demonstration) -> None:
    """As they were made: those on record have the digests that the scheduler's decisions had."""
    assert await asyncio.to_thread(shown.history.flush, seconds=90.0)
    items = (await shown.told("/v1/placements/-/web/history"))["items"]
    kept = [one for one in reversed(items) if one["digest"]]
    made = [one.decision.digest for one in shown.fleet.notebook.attempts if one.decision is not None]
    assert {one["digest"] for one in kept} == set(made)
    told = [one["outcome"] for one in kept if one["outcome"] != "Unchanged"]
    assert told == ["Selected", "Selected", "Shrink", "Selected", "Selected"]

    again = await shown.asking.post("/v1/replay", json={"select": {"ids": [one["id"] for one in kept]}})

    found = again.json()
    assert (found["attempts"], found["same"], found["different"]) == (len(kept), len(kept), [])
