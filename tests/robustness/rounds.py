"""One round: clients and watchers at work while faults strike, then every check over what they recorded."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.robustness.clients import PATIENCE, Round
from tests.robustness.faults import Faults, HubProcess
from tests.robustness.fleet import FleetProcesses
from tests.robustness.history import Result, acknowledged
from tests.robustness.linearizability import check
from tests.robustness.requests import request
from tests.robustness.watch_checks import check_watches, find_lost_writes

CLIENTS: Final = 6
WATCHERS: Final = 2
KEYS: Final = 8


@dataclass
class Report:
    """One line of the table."""

    number: int
    faults: dict[str, int]
    operations: int = 0
    acknowledged: int = 0
    unknown: int = 0
    events: int = 0
    relists: int = 0
    seconds: float = 0.0
    lost: list[str] = field(default_factory=list)
    not_linearizable: list[str] = field(default_factory=list)
    watch_violations: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    not_placed: list[str] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        return [*self.lost, *self.not_linearizable, *self.watch_violations, *self.unexpected, *self.not_placed]


async def run_round(hub: HubProcess, fleet: FleetProcesses, rng: Random, *, number: int, faults: int) -> Report:
    begun = time.monotonic()
    namespace = f"round-{number}"
    await hub.wait_until_serving()
    await request(hub.forwarder.port, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    work = Round(hub.forwarder.port, namespace, hub.wait_until_serving)
    keys = [f"k{index}" for index in range(KEYS)]
    strikes = Faults(hub, rng, others={"controller": fleet.controller, "API": fleet.api})
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(work.follow(f"watcher-{index}")) for index in range(WATCHERS)]
        clients = [
            group.create_task(work.write_and_read(f"client-{index}", keys, Random(rng.random())))
            for index in range(CLIENTS)
        ]
        editing = group.create_task(fleet.edit(Random(rng.random())))
        for _ in range(faults):
            await strikes.rest(0.1, 0.6)
            await strikes.strike()
        await hub.wait_until_serving()
        work.is_over = True
        editing.cancel()
        await asyncio.wait(clients)
        final = await work.finish(keys)
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait(watchers)
    report = _check(work, final, number=number, faults=strikes.counts)
    report.not_placed = await fleet.check()
    report.seconds = time.monotonic() - begun
    return report


def _check(work: Round, final: dict[str, tuple[str, int]], *, number: int, faults: dict[str, int]) -> Report:
    operations = work.history.operations
    violations = (check(key, recorded) for key, recorded in work.history.by_key().items())
    return Report(
        number,
        faults,
        operations=len(operations),
        acknowledged=len(acknowledged(operations)),
        unknown=sum(operation.result is Result.UNKNOWN for operation in operations),
        events=sum(len(segment.events) for segment in work.segments),
        relists=len(work.segments) - WATCHERS,
        lost=find_lost_writes(operations, final),
        not_linearizable=[f"{violation.key}: {violation.text}" for violation in violations if violation],
        watch_violations=check_watches(work.segments, operations),
        unexpected=work.unexpected,
    )
