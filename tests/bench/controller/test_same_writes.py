"""The plain client makes the writes of the controller: as many, to the same resources, of the same objects."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.bench.controller.creating import Created, list_writes, open_fleet, run_burst, run_plain
from tests.bench.controller.documents import Json
from tests.bench.controller.hubs import EMBEDDED
from tests.bench.controller.same_writes import read_example
from tests.bench.controller.traffic import Traffic

PLACEMENTS = 6
NAME = "created-0003"
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences")


async def objects_of(traffic: Traffic) -> list[Json]:
    """Of one placement, without what the hub assigns."""
    found = []
    for resource in (CLUSTER_SCOPED.policy_snapshot, CLUSTER_SCOPED.resource_snapshot, CLUSTER_SCOPED.binding):
        listed = await traffic.list(resource, f"kubernetes-fleet.io%2Fparent-CRP%3D{NAME}")
        for item in listed.items or ():
            document: Json = msgspec.json.decode(item)
            metadata = {key: value for key, value in document["metadata"].items() if key not in VOLATILE}
            found.append({"kind": document["kind"], "spec": document["spec"], "labels": metadata.get("labels")})
    return sorted(found, key=lambda one: (one["kind"], str(one["spec"].get("targetCluster"))))


@pytest.mark.long
def test_the_plain_client_makes_the_writes_of_the_controller() -> None:
    async def run() -> None:
        created = Created(PLACEMENTS)
        async with open_fleet(EMBEDDED, 20) as (hub, traffic):
            await run_burst(hub, traffic, created, None)
            example = await read_example(traffic, "created-0000", created.requests, PLACEMENTS)
            decided = await objects_of(traffic)
        async with open_fleet(EMBEDDED, 20) as (_, traffic):
            before = await traffic.counted()
            await run_plain(traffic, example, PLACEMENTS)
            made = list_writes(await traffic.counted() - before)
            written = await objects_of(traffic)

        assert made - Counter({"POST clusterresourceplacements": PLACEMENTS}) == list_writes(created.requests)
        kinds = Counter(one["kind"] for one in decided)
        assert kinds == Counter(one["kind"] for one in written)
        assert [one["labels"] for one in decided] == [one["labels"] for one in written]

    asyncio.run(run())
