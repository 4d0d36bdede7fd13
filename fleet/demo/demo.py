"""The demo as a whole: simulated members, workloads with placements, and agents that roll them out."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from fleet.clock import Clock
from fleet.demo.agents import AgentDelays, RolloutSimulator
from fleet.demo.members import Announce, MemberBehavior, SimulatedMembers
from fleet.demo.usage import WorkloadUsage
from fleet.demo.workloads import Workloads
from fleet.kube.api import Api

FIRST_SIZE: Final = 12
TOURED: Final = frozenset({"atl-1", "bom-1", "dub-1", "iad-1", "sin-2"})
"""The clusters that the tours of the documentation change: they do not change by themselves."""
VISIBLE_DELAYS: Final = AgentDelays(binding=0.5, applying=1.5, removing=1.0)
"""Slow enough to be visible."""


class Demo:
    """A fleet without its controller."""

    def __init__(
        self,
        api: Api,
        *,
        clock: Clock,
        random: Random,
        behavior: MemberBehavior | None = None,
        pace: AgentDelays = VISIBLE_DELAYS,
        announce: Announce = lambda *_: None,
    ) -> None:
        self._stand_in = RolloutSimulator(api, clock=clock, jitter=random.random, pace=pace)
        self._usage = WorkloadUsage(api, clock=clock, jitter=random.random, list_applied=self._stand_in.list_applied)
        self._workloads = Workloads(api, clock=clock, jitter=random.random)
        self.members = SimulatedMembers(
            api,
            clock=clock,
            random=random,
            behavior=behavior or MemberBehavior(spared=TOURED),
            namespaces_on=self._stand_in.namespaces_on,
            usage_on=self._usage.measure,
            announce=announce,
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.members.run(), name="demo-members")
            tasks.create_task(self._stand_in.run(), name="demo-rollout")
            tasks.create_task(self._usage.run(), name="demo-usage")

    async def begin(self, size: int | None) -> None:
        """Returns when members and workloads exist. Without a size, an existing fleet keeps its members, and a new one
        gets a dozen."""
        if size is None:
            size = 0 if await self._workloads.was_started_before() else FIRST_SIZE
        await self.members.establish(size)
        await self._workloads.establish()
