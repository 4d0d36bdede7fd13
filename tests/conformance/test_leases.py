"""Leader election against the hub: the lease is an ordinary object, and a hub that hangs leads to no second leader."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fleet.clock import SystemClock
from fleet.errors import LeadershipLost
from fleet.kube.client.transport import Transport
from fleet.kube.leader_election import LeaderElector, Leadership, LeaseDurations
from fleet.kube.lease import LEASES
from tests.conformance.embedded import new_hub
from tests.conformance.hub import Hub
from tests.conformance.playing import play

pytestmark = pytest.mark.servers

SHORT = LeaseDurations(duration=6, renew_deadline=4, retry=0.5)
"""For who is to lose it. A machine that is busy loses it now and then, too."""
OFTEN_RENEWED = LeaseDurations(duration=60, renew_deadline=45, retry=0.5)
ONLY_WATCHED = LeaseDurations(duration=7200, renew_deadline=7000, retry=3600)
"""Who does not watch the lease would notice nothing for an hour."""


def an_election(transport: Transport, key: str, name: str, *, terms: LeaseDurations = OFTEN_RENEWED) -> LeaderElector:
    return LeaderElector(transport, key, identity=name, clock=SystemClock(), jitter=lambda: 0.0, terms=terms)


def test_a_lease_is_taken_renewed_and_given_back(hub: Hub) -> None:
    key = f"{hub.namespace}/leader"

    def lease() -> Any:
        return hub.http.get(LEASES.item(key)).ok()["spec"]

    async def scene(transport: Transport) -> None:
        async def until_renewed(_: Leadership) -> None:
            taken = await asyncio.to_thread(lease)
            assert taken["holderIdentity"] == "one"
            while (await asyncio.to_thread(lease))["renewTime"] == taken["renewTime"]:
                await asyncio.sleep(0.05)

        await an_election(transport, key, "one").lead(until_renewed)
        assert not lease().get("holderIdentity")

    play(hub.access, scene)


def test_a_standby_takes_a_lease_when_it_is_given_back(hub: Hub) -> None:
    key = f"{hub.namespace}/handed-over"

    async def scene(transport: Transport) -> None:
        leads, ends = asyncio.Event(), asyncio.Event()
        one, two = (an_election(transport, key, name, terms=ONLY_WATCHED) for name in ("one", "two"))
        led: list[str] = []

        async def first(_: Leadership) -> None:
            led.append("first")
            leads.set()
            await ends.wait()

        async def second(_: Leadership) -> None:
            led.append("second")

        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(one.lead(first), name="one")
            await leads.wait()
            group.create_task(two.lead(second), name="two")
            await two._observed.wait()
            ends.set()
        assert led == ["first", "second"]

    play(hub.access, scene)


def test_who_holds_a_lease_on_a_hub_that_hangs_stops(target: str, tmp_path: Path) -> None:
    with new_hub(target, tmp_path / "hub") as own:

        async def scene(transport: Transport) -> None:
            async def for_ever(_: Leadership) -> None:
                own.pause()
                await asyncio.Event().wait()

            with pytest.raises(LeadershipLost, match="could not be renewed"):
                await an_election(transport, "default/leader", "one", terms=SHORT).lead(for_ever)

        play(own.access, scene)


def test_a_candidate_takes_over_from_one_that_vanished(hub: Hub) -> None:
    key = f"{hub.namespace}/leader"
    moment = "2026-01-01T00:00:00.000000Z"
    spec = {"holderIdentity": "vanished", "leaseDurationSeconds": 1, "renewTime": moment, "acquireTime": moment}
    hub.http.post(LEASES.collection(hub.namespace), {"metadata": {"name": "leader"}, "spec": spec}).ok()

    async def scene(transport: Transport) -> None:
        async def nothing(_: Leadership) -> str:
            return "done"

        assert await an_election(transport, key, "two").lead(nothing) == "done"

    play(hub.access, scene)
    assert hub.http.get(LEASES.item(key)).ok()["spec"]["leaseTransitions"] == 1
