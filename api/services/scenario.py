"""Scenarios on the present fleet: its clusters and placements, played from an empty hub on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from api.auth.access import placement_access
from api.auth.permissions import Permissions
from api.http.problems import unprocessable
from api.live.backend import Backend
from api.live.live import LiveState
from api.live.scenario_process import ScenarioInputs
from api.models import ScenarioAnswer, ScenarioRequest
from api.services.export import list_cluster_documents
from fleet.kube.informer import Informer
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, DISRUPTION_BUDGETS, NAMESPACED, PRIORITY_CLASSES
from fleet.model.decoding import drop_nulls
from fleet.model.views import Metadata

_MOST_OBJECTS: Final = 5000
_SECOND: Final = 1_000_000_000
_KEPT: Final = ("name", "namespace", "labels", "annotations", "uid", "creationTimestamp")
"""Of the metadata: approvals are about the placement with that UID, and expire. The rest belongs to the hub."""


async def require_rights(permissions: Permissions, request: ScenarioRequest) -> None:
    """The answer names clusters and placements of the whole fleet, so all of them have to be visible."""
    await permissions.require_all_clusters()
    await permissions.require_all_placements()
    for namespace in sorted({*_list_namespaces(request.steps)}):
        await permissions.require(placement_access("create", namespace))


def _list_namespaces(steps: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Of the placements that steps create. What is no scenario is refused later, by its fields."""
    for step in steps:
        documents = step.get("apply")
        for document in documents if isinstance(documents, list) else ():
            if isinstance(document, dict) and isinstance(metadata := document.get("metadata"), dict):
                if document.get("kind") == CLUSTER_SCOPED.placement.kind:
                    yield ""
                elif document.get("kind") == NAMESPACED.placement.kind:
                    yield str(metadata.get("namespace") or "default")
        filled = step.get("fill")
        if isinstance(filled, dict):
            yield str(filled.get("placement", "")).rpartition("/")[0]


async def play_scenario(
    backend: Backend, permissions: Permissions, request: ScenarioRequest
) -> tuple[ScenarioAnswer, str]:
    """Also as text."""
    backend.live.require_synced()
    documents = list(_list_documents(backend.live))
    if len(documents) > _MOST_OBJECTS:
        raise unprocessable(
            "steps",
            len(documents),
            f"a fleet of more than {_MOST_OBJECTS} clusters and placements is not played here",
            "use fleet simulate --scenario with files",
        )
    scenario: dict[str, Any] = {"steps": list(request.steps)}
    if request.until is not None:
        scenario["until"] = request.until
    start = backend.live.now() // _SECOND * _SECOND
    inputs = ScenarioInputs(scenario=scenario, documents=documents, settings=backend.effective.settings, start=start)
    async with backend.evaluator.admit(permissions.caller.name):
        report, text = await backend.scenarios.run(inputs)
    return msgspec.convert(report, ScenarioAnswer), text


def _list_documents(live: LiveState) -> Iterator[dict[str, Any]]:
    """What decisions depend on and controllers do not write, as one would apply it."""
    caches = live.caches
    yield from _clean(PRIORITY_CLASSES, (each.document() for each in caches.priority_classes.store.values()))
    yield from _clean(DISRUPTION_BUDGETS, (each.document() for each in caches.disruption_budgets.store.values()))
    for document in list_cluster_documents(live):
        if not document["metadata"].get("deletionTimestamp"):
            yield _complete_cluster(drop_nulls(document))
    for kinds in caches.kinds:
        informers: tuple[Informer[Any], ...] = (
            kinds.quotas,
            kinds.groups,
            kinds.options,
            kinds.placements,
            kinds.approvals,
        )
        for informer in informers:
            observed = sorted(informer.store.values(), key=lambda each: _age(each.view.metadata))
            yield from _clean(informer.resource, (each.document() for each in observed))


def _age(metadata: Metadata) -> tuple[str, str, str]:
    return metadata.creation_timestamp or "", metadata.namespace, metadata.name


def _clean(resource: Resource, documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    for document in documents:
        if not document["metadata"].get("deletionTimestamp"):
            body = {name: value for name, value in document.items() if name != "status"}
            yield {**body, **typed, "metadata": _reduce(document["metadata"])}


def _complete_cluster(document: dict[str, Any]) -> dict[str, Any]:
    """With the fields that a hub requires, and decisions do not read."""
    metadata, status = _reduce(document["metadata"]), document.get("status", {})
    for holder in (status, *status.get("agentStatus", ())):
        filled = [{"reason": each["type"], "message": "", **each} for each in holder.get("conditions", ())]
        if filled:
            holder["conditions"] = filled
    for each in status.get("properties", {}).values():
        each.setdefault("value", "")
    identity = {"kind": "User", "name": metadata["name"]}
    return {**document, "metadata": metadata, "spec": {"identity": identity, **document.get("spec", {})}}


def _reduce(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: metadata[name] for name in _KEPT if metadata.get(name)}
