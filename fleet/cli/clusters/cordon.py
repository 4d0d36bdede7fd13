"""The cordon taint of KubeFleet's tools on a member cluster: `fleet cordon` and `fleet uncordon`."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from fleet.errors import Conflict
from fleet.kube.api import WRITE_CLASS, Api, Method, Request
from fleet.kube.objects import MERGE_PATCH
from fleet.kube.scopes import MEMBER_CLUSTERS

Json = dict[str, Any]

CORDON: Final = {"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}
"""Of KubeFleet's `draincluster` and `uncordoncluster`: what one sets, the other takes away."""
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.1


async def read_cluster(api: Api, cluster: str) -> Json:
    document: Json = json.loads(await api.call(Request(Method.GET, MEMBER_CLUSTERS.item(cluster))))
    return document


def is_cordoned(cluster: Json) -> bool:
    return CORDON in _list_taints(cluster)


async def set_cordon(api: Api, name: str, *, cordoned: bool) -> bool:
    """Returns whether the cluster was changed. Other taints stay, also those that are added at the same time."""
    for attempt in range(_ATTEMPTS):
        cluster = await read_cluster(api, name)
        if is_cordoned(cluster) is cordoned:
            return False
        taints = [taint for taint in _list_taints(cluster) if taint != CORDON] + ([CORDON] if cordoned else [])
        try:
            await _patch(api, name, {"resourceVersion": cluster["metadata"]["resourceVersion"]}, taints)
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(_PAUSE)
        else:
            return True
    raise AssertionError("unreachable: the last attempt raises or returns")


async def _patch(api: Api, name: str, metadata: Json, taints: list[Json]) -> None:
    body = json.dumps({"metadata": metadata, "spec": {"taints": taints or None}}).encode()
    path = MEMBER_CLUSTERS.item(name)
    await api.call(Request(Method.PATCH, path, body=body, content_type=MERGE_PATCH, call_class=WRITE_CLASS))


def _list_taints(cluster: Json) -> list[Json]:
    return (cluster.get("spec") or {}).get("taints") or []
