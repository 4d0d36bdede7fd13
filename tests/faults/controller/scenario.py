"""What people do to a hub, in steps: placements of every type and in both scopes come, change and go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from tests.e2e.world import CONFIG_MAPS, NAMESPACES, World

Step = Callable[[World], Awaitable[None]]

CLUSTERS: Final = {"a": "eu", "b": "eu", "c": "eu", "d": "us", "e": "us", "f": "asia"}
SCOPES: Final = ("", "shop/")


async def prepare(world: World) -> None:
    """What is there before anybody controls the hub."""
    for name, region in CLUSTERS.items():
        await world.join(name, labels={"region": region})
    for namespace in ("shop", "app"):
        if await world.find(NAMESPACES, namespace):  # of an earlier test: not every hub under test can delete those
            await world.delete(CONFIG_MAPS, f"{namespace}/content")
        else:
            await world.create(NAMESPACES, {"metadata": {"name": namespace}})
        await world.create(CONFIG_MAPS, _content(namespace, value="1"))


async def place(world: World) -> None:
    for scope in SCOPES:
        selects = _configuration() if scope else _namespace()
        seen = {} if scope else {"statusReportingScope": "NamespaceAccessible"}
        await world.place(f"{scope}all", {"placementType": "PickAll"}, selects=selects)
        await world.place(f"{scope}fixed", _fixed("a", "c", "nowhere"), selects=selects, **seen)
        await world.place(f"{scope}some", {"placementType": "PickN", "numberOfClusters": 3, **_LIKES}, selects=selects)


async def want_more(world: World) -> None:
    for scope in SCOPES:
        await world.edit_policy(f"{scope}some", numberOfClusters=5)


async def want_fewer(world: World) -> None:
    for scope in SCOPES:
        await world.edit_policy(f"{scope}some", numberOfClusters=2)


async def change_policies(world: World) -> None:
    """New snapshots: bindings that still fit are kept, others make room."""
    for scope in SCOPES:
        await world.edit_policy(f"{scope}all", affinity=_within("eu", "us"))
        await world.edit_policy(f"{scope}some", topologySpreadConstraints=_SPREAD, affinity=_within("eu", "us"))
        await world.edit_policy(f"{scope}fixed", clusterNames=["b", "c"])


async def change_content(world: World) -> None:
    for namespace in ("app", "shop"):
        await world.patch(CONFIG_MAPS, f"{namespace}/content", {"data": {"value": "2"}})


async def lose_a_cluster(world: World) -> None:
    await world.delete(MEMBER_CLUSTERS, "c")


async def delete(world: World) -> None:
    for scope in SCOPES:
        for name in ("all", "fixed"):
            key = f"{scope}{name}"
            await world.delete(find_scope(key).placement, key)


STEPS: Final[tuple[Step, ...]] = (
    place,
    want_more,
    want_fewer,
    change_policies,
    change_content,
    lose_a_cluster,
    delete,
)

# --- documents --------------------------------------------------------------------------------------------------------

_SPREAD: Final = [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]


def _content(namespace: str, *, value: str) -> dict[str, Any]:
    return {"metadata": {"name": "content", "namespace": namespace}, "data": {"value": value}}


def _configuration() -> list[dict[str, Any]]:
    return [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "content"}]


def _namespace() -> list[dict[str, Any]]:
    return [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]


def _fixed(*clusters: str) -> dict[str, Any]:
    return {"placementType": "PickFixed", "clusterNames": list(clusters)}


def _within(*regions: str) -> dict[str, Any]:
    required = {"clusterSelectorTerms": [_in_region(*regions)]}
    return {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _in_region(*regions: str) -> dict[str, Any]:
    return {"labelSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": list(regions)}]}}


_LIKES: Final = {
    "affinity": {
        "clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "preference": _in_region(region)} for region, weight in {"eu": 30, "us": 20}.items()
            ]
        }
    }
}
"""Scores that do not depend on what was picked before, as those of a spread do: who makes room when fewer are wanted is
decided by the scores of the day each was picked, and a death between two writes moves that day."""
