"""Writes that the hub carries out after their client has given up on them, and after it has decided anew.

Nobody can call such a write back. What it must not do is stay: a binding too many is noticed when it appears, and so is
one whose placement is gone.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
import pytest

from fleet.demo.agents import AgentDelays
from fleet.kube.api import DEFAULT_DEADLINE, Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import BOUND, SCHEDULED
from tests.e2e.world import World
from tests.faults.controller.line import Fault, Faults, Killed, Late
from tests.faults.controller.stage import Checkpoint, checkpoints, staged
from tests.faults.virtual import run_virtually

pytestmark = pytest.mark.timeout(300)

WANTED: Final = 3
SLOW: Final = AgentDelays(binding=1.0)
"""A rollout controller leaves bindings alone whose placement is gone. The stand-in knows no placements: without a delay
it may bind them first, and what is bound stands for workload and stays."""


class FirstBinding:
    """The first binding that is created meets the fault."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.met: dict[str, Any] | None = None

    def __call__(self, _: int) -> Faults:
        return self._meets

    def _meets(self, _: int, request: Request) -> Fault:
        if self.met is not None or request.method is not Method.POST:
            return None
        if not request.path.endswith(f"/{CLUSTER_SCOPED.binding.plural}"):
            return None
        self.met = msgspec.json.decode(request.body or b"")
        return self.fault

    @property
    def cluster(self) -> str:
        assert self.met is not None
        return str(self.met["spec"]["targetCluster"])


async def one_too_many(start: Checkpoint, late: FirstBinding, *, meanwhile: float) -> None:
    """The cluster of the late binding is closed in the meantime, so that another takes its place."""
    async with staged(start, script=late) as stage:
        await stage.user.place("web", {"placementType": "PickN", "numberOfClusters": WANTED})
        while late.met is None:
            await asyncio.sleep(0.001)
        await stage.user.taint(late.cluster, {"key": "closed", "effect": "NoSchedule"})
        await asyncio.sleep(meanwhile)
        assert late.cluster not in await stage.user.in_use("web")
        assert len(await stage.user.in_use("web")) == WANTED
        await stage.rest()
        names = [one["metadata"]["name"] for one in await stage.user.bindings("web")]
        assert len(names) == WANTED
        assert any("live bindings" in one for one in stage.guard.broken), "it never arrived"


def test_a_binding_created_after_its_deadline_is_one_too_many_for_a_moment_only() -> None:
    late = FirstBinding(Late(20.0))
    run_virtually(one_too_many(checkpoints()[0], late, meanwhile=DEFAULT_DEADLINE + 10.0))


def test_a_binding_that_a_dead_process_created_late_is_one_too_many_for_a_moment_only() -> None:
    late = FirstBinding(Killed(arrives=20.0))
    run_virtually(one_too_many(checkpoints()[0], late, meanwhile=10.0))


# --- after its placement ----------------------------------------------------------------------------------------------


async def outlived(
    start: Checkpoint, late: FirstBinding, *, meanwhile: float, finalizers: tuple[str, ...] = ()
) -> None:
    """The placement is deleted while its first binding is on the way. With finalizers of others, it stays for long."""
    async with staged(start, script=late, delays=SLOW) as stage:
        placements = CLUSTER_SCOPED.placement
        await stage.user.place("web", {"placementType": "PickN", "numberOfClusters": WANTED})
        while late.met is None:
            await asyncio.sleep(0.001)
        await stage.user.patch(placements, "web", {"metadata": {"finalizers": [*await held(stage.user), *finalizers]}})
        await stage.user.delete(placements, "web")
        await asyncio.sleep(meanwhile)
        assert await held(stage.user) == list(finalizers)
        assert await stage.user.bindings("web") == []
        arrived = asyncio.create_task(stage.arrival("web"))
        await stage.rest()
        assert arrived.done(), "it never arrived"
        assert await stage.user.bindings("web") == []


async def held(user: World) -> list[str]:
    """The finalizers of the placement."""
    found = await user.find(CLUSTER_SCOPED.placement, "web")
    return [] if found is None else list(found["metadata"].get("finalizers", ()))


@pytest.mark.parametrize("finalizers", [(), ("example.com/keeps",)], ids=["gone", "leaving"])
@pytest.mark.parametrize("fault", [Late(60.0), Killed(arrives=60.0)], ids=["in life", "after death"])
def test_a_binding_that_is_created_after_its_placement_was_cleaned_up_does_not_stay(
    fault: Fault, finalizers: tuple[str, ...]
) -> None:
    late = FirstBinding(fault)
    run_virtually(outlived(checkpoints()[0], late, meanwhile=DEFAULT_DEADLINE + 10.0, finalizers=finalizers))


# --- in spite of its finalizers ---------------------------------------------------------------------------------------


async def vanished(
    start: Checkpoint, *, state: str = BOUND, after: float = 0.0, restores: bool = False
) -> tuple[list[str], list[str]]:
    """The placement is gone at once, when its bindings are in this state, and maybe created again. Returns the states
    of the bindings and the names of the policy snapshots that are left."""
    async with staged(start, delays=SLOW) as stage:
        user, policy = stage.user, {"placementType": "PickN", "numberOfClusters": WANTED}
        await user.place("web", policy)
        while await states(user) != [state] * WANTED:
            await asyncio.sleep(0.001)
        await asyncio.sleep(after)
        stage.hub.remove_at_once(CLUSTER_SCOPED.placement, ("", "web"))
        if restores:
            await user.place("web", policy)
        await stage.rest()
        snapshots = await user.all(CLUSTER_SCOPED.policy_snapshot)
        return await states(user), [one["metadata"]["name"] for one in snapshots]


async def states(user: World) -> list[str]:
    return sorted(str(one["spec"]["state"]) for one in await user.bindings("web"))


@pytest.mark.parametrize("state", [SCHEDULED, BOUND])
def test_a_placement_whose_new_finalizers_were_ignored_leaves_nothing(state: str) -> None:
    """An API server that has begun to delete an object ignores the finalizers that it gets meanwhile."""
    assert run_virtually(vanished(checkpoints()[0], state=state)) == ([], [])


def test_bound_bindings_of_an_older_placement_that_vanished_wait_for_it() -> None:
    """No deletion takes that long: somebody is at work on the hub, and members keep what runs on them."""
    left, _ = run_virtually(vanished(checkpoints()[0], after=180.0))
    assert left == [BOUND] * WANTED


def test_one_that_is_created_again_at_once_keeps_the_bindings_that_are_bound() -> None:
    left, snapshots = run_virtually(vanished(checkpoints()[0], restores=True))
    assert (left, snapshots) == ([BOUND] * WANTED, ["web-0"])
