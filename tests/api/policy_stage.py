"""The fleet of `examples/fleet` on a hub, with the policies of `tests/policies` as placements, behind every door."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.http.server import ListenOptions, serve_app
from api.live.embedded import build_live_state
from fleet.clock import SystemClock
from fleet.history import History
from fleet.kube.resource import STATUS
from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.recorder.recorder import HistoryRecorder
from fleet.settings import Address, load_settings
from tests.api.stage import ADMIN, PATIENT, QUICK, TOKENS, Json, Stage, a_hub_with
from tests.databases import fill
from tests.e2e.hub import soon
from tests.e2e.world import NAMESPACES, World, configured, controlled
from tests.policies import REMARKED, path_of

SILENT: Final = "iad-2"
"""Its heartbeat is as old as the file."""
LEAVING: Final = "atl-1"
_FLEET: Final = Path("examples/fleet")


@dataclass(frozen=True)
class PolicyStage:
    url: str
    stage: Stage
    fleet_file: Path
    """The clusters as they are on the hub."""
    token_file: Path


def read_documents(name: str) -> list[Json]:
    return list(yaml.safe_load_all(Path(path_of(name)).read_text()))


def read_clusters() -> Iterator[Json]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for path in sorted(_FLEET.glob("*.yaml")):
        for cluster in yaml.safe_load_all(path.read_text()):
            for agent in cluster["status"]["agentStatus"]:
                if cluster["metadata"]["name"] != SILENT:
                    agent["lastReceivedHeartbeat"] = now
            yield cluster


async def join(world: World, cluster: Json) -> None:
    metadata = {name: value for name, value in cluster["metadata"].items() if name != "deletionTimestamp"}
    await world.create(MEMBER_CLUSTERS, {"metadata": metadata, "spec": cluster["spec"]})
    await world.patch(MEMBER_CLUSTERS, metadata["name"], {"status": cluster["status"]}, subresource=STATUS)
    if "deletionTimestamp" in cluster["metadata"]:
        await world.delete(MEMBER_CLUSTERS, metadata["name"])


@asynccontextmanager
async def a_policy_stage(folder: Path) -> AsyncIterator[PolicyStage]:
    hub = a_hub_with(TOKENS)
    world = World(hub)
    clusters = list(read_clusters())
    for cluster in clusters:
        await join(world, cluster)
    await world.create(NAMESPACES, {"metadata": {"name": "shop"}})
    history = History.open(fill(f"sqlite:///{folder / 'history.sqlite'}"))
    history.start()
    try:
        async with controlled(hub, PATIENT, recorder=HistoryRecorder(history, configured())) as controller:
            app = create_app(
                build_live_state(controller),
                history,
                HubAuthorizer(hub, clock=SystemClock()),
                load_settings(None, {}, [PATIENT]),
                stream_timing=QUICK,
            )
            stage = Stage(hub, world, app, history, controller)
            for name in REMARKED:
                await place(world, read_documents(name)[0])
            await stage.wait_until_recorded()
            fleet_file, token_file = folder / "fleet.json", folder / "token"
            fleet_file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": clusters}))
            token_file.write_text(ADMIN)
            token_file.chmod(0o600)
            async with serve_app(app, ListenOptions(address=Address("127.0.0.1:0"))) as url:
                yield PolicyStage(url, stage, fleet_file, token_file)
    finally:
        history.close()


async def place(world: World, document: Json) -> None:
    """Returns when the controllers have said all that they will say about it."""
    name = document["metadata"]["name"]
    await world.create(find_scope(name).placement, document)

    async def is_judged() -> Any:
        conditions = (await world.placement(name)).get("status", {}).get("conditions", [])
        return any(each["type"].endswith("Scheduled") and each["status"] != "Unknown" for each in conditions)

    await soon(is_judged)
