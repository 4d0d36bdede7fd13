"""`fleet approve`: the Approved condition of an approval request, with which a staged update goes on."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Final

from fleet.cli.client.hub_access import HubOptions, connect_to_hub, describe_missing
from fleet.clock import SystemClock, epoch_nanoseconds
from fleet.errors import Conflict, InputError
from fleet.kube.api import WRITE_CLASS, Api, Method, Request
from fleet.kube.resource import STATUS, Resource, join_key
from fleet.model.keys import PLACEMENT_GROUP, STORAGE_VERSION
from fleet.model.timestamps import format_timestamp

Json = dict[str, Any]

_CLUSTER_SCOPED: Final = Resource(
    PLACEMENT_GROUP, STORAGE_VERSION, "clusterapprovalrequests", "ClusterApprovalRequest", namespaced=False
)
_NAMESPACED: Final = Resource(PLACEMENT_GROUP, STORAGE_VERSION, "approvalrequests", "ApprovalRequest", namespaced=True)
_KINDS: Final = {
    "clusterapprovalrequest": _CLUSTER_SCOPED,
    "careq": _CLUSTER_SCOPED,
    "approvalrequest": _NAMESPACED,
    "areq": _NAMESPACED,
}
_APPROVED: Final = "Approved"
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.1


def run_approve(kind: str, name: str, namespace: str, hub: HubOptions) -> int:
    resource = _KINDS.get(kind.lower().removesuffix("s"))
    if resource is None:
        raise InputError(f"{kind!r} cannot be approved; use clusterapprovalrequest or approvalrequest", field="KIND")
    if resource.namespaced and not namespace:
        raise InputError("an ApprovalRequest is in a namespace: name it", field="--namespace")
    asyncio.run(_run(resource, join_key(namespace if resource.namespaced else "", name), hub))
    sys.stdout.write(f"{resource.kind} {name} approved\n")
    return 0


async def _run(resource: Resource, key: str, hub: HubOptions) -> None:
    async with connect_to_hub(hub) as api:
        with describe_missing(resource.plural):
            for attempt in range(_ATTEMPTS):
                try:
                    await _approve(api, resource, key)
                except Conflict:
                    if attempt == _ATTEMPTS - 1:
                        raise
                    await asyncio.sleep(_PAUSE)
                else:
                    return


async def _approve(api: Api, resource: Resource, key: str) -> None:
    document: Json = json.loads(await api.call(Request(Method.GET, resource.item(key))))
    status = document.setdefault("status", {})
    before = status.get("conditions") or []
    known: Json = next((condition for condition in before if condition.get("type") == _APPROVED), {})
    is_approved = known.get("status") == "True"
    approved = {
        "type": _APPROVED,
        "status": "True",
        "reason": f"{resource.kind}Approved",
        "message": f"{resource.kind} has been approved",
        "observedGeneration": document["metadata"].get("generation", 0),
        "lastTransitionTime": known["lastTransitionTime"]
        if is_approved
        else format_timestamp(epoch_nanoseconds(SystemClock())),
    }
    status["conditions"] = [condition for condition in before if condition is not known] + [approved]
    body = json.dumps(document).encode()
    await api.call(Request(Method.PUT, resource.item(key, STATUS), body=body, call_class=WRITE_CLASS))
