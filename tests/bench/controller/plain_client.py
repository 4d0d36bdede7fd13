"""The hub's own limit: `python -m tests.bench.controller.plain_client URL TOKEN CA_FILE RUN`.

For every snapshot of the run that appears it writes what a scheduler writes, in the same order and of the same size,
and decides nothing: the finalizer onto the placement, ten bindings side by side, the status of the snapshot. Like a
scheduler it is somebody else than who made the placements.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import SCHEDULER_CLEANUP
from tests.bench.controller.documents import PICKS, binding, selector, status
from tests.bench.controller.hubs import Hub
from tests.bench.controller.traffic import Traffic
from tests.bench.fleets import name_of


async def work(hub: Hub, run: str) -> None:
    async with Traffic.to(hub, agent="fleet-bench-plain-client") as traffic, asyncio.TaskGroup() as group:
        placements = await _placements(traffic, run)
        listed = await traffic.list(CLUSTER_SCOPED.policy_snapshot, selector(run))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        version = listed.metadata.resource_version
        async for event in traffic.watch(CLUSTER_SCOPED.policy_snapshot, selector(run), version):
            if event.type == "ADDED":
                metadata = event.object.metadata
                placement = placements[metadata.name.removesuffix("-0")]
                group.create_task(_place(traffic, placement, metadata.resource_version))


async def _placements(traffic: Traffic, run: str) -> dict[str, Any]:
    listed = await traffic.list(CLUSTER_SCOPED.placement, selector(run))
    documents = (msgspec.json.decode(one) for one in listed.items or ())
    return {one["metadata"]["name"]: one for one in documents}


async def _place(traffic: Traffic, placement: dict[str, Any], version: str) -> None:
    kinds, name = CLUSTER_SCOPED, placement["metadata"]["name"]
    metadata = {**placement["metadata"], "finalizers": [SCHEDULER_CLEANUP]}
    typed = {"apiVersion": kinds.placement.api_version, "kind": kinds.placement.kind}
    await traffic.send("PUT", kinds.placement.item(name), {**placement, **typed, "metadata": metadata})
    await asyncio.gather(
        *(traffic.post(kinds.binding, binding(name, name_of(number))) for number in range(PICKS)),
    )
    about = {"name": f"{name}-0", "resourceVersion": version}
    await traffic.put_status(kinds.policy_snapshot, {"metadata": about, "status": status()})


if __name__ == "__main__":
    url, token, ca_file, run = sys.argv[1:]
    hub = Hub(url, Path(), token, Path(ca_file) if ca_file else None)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(hub, run))
