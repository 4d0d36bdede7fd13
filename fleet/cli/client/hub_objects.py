"""Objects of a hub as documents, read with the caller's own rights and in pages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from fleet.errors import Forbidden, NotFound
from fleet.kube.api import Api, Method, Request
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED
from fleet.model.keys import SCHEDULING_GROUP

Json = dict[str, Any]

_PAGE: Final = 500
_NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
_DECIDING: Final = (
    MEMBER_CLUSTERS,
    *(
        resource
        for scope in (CLUSTER_SCOPED, NAMESPACED)
        for resource in (scope.placement, scope.options, scope.quota, scope.policy_snapshot, scope.binding)
    ),
)
"""The kinds that decisions depend on."""
_OPTIONAL: Final = tuple(
    resource for resource in _DECIDING if resource.namespaced or resource.group == SCHEDULING_GROUP
)
"""Those that a hub may lack."""


async def list_documents(api: Api, resource: Resource, *, namespace: str = "", labels: str = "") -> list[Json]:
    """All pages, each object with its apiVersion and kind."""
    documents: list[Json] = []
    after = ""
    while True:
        query = {"limit": str(_PAGE), "labelSelector": labels, "continue": after}
        given = tuple((name, value) for name, value in query.items() if value)
        page = json.loads(await api.call(Request(Method.GET, resource.collection(namespace), query=given)))
        typed = {"apiVersion": resource.api_version, "kind": resource.kind}
        documents += [{**typed, **item} for item in page.get("items") or ()]
        after = page.get("metadata", {}).get("continue", "")
        if not after:
            return documents


async def list_deciding_documents(api: Api) -> AsyncIterator[Json]:
    """Everything that decisions depend on."""
    for resource in _DECIDING:
        try:
            documents = await list_documents(api, resource)
        except NotFound:
            if resource not in _OPTIONAL:
                raise
            continue
        for document in documents:
            yield document


async def find_missing_namespaces(api: Api, names: Iterable[str]) -> list[str]:
    """Those that the hub does not have. One that the caller may not read counts as there."""
    missing = []
    for name in names:
        try:
            await api.call(Request(Method.GET, _NAMESPACES.item(name)))
        except NotFound:
            missing.append(name)
        except Forbidden:
            continue
    return missing
