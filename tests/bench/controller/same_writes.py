"""What the controller writes for a placement, learnt from one burst, and a plain client that writes the same.

It decides nothing, watches nothing and waits for nothing but the answers: that is what the hub takes on this machine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import PARENT_PLACEMENT
from tests.bench.controller.documents import SPREAD, Json, placement
from tests.bench.controller.placing import is_write
from tests.bench.controller.traffic import Traffic

PLACEMENT: Final = CLUSTER_SCOPED.placement
SNAPSHOT: Final = CLUSTER_SCOPED.policy_snapshot
_CREATED: Final = (SNAPSHOT, CLUSTER_SCOPED.resource_snapshot)
_ASSIGNED: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""By the hub."""


@dataclass(frozen=True)
class Example:
    """The objects of one placement in the end, and how often each was written for how many placements."""

    name: str
    uid: str
    placement: Json
    documents: Mapping[Resource, tuple[Json, ...]]
    writes: Counter[str]
    placements: int

    def count(self, write: str, number: int) -> int:
        """For the placement of that number: all together have as many as the controller made."""
        total = self.writes[write]
        return total * (number + 1) // self.placements - total * number // self.placements

    def copy(self, resource: Resource, name: str, uid: str) -> Iterator[Json]:
        """The objects for a placement with another name."""
        text = msgspec.json.encode(self.documents[resource])
        for document in msgspec.json.decode(
            text.replace(self.name.encode(), name.encode()).replace(self.uid.encode(), uid.encode())
        ):
            metadata = {key: value for key, value in document["metadata"].items() if key not in _ASSIGNED}
            yield {**document, "metadata": metadata}


async def read_example(traffic: Traffic, name: str, requests: Counter[str], placements: int) -> Example:
    """`requests` were made for so many placements; events are left out, which come later and may be dropped."""
    document: Json = msgspec.json.decode(await traffic.send("GET", PLACEMENT.item(name)))
    documents = {}
    for resource in (*_CREATED, CLUSTER_SCOPED.binding):
        listed = await traffic.list(resource, f"{PARENT_PLACEMENT}%3D{name}".replace("/", "%2F"))
        documents[resource] = tuple(msgspec.json.decode(item) for item in listed.items or ())
        assert documents[resource], f"{name} has no {resource.plural}"
    writes = Counter({request: count for request, count in requests.items() if is_write(request)})
    return Example(name, document["metadata"]["uid"], document, documents, writes, placements)


async def write_the_same(traffic: Traffic, example: Example, run: str, name: str, number: int) -> None:
    """From the create of the placement to its last status."""
    made: Json = msgspec.json.decode(await traffic.post(PLACEMENT, placement(name, run=run, form=SPREAD)))
    finalizers = example.placement["metadata"]["finalizers"]
    for written in range(example.count(f"PUT {PLACEMENT.plural}", number)):
        metadata = {**made["metadata"], "finalizers": finalizers[: written + 1]}
        made = await _put(traffic, PLACEMENT.item(name), {**made, "metadata": metadata})
    uid = made["metadata"]["uid"]
    snapshot: Json = {}
    for resource in _CREATED:
        for document in example.copy(resource, name, uid):
            answer = msgspec.json.decode(await traffic.post(resource, document))
            snapshot = answer if resource is SNAPSHOT else snapshot
    bindings = example.copy(CLUSTER_SCOPED.binding, name, uid)
    await asyncio.gather(*(traffic.post(CLUSTER_SCOPED.binding, document) for document in bindings))
    (decided,) = example.copy(SNAPSHOT, name, uid)
    await _put(traffic, SNAPSHOT.item(f"{name}-0", "status"), {**snapshot, "status": decided["status"]})
    count = example.count(f"PUT {PLACEMENT.plural}/status", number)
    for status in _list_statuses(example.placement["status"], count):
        made = await _put(traffic, PLACEMENT.item(name, "status"), {**made, "status": status})


def _list_statuses(final: Json, count: int) -> Iterator[Json]:
    """The last one is the final one; those before differ from it, or the hub would not store them."""
    for left in reversed(range(count)):
        conditions = [
            {**condition, "status": "Unknown", "message": f"{left} to come"} if left else condition
            for condition in final["conditions"]
        ]
        yield {**final, "conditions": conditions}


async def _put(traffic: Traffic, path: str, document: Json) -> Json:
    answer: Json = msgspec.json.decode(await traffic.send("PUT", path, document))
    return answer
